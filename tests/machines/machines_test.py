#!/usr/bin/env python3
"""Runs the program on an emulated processor: Haswell, which has AVX2 and no more, or Nehalem, which has no AVX. It has
to run every verb, and to give the bits of this machine's processor.

usage: machines_test.py PROCESSOR VEERY KERNELS_TEST FIXTURES [unittest arguments]
exit status 77: no emulator, or no weights
"""
import array
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import tiny_gguf  # noqa: E402
from sounds import noise  # noqa: E402

MACHINE, PROGRAM, KERNELS_TEST, FIXTURES = "", "", "", pathlib.Path()
EMULATOR = "qemu-x86_64"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SKIPPED = 77

# The kernels that are to be chosen on what is emulated.
TARGETS = {"Haswell": "avx2", "Nehalem": "plain"}

# Checkpoints of a few kilobytes, one for each kind of product: of floats in f32, f16, bf16 and fp8, of MLX's groups of
# codes, of MXFP4, of experts, with latent attention; and attention with windows, soft caps and sinks.
CHECKPOINTS = [
    "apertus-f32", "llama-linear", "mixtral", "deepseek-v2", "deepseek-v3-mlx", "llama-fp8", "llama-fp8-blocks",
    "llama-mlx3", "llama-mlx6", "llama-mxfp8", "gpt-oss-mxfp4", "gemma2", "stablelm",
]  # fmt: skip
TYPES = ["Q8_0", "Q5_1", "Q3_K", "Q4_K", "Q6_K", "IQ2_XXS", "TQ1_0", "BF16"]

# Of the kernels' own tests a third of those that take no minutes under emulation, another one on each machine: each
# compares all instruction sets of the machine with the oracle or with each other. What their kernels give is tested on
# this machine's processor as well, and tools/check_targets.py looks at every instruction; here they run.
SHARDS = {"Haswell": 0, "Nehalem": 1}
KERNEL_TESTS = (
    "*-Attend.FastIs*:Attend.ARow*:Attend.Long*:Attend.ASpan*:AttendRows.*:"
    "Linear.WhoTakes*:Linear.ContractHoldsForA*:Linear.GateIs*:SplitPanels.*:"
    "LinearArgmax.*:GradientKernels*:Types/MoeOfType*:Types/HeadLinearOfType*:Types/LinearOfType.ContractHoldsForE*:"
    "Types/LinearOfType.ContractHoldsForW*:Types/LinearOfType.ContractHoldsForT*"
)


def model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("VEERY_MODELS") or pathlib.Path(cache, "veery", "models")) / MODEL_FILE


def call(*arguments, here=False, program=None, timeout=600, more_environment=None):
    """Standard output of a run on the emulated processor, or on this machine's."""
    arguments = [program or PROGRAM, *map(str, arguments)]
    done = subprocess.run(
        arguments if here else [EMULATOR, "-cpu", MACHINE, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
        timeout=timeout, check=False, env={**os.environ, **(more_environment or {})})  # fmt: skip
    if done.returncode != 0:
        where = "this machine" if here else MACHINE
        raise AssertionError(f"{where}: {' '.join(arguments)}: exit status {done.returncode}: "
                             f"{done.stderr.decode(errors='replace')[-2000:]}{done.stdout.decode(errors='replace')[-2000:]}")
    return done.stdout.decode()


def logits(path, ids="1,2,3,40,5,6,7", *more, here=False):
    return json.loads(call("logits", path, "--ids", ids, "--all", "--top", 5, "-t", 1, "--json", *more, here=here))


def write_wide_llama(folder):
    """A llama folder whose rows are as long as the blocks of every type want: 256."""
    width, hidden, vocabulary = 256, 512, 64
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "vocab_size": vocabulary,
              "intermediate_size": hidden, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "torch_dtype": "float32"}  # fmt: skip
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [vocabulary, width], "lm_head.weight": [vocabulary, width],
              "model.norm.weight": [width], layer + "input_layernorm.weight": [width],
              layer + "post_attention_layernorm.weight": [width], layer + "self_attn.q_proj.weight": [width, width],
              layer + "self_attn.k_proj.weight": [width // 2, width], layer + "self_attn.v_proj.weight": [width // 2, width],
              layer + "self_attn.o_proj.weight": [width, width], layer + "mlp.gate_proj.weight": [hidden, width],
              layer + "mlp.up_proj.weight": [hidden, width], layer + "mlp.down_proj.weight": [width, hidden]}  # fmt: skip
    numbers, header, data = random.Random(7), {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = array.array("f", (numbers.gauss(0, 0.06) + (len(shape) == 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    head = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)


class Machine(unittest.TestCase):
    def test_kernels_are_those_of_the_machine(self):
        plan = json.loads(call("plan", model(), "--rows", 1, "--json", "-t", 1))
        self.assertEqual(plan["target"], TARGETS[MACHINE])

    def test_answers_are_those_of_this_machine(self):
        text = ["run", model(), "--raw", "-p", "Why is the", "-n", 3, "--temp", 0, "-q", "-t", 2]
        want = call(*text, here=True)
        self.assertTrue(want.strip())
        self.assertEqual(call(*text), want)

    def test_logits_of_a_real_model_are_those_of_this_machine_to_the_bit(self):
        for arguments in (["504,3575,282"], ["504", "--exact"]):
            self.assertEqual(logits(model(), *arguments), logits(model(), *arguments, here=True))

    def test_every_kind_of_product_gives_the_bits_of_this_machine(self):
        for name in CHECKPOINTS:
            path = FIXTURES / "tiny" / name
            with self.subTest(checkpoint=name):
                self.assertEqual(logits(path), logits(path, here=True))

    def test_every_type_is_encoded_and_multiplied_with_the_bits_of_this_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "wide")
            write_wide_llama(source)
            for kind in TYPES:
                with self.subTest(type=kind):
                    want, got = pathlib.Path(folder, f"{kind}.gguf"), pathlib.Path(folder, f"{kind}-emulated.gguf")
                    call("quantize", source, want, kind, "-t", 1, here=True)
                    call("quantize", source, got, kind, "-t", 1)
                    self.assertEqual(got.read_bytes(), want.read_bytes())
                    self.assertEqual(logits(got), logits(want, here=True))

    def test_every_verb_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "text.txt")
            text.write_text("The thrush sang in the old garden all morning long. " * 2)
            messages = pathlib.Path(folder, "messages.json")
            messages.write_text('[{"role": "user", "content": "Hello"}]')
            sound = pathlib.Path(folder, "noise.wav")
            sound.write_bytes(noise(0.3))
            small = pathlib.Path(folder, "bytes.gguf")
            tiny_gguf.write(small)
            tiny, out = FIXTURES / "tiny" / "llama-linear", pathlib.Path(folder, "out")
            calls = [
                ["tokenize", model(), "-p", "The capital of France"],
                ["template", model(), "--messages", messages],
                ["show", model()],
                ["plan", model(), "--rows", 2, "-t", 1],
                ["bench", tiny, "-p", 4, "-n", 2, "-r", 1, "-t", 1],
                ["perplexity", small, "-f", text, "-c", 16, "-t", 1],
                ["embed", FIXTURES / "encoders" / "bert-mean", "-p", "a thrush", "-t", 1],
                ["transcribe", FIXTURES / "whisper" / "a", sound, "--temperatures", 0, "--json", "-t", 1],
                ["convert", tiny, f"{out}.gguf"],
                ["convert", "--to", "mlx", tiny, f"{out}-mlx"],
                ["quantize", tiny, f"{out}-q8.gguf", "Q8_0"],
                ["verify", tiny, "-t", 1],
                ["completion", "bash"],
            ]
            for arguments in calls:
                with self.subTest(verb=arguments[0]):
                    self.assertTrue(call(*arguments) or arguments[0] in ("convert", "quantize"))

    def test_kernels_pass_their_own_tests(self):
        shard = {"GTEST_TOTAL_SHARDS": "3", "GTEST_SHARD_INDEX": str(SHARDS[MACHINE])}
        call(f"--gtest_filter={KERNEL_TESTS}", "--gtest_brief=1", program=KERNELS_TEST, timeout=1800, more_environment=shard)


def main():
    global MACHINE, PROGRAM, KERNELS_TEST, FIXTURES
    if len(sys.argv) < 5 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    MACHINE, FIXTURES = sys.argv[1], pathlib.Path(sys.argv[4])
    PROGRAM, KERNELS_TEST = (os.path.abspath(path) for path in sys.argv[2:4])
    del sys.argv[1:5]
    if not shutil.which(EMULATOR):
        print(f"{EMULATOR} is missing (Debian: qemu-user); scripts/setup.sh installs it")
        sys.exit(SKIPPED)
    if not model().is_file():
        print(f"{model()} is missing; scripts/models.sh fetches it")
        sys.exit(SKIPPED)
    unittest.main()


if __name__ == "__main__":
    main()
