"""Tests of what the page makes of an answer's text; run by page_test.py."""

import time

from page_base import SHOTS, Machines, PageTest

ANSWER = """Here is a function, with $E = mc^2$ for $5 to $6:

```python
def fibonacci(n: int) -> int:
    # A comment that is longer than any page is wide, so that the block has to scroll within itself and not the page.
\treturn n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
```

| name | kind | size |
|---|:-:|--:|
| `a` | **int** | 8 |
| b | a \\| b | 16 |

1. first
2. second
   - inner *one*
3. third

- [ ] to do
- [x] done

$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$

> A quotation with https://example.org/a_(b).

snake_case_name, 2 * 3 * 4, H<sub>2</sub>O, \\(\\left\\{\\begin{pmatrix}a&b\\\\\\\\c&d\\end{pmatrix}\\right.\\)"""

ATTACKS = """<script>window.broken = 1</script> <img src=x onerror="window.broken = 2"> <svg onload="window.broken = 3"><script>window.broken = 4</script></svg>

<iframe src="javascript:window.broken = 5"></iframe> <style>body { display: none }</style> <a href="javascript:window.broken = 6">a</a>

[one](javascript:window.broken=7) [two](JaVaScRiPt:window.broken=8) [three](data:text/html,<script>window.broken=9</script>) [four](vbscript:x)
[five](\tjavascript:window.broken=10) [six](&#106;avascript:window.broken=11) [seven](file:///etc/passwd) [good](https://example.org/)

![pixel](https://example.org/pixel.png) ![svg](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+) <javascript:window.broken=12>

$\\href{javascript:window.broken=13}{x}$ $\\url{javascript:window.broken=14}$ $\\htmlData{onclick=window.broken=15}{x}$ $\\includegraphics{https://example.org/a.png}$
$\\htmlStyle{background:url(https://example.org/b.png)}{x}$ $\\unicode{<img src=x onerror=window.broken=16>}$

```html" onmouseover="window.broken=17
<img src=x onerror="window.broken = 18"></code></pre><img src=x onerror="window.broken = 19">
```

<b onclick="window.broken = 20">bold</b> <form action="https://example.org/"><input name=a><button>go</button></form> <sub style="position:fixed;inset:0">x</sub>

| a |
|---|
| <img src=x onerror="window.broken = 21"> |

https://example.org/"onmouseover="window.broken=22 <details open ontoggle="window.broken = 23"><math><mtext></form><mglyph><style></math><img src onerror=window.broken=24>"""


class Content(PageTest):
    def answer(self, text, pieces=None, page=None):
        def reply(reply):
            for piece in pieces or [text]:
                reply.text(piece)
            reply.end()

        Machines.fake.answer = reply
        page = page or self.open()
        self.ask(page, "A question")
        return page

    def test_markdown_mathematics_and_code_are_drawn(self):
        page = self.answer(ANSWER)
        body = page.locator(".prose")
        page.wait_for_selector(".prose .hljs-keyword:has-text('def')")
        page.wait_for_selector(".prose .katex")
        self.assertEqual(body.locator(".block .bar span").inner_text(), "python")
        self.assertIn("\treturn n if", body.locator(".block code").inner_text())
        cells = body.locator("tbody tr").nth(1).locator("td")
        self.assertEqual([cell.evaluate("(e) => getComputedStyle(e).textAlign") for cell in cells.all()], ["start", "center", "right"])
        self.assertEqual(cells.nth(1).inner_text(), "a | b")
        self.assertEqual([box.is_checked() for box in body.locator("li input").all()], [False, True])
        self.assertEqual(body.locator("li li em").inner_text(), "one")
        self.assertEqual(body.locator("blockquote a").get_attribute("href"), "https://example.org/a_(b)")
        self.assertIn("snake_case_name, 2 * 3 * 4, H2O", body.inner_text())
        self.assertIn("for $5 to $6:", body.inner_text())
        self.assertEqual(body.locator(".katex-display").count(), 1)
        self.assertEqual(body.locator(".katex-error").count(), 0)
        tall = body.locator(".katex .delimsizing, .katex svg").first  # drawn by styles that the policy has to allow
        self.assertGreater(tall.bounding_box()["height"], 10)
        self.assertGreater(page.evaluate("document.fonts.size"), 5)

    def test_no_answer_runs_loads_or_leads_astray(self):
        pieces = [ATTACKS[i : i + 5] for i in range(0, len(ATTACKS), 5)]
        page = self.answer(ATTACKS, pieces)
        page.wait_for_selector(".prose .katex")
        for element in page.locator(".prose a, .prose b, .prose sub, .prose .block").all():
            element.hover(force=True)
        page.wait_for_timeout(300)
        self.assertIsNone(page.evaluate("window.broken ?? null"))
        found = page.evaluate("""() => { const all = [...document.querySelectorAll(".prose *")]; return {
            tags: [...new Set(all.map((e) => e.tagName.toLowerCase()))],
            handlers: all.flatMap((e) => [...e.attributes].filter((a) => /^on/i.test(a.name)).map((a) => a.name)),
            links: all.filter((e) => e.hasAttribute("href")).map((e) => e.getAttribute("href")),
            fixed: all.filter((e) => getComputedStyle(e).position === "fixed").length,
            sources: all.filter((e) => e.hasAttribute("src") || e.hasAttribute("srcset") || e.hasAttribute("action")).length }; }""")
        forbidden = {"script", "img", "iframe", "style", "form", "object", "embed", "link", "meta", "base", "details"}
        self.assertEqual(forbidden & set(found["tags"]), set())
        self.assertEqual((found["handlers"], found["fixed"], found["sources"]), ([], 0, 0))
        self.assertTrue(found["links"])
        for link in found["links"]:
            self.assertRegex(link, r"^(https?://|mailto:)")
        for link in page.locator(".prose a[href]").all():
            self.assertIn("noopener", link.get_attribute("rel"))
        self.assertIn("<script>window.broken = 1</script>", page.inner_text(".prose"))  # shown, not dropped

    def test_a_growing_answer_is_drawn_as_the_whole_one(self):
        whole = self.answer(ANSWER)
        whole.wait_for_selector(".prose .hljs-keyword")
        whole.wait_for_selector(".prose .katex")
        text = whole.inner_html(".prose")
        page = self.open()
        for size in (1, 17):
            with self.subTest(size=size):
                page.click("#new")
                self.answer(ANSWER, [ANSWER[i : i + size] for i in range(0, len(ANSWER), size)], page)
                page.wait_for_selector(".prose .hljs-keyword")
                page.wait_for_selector(".prose .katex")
                self.assertEqual(page.inner_html(".prose"), text)

    def test_an_answer_that_goes_on_is_drawn_as_the_whole_one(self):
        text = self.answer(ANSWER)
        text.wait_for_selector(".prose .hljs-keyword")
        text.wait_for_selector(".prose .katex")
        for cut in (ANSWER.index("return"), ANSWER.index("| b |"), ANSWER.index("second")):
            with self.subTest(cut=cut):
                Machines.fake.answer = lambda reply, cut=cut: (reply.text(ANSWER[:cut]), reply.end("length"))
                page = self.open()
                self.ask(page, "A question")
                Machines.fake.answer = lambda reply, cut=cut: (reply.text(ANSWER[cut : cut + 9]), reply.text(ANSWER[cut + 9 :]), reply.end())
                page.click("button:has-text('Continue')")
                page.wait_for_selector(".prose:has-text('snake_case_name')")
                self.answered(page)
                page.wait_for_selector(".prose .hljs-keyword")
                page.wait_for_selector(".prose .katex")
                self.assertEqual(page.inner_html(".prose"), text.inner_html(".prose"))

    def test_finished_blocks_are_not_drawn_again(self):
        page = self.open()
        page.evaluate("""() => { window.removed = 0; window.shift = 0;
            new MutationObserver((list) => { for (const change of list) for (const node of change.removedNodes)
                if (node.nodeType === 1 && change.target.matches?.(".prose")) window.removed += node.textContent.length; })
              .observe(document.body, { childList: true, subtree: true });
            new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.shift += entry.value; }).observe({ type: "layout-shift", buffered: true }); }""")
        paragraph = "A sentence of some words, **bold** and `code`, that fills a line and a half or so of the page. " * 3
        text = "\n\n".join([paragraph] * 340)  # 100 kB
        self.assertGreater(len(text), 95_000)
        self.answer(text, [text[i : i + 500] for i in range(0, len(text), 500)], page)
        self.assertEqual(page.locator(".prose p").count(), 340)
        # A whole redraw for each piece would remove 200 times half of the text.
        self.assertLess(page.evaluate("window.removed"), 3 * len(text))
        self.assertLess(page.evaluate("window.shift"), 0.1)

    def test_a_long_block_of_code_grows_in_place(self):
        code = "".join(f"value_{i} = {i}  # a comment\n" for i in range(4000))
        page = self.answer(code, ["```python\n", *[code[i : i + 700] for i in range(0, len(code), 700)], "```\n\nDone."])
        self.assertEqual(page.inner_text(".prose .block code").rstrip("\n"), code.rstrip("\n"))
        self.assertGreater(page.locator(".prose .hljs-number").count(), 3999)  # coloured in the end

    def test_reasoning_and_tool_calls(self):
        def answer(reply):
            reply.delta(reasoning_content="They want <b>the weather</b>.")
            reply.delta(tool_calls=[{"index": 0, "id": "call1", "type": "function", "function": {"name": "weather", "arguments": ""}}])
            for piece in ('{"city":', ' "Ro', 'me"}'):
                reply.delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
            reply.end("tool_calls")

        Machines.fake.answer = answer
        page = self.open()
        self.ask(page, "The weather?")
        self.assertFalse(page.is_visible("text=They want"))
        page.click("summary:has-text('Reasoning')")
        self.assertTrue(page.is_visible("text=They want <b>the weather</b>."))
        self.assertIn("Tool call: weather", page.inner_text(".call"))
        self.assertIn('"city": "Rome"', page.inner_text(".call pre"))
        self.ask(page, "And now?")
        told = Machines.fake.asked[-1]["messages"][1]
        self.assertEqual(told["tool_calls"][0]["function"], {"name": "weather", "arguments": '{"city": "Rome"}'})

    def test_without_the_libraries_answers_are_shown_as_written(self):
        context = self.context()
        context.route("**/page/purify.js", lambda route: route.fulfill(status=404, body=""))
        self.expected = ("404",)
        page = self.answer("**a** <img src=x onerror='window.broken = 1'>\nb", page=self.open(context))
        self.assertEqual(page.inner_text(".prose"), "**a** <img src=x onerror='window.broken = 1'>\nb")

    def test_many_spaces_and_marks_take_no_time(self):
        page = self.open()
        for text in ("a" + " " * 50_000 + "b", "*" * 20_000, "[" * 20_000, "$" * 20_000, "`" * 20_001, "> " * 500 + "x", "\\(" * 10_000, "|a" * 5_000 + "\n" + "|-" * 5_000):
            with self.subTest(text=text[:8]):
                begin = time.monotonic()
                self.answer(text, page=page)
                self.assertLess(time.monotonic() - begin, 8)


class Looks(PageTest):
    SIZES = [(1280, 860), (390, 844), (320, 640)]

    def test_it_fits_every_width_in_both_themes(self):
        for width, height in self.SIZES:
            for theme in ("light", "dark") if SHOTS else ("light",):  # they differ in colours only
                with self.subTest(width=width, theme=theme):
                    self.look(width, height, theme)

    def look(self, width, height, theme):
        name, narrow = f"{width}-{theme}", width < 760
        page = self.open(self.context(width=width, height=height, theme=theme))
        self.fits(page, f"empty-{name}")
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), theme)

        def answer(reply):
            reply.delta(reasoning_content="They want code.")
            reply.text(ANSWER)
            reply.end(prompt=900, made=412)

        Machines.fake.answer = answer
        page.set_input_files("#file", {"name": "a-file-with-a-rather-long-name-of-its-own.txt", "mimeType": "text/plain", "buffer": b"text"})
        page.wait_for_selector(".chip")
        self.send(page, "Code and a table, and " + "no-spaces" * 30)
        page.wait_for_selector(".prose .katex")
        page.wait_for_selector(".prose .hljs-keyword")
        page.wait_for_timeout(200)
        self.until(page, "() => { const e = document.querySelector('#log'); return e.scrollHeight - e.scrollTop - e.clientHeight < 2; }")
        self.fits(page, f"end-{name}")
        page.locator("#log").evaluate("(e) => { e.scrollTop = 0; }")
        self.fits(page, f"chat-{name}")
        page.locator(".prose .block").evaluate("(e) => e.scrollIntoView({ block: 'center' })")
        self.fits(page, f"code-{name}")
        Machines.fake.answer = lambda reply: reply.fail(400, "The prompt has 5000 tokens, the context holds 2048.", "context_length_exceeded")
        self.expected = ("400",)
        self.send(page, "Too long")
        page.wait_for_selector(".message .trouble.failed")
        self.fits(page, f"error-{name}")
        for key, box in (("Control+,", "#settings"), ("Control+/", "#help")):
            page.keyboard.press(key)
            page.wait_for_selector(f"{box}[open]")
            self.fits(page, f"{box[1:]}-{name}")
            page.keyboard.press("Escape")
        if narrow:
            page.click("#list")
        page.fill("#search", "fibonacci")
        self.until(page, "document.querySelector('.row .excerpt')?.textContent.includes('fibonacci')")
        self.fits(page, f"list-{name}")

    def send(self, page, text):
        page.fill("#text", text)
        page.click("#send")
        self.answered(page)

    def fits(self, page, name):
        self.shoot(page, name)
        self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"), name)
        # No button that can be used lies outside of the window, once a drawer has slid away.
        self.until(page, """() => [...document.querySelectorAll("button, select, textarea, input")].filter((e) => e.checkVisibility({ visibilityProperty: true }))
            .map((e) => e.getBoundingClientRect()).every((box) => !box.width || (box.left >= 0 && box.right <= innerWidth + 1))""")

    def test_text_is_legible(self):
        """Contrast of at least 4.5 (WCAG AA) between text and what lies below it."""
        for theme in ("light", "dark"):
            page = self.open(self.context(theme=theme))
            Machines.fake.answer = lambda reply: (reply.text(ANSWER), reply.end())
            self.ask(page, "A question")
            page.wait_for_selector(".prose .hljs-keyword")
            low = page.evaluate("""() => {
                const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
                const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
                const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
                const out = [];
                for (const e of document.querySelectorAll("body *")) {
                  if (!e.checkVisibility({ visibilityProperty: true }) || e.closest(".unseen, .katex, :disabled, .skip") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
                  let below = e, back = [0, 0, 0, 0];
                  for (; below && back[3] < 255; below = below.parentElement) back = rgb(getComputedStyle(below).backgroundColor);
                  const [a, b] = [light(rgb(getComputedStyle(e).color)), light(back)].sort((x, y) => y - x);
                  const ratio = (a + .05) / (b + .05);
                  if (ratio < 4.5) out.push(`${e.className || e.tagName} ${ratio.toFixed(2)} ${e.textContent.slice(0, 20)}`);
                }
                return out; }""")
            self.assertEqual(low, [], theme)
