// Adding proxies, one or many.
import { call, sendText } from "./api.js";
import { refresh } from "./parts.js";
import { toast } from "./tell.js";
import { say, sayError } from "./words.js";

async function submit(form, work) {
  const problem = form.querySelector(".problem-text");
  const button = form.querySelector("button");
  problem.textContent = "";
  button.setAttribute("aria-busy", "true");
  try { await work(); await refresh(); } catch (error) {
    problem.textContent = error.code === "INVALID_PROXY" ? error.message : sayError(error);
  }
  button.removeAttribute("aria-busy");
}

const add = document.getElementById("add-proxy");
add.addEventListener("submit", (event) => {
  event.preventDefault();
  submit(add, async () => {
    await call("POST", "/api/v1/proxies", { proxy: add.proxy.value.trim() });
    add.reset();
    toast(say("added"));
  });
});

const many = document.getElementById("import-proxies");
many.addEventListener("submit", (event) => {
  event.preventDefault();
  submit(many, async () => {
    const { added, known, errors } = await sendText("/api/v1/proxies/import", many.lines.value);
    const list = document.getElementById("import-result");
    list.replaceChildren(...[say("imported", { added, known, errors: errors.length }), ...errors.map((e) => say("line", { line: e.line, text: e.message }))].map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
    if (!errors.length) many.reset();
  });
});
