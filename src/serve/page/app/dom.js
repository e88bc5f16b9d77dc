// Helpers for elements, icons, the clipboard and announcements to screen readers.

export const $ = (id) => document.getElementById(id);

/** Returns a new element; `properties` are DOM properties, `data` and `aria` objects set attributes. */
export function h(tag, properties = {}, ...children) {
  const { data, aria, role, ...rest } = properties;
  const node = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(data || {})) node.dataset[name] = value;
  for (const [name, value] of Object.entries(aria || {})) node.setAttribute(`aria-${name}`, value);
  if (role) node.setAttribute("role", role);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const kIcons = {
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4L14.5 7.5",
  check: "M5 12.500l4.5 4.500L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v11H9zM5 15V4h10",
  down: "M12 5v14M6 13l6 6 6-6",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.500v5M9 14.500v5",
  help: "M9 9a3 3 0 1 1 4.5 2.600c-1 .6-1.5 1.2-1.5 2.400M12 17.500v.1M12 2.500a9.5 9.5 0 1 1 0 19 9.5 9.5 0 0 1 0-19",
  left: "M15 6l-6 6 6 6",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M20 14.500A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.500z",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  plus: "M12 5v14M5 12h14",
  right: "M9 6l6 6-6 6",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13M15.5 15.500L20 20",
  send: "M12 20V5M5.5 11.500L12 5l6.5 6.5",
  stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8M12 2.500v2M12 19.500v2M2.5 12h2M19.5 12h2M5.300 5.300l1.4 1.400M17.300 17.300l1.4 1.400M5.300 18.700l1.4-1.400M17.300 6.700l1.4-1.4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
};

/** Returns a drawn icon that screen readers skip. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", kIcons[name]);
  svg.append(path);
  return svg;
}

/** Returns a button that shows only an icon; `label` is its accessible name and its tooltip. */
export function iconButton(name, label, onclick, className = "") {
  return h("button", { type: "button", className: `quiet round ${className}`, title: label, onclick, aria: { label } }, icon(name));
}

// A page that was loaded over HTTP from another machine has no Clipboard API.
function copyBySelection(text) {
  const area = h("textarea", { value: text, className: "unseen" });
  (document.querySelector("dialog[open]") || document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Copies `text` and shows the outcome in `button` for a moment. */
export async function copyText(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const before = document.activeElement;
    done = copyBySelection(text);
    before?.focus?.();
  }
  say(done ? "Copied" : "The browser does not allow copying");
  if (button.dataset.before) return;
  button.dataset.before = button.textContent;
  button.style.minWidth = `${button.offsetWidth}px`;  // the row does not move
  button.textContent = done ? "Copied" : "Not allowed";
  setTimeout(() => {
    button.textContent = button.dataset.before;
    button.style.minWidth = "";
    delete button.dataset.before;
  }, 1500);
}

/** Announces `text` politely. The region only grows and is trimmed, so that nothing is read twice. */
export function say(text) {
  const region = $("announcer");
  region.append(h("p", { textContent: text }));
  while (region.children.length > 20) region.firstChild.remove();
}

/** Calls `call` once, `ms` after the last of several calls. */
export function later(call, ms) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), ms);
  };
}

/** Shows a notice at the bottom, of the dialog if one is open, with at most one action. */
export function notice(text, { action, onaction, ms = 8000, kind = "" } = {}) {
  const box = h("div", { className: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("span", { textContent: text }));
  const remove = () => box.remove();
  if (action) box.append(h("button", { type: "button", className: "plain", textContent: action, onclick: () => { remove(); onaction(); } }));
  box.append(iconButton("close", "Dismiss", remove));
  (document.querySelector("dialog[open] .notices") || $("notices")).append(box);
  if (ms) setTimeout(remove, ms);
}

export const count = (number) => number.toLocaleString("en");
