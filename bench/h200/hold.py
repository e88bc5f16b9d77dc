"""Checks veery when GPU memory runs out: at load, when more is needed later, and when another program takes it."""

import ctypes
import json
import re
import subprocess
import time
import urllib.error
import urllib.request


class Hold:
    """Allocates all free memory of a GPU except `leave` bytes until closed."""

    def __init__(self, leave, device=0):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context, handle = ctypes.c_void_p(), ctypes.c_int()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(handle), device)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)
        self._do("cuCtxSetCurrent", self.context)
        self.handle, self.held = handle, []
        size = 1 << 30
        while size >= 1 << 20:
            if self.free() < leave + size or not self._take(size):
                size >>= 1

    def _do(self, name, *words):
        status = getattr(self.cuda, name)(*words)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    def _take(self, size):
        at = ctypes.c_uint64()
        if self.cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)) != 0:
            return False
        self.held.append(at)
        return True

    def free(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._do("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def close(self):
        for at in self.held:
            self.cuda.cuMemFree_v2(at)
        self.held = []
        self.cuda.cuDevicePrimaryCtxRelease_v2(self.handle)


class Server:
    def __init__(self, tools, model, *words):
        self.log = open(tools.folder / "memory-server.log", "w+")
        self.process = subprocess.Popen([tools.veery, "serve", model, "--port", "0", "--device", tools.device, *words],
                                        stdout=self.log, stderr=subprocess.STDOUT)  # fmt: skip
        self.port = None
        for _ in range(600):
            text = (tools.folder / "memory-server.log").read_text()
            if found := re.search(r"http://[^ ]*?:(\d+)", text):
                self.port = int(found[1])
                break
            if self.process.poll() is not None:
                raise RuntimeError(f"veery serve: {text[-300:]}")
            time.sleep(0.1)

    def complete(self, prompt, tokens):
        """Returns (status, text or error)."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "seed": 1, "ignore_eos": True}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)["choices"][0]["text"]
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")[:300]

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def check(tools):
    path = tools.model("1b-q4_k", "1b", "q4_k", "q6_k")
    at_load(tools, path)
    limits(tools, path)
    taken(tools, path)


def refused(tools, what, done):
    """Expects exit status 1 and a single error line with numbers."""
    line = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    good = done.returncode == 1 and line.startswith("veery: error:") and re.search(r"\d", line) is not None
    tools.say("memory", f"{what}: {line[:150]}", "refused" if good else f"status {done.returncode}, {done.stderr[-300:]}", good)


def at_load(tools, path):
    logits = ("logits", path, "--ids", "11,48,85", "--top", "3", "--json", "--device", tools.device)
    refused(tools, "100 MB for a model of 800", tools.run(*logits, "--device-memory", "100", check=False))
    other = Hold(900 << 20)  # the driver uses about 500 MiB of it per program
    try:
        refused(tools, f"{other.free() >> 20} MiB free", tools.run(*logits, check=False))
    finally:
        other.close()


def limits(tools, path):
    """Increases the memory limit: each run must succeed or be rejected with numbers."""
    words = ("run", path, "--ids", ",".join(["7"] * 1500), "-n", "4", "-c", "4096", "--temp", "0", "--ignore-eos", "--json", "-q", "--device", tools.device)
    expected = json.loads(tools.run(*words).stdout)["ids"]
    for megabytes in range(700, 2000, 100):
        done = tools.run(*words, "--device-memory", megabytes, check=False)
        if done.returncode == 0:
            same = json.loads(done.stdout)["ids"] == expected
            tools.say("memory", f"--device-memory {megabytes}", "same" if same else "another text", same)
        else:
            refused(tools, f"--device-memory {megabytes}", done)


def taken(tools, path):
    """Another program takes the free memory while a server runs: requests may fail, but the server survives and recovers."""
    server = Server(tools, path, "-np", "16", "-c", "8192")
    try:
        short = ("one two three", 8)
        before = server.complete(*short)
        tools.say("memory", "a request before", "answered" if before[0] == 200 else str(before), before[0] == 200)
        other = Hold(0)
        try:
            for words, tokens in ((1500, 4), (6, 20), (1400, 4)):
                status, text = server.complete("rain " * words, tokens)
                good = status == 200 or (status == 503 and "memory" in text)
                tools.say("memory", f"{other.free() >> 20} MiB left, a prompt of {words} words: {status} {text[:120]!r}", "answered" if status == 200 else "refused" if good else "wrong error", good)
        finally:
            other.close()
        after = server.complete(*short)
        tools.say("memory", "the same request afterwards", "same" if after == before else str(after), after == before)
        long = server.complete("rain " * 1600, 4)
        tools.say("memory", "a long prompt afterwards", "answered" if long[0] == 200 else str(long), long[0] == 200)
    finally:
        status = server.stop()
        tools.say("memory", "the server exits on SIGTERM", "status 0" if status == 0 else f"status {status}", status == 0)
