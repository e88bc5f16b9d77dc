// Requests to the server, and errors with advice for people.
import { settings } from "./store.js";

/** An error for people: `message` describes it, `advice` what may help. */
export class ApiError extends Error {
  constructor(message, { status = 0, advice = "" } = {}) {
    super(message);
    this.status = status;
    this.advice = advice;
  }
}

function headers() {
  const key = settings.get("key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

function advice(status, code) {
  if (status === 401 || status === 403) return "If the server needs an API key, enter it in the settings.";
  if (code === "context_length_exceeded")
    return "Start a new chat, remove a long file or message, or start the server with a larger context (-c).";
  if (status === 429 || status === 503) return "The server is busy. Try again in a moment.";
  if (status === 404) return "Choose another model.";
  return "";
}

const unreachable = () => new ApiError("The server cannot be reached.", { advice: "Check that veery serve is still running, then try again." });

async function ask(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { ...options, headers: headers() });
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable();
  }
  if (reply.ok) return reply;
  let told = {};
  try {
    told = (await reply.json()).error || {};
  } catch { /* a proxy's page, or nothing */ }
  const text = typeof told === "string" ? told : told.message;
  throw new ApiError(text || `The server answered with status ${reply.status}.`, { status: reply.status, advice: advice(reply.status, told.code) });
}

/** Returns the models that write texts: [{id, context, loaded}]. */
export async function listModels() {
  const json = await (await ask("v1/models")).json();
  return json.data.filter((model) => (model.meta?.makes ?? "texts") === "texts")
    .map((model) => ({ id: model.id, context: model.meta?.context || 0, loaded: model.meta?.loaded !== false }));
}

/**
 * Yields the parsed events of a streamed chat completion. Throws ApiError if the server reports an error or the connection
 * ends before the answer has.
 */
export async function* streamChat(body, signal) {
  const reply = await ask("v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", whole = false;
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : lost();
    }
    if (piece.done) break;
    rest += piece.value;
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (!data) continue;
      if (data === "[DONE]") {
        whole = true;
        continue;
      }
      const json = JSON.parse(data);
      if (json.error) throw new ApiError(json.error.message || "The server reported an error.", { status: json.error.status, advice: advice(json.error.status, json.error.code) });
      yield json;
    }
  }
  if (!whole) throw lost();
}

const lost = () => new ApiError("The connection ended before the answer was complete.", { advice: "What arrived is kept. Continue it or try again." });
