// One message as it is shown, with its actions. A view is made once and updated in place.
import * as answers from "./answers.js";
import { contentOf } from "./chats.js";
import { copyText, count, h, icon, iconButton } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { hideTokens, tokenList } from "./tokens.js";

const kLabels = { user: "You", assistant: "Answer", tool: "Tool result" };

/**
 * The view of a message. `actions` has what its buttons call: again(node), resume(node), edit(node, text), branch(node),
 * siblings(node), settings().
 */
export class MessageView {
  constructor(node, actions) {
    this.actions = actions;
    this.from = answers.isLive(node) ? node.text.length : 0;  // characters that were there when it was opened
    this.box = h("article", { className: `message ${node.role}`, data: { id: node.id }, aria: { label: kLabels[node.role] } });
    this.foot = h("div", { className: "foot" });
    this.shown = "";
    if (node.role === "user") {
      this.body = h("div", { className: "bubble", dir: "auto" });
      this.files = h("div", { className: "files" });
      this.box.append(this.files, this.body, this.foot);
    } else if (node.role === "tool") {
      this.body = h("pre", { tabIndex: 0 });
      this.box.append(h("div", { className: "call" }, h("div", { className: "bar" }, h("span", { textContent: kLabels.tool })), this.body), this.foot);
    } else {
      this.thought = h("div", { className: "text" });
      this.label = h("summary");
      this.reasoning = h("details", { className: "reasoning", hidden: true }, this.label, this.thought);
      this.body = h("div", { className: "prose", dir: "auto" });
      this.calls = h("div", { className: "calls" });
      this.trouble = h("div", { className: "trouble", hidden: true });
      this.box.append(this.reasoning, this.body, this.calls, this.trouble, this.foot);
      this.view = new MarkdownView(this.body);
    }
    this.update(node);
  }

  update(node) {
    this.node = node;
    if (this.editing) return;
    if (node.role === "user") {
      this.body.textContent = node.text;
      this.body.hidden = !node.text;
      this.files.replaceChildren(...(node.files || []).map(fileView));
    } else if (node.role === "tool") {
      this.body.textContent = node.text;
    } else {
      this.drawAnswer(node);
    }
    // Buttons keep the focus: they are made again only if they change.
    const siblings = this.actions.siblings(node);
    const state = JSON.stringify([node.state, Boolean(node.text), node.usage, this.tokens, siblings.length, siblings.indexOf(node.id), answers.isHeard(node)]);
    if (state !== this.shown) {
      this.shown = state;
      this.foot.replaceChildren(...this.footOf(node), ...this.switcher(node, siblings));
    }
  }

  drawAnswer(node) {
    const live = answers.isLive(node);
    const busy = live && !node.text;
    this.box.classList.toggle("live", live);
    this.box.setAttribute("aria-busy", live);
    this.reasoning.hidden = !node.thought;
    if (node.thought) {
      this.label.textContent = busy ? "Thinking …" : "Reasoning";
      if (this.thought.textContent.length !== node.thought.length) this.thought.textContent = node.thought;
    }
    if (this.tokens && node.scores) {
      this.view.clear();
      this.body.replaceChildren(tokenList(node.scores));
    } else {
      this.view.update(node.text, !live);
    }
    this.calls.replaceChildren(...(node.calls || []).filter(Boolean).map(callView));
    this.drawTrouble(node);
  }

  drawTrouble(node) {
    const words = { failed: node.error, stopped: "", interrupted: "The answer was interrupted: its page was closed or loaded again." }[node.state] || "";
    this.trouble.hidden = !words;
    if (!words) return;
    this.trouble.className = `trouble ${node.state}`;
    if (this.trouble.dataset.words === words) return;
    this.trouble.dataset.words = words;
    this.trouble.setAttribute("role", node.state === "failed" ? "alert" : "note");
    this.trouble.replaceChildren(h("p", { textContent: words }), node.advice ? h("p", { className: "advice", textContent: node.advice }) : "");
  }

  footOf(node) {
    if (node.role === "assistant") return this.answerFoot(node);
    const copy = textButton("Copy", () => copyText(contentOf(node), copy));
    return node.role === "user" ? [copy, textButton("Edit", () => this.edit())] : [copy];
  }

  answerFoot(node) {
    if (answers.isLive(node)) {
      const words = node.state === "waiting" ? "Waiting for another answer to end" : node.text || node.thought ? "" : "Reading the prompt";
      const elsewhere = !answers.isMine(node.id) && answers.isHeard(node) ? "Written in another tab" : "";
      return [h("span", { className: "pulse", aria: { hidden: true } }), h("span", { className: "stats", textContent: elsewhere || words })];
    }
    const copy = textButton("Copy", () => copyText(node.text, copy));
    const retry = node.state === "failed" || node.state === "interrupted";
    const partial = node.text && (node.cut || node.state !== "done");
    return [
      partial && textButton("Continue", () => this.actions.resume(node), "strong"),
      node.text && copy,
      textButton(retry ? "Try again" : "Again", () => this.actions.again(node), retry && !partial ? "strong" : "", retry ? "Try again" : "Another answer"),
      node.scores && textButton(this.tokens ? "Text" : "Tokens", () => { this.tokens = !this.tokens; hideTokens(); this.update(this.node); this.focusOn(this.tokens ? "Text" : "Tokens"); }, "", "Tokens and their alternatives"),
      h("span", { className: "stats", textContent: statistics(node) }),
    ].filter(Boolean);
  }

  focusOn(label) {
    [...this.foot.querySelectorAll("button")].find((button) => button.textContent === label)?.focus();
  }

  switcher(node, siblings) {
    const at = siblings.indexOf(node.id);
    if (siblings.length < 2) return [];
    const step = (name, label, to) => {
      const button = iconButton(name, label, () => this.actions.branch(siblings[to]));
      button.disabled = to < 0 || to >= siblings.length;
      return button;
    };
    return [h("span", { className: "branches" }, step("left", "Earlier version", at - 1), h("span", { textContent: `${at + 1}/${siblings.length}` }),
      step("right", "Later version", at + 1))];
  }

  edit() {
    const { node } = this;
    this.editing = true;
    const area = h("textarea", { className: "edit", value: node.text, rows: Math.min(14, node.text.split("\n").length + 1), aria: { label: "Edit the message" } });
    const end = () => {
      this.editing = false;
      this.shown = "";
      this.box.replaceChildren(this.files, this.body, this.foot);
      this.update(this.node);
      this.focusOn("Edit");
    };
    const send = () => {
      if (!area.value.trim() && !node.files?.length) return;
      this.editing = false;
      this.actions.edit(node, area.value.trim());
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        end();
      }
    });
    this.box.replaceChildren(this.files, area, h("div", { className: "foot" }, textButton("Cancel", end), h("button", { type: "button", className: "main", textContent: "Send", onclick: send })));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

function textButton(text, onclick, kind = "", title = "") {
  return h("button", { type: "button", className: `plain ${kind}`, textContent: text, onclick, title });
}

function fileView(file) {
  const lines = file.text.split("\n").length;
  return h("details", { className: "file" }, h("summary", {}, icon("file"), h("span", { textContent: file.name }), h("small", { textContent: `${count(lines)} ${lines === 1 ? "line" : "lines"}` })),
    h("pre", { textContent: file.text.length > 20_000 ? `${file.text.slice(0, 20_000)}\n…` : file.text, tabIndex: 0 }));
}

function callView(call) {
  let text = call.arguments;
  try {
    text = JSON.stringify(JSON.parse(call.arguments), null, 2);
  } catch { /* incomplete JSON */ }
  return h("div", { className: "call" }, h("div", { className: "bar" }, h("span", { textContent: `Tool call: ${call.name}` })), h("pre", { textContent: text, tabIndex: 0 }));
}

function statistics(node) {
  const parts = [], { usage } = node;
  if (node.state === "stopped") parts.push("stopped");
  if (node.cut) parts.push("cut at the token limit");
  if (usage) {
    parts.push(`${count(usage.made)} tokens${usage.rate ? `, ${usage.rate.toFixed(1)} a second` : ""}`);
    parts.push(`prompt ${count(usage.prompt)}${usage.cached ? `, ${count(usage.cached)} cached` : ""}`);
    if (usage.wait) parts.push(`first after ${usage.wait.toFixed(2)} s`);
  }
  return parts.join(" · ");
}
