// Chats and their messages in IndexedDB: one record a chat, one record a message, so that several tabs can write at the
// same time. Every tab tells the others which record has changed; they read it from the database.

const kVersion = 1;
const listeners = new Set();
const kinds = { chats: new Map(), nodes: new Map() };  // records that are not in the database, by id
let database = null;

/** Identifies this tab while it is open. */
export const tab = makeId();

export function makeId() {
  return [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const channel = typeof BroadcastChannel === "function" ? new BroadcastChannel("veery") : { postMessage() {} };
channel.onmessage = (event) => emit({ ...event.data, remote: true });

function emit(event) {
  for (const listener of [...listeners]) listener(event);
}

/**
 * Calls `listener` with {type, id, chat, remote}: type "chats" or "nodes" names a changed record, "gone" a purged chat,
 * "unsaved" a change of the unsaved records; other types are messages of tell().
 */
export function listen(listener) {
  listeners.add(listener);
}

/** Sends a message to all other tabs. */
export function tell(event) {
  channel.postMessage(event);
}

/** Opens the database. Returns false if the browser has none for this page: records then last as long as the page. */
export async function open() {
  try {
    database = await new Promise((resolve, reject) => {
      const request = indexedDB.open("veery", kVersion);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("chats", { keyPath: "id" });
        request.result.createObjectStore("nodes", { keyPath: "id" }).createIndex("chat", "chat");
      };
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
      request.onblocked = () => reject(new Error("another version of the page is open"));
    });
    database.onversionchange = () => database.close();
    database.onclose = () => open();  // the user has deleted this site's data
  } catch {
    database = null;
  }
  return database !== null;
}

function ask(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error || new Error("the transaction was aborted"));
  });
}

const reader = (kind) => database.transaction(kind).objectStore(kind);
const overlay = (kind, records) => {
  const waiting = kinds[kind];
  return waiting.size ? records.filter((record) => !waiting.has(record.id)) : records;
};

/** Returns all chats, including those just deleted, in no order. */
export async function allChats() {
  const found = database ? await ask(reader("chats").getAll()) : [];
  return [...overlay("chats", found), ...kinds.chats.values()];
}

/** Returns a record or undefined; `kind` is "chats" or "nodes". */
export async function get(kind, id) {
  return kinds[kind].get(id) ?? (database ? await ask(reader(kind).get(id)) : undefined);
}

/** Returns the messages of a chat, in no order. */
export async function nodesOf(chat) {
  const found = database ? await ask(reader("nodes").index("chat").getAll(chat)) : [];
  return [...overlay("nodes", found), ...[...kinds.nodes.values()].filter((node) => node.chat === chat)];
}

/** Calls `call` with every message of all chats until it returns false. */
export async function eachNode(call) {
  for (const node of kinds.nodes.values()) if (call(node) === false) return;
  if (!database) return;
  await new Promise((resolve, reject) => {
    const request = reader("nodes").openCursor();
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor || (!kinds.nodes.has(cursor.value.id) && call(cursor.value) === false)) return resolve();
      cursor.continue();
    };
  });
}

/** The reason why the last write failed, for people; empty if everything is saved. */
export function unsavedReason() {
  return kinds.chats.size + kinds.nodes.size ? reason : "";
}
let reason = "";

function keep(kind, records, error) {
  for (const record of records) kinds[kind].set(record.id, record);
  reason = !database ? "This browser does not let the page store chats."
    : /Quota|full|space/i.test(`${error?.name} ${error?.message}`) ? "The browser's storage is full."
    : `The browser could not store the chat (${error?.message || error}).`;
  emit({ type: "unsaved" });
}

function saved(kind, records) {
  let changed = false;
  for (const record of records) changed = kinds[kind].delete(record.id) || changed;
  if (changed) emit({ type: "unsaved" });
}

function changed(kind, record) {
  const event = { type: kind, id: record.id, chat: kind === "nodes" ? record.chat : record.id };
  emit(event);
  tell(event);
}

/**
 * Writes a record, announces it, and returns whether it is in the database. If not, it stays in memory, reads find it
 * there, and the event "unsaved" is raised.
 */
export async function put(kind, record) {
  return (await putAll(kind, [record])) === 1;
}

/** Writes several records of one kind in one transaction; returns how many are in the database. */
export async function putAll(kind, records) {
  if (!records.length) return 0;
  let done = 0;
  if (database) {
    try {
      const transaction = database.transaction(kind, "readwrite");
      const store = transaction.objectStore(kind);
      for (const record of records) store.put(record);
      transaction.commit();  // also carried out if the page goes away before the requests have answered
      await finished(transaction);
      done = records.length;
      saved(kind, records);
    } catch (error) {
      keep(kind, records, error);
    }
  } else {
    keep(kind, records, null);
  }
  for (const record of records) changed(kind, record);
  return done;
}

/**
 * Replaces a record by `edit(record)` in one transaction, so that no write of another tab is lost. `edit` returns
 * undefined to leave the record alone. Returns the new record, or undefined if there was none or it was left alone.
 */
export async function change(kind, id, edit) {
  const held = kinds[kind].get(id);
  if (held || !database) {
    const next = held && edit(structuredClone(held));
    if (next) await put(kind, next);
    return next;
  }
  let next;
  try {
    const transaction = database.transaction(kind, "readwrite");
    const store = transaction.objectStore(kind);
    const request = store.get(id);
    request.onsuccess = () => {
      next = request.result && edit(request.result);
      if (next) store.put(next);
    };
    await finished(transaction);
  } catch (error) {
    if (!next) throw error;
    keep(kind, [next], error);
  }
  if (next) changed(kind, next);
  return next;
}

/** Deletes a chat and its messages for good. */
export async function purge(chat) {
  const nodes = await nodesOf(chat);
  for (const node of nodes) kinds.nodes.delete(node.id);
  kinds.chats.delete(chat);
  if (database) {
    const transaction = database.transaction(["chats", "nodes"], "readwrite");
    transaction.objectStore("chats").delete(chat);
    for (const node of nodes) transaction.objectStore("nodes").delete(node.id);
    await finished(transaction);
  }
  emit({ type: "gone", id: chat, chat });
  tell({ type: "gone", id: chat, chat });
}

/** Writes unsaved records again. */
export async function saveAgain() {
  for (const kind of ["chats", "nodes"]) await putAll(kind, [...kinds[kind].values()]);
  emit({ type: "unsaved" });
  return !unsavedReason();
}

// Settings of this browser: small values, one key each, so that tabs do not overwrite each other's.
export const settings = {
  get(name, other = "") {
    try {
      const value = localStorage.getItem(`veery.${name}`);
      return value === null ? other : JSON.parse(value);
    } catch {
      return other;
    }
  },
  /** Returns false if the browser refuses to keep the value. */
  set(name, value) {
    try {
      localStorage.setItem(`veery.${name}`, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
};
