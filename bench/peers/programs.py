"""The programs that compare.py runs, with the commands and output formats of each."""

import json
import re
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from os import wait4, waitstatus_to_exitcode
from pathlib import Path


class Failure(Exception):
    """A program could not be run, or printed unexpected output."""


@dataclass(frozen=True)
class Settings:
    """The settings common to all programs."""

    threads: int
    prompt: int  # tokens of the prefill test
    tokens: int  # tokens of the decode test
    context: int  # context of the one-token process and of perplexity windows
    timeout: float  # timeout of a process in seconds
    sampled: bool = True  # also measure answers with default sampling
    texts: bool = True  # also measure processes that read text, which needs a vocabulary


@dataclass(frozen=True)
class Finished:
    """A process that ended successfully."""

    output: str
    errors: str
    seconds: float  # wall-clock time
    peak_bytes: int  # highest resident set


def run(command, settings):
    """Runs `command` to its end without input. Raises Failure with its error output if it fails.

    Uses a temporary working directory, because some programs write a log there, so paths must be absolute.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )
        except OSError as error:
            raise Failure(f"{command[0]}: {error.strerror}") from error
        usage = wait(process, start + settings.timeout)
        seconds = time.perf_counter() - start
        texts = [read_text(output), read_text(errors)]
    if process.returncode == -signal.SIGKILL and seconds >= settings.timeout:
        raise Failure(f"{shlex.join(command)}: not done after {settings.timeout:g} s")
    if process.returncode != 0:
        last = "\n".join(texts[1].strip().splitlines()[-5:])
        raise Failure(f"{shlex.join(command)}: exit status {process.returncode}\n{last}")
    return Finished(*texts, seconds, usage.ru_maxrss * 1024)


def wait(process, deadline):
    """Waits for `process` and returns its resource usage; kills it at `deadline`.

    Uses the blocking wait4, which is accurate to the microsecond, unlike polling; an alarm ends the wait.
    ru_maxrss of a child starts at this script's own size (about 15 MiB), far below any model.
    """

    def kill(_signal, _frame):
        process.kill()

    previous = signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.perf_counter()))
    try:
        _, status, usage = wait4(process.pid, 0)
    except BaseException:  # Ctrl-C: do not leave the program running
        process.kill()
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    process.returncode = waitstatus_to_exitcode(status)
    return usage


def read_text(file):
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")


# The raw prompt of sampled answers.
SAMPLED_PROMPT = "The history of the steam engine begins"
SEED = "1"


def sampled_rate(said):
    """Returns tokens/s from the timings that llama.cpp and its forks print after an answer.

    An evaluation time of N "runs" excludes sampling, which is added because veery's time includes it.
    An evaluation time of N "tokens", printed by newer forks, is wall-clock time.
    """
    evaluated = re.search(r"(?<!prompt )eval time *= *([\d.]+) ms */ *(\d+) (runs|tokens)", said)
    chosen = re.search(r"\bsampl(?:e|ing) time *= *([\d.]+) ms", said)
    if not evaluated or (evaluated[3] == "runs" and not chosen):
        raise Failure("no lines with 'eval time' and 'sampling time' in what it printed")
    choosing = float(chosen[1]) if evaluated[3] == "runs" else 0
    return int(evaluated[2]) * 1000 / (float(evaluated[1]) + choosing)


class Veery:
    """The commands of veery."""

    name = "veery"

    def __init__(self, binary, flags):
        self.binary = str(binary)
        self.flags = flags

    def describe(self, settings):
        must_be_file(self.binary, "build the release preset, or name it with --veery")
        version = run([self.binary, "--version"], settings).output.strip()
        return {"version": version, "extra flags": " ".join(self.flags)}

    def bench(self, model, settings):
        """Returns {test: tokens per second} and the process."""
        finished = run(
            [self.binary, "bench", str(model), "-p", str(settings.prompt), "-n",
             str(settings.tokens), "-t", str(settings.threads), "-r", "1", "--json", *self.flags],
            settings)  # fmt: skip
        rows = parse_json(finished.output, "veery bench")
        return {row["test"]: row["tokens_per_second"] for row in rows}, finished

    def first_token(self, model, settings):
        return run(
            [self.binary, "run", str(model), "-p", "Hello", "-n", "1", "--raw", "--temp", "0",
             "-c", str(settings.context), "-t", str(settings.threads), *self.flags],
            settings)  # fmt: skip

    def sampled(self, model, settings):
        """Returns the decode speed of an answer with default sampling."""
        finished = run(
            [self.binary, "run", str(model), "-p", SAMPLED_PROMPT, "-n", str(settings.tokens), "--raw",
             "--ignore-eos", "--seed", SEED, "--json", "-c", str(settings.context), "-t",
             str(settings.threads), *self.flags],
            settings)  # fmt: skip
        return parse_json(finished.output, "veery run")["timings"]["decode_tokens_per_second"]

    def perplexity(self, model, text, settings):
        finished = run(
            [self.binary, "perplexity", str(model), "-f", str(text), "-c", str(settings.context),
             "-t", str(settings.threads), "--json", *self.flags],
            settings)  # fmt: skip
        result = parse_json(finished.output, "veery perplexity")
        return {"perplexity": result["perplexity"], "stderr": result["stderr"]}


class LlamaCpp:
    """The commands of llama.cpp."""

    name = "llama.cpp"
    hint = "run build_llama_cpp.sh, or name its folder with --llama"
    completion = ("llama-completion", "-no-cnv")

    def __init__(self, folder, flags):
        self.folder = Path(folder)
        self.bench_flags = flags
        self.run_flags = flags

    def describe(self, _settings):
        must_be_file(self.program("llama-bench"), self.hint)
        notes = self.folder / "peer.txt"  # written by build_llama_cpp.sh
        described = {"version": f"unknown ({notes} not found)"}
        if notes.is_file():
            lines = notes.read_text().splitlines()
            described = dict(line.split(": ", 1) for line in lines)
        return {**described, "extra flags": " ".join(self.bench_flags)}

    def program(self, name):
        return str(self.folder / name)

    def bench(self, model, settings):
        """Returns {test: tokens per second} and the process."""
        finished = run(
            [self.program("llama-bench"), "-m", str(model), "-p", str(settings.prompt), "-n",
             str(settings.tokens), "-t", str(settings.threads), "-r", "1", "-o", "json",
             *self.bench_flags],
            settings)  # fmt: skip
        # Some versions print remarks about the machine before the JSON.
        rows = parse_json(finished.output[finished.output.find("[") :], "llama-bench")
        speeds = {}
        for row in rows:
            kind = f"pp{row['n_prompt']}" if row["n_gen"] == 0 else f"tg{row['n_gen']}"
            speeds[kind] = row["avg_ts"]
        return speeds, finished

    def first_token(self, model, settings):
        # Skips the warm-up, an additional full evaluation by default.
        program, *flags = self.completion
        return run(
            [self.program(program), "-m", str(model), "-p", "Hello", "-n", "1", *flags,
             "--no-warmup", "--temp", "0", "-c", str(settings.context), "-t",
             str(settings.threads), *self.run_flags],
            settings)  # fmt: skip

    def sampled(self, model, settings):
        """Returns the decode speed of an answer with default sampling."""
        program, *flags = self.completion
        finished = run(
            [self.program(program), "-m", str(model), "-p", SAMPLED_PROMPT, "-n", str(settings.tokens),
             *flags, "--ignore-eos", "--seed", SEED, "-c", str(settings.context), "-t",
             str(settings.threads), *self.run_flags],
            settings)  # fmt: skip
        try:
            return sampled_rate(finished.output + finished.errors)
        except Failure as error:
            raise Failure(f"{program}: {error}") from error

    def perplexity(self, model, text, settings):
        finished = run(
            [self.program("llama-perplexity"), "-m", str(model), "-f", str(text), "-c",
             str(settings.context), "-t", str(settings.threads), *self.run_flags],
            settings)  # fmt: skip
        said = finished.output + finished.errors
        # "PPL = 15.4 +/- 0.4", or "PPL over 41 chunks for n_ctx=512 = 15.4 +/- 0.4".
        found = re.search(r"PPL.* = ([\d.]+) \+/- ([\d.]+)", said)
        if not found:
            raise Failure("llama-perplexity: no line with 'PPL' in what it printed")
        return {"perplexity": float(found[1]), "stderr": float(found[2])}


class IkLlamaCpp(LlamaCpp):
    """The commands of ik_llama.cpp, with weights repacked at load and flash attention."""

    name = "ik_llama.cpp"
    hint = "name the folder of its programs with --ik"
    completion = ("llama-cli",)

    def __init__(self, folder, flags):
        super().__init__(folder, flags)
        self.bench_flags = ["-rtr", "1", "-fa", "1", *flags]
        self.run_flags = ["-rtr", "-fa", "on"]


def must_be_file(path, hint):
    if not Path(path).is_file():
        raise Failure(f"{path}: no such file ({hint})")


def parse_json(text, what):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Failure(f"{what}: expected JSON, got {text[:200]!r} ({error})") from error
