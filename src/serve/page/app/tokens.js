// The tokens of an answer with their alternatives.
import { $, h } from "./dom.js";

const chance = (logprob, digits) => `${(100 * Math.exp(logprob)).toFixed(digits)} %`;

/** Returns an answer as tokens; less likely ones are darker, the selected one shows its alternatives. */
export function tokenList(scores) {
  return h("div", { className: "tokens" }, ...scores.map((score) => {
    const span = h("span", { textContent: score.token, tabIndex: 0, role: "button", title: chance(score.logprob, 1) });
    span.style.background = `color-mix(in srgb, var(--accent) ${Math.round((1 - Math.exp(score.logprob)) * 60)}%, transparent)`;
    span.addEventListener("click", (event) => {
      event.stopPropagation();
      show(span, score);
    });
    span.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        show(span, score);
      }
    });
    return span;
  }));
}

function show(span, score) {
  const rows = (score.top_logprobs || []).map((other) => h("tr", { className: other.token === score.token ? "chosen" : "" },
    h("td", { textContent: JSON.stringify(other.token).slice(1, -1) }), h("td", { textContent: chance(other.logprob, 2) })));
  const box = $("alternatives"), at = span.getBoundingClientRect();
  box.replaceChildren(h("table", {}, h("tbody", {}, ...rows)));
  box.hidden = false;
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${at.bottom + box.offsetHeight + 8 > innerHeight ? at.top - box.offsetHeight - 4 : at.bottom + 4}px`;
}

export function hideTokens() {
  $("alternatives").hidden = true;
}
