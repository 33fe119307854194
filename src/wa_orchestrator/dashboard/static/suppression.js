// Putting numbers on the suppression list, one or many.
import { call, sendText } from "./api.js";
import { onSubmit } from "./forms.js";
import { toast } from "./tell.js";
import { say } from "./words.js";

onSubmit(document.getElementById("suppress"), async (form) => {
  const { cancelled } = await call("POST", "/api/v1/suppression", { phone: form.phone.value.trim(), reason: form.reason.value, note: form.note.value.trim() });
  form.reset();
  toast(say("suppressed", { cancelled }));
});

onSubmit(document.getElementById("suppress-many"), async (form) => {
  const { added, known, errors } = await sendText("/api/v1/suppression/import", form.lines.value);
  const told = [say("imported", { added, known, errors: errors.length }), ...errors.map((e) => say("line", { line: e.line, text: e.message }))];
  document.getElementById("import-result").replaceChildren(...told.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  if (!errors.length) form.reset();
});
