// Reads an answer to screen readers sentence by sentence while it grows, each sentence once.
import { isLive } from "./answers.js";
import { say } from "./dom.js";

const kPauseMs = 1200;

export class SentenceReader {
  /** Begins at character `at` of the answer: what was there before is not read. */
  constructor(id, at) {
    this.id = id;
    this.at = at;
    this.last = 0;
  }
  read(node) {
    const live = isLive(node), now = performance.now();
    if (live && now - this.last < kPauseMs) return;
    const rest = node.text.slice(this.at);
    const end = live ? sentenceEnd(rest) : rest.length;
    if (end > 0) {
      this.at += end;
      this.last = now;
      const words = spoken(rest.slice(0, end));
      if (words) say(words);
    }
    if (!live && node.state !== "failed") say({ done: "Answer complete", stopped: "Answer stopped" }[node.state] || "Answer interrupted");
  }
}

/** The length of the whole sentences and lines at the beginning of `text`. */
export function sentenceEnd(text) {
  const ends = [...text.matchAll(/[.!?…:][)"'”’\]]*\s|\n/g)];
  return ends.length ? ends.at(-1).index + ends.at(-1)[0].length : 0;
}

/** Markdown without its marks; code is only named. */
export function spoken(text) {
  return text.replace(/(```|~~~)[^]*?(\1|$)/g, " Code. ").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[*_`#>|~$]+/g, " ").replace(/\s+/g, " ").trim();
}
