// The list of sessions: choosing many at once, and the charts above it.
import { call } from "./api.js";
import { onEvent } from "./live.js";
import { refresh } from "./parts.js";
import { confirmed, toast } from "./tell.js";
import { say, sayError } from "./words.js";
import uPlot from "./vendor/uplot.js";

// choosing --------------------------------------------------------------------------------------------------------
const chosen = new Set();
const AT_ONCE = 4; // calls under way: the server starts workers with a budget of its own
const bar = document.getElementById("bulk");

function showChosen() {
  const boxes = [...document.querySelectorAll("[data-pick]")];
  for (const box of boxes) box.checked = chosen.has(box.dataset.pick);
  const all = document.getElementById("pick-all");
  if (all) {
    const here = boxes.filter((box) => box.checked).length;
    all.checked = boxes.length > 0 && here === boxes.length;
    all.indeterminate = here > 0 && here < boxes.length;
  }
  bar.hidden = chosen.size === 0;
  document.getElementById("bulk-count").textContent = say("chosen", { n: chosen.size });
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.id === "pick-all") {
    for (const other of document.querySelectorAll("[data-pick]")) chosen[box.checked ? "add" : "delete"](other.dataset.pick);
  } else if (box.dataset.pick) chosen[box.checked ? "add" : "delete"](box.dataset.pick);
  else return;
  showChosen();
});
document.addEventListener("parts:fresh", showChosen);
document.getElementById("bulk-none").addEventListener("click", () => { chosen.clear(); showChosen(); });

for (const button of document.querySelectorAll("[data-bulk]")) {
  button.addEventListener("click", async () => {
    const { bulk, confirm, done, danger } = button.dataset;
    const ids = [...chosen];
    const text = confirm?.replace("{n}", ids.length);
    const title = button.textContent.trim();
    if (text && !(await confirmed({ title, text, ok: title, danger: danger !== undefined }))) return;
    let finished = 0;
    let problem;
    const waiting = [...ids];
    const worker = async () => {
      for (let id = waiting.shift(); id; id = waiting.shift()) {
        try {
          await (bulk === "delete" ? call("DELETE", `/api/sessions/${id}`) : call("POST", `/api/sessions/${id}/${bulk}`));
          finished += 1;
          if (bulk === "delete") chosen.delete(id);
        } catch (error) { problem = error; }
      }
    };
    bar.inert = true;
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    bar.inert = false;
    toast(done.replace("{done}", finished).replace("{n}", ids.length), problem ? "bad" : "");
    if (problem) toast(sayError(problem), "bad");
    await refresh();
    showChosen();
  });
}

// charts ----------------------------------------------------------------------------------------------------------
const charts = new Map();
let range = "hour";
let data;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axes() {
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  const base = { stroke: colour("--muted"), grid, ticks: { show: false }, font };
  return [
    { ...base, size: 30, grid: { show: false }, values: (_, at) => at.map((s) => new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })) },
    { ...base, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000] },
  ];
}

function line(stroke, more = {}) {
  return { stroke, width: 2, points: { show: false }, ...more };
}

function draw(id, lines, values) {
  const place = document.getElementById(id);
  charts.get(id)?.destroy();
  const size = { width: place.clientWidth - 16, height: place.clientHeight - 12 };
  const options = {
    ...size, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [10, 12, 0, 0],
    scales: { y: { range: (_, low, high) => [0, Math.max(4, Math.ceil((high ?? 0) * 1.15))] } },
    axes: axes(), series: [{}, ...lines],
  };
  charts.set(id, new uPlot(options, values, place));
}

function drawAll() {
  if (!data) return;
  const accent = colour("--accent");
  // a line along zero would say nothing, in red
  const failed = data.failed.map((n, i, all) => (n || all[i - 1] || all[i + 1] ? n : null));
  draw("chart-messages", [
    line(colour("--line-strong"), { dash: [2, 4], width: 1.5 }), line(accent, { fill: colour("--accent-soft") }), line(colour("--bad"), { dash: [6, 4] }),
  ], [data.at, data.accepted, data.sent, failed]);
  draw("chart-sessions", [
    line(colour("--line-strong"), { dash: [2, 4], width: 1.5 }), line(accent, { fill: colour("--accent-soft"), spanGaps: false }),
  ], [data.at, data.total, data.connected]);
  const sum = (list) => list.reduce((a, b) => a + (b ?? 0), 0);
  document.getElementById("chart-messages").setAttribute("aria-label", say("chart_summary", { sent: sum(data.sent), failed: sum(data.failed) }));
  document.getElementById("chart-sessions").setAttribute("aria-label", say("chart_sessions", { n: data.connected.findLast((n) => n !== null) ?? 0 }));
}

async function load() {
  try { data = await call("GET", `/parts/chart?range=${range}`); } catch { return; }
  drawAll();
}

for (const button of document.querySelectorAll("[data-range]")) {
  button.addEventListener("click", () => {
    range = button.dataset.range;
    for (const other of document.querySelectorAll("[data-range]")) other.setAttribute("aria-pressed", String(other === button));
    load();
  });
}
let soon;
onEvent((event) => { if (event.type.startsWith("message.")) soon ??= setTimeout(() => { soon = undefined; load(); }, 5000); });
setInterval(() => { if (!document.hidden) load(); }, 30000);
document.addEventListener("theme", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawAll, 150); });
load();
