// Everything that happens, as it happens; with a filter and a pause.
import { getHtml } from "./api.js";
import { onEvent } from "./live.js";
import { tellTimes } from "./times.js";
import { say } from "./words.js";

const MOST_LINES = 500;
const QUIET_MS = 400; // under a flood, lines come in sheaves
const form = document.getElementById("log-filter");
const button = document.getElementById("log-pause");
const missedNote = document.getElementById("log-missed");
let last = document.getElementById("events").dataset.last;
let paused = false;
let missed = 0;
let timer;

function asked(more = {}) {
  const values = new URLSearchParams(more);
  for (const [name, value] of new FormData(form)) if (value) values.set(name, value);
  return values;
}

async function get(more) {
  const fresh = new DOMParser().parseFromString(await getHtml(`/parts/events?${asked(more)}`), "text/html");
  last = fresh.getElementById("events").dataset.last;
  return [...fresh.getElementById("event-list").children];
}

async function add() {
  timer = undefined;
  if (paused) return;
  const list = document.getElementById("event-list");
  try { list.prepend(...await get({ after: last })); } catch { return; }
  while (list.children.length > MOST_LINES) list.lastElementChild.remove();
  tellTimes(list);
}

async function again() {
  const values = asked();
  history.replaceState(null, "", `/live-log${values.size ? `?${values}` : ""}`);
  const lines = await get();
  document.getElementById("event-list").replaceChildren(...lines);
  tellTimes();
}

onEvent(() => {
  if (paused) { missed += 1; missedNote.textContent = say("missed", { n: missed }); } else timer ??= setTimeout(add, QUIET_MS);
});
button.addEventListener("click", () => {
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  button.querySelector("span").textContent = paused ? button.dataset.go : button.dataset.pause;
  if (!paused) { missed = 0; missedNote.textContent = ""; add(); }
});
let typing;
form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(again, 200); });
form.addEventListener("submit", (event) => { event.preventDefault(); again(); });
