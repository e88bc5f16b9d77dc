"""Shared by tests of the web page: Chromium, a real server, a scripted server, and steps of a user."""
import importlib.util
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
from page_server import PageServer, files_of  # noqa: E402
from serve_client import Server  # noqa: E402


class Machines:
    """One browser and one server of each kind for all tests."""

    browser = playwright = real = fake = None

    @classmethod
    def start(cls):
        from playwright.sync_api import sync_playwright

        cls.playwright = sync_playwright().start()
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        cls.browser = cls.playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        cls.real = Server(MODEL, "-a", "smollm2", "-c", 2048)
        cls.fake = PageServer(files_of(cls.real.port))

    @classmethod
    def stop(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.fake.end()
        cls.real.end()


class PageTest(unittest.TestCase):
    """No test may leave an error on the console or ask another host for anything."""

    expected = ()  # parts of console errors that a test provokes

    def setUp(self):
        self.complaints, self.asked = [], set()
        Machines.fake.reset()

    def tearDown(self):
        self.assertEqual([text for text in self.complaints if not any(part in text for part in self.expected)], [])
        self.assertLessEqual({url.split("/")[2] for url in self.asked if not url.startswith("blob:")}, self.hosts())

    @staticmethod
    def hosts():
        return {f"127.0.0.1:{Machines.real.port}", f"127.0.0.1:{Machines.fake.server_port}"}

    def context(self, width=1280, height=860, theme="light", **more):
        context = Machines.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, has_touch=width < 760,
            reduced_motion=more.pop("reduced_motion", "no-preference"), **more)  # fmt: skip
        self.addCleanup(context.close)
        return context

    def open(self, context=None, port=None, path="", **settings):
        """A page, by default of the fake server, when it is ready; `settings` are those of the browser."""
        page = (context or self.context()).new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.add(request.url))
        pairs = [[f"veery.{name}", value] for name, value in settings.items()]
        if pairs:
            page.add_init_script(f"for (const [name, value] of {pairs!r}) localStorage.getItem(name) ?? localStorage.setItem(name, value);")
        page.goto(f"http://127.0.0.1:{port or Machines.fake.server_port}/{path}")
        self.ready(page)
        return page

    @staticmethod
    def ready(page):
        page.wait_for_selector("html.ready")
        page.wait_for_selector("#model:not([disabled])", state="attached")

    def reload(self, page):
        page.reload()
        self.ready(page)

    def ask(self, page, text, wait=True):
        questions = page.locator(".message.user").count()
        page.fill("#text", text)
        page.press("#text", "Enter")
        # Until the answer to this question has begun, the one before is the last.
        self.until(page, """(count) => document.querySelectorAll(".message.user").length > count
            && document.querySelector(".message:last-child").matches(".assistant")""", arg=questions)
        if wait:
            self.answered(page)
            return page.inner_text(".message.assistant:last-child .prose")
        page.wait_for_selector("#stop:visible")
        return None

    @staticmethod
    def answered(page):
        page.wait_for_selector(".message.assistant:last-child:not(.live)")
        page.wait_for_selector("#send:visible")

    @staticmethod
    def records(page, kind):
        """All records of the database."""
        return page.evaluate(
            """(kind) => new Promise((resolve) => { const open = indexedDB.open("veery"); open.onsuccess = () => {
               const all = open.result.transaction(kind).objectStore(kind).getAll();
               all.onsuccess = () => { open.result.close(); resolve(all.result); }; }; })""", kind)  # fmt: skip

    def until(self, page, expression, arg=None):
        """Waits for an expression to be true; Playwright's own wait_for_function needs a policy that allows eval()."""
        for _ in range(400):
            if page.evaluate(expression, arg):
                return
            page.wait_for_timeout(50)
        self.fail(f"never true: {expression}")

    def shoot(self, page, name):
        if SHOTS:
            SHOTS.mkdir(parents=True, exist_ok=True)
            page.wait_for_timeout(350)  # what moves has come to rest
            page.screenshot(path=SHOTS / f"{name}.png")


def missing():
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    if not MODEL.is_file():
        return f"{MODEL} is not there"
    own = CACHE / "ms-playwright"
    if not (shutil.which("chromium") or shutil.which("google-chrome") or (own.is_dir() and any(own.glob("chromium*")))):
        return "there is no Chromium"
    return None
