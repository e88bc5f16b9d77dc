// The open chat: its messages, each drawn once, and the actions of their buttons.
import * as answers from "./answers.js";
import { makeChat, makeNode, titleOf, Tree } from "./chats.js";
import { $, say } from "./dom.js";
import { MessageView } from "./message.js";
import { SentenceReader } from "./sentences.js";
import * as store from "./store.js";
import { hideTokens } from "./tokens.js";

// Changes fields of a chat, here and in the store, where it may be new.
async function keepChat(chat, fields) {
  Object.assign(chat, fields);
  if (!(await store.change("chats", chat.id, (old) => ({ ...old, ...fields })))) await store.put("chats", chat);
}

export class Conversation {
  /** `app` has model(), keepScores(), opened(chat), left() and changed(). */
  constructor(app) {
    this.app = app;
    this.views = new Map();
    this.chat = null;         // null on the empty page
    this.next = makeChat();   // the chat that the next message begins there
    this.tree = new Tree();
    this.dirty = new Map();
    this.cost = 0;
    this.sticks = true;
    const log = $("log");
    log.addEventListener("scroll", () => {
      hideTokens();
      this.sticks = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
      $("to-end").hidden = this.sticks;
    }, { passive: true });
    $("to-end").addEventListener("click", () => this.toEnd());
    // Fonts, colours and mathematics that are drawn later make messages taller.
    new ResizeObserver(() => this.sticks && this.toEnd()).observe($("messages"));
    store.listen((event) => this.heard(event));
    setInterval(() => this.chat && answers.checkOwners([...this.tree.nodes.values()]), 2000);
  }

  /** Shows a chat, or the empty page. Returns false if there is no such chat. */
  async open(id) {
    const chat = id ? await store.get("chats", id) : null;
    if (id && (!chat || chat.deleted)) return false;
    const tree = new Tree(chat ? await store.nodesOf(id) : []);
    for (const [name, node] of tree.nodes) if (answers.isMine(name)) tree.set(this.tree.get(name) || node);
    this.chat = chat;
    this.tree = tree;
    this.views.clear();
    $("messages").replaceChildren();
    this.draw();
    this.toEnd();
    answers.checkOwners([...tree.nodes.values()]);
    return true;
  }

  /** Changes settings of the chat that is shown or will be begun. */
  async configure(fields) {
    if (this.chat) await keepChat(this.chat, fields);
    else Object.assign(this.next, fields);
  }

  /** The messages of the branch that is shown. */
  path() {
    return this.chat ? this.tree.path(this.tree.leaf(this.chat.leaf)) : [];
  }

  draw() {
    const path = this.path(), box = $("messages");
    const boxes = path.map((node) => {
      const view = this.views.get(node.id);
      if (view) view.update(node);
      else this.views.set(node.id, new MessageView(node, this));
      return this.views.get(node.id).box;
    });
    for (const child of [...box.children]) if (!boxes.includes(child)) child.remove();
    boxes.forEach((child, i) => box.children[i] !== child && box.insertBefore(child, box.children[i] || null));
    document.body.classList.toggle("fresh", !path.length);
    this.app.changed();
    if (this.sticks) this.toEnd();
  }

  toEnd() {
    const log = $("log");
    log.scrollTop = log.scrollHeight;
    this.sticks = true;
    $("to-end").hidden = true;
  }

  /** The answer of this chat that is being received, if any. */
  live() {
    return this.path().find(answers.isLive);
  }

  // Handles a store event: this or another tab has written a message or a chat.
  async heard(event) {
    if (event.type === "here" && event.ids.some((id) => this.tree.get(id))) return this.draw();
    if (!this.chat || event.chat !== this.chat.id) return;
    if (event.type === "gone") return this.app.left();
    if (event.type === "chats") {
      const chat = await store.get("chats", event.id);
      if (!chat || chat.id !== this.chat?.id) return;
      if (chat.deleted) return this.app.left();
      // Each tab shows its own branch, unless another tab has added to it.
      const leaf = this.tree.path(chat.leaf).some((node) => node.id === this.chat.leaf) ? chat.leaf : this.chat.leaf;
      this.chat = { ...chat, leaf };
      this.draw();
    } else if (event.type === "nodes" && !answers.isMine(event.id)) {
      const node = await store.get("nodes", event.id);
      if (!node || node.chat !== this.chat?.id || answers.isMine(event.id)) return;
      this.tree.set(node);
      if (node.parent === this.chat.leaf) this.chat.leaf = node.id;
      this.draw();
    }
  }

  // An answer of this tab has grown: it is drawn with the next frame, less often if drawing takes long.
  grown(node) {
    if (node.chat !== this.chat?.id) return;
    this.tree.set(node);
    const plain = this.dirty.size > 0;
    this.dirty.set(node.id, node);
    if (plain) return;
    setTimeout(() => requestAnimationFrame(() => this.drawGrown()), this.cost * 3);
  }

  drawGrown() {
    const begin = performance.now();
    const nodes = [...this.dirty.values()];
    this.dirty.clear();
    for (const node of nodes) {
      const view = this.views.get(node.id);
      if (node.chat !== this.chat?.id || !view) continue;
      view.update(node);
      this.reader = this.reader?.id === node.id ? this.reader : new SentenceReader(node.id, view.from);
      this.reader.read(node);
      if (!answers.isLive(node)) this.app.changed();
    }
    if (this.sticks) this.toEnd();
    this.cost = performance.now() - begin;
  }

  /** Adds a question to the branch that is shown and lets the model answer. */
  async send(text, files) {
    if (this.live()) return false;
    const path = this.path();
    const model = this.app.model();
    if (!this.chat) {
      this.chat = this.next;
      this.next = makeChat();
      this.app.opened(this.chat);
    }
    const node = makeNode(this.chat, "user", path.at(-1)?.id ?? "", { text, files: files.length ? files : undefined });
    await this.ask(node, path, model);
    return true;
  }

  // Stores a question, then asks the model.
  async ask(node, path, model) {
    const { chat } = this;
    this.tree.set(node);
    await store.put("nodes", node);
    await keepChat(chat, { title: chat.title || titleOf(node), leaf: node.id, updated: node.made });
    await this.answer(chat, [...path, node], model);
  }

  // Answers the last message of `path` as a new branch.
  async answer(chat, path, model) {
    const node = await answers.answer(chat, path, model, this.app.keepScores());
    if (chat.id === this.chat?.id) {
      this.tree.set(node);
      this.chat.leaf = node.id;
      this.sticks = true;
      this.draw();
    }
    await keepChat(chat, { leaf: node.id, updated: node.made, model });
  }

  // The buttons of messages.
  siblings(node) {
    return this.tree.children(node.parent).filter((other) => other.role === node.role).map((other) => other.id);
  }
  async again(node) {
    if (!this.live()) await this.answer(this.chat, this.tree.path(node.parent), this.app.model());
  }
  async resume(node) {
    if (this.live()) return;
    await answers.resume(this.chat, this.tree.path(node.id), this.app.model());
    this.sticks = true;
    this.draw();
  }
  async edit(node, text) {
    if (this.live()) return;
    const { chat } = this;
    const path = node.parent ? this.tree.path(node.parent) : [];
    await this.ask(makeNode(chat, "user", node.parent, { text, files: node.files }), path, this.app.model());
  }
  branch(id) {
    this.chat.leaf = this.tree.deepest(id);
    const { leaf } = this.chat;
    store.change("chats", this.chat.id, (old) => ({ ...old, leaf }));
    this.sticks = false;
    this.draw();
    this.views.get(id)?.box.querySelector(".branches button:not(:disabled)")?.focus();
    say(`Version ${this.siblings(this.tree.get(id)).indexOf(id) + 1} of ${this.siblings(this.tree.get(id)).length}`);
  }
}
