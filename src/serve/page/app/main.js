// Connects the parts of the page: the open chat, models, keyboard shortcuts, notices about the storage.
import * as answers from "./answers.js";
import { listModels } from "./api.js";
import { makeChat, moveOldChats } from "./chats.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { $, h, notice } from "./dom.js";
import { SettingsDialog } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import * as store from "./store.js";
import { hideTokens } from "./tokens.js";
import { exportChats } from "./transfer.js";

let models = [];

const app = {
  current: () => app.conversation.chat?.id || "",
  draftName: () => app.current() || "new",
  model: () => $("model").value,
  keepScores: () => store.settings.get("logprobs", false),

  async openChat(id, push = true) {
    if (app.begun) app.composer.store();
    app.begun = true;
    if (!(await app.conversation.open(id))) {
      notice("That chat is not there any more.");
      id = "";
      await app.conversation.open("");
    }
    if (!id) app.conversation.next = makeChat();
    if (push && location.hash.slice(1) !== id) history.pushState(null, "", id ? `#${id}` : location.pathname + location.search);
    document.body.classList.remove("open");
    app.composer.restore();
    app.showModel();
    app.sidebar.draw();
    if (!matchMedia("(pointer: coarse)").matches) $("text").focus();
  },
  newChat: () => app.openChat(""),
  /** A new chat has got its first message. */
  opened(chat) {
    history.pushState(null, "", `#${chat.id}`);
    app.sidebar.draw();
  },
  /** The open chat was deleted. */
  left() {
    app.openChat("");
  },
  /** Another message, branch or state is shown. */
  changed() {
    const { conversation } = app, path = conversation.path();
    app.composer.setLive(Boolean(conversation.live()));
    app.composer.setMeter(path, models.find((model) => model.id === app.model())?.context);
    document.title = conversation.chat?.title ? `${conversation.chat.title} · veery` : "veery";
  },
  async send(text, files) {
    if (!app.model()) {
      notice("There is no model to answer: the server cannot be reached.", { kind: "bad" });
      return false;
    }
    return app.conversation.send(text, files);
  },
  stop() {
    const node = app.conversation.live();
    if (node) answers.stop(node.id);
  },

  showModel() {
    const wanted = app.conversation.chat?.model || app.conversation.next.model || store.settings.get("model");
    if (models.some((model) => model.id === wanted)) $("model").value = wanted;
    $("greeting-words").textContent = models.length ? `${$("model").value} answers on this machine. Chats stay in this browser.` : "Chats stay in this browser.";
  },
  async loadModels() {
    try {
      models = await listModels();
      const options = models.map((model) => h("option", { value: model.id, textContent: model.id + (model.loaded ? "" : " (not loaded)") }));
      $("model").replaceChildren(...(options.length ? options : [h("option", { value: "", textContent: "no model that writes texts" })]));
      $("model").disabled = !models.length;
      $("trouble").hidden = true;
      app.showModel();
      app.changed();
    } catch (error) {
      const loading = error.status === 503;  // the server has just been started
      $("trouble-words").textContent = loading ? "The model is being loaded …" : `${error.message} ${error.advice || ""}`;
      $("trouble").classList.toggle("bad", !loading);
      $("trouble-key").hidden = error.status !== 401 && error.status !== 403;
      $("trouble").hidden = false;
      clearTimeout(app.modelTimer);
      if (error.status !== 401) app.modelTimer = setTimeout(() => app.loadModels(), loading ? 1000 : 5000);
    }
  },

  showUnsaved() {
    const reason = store.unsavedReason();
    $("unsaved").hidden = !reason;
    $("unsaved-words").textContent = `${reason} The latest messages are not saved. Nothing is lost while this tab is open: delete old chats and save again, or export the chats.`;
  },
};

// Shortcuts: listed in the help dialog of index.html.
function keys(event) {
  const control = event.ctrlKey || event.metaKey, typing = event.target.matches?.("input, textarea, select");
  const key = event.key.toLowerCase();
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (!$("alternatives").hidden) return hideTokens();
    if (document.body.classList.contains("open")) return showList(false);
    return app.stop();
  }
  if (document.querySelector("dialog[open]")) return;
  const call = control && event.shiftKey && key === "o" ? app.newChat
    : control && key === "k" ? () => { showList(true); $("search").focus(); $("search").select(); }
    : control && key === "b" ? () => showList()
    : control && event.shiftKey && key === "e" ? () => { if (app.current()) { showList(true); app.sidebar.rename(app.current()); } }
    : control && event.shiftKey && key === "d" ? () => { if (app.current()) app.sidebar.drop([app.current()]); }
    : control && key === "," ? () => app.settings.open()
    : control && key === "/" ? () => $("help").showModal()
    : event.altKey && (key === "arrowup" || key === "arrowdown") ? () => { const id = app.sidebar.neighbour(key === "arrowup" ? -1 : 1); if (id) app.openChat(id); }
    : !typing && !control && key === "?" ? () => $("help").showModal()
    : !typing && !control && key === "/" ? () => $("text").focus()
    : null;
  if (!call) return;
  event.preventDefault();
  call();
}

// On a narrow window the list lies over the chat, on a wide one it can be folded away.
function showList(open) {
  const narrow = matchMedia("(max-width: 760px)").matches, name = narrow ? "open" : "folded";
  const shown = narrow ? document.body.classList.contains("open") : !document.body.classList.contains("folded");
  document.body.classList.toggle(name, narrow === (open ?? !shown));
  $("list").setAttribute("aria-expanded", open ?? !shown);
  if (narrow && (open ?? !shown)) $("new").focus();
  else if (narrow) $("list").focus();
}

async function begin() {
  await store.open();
  await moveOldChats();
  app.sidebar = new Sidebar(app);
  app.conversation = new Conversation(app);
  app.composer = new Composer(app);
  app.settings = new SettingsDialog(app);
  answers.whenGrowing((node) => app.conversation.grown(node));
  store.listen((event) => event.type === "unsaved" && app.showUnsaved());
  await app.sidebar.load();
  const id = location.hash.slice(1);
  await app.openChat(app.sidebar.chats.has(id) ? id : "", false);
  app.loadModels();

  addEventListener("keydown", keys);
  addEventListener("popstate", () => app.openChat(location.hash.slice(1), false));
  addEventListener("click", hideTokens);
  addEventListener("beforeunload", (event) => store.unsavedReason() && event.preventDefault());
  $("new").addEventListener("click", app.newChat);
  $("list").addEventListener("click", () => showList());
  $("fold").addEventListener("click", () => showList(false));
  $("shade").addEventListener("click", () => showList(false));
  $("open-settings").addEventListener("click", () => app.settings.open());
  $("open-help").addEventListener("click", () => $("help").showModal());
  $("help").addEventListener("click", (event) => event.target === $("help") && $("help").close());
  $("help-close").addEventListener("click", () => $("help").close());
  $("model").addEventListener("change", () => {
    store.settings.set("model", $("model").value);
    app.conversation.configure({ model: $("model").value });
    app.showModel();
    app.changed();
  });
  $("trouble-again").addEventListener("click", () => app.loadModels());
  $("trouble-key").addEventListener("click", () => { app.settings.open(); $("key").focus(); });
  $("save-again").addEventListener("click", async () => { if (await store.saveAgain()) notice("Everything is saved."); });
  $("export-unsaved").addEventListener("click", () => exportChats());
  for (const button of document.querySelectorAll(".suggestions button")) {
    button.addEventListener("click", () => { app.composer.set(button.textContent); $("text").focus(); });
  }
  document.documentElement.classList.add("ready");
  if (!matchMedia("(pointer: coarse)").matches) $("text").focus();
}

begin().catch((error) => {
  document.documentElement.classList.add("ready");
  notice(`The page could not start: ${error.message}. Load it again.`, { kind: "bad", ms: 0 });
});
