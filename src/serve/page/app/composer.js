// The message editor: text, attached files, send and stop buttons, context meter.
import { $, count, h, icon, iconButton, later, notice } from "./dom.js";

const kMostBytes = 2_000_000;
const kImages = /^image\//;

export class Composer {
  /** `app` has send(text, files), stop() and draftName(). */
  constructor(app) {
    this.app = app;
    this.files = [];
    this.area = $("text");
    this.keepDraft = later(() => this.store(), 200);
    this.area.addEventListener("input", () => { this.grow(); this.keepDraft(); });
    this.area.addEventListener("keydown", (event) => {
      // On a touch keyboard Enter inserts a line break, as in all other fields.
      const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229 && (event.ctrlKey || event.metaKey || !matchMedia("(pointer: coarse)").matches);
      if (!sends) return;
      event.preventDefault();
      $("form").requestSubmit();
    });
    this.area.addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    $("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    $("stop").addEventListener("click", () => app.stop());
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", async () => {
      await this.attach($("file").files);
      $("file").value = "";
    });
    this.takeDrops();
    addEventListener("pagehide", () => this.store());
  }

  async submit() {
    const text = this.area.value.trim(), { files } = this;
    if (!text && !files.length) return;
    this.set("", []);
    let sent = false;
    try {
      sent = await this.app.send(text, files);
    } catch (error) {
      notice(`The message could not be sent: ${error.message}`, { kind: "bad" });
    }
    if (!sent) this.set(text, files);
    this.store();
  }

  set(text, files = this.files) {
    this.area.value = text;
    this.files = files;
    this.drawFiles();
    this.grow();
  }

  grow() {
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight}px`;
  }

  /** Adds text files; shows why another file is refused. */
  async attach(list) {
    for (const file of list) {
      const refused = await this.add(file);
      if (refused) notice(refused, { kind: "bad", ms: 12_000 });
    }
    this.drawFiles();
    this.store();
    this.area.focus();
  }

  async add(file) {
    if (kImages.test(file.type) && file.type !== "image/svg+xml") return `${file.name || "The picture"} is an image. The models here read text only.`;
    if (/\.pdf$/i.test(file.name)) return `${file.name} is a PDF. Copy its text and paste it here.`;
    if (file.size > kMostBytes) return `${file.name} is too large (${(file.size / 1e6).toFixed(1)} MB). Text files of up to 2 MB can be attached.`;
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return `${file.name} is not UTF-8 text. Text files can be attached.`;
    }
    if (text.includes("\0")) return `${file.name} is not a text file. Text files can be attached.`;
    this.files = [...this.files, { name: file.name, text }];
    return "";
  }

  drawFiles() {
    $("files").replaceChildren(...this.files.map((file) => h("span", { className: "chip" }, icon("file"), h("span", { textContent: file.name }),
      iconButton("close", `Remove ${file.name}`, () => {
        this.files = this.files.filter((other) => other !== file);
        this.drawFiles();
        this.store();
        this.area.focus();
      }))));
  }

  takeDrops() {
    const veil = $("veil");
    const holdsFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    document.addEventListener("dragover", (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      veil.hidden = false;
    });
    document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) veil.hidden = true; });
    document.addEventListener("drop", (event) => {
      veil.hidden = true;
      if (!holdsFiles(event)) return;
      event.preventDefault();
      this.attach(event.dataTransfer.files);
    });
  }

  // Keeps the draft across a reload of this tab.
  store() {
    const name = `veery.draft.${this.app.draftName()}`, text = this.area.value;
    sessionStorage.removeItem(name);
    if (!text && !this.files.length) return;
    for (const files of [this.files, []]) {  // without its files if they are too large
      try {
        return sessionStorage.setItem(name, JSON.stringify({ text, files }));
      } catch { /* full */ }
    }
  }
  restore() {
    let draft = {};
    try {
      draft = JSON.parse(sessionStorage.getItem(`veery.draft.${this.app.draftName()}`)) || {};
    } catch { /* none */ }
    this.set(draft.text || "", draft.files || []);
  }

  /** Shows whether an answer of this chat is being received. */
  setLive(live) {
    $("stop").hidden = !live;
    $("send").hidden = live;
  }

  /** Shows how many tokens of `context` the branch has; both are unknown before the first answer. */
  setMeter(path, context) {
    const node = [...path].reverse().find((other) => other.usage);
    const meter = $("meter");
    meter.hidden = !node || !context;
    if (meter.hidden) return;
    const used = Math.min(context, node.usage.prompt + node.usage.made), share = used / context;
    meter.className = share > 0.9 ? "full" : share > 0.75 ? "high" : "";
    meter.title = `This chat fills ${Math.round(100 * share)} % of the context. A full context ends the chat.`;
    const bar = $("meter-bar");
    bar.setAttribute("aria-valuenow", used);
    bar.setAttribute("aria-valuemax", context);
    bar.firstElementChild.style.width = `${Math.max(1, 100 * share)}%`;
    $("meter-words").textContent = `${count(used)} of ${count(context)} tokens`;
  }
}
