// Making, rotating and switching API keys. A new key is shown in the page this once and kept nowhere.
import { call } from "./api.js";
import { onSubmit } from "./forms.js";
import { refresh } from "./parts.js";
import { confirmed, toast } from "./tell.js";
import { say, sayError } from "./words.js";

const box = document.getElementById("shown-key");
const secret = document.getElementById("secret");

function show(key) {
  secret.value = key;
  box.hidden = false;
  secret.focus();
  secret.select();
}

document.getElementById("copy-key").addEventListener("click", async () => {
  secret.select();
  try { await navigator.clipboard.writeText(secret.value); } catch { document.execCommand("copy"); }
  toast(say("copied"));
});

onSubmit(document.getElementById("new-key"), async (form) => {
  const body = { name: form.name.value.trim(), rights: [...form.querySelectorAll("[name=rights]:checked")].map((tick) => tick.value) };
  const sessions = form.sessions.value.split(/[\s,]+/).filter(Boolean);
  if (sessions.length) body.sessions = sessions;
  if (form.expires.value) body.expiresAt = new Date(form.expires.value).toISOString();
  if (form.rate.value) body.ratePerMinute = Number(form.rate.value);
  const { key } = await call("POST", "/api/v1/keys", body);
  form.reset();
  show(key);
});

document.addEventListener("click", async (event) => {
  const rotate = event.target.closest("[data-rotate]");
  const change = event.target.closest("[data-switch]");
  try {
    if (change) {
      await call("PATCH", change.dataset.switch, { disabled: change.dataset.off === "true" });
      await refresh();
    } else if (rotate) {
      const { confirmText: text, title, rotate: path } = rotate.dataset;
      if (!(await confirmed({ title, text, ok: title, danger: true }))) return;
      const { key } = await call("POST", `${path}/rotate`);
      await refresh();
      show(key);
    }
  } catch (error) {
    toast(sayError(error), "bad");
  }
});
