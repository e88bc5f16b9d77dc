#!/usr/bin/env python3
"""`veery batch`: one line per request, in order, also with invalid requests. `veery classify`: scores of labels.

usage: cli_batch_test.py VEERY [unittest arguments]
"""
import json
import pathlib
import subprocess
import unittest

from cli_base import PROGRAM, CliTest


def request(name, content, **body):
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions",
            "body": {"messages": [{"role": "user", "content": content}], **body}}  # fmt: skip


class Batch(CliTest):
    DEFAULTS = ["--defaults", '{"max_tokens": 12, "temperature": 0}', "-t", 1]

    def lines(self, *values):
        return "".join((value if isinstance(value, bytes) else json.dumps(value).encode()).decode() + "\n"
                       for value in values)  # fmt: skip

    def batch(self, text, *arguments):
        """Returns the answers and the summary."""
        done = self.veery("batch", self.model, "-i", self.write("in.jsonl", text), *self.DEFAULTS, *arguments)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()

    def test_answers_are_those_of_run_and_in_the_order_of_requests(self):
        texts = [f"number {i}: " + "x" * (37 * i % 20) for i in range(20)]
        answers, said = self.batch(self.lines(*texts, request("last", texts[3], max_tokens=4)))
        self.assertEqual([answer["custom_id"] for answer in answers], [None] * 20 + ["last"])
        for text, answer in zip(texts, answers):
            self.assertEqual((answer["response"]["status_code"], answer["error"]), (200, None))
            expected = self.json("run", self.model, "-p", text, "-n", 12, "--temp", 0, "-t", 1)["text"]
            self.assertEqual(answer["response"]["body"]["choices"][0]["message"]["content"], expected)
        self.assertEqual(answers[-1]["response"]["body"]["usage"]["completion_tokens"], 4)
        self.assertIn("[21 answered, 0 errors", said)
        self.assertEqual(len({answer["id"] for answer in answers}), 21)

    def test_an_invalid_request_does_not_affect_others(self):
        wrong = [
            (b"nonsense", None, "request 2: byte 0"),
            ([1], None, "request 3: is a JSON array, expected an object or a string"),
            ({"custom_id": "no body"}, "no body", "body is not an object"),
            ({"custom_id": "get", "method": "GET", "body": {}}, "get", "method is 'GET', expected POST"),
            ({"custom_id": "url", "url": 5, "body": {}}, "url", "url is a JSON number"),
            (request("stream", "x", stream=True), "stream", "stream is true, expected false"),
        ]  # fmt: skip
        refused = [
            ({"custom_id": "nowhere", "url": "/v1/nothing", "body": {}}, "nowhere", 404),
            (request("long", "x" * 5000), "long", 400),
            (request("range", "x", temperature=-1), "range", 400),
        ]
        answers, said = self.batch(
            self.lines("first", *(line for line, _, _ in wrong), *(line for line, _, _ in refused), "last"))  # fmt: skip
        self.assertIn(f"[11 answered, {len(wrong) + len(refused)} errors", said)
        self.assertEqual([answers[i]["response"]["status_code"] for i in (0, -1)], [200, 200])
        for (_, name, part), answer in zip(wrong, answers[1:]):
            self.assertEqual((answer["custom_id"], answer["response"]), (name, None))
            self.assertIn(part, answer["error"]["message"])
        for (_, name, status), answer in zip(refused, answers[1 + len(wrong) :]):
            self.assertEqual((answer["custom_id"], answer["response"]["status_code"]), (name, status))
            self.assertIn("message", answer["response"]["body"]["error"])

    def test_a_dash_is_standard_output(self):
        text = self.lines("first")
        answers, _ = self.batch(text, "-o", "-")
        self.assertEqual([answer["error"] for answer in answers], [None])
        self.assertFalse(pathlib.Path("-").exists())
        refused = self.veery("batch", self.model, "-i", self.write("in.jsonl", text), "-o", "-", "--resume", status=2)
        self.assertIn("--resume: needs --output FILE", refused.stderr.decode())

    def test_resumes_where_it_ended(self):
        text = self.lines(*(request(f"r{i}", f"text {i}") for i in range(9)))
        out = self.folder / "resumed.jsonl"
        self.batch(text, "-o", out)
        whole = out.read_text()
        contents = [json.loads(line)["response"]["body"]["choices"] for line in whole.splitlines()]
        lines = whole.splitlines(keepends=True)
        for there in ("", "".join(lines[:4]), "".join(lines[:4]) + lines[4][:30], whole):
            with self.subTest(there=len(there)):
                out.write_text(there)
                _, said = self.batch(text, "-o", out, "--resume")
                self.assertEqual(
                    [json.loads(line)["response"]["body"]["choices"] for line in out.read_text().splitlines()], contents)  # fmt: skip
                kept = there.count("\n")
                self.assertTrue(out.read_text().startswith("".join(lines[:kept])))
                self.assertIn(f"[{9 - kept} answered", said)
        given = self.write("in.jsonl", self.lines(request("another", "x")))
        self.assertIn("found 9 answers", self.error("batch", self.model, "-i", given, "-o", out, "--resume"))
        given = self.write("in.jsonl", text.replace("r3", "s3"))
        self.assertIn("line 4: found the answer to 'r3', expected that to 's3'",
                      self.error("batch", self.model, "-i", given, "-o", out, "--resume"))  # fmt: skip

    def test_keeps_existing_answers_and_reports_errors(self):
        given = self.write("in.jsonl", self.lines("x"))
        out = self.write("out.jsonl", "mine")
        self.assertIn("exists already", self.error("batch", self.model, "-i", given, "-o", out))
        self.assertEqual(out.read_text(), "mine")
        self.assertIn("is also the input", self.error("batch", self.model, "-i", given, "-o", given, "--force"))
        self.assertIn("--resume", self.error("batch", self.model, "-i", given, "--resume", status=2))
        self.assertIn("--defaults", self.error("batch", self.model, "-i", given, "--defaults", "[]", status=2))
        self.assertIn("No such file", self.error("batch", self.model, "-i", self.folder / "none.jsonl"))
        self.veery("batch", self.model, "-i", given, "-o", out, "--force", *self.DEFAULTS)
        self.assertEqual(len(out.read_text().splitlines()), 1)
        self.assertEqual(self.batch("")[0], [])

    def test_files_may_follow_the_model(self):
        given, out = self.write("in.jsonl", self.lines("x", "y")), self.folder / "words.jsonl"
        self.veery("batch", self.model, given, out, *self.DEFAULTS)
        wanted = [line["response"]["body"]["choices"] for line in self.batch(self.lines("x", "y"))[0]]
        self.assertEqual([json.loads(line)["response"]["body"]["choices"] for line in out.read_text().splitlines()], wanted)
        self.assertIn("[0 answered", self.veery("batch", self.model, given, out, *self.DEFAULTS, "--resume").stderr.decode())
        printed = self.veery("batch", self.model, given, *self.DEFAULTS).stdout
        self.assertEqual(len(printed.splitlines()), 2)
        self.assertIn("missing --input", self.error("batch", self.model, status=2))
        self.assertIn("'more'", self.error("batch", self.model, given, out, "more", status=2))
        self.assertIn("empty argument", self.error("batch", self.model, "", status=2))

    def test_a_full_disk_ends_it(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "batch", str(self.model), "-i", "-", "-t", "1"], stdout=full,
                                  input=self.lines("x", "y").encode(), stderr=subprocess.PIPE, timeout=60, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"veery: error: ", done.stderr)


class Classify(CliTest):
    def classify(self, *arguments, **more):
        return self.json("classify", self.model, "-t", 1, *arguments, **more)

    def test_scores_are_sums_over_the_tokens_of_the_answer(self):
        texts, labels = [f"text {i}" + "." * i for i in range(12)], ["ok", "bad", "b", "not so bad"]
        path = self.write("texts.jsonl", "".join(json.dumps(text) + "\n" for text in texts))
        found = self.classify("--jsonl", path, "--labels", " ok,bad ,b,not so bad", "--form", "{text}?")
        self.assertEqual(found["labels"], labels)
        alone = self.classify("--labels", ",".join(labels), "--form", "{text}?", "-np", 1, "-p", texts[5])["results"][0]
        self.assertEqual(found["results"][5]["logprobs"], alone["logprobs"])
        for text, result in zip(texts[:3], found["results"]):
            self.assertAlmostEqual(sum(result["probabilities"]), 1)
            self.assertEqual(result["label"], labels[result["logprobs"].index(max(result["logprobs"]))])
            prompt = f"<s>[user]{text}?[assistant]"
            for label, score in zip(labels, result["logprobs"]):
                self.assertAlmostEqual(score, self.logprob(prompt, label), delta=1e-4)
        self.assertTrue(any(result["reused_tokens"] > 5 for result in found["results"]))

    def logprob(self, prompt, label):
        """Scores a text byte by byte (the tokens of this model) by `veery logits`."""
        total = 0
        for i in range(len(label)):
            last = self.json("logits", self.model, "-t", 1, "--top", 300, "-p", prompt + label[:i])["positions"][-1]
            total += next(token["logit"] for token in last["top"] if token["id"] == ord(label[i])) - last["logsumexp"]
        return total

    def test_forms_and_means(self):
        raw = self.classify("--labels", "a,bb", "--raw", "--form", "say {labels}:{text}\n", "-p", "x")["results"][0]
        mean = self.classify("--labels", "a,bb", "--raw", "--form", "say {labels}:{text}\n", "--mean", "-p", "x")["results"][0]
        self.assertEqual(raw["logprobs"], mean["logprobs"])
        self.assertGreater(mean["probabilities"][1], raw["probabilities"][1])
        done = self.veery("classify", self.model, "-t", 1, "--label-file", self.write("labels.txt", "yes\nno, not\n\n"),
                          "--form", "{text}", "so?")  # fmt: skip
        self.assertRegex(done.stdout.decode(), r"\A(yes|no, not)\t[01]\.\d{4}\n\Z")

    def test_errors_name_their_cause(self):
        for said, status, arguments in [
            ("--labels", 2, ["-p", "x"]), ("two or more", 2, ["-p", "x", "--labels", "a"]), ("found 'a' twice", 1, ["-p", "x", "--labels", "a,b,a"]),
            ("{text}", 1, ["-p", "x", "--labels", "a,b", "--form", "no place"]), ("context holds", 1, ["-p", "x" * 5000, "--labels", "a,b"]),
        ]:  # fmt: skip
            with self.subTest(said=said):
                self.assertIn(said, self.veery("classify", self.model, *arguments, status=status).stderr.decode())


if __name__ == "__main__":
    unittest.main()
