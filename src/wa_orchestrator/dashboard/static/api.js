// Calls to the server. What changes something carries the page's CSRF token.
import { say } from "./words.js";

const csrf = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message ?? say("offline"));
    this.status = status;
    this.code = error.code ?? "";
    this.details = error.details ?? {};
  }
}

async function ask(method, path, { body, type, more } = {}) {
  const headers = { "X-CSRF-Token": csrf, ...more };
  if (body !== undefined) headers["Content-Type"] = type ?? "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined || type ? body : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new ApiError(0, {});
  }
  if (answer.status === 401 && csrf) {
    location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new ApiError(answer.status, told.error ?? {});
  }
  return answer;
}

export const call = async (method, path, body, more) => (await ask(method, path, { body, more })).json();
export const sendText = async (path, text) => (await ask("POST", path, { body: text, type: "text/plain" })).json();
export const getHtml = async (path) => (await ask("GET", path)).text();
