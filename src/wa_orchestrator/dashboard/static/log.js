// The end of a worker's log, followed.
import { getHtml } from "./api.js";

const EVERY_MS = 2000;
const MOST_LINES = 500;
const place = document.getElementById("log");
const list = place.querySelector("ul");
const button = document.getElementById("log-pause");
let paused = false;

place.scrollTop = place.scrollHeight;
button.addEventListener("click", () => {
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  button.querySelector("span").textContent = paused ? button.dataset.go : button.dataset.pause;
});

setInterval(async () => {
  if (paused || document.hidden) return;
  let html;
  try { html = await getHtml(`${place.dataset.log}?after=${list.dataset.position}`); } catch { return; }
  const fresh = new DOMParser().parseFromString(html, "text/html").querySelector("ul");
  if (Number(fresh.dataset.position) < Number(list.dataset.position)) list.replaceChildren();
  list.dataset.position = fresh.dataset.position;
  const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
  list.append(...fresh.children);
  while (list.children.length > MOST_LINES) list.firstElementChild.remove();
  if (atEnd) place.scrollTop = place.scrollHeight;
}, EVERY_MS);
