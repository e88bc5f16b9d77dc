// Receives answers, several at a time. The tab that receives an answer writes it to the store while it grows; other tabs
// show what is stored.
import { ApiError, streamChat } from "./api.js";
import { kSampling, makeNode, toMessages } from "./chats.js";
import { takeSlot } from "./slots.js";
import * as store from "./store.js";

const kFlushMs = 250;
const kHeardMs = 4000;  // no query to a tab that has sent a message within this time
const kAnswerMs = 1500;  // time for a busy tab to reply
const jobs = new Map();  // by the id of the answer's message
const heard = new Map();  // answers of other tabs: time of the last message of their tab

/** Called with a message that has grown in this tab. */
export let onGrow = () => {};
export function whenGrowing(call) {
  onGrow = call;
}

export const isLive = (node) => node.state === "waiting" || node.state === "streaming";
export const isMine = (id) => jobs.has(id);
export const anyMine = () => jobs.size > 0;

/** Begins an answer below `parent`, the last message of `path`; returns its message, which is stored already. */
export async function answer(chat, path, model, keepScores) {
  const node = makeNode(chat, "assistant", path.at(-1)?.id ?? "", { state: "waiting", owner: store.tab, model });
  await start({ node, body: request(chat, toMessages(chat, path), model, keepScores) });
  return node;
}

/** Continues an answer that was stopped, cut or interrupted; `path` ends with it. */
export async function resume(chat, path, model) {
  const node = path.at(-1);
  const fresh = { ...node, state: "waiting", owner: store.tab, error: undefined, advice: undefined, cut: undefined };
  if (!node.text) Object.assign(fresh, { thought: "", calls: undefined });  // a prompt cannot end with an empty answer
  delete fresh.scores;  // they would not match the whole text
  await start({ node: fresh, body: request(chat, toMessages(chat, [...path.slice(0, -1), fresh]), model, false) });
}

/** Asks the other tabs which answers they receive: the event "here" has their ids and chats. */
export function askTabs() {
  store.tell({ type: "who" });
}

/** Stops an answer, also one that another tab receives. */
export function stop(id) {
  if (jobs.has(id)) jobs.get(id).controller.abort();
  else store.tell({ type: "stop", id });
}

function request(chat, messages, model, keepScores) {
  const body = { model, messages, stream: true, stream_options: { include_usage: true } };
  for (const name of kSampling) if (Number.isFinite(Number(chat.sampling?.[name] ?? NaN)) && chat.sampling[name] !== "") body[name] = Number(chat.sampling[name]);
  if (chat.thinking) body.chat_template_kwargs = { enable_thinking: chat.thinking === "on" };
  if (chat.tools?.length) body.tools = chat.tools;
  if (keepScores) Object.assign(body, { logprobs: true, top_logprobs: 8 });
  return body;
}

async function start(job) {
  Object.assign(job, { controller: new AbortController(), flushed: Promise.resolve(), timer: 0, cost: 0, first: 0, begun: 0 });
  jobs.set(job.node.id, job);
  await store.put("nodes", job.node);
  run(job);
}

function grown(job) {
  onGrow(job.node);
  if (job.timer) return;
  // Long answers are stored less often: the whole record is written each time.
  job.timer = setTimeout(() => flush(job), Math.max(kFlushMs, 5 * job.cost));
}

function flush(job) {
  clearTimeout(job.timer);
  job.timer = 0;
  job.flushed = job.flushed.then(async () => {
    const begin = performance.now();
    await store.put("nodes", structuredClone(job.node));
    job.cost = performance.now() - begin;
  });
  return job.flushed;
}

async function run(job) {
  const { node, controller } = job;
  let made = null, leave = () => {};
  try {
    leave = await takeSlot(controller.signal);
    job.begun = performance.now();
    node.state = "streaming";
    onGrow(node);
    for await (const event of streamChat(job.body, controller.signal)) {
      if (event.usage) made = event.usage;
      for (const choice of event.choices || []) take(job, choice);
      grown(job);
    }
    node.state = "done";
  } catch (error) {
    if (leaving) {
      node.state = "interrupted";
    } else if (error.name === "AbortError") {
      node.state = "stopped";
    } else {
      node.state = "failed";
      node.error = error instanceof ApiError ? error.message : `The page could not read the answer: ${error.message}`;
      node.advice = error.advice || "";
    }
  }
  if (made) measure(job, made);
  delete node.owner;
  jobs.delete(node.id);
  leave();
  await flush(job);
  onGrow(node);
}

function take(job, choice) {
  const { node } = job, delta = choice.delta || {};
  if (!job.first && (delta.content || delta.reasoning_content || delta.tool_calls)) job.first = performance.now();
  node.text += delta.content || "";
  if (delta.reasoning_content) node.thought = (node.thought || "") + delta.reasoning_content;
  for (const call of delta.tool_calls || []) {
    node.calls ||= [];
    const own = (node.calls[call.index ?? node.calls.length] ||= { id: call.id || "", name: "", arguments: "" });
    own.name += call.function?.name || "";
    own.arguments += call.function?.arguments || "";
  }
  if (choice.logprobs?.content) (node.scores ||= []).push(...choice.logprobs.content);
  if (choice.finish_reason === "length") node.cut = true;
}

function measure(job, usage) {
  const seconds = (performance.now() - job.first) / 1000, made = usage.completion_tokens;
  job.node.usage = { prompt: usage.prompt_tokens, made, cached: usage.prompt_tokens_details?.cached_tokens || 0,
    rate: job.first && made > 1 && seconds > 0 ? (made - 1) / seconds : 0, wait: job.first ? (job.first - job.begun) / 1000 : 0 };
}

/** Whether the tab that receives `node` has sent a message lately. */
export const isHeard = (node) => jobs.has(node.id) || performance.now() - (heard.get(node.id) ?? -1e9) < kHeardMs;

/**
 * Marks answers as interrupted whose tab is gone: it is asked, and answers at once if it is there. Their text stays.
 */
export async function checkOwners(nodes) {
  const open = nodes.filter((node) => isLive(node) && !isHeard(node));
  if (!open.length) return;
  store.tell({ type: "who", ids: open.map((node) => node.id) });
  await new Promise((resolve) => setTimeout(resolve, kAnswerMs));
  for (const node of open) {
    if (isHeard(node)) continue;
    await store.change("nodes", node.id, (now) => (isLive(now) && now.text === node.text && !isHeard(now)
      ? { ...now, state: "interrupted", owner: undefined } : undefined));
  }
}

store.listen((event) => {
  if (!event.remote) return;
  if (event.type === "who") {
    const mine = [...jobs.values()].map((job) => job.node).filter((node) => !event.ids || event.ids.includes(node.id));
    if (mine.length) store.tell({ type: "here", ids: mine.map((node) => node.id), chats: mine.map((node) => node.chat) });
  } else if (event.type === "here") {
    for (const id of event.ids) heard.set(id, performance.now());
  } else if (event.type === "nodes") {
    heard.set(event.id, performance.now());
  } else if (event.type === "stop" && jobs.has(event.id)) {
    stop(event.id);
  }
});

// The browser still completes a write that begins now after the page is closed.
let leaving = false;
addEventListener("pageshow", () => { leaving = false; });
addEventListener("pagehide", () => {
  leaving = true;
  for (const job of jobs.values()) store.put("nodes", { ...structuredClone(job.node), state: "interrupted", owner: undefined });
});
