// A chat is a tree of messages: each has a parent; an edited question or another answer is a sibling. The chat's `leaf`
// names the branch that is shown. Imported chats may have `tools`, the functions that the model may call, and messages of the
// role "tool" with the result of a `call`; the page itself calls no tools.
import * as store from "./store.js";

export const kSampling = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed"];

let lastTime = 0;
/** Returns the time in ms, larger than any returned before: siblings are ordered by it. */
function now() {
  lastTime = Math.max(Date.now(), lastTime + 1);
  return lastTime;
}

/** Returns a new chat with the defaults of this browser. It is stored with its first message. */
export function makeChat() {
  const sampling = {};
  for (const name of kSampling) {
    const value = store.settings.get(`s.${name}`);
    if (value !== "") sampling[name] = value;
  }
  const time = now();
  return { id: store.makeId(), title: "", system: store.settings.get("system"), sampling, model: "",
    thinking: store.settings.get("thinking"), made: time, updated: time, leaf: "" };
}

export function makeNode(chat, role, parent, more = {}) {
  return { id: store.makeId(), chat: chat.id, role, parent, text: "", made: now(), ...more };
}

/** The messages of one chat in memory. */
export class Tree {
  constructor(nodes = []) {
    this.nodes = new Map(nodes.map((node) => [node.id, node]));
  }
  get(id) {
    return this.nodes.get(id);
  }
  set(node) {
    this.nodes.set(node.id, node);
  }
  /** The message and its siblings, oldest first; parent "" gives the roots. */
  children(parent) {
    return [...this.nodes.values()].filter((node) => node.parent === parent).sort((a, b) => a.made - b.made);
  }
  /** The messages from the root to `leaf`. A missing parent or a cycle ends the path. */
  path(leaf) {
    const out = [], seen = new Set();
    for (let node = this.get(leaf); node && !seen.has(node.id); node = this.get(node.parent)) {
      seen.add(node.id);
      out.unshift(node);
    }
    return out;
  }
  /** The last message of the newest branch below `id`. */
  deepest(id) {
    for (let next = this.children(id); next.length; next = this.children(id)) id = next.at(-1).id;
    return id;
  }
  /** `leaf` if it exists, else the end of the newest branch. */
  leaf(leaf) {
    return this.get(leaf) ? leaf : this.deepest("");
  }
}

/** A title from the first words of a message. */
export function titleOf(node) {
  const text = (node.text || node.files?.[0]?.name || "").replace(/\s+/g, " ").trim();
  return text.length > 70 ? `${text.slice(0, 68).replace(/\s\S*$/, "")} …` : text;
}

// A fence longer than any run of backticks in the text.
function fenced(text, name) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${/\.(\w+)$/.exec(name)?.[1] ?? ""}\n${text.replace(/\n$/, "")}\n${fence}`;
}

/** The text of a message for the model: attached files, then the text. */
export function contentOf(node) {
  const files = (node.files || []).map((file) => `File ${file.name}:\n${fenced(file.text, file.name)}\n\n`);
  return files.join("") + node.text;
}

/**
 * Returns the messages of a request from a path. Answers without text or calls (failed, or stopped while reasoning) are left
 * out, and so are results that answer no call; questions that then follow each other become one, as most chat templates want
 * turns to alternate.
 */
export function toMessages(chat, path) {
  const out = chat.system?.trim() ? [{ role: "system", content: chat.system }] : [];
  let count = 0, open = [];  // calls so far; ids of those without a result
  for (const node of path) {
    const content = contentOf(node);
    if (node.role === "user") {
      if (out.at(-1)?.role === "user") out.at(-1).content += `\n\n${content}`;
      else out.push({ role: "user", content });
    } else if (node.role === "tool") {
      if (!open.length) continue;
      const id = open.includes(node.call) ? node.call : open[0];
      open = open.filter((other) => other !== id);
      out.push({ role: "tool", tool_call_id: id, content });
    } else if (node.calls?.length) {
      const calls = node.calls.map((call) => (
        { id: call.id || `call_${++count}`, type: "function", function: { name: call.name, arguments: call.arguments || "{}" } }));
      open = calls.map((call) => call.id);
      out.push({ role: "assistant", content, tool_calls: calls });
    } else if (node.text) {
      out.push({ role: "assistant", content });
    }
  }
  return out;
}

/** Moves chats of the page's first version, which kept all of them in one value of localStorage. */
export async function moveOldChats() {
  const old = store.settings.get("chats", null);
  if (!Array.isArray(old)) return;
  const { chats, nodes } = fromOldForm(old);
  const all = (await store.putAll("nodes", nodes)) === nodes.length && (await store.putAll("chats", chats)) === chats.length;
  if (all) localStorage.removeItem("veery.chats");
}

/** Records of the list that the page's first version kept and exported; parents were indices there. */
export function fromOldForm(old) {
  const chats = [], nodes = [];
  for (const from of old) {
    const base = Number(from.id) > 1e12 ? Math.floor(from.id) : now();
    const id = `old${String(from.id).replace(/\W/g, "")}`;  // the same each time, so that two tabs do not make two chats
    const name = (index) => (index >= 0 ? `${id}n${index}` : "");
    for (const [index, node] of (from.nodes || []).entries()) {
      const { busy, speed, showTokens, ...rest } = node;
      nodes.push({ ...rest, id: name(index), chat: id, parent: name(node.parent), made: base + index, text: node.text || "",
        state: node.role === "assistant" ? (busy ? "interrupted" : node.error ? "failed" : "done") : undefined });
    }
    chats.push({ id, title: from.title || "", system: from.system || "", sampling: {}, model: "", made: base,
      updated: base + (from.nodes || []).length, leaf: name(from.leaf) });
  }
  return { chats, nodes };
}
