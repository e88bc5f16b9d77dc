// The settings dialog: settings of the open chat and of this browser.
import { kSampling } from "./chats.js";
import { $, notice } from "./dom.js";
import { settings } from "./store.js";
import { exportChats, importFiles } from "./transfer.js";

export class SettingsDialog {
  /** `app` has conversation, sidebar and loadModels(). */
  constructor(app) {
    this.app = app;
    const dialog = $("settings");
    dialog.addEventListener("close", () => this.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    $("settings-close").addEventListener("click", () => dialog.close());
    $("theme").addEventListener("change", () => {
      settings.set("theme", $("theme").value);
      window.setTheme($("theme").value);
    });
    $("defaults").addEventListener("click", () => this.keepDefaults());
    $("export").addEventListener("click", () => exportChats());
    $("import").addEventListener("click", () => $("import-file").click());
    $("import-file").addEventListener("change", async () => {
      await importFiles($("import-file").files);
      $("import-file").value = "";
    });
    $("delete-all").addEventListener("click", () => {
      dialog.close();
      const ids = [...app.sidebar.chats.keys()];
      if (ids.length) app.sidebar.drop(ids);
    });
    $("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close();
    });
  }

  open() {
    if ($("settings").open) return;
    const chat = this.app.conversation.chat || this.app.conversation.next;
    $("system").value = chat.system || "";
    $("thinking").value = chat.thinking || "";
    for (const name of kSampling) $(name).value = chat.sampling?.[name] ?? "";
    $("theme").value = settings.get("theme");
    $("logprobs").checked = settings.get("logprobs", false);
    $("key").value = settings.get("key");
    $("settings").showModal();
    $("settings").scrollTop = 0;
  }

  // Returns the chat's settings from the form: {system, thinking, sampling}. Leaves invalid numbers out.
  fields() {
    const sampling = {};
    for (const name of kSampling) if ($(name).value !== "" && $(name).checkValidity()) sampling[name] = $(name).value;
    return { system: $("system").value, thinking: $("thinking").value, sampling };
  }

  close() {
    const fields = this.fields(), chat = this.app.conversation.chat || this.app.conversation.next;
    const changed = Object.keys(fields).some((name) => JSON.stringify(fields[name]) !== JSON.stringify(chat[name] ?? ""));
    if (changed) this.app.conversation.configure(fields);
    settings.set("logprobs", $("logprobs").checked);
    const before = settings.get("key");
    if (!settings.set("key", $("key").value)) notice("The browser could not keep the settings: its storage is full.", { kind: "bad" });
    if (before !== $("key").value) this.app.loadModels();
    if (document.activeElement === document.body) $("text").focus();
  }

  keepDefaults() {
    const { system, thinking, sampling } = this.fields();
    const values = { system, thinking, ...Object.fromEntries(kSampling.map((name) => [`s.${name}`, sampling[name] ?? ""])) };
    const kept = Object.entries(values).every(([name, value]) => settings.set(name, value));
    notice(kept ? "New chats begin with these settings." : "The browser could not keep the settings: its storage is full.", { kind: kept ? "" : "bad", ms: 4000 });
  }
}
