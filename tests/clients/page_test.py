#!/usr/bin/env python3
"""The web page in headless Chromium: against a live `veery serve` with SmolLM2-135M-Instruct, and against a server whose
answers the tests make.

usage: page_test.py VEERY [--shots FOLDER] [unittest arguments]

Run by the Python of scripts/clients.sh --page; Chromium is the system's or Playwright's own. Without either, or without
the model, all is skipped (status 77). --shots keeps pictures of the page in both themes and three widths, to be looked at.
"""
import sys
import threading
import time
import unittest

from page_base import Machines, PageTest, missing
from page_content_test import Content, Looks  # noqa: F401
from page_use_test import Errors, Files, Keyboard, Lists, Speech  # noqa: F401


class RealModel(PageTest):
    def open_real(self, **settings):
        values = {"s.temperature": '"0"', "s.max_tokens": '"24"', **settings}
        return self.open(port=Machines.real.port, **values)

    def test_an_answer_streams_is_kept_and_made_again(self):
        page = self.open_real()
        text = self.ask(page, "What is the capital of France?")
        self.assertIn("Paris", text)
        self.assertIn("a second", page.inner_text(".message.assistant .stats"))
        page.click(".message.assistant button:has-text('Again')")
        page.wait_for_selector(".branches:has-text('2/2')")
        self.answered(page)
        self.assertEqual(page.inner_text(".message.assistant .prose"), text)  # temperature 0
        self.assertIn("cached", page.inner_text(".message.assistant .stats"))
        self.assertIn("of 2,048 tokens", page.inner_text("#meter-words"))
        self.reload(page)
        self.assertEqual(page.inner_text(".message.assistant .prose"), text)

    def test_an_edited_question_is_another_branch(self):
        page = self.open_real()
        first = self.ask(page, "What is the capital of France?")
        page.click(".message.user button:has-text('Edit')")
        page.fill("textarea.edit", "What is the capital of Italy?")
        page.press("textarea.edit", "Enter")
        page.wait_for_selector(".message.user .branches:has-text('2/2')")
        self.answered(page)
        self.assertNotEqual(page.inner_text(".message.assistant .prose"), first)
        page.click("[aria-label='Earlier version']")
        self.assertEqual(page.inner_text(".message.assistant .prose"), first)

    def test_a_cut_answer_goes_on(self):
        page = self.open_real(**{"s.max_tokens": '"6"'})
        first = self.ask(page, "Name the largest cities of Italy.")
        self.assertIn("cut at the token limit", page.inner_text(".message.assistant .stats"))
        page.click("button:has-text('Continue')")
        self.until(page, "(length) => document.querySelector('.prose').innerText.length > length", arg=len(first))
        self.answered(page)
        self.assertTrue(page.inner_text(".message.assistant .prose").startswith(first))
        self.assertEqual(page.locator(".message.assistant").count(), 1)

    def test_a_stopped_answer_leaves_its_slot(self):
        # At this temperature the text does not repeat itself, which drafts would make many times as fast.
        page = self.open_real(**{"s.max_tokens": '"1900"', "s.temperature": '"1.5"'})
        self.ask(page, "Write a very long story about the sea.", wait=False)
        page.wait_for_selector(".message.assistant .prose >> text=/.{40}/")
        page.click("#new")  # another chat may be read meanwhile
        page.wait_for_selector(".greeting:visible")
        page.click(".row .open")
        page.wait_for_selector("#stop:visible")
        page.press("#text", "Escape")
        self.answered(page)
        self.assertIn("stopped", page.inner_text(".stats"))
        Machines.real.idle()

    def test_tokens_show_their_alternatives(self):
        page = self.open_real(logprobs="true")
        self.ask(page, "What is the capital of France?")
        page.click("button:has-text('Tokens')")
        page.click(".tokens span:has-text('Paris')")
        self.assertIn("Paris", page.inner_text("#alternatives .chosen"))
        self.assertEqual(page.locator("#alternatives tr").count(), 8)
        self.shoot(page, "alternatives")
        page.keyboard.press("Escape")
        self.assertFalse(page.is_visible("#alternatives"))

    def test_a_text_file_goes_with_the_question(self):
        page = self.open_real()
        page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The password is marzipan."})
        page.wait_for_selector(".chip:has-text('notes.txt')")
        self.assertIn("marzipan", self.ask(page, "What is the password? Answer with the sentence of the file.").lower())
        self.assertIn("notes.txt", page.inner_text(".message.user"))


class Storage(PageTest):
    def slow(self, before="The first part. ", after="The second part."):
        """An answer that waits in its middle until the returned event is set."""
        go = threading.Event()

        def answer(reply):
            reply.text(before)
            go.wait(20)
            reply.text(after)
            reply.end()

        Machines.fake.answer = answer
        self.addCleanup(go.set)
        return go

    def test_a_reload_in_mid_answer_keeps_prompt_and_answer_and_goes_on(self):
        self.slow()
        page = self.open()
        self.ask(page, "A question", wait=False)
        page.wait_for_selector(".prose:has-text('The first part.')")
        self.reload(page)
        self.assertEqual(page.inner_text(".bubble"), "A question")
        self.assertIn("The first part.", page.inner_text(".prose"))
        self.assertIn("interrupted", page.inner_text(".message .trouble"))
        Machines.fake.answer = lambda reply: (reply.text("The rest."), reply.end())
        page.click("button:has-text('Continue')")
        page.wait_for_selector(".prose:has-text('The first part. The rest.')")
        self.answered(page)
        self.assertEqual([m["role"] for m in Machines.fake.asked[-1]["messages"]], ["user", "assistant"])
        self.assertFalse(page.is_visible(".message .trouble"))

    def test_a_reload_before_the_first_token_keeps_the_prompt(self):
        self.slow(before="")
        page = self.open()
        self.ask(page, "A question", wait=False)
        self.reload(page)
        self.assertEqual(page.inner_text(".bubble"), "A question")
        Machines.fake.answer = lambda reply: (reply.text("Now."), reply.end())
        page.click(".message button:has-text('Try again')")
        self.answered(page)
        self.assertEqual([m["role"] for m in Machines.fake.asked[-1]["messages"]], ["user"])

    def test_a_prompt_is_stored_before_it_is_sent(self):
        page = self.open()
        found = []
        page.route("**/v1/chat/completions", lambda route: (found.extend(self.records(page, "nodes")), found.extend(self.records(page, "chats")), route.continue_()))
        self.ask(page, "A question")
        self.assertIn("A question", [record.get("text") for record in found])
        self.assertIn("A question", [record.get("title") for record in found])

    def test_an_answer_whose_tab_is_gone_is_marked(self):
        page = self.open()
        self.ask(page, "A question")
        # As a tab leaves it that crashes: still being written, by nobody.
        page.evaluate("""() => new Promise((resolve) => { const open = indexedDB.open("veery"); open.onsuccess = () => {
            const store = open.result.transaction("nodes", "readwrite").objectStore("nodes"), all = store.getAll();
            all.onsuccess = () => { for (const node of all.result) if (node.role === "assistant")
                store.put({ ...node, state: "streaming", owner: "gone" }).onsuccess = () => { open.result.close(); resolve(); }; }; }; })""")
        self.reload(page)
        page.wait_for_selector(".message .trouble:has-text('interrupted')")

    def test_two_tabs_keep_each_others_chats(self):
        context = self.context()
        first, second = self.open(context), self.open(context)
        for number in range(3):
            for name, page in (("first", first), ("second", second)):
                page.click("#new")
                self.ask(page, f"{name} {number}")
        for page in (first, second):
            self.until(page, "document.querySelectorAll('.row').length === 6")
            self.reload(page)
            self.assertEqual(page.locator(".row").count(), 6)
        self.assertEqual(len(self.records(first, "nodes")), 12)

    def test_a_streaming_answer_shows_in_the_other_tab_which_can_stop_it(self):
        self.slow()
        context = self.context()
        first = self.open(context)
        self.ask(first, "A question", wait=False)
        first.wait_for_selector(".prose:has-text('The first part.')")
        second = self.open(context, path=first.evaluate("location.hash"))
        second.wait_for_selector(".prose:has-text('The first part.')")
        second.wait_for_selector(".stats:has-text('Written in another tab')")
        second.wait_for_timeout(1000)  # it is not taken for interrupted: its tab is asked
        self.assertFalse(second.is_visible(".message .trouble"))
        second.click("#stop")
        for page in (second, first):
            self.answered(page)
            self.assertIn("stopped", page.inner_text(".stats"))

    def test_tabs_that_change_one_chat_lose_nothing(self):
        context = self.context()
        first = self.open(context)
        self.ask(first, "A question")
        second = self.open(context, path=first.evaluate("location.hash"))
        second.keyboard.press("Control+,")
        second.fill("#system", "Be brief.")
        second.click("#settings .main")
        first.click(".row .more")
        first.click("[role=menuitem]:has-text('Rename')")
        first.fill(".rename", "Renamed")
        first.press(".rename", "Enter")
        second.wait_for_selector(".row:has-text('Renamed')")
        self.ask(first, "More")
        second.wait_for_selector(".bubble:has-text('More')")
        chat = self.records(second, "chats")[0]
        self.assertEqual((chat["title"], chat["system"]), ("Renamed", "Be brief."))
        self.assertEqual(Machines.fake.asked[-1]["messages"][0], {"role": "system", "content": "Be brief."})

    def test_a_full_storage_is_said_and_loses_nothing(self):
        context = self.context()
        page = self.open(context)
        session = context.new_cdp_session(page)
        origin = f"http://127.0.0.1:{Machines.fake.server_port}"
        session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1000})
        self.assertEqual(self.ask(page, "A question " + "long " * 5000), "An answer.")
        self.assertIn("storage is full", page.inner_text("#unsaved"))
        self.shoot(page, "full")
        page.click("#new")
        page.click(".row .open")  # what is not saved is still there
        self.assertEqual(page.inner_text(".prose"), "An answer.")
        session.send("Storage.overrideQuotaForOrigin", {"origin": origin})
        page.click("#save-again")
        page.wait_for_selector("#unsaved", state="hidden")
        self.reload(page)
        self.assertEqual(page.inner_text(".prose"), "An answer.")

    def test_without_a_database_the_page_works_and_says_so(self):
        context = self.context()
        context.add_init_script("Object.defineProperty(window, 'indexedDB', { value: { open() { throw new Error('no'); } } });")
        page = self.open(context)
        self.assertEqual(self.ask(page, "A question"), "An answer.")
        self.assertIn("does not let the page store", page.inner_text("#unsaved"))

    def test_chats_of_the_first_page_are_taken_over(self):
        old = """[{"id": 1700000000000.5, "title": "Old", "system": "S", "leaf": 2, "nodes": [{"role": "user", "text": "Q", "parent": -1},
                 {"role": "assistant", "text": "A1", "parent": 0}, {"role": "assistant", "text": "A2", "thought": "T", "parent": 0}]}]"""
        page = self.open(chats=old)
        page.click(".row:has-text('Old') .open")
        self.assertEqual(page.inner_text(".prose"), "A2")
        self.assertIn("2/2", page.inner_text(".message.assistant .branches"))
        self.assertIsNone(page.evaluate("localStorage.getItem('veery.chats')"))

    def test_a_draft_outlives_a_reload(self):
        page = self.open()
        page.fill("#text", "Not sent yet")
        page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"x"})
        page.wait_for_selector(".chip")
        self.reload(page)
        self.assertEqual(page.input_value("#text"), "Not sent yet")
        self.assertTrue(page.is_visible(".chip:has-text('a.txt')"))

    def test_two_hundred_chats_with_files(self):
        page = self.open()
        page.evaluate("""() => new Promise((resolve) => { const open = indexedDB.open("veery"); open.onsuccess = () => {
            const work = open.result.transaction(["chats", "nodes"], "readwrite");
            for (let i = 0; i < 200; i++) {
              const id = "c" + i, time = Date.now() - i * 3.6e6;
              work.objectStore("chats").put({ id, title: "Chat number " + i, system: "", sampling: {}, model: "", made: time, updated: time, leaf: id + "a" });
              work.objectStore("nodes").put({ id: id + "q", chat: id, role: "user", parent: "", text: "Read it " + i, made: time,
                files: [{ name: `file${i}.txt`, text: "line of a file\\n".repeat(5000) + "needle" + i + "\\n" }] });
              work.objectStore("nodes").put({ id: id + "a", chat: id, role: "assistant", parent: id + "q", text: "Answer **" + i + "**", state: "done", made: time + 1 });
            }
            work.oncomplete = () => { open.result.close(); resolve(); }; }; })""")  # fmt: skip
        begin = time.monotonic()
        self.reload(page)
        self.assertEqual(page.locator(".row").count(), 200)
        loaded = time.monotonic() - begin
        begin = time.monotonic()
        page.fill("#search", "needle77")
        self.until(page, "document.querySelectorAll('.row').length === 1")
        searched = time.monotonic() - begin
        self.assertEqual(page.inner_text(".row .excerpt"), "in a file")
        begin = time.monotonic()
        page.click(".row .open")
        page.wait_for_selector(".prose strong:has-text('77')")
        opened = time.monotonic() - begin
        self.assertLess(max(loaded, searched, opened), 5, (loaded, searched, opened))
        self.shoot(page, "search")


if __name__ == "__main__":
    if why := missing():
        print(f"page: {why}")
        sys.exit(77)
    Machines.start()
    try:
        program = unittest.main(exit=False)
    finally:
        Machines.stop()
    sys.exit(not program.result.wasSuccessful())
