// Creating a session and scanning its code, without a reload; the same for operators and for a number's owner.
import { call } from "./api.js";
import { onEvent } from "./live.js";
import { toast } from "./tell.js";
import { language, say, sayError } from "./words.js";

const stage = document.getElementById("stage");
const operator = stage.dataset.operator !== undefined;
const ORDER = ["preparing", "scan", "linking", "connected"];
let base = stage.dataset.base;
let session = operator ? base.split("/").pop() : "";
let state = stage.dataset.state ? JSON.parse(stage.dataset.state) : undefined;
let drift = 0; // our clock against the server's
let validMs = 60000;

function show() {
  if (!state) return;
  drift = Date.parse(state.now) - Date.now();
  stage.dataset.step = state.step;
  for (const element of stage.querySelectorAll("[data-show]")) element.classList.toggle("hidden", !element.dataset.show.split(" ").includes(state.step));
  const reached = ORDER.indexOf(state.step);
  for (const item of stage.querySelectorAll("[data-step]")) {
    const place = ORDER.indexOf(item.dataset.step);
    item.dataset.state = state.step === "connected" || place < reached ? "done" : place === reached ? "now" : "";
  }
  if (state.step === "scan") {
    const image = document.getElementById("qr");
    const source = operator ? `/api/sessions/${session}/qr?format=svg&v=${state.code}` : `${base}/qr.svg?v=${state.code}`;
    if (image.getAttribute("src") !== source) {
      image.setAttribute("src", source);
      validMs = Math.max(1000, Date.parse(state.expiresAt) - Date.now() - drift);
    }
    tick();
  }
  if (state.step === "connected") {
    document.getElementById("done-phone").textContent = state.phone ?? "";
    if (operator) document.getElementById("done-proxy").textContent = state.proxy ?? "";
  }
  if (state.step === "ended") {
    document.getElementById("ended-status").textContent = state.statusText;
    document.getElementById("ended-reason").textContent = state.reasonText;
  }
}

function tick() {
  if (state?.step !== "scan") return;
  const left = Date.parse(state.expiresAt) - Date.now() - drift;
  const share = Math.max(0, Math.min(100, (100 * left) / validMs));
  const bar = document.getElementById("countdown-bar");
  bar.setAttribute("width", String(share));
  if (document.dir === "rtl") bar.setAttribute("x", String(100 - share));
  document.getElementById("countdown").textContent = left > 0 ? say("expires", { n: Math.ceil(left / 1000) }) : say("expired");
  if (left <= -1000 && left > -2000) look();
}

let looking = false;
async function look() {
  if (!base || looking) return;
  looking = true;
  try {
    state = await call("GET", operator ? base : `${base}/state`);
    show();
  } catch (error) {
    if (error.status === 404) location.reload();
  }
  looking = false;
}

// being told ------------------------------------------------------------------------------------------------------
if (operator) onEvent((event) => { if (session && event.sessionId === session) look(); });
else {
  let changes;
  const listen = () => { changes ??= new EventSource(`${base}/stream`); changes.onmessage = look; };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { changes?.close(); changes = undefined; } else { listen(); look(); }
  });
  listen();
}
setInterval(tick, 500);
setInterval(() => { if (!document.hidden && state?.step !== "connected") look(); }, 5000);
document.getElementById("refresh").addEventListener("click", look);

// pairing code ----------------------------------------------------------------------------------------------------
document.getElementById("pair-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  const problem = form.querySelector(".problem-text");
  problem.textContent = "";
  button.setAttribute("aria-busy", "true");
  try {
    const path = operator ? `/api/sessions/${session}/pairing-code` : `${base}/pairing-code`;
    const { code } = await call("POST", path, { phone: form.phone.value });
    document.getElementById("pair-code").textContent = `${code.slice(0, 4)}-${code.slice(4)}`;
    document.getElementById("pair-result").classList.remove("hidden");
  } catch (error) {
    problem.textContent = sayError(error);
  }
  button.removeAttribute("aria-busy");
});

// for operators ---------------------------------------------------------------------------------------------------
function follow(id, name) {
  session = id;
  base = `/parts/scan/${id}`;
  history.replaceState(null, "", `/scan?session=${encodeURIComponent(id)}`);
  document.getElementById("stage-title").textContent = name || id;
  document.getElementById("stage-empty").classList.add("hidden");
  document.getElementById("stage-place").classList.remove("hidden");
  document.getElementById("stage-tools").classList.remove("hidden");
  document.getElementById("share-result").classList.add("hidden");
  document.getElementById("pair-result").classList.add("hidden");
  document.getElementById("open-session").href = `/sessions/${id}`;
  if (matchMedia("(max-width: 56rem)").matches) document.getElementById("stage-card").scrollIntoView({ behavior: "smooth" });
  look();
}

const form = document.getElementById("create");
form?.proxy.addEventListener("change", () => document.getElementById("proxy-by-hand").classList.toggle("hidden", form.proxy.value !== "other"));
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = form.querySelector(".problem-text");
  const button = form.querySelector("button");
  problem.textContent = "";
  const wanted = {};
  if (form.label.value.trim()) wanted.label = form.label.value.trim();
  if (form.phone.value.trim()) wanted.phone = form.phone.value.trim();
  const proxy = form.proxy.value === "other" ? form.address.value.trim() : form.proxy.value;
  if (proxy) wanted.proxy = proxy;
  button.setAttribute("aria-busy", "true");
  try {
    const made = await call("POST", "/api/sessions/provision", wanted);
    state = { step: "preparing", now: new Date().toISOString() };
    show();
    follow(made.sessionId, wanted.label);
    form.reset();
    document.getElementById("proxy-by-hand").classList.add("hidden");
  } catch (error) {
    problem.textContent = sayError(error);
  }
  button.removeAttribute("aria-busy");
});

document.getElementById("again")?.addEventListener("click", async () => {
  try { await call("POST", `/api/sessions/${session}/start`); look(); } catch (error) { toast(sayError(error), "bad"); }
});
document.getElementById("share")?.addEventListener("click", async () => {
  try {
    const { path, endsAt } = await call("POST", `/sessions/${session}/scan-link`);
    const field = document.getElementById("share-url");
    field.value = location.origin + path;
    document.getElementById("share-result").classList.remove("hidden");
    field.select();
    toast(say("link_until", { when: new Date(endsAt).toLocaleString(language) }));
  } catch (error) { toast(sayError(error), "bad"); }
});
document.getElementById("copy")?.addEventListener("click", async () => {
  const field = document.getElementById("share-url");
  try { await navigator.clipboard.writeText(field.value); } catch { field.select(); document.execCommand("copy"); }
  toast(say("copied"));
});

show();
