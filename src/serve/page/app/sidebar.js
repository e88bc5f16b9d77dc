// The list of chats: by day, searched by title and text, renamed, exported and deleted.
import * as answers from "./answers.js";
import { $, count, h, iconButton, later, notice } from "./dom.js";
import { openMenu } from "./menu.js";
import * as store from "./store.js";
import { exportChats, exportText } from "./transfer.js";

const kUndoMs = 15_000;

export class Sidebar {
  /** `app` has openChat(id) and current(). */
  constructor(app) {
    this.app = app;
    this.chats = new Map();
    this.busy = new Map();   // ids of answers that are being received, by chat
    this.unread = new Set();
    this.found = null;       // ids of chats whose text matches the search, or null
    this.rows = new Map();
    this.drawSoon = later(() => this.draw(), 30);
    const search = $("search");
    const begin = later(() => this.search(search.value), 120);
    search.addEventListener("input", begin);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && search.value) {
        event.stopPropagation();
        search.value = "";
        this.search("");
      } else if (event.key === "ArrowDown") {
        event.preventDefault();
        $("chats").querySelector("button.open")?.focus();
      }
    });
    $("chats").addEventListener("keydown", (event) => this.move(event));
    store.listen((event) => this.heard(event));
  }

  async load() {
    const old = [];
    for (const chat of await store.allChats()) {
      if (!chat.deleted) this.chats.set(chat.id, chat);
      else if (Date.now() - chat.deleted > kUndoMs * 2) old.push(chat.id);
    }
    this.draw();
    answers.askTabs();
    for (const id of old) await store.purge(id);
  }

  async heard({ type, id, chat: owner, ids, chats }) {
    if (type === "here") {
      ids.forEach((answer, i) => this.mark(chats[i], answer));
    } else if (type === "gone") {
      this.chats.delete(id);
    } else if (type === "chats") {
      const chat = await store.get("chats", id);
      if (chat && !chat.deleted) this.chats.set(id, chat);
      else this.chats.delete(id);
    } else if (type === "nodes") {
      const node = await store.get("nodes", id);
      if (!node || node.role !== "assistant") return;
      const was = this.busy.get(owner)?.has(id);
      if (answers.isLive(node)) {
        this.mark(owner, id);
      } else if (was) {
        this.busy.get(owner).delete(id);
        if (owner !== this.app.current()) this.unread.add(owner);
      }
      if (was === answers.isLive(node)) return;
    } else {
      return;
    }
    this.drawSoon();
  }

  mark(chat, answer) {
    if (!this.busy.has(chat)) this.busy.set(chat, new Set());
    this.busy.get(chat).add(answer);
  }

  async search(text) {
    const words = text.trim().toLowerCase();
    this.words = words;
    this.found = null;
    if (words) {
      const found = new Map();
      for (const chat of this.chats.values()) if (chat.title.toLowerCase().includes(words)) found.set(chat.id, "");
      await store.eachNode((node) => {
        if (this.words !== words) return false;
        if (found.has(node.chat) && found.get(node.chat)) return true;
        const at = node.text.toLowerCase().indexOf(words);
        if (at >= 0) found.set(node.chat, excerpt(node.text, at, words.length));
        else if (node.files?.some((file) => file.name.toLowerCase().includes(words) || file.text.toLowerCase().includes(words))) found.set(node.chat, found.get(node.chat) || "in a file");
        return true;
      });
      if (this.words !== words) return;
      this.found = found;
    }
    this.draw();
  }

  draw() {
    const list = [...this.chats.values()].filter((chat) => !this.found || this.found.has(chat.id)).sort((a, b) => b.updated - a.updated);
    const parts = [], now = this.app.current();
    let label = "";
    for (const chat of list) {
      const day = dayOf(chat.updated);
      if (day !== label && !this.found) parts.push(h("h2", { textContent: day }));
      label = day;
      parts.push(this.row(chat, chat.id === now));
    }
    if (!list.length) parts.push(h("p", { className: "none", textContent: this.found ? "No chat has these words." : "Chats will be listed here." }));
    for (const id of this.rows.keys()) if (!this.chats.has(id)) this.rows.delete(id);
    const focused = document.activeElement, nav = $("chats");
    if (nav.children.length !== parts.length || parts.some((part, i) => part !== nav.children[i])) nav.replaceChildren(...parts);
    if (nav.contains(focused) && document.activeElement !== focused) focused.focus();
    $("search-count").textContent = this.found ? `${count(list.length)} ${list.length === 1 ? "chat" : "chats"} found` : "";
  }

  // A row is made once and changed in place.
  row(chat, now) {
    let row = this.rows.get(chat.id);
    if (!row) {
      const open = h("button", { type: "button", className: "open" }, h("span", { className: "title" }), h("small", { className: "excerpt" }));
      open.addEventListener("click", () => this.app.openChat(chat.id));
      const more = iconButton("more", "", () => this.menu(chat.id, more), "more");
      more.setAttribute("aria-haspopup", "menu");
      row = h("div", { className: "row", data: { id: chat.id } }, open, more);
      this.rows.set(chat.id, row);
    }
    if (now) this.unread.delete(chat.id);
    const busy = this.busy.get(chat.id)?.size > 0, unread = this.unread.has(chat.id), title = chat.title || "New chat";
    row.className = `row${now ? " now" : ""}${busy ? " busy" : ""}${unread ? " unread" : ""}`;
    const open = row.querySelector(".open");
    open.querySelector(".title").textContent = title;
    open.querySelector(".excerpt").textContent = this.found?.get(chat.id) || "";
    open.title = title;
    open.setAttribute("aria-label", title + (busy ? ", answering" : unread ? ", new answer" : ""));
    if (now) open.setAttribute("aria-current", "page");
    else open.removeAttribute("aria-current");
    row.querySelector(".more").title = "Rename, export, delete";
    row.querySelector(".more").setAttribute("aria-label", `Actions for ${title}`);
    return row;
  }

  move(event) {
    const buttons = [...$("chats").querySelectorAll("button.open")];
    const at = buttons.indexOf(event.target);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === "F2") this.rename(event.target.parentNode.dataset.id);
    else if (event.key === "Delete") this.drop([event.target.parentNode.dataset.id]);
    else if (to === -1) $("search").focus();
    else if (to !== undefined) buttons[to]?.focus();
    else return;
    event.preventDefault();
  }

  menu(id, button) {
    openMenu(button, [
      ["Rename", () => this.rename(id)],
      ["Export as Markdown", () => exportText(this.chats.get(id))],
      ["Export as JSON", () => exportChats([this.chats.get(id)])],
      ["Delete", () => this.drop([id]), "danger"],
    ]);
  }

  rename(id) {
    const row = this.rows.get(id), chat = this.chats.get(id), open = row.querySelector(".open");
    const input = h("input", { className: "rename", value: chat.title, maxLength: 200, aria: { label: "Title" } });
    let over = false;
    const end = async (keep) => {
      if (over) return;
      over = true;
      const title = input.value.trim();
      input.replaceWith(open);
      open.focus();
      if (keep && title && title !== chat.title) await store.change("chats", id, (old) => ({ ...old, title }));
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
    });
    input.addEventListener("blur", () => end(true));
    open.replaceWith(input);
    input.focus();
    input.select();
  }

  /** Hides chats at once and deletes them when the time for an undo is over. */
  async drop(ids) {
    const rows = [...$("chats").querySelectorAll("button.open")];
    const at = rows.findIndex((button) => ids.includes(button.parentNode.dataset.id));
    for (const id of ids) for (const answer of this.busy.get(id) || []) answers.stop(answer);
    const title = ids.length === 1 ? `“${this.chats.get(ids[0])?.title || "New chat"}”` : `${count(ids.length)} chats`;
    for (const id of ids) await store.change("chats", id, (chat) => ({ ...chat, deleted: Date.now() }));
    this.draw();
    ($("chats").querySelectorAll("button.open")[at] || $("text")).focus();
    const purge = setTimeout(async () => {
      for (const id of ids) if ((await store.get("chats", id))?.deleted) await store.purge(id);
    }, kUndoMs);
    notice(`${title} deleted`, { action: "Undo", ms: kUndoMs, onaction: async () => {
      clearTimeout(purge);
      for (const id of ids) await store.change("chats", id, ({ deleted, ...chat }) => chat);
      if (ids.length === 1) this.app.openChat(ids[0]);
    } });
  }

  /** The chat above (-1) or below (1) the open one in the list. */
  neighbour(step) {
    const ids = [...$("chats").querySelectorAll(".row")].map((row) => row.dataset.id);
    const at = ids.indexOf(this.app.current());
    return at < 0 ? ids[0] : ids[at + step];
  }
}

function excerpt(text, at, length) {
  const begin = Math.max(0, at - 24);
  return (begin ? "… " : "") + text.slice(begin, at + length + 40).replace(/\s+/g, " ");
}

function dayOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0), days = (midnight - time) / 864e5;
  if (days <= 0) return "Today";
  if (days <= 1) return "Yesterday";
  if (days <= 7) return "Last 7 days";
  return new Date(time).toLocaleString("en", { month: "long", year: "numeric" });
}
