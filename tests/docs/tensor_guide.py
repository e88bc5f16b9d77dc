#!/usr/bin/env python3
"""Writes a C++ program that runs the code of docs/tensor.md, each block as a function of its own.

SETTINGS has, for each block, the declarations that it needs and a condition that must hold afterwards. A block without
a row is an error, so that the code of the guide is tested as a whole. The program runs in a folder with model.gguf.

usage: tensor_guide.py GUIDE PROGRAM.cc
"""
import pathlib
import re
import sys

DATA = """const vt::Tensor x = vt::ones({8, 3}), y = vt::ones({8, 1});
vt::Tensor weight = vt::zeros({3, 1});"""
LOSS = """const auto loss = [](std::span<const vt::Tensor> in) {
  return vt::mean(vt::square(vt::matmul(in[0], in[1]) - in[2]));
};
const std::array arguments = {x, weight, y};"""
ATTENTION = "const vt::Tensor q = vt::ones({1, 4, 5, 8}), k = q, v = q;"
HANDLES = """veery_tensor *x = NULL, *weight = NULL, *y = NULL, *value = NULL, *gradient = NULL;
const int64_t shape[] = {8, 3}, column[] = {3, 1}, results[] = {8, 1};
veery_status status = veery_tensor_ones(shape, 2, VEERY_DTYPE_F32, &x);
if (status == VEERY_OK) status = veery_tensor_ones(column, 2, VEERY_DTYPE_F32, &weight);
if (status == VEERY_OK) status = veery_tensor_ones(results, 2, VEERY_DTYPE_F32, &y);
if (status != VEERY_OK) std::abort();"""
# Heading, declarations, condition. Blocks of one heading are in the order of the page. "file scope": functions.
SETTINGS = [
    ("Arrays in ten minutes", "", "y.shape() == vt::Shape({2, 3}) && std::abs(vt::sum(y).item<double>() - 2) < 1e-6"),
    ("Derivatives", DATA, "result.value.item<double>() == 1 && weight.values<float>()[0] > 0"),
    ("Transforms", DATA + LOSS, "compiled(arguments)[0].shape() == vt::Shape({8, 3, 1})"),
    ("Transforms", DATA, 'check.text.starts_with("gradients differ: error ")'),
    ("Fast functions", """const vt::Tensor x = vt::ones({2, 3}), weight = vt::ones({3}), logits = vt::zeros({2, 3});
        const vt::Tensor targets = vt::Tensor::of<int32_t>({1, -100});""" + ATTENTION,
     "h.shape() == x.shape() && y.shape() == q.shape() && std::abs(loss.item<double>() - std::log(3)) < 1e-6"),
    ("Rotary position embeddings", ATTENTION, "rotated.shape() == q.shape()"),
    ("Indexing, order, random numbers", "", '''part.values<int32_t>() == std::vector<int32_t>({3, 2, 1, 0, 7, 6, 5, 4}) &&
        columns.values<int32_t>() == std::vector<int32_t>({2, 0, 6, 4, 10, 8}) &&
        vt::sum(large).item<int32_t>() == 60'''),
    ("Indexing, order, random numbers", "", "vt::all(vt::isfinite(weight)).item<bool>()"),
    ("Files", """const vt::Tensor x = vt::ones({8, 3}), y = vt::ones({8, 1});
        vt::save_safetensors("model.safetensors", {{"model.norm.weight", x}});""",
     'vt::load_npz("arrays.npz").size() == 2 && vt::load_safetensors("scaled.safetensors").metadata.at("format") == "pt"'),
    ("Quantised tensors", """const vt::Tensor weight = vt::random::normal(vt::random::key(0), {8, 256});
        const vt::Tensor x = vt::ones({2, vt::load_gguf("model.gguf").quantized.at("blk.0.ffn_up.weight").shape()[1]});""",
     "y.shape() == vt::Shape({2, w.shape()[0]}) && rows.shape() == vt::Shape({256})"),
    ("Devices", "const vt::Tensor x = vt::ones({2, 3});", "y.device() == gpu"),
    ("Arrays from C", "", "result[0] == 3 && result[1] == 7.5"),
    ("Arrays from C", "file scope", ""),
    ("Arrays from C", HANDLES, "status == VEERY_OK && value != NULL && gradient != NULL"),
]  # fmt: skip

HEAD = """#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
"""
REQUIRE = """static void require(bool condition, const char* text) {
  if (!condition) throw std::runtime_error(text);
}
"""
# A machine without a GPU cannot run the block about devices.
MAIN = """static void run(const char* name, void (*block)()) {
  try {
    block();
    std::printf("%s\\n", name);
  } catch (const vt::Error& error) {
    if (error.kind() != vt::ErrorKind::kUnsupported || std::string(name) != "Devices") throw;
    std::printf("%s: skipped: %s\\n", name, error.what());
  }
}
int main() {
"""


def blocks(guide):
    """Yields (heading, code) for each block in C or C++."""
    heading, code = None, None
    for line in guide.splitlines():
        if code is not None and line == "```":
            yield heading, code
            code = None
        elif code is not None:
            code.append(line)
        elif line in ("```cpp", "```c"):
            code = []
        elif match := re.match(r"#+ (.*)", line):
            heading = match.group(1)


def program(guide):
    """Includes and namespaces move to the start of the program."""
    found = list(blocks(guide))
    if [heading for heading, _ in found] != [heading for heading, _, _ in SETTINGS]:
        raise SystemExit(f"tensor_guide.py: SETTINGS do not fit the blocks of {[heading for heading, _ in found]}")
    top, functions, calls = {}, [], []
    for number, ((heading, code), (_, declarations, condition)) in enumerate(zip(found, SETTINGS)):
        moved = [line for line in code if line.startswith(("#include", "namespace "))]
        top.update(dict.fromkeys(moved))
        body = "\n".join(line for line in code if line not in moved)
        if declarations != "file scope":
            text = " ".join(condition.split()).replace("\\", "\\\\").replace('"', '\\"')
            body = f"static void block_{number}() {{\n{declarations}\n{body}\nrequire({condition}, \"{text}\");\n}}"
            calls.append(f'  run("{heading}", block_{number});\n')
        functions.append(body)
    includes = sorted(top, key=lambda line: not line.startswith("#include"))
    return HEAD + "\n".join([*includes, REQUIRE, *functions, ""]) + MAIN + "".join(calls) + "}\n"


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(program(pathlib.Path(sys.argv[1]).read_text()))
