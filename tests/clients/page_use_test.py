"""Tests of how people use the page: many chats, keys, files, errors, screen readers; run by page_test.py."""
import base64
import json
import pathlib
import threading

from page_base import Machines, PageTest


class Lists(PageTest):
    def test_chats_answer_at_the_same_time(self):
        go, begun, lock = threading.Event(), [], threading.Lock()

        def answer(reply):
            with lock:
                begun.append(reply.body["messages"][-1]["content"])
            reply.text("Part. ")
            go.wait(20)
            reply.text("End of " + reply.body["messages"][-1]["content"])
            reply.end()

        Machines.fake.answer = answer
        self.addCleanup(go.set)
        page = self.open()
        for number in range(6):
            page.click("#new")
            page.wait_for_selector(".greeting:visible")
            self.ask(page, f"question {number}", wait=False)
        self.until(page, "document.querySelectorAll('.row.busy').length === 6")
        page.wait_for_selector(".stats:has-text('Waiting for another answer')")  # browsers have six connections in all
        self.assertEqual(len(begun), 4)
        page.locator(".row .open").nth(5).click()
        page.wait_for_selector(".bubble:has-text('question 0')")
        page.wait_for_selector(".prose:has-text('Part.')")
        page.locator(".row .open").nth(0).click()
        page.wait_for_selector(".bubble:has-text('question 5')")
        page.keyboard.press("Escape")  # one that waits is stopped at once
        self.answered(page)
        go.set()
        self.until(page, "document.querySelectorAll('.row.unread').length === 5 && !document.querySelector('.row.busy')")
        for number in range(5):
            page.locator(".row .open").nth(5 - number).click()
            page.wait_for_selector(f".prose:has-text('End of question {number}')")
        self.assertEqual(page.locator(".row.unread").count(), 0)
        self.assertNotIn("question 5", begun)

    def test_tabs_share_the_connections_of_the_browser(self):
        go, begun = threading.Event(), []

        def answer(reply):
            begun.append(reply)
            reply.text("Part. ")
            go.wait(20)
            reply.end()

        Machines.fake.answer = answer
        self.addCleanup(go.set)
        context = self.context()
        for page in [self.open(context), self.open(context)]:
            for number in range(3):
                page.click("#new")
                page.wait_for_selector(".greeting:visible")
                self.ask(page, f"question {number}", wait=False)
        page.wait_for_selector(".stats:has-text('Waiting for another answer')")
        self.assertEqual(len(begun), 4)
        third = self.open(context)  # is still served
        third.wait_for_selector(".row.busy >> nth=5")
        third.close()
        go.set()
        self.answered(page)
        self.until(page, "document.querySelectorAll('.row').length === 6 && !document.querySelector('.row.busy')")
        self.assertEqual(len(begun), 6)

    def test_a_deleted_chat_comes_back(self):
        page = self.open()
        self.ask(page, "A question")
        page.click(".row .more")
        page.click("[role=menuitem]:has-text('Delete')")
        page.wait_for_selector(".greeting:visible")
        self.assertEqual(page.locator(".row").count(), 0)
        self.reload(page)
        self.assertEqual(page.locator(".row").count(), 0)
        page.go_back()
        page.goto(f"http://127.0.0.1:{Machines.fake.server_port}/")
        self.ready(page)
        self.ask(page, "Another")
        page.click(".row .more")
        page.click("[role=menuitem]:has-text('Delete')")
        page.click(".notice button:has-text('Undo')")
        page.wait_for_selector(".row:has-text('Another')")
        self.assertEqual(page.inner_text(".prose"), "An answer.")

    def test_all_chats_are_deleted_and_come_back(self):
        page = self.open()
        for text in ("one", "two"):
            page.click("#new")
            self.ask(page, text)
        page.keyboard.press("Control+,")
        page.click("#delete-all")
        page.wait_for_selector(".notice:has-text('2 chats deleted')")
        self.assertEqual(page.locator(".row").count(), 0)
        page.click(".notice button:has-text('Undo')")
        self.until(page, "document.querySelectorAll('.row').length === 2")

    def test_search_looks_into_titles_texts_and_files(self):
        page = self.open()
        Machines.fake.answer = lambda reply: (reply.text("The heron stands in water."), reply.end())
        self.ask(page, "About a bird")
        page.click("#new")
        Machines.fake.answer = lambda reply: (reply.text("Nothing."), reply.end())
        self.ask(page, "Something else")
        for words, expected in (("HERON", 1), ("something", 1), ("zebra", 0), ("", 2)):
            page.fill("#search", words)
            self.until(page, "(count) => document.querySelectorAll('.row').length === count", arg=expected)
        page.fill("#search", "heron")
        page.wait_for_selector(".excerpt:has-text('The heron stands')")
        self.assertIn("1 chat found", page.inner_text("#search-count"))

    def test_chats_are_exported_and_imported(self):
        page = self.open()
        Machines.fake.answer = lambda reply: (reply.text("First **answer** with ``` fences"), reply.end())
        page.set_input_files("#file", {"name": "a.py", "mimeType": "text/plain", "buffer": b"print('```')\n"})
        page.wait_for_selector(".chip")
        self.ask(page, "A question")
        page.click(".message button:has-text('Again')")
        page.wait_for_selector(".branches:has-text('2/2')")
        self.answered(page)
        with page.expect_download() as saved:
            page.click(".row .more")
            page.click("[role=menuitem]:has-text('Markdown')")
        text = pathlib.Path(saved.value.path()).read_text()
        self.assertTrue(text.startswith("# A question\n\n## You\n\nFile a.py:\n````py\nprint('```')\n````\n\nA question\n\n## fake-1\n\nFirst **answer**"), text)
        page.keyboard.press("Control+,")
        with page.expect_download() as saved:
            page.click("#export")
        other = self.open()
        other.keyboard.press("Control+,")
        for count in (1, 0):  # what is there already is not doubled
            other.set_input_files("#import-file", {"name": "chats.json", "mimeType": "application/json", "buffer": pathlib.Path(saved.value.path()).read_bytes()})
            other.wait_for_selector(f".notice:has-text('{count} chat')")
        other.keyboard.press("Escape")
        self.assertEqual(other.locator(".row").count(), 1)
        other.click(".row .open")
        other.wait_for_selector(".branches:has-text('2/2')")
        self.assertIn("a.py", other.inner_text(".message.user"))
        for kind in ("chats", "nodes"):
            key = lambda record: record["id"]  # noqa: E731
            drop = lambda record: {name: value for name, value in record.items() if value is not None}  # noqa: E731
            self.assertEqual([drop(r) for r in sorted(self.records(page, kind), key=key)], [drop(r) for r in sorted(self.records(other, kind), key=key)])

    def test_a_chat_saved_by_the_program_is_imported(self):
        page = self.open()
        data = {"format": "veery-chat", "version": 1, "parameters": {"temperature": 0.25}, "template_args": {"enable_thinking": False},
                "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "saved question"},
                             {"role": "assistant", "content": "saved answer", "reasoning_content": "hm"}]}
        page.keyboard.press("Control+,")
        page.set_input_files("#import-file", {"name": "chat.json", "mimeType": "application/json", "buffer": json.dumps(data).encode()})
        page.wait_for_selector(".notice:has-text('1 chat imported')")
        page.keyboard.press("Escape")
        page.click(".row:has-text('saved question') .open")
        page.wait_for_selector(".prose:has-text('saved answer')")
        self.ask(page, "More")
        body = Machines.fake.asked[-1]
        told = [(m["role"], m["content"]) for m in body["messages"]]
        self.assertEqual(told, [("system", "Be brief"), ("user", "saved question"), ("assistant", "saved answer"), ("user", "More")])
        self.assertEqual((body["temperature"], body["chat_template_kwargs"]), (0.25, {"enable_thinking": False}))

    def test_tools_of_a_saved_chat_are_imported(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
        call = lambda name: {"type": "function", "function": {"name": "weather", "arguments": {"city": name}}}  # noqa: E731
        messages = [
            {"role": "user", "content": "weather?"}, {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "a", **call("Rome")}, call("Oslo")]},
            {"role": "tool", "content": "snow", "tool_call_id": "other"}, {"role": "tool", "content": "sun", "tool_call_id": "b"},
            {"role": "tool", "content": "of no call"}, {"role": "assistant", "content": "Different."}]  # fmt: skip
        data = {"format": "veery-chat", "version": 1, "tools": tools, "messages": messages}

        def imported(name, data):
            page = self.open()
            page.keyboard.press("Control+,")
            page.set_input_files("#import-file", {"name": name, "mimeType": "application/json", "buffer": json.dumps(data).encode()})
            page.wait_for_selector(f".notice:has-text('{name}: 1 chat imported')")
            page.keyboard.press("Escape")
            page.click(".row:has-text('weather?') .open")
            page.wait_for_selector(".message.tool pre:has-text('snow')")
            self.assertEqual(page.locator(".message.tool").count(), 3)
            return page

        page = imported("saved.json", data)
        with page.expect_download() as saved:
            page.click(".row .more")
            page.click("[role=menuitem]:has-text('JSON')")
        exported = json.loads(pathlib.Path(saved.value.path()).read_text())
        for page in (page, imported("exported.json", exported)):
            self.ask(page, "More")
            body = Machines.fake.asked[-1]
            self.assertEqual(body["tools"], tools)
            told = body["messages"]
            self.assertEqual([(m["role"], m["content"]) for m in told], [
                ("user", "weather?"), ("assistant", "Let me see."), ("tool", "snow"), ("tool", "sun"), ("assistant", "Different."), ("user", "More")])  # fmt: skip
            ids = [call["id"] for call in told[1]["tool_calls"]]
            self.assertEqual((len(set(ids)), [m["tool_call_id"] for m in told[2:4]]), (2, ids))

    def test_an_export_of_llama_cpp_is_imported(self):
        page = self.open()
        message = lambda name, parent, role, content, **more: {  # noqa: E731
            "id": name, "convId": "c", "type": "text", "timestamp": 1700000000000, "role": role, "content": content, "parent": parent, "children": [], **more}  # fmt: skip
        messages = [
            message("r", None, "system", "", type="root"), message("s", "r", "system", "Be brief."),
            message("q", "s", "user", "A question", extra=[{"type": "TEXT", "name": "a.txt", "content": "text"}]),
            message("a1", "q", "assistant", "One", timestamp=1700000000001,
                    toolCalls='[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]'),
            message("t", "a1", "tool", "a result", toolCallId="c1", timestamp=1700000000003),
            message("a2", "q", "assistant", "Two", reasoningContent="Hm.", model="m", timestamp=1700000000002)]  # fmt: skip
        data = [{"conv": {"id": "c", "name": "From elsewhere", "currNode": "a2", "lastModified": 1700000000005}, "messages": messages}]
        page.keyboard.press("Control+,")
        page.set_input_files("#import-file", {"name": "llama.json", "mimeType": "application/json", "buffer": json.dumps(data).encode()})
        page.wait_for_selector(".notice:has-text('1 chat imported')")
        page.keyboard.press("Escape")
        page.click(".row:has-text('From elsewhere') .open")
        page.wait_for_selector(".prose:has-text('Two')")
        self.assertIn("2/2", page.inner_text(".message.assistant .branches"))
        self.ask(page, "More")
        told = [(m["role"], m["content"]) for m in Machines.fake.asked[-1]["messages"]]
        self.assertEqual(told, [("system", "Be brief."), ("user", "File a.txt:\n```txt\ntext\n```\n\nA question"), ("assistant", "Two"), ("user", "More")])
        page.locator(".message.assistant [aria-label='Earlier version']").first.click()
        page.wait_for_selector(".message.tool pre:has-text('a result')")
        self.ask(page, "Why")
        told = [(m["role"], m["content"], m.get("tool_call_id")) for m in Machines.fake.asked[-1]["messages"][2:]]
        self.assertEqual(told, [("assistant", "One", None), ("tool", "a result", "c1"), ("user", "Why", None)])

    def test_a_wrong_import_is_refused_in_words(self):
        page = self.open()
        page.keyboard.press("Control+,")
        bad = [b"no json", b"[]{}", b'{"a": 1}', b'{"format": "veery-chats", "chats": [{"id": 1, "nodes": []}]}', b"[]", b'[{"conv": {}, "messages": []}]',
               b'{"format": "veery-chats", "chats": [{"id": "x", "nodes": [{"id": "y", "parent": "", "text": 3, "role": "user"}]}]}']  # fmt: skip
        for data in bad:
            page.set_input_files("#import-file", {"name": "bad.json", "mimeType": "application/json", "buffer": data})
            page.wait_for_selector(".notice:has-text('bad.json could not be imported')")
            page.click(".notice [aria-label=Dismiss]", force=True)
        self.assertEqual(self.records(page, "chats"), [])

    def test_settings_belong_to_a_chat_until_they_are_made_defaults(self):
        page = self.open()
        page.keyboard.press("Control+,")
        page.fill("#temperature", "0.25")
        page.fill("#system", "Be brief.")
        page.select_option("#thinking", "off")
        page.press("#temperature", "Enter")
        self.assertEqual(page.locator(".row").count(), 0)  # settings alone begin no chat
        self.ask(page, "A question")
        body = Machines.fake.asked[-1]
        self.assertEqual((body["temperature"], body["messages"][0]["content"], body["chat_template_kwargs"]), (0.25, "Be brief.", {"enable_thinking": False}))
        page.click("#new")
        self.ask(page, "A question")
        self.assertNotIn("temperature", Machines.fake.asked[-1])
        page.locator(".row .open").nth(1).click()
        self.until(page, "document.querySelectorAll('.row')[1].classList.contains('now')")
        page.keyboard.press("Control+,")
        self.assertEqual(page.input_value("#temperature"), "0.25")
        page.click("#defaults")
        page.click("#settings .main")
        page.click("#new")
        self.ask(page, "A question")
        self.assertEqual(Machines.fake.asked[-1]["temperature"], 0.25)
        page.select_option("#model", "fake-2")
        self.ask(page, "More")
        self.assertEqual(Machines.fake.asked[-1]["model"], "fake-2")

    def test_the_theme_is_kept(self):
        page = self.open()
        page.keyboard.press("Control+,")
        page.select_option("#theme", "dark")
        page.keyboard.press("Escape")
        self.reload(page)
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "dark")
        self.assertEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(26, 24, 22)")


class Keyboard(PageTest):
    def test_everything_is_reached_without_a_mouse(self):
        page = self.open()
        keys = page.keyboard
        keys.type("first\n")
        self.answered(page)
        keys.press("Control+Shift+O")
        page.wait_for_selector(".greeting:visible")
        keys.type("second")
        keys.press("Shift+Enter")
        keys.type("line\n")
        self.answered(page)
        self.assertEqual(page.inner_text(".bubble"), "second\nline")
        keys.press("Alt+ArrowDown")
        page.wait_for_selector(".bubble:has-text('first')")
        keys.press("Control+k")
        keys.type("second")
        self.until(page, "document.querySelectorAll('.row').length === 1")
        keys.press("ArrowDown")
        keys.press("F2")
        keys.type("Renamed\n")
        page.wait_for_selector(".row:has-text('Renamed')")
        keys.press("Enter")
        page.wait_for_selector(".bubble:has-text('second')")
        keys.press("Control+k")
        keys.press("Escape")
        self.until(page, "document.querySelectorAll('.row').length === 2")
        keys.press("ArrowDown")
        keys.press("Tab")  # the menu of the row
        keys.press("Enter")
        page.wait_for_selector("[role=menu]")
        keys.press("End")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Delete")
        keys.press("Escape")
        self.assertEqual(page.evaluate("document.activeElement.getAttribute('aria-haspopup')"), "menu")
        keys.press("Control+Shift+E")
        keys.type("Once more\n")
        page.wait_for_selector(".row.now:has-text('Once more')")
        keys.press("Control+Shift+D")
        self.until(page, "document.querySelectorAll('.row').length === 1")
        page.focus(".notice button")
        keys.press("Enter")
        self.until(page, "document.querySelectorAll('.row').length === 2")
        page.wait_for_selector(".bubble:has-text('second')")
        keys.press("Control+/")
        page.wait_for_selector("#help[open]")
        keys.press("Escape")
        keys.press("Control+,")
        self.assertEqual(page.evaluate("document.activeElement.closest('dialog')?.id"), "settings")
        keys.press("Escape")
        self.assertEqual(page.evaluate("document.activeElement.id"), "text")
        keys.press("Shift+Tab")  # attach
        keys.press("Shift+Tab")  # Again, of the last answer
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "Again")
        keys.press("Enter")
        page.wait_for_selector(".branches:has-text('2/2')")
        self.answered(page)

    def test_the_order_of_the_focus_is_that_of_the_page_and_is_seen(self):
        page = self.open()
        self.ask(page, "A question")
        page.evaluate("document.querySelector('.skip').focus()")
        stops = []
        for _ in range(40):
            stop = page.evaluate("""() => { const e = document.activeElement; const style = getComputedStyle(e);
                return e === document.body ? null : { name: e.id || e.textContent || e.className, ring: style.outlineStyle !== "none" || e.matches("#text, #search"), y: e.getBoundingClientRect().y }; }""")
            if stop is None or (stops and stop["name"] == stops[0]["name"]):
                break
            stops.append(stop)
            page.keyboard.press("Tab")
        names = [stop["name"] for stop in stops]
        expected = ["Skip to the message field", "fold", "new", "search", "open-settings", "open-help", "model", "attach", "text", "send"]
        self.assertEqual([name for name in names if name in expected], expected)
        self.assertEqual([stop["name"] for stop in stops if not stop["ring"]], [])

    def test_every_control_has_a_name(self):
        page = self.open(self.context(width=390))
        self.ask_by_touch(page)
        nameless = page.evaluate("""() => [...document.querySelectorAll("button, input:not([type=file]), textarea, select, a")].filter((e) =>
            !(e.textContent.trim() || e.getAttribute("aria-label") || e.title || e.labels?.length)).map((e) => e.outerHTML.slice(0, 90))""")
        self.assertEqual(nameless, [])
        tree = page.locator("body").aria_snapshot()
        self.assertNotIn("button:\n", tree)

    def ask_by_touch(self, page):
        page.fill("#text", "A question")
        page.click("#send")
        self.answered(page)

    def test_no_motion_where_it_is_not_wanted(self):
        page = self.open(self.context(reduced_motion="reduce"))
        running = page.evaluate("""() => [...document.querySelectorAll("*")].filter((e) => { const s = getComputedStyle(e);
            return s.animationName !== "none" || s.transitionDuration.split(", ").some((t) => parseFloat(t) > 0); }).length""")
        self.assertEqual(running, 0)


class Files(PageTest):
    PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

    def test_what_is_no_text_is_refused_in_words(self):
        page = self.open()
        for name, kind, data, words in (
            ("a.png", "image/png", self.PNG, "is an image. The models here read text only."),
            ("a.pdf", "application/pdf", b"%PDF-1.4", "is a PDF"),
            ("a.bin", "application/octet-stream", b"a\0b", "is not a text file"),
            ("a.latin", "text/plain", b"caf\xe9", "is not UTF-8 text"),
            ("big.txt", "text/plain", b"a" * 2_000_001, "is too large (2.0 MB)"),
        ):
            with self.subTest(name=name):
                page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": data})
                page.wait_for_selector(f".notice:has-text('{words}')")
        self.assertEqual(page.locator(".chip").count(), 0)
        self.shoot(page, "refused")

    def hand_over(self, page, event, name, kind, text):
        page.evaluate("""([event, name, kind, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name, { type: kind }));
            const target = document.getElementById("text");
            target.dispatchEvent(event === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
                : new DragEvent(event, { dataTransfer: data, bubbles: true, cancelable: true })); }""", [event, name, kind, text])  # fmt: skip

    def test_files_are_dropped_and_pasted(self):
        page = self.open()
        self.hand_over(page, "dragover", "a.txt", "text/plain", "x")
        self.assertTrue(page.is_visible("#veil"))
        self.hand_over(page, "drop", "dropped.txt", "text/plain", "from the desk")
        self.hand_over(page, "paste", "pasted.md", "text/markdown", "from the clipboard")
        page.wait_for_selector(".chip:has-text('pasted.md')")
        self.assertFalse(page.is_visible("#veil"))
        self.hand_over(page, "paste", "shot.png", "image/png", "x")
        page.wait_for_selector(".notice:has-text('is an image')")
        page.click("[aria-label='Remove dropped.txt']")
        self.ask(page, "Read it")
        content = Machines.fake.asked[-1]["messages"][-1]["content"]
        self.assertEqual(content, "File pasted.md:\n```md\nfrom the clipboard\n```\n\nRead it")


class Errors(PageTest):
    expected = ("status of", "net::ERR", "Failed to load")

    def test_a_failed_answer_says_why_and_is_tried_again(self):
        page = self.open()
        cases = (
            (400, "The prompt has 5000 tokens, the context holds 2048.", "context_length_exceeded", "larger context"),
            (503, "All places are taken.", None, "Try again in a moment"),
            (401, "missing API key", "invalid_api_key", "enter it in the settings"),
            (500, "Something broke.", None, ""),
        )
        for status, message, code, advice in cases:
            with self.subTest(status=status):
                page.click("#new")
                Machines.fake.answer = lambda reply, s=status, m=message, c=code: reply.fail(s, m, c)
                self.ask(page, "A question")
                self.assertEqual(page.inner_text(".trouble.failed p:first-child"), message)
                self.assertIn(advice, page.inner_text(".trouble.failed"))
                self.assertEqual(page.get_attribute(".trouble.failed", "role"), "alert")
                Machines.fake.answer = lambda reply: (reply.text("Better."), reply.end())
                page.click(".message button:has-text('Try again')")
                page.wait_for_selector(".prose:has-text('Better.')")
                self.answered(page)

    def test_failed_answers_are_not_sent_again(self):
        page = self.open()
        Machines.fake.answer = lambda reply: reply.fail(500, "Something broke.")
        self.ask(page, "One")
        self.ask(page, "Two")
        Machines.fake.answer = lambda reply: (reply.text("Answer."), reply.end())
        self.ask(page, "Three")
        self.assertEqual(Machines.fake.asked[-1]["messages"], [{"role": "user", "content": "One\n\nTwo\n\nThree"}])
        self.ask(page, "Four")
        self.assertEqual([m["role"] for m in Machines.fake.asked[-1]["messages"]], ["user", "assistant", "user"])

    def test_an_answer_that_breaks_off_is_kept_and_said(self):
        page = self.open()
        Machines.fake.answer = lambda reply: reply.text("The beginning")  # then the connection ends
        self.assertEqual(self.ask(page, "A question"), "The beginning")
        self.assertIn("ended before the answer was complete", page.inner_text(".trouble.failed"))
        Machines.fake.answer = lambda reply: (reply.text(" and the end."), reply.end())
        page.click("button:has-text('Continue')")
        page.wait_for_selector(".prose:has-text('and the end.')")
        self.answered(page)
        self.assertEqual(page.inner_text(".prose"), "The beginning and the end.")  # once

    def test_an_error_within_a_stream_is_said(self):
        page = self.open()

        def answer(reply):
            reply.text("The beginning")
            reply.event({"error": {"message": "The server is ending.", "status": 503}})

        Machines.fake.answer = answer
        self.ask(page, "A question")
        self.assertIn("The server is ending.", page.inner_text(".trouble.failed"))

    def test_a_server_that_is_gone_is_said_and_found_again(self):
        context = self.context()
        page = self.open(context)
        context.set_offline(True)
        self.ask(page, "A question")
        self.assertIn("cannot be reached", page.inner_text(".trouble.failed"))
        context.set_offline(False)
        page.click(".message button:has-text('Try again')")
        page.wait_for_selector(".prose:has-text('An answer.')")

    def test_a_model_that_is_being_loaded_is_waited_for(self):
        Machines.fake.models_fail = (503, "the models are loading")
        page = self.context().new_page()
        page.goto(f"http://127.0.0.1:{Machines.fake.server_port}/")
        page.wait_for_selector("#trouble:has-text('The model is being loaded')")
        Machines.fake.models_fail = None
        self.ready(page)
        self.assertFalse(page.is_visible("#trouble"))

    def test_a_missing_key_leads_to_the_settings(self):
        Machines.fake.models_fail = (401, "missing API key", "invalid_api_key")
        context = self.context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{Machines.fake.server_port}/")
        page.wait_for_selector("#trouble:has-text('missing API key')")
        page.click("#trouble-key")
        page.fill("#key", "secret")
        Machines.fake.models_fail = None
        page.press("#key", "Enter")
        self.ready(page)
        self.assertFalse(page.is_visible("#trouble"))


class Speech(PageTest):
    def test_sentences_are_announced_once_while_an_answer_grows(self):
        go = threading.Event()

        def answer(reply):
            for piece in ("One sen", "tence. ", "The sec", "ond **one** with `code`. The thi"):
                reply.text(piece)
            go.wait(20)
            reply.text("rd.\n\n```python\nx = 1\n```\n")
            reply.end()

        Machines.fake.answer = answer
        self.addCleanup(go.set)
        page = self.open()
        page.evaluate("""() => { window.removed = 0; new MutationObserver((list) => { for (const c of list) window.removed += c.removedNodes.length; })
            .observe(document.getElementById("announcer"), { childList: true, subtree: true }); }""")
        self.ask(page, "A question", wait=False)
        self.until(page, "document.getElementById('announcer').textContent.includes('One sentence.')")
        go.set()
        self.answered(page)
        self.until(page, "document.getElementById('announcer').textContent.includes('Answer complete')")
        said = page.evaluate("[...document.getElementById('announcer').children].map((e) => e.textContent)")
        self.assertEqual(" ".join(said).split(), "One sentence. The second one with code . The third. Code. Answer complete".split())
        self.assertEqual(page.evaluate("window.removed"), 0)
        self.assertEqual(page.locator("[aria-live] .message, [aria-live] .prose").count(), 0)  # the answer itself is no live region
