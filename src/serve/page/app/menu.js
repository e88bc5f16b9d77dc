// A small menu at a button: arrow keys, Home, End, Escape.
import { h } from "./dom.js";

let close = () => {};

/** Opens a menu below `button`; `entries` are [label, call, kind]. The focus returns to the button. */
export function openMenu(button, entries) {
  close();
  const items = entries.map(([label, call, kind = ""]) => h("button", { type: "button", role: "menuitem", className: kind, textContent: label, tabIndex: -1,
    onclick: () => { close(); call(); } }));
  const box = h("div", { className: "menu", role: "menu" }, ...items);
  const at = button.getBoundingClientRect();
  (button.closest("dialog") || document.body).append(box);
  box.style.left = `${Math.max(8, Math.min(at.right - box.offsetWidth, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${at.bottom + box.offsetHeight + 8 > innerHeight ? at.top - box.offsetHeight - 4 : at.bottom + 4}px`;
  button.setAttribute("aria-expanded", "true");
  items[0].focus();
  const outside = (event) => box.contains(event.target) || close();
  close = () => {
    document.removeEventListener("pointerdown", outside, true);
    removeEventListener("blur", close);
    button.setAttribute("aria-expanded", "false");
    if (box.contains(document.activeElement)) button.focus();
    box.remove();
    close = () => {};
  };
  document.addEventListener("pointerdown", outside, true);
  box.addEventListener("keydown", (event) => {
    const now = items.indexOf(document.activeElement);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items[to % items.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
