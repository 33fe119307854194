// What every page can do: preferences, menus, buttons that call the API.
import { call } from "./api.js";
import { refresh } from "./parts.js";
import { confirmed, toast } from "./tell.js";
import { tellTimes } from "./times.js";
import { say, sayError } from "./words.js";

tellTimes();

// preferences -----------------------------------------------------------------------------------------------------
const YEAR_S = 31536000;
const remember = (name, value) => { document.cookie = `${name}=${value}; path=/; max-age=${YEAR_S}; samesite=lax`; };

for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => { remember("wa_lang", button.dataset.language); location.reload(); });
}
for (const button of document.querySelectorAll("[data-set-theme]")) {
  button.addEventListener("click", () => {
    const theme = button.dataset.setTheme;
    remember("wa_theme", theme);
    document.documentElement.dataset.theme = theme;
    for (const other of document.querySelectorAll("[data-set-theme]")) other.setAttribute("aria-pressed", String(other === button));
    document.dispatchEvent(new CustomEvent("theme"));
  });
}

// menus -----------------------------------------------------------------------------------------------------------
const menuButton = document.getElementById("menu-button");
menuButton?.addEventListener("click", () => {
  const open = document.getElementById("side").classList.toggle("open");
  menuButton.setAttribute("aria-expanded", String(open));
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// buttons that call the API ---------------------------------------------------------------------------------------
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-call]");
  if (!button || button.getAttribute("aria-busy") === "true") return;
  const { confirm, confirmTitle, done, then, danger } = button.dataset;
  const [method, path] = button.dataset.call.split(" ");
  button.closest("details.menu")?.removeAttribute("open");
  if (confirm && !(await confirmed({ title: confirmTitle, text: confirm, ok: confirmTitle, danger: danger !== undefined }))) return;
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await call(method, path);
    if (done === "check") {
      const { ok, latencyMs, text } = answer.check;
      toast(ok ? say("check_ok", { ms: latencyMs }) : say("check_bad", { text }), ok ? "" : "bad");
    } else if (done) toast(done);
    if (then) { location.assign(then === "here" ? location.href : then); return; }
    await refresh();
  } catch (error) {
    toast(sayError(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
});
