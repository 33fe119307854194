// Restoring: asked once, and a second time when the live sessions are newer than the backup.
import { call } from "./api.js";
import { refresh } from "./parts.js";
import { confirmed, toast } from "./tell.js";
import { say, sayError } from "./words.js";

async function restore(backup, { sessions = [], passphrase = "" } = {}) {
  const title = say("restore_title");
  const text = sessions.length ? say("restore_some", { name: backup, sessions: sessions.join(", ") }) : say("restore_all", { name: backup });
  if (!(await confirmed({ title, text, ok: title, danger: true }))) return;
  const path = `/api/v1/backups/restore/${encodeURIComponent(backup)}`;
  try {
    await call("POST", path, { sessions, passphrase });
  } catch (error) {
    if (error.code !== "BACKUP_OLDER") throw error;
    const older = error.details.sessions.join(", ");
    if (!(await confirmed({ title, text: say("restore_older", { sessions: older }), ok: say("restore_force"), danger: true }))) return;
    await call("POST", path, { sessions, passphrase, force: true });
  }
  toast(say("restore_begun"));
  await refresh();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-restore]");
  if (!button || button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await restore(button.dataset.restore);
  } catch (error) {
    toast(sayError(error), "bad");
  }
  button.removeAttribute("aria-busy");
});

const form = document.getElementById("restore");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = form.querySelector(".problem-text");
  const button = form.querySelector("button");
  problem.textContent = "";
  button.setAttribute("aria-busy", "true");
  try {
    const sessions = form.sessions.value.split(/[\s,]+/).filter(Boolean);
    await restore(form.backup.value, { sessions, passphrase: form.passphrase.value });
    form.passphrase.value = "";
  } catch (error) {
    problem.textContent = sayError(error);
  }
  button.removeAttribute("aria-busy");
});

// the choice follows the list
document.addEventListener("parts:fresh", () => {
  const names = [...document.querySelectorAll("#backup-list tr[data-key]")].map((row) => row.dataset.key);
  if (names.join() === [...form.backup.options].map((option) => option.value).join()) return;
  const chosen = form.backup.value;
  form.backup.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
});
