// Brings an open page to what the server says now, touching only what differs: focus, choices and open menus stay.

const KEPT = new Set(["open", "checked"]); // what the person did is not undone

export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !KEPT.has(name)) old.setAttribute(name, value);
  }
  if (old.hasAttribute("data-flash") && old.textContent !== fresh.textContent) flash(old);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const byKey = new Map();
  for (const child of old.children) if (child.dataset?.key) byKey.set(child.dataset.key, child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = wanted.dataset?.key;
    const known = key && byKey.get(key);
    if (known) {
      byKey.delete(key);
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      morph(known, wanted);
    } else if (!key && place && sameKind(place, wanted)) {
      if (place.nodeType === Node.ELEMENT_NODE) morph(place, wanted);
      else if (place.data !== wanted.data) place.data = wanted.data;
      place = place.nextSibling;
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.dataset?.key && (a.id ?? "") === (b.id ?? "");
}

function flash(element) {
  element.classList.remove("changed");
  requestAnimationFrame(() => element.classList.add("changed"));
}
