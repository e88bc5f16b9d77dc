#!/usr/bin/env python3
"""`veery serve` with a prefix cache on disk, and with budgets of memory.

usage: cli_serve_disk_test.py VEERY [unittest arguments]
"""
import json
import os
import stat
import unittest

import tiny_gguf
from cli_base import TEMPLATE, CliTest
from serve_client import Server


class Disk(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long = cls.folder / "long.gguf"
        cls.other = cls.folder / "other.gguf"
        tiny_gguf.write(cls.long, TEMPLATE, context=2048)
        tiny_gguf.write(cls.other, TEMPLATE, context=2048, seed=9)

    def setUp(self):
        self.cache = self.folder / self._testMethodName

    def server(self, *arguments):
        server = Server(*arguments, "-c", 2048)
        self.addCleanup(server.end)
        return server

    def ask(self, server, messages, model="long", **more):
        body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 10, "ignore_eos": True, **more}
        answer = server.post("/v1/chat/completions", body)
        usage = answer["usage"]
        text = answer["choices"][0]["message"]["content"]
        return text, usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]

    def conversation(self, text):
        """Makes a conversation so long that a turn adds less than 5 %, although invalid bytes come back as others."""
        return [{"role": "user", "content": (text * 1400)[:1400]}]

    def test_a_conversation_is_known_after_a_restart(self):
        messages = self.conversation("The thrush sings. ")
        plain = self.server(self.long)
        known = []
        told = list(messages)
        for _ in range(3):
            text, _ = self.ask(plain, told)
            known.append(text)
            told += [{"role": "assistant", "content": text}, {"role": "user", "content": "On"}]
        for turn in range(3):
            server = self.server(self.long, "--prefix-cache", self.cache)
            text, cached = self.ask(server, messages)
            self.assertEqual(text, known[turn])
            self.assertGreaterEqual(cached, 0.95 if turn > 0 else 0)
            self.assertEqual(server.metric("prefix_cache_disk_tokens_total") > 0, turn > 0)
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "On"}]
            self.assertEqual(server.end(), 0)
        self.assertEqual(stat.S_IMODE(self.cache.stat().st_mode), 0o700)
        names = list(self.cache.iterdir())
        self.assertGreater(len(names), 2)
        for path in names:
            self.assertEqual((stat.S_IMODE(path.stat().st_mode), path.suffix), (0o600, ".prefix"))

    def test_a_model_swap_keeps_conversations(self):
        with_one = json.loads(self.veery("plan", self.long, "--serve", "--json", "-c", 2048, "-t", 1).stdout)["bytes"]
        flags = ["--memory", max(1, int(with_one * 1.5 / 1e6)), "--prefix-cache", self.cache, "--prefix-cache-size", 100]
        server = self.server(self.long, self.other, *flags)
        told = {name: self.conversation(name) for name in ("long", "other")}
        for turn in range(3):
            for name, messages in told.items():
                text, cached = self.ask(server, messages, model=name)
                self.assertGreaterEqual(cached, 0.95 if turn > 0 else 0, (turn, name))
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "On"}]
        self.assertGreaterEqual(server.metric("model_loads_total"), 6)

    def test_folders_that_cannot_be_used_are_refused_by_name(self):
        file = self.write("file", "x")
        self.assertIn("file: is a", self.error("serve", self.long, "--prefix-cache", file, "--port", 0))
        self.assertIn("/proc/nowhere/cache: ", self.error("serve", self.long, "--prefix-cache", "/proc/nowhere/cache", "--port", 0))
        self.cache.mkdir()
        os.chmod(self.cache, 0o777)
        self.assertIn("everybody may write", self.error("serve", self.long, "--prefix-cache", self.cache, "--port", 0))
        self.error("serve", self.long, "--prefix-cache-size", 5, status=2)


class Budgets(CliTest):
    def test_the_planned_memory_is_used_exactly(self):
        path = self.folder / "long.gguf"
        tiny_gguf.write(path, TEMPLATE, context=2048)
        for flags in (["-c", 2048], ["-c", 512, "-np", 2], ["-c", 2048, "-ctk", "f32"], ["-c", 1024, "--keep", 2]):
            plan = json.loads(self.veery("plan", path, "--serve", "--json", "-t", 1, *flags).stdout)
            server = Server(path, *flags)
            try:
                self.assertEqual(server.models()[0]["meta"]["bytes"], plan["bytes"])
            finally:
                server.end()

    def test_a_budget_reduces_defaults_and_refuses_the_rest(self):
        path = self.folder / "wide.gguf"
        tiny_gguf.write(path, TEMPLATE, context=32768, dim=512, hidden=64)
        one = json.loads(self.veery("plan", path, "--serve", "--json", "-t", 1, "-c", 4096, "-np", 1, "--keep", 1).stdout)
        memory = int((one["weight_bytes"] + one["activation_bytes"] + one["cache_bytes"] * 0.65) / 1e6)
        message = self.error("serve", path, "-c", 4096, "-np", 1, "--memory", memory, "--port", 0, "-t", 1)
        for part in ("4096 positions", str(memory * 1000000), "-c 2048", "-ctk q8_0"):
            self.assertIn(part, message)
        server = Server(path, "--memory", memory)
        try:
            self.assertRegex(server.said.decode(), r"memory is short: the context is 2048 instead of 4096 positions")
            self.assertLessEqual(server.models()[0]["meta"]["bytes"], memory * 1000000)
            for i in range(12):
                body = {"prompt": f"{i} " * (100 + 30 * i), "max_tokens": 4, "ignore_eos": True}
                server.post("/v1/completions", body)
        finally:
            server.end()


if __name__ == "__main__":
    unittest.main()
