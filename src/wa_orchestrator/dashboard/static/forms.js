// Forms that call the API: busy while they work, and what is wrong is told below them.
import { refresh } from "./parts.js";
import { sayError } from "./words.js";

export function onSubmit(form, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = form.querySelector(".problem-text");
    const button = form.querySelector("button:not([type=button])");
    problem.textContent = "";
    button.setAttribute("aria-busy", "true");
    try { await work(form); await refresh(); } catch (error) {
      problem.textContent = error.code === "INVALID_BODY" ? error.message : sayError(error);
    }
    button.removeAttribute("aria-busy");
  });
}
