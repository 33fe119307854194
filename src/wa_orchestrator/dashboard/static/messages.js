// Sending a message, then watching its way.
import { call } from "./api.js";
import { sayError } from "./words.js";

const form = document.getElementById("send");
// one key per written message: pressing twice, or again after a lost answer, sends once
let key = crypto.randomUUID?.() ?? String(Math.random());
form.addEventListener("input", () => { key = crypto.randomUUID?.() ?? String(Math.random()); });
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = form.querySelector(".problem-text");
  const button = form.querySelector("button");
  problem.textContent = "";
  button.setAttribute("aria-busy", "true");
  const wanted = { to: form.to.value.trim(), message: form.text.value };
  if (form.sessionId.value) wanted.sessionId = form.sessionId.value;
  try {
    const { messageId } = await call("POST", "/api/v1/send", wanted, { "Idempotency-Key": key });
    location.assign(`/messages/${messageId}`);
  } catch (error) {
    problem.textContent = sayError(error);
    button.removeAttribute("aria-busy");
  }
});
