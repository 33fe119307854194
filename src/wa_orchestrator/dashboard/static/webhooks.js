// Webhooks: making one, trying one, pausing, driving dead letters again.
import { call } from "./api.js";
import { onSubmit } from "./forms.js";
import { refresh } from "./parts.js";
import { toast } from "./tell.js";
import { say, sayError } from "./words.js";

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

const add = document.getElementById("add-webhook");
if (add) onSubmit(add, async (form) => {
  const body = { url: form.url.value.trim(), types: words(form.types.value), sessions: words(form.sessions.value), label: form.label.value.trim() };
  const { secret } = await call("POST", "/api/v1/webhooks", body);
  form.reset();
  const shown = document.getElementById("secret");
  document.getElementById("new-secret").hidden = false;
  shown.value = secret;
  shown.focus();
  shown.select();
});

async function act(button, work) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try { await work(); await refresh(); } catch (error) { toast(sayError(error), "bad"); }
  button.removeAttribute("aria-busy");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-test], [data-switch], [data-redrive]");
  if (!button) return;
  const { test, switch: switched, enabled, redrive, number } = button.dataset;
  if (test) act(button, async () => {
    const { delivered, tookMs, error } = await call("POST", `/api/v1/webhooks/${test}/test`);
    toast(delivered ? say("check_ok", { ms: tookMs }) : say("check_bad", { text: error }), delivered ? "" : "bad");
  });
  else if (switched) act(button, () => call("PATCH", `/api/v1/webhooks/${switched}`, { enabled: enabled === "true" }));
  else act(button, async () => {
    await call("POST", `/api/v1/webhooks/${redrive}/redrive`, { numbers: [Number(number)] });
    toast(say("redriven"));
  });
});
