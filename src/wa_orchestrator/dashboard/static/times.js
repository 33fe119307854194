// Keeps saying how long ago things were.
import { language, say } from "./words.js";

const full = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const STEPS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [Infinity, "day", 86400]];

function ago(then) {
  const seconds = Math.round((then - Date.now()) / 1000);
  if (Math.abs(seconds) < 2) return say("now");
  const [, unit, size] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
  return say(`${seconds < 0 ? "ago" : "in"}.${unit}`, { n: Math.trunc(Math.abs(seconds) / size) });
}

export function tellTimes(within = document) {
  for (const time of within.querySelectorAll("time[data-ago], time[data-clock]")) {
    const then = new Date(time.dateTime);
    if (Number.isNaN(then.getTime())) continue;
    const text = "clock" in time.dataset ? clock.format(then) : ago(then);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = full.format(then);
  }
}

setInterval(() => { if (!document.hidden) tellTimes(); }, 5000);
