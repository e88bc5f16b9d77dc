// Draws answers: Markdown by markdown-it, sanitised by DOMPurify, mathematics by KaTeX, code colours by highlight.js. All
// come from this server, the last two when they are first needed. Without markdown-it (a veery that was built without it)
// answers are shown as plain text.
import { copyText, h } from "./dom.js";

const kMostColoured = 200_000;  // characters of one block of code
const kMostGrowing = 8_000;     // a growing block keeps the colours that it had at this length
const kMostBrackets = 3000;     // markdown-it's time for links grows with their square
const kPlain = !window.markdownit || !window.DOMPurify;

const loading = new Map();
/** Loads a script of this server once; resolves to whether that worked. */
function load(name) {
  if (!loading.has(name)) {
    loading.set(name, new Promise((resolve) => {
      const address = new URL(`page/${name}`, document.baseURI).href;
      const script = h("script", { onload: () => resolve(true), onerror: () => resolve(false) });
      script.src = scripts ? scripts.createScriptURL(address) : address;
      document.head.append(script);
      if (name === "katex.js") document.head.append(h("link", { rel: "stylesheet", href: "page/katex.css" }));
    }));
  }
  return loading.get(name);
}
// The page's policy of trusted types lets only these two addresses become scripts.
const scripts = window.trustedTypes?.createPolicy("veery", {
  createScriptURL: (address) => {
    const base = new URL("page/", document.baseURI).href;
    if (address !== `${base}katex.js` && address !== `${base}highlight.js`) throw new TypeError(`not a script of this page: ${address}`);
    return address;
  },
});

const kTags = ["a", "b", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "input", "kbd", "li",
  "mark", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul"];
const kPlainAttributes = ["align", "checked", "class", "data-tex", "disabled", "start", "title", "type"];

// DOMPurify 2.4.1+deb12u1 of Debian 12 reads a variable of another of its functions, which throws unless it exists.
if (!("shadowNode" in window)) window.shadowNode = {};

// Set once: reading a configuration takes longer than sanitising a paragraph.
window.DOMPurify?.setConfig({ ALLOWED_TAGS: kTags, ALLOWED_ATTR: [...kPlainAttributes, "href"], ADD_URI_SAFE_ATTR: kPlainAttributes,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true });

/** Returns `html` as nodes that run no code and load nothing; only followed links leave the page. */
const sanitised = (html) => window.DOMPurify.sanitize(html);

// Mathematics: \( \), \[ \], $$ $$, and $ $ where prices are not meant.
function inlineMath(state, silent) {
  const { src, pos } = state, two = src.slice(pos, pos + 2);
  const close = { "\\(": "\\)", "\\[": "\\]", $$: "$$" }[two];
  let content = "", end = 0;
  if (close) {
    end = closer(state, close, pos + 2) + 2;
    content = src.slice(pos + 2, end - 2);
  } else if (src[pos] === "$") {
    const single = /\$(?![\s\d.,]*\s)([^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\w)/y;
    single.lastIndex = pos;
    content = single.exec(src)?.[1] || "";
    end = single.lastIndex;
  }
  if (!content.trim() || end < pos || end > state.posMax) return false;
  if (!silent) Object.assign(state.push("math", "span", 0), { content, markup: two === "\\[" || two === "$$" ? "display" : "inline" });
  state.pos = end;
  return true;
}
// The first `close` after `from`, or far before it. A mark without an end is looked for once, not for each that opens.
function closer(state, close, from) {
  const none = (state.withoutEnd ||= {});
  const at = none[close] ? -1 : state.src.indexOf(close, from);
  if (at < 0) none[close] = true;
  return at < 0 ? -1e9 : at;
}
function blockMath(state, begin, end, silent) {
  const lines = (row) => state.src.slice(state.bMarks[row] + state.tShift[row], state.eMarks[row]);
  const open = /^(\$\$|\\\[)/.exec(lines(begin));
  if (!open || state.sCount[begin] - state.blkIndent >= 4) return false;
  const close = open[1] === "$$" ? "$$" : "\\]";
  const first = lines(begin).slice(2);
  let row = begin, text = first;
  if (first.includes(close)) {
    if (first.slice(first.indexOf(close) + 2).trim()) return false;  // text follows: inline
    text = first.slice(0, first.indexOf(close));
  } else {
    for (row = begin + 1; ; row++) {
      if (row >= end || (state.sCount[row] < state.blkIndent && !state.isEmpty(row))) return false;
      const line = lines(row), at = line.indexOf(close);
      text += `\n${at < 0 ? line : line.slice(0, at)}`;
      if (at >= 0) break;
    }
  }
  if (silent) return true;
  Object.assign(state.push("math", "div", 0), { block: true, content: text, markup: "display", map: [begin, row + 1] });
  state.line = row + 1;
  return true;
}
// The few tags that models write inside text. All other HTML is shown as text.
function plainTag(state, silent) {
  const found = /^<(\/?)(br|b|i|u|s|em|kbd|mark|small|strong|sub|sup)\s*\/?>/i.exec(state.src.slice(state.pos, state.pos + 12));
  if (!found) return false;
  if (!silent) state.push("html_inline", "", 0).content = `<${found[1]}${found[2].toLowerCase()}>`;
  state.pos += found[0].length;
  return true;
}
// "- [ ] to do" and "- [x] done".
function tasks(state) {
  state.tokens.forEach((token, i) => {
    const first = token.type === "inline" && state.tokens[i - 2]?.type === "list_item_open" && token.children[0];
    const found = first && first.type === "text" && /^\[([ xX])\]\s+/.exec(first.content);
    if (!found) return;
    first.content = first.content.slice(found[0].length);
    const box = new state.Token("html_inline", "", 0);
    box.content = `<input type="checkbox" disabled${found[1] === " " ? "" : " checked"}> `;
    token.children.unshift(box);
    state.tokens[i - 2].attrJoin("class", "task");
  });
}

function makeParser() {
  const md = window.markdownit({ html: false, linkify: true, typographer: false });
  const escaped = md.utils.escapeHtml;
  md.validateLink = (address) => /^(https?:|mailto:)/i.test(address.trim());
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  md.inline.ruler.before("escape", "math", inlineMath);
  md.inline.ruler.before("html_inline", "plain_tag", plainTag);
  md.block.ruler.before("fence", "math", blockMath, { alt: ["paragraph", "blockquote", "list"] });
  md.core.ruler.push("tasks", tasks);
  md.renderer.rules.math = (tokens, i) => {
    const { content, markup, tag } = tokens[i];
    return `<${tag} class="math ${markup}" data-tex="${escaped(content)}">${escaped(content)}</${tag}>`;
  };
  // Nothing is fetched for an answer: a picture is a link to it.
  md.renderer.rules.image = (tokens, i) => `<a href="${escaped(tokens[i].attrGet("src") || "")}">${escaped(tokens[i].content || "image")}</a>`;
  for (const side of ["th_open", "td_open"]) {
    md.renderer.rules[side] = (tokens, i) => {
      const align = /text-align:(\w+)/.exec(tokens[i].attrGet("style") || "");
      return `<${tokens[i].tag}${align ? ` align="${align[1]}"` : ""}>`;
    };
  }
  return md;
}
const parser = kPlain ? null : makeParser();

// Completes sanitised nodes before they are shown.
function finish(fragment, growing) {
  for (const link of fragment.querySelectorAll("a[href]")) Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
  for (const box of fragment.querySelectorAll("table")) {
    const frame = h("div", { className: "table", tabIndex: 0, role: "region", aria: { label: "Table" } });
    box.replaceWith(frame);
    frame.append(box);
  }
  for (const pre of fragment.querySelectorAll("pre")) {
    const code = pre.querySelector("code") || pre;
    const name = /language-(\S+)/.exec(code.className)?.[1] || "";
    pre.replaceWith(codeBlock(code.textContent, name, growing));
  }
  for (const spot of fragment.querySelectorAll(".math")) drawMath(spot);
}

/** A block of code with its language, a button that copies it, and colours. */
export function codeBlock(text, name, growing = false) {
  const code = h("code", { textContent: text.replace(/\n$/, "") });
  const copy = h("button", { type: "button", className: "plain", textContent: "Copy", onclick: () => copyText(code.textContent, copy), aria: { label: "Copy code" } });
  const block = h("div", { className: "block", data: { language: name } },
    h("div", { className: "bar" }, h("span", { textContent: name || "text" }), copy),
    h("pre", { tabIndex: 0 }, code));
  if (name && text.length < (growing ? kMostGrowing : kMostColoured)) colour(code, name);
  return block;
}

function colour(code, name) {
  if (!window.hljs) {
    load("highlight.js").then((there) => there && colour(code, name));
    return;
  }
  if (kPlain || !window.hljs.getLanguage(name)) return;
  const text = code.textContent;
  code.replaceChildren(sanitised(window.hljs.highlight(name, text, true).value));
}

// KaTeX writes two kinds of attributes `style`, which the page's policy does not allow; as properties they are allowed.
function withoutStyles(node, styles = []) {
  if (node.attributes?.style) {
    styles.push(node.attributes.style);
    delete node.attributes.style;
    node.attributes["data-style"] = styles.length - 1;
  }
  for (const child of node.children || []) withoutStyles(child, styles);
  return styles;
}

function drawMath(spot) {
  if (!window.katex) {
    load("katex.js").then((there) => there && drawMath(spot));
    return;
  }
  const options = { displayMode: spot.classList.contains("display"), throwOnError: false, trust: false, strict: "ignore", maxSize: 20, maxExpand: 500 };
  try {
    const tree = window.katex.__renderToDomTree(spot.dataset.tex, options);
    const styles = withoutStyles(tree);
    const node = tree.toNode();
    for (const styled of node.querySelectorAll("[data-style]")) styled.style.cssText = styles[styled.dataset.style];
    spot.replaceChildren(node);
  } catch {
    spot.classList.add("raw");  // formulas that KaTeX cannot draw are shown as text
  }
}

/**
 * Draws one text that may grow into `box`. Blocks before the last one are drawn once; `update` draws only what follows them.
 */
export class MarkdownView {
  constructor(box) {
    this.box = box;
    this.clear();
  }
  clear() {
    this.box.replaceChildren();
    this.fixed = "";  // the text whose blocks are final
    this.tail = [];   // nodes of the rest
    this.text = null;
    this.whole = false;
    this.plain = false;
  }
  update(given, whole) {
    // The first characters of a line may become a list item or a fence, which ends no block: they wait for the next ones.
    const text = whole ? given : given.replace(/\n[ \t]*(\d{1,9}[.)]?|[-+*|]|`{1,2}|~{1,2})$/, "\n");
    if (text === this.text && whole === this.whole) return;
    if (kPlain || (text.match(/\[/g)?.length || 0) > kMostBrackets) {
      if (this.fixed || this.box.firstChild !== this.tail[0] || !this.plain) this.clear();
      this.plain = true;
      if (!this.tail.length) this.box.append(...(this.tail = [h("p", { className: "as-written" })]));
      this.tail[0].textContent = text;
    } else {
      if (this.plain) this.clear();
      // Links may be defined after their use, and a block that ended while growing may have lost its colours.
      if (!text.startsWith(this.fixed) || (whole && /^ {0,3}\[[^\]]+\]:/m.test(text))) this.clear();
      this.draw(text, whole);
    }
    this.text = text;
    this.whole = whole;
  }
  draw(text, whole) {
    const rest = text.slice(this.fixed.length);
    if (!whole && this.grow(rest)) return;
    for (const node of this.tail) node.remove();
    this.tail = [];
    this.code = null;
    const env = {}, blocks = split(parser.parse(rest, env));
    const draw = (list, growing) => {
      const fragment = sanitised(parser.renderer.render(list.flat(), parser.options, env));
      finish(fragment, growing);
      const nodes = [...fragment.childNodes];
      this.box.append(...nodes);
      return nodes;
    };
    // A whole text may go on later ("Continue"), so that nothing of its rest is drawn for good either.
    const last = whole ? undefined : blocks.pop();
    const nodes = draw(blocks, false);
    if (whole) this.tail = nodes;
    if (!last) return;
    this.tail = draw([last], true);
    const lines = rest.split("\n"), begin = last[0].map?.[0] ?? 0;
    this.fixed += lines.slice(0, begin).map((line) => `${line}\n`).join("");
    if (last[0].type === "fence") this.code = { begin: lines[begin], node: this.tail.find((node) => node.matches?.(".block")) };
  }
  // A long block of code that is still open grows by its new text only. Returns false if that is not what `rest` is.
  grow(rest) {
    const code = this.code?.node?.querySelector("code");
    if (!code || rest.length < kMostGrowing || !rest.startsWith(`${this.code.begin}\n`)) return false;
    const mark = /^\s*(`{3,}|~{3,})/.exec(this.code.begin)?.[1];
    if (!mark || this.code.begin.startsWith(" ")) return false;
    const body = rest.slice(this.code.begin.length + 1), old = code.textContent;
    if (body.includes(`\n${mark}`) || body.startsWith(mark) || !body.startsWith(old)) return false;
    const more = body.slice(old.length);
    if (more) code.append(more);
    return true;
  }
}

// Tokens by the blocks of the top level.
function split(tokens) {
  const blocks = [];
  let depth = 0;
  for (const token of tokens) {
    if (depth === 0) blocks.push([]);
    blocks.at(-1).push(token);
    depth += token.nesting;
  }
  return blocks;
}
