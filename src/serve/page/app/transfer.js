// Chats as files: JSON that this page reads again, and Markdown for people.
import { contentOf, fromOldForm, kSampling, titleOf, Tree } from "./chats.js";
import { h, notice } from "./dom.js";
import * as store from "./store.js";

const kFormat = "veery-chats";
const kSavedFormat = "veery-chat";  // of one chat, by the program: src/chat/chat_file.h
const kRoles = ["user", "assistant", "tool"];

function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

const fileName = (title) => (title || "chat").replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "chat";

/** Saves chats with all their branches, or all chats, to a file. */
export async function exportChats(chats = null) {
  const list = chats || (await store.allChats()).filter((chat) => !chat.deleted);
  const out = [];
  for (const chat of list) out.push({ ...chat, nodes: await store.nodesOf(chat.id) });
  const name = chats?.length === 1 ? `${fileName(chats[0].title)}.json` : `veery-chats-${new Date().toISOString().slice(0, 10)}.json`;
  save(name, JSON.stringify({ format: kFormat, version: 1, chats: out }, null, 1), "application/json");
}

/** Saves the branch of a chat that is shown as Markdown. */
export async function exportText(chat) {
  const tree = new Tree(await store.nodesOf(chat.id));
  const parts = [`# ${chat.title || "Chat"}`];
  if (chat.system) parts.push(`## System prompt\n\n${chat.system}`);
  for (const node of tree.path(tree.leaf(chat.leaf))) {
    const text = contentOf(node) + (node.calls || []).map((call) => `\n\n\`${call.name}(${call.arguments})\``).join("");
    const name = { user: "You", tool: "Tool result" }[node.role] || node.model || "Answer";
    parts.push(`## ${name}\n\n${text}${node.error ? `\n\n*${node.error}*` : ""}`);
  }
  save(`${fileName(chat.title)}.md`, `${parts.join("\n\n")}\n`, "text/markdown");
}

// Records of an export of llama.cpp's page: {conv, messages} or a list of them. Messages of other roles (system, the root)
// are left out; their children are attached to their parents.
function fromLlamaForm(list) {
  const chats = [], nodes = [];
  for (const { conv, messages } of list) {
    if (typeof conv?.id !== "string" || !Array.isArray(messages)) throw new Error("a chat in it is damaged");
    const known = new Map(messages.map((message) => [message.id, message]));
    const kept = (message) => message.type !== "root" && kRoles.includes(message.role);
    const anchor = (id) => {
      const seen = new Set();
      let at = known.get(id);
      while (at && !kept(at) && !seen.has(at.id)) {
        seen.add(at.id);
        at = known.get(at.parent);
      }
      return at && kept(at) ? at.id : "";
    };
    const made = Math.min(...messages.map((message) => Number(message.timestamp) || Infinity), Number(conv.lastModified) || Date.now());
    const system = messages.find((message) => message.role === "system" && message.type !== "root" && message.content)?.content;
    for (const message of messages.filter(kept)) {
      const files = (message.extra || []).filter((extra) => typeof extra.content === "string").map(({ name, content }) => ({ name: String(name), text: content }));
      nodes.push({ id: String(message.id), chat: conv.id, role: message.role, parent: anchor(message.parent), text: String(message.content ?? ""),
        made: Number(message.timestamp) || made, state: message.role === "assistant" ? "done" : undefined, model: message.model,
        thought: message.reasoningContent || message.thinking || undefined, files: files.length ? files : undefined, calls: callsOf(message.toolCalls), call: message.toolCallId || undefined });
    }
    chats.push({ id: conv.id, title: String(conv.name || ""), system: system || "", sampling: {}, model: "", made,
      updated: Number(conv.lastModified) || made, leaf: anchor(conv.currNode) });
  }
  return { chats, nodes };
}
function callsOf(text) {
  try {
    return callsIn(JSON.parse(text));
  } catch {
    return undefined;
  }
}
const callsIn = (list) => list.map((call) => ({ id: String(call.id || ""), name: String(call.function.name),
  arguments: typeof call.function.arguments === "string" ? call.function.arguments : JSON.stringify(call.function.arguments ?? {}) }));

// Records of a chat that /save of `veery run` wrote: a branch of its messages.
function fromSavedChat({ messages, parameters, template_args: variables, tools }) {
  const id = store.makeId(), time = Date.now(), nodes = [];
  for (const { role, content, reasoning_content: thought, tool_calls: calls, tool_call_id: call } of messages) {
    if (!kRoles.includes(role)) continue;
    if (typeof (content ?? "") !== "string" || !Array.isArray(calls ?? [])) throw new Error("a message in it is damaged");
    nodes.push({ id: store.makeId(), chat: id, role, parent: nodes.at(-1)?.id ?? "", text: content ?? "", made: time + nodes.length,
      state: role === "assistant" ? "done" : undefined, thought: typeof thought === "string" ? thought : undefined, calls: calls?.length ? callsIn(calls) : undefined,
      call: typeof call === "string" ? call : undefined });
  }
  const first = messages[0], think = variables?.enable_thinking;
  const sampling = Object.fromEntries(kSampling.filter((name) => typeof parameters?.[name] === "number").map((name) => [name, String(parameters[name])]));
  const chat = { id, title: nodes.length ? titleOf(nodes[0]) : "", system: first?.role === "system" ? String(first.content) : "", sampling, model: "",
    tools: Array.isArray(tools) && tools.length ? tools : undefined, thinking: typeof think === "boolean" ? (think ? "on" : "off") : "", made: time, updated: time + nodes.length, leaf: nodes.at(-1)?.id ?? "" };
  return { chats: [chat], nodes };
}

const kText = { title: "string", system: "string", text: "string", thought: "string", error: "string", call: "string" };

function isRecord(record, ids) {
  return record && typeof record === "object" && ids.every((name) => typeof record[name] === "string") &&
    Object.entries(kText).every(([name, type]) => record[name] === undefined || typeof record[name] === type);
}

/** Returns {chats, nodes} of an exported text. Throws an Error with a message for people. */
export function readExport(text) {
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  if (Array.isArray(json) && json.length && json.every((chat) => Array.isArray(chat?.nodes) && typeof chat.nodes[0]?.parent === "number")) return fromOldForm(json);
  const list = Array.isArray(json) ? json : [json];
  if (list.length && list.every((chat) => chat?.conv && chat.messages)) return fromLlamaForm(list);
  if (json?.format === kSavedFormat && json.version === 1 && Array.isArray(json.messages)) return fromSavedChat(json);
  if (json?.format !== kFormat || !Array.isArray(json.chats)) throw new Error("it is not an export of this page");
  const chats = [], nodes = [];
  for (const { nodes: own, deleted, ...chat } of json.chats) {
    if (!isRecord(chat, ["id"]) || !Array.isArray(own)) throw new Error("a chat in it is damaged");
    chats.push({ title: "", system: "", sampling: {}, model: "", leaf: "", ...chat, made: Number(chat.made) || Date.now(), updated: Number(chat.updated) || Date.now() });
    for (const node of own) {
      if (!isRecord(node, ["id", "parent", "text"]) || !kRoles.includes(node.role)) throw new Error("a message in it is damaged");
      const state = ["waiting", "streaming"].includes(node.state) ? "interrupted" : node.state;
      nodes.push({ ...node, chat: chat.id, state, made: Number(node.made) || 0, owner: undefined });
    }
  }
  return { chats, nodes };
}

/** Adds the chats of files. Existing records stay unchanged. */
export async function importFiles(files) {
  for (const file of files) {
    try {
      const { chats, nodes } = readExport(await file.text());
      const absent = async (kind, list) => (await Promise.all(list.map(async (record) => ((await store.get(kind, record.id)) ? null : record)))).filter(Boolean);
      await store.putAll("nodes", await absent("nodes", nodes));
      const fresh = await absent("chats", chats);
      await store.putAll("chats", fresh);
      for (const chat of chats) await store.change("chats", chat.id, ({ deleted, ...old }) => (deleted ? old : undefined));
      const known = chats.length - fresh.length;
      notice(`${file.name}: ${fresh.length} ${fresh.length === 1 ? "chat" : "chats"} imported${known ? `, ${known} already there` : ""}`);
    } catch (error) {
      notice(`${file.name} could not be imported: ${error.message}.`, { kind: "bad", ms: 0 });
    }
  }
}
