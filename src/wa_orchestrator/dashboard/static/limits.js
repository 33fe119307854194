// Changing limits: each field follows the table, has a value of its own, or no limit.
import { call } from "./api.js";
import { refresh } from "./parts.js";
import { toast } from "./tell.js";
import { say, sayError } from "./words.js";

const number = (text) => (text === "" ? Number.NaN : Number(text));
const READ = {
  daily: (form) => number(form.daily.value),
  perMinute: (form) => number(form.perMinute.value),
  minDelayMs: (form) => Math.round(1000 * number(form.minDelayMs.value)),
  maxDelayMs: (form) => Math.round(1000 * number(form.maxDelayMs.value)),
  hours: (form) => `${form["hours.from"].value}-${form["hours.to"].value}`,
  burst: (form) => ({ count: number(form["burst.count"].value), pauseMs: Math.round(1000 * number(form["burst.pause"].value)) }),
  timezone: (form) => form.timezone.value.trim(),
};

function wanted(form) {
  const body = {};
  for (const [name, read] of Object.entries(READ)) {
    const mode = form[`${name}.mode`].value;
    if (mode === "none") body[name] = null;
    else if (mode === "own") body[name] = read(form);
  }
  if (form.preset.value) body.preset = form.preset.value;
  if (form.until.value) body.until = new Date(form.until.value).toISOString();
  return body;
}

for (const form of document.querySelectorAll("form[data-limits]")) {
  const show = () => {
    for (const field of form.querySelectorAll("[data-limit]")) {
      const own = field.querySelector("[data-mode]").value === "own";
      for (const input of field.querySelectorAll("input")) { input.disabled = !own; input.hidden = !own; }
    }
  };
  if (form.until.dataset.until) {
    const at = new Date(Number(form.until.dataset.until));
    form.until.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  }
  form.addEventListener("change", show);
  show();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = form.querySelector(".problem-text");
    problem.textContent = "";
    try {
      await call("PUT", form.dataset.limits, wanted(form));
      toast(say("saved"));
      await refresh();
    } catch (error) { problem.textContent = sayError(error); }
  });
}
