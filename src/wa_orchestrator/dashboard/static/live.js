// One stream of events per page. It rests while the page is hidden, and goes on from the last number it saw.
const listeners = new Set();
const start = document.body.dataset.eventNumber;
let last = start;
let source;
let retry;
let pause = 1000;

/** `hear` gets every event: {number, type, sessionId, timestamp, data}. */
export function onEvent(hear) {
  listeners.add(hear);
  if (start !== undefined && !source) open();
}

function open() {
  clearTimeout(retry);
  if (document.hidden) return;
  source = new EventSource(`/api/v1/events/stream?after=${last}`);
  source.onopen = () => { pause = 1000; show("on"); };
  source.onmessage = (message) => {
    last = message.lastEventId;
    const event = JSON.parse(message.data);
    for (const hear of listeners) hear(event);
  };
  source.onerror = () => {
    show("off");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    close();
    retry = setTimeout(open, pause);
    pause = Math.min(pause * 2, 15000);
  };
}

function close() {
  source?.close();
  source = undefined;
}

function show(state) {
  const light = document.getElementById("live");
  if (!light || light.dataset.state === state) return;
  light.dataset.state = state;
  light.textContent = light.dataset[state];
}

// browsers allow six connections to a server: pages in the background must not hold them
document.addEventListener("visibilitychange", () => {
  if (start === undefined || !listeners.size) return;
  if (document.hidden) close();
  else if (!source) open();
});
addEventListener("pagehide", close);
