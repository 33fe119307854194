// The page's words, as the server put them there.
const words = JSON.parse(document.getElementById("words").textContent);
export const language = document.documentElement.lang;

/** A word with values in it: say("expires", {n: 5}). */
export function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** What to tell about an error of the API: our own words for its code, else its sentence. */
export function sayError(error) {
  const own = words[`errors.${error.code}`];
  return own && error.code !== "INVALID_BODY" ? own : error.message || say("offline");
}
