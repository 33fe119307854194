// Uploading profiles as lines.
import { sendText } from "./api.js";
import { refresh } from "./parts.js";
import { say, sayError } from "./words.js";

const form = document.getElementById("upload-profiles");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = form.querySelector(".problem-text");
  const button = form.querySelector("button");
  problem.textContent = "";
  button.setAttribute("aria-busy", "true");
  try {
    const { added, skipped, errors } = await sendText("/upload/profiles", form.lines.value);
    const lines = [say("imported", { added, known: skipped.length, errors: errors.length }), ...errors.map((e) => say("line", { line: e.line, text: e.message }))];
    document.getElementById("upload-result").replaceChildren(...lines.map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
    if (!errors.length) form.reset();
    await refresh();
  } catch (error) {
    problem.textContent = sayError(error);
  }
  button.removeAttribute("aria-busy");
});
