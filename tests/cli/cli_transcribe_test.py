#!/usr/bin/env python3
"""`veery transcribe`: input and output formats, sounds without speech, errors. The weights are random, so that what is
written has no sense.

usage: cli_transcribe_test.py VEERY [unittest arguments]
"""
import json
import re
import shutil
import struct
import unittest

from cli_base import TINY, CliTest
from sounds import noise, wav

WHISPER = TINY.parent / "whisper" / "a"


class TranscribeTest(CliTest):
    def sound(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def transcribe(self, sound, *arguments, stdin=None):
        once = [] if "--temperatures" in arguments else ["--temperatures", "0"]
        return self.veery("transcribe", WHISPER, sound, "-t", 1, *once, *arguments, stdin=stdin)

    def test_forms_say_the_same(self):
        sound = self.sound("noise.wav", noise(1.5))
        known = json.loads(self.transcribe(sound, "--json").stdout)
        self.assertAlmostEqual(known["duration"], 1.5)
        self.assertIn(known["language"], ("en", "de"))
        segments = known["segments"]
        self.assertGreater(len(segments), 0)
        self.assertEqual(known["text"], "".join(segment["text"] for segment in segments))
        for segment in segments:
            self.assertLess(segment["start"], segment["end"])
        times = [round(segment["start"] * 1000) for segment in segments]
        lines = self.transcribe(sound, "--to", "tsv").stdout.decode(errors="replace").split("\n")
        self.assertEqual(lines[0], "start\tend\ttext")
        self.assertEqual([int(line.split("\t")[0]) for line in lines[1:-1]], times)
        srt = self.transcribe(sound, "--to", "srt").stdout.decode(errors="replace")
        starts = re.findall(r"^(\d\d):(\d\d):(\d\d),(\d\d\d) --> ", srt, re.MULTILINE)
        self.assertEqual([((int(h) * 60 + int(m)) * 60 + int(s)) * 1000 + int(ms) for h, m, s, ms in starts], times)
        vtt = self.transcribe(sound, "--to", "vtt").stdout
        self.assertTrue(vtt.startswith(b"WEBVTT\n\n"))
        self.assertEqual(vtt.count(b" --> "), len(times))
        text = self.transcribe(sound).stdout
        self.assertEqual(text.count(b"\n"), len(times))

    def test_threads_pipes_and_rates_change_nothing(self):
        data = noise(0.8)
        path = self.sound("noise.wav", data)
        first = self.transcribe(path, "--json").stdout
        self.assertEqual(self.transcribe(path, "-t", 3, "--json").stdout, first)
        self.assertEqual(self.transcribe("-", "--json", stdin=data).stdout, first)
        stereo = [x for sample in struct.unpack("<12800h", data[44:]) for x in (sample, sample)]
        self.assertEqual(self.transcribe("-", "--json", stdin=wav(stereo, channels=2)).stdout, first)

    def test_options(self):
        sound = self.sound("noise.wav", noise(0.7))
        for arguments in (["--beams", 3], ["--best-of", 2, "--temperatures", "0.5,1"], ["--temperatures", "0,1"], ["--no-timestamps"], ["--no-carry"],
                          ["--prompt", "abc"], ["--translate"], ["-l", "de"], ["--language", "German"], ["--exact"], ["-q"]):
            done = self.transcribe(sound, "--json", *arguments)
            known = json.loads(done.stdout)
            if arguments[0] in ("-l", "--language"):
                self.assertEqual((known["language"], known["language_probability"]), ("de", 1))
            self.assertEqual(done.stderr == b"", arguments == ["-q"])
        self.assertIn("klingon", self.error("transcribe", WHISPER, sound, "-l", "klingon"))
        for wrong in (["--beams", 0], ["--temperatures", "1,x"], ["--temperatures", "3"], ["--to", "doc"], ["second.wav"]):
            self.error("transcribe", WHISPER, sound, *wrong, status=2)
        self.error("transcribe", WHISPER, status=2)

    def test_words(self):
        sound = self.sound("noise.wav", noise(1.5))
        segments = json.loads(self.transcribe(sound, "--json", "--word-timestamps").stdout)["segments"]
        words = [word for segment in segments for word in segment["words"]]
        self.assertGreater(len(words), 0)
        self.assertEqual("".join(word["word"] for word in words), "".join(segment["text"] for segment in segments))
        for word in words:
            self.assertLessEqual(word["start"], word["end"])
            self.assertTrue(0 <= word["probability"] <= 1)
        vtt = self.transcribe(sound, "--to", "vtt", "--highlight-words").stdout.decode(errors="replace")
        self.assertGreaterEqual(vtt.count("<u>"), len(words))
        plain = json.loads(self.transcribe(sound, "--json", "--no-timestamps").stdout)
        timed = json.loads(self.transcribe(sound, "--json", "--no-timestamps", "--word-timestamps").stdout)
        self.assertEqual(timed["text"], plain["text"])
        self.error("transcribe", WHISPER, sound, "--highlight-words", "--to", "txt", status=2)
        other = self.copy_without_heads()
        self.assertIn("alignment_heads", self.error("transcribe", other, sound, "--word-timestamps"))
        self.veery("transcribe", other, sound, "-t", 1)

    def copy_without_heads(self):
        other = self.folder / "other"
        shutil.copytree(WHISPER, other)
        path = other / "generation_config.json"
        config = json.loads(path.read_text())
        del config["alignment_heads"]
        path.write_text(json.dumps(config))
        return other

    def test_batches_and_voice(self):
        sound = self.sound("noise.wav", noise(4.5))
        one = self.transcribe(sound, "--json", "--batch", 1).stdout
        self.assertGreater(len(json.loads(one)["segments"]), 2)
        for batch in (2, 3, 8):
            self.assertEqual(self.transcribe(sound, "--json", "--batch", batch).stdout, one)
        drawn = ["--json", "--temperatures", "0.7", "--best-of", 2, "--word-timestamps"]
        self.assertEqual(self.transcribe(sound, *drawn, "--batch", 3).stdout, self.transcribe(sound, *drawn, "--batch", 1).stdout)
        self.assertEqual(json.loads(self.transcribe(sound, "--json", "--vad").stdout)["segments"], [])
        self.assertEqual(json.loads(self.transcribe(sound, "--json", "--vad").stdout)["duration"], 4.5)
        every = self.transcribe(sound, "--json", "--vad", "--vad-threshold", 0, "--vad-min-speech", 0, "--vad-pad", 5)
        self.assertEqual(every.stdout, self.transcribe(sound, "--json").stdout)
        for wrong in (["--batch", 0], ["--vad-threshold", -1], ["--vad-pad", "x"]):
            self.error("transcribe", WHISPER, sound, *wrong, status=2)

    def test_without_speech(self):
        for name, samples in (("none", []), ("one", [900]), ("silence", [0] * 40000)):
            done = self.transcribe(self.sound(name + ".wav", wav(samples)), "--json")
            self.assertEqual(json.loads(done.stdout)["segments"], [], name)

    def test_files(self):
        sound = self.sound("a.wav", noise(0.5))
        out = self.folder / "a.srt"
        done = self.transcribe(sound, "-o", out)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b" --> ", out.read_bytes())
        self.assertIn("--force", self.error("transcribe", WHISPER, sound, "-o", out))
        self.transcribe(sound, "-o", out, "--force")
        self.assertIn("a.wav", self.error("transcribe", WHISPER, sound, "-o", sound, "--force"))
        self.assertIn("letter.txt", self.error("transcribe", WHISPER, self.sound("letter.txt", b"Dear Sir")))
        self.assertIn("absent.wav", self.error("transcribe", WHISPER, self.folder / "absent.wav"))
        self.assertIn("folder", self.error("transcribe", WHISPER, self.folder))
        self.error("transcribe", WHISPER, "-", stdin=b"")
        cut = self.sound("cut.wav", noise(2)[:20000])
        self.assertAlmostEqual(json.loads(self.transcribe(cut, "--json").stdout)["duration"], 0.6, delta=0.05)

    def test_damaged_mp3_is_one_line(self):
        whole = (TINY.parent / "sound" / "tone.mp3").read_bytes()
        self.assertAlmostEqual(json.loads(self.transcribe("-", "--json", stdin=whole).stdout)["duration"], 0.7)
        holed = whole[:2000] + bytes(i * i % 251 for i in range(800)) + whole[2800:]
        for name, data, said in (("cut.mp3", whole[:2000], "but its header declares 0.7 s"), ("holed.mp3", holed, "do not belong to an MPEG frame")):
            done = self.transcribe(self.sound(name, data), "--json")
            lines = [line for line in done.stderr.decode().splitlines() if "s of sound in" not in line]
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], rf"^veery: warning: .*{name}: .*{said}")
        self.assertIn("no complete frame", self.error("transcribe", WHISPER, self.sound("none.mp3", whole[:300])))

    def test_other_models_and_verbs(self):
        sound = self.sound("a.wav", noise(0.5))
        self.assertIn("no audio encoder", self.error("transcribe", TINY / "qwen3", sound))
        self.assertIn("veery transcribe", self.error("run", WHISPER, "-p", "hi"))
        shown = self.json("show", WHISPER)["config"]
        self.assertEqual((shown["encoder_layers"], shown["encoder_positions"], shown["encoder_bands"]), (3, 37, 10))
        self.assertIn("attend", self.veery("plan", WHISPER).stdout.decode())
        self.assertIn("same bits", self.veery("verify", WHISPER).stdout.decode())


if __name__ == "__main__":
    unittest.main()
