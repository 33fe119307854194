// Keeps the page's parts fresh: after events, every so often, and when somebody filters, sorts or turns the page.
import { getHtml } from "./api.js";
import { onEvent } from "./live.js";
import { morph } from "./morph.js";
import { tellTimes } from "./times.js";

const { part, session, every } = document.body.dataset;
const QUIET_MS = 1000; // after a refresh, so that a busy system does not keep the page busy
let running = false;
let again = false;
let timer;
let question = 0;

/** Asks the server for the page's parts and brings the page there. */
export async function refresh() {
  if (!part) return;
  clearTimeout(timer);
  timer = undefined;
  if (running) { again = true; return; }
  running = true;
  const asked = question;
  try {
    const html = await getHtml(part + location.search);
    if (asked === question) apply(html);
  } catch (error) {
    if (error.status === 404) location.reload(); // it was deleted
  }
  running = false;
  if (again || asked !== question) { again = false; await refresh(); }
}

export function refreshSoon() {
  timer ??= setTimeout(refresh, QUIET_MS);
}

function apply(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const element of [...fresh.body.children]) {
    const old = element.id && document.getElementById(element.id);
    if (old) morph(old, element);
  }
  tellTimes();
  document.dispatchEvent(new CustomEvent("parts:fresh"));
}

function go(url) {
  history.replaceState(null, "", url);
  question += 1;
  refresh();
}

function filtered(form) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) asked.set(name, value);
  return `${form.getAttribute("action")}${asked.size ? `?${asked}` : ""}`;
}

if (part) {
  onEvent((event) => {
    if (!session || event.sessionId === session) refreshSoon();
  });
  if (every) setInterval(() => { if (!document.hidden) refresh(); }, Number(every) * 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

for (const form of document.querySelectorAll("form[data-filter]")) {
  let typing;
  form.addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => go(filtered(form)), event.target.type === "search" ? 200 : 0);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); go(filtered(form)); });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-soft]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const sort = new URL(link.href).searchParams.get("sort");
  const kept = document.querySelector('form[data-filter] input[name="sort"]');
  if (sort && kept) kept.value = sort;
  if (!new URL(link.href).search) document.querySelector("form[data-filter]")?.reset();
  go(link.href);
});
