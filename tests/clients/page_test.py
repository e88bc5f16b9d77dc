#!/usr/bin/env python3
"""The web page in headless Chromium against a live `veery serve` with SmolLM2-135M-Instruct.

usage: page_test.py VEERY [--shots FOLDER] [unittest arguments]

Run by the Python of scripts/clients.sh --page; Chromium is the system's or Playwright's own. Without either, or without
the model, all is skipped (status 77). --shots keeps pictures of the page in both themes and on a phone, for people to look at.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = pathlib.Path(os.environ.get("VEERY_MODELS") or CACHE / "veery" / "models") / "SmolLM2-135M-Instruct.Q4_1.gguf"
SHOTS = pathlib.Path(sys.argv.pop(sys.argv.index("--shots") + 1)) if "--shots" in sys.argv else None
if SHOTS:
    sys.argv.remove("--shots")
from serve_client import Server  # noqa: E402

ANSWER = """Here is a function:

```python
def fibonacci(n: int) -> int:
    # A comment that is longer than any page is wide, so that the block has to scroll within itself and not the page.
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
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

> A quotation with https://example.org/a_(b).

<img src=x onerror="window.broken = true"> <script>window.broken = true</script> snake_case_name, 2 * 3 * 4"""
DRAWN = [
    {"role": "user", "text": "Code and a table?", "parent": -1, "files": [{"name": "notes.txt", "text": "a"}]},
    {"role": "assistant", "text": ANSWER, "thought": "They want code.", "parent": 0, "speed": "212 tokens, 88.0 a second"},
    {"role": "assistant", "text": "Another answer.", "parent": 0},
    {"role": "user", "text": "no-spaces" * 60, "parent": 1},
    {"role": "assistant", "text": "", "error": "The prompt has 5000 tokens, the context holds 2048", "parent": 3},
]
browser = playwright = server = None


def setUpModule():
    global browser, playwright, server
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    server = Server(MODEL, "-a", "smollm2", "-c", 2048)


def tearDownModule():
    browser.close()
    playwright.stop()
    server.end()


class PageTest(unittest.TestCase):
    def setUp(self):
        self.complaints, self.asked = [], set()

    def tearDown(self):
        self.assertEqual(self.complaints, [])
        self.assertEqual({url.split("/")[2] for url in self.asked if not url.startswith("data:")}, {f"127.0.0.1:{server.port}"})

    def open(self, width=1280, height=860, theme="light", chats=None, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, has_touch=width < 760)
        self.addCleanup(context.close)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.add(request.url))
        page.goto(f"http://127.0.0.1:{server.port}/")
        values = {"s.temperature": "0", "s.max_tokens": "24", **settings}
        if chats:
            values["chats"] = chats
        for name, value in values.items():
            page.evaluate("([k, v]) => localStorage.setItem('veery.' + k, v)", [name, json.dumps(value)])
        page.reload()
        page.wait_for_selector("#model option", state="attached")
        return page

    def drawn(self, **how):
        chats = [{"id": 1, "title": "Older", "system": "", "nodes": [{"role": "user", "text": "x", "parent": -1}], "leaf": 0},
                 {"id": 2, "title": "Code and a table?", "system": "", "nodes": DRAWN, "leaf": 4}]  # fmt: skip
        page = self.open(chats=chats, **how)
        if how.get("width", 1280) < 760:
            page.click("#menu")
        page.click(".chat-row button.open >> nth=0")
        return page

    def ask(self, page, text):
        page.fill("#text", text)
        page.press("#text", "Enter")
        page.wait_for_selector("#send:visible")
        return page.inner_text(".message.assistant:last-child .body")

    def shoot(self, page, name):
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            page.wait_for_timeout(300)  # what moves has come to rest
            page.screenshot(path=SHOTS / f"{name}.png")

    def test_an_answer_streams_is_kept_and_made_again(self):
        page = self.open()
        text = self.ask(page, "What is the capital of France?")
        self.assertIn("Paris", text)
        self.assertIn("a second", page.inner_text(".message.assistant .tools"))
        page.click("text=Again")
        page.wait_for_selector("text=2/2")
        self.assertEqual(page.inner_text(".message.assistant .body"), text)  # temperature 0
        self.assertIn("known", page.inner_text(".message.assistant .tools"))
        page.reload()
        page.click(".chat-row button.open")
        self.assertEqual(page.inner_text(".message.assistant .body"), text)

    def test_an_edited_question_is_another_branch(self):
        page = self.open()
        first = self.ask(page, "What is the capital of France?")
        page.click(".message.user button:has-text('Edit')")
        send = page.locator(".message.user .tools .main")
        self.assertNotEqual(*send.evaluate("(e) => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"))
        self.shoot(page, "edit")
        page.fill("textarea.edit", "What is the capital of Italy?")
        page.press("textarea.edit", "Enter")
        page.wait_for_selector("#send:visible")
        page.wait_for_selector(".message.user >> text=2/2")
        self.assertNotEqual(page.inner_text(".message.assistant .body"), first)
        page.click("[aria-label='Earlier version']")
        self.assertEqual(page.inner_text(".message.assistant .body"), first)

    def test_an_answer_is_stopped_and_leaves_its_slot(self):
        page = self.open(**{"s.max_tokens": "1900"})
        page.fill("#text", "Write a very long story about the sea.")
        page.press("#text", "Enter")
        page.wait_for_selector(".message.assistant .body >> text=/.{40}/")
        page.click("#new")  # another chat may be read meanwhile
        page.wait_for_selector("text=Answers come from this machine")
        page.click(".chat-row button.open")
        page.press("#text", "Escape")
        page.wait_for_selector("#send:visible")
        server.idle()

    def test_tokens_show_their_alternatives(self):
        page = self.open(logprobs=True)
        self.ask(page, "What is the capital of France?")
        page.click("text=Tokens")
        page.click(".tokens span:has-text('Paris')")
        self.assertIn("Paris", page.inner_text("#alternatives .chosen"))
        self.assertEqual(page.locator("#alternatives tr").count(), 8)
        self.shoot(page, "alternatives")
        page.keyboard.press("Escape")
        self.assertFalse(page.is_visible("#alternatives"))

    def test_a_text_file_goes_with_the_question(self):
        page = self.open()
        page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The password is marzipan."})
        page.wait_for_selector(".file:has-text('notes.txt')")
        self.assertIn("marzipan", self.ask(page, "What is the password? Answer with the sentence of the file.").lower())
        self.assertIn("File notes.txt", page.inner_text(".message.user"))

    def test_markdown_is_drawn_and_nothing_of_it_is_html(self):
        page = self.drawn()
        self.assertIsNone(page.evaluate("window.broken ?? null"))
        body = page.locator(".message.assistant .body").first
        self.assertIn("<img src=x", body.inner_text())
        self.assertEqual(body.locator("img, script").count(), 0)
        self.assertEqual(body.locator(".block .bar span").inner_text(), "python")
        sides = [cell.evaluate("(e) => e.style.textAlign") for cell in body.locator("tr").nth(2).locator("td").all()]
        self.assertEqual(sides, ["", "center", "right"])
        self.assertEqual(body.locator("tr").nth(2).locator("td").nth(1).inner_text(), "a | b")
        self.assertEqual([box.is_checked() for box in body.locator("li input").all()], [False, True])
        self.assertEqual(body.locator("li li em").inner_text(), "one")
        self.assertEqual(body.locator("blockquote a").get_attribute("href"), "https://example.org/a_(b)")
        self.assertIn("snake_case_name, 2 * 3 * 4", body.inner_text())
        self.assertFalse(page.is_visible("text=They want code."))
        page.click("text=Reasoning")
        self.assertTrue(page.is_visible("text=They want code."))

    def test_it_fits_every_width_in_both_themes(self):
        for width, height in [(1280, 860), (390, 844), (320, 640)]:
            for theme in ("light", "dark"):
                with self.subTest(width=width, theme=theme):
                    page = self.drawn(width=width, height=height, theme=theme)
                    self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), theme)
                    self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"))
                    at_end = "(e) => e.scrollHeight - e.scrollTop - e.clientHeight < 2"
                    self.assertTrue(page.locator("#log").evaluate(at_end))
                    self.shoot(page, f"end-{width}-{theme}")
                    page.locator("#log").evaluate("(e) => { e.scrollTop = 0; }")
                    self.shoot(page, f"chat-{width}-{theme}")
                    page.click("#settings")
                    page.locator("#close").scroll_into_view_if_needed()
                    self.shoot(page, f"settings-{width}-{theme}")
                    page.click("#close")

    def test_keys_and_settings(self):
        page = self.open(**{"s.temperature": "", "s.max_tokens": "8"})
        page.keyboard.press("Control+,")
        page.fill("#seed", "7")
        page.click("#close")
        self.assertEqual(page.locator(".chat-row").count(), 0)  # settings alone begin no chat
        first = self.ask(page, "Tell me something.")
        page.keyboard.press("Control+Shift+O")
        page.wait_for_selector("text=Answers come from this machine")
        self.assertEqual(self.ask(page, "Tell me something."), first)  # the same seed
        self.assertEqual(page.locator(".chat-row").count(), 2)
        page.click("#theme")
        page.reload()
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")


def missing():
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    if not MODEL.is_file():
        return f"{MODEL} is not there"
    own = CACHE / "ms-playwright"
    if not (shutil.which("chromium") or shutil.which("google-chrome") or (own.is_dir() and any(own.glob("chromium*")))):
        return "there is no Chromium"
    return None


if __name__ == "__main__":
    if why := missing():
        print(f"page: {why}")
        sys.exit(77)
    unittest.main()
