// Answering in a conversation; opening it marks it as read.
import { call } from "./api.js";
import { onSubmit } from "./forms.js";

const newKey = () => crypto.randomUUID?.() ?? String(Math.random());
const form = document.getElementById("reply");

function toTheEnd() {
  const box = document.querySelector("#talk .scroll");
  if (box) box.scrollTop = box.scrollHeight;
}

toTheEnd();
if (form) {
  const { to, session, unread } = form.dataset;
  // one key per written answer: pressing twice, or again after a lost answer, sends once
  let key = newKey();
  form.addEventListener("input", () => { key = newKey(); });
  onSubmit(form, async () => {
    await call("POST", "/api/v1/send", { to, message: form.text.value, sessionId: session }, { "Idempotency-Key": key });
    form.reset();
    key = newKey();
  });
  if (unread !== undefined) call("POST", `/api/v1/sessions/${session}/conversations/${encodeURIComponent(to)}/read`).catch(() => {});
  let last = document.querySelector("#talk .said")?.children.length;
  document.addEventListener("parts:fresh", () => {
    const now = document.querySelector("#talk .said")?.children.length;
    if (now !== last) toTheEnd();
    last = now;
  });
}
