"""Drives the chat through a pseudo-terminal."""
import os
import re
import signal
import sys
import termios
import time
import unittest

import tiny_gguf
from chat_terminal import (
    CONTEXT, CTRL_C, CTRL_D, CTRL_R, CTRL_W, CTRL_Y, DOWN, LEFT, PASTE, PASTE_END, RIGHT, UP, TerminalTest,
)  # fmt: skip
from cli_base import TEMPLATE

FRAME = len("[user]") + len("[assistant]") + 1  # tokens around the first message: one per byte, and <s>


def prompt_tokens(written):
    return [int(count) for count in re.findall(r"\[prompt (\d+) tokens", written)]


class Entries(TerminalTest):
    def test_history_is_kept_in_the_cache_and_forgotten(self):
        self.start()
        self.assertEqual(prompt_tokens(self.say("hi")), [FRAME + 2])
        self.assertRegex(self.say("so"), r"\[prompt \d+ tokens \(\+\d+ cached\)")
        self.assertIn("Removed the conversation (4 messages).", self.say("/reset"))
        self.assertIn("no conversation to remove", self.say("/clear"))
        self.assertIn(f"[prompt 1 tokens (+{FRAME + 1} cached)", self.say("hi"))
        self.send("/exit\r")
        self.assertEqual(self.status(), 0)

    def test_a_saved_conversation_goes_on(self):
        session = str(self.home / "session")
        self.start("-n", "8", "--session", session)
        self.say("hi")
        self.send("/exit\r")
        self.assertEqual(self.status(), 0)
        self.start("-n", "8", "--session", session)
        self.assertRegex(self.say("so"), r"\[prompt \d+ tokens \(\+(?!0)\d+ cached\)")
        self.assertIn("Removed the conversation (4 messages).", self.say("/reset"))

    def test_a_system_message_stays(self):
        self.start("-n", "8", "-sys", "ab")
        self.say("hi")
        self.assertIn("(2 messages); kept the system message.", self.say("/reset"))

    def test_an_answer_waits_for_no_one_with_line_feeds(self):
        """Scripts that drive terminals send \\n for Enter."""
        self.start()
        self.send("hi\n")
        self.expect(f"[prompt {FRAME + 2} tokens")

    def test_input_during_an_answer_is_the_next_message(self):
        self.start()
        self.send("hi\rso\r")
        self.expect("answer 8 tokens")
        self.expect("> so")
        self.expect("answer 8 tokens")

    def test_pasted_lines_are_one_message(self):
        self.start()
        for ends in ("\r", "\n", "\r\n"):
            self.say("/reset")
            self.send(PASTE + ends.join(["one", "", "  two\tx"]) + PASTE_END)
            self.expect("two")
            written = self.say("")
            self.assertTrue(
                prompt_tokens(written) == [FRAME + len("one\n\n  two\tx")] or "cached" in written, written)
        self.assertIn("one\\n\\n  two\tx\n", self.history.read_text())

    def test_a_paste_that_comes_in_pieces_is_one(self):
        self.start()
        for piece in ("\x1b", "[20", "0~a\rb", "\x1b[2", "01~", "c"):
            self.send(piece)
            time.sleep(0.01)
        self.expect("c")
        self.assertEqual(prompt_tokens(self.say("")), [FRAME + len("a\nbc")])

    def test_a_message_of_any_length(self):
        """Longer than the 4,095 bytes of a line in canonical mode."""
        for size in ({}, {"TERM": "dumb"}):
            self.start(**size)
            for length in (4095, 4096, 102_400):
                self.send(PASTE + "x" * (length - 1) + PASTE_END + "y\r")
                self.expect(f"the prompt has {FRAME + length} tokens, the context holds {CONTEXT}")
            self.send("z" * 20_000 + "\r")  # as from terminals without bracketed paste
            self.expect(f"the prompt has {FRAME + 20_000} tokens")
            self.send(PASTE + "line\r" * 20_480 + PASTE_END + "\r")
            self.expect(f"the prompt has {FRAME + 102_400} tokens")
            self.send(CTRL_D)
            self.assertEqual(self.status(), 0)

    def test_a_paste_taller_than_the_screen_is_seen_in_part(self):
        self.start(size=(10, 40))
        self.send(PASTE + "\r".join(f"line {i}" for i in range(50)) + PASTE_END)
        self.expect("... 41 lines above")
        self.expect("line 49")
        self.send(UP * 30)
        self.expect("lines below")
        self.send(UP * 30)
        self.expect("> line 0")
        self.assertEqual(len(prompt_tokens(self.say(""))), 1)

    def test_several_lines_are_typed(self):
        self.start()
        for keys in ("a\x1b\rb", "a\x1b[13;2ub", "a\\\rb", '"""a\rb"""', '"""\ra\rb\r"""'):
            self.say("/reset")
            written = self.say(keys) if "\\" not in keys and '"' not in keys else None
            if written is None:
                self.send(keys + "\r")
                written = self.expect("answer 8")
            self.assertRegex(written, rf"\[prompt ({FRAME + 3} tokens|1 tokens \(\+{FRAME + 2} cached)", keys)

    def test_bytes_without_a_token_are_reported(self):
        tokens = [*tiny_gguf.byte_letters(), "<s>", "</s>"]
        tokens[ord("Q")] = "<unused>"
        model = self.folder / "lossy.gguf"
        tiny_gguf.write(model, TEMPLATE, changed={"tokenizer.ggml.tokens": tokens})
        self.start(model=model)
        self.send("aQQ\r")
        self.expect("no token for 2 bytes of the message, the first at offset 1: left out")
        self.expect("answer 8 tokens")

    def test_keys_that_edit(self):
        self.start()
        edits = [  # keys and the resulting entry
            ("acb" + LEFT + LEFT + "b" + RIGHT + "\x7f" + "\r", "abb"),
            ("bc\x01a\x05d\r", "abcd"),
            ("one two" + CTRL_W + "2\r", "one 2"),
            ("one\x15two" + CTRL_Y + "\r", "twoone"),
            ("onetwo" + LEFT * 3 + "\x0b\r", "one"),
            ("one two\x1bb\x1b[3~\r", "one wo"),
            ("one two\x1b[1;5D\x04\r", "one wo"),
            ("xe\u0301\x7f\r", "x"),  # a combining mark is removed with its letter
            ("中文👍\x7f\x7f!\r", "中!"),
            ("a\x1b[15~\x1bxb\x1b[200~\x1b[201~c\r", "abc"),  # keys without a function
        ]
        for keys, entry in edits:
            self.send(keys)
            self.expect("answer")
            self.expect("\n> ")
            self.assertEqual(self.history.read_text().splitlines()[-1], entry)
            self.say("/reset")

    def test_bytes_that_are_no_utf8(self):
        self.start()
        os.write(self.terminal, b"a\xff\xc3b\r")
        self.expect("answer 8")
        self.assertEqual(self.history.read_text(), "a\ufffd\ufffdb\n")

    def test_an_empty_entry_is_not_a_message(self):
        self.start()
        self.send("\r  \r" + PASTE + "\r" + PASTE_END + "\rhi\r")
        before = self.expect(f"[prompt {FRAME + 2} tokens")
        self.assertNotIn("[prompt", before)

    def test_a_narrower_terminal(self):
        self.start(size=(10, 60))
        self.send("w" * 50)
        self.expect("w" * 50)
        self.resize(10, 30)
        self.expect("> " + "w" * 27)
        self.expect("  " + "w" * 23)
        self.assertEqual(prompt_tokens(self.say("x")), [FRAME + 51])

    def test_colours(self):
        self.assertIn("\x1b[32m", self.start(NO_COLOR=""))
        self.leave()
        self.start(NO_COLOR="1")
        self.assertNotRegex(self.say("hi"), r"\x1b\[[0-9;]*m")


class Commands(TerminalTest):
    def test_commands_and_the_end_of_input(self):
        self.start()
        written = self.say("/help")
        for part in ("/reset", "/exit", "Ctrl-C", "Alt-Enter", '"""', "//"):
            self.assertIn(part, written)
        self.leave()

    def test_an_unknown_command_is_one_line(self):
        self.start()
        for command in ("/what", "/wh\x7f\x7fwhat is this", "/usr/bin/what"):
            lines = self.say(command).strip().splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], r"unknown command '/[a-z/]*what', expected one of /help, /reset, /clear, /undo")
        self.assertIn("'/reset' takes no argument", self.say("/reset it"))

    def test_messages_that_begin_with_a_slash(self):
        self.start()
        self.assertEqual(prompt_tokens(self.say("//hi")), [FRAME + 3])
        self.say("/reset")
        self.assertIn(f"(+{FRAME + 2} cached)", self.say(" /hi"))
        self.say("/reset")
        self.assertIn("[prompt", self.say(PASTE + "/hi\r//so" + PASTE_END))
        self.assertEqual(self.history.read_text().splitlines()[-1], "/hi\\n//so")

    def test_tab_completes(self):
        self.start()
        self.send("/h\t")
        self.expect("elp")
        self.assertIn("this list", self.say(""))
        self.send("/\t")
        self.expect("/help  /reset  /clear  /undo  /retry  /regen  /save  /load  /set  /show  /exit  /bye  /quit")
        self.send("by\t\r")
        self.assertEqual(self.status(), 0)


class Interrupts(TerminalTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long = cls.folder / "long.gguf"
        tiny_gguf.write(cls.long, TEMPLATE, 1 << 18)

    def test_with_text_it_takes_the_text_back(self):
        self.start()
        self.say("hi")
        self.send("never sent" + CTRL_C)
        self.expect("never sent^C")
        self.expect("\n> ")
        self.assertRegex(self.say("so"), r"\[prompt \d+ tokens \(\+\d+ cached\)")
        self.assertNotIn("never", self.history.read_text())
        self.send("kept" + CTRL_C)
        self.expect("^C")
        self.send(CTRL_Y + "\r")
        self.expect("answer")
        self.assertIn("kept", self.history.read_text())

    def test_twice_without_text_it_leaves(self):
        self.start()
        self.send(CTRL_C)
        self.expect("Ctrl-C again exits")
        self.send("x\x7f" + CTRL_C)  # a second time, but not consecutively
        self.expect("Ctrl-C again exits")
        self.assertIn("answer 8", self.say("hi"))
        self.send(CTRL_C)
        self.expect("Ctrl-C again exits")
        self.send(CTRL_C)
        self.assertEqual(self.status(), 0)

    def test_a_signal_is_like_the_key(self):
        self.start()
        self.send("text")
        self.expect("text")
        os.kill(self.child, signal.SIGINT)
        self.expect("^C")
        os.kill(self.child, signal.SIGINT)
        self.expect("Ctrl-C again exits")
        os.kill(self.child, signal.SIGINT)
        self.assertEqual(self.status(), 0)

    def start_long_answer(self):
        self.start("-c", str(1 << 18), model=self.long)
        self.send("hi\r")
        self.expect("\n")
        while len(self.seen) < 500:  # the answer has begun
            self.assertTrue(self.read(60))

    def test_in_an_answer_it_stops_the_answer(self):
        self.start_long_answer()
        self.send(CTRL_C)
        self.expect(", stopped |")
        self.expect("\n> ")
        self.send("so\r")
        self.expect("\n")
        while len(self.seen) < 500:
            self.assertTrue(self.read(60))
        self.send(CTRL_C)
        # The conversation with the partial answer is kept.
        run, cached = re.search(r"prompt (\d+) tokens \(\+(\d+) cached\)", self.expect(", stopped |")).groups()
        self.assertGreater(int(run) + int(cached), 2 * FRAME + 4 + 100)
        self.leave()

    def test_pressed_at_once_it_stops_a_long_prompt(self):
        self.start("-c", str(1 << 18), model=self.long)
        self.send(PASTE + "x" * 102_400 + PASTE_END)
        self.expect("x")
        self.send("\r" + CTRL_C)
        self.expect("Stopped before the answer began", timeout=120)
        self.expect("\n> ")
        self.assertIn("no conversation to remove", self.say("/reset"))
        self.leave()

    def test_the_terminal_is_given_back(self):
        def modes():
            return termios.tcgetattr(self.terminal)

        for end in (lambda: self.send(CTRL_D), lambda: os.kill(self.child, signal.SIGTERM)):
            self.start()
            self.assertFalse(modes()[3] & (termios.ICANON | termios.ECHO))
            end()
            keeps = os.dup(self.terminal)
            try:
                self.assertIn(self.status(), (0, -signal.SIGTERM))
                self.assertTrue("\x1b[?2004l" in self.seen)
            finally:
                os.close(keeps)

    def test_a_stop_gives_the_terminal_back_until_it_goes_on(self):
        self.start_shell()
        self.send(self.command() + "\r")
        self.expect("Type a message")
        self.expect("> ")
        self.send("te")
        self.expect("te")
        self.send("\x1a")
        self.expect("^Z")
        self.expect("Stopped")
        self.expect("$ ")
        self.send("stty -a\r")
        self.assertNotRegex(self.expect("$ "), r"-icanon|-echo\b")
        self.send("fg\r")
        self.expect("> te")
        self.send("xt\r")
        self.expect(f"[prompt {FRAME + 4} tokens")
        self.expect("> ")
        self.send(CTRL_D)
        self.expect("$ ")
        self.send("stty -a\r")
        self.assertNotRegex(self.expect("$ "), r"-icanon|-echo\b")
        self.send("exit\r")
        self.assertEqual(self.status(), 0)

    def test_a_stop_that_the_system_refuses_changes_nothing(self):
        """A session leader is not stopped, as no shell could continue it."""
        self.start()
        self.send("te")
        self.expect("te")
        self.send("\x1a")
        self.expect("^Z")
        self.expect("> te")
        self.assertEqual(prompt_tokens(self.say("xt")), [FRAME + 4])


class History(TerminalTest):
    def test_it_is_kept_for_the_next_chat(self):
        self.start()
        self.say("first")
        self.send(PASTE + "one\rtwo \\ three" + PASTE_END + "\r")
        self.expect("answer")
        self.expect("\n> ")
        self.leave()
        self.assertEqual(self.history.read_text(), "first\none\\ntwo \\\\ three\n")
        self.assertEqual(self.history.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.history.parent.stat().st_mode & 0o777, 0o700)
        self.start()
        self.send(UP)
        self.expect("one")
        self.expect("two \\ three")
        written = self.say("")
        self.assertEqual(prompt_tokens(written), [FRAME + len("one\ntwo \\ three")])
        self.send("draft" + UP + UP + UP + UP + UP)
        self.expect("first")
        self.send(DOWN * 9)
        self.expect("draft")
        self.leave()
        self.assertEqual(self.history.read_text(), "first\none\\ntwo \\\\ three\n")  # no entry twice in a row

    def test_search(self):
        self.start()
        for text in ("ab one", "cd two", "ab three"):
            self.say(text)
            self.say("/reset")
        self.send(CTRL_R + "ab")
        self.expect("(search: ab) ab three")
        self.send(CTRL_R)
        self.expect("one")
        self.send(CTRL_R)
        self.expect("(not found: ab)")
        self.send("\x07")  # restores the entry
        self.expect("> ")
        self.send(CTRL_R + "tw\r")
        self.expect("answer")
        self.assertEqual(self.history.read_text().splitlines()[-1], "cd two")

    def test_it_is_bounded(self):
        self.history.parent.mkdir(parents=True)
        self.history.write_text("".join(f"entry {i}\n" for i in range(1500)))
        self.history.chmod(0o644)
        self.start()
        self.say("/reset")
        lines = self.history.read_text().splitlines()
        self.assertEqual(lines, [f"entry {i}" for i in range(501, 1500)] + ["/reset"])
        self.assertEqual(self.history.stat().st_mode & 0o777, 0o600)
        self.leave()
        self.history.write_text("x" * (5 << 20) + "\nlast\n")
        self.start()
        self.send(UP)
        self.expect("last")
        self.leave()
        self.assertEqual(self.history.read_text(), "last\n")

    def test_xdg_state_home_is_used(self):
        state = self.home / "elsewhere"
        self.start(XDG_STATE_HOME=str(state))
        self.say("/reset")
        self.assertEqual((state / "veery" / "history").read_text(), "/reset\n")
        self.assertFalse(self.history.exists())

    def test_chats_side_by_side_lose_nothing(self):
        self.start()
        self.history.write_text("of another\n")
        self.say("mine")
        self.assertEqual(self.history.read_text(), "of another\nmine\n")

    def test_without_a_writable_place_it_warns_once(self):
        (self.home / "file").write_text("")
        os.mkfifo(self.home / "history")
        (self.home / "veery").symlink_to(self.home)  # veery/history is the FIFO
        for place in ({"HOME": ""}, {"HOME": str(self.home / "file")}, {"XDG_STATE_HOME": str(self.home)}):
            before = self.start(**place)
            self.assertEqual(before.count("the history is not saved: "), 1, before)
            written = self.say("hi")
            self.assertNotIn("not saved", written)
            self.send(UP)
            self.expect("hi")
            self.send(CTRL_C)
            self.expect("\n> ")
            self.leave()
        self.assertNotIn("not saved", self.start("-q", HOME=""))

    def test_a_last_line_without_end_stays_a_line(self):
        self.history.parent.mkdir(parents=True)
        self.history.write_text("first\nbroken o")
        self.start()
        self.say("hi")
        self.assertEqual(self.history.read_text(), "first\nbroken o\nhi\n")

    def test_untrusted_bytes_in_it(self):
        self.history.parent.mkdir(parents=True)
        self.history.write_bytes(b"a\xff\x1b[31mb\\\n\n\\x\n")
        self.start()
        self.send(UP + UP)
        self.expect("a\ufffd^[[31mb\\")


class Dumb(TerminalTest):
    def test_plain_lines(self):
        before = self.start(TERM="dumb")
        self.send("hx\x7fi so" + CTRL_W + "\x15hi\r")
        before += self.expect("[prompt")
        self.assertNotIn("\x1b", before)
        self.assertTrue(self.expect("\n> ").startswith(f" {FRAME + 2} tokens"))
        self.send("a\\\rb\r")
        self.expect("\n. b")
        self.expect("answer 8")
        self.expect("\n> ")
        self.send("text" + CTRL_C)
        self.expect("text^C")
        self.send(CTRL_C)
        self.expect("Ctrl-C again exits")
        self.send(CTRL_C)
        self.assertEqual(self.status(), 0)
        self.assertEqual(self.history.read_text(), "hi\na\\nb\n")


class Elsewhere(TerminalTest):
    def test_without_a_terminal_it_is_one_prompt(self):
        done = self.veery("run", self.model, "-n", "8", "--ignore-eos", stdin=b"one\ntwo\n")
        self.assertEqual(prompt_tokens(done.stderr.decode()), [FRAME + len("one\ntwo")])
        self.assertNotIn(b"> ", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
