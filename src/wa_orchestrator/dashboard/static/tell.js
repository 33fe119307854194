// Tells the person something: a short note, or a question before something is done.
export function toast(text, tone = "") {
  const note = document.createElement("div");
  note.className = "toast";
  note.dataset.tone = tone;
  note.textContent = text;
  document.getElementById("toasts")?.append(note);
  setTimeout(() => note.remove(), tone === "bad" ? 9000 : 4000);
}

/** True when the person agrees. */
export function confirmed({ title, text, ok, danger }) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("#confirm-title").textContent = title;
  dialog.querySelector("#confirm-text").textContent = text;
  const [cancel, agree] = dialog.querySelectorAll("button");
  agree.textContent = ok;
  agree.classList.toggle("danger", Boolean(danger));
  dialog.returnValue = "";
  dialog.showModal();
  (danger ? cancel : agree).focus();
  return new Promise((resolve) => {
    cancel.onclick = () => dialog.close("");
    agree.onclick = () => dialog.close("ok");
    dialog.onclose = () => resolve(dialog.returnValue === "ok");
  });
}
