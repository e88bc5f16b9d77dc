#!/usr/bin/env python3
"""Measures `veery transcribe` and whisper.cpp alternately on the same model file and sounds.

    bench/peers/whisper.py ggml-tiny.en.bin SOUND.wav [SOUND.wav ...] --whisper-cli PROGRAM [--json OUT]

Each round runs both programs as separate processes, with greedy decoding (and the usual temperature
fallback) and with five beams. Prints the real-time factor (seconds of audio per second of the process,
including loading) and whether the texts are equal. whisper.cpp is a Release build for this machine
according to its own instructions; ggml_whisper.py creates the model file. Requires only Python 3.11.
"""

import argparse
import difflib
import json
import re
import sys
import wave
from pathlib import Path

import machine as machines
from pairs import paired_ratios, spread
from programs import Failure, Settings, run

REPOSITORY = Path(__file__).resolve().parents[2]
WAYS = {"greedy": 1, "5 beams": 5}


def veery(options, sound, beams):
    return [options.veery, "transcribe", options.model, sound, "--beams", beams, "-t", options.threads, "-q"]


def whisper_cpp(options, sound, beams):
    return [options.whisper_cli, "-m", options.model, "-f", sound, "-bs", beams, "-t", options.threads, "-np", "-ng"]


PROGRAMS = {"veery": veery, "whisper.cpp": whisper_cpp}


def words_of(text):
    """Returns the words without the time stamps that whisper-cli prints."""
    return re.sub(r"\[[\d:.]+ --> [\d:.]+\]|\s+", " ", text).split()


def duration(path):
    with wave.open(str(path)) as sound:
        return sound.getnframes() / sound.getframerate()


def measure(options, settings, sound, beams):
    """Returns {program: [real-time factors]} and the words of each program's last run."""
    seconds, factors, said = duration(sound), {name: [] for name in PROGRAMS}, {}
    for index in range(options.rounds):
        for name in list(PROGRAMS)[:: 1 if index % 2 == 0 else -1]:
            finished = run([str(word) for word in PROGRAMS[name](options, sound, beams)], settings)
            factors[name].append(seconds / finished.seconds)
            said[name] = words_of(finished.output)
    return factors, said


def compare(options):
    settings = Settings(options.threads, 0, 0, 0, options.timeout)
    results = []
    for sound in options.sounds:
        for way, beams in WAYS.items():
            factors, said = measure(options, settings, sound, beams)
            ours, theirs = said.values()
            results.append({
                "sound": sound.name, "seconds": duration(sound), "way": way,
                **{name: spread(values) for name, values in factors.items()},
                "ratio": spread(paired_ratios(*factors.values())),
                "words": len(theirs), "same_text": ours == theirs,
                "agreement": difflib.SequenceMatcher(None, ours, theirs, autojunk=False).ratio(),
            })  # fmt: skip
            row = results[-1]
            print(f"{sound.name}, {row['seconds']:.0f} s, {way}: veery {row['veery']['median']:.1f}, whisper.cpp "
                  f"{row['whisper.cpp']['median']:.1f} times real time, ratio {row['ratio']['median']:.2f} "
                  f"({row['ratio']['q1']:.2f} - {row['ratio']['q3']:.2f}); "
                  f"{'the same text' if row['same_text'] else 'texts agree by {:.3f}'.format(row['agreement'])}")  # fmt: skip
    return results


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=absolute, metavar="MODEL.bin")
    parser.add_argument("sounds", type=absolute, nargs="+", metavar="SOUND.wav")
    parser.add_argument("--whisper-cli", type=absolute, required=True, metavar="PROGRAM")
    parser.add_argument("--whisper-version", default="", help="version to record in the JSON")
    parser.add_argument("--veery", type=absolute, default=REPOSITORY / "build/release/bin/veery", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600, help="timeout of a process in seconds [600]")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    return parser.parse_args()


def absolute(text):
    return Path(text).absolute()


def main():
    options = parse()
    before = machines.observe(3)
    results = compare(options)
    if options.json:
        document = {"machine": machines.describe(), "tree": machines.describe_tree(REPOSITORY), "before": before,
                    "after": machines.observe(3), "model": options.model.name, "threads": options.threads,
                    "rounds": options.rounds, "whisper.cpp": options.whisper_version, "results": results}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"whisper: {error}")
