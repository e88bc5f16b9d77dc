// Routing and mixtures of experts on the emulator of GPUs: the bits of the CPU, for each attribute.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "support/gpu_machine.h"

namespace veery {
namespace {

using test::Matrix;

// The op on the emulator, whose memory is that of the host; NaN is what was not written.
void run_on_gpu(const Backend& backend, Op op, Dispatch d, const Matrix& out, int64_t rows) {
  const Kernel kernel = backend.choose(op, d, {});
  const size_t size = kernel.work != nullptr ? kernel.work(d, {rows, 1, 1}) : 0;
  test::Bytes work(size);
  std::fill_n(work.data(), size, std::byte{0xff});
  d.work = work.data();
  d.out() = out.operand;
  test::Batch batch(1, kPagePositions);
  batch.add(0, 0, static_cast<int32_t>(rows));
  const std::vector<int32_t> numbers(static_cast<size_t>(rows));
  Slots slots = batch.slots();
  slots.tokens = slots.output_rows = numbers.data();
  const Step step{op, d};
  const auto table =
      const_cast<Backend&>(backend).lower({&step, 1}, {}, {&slots, 1, rows, rows});  // NOLINT
  table->run(slots);
}

void expect_same_route(const RouteAttr& attr, int32_t experts, bool biased, const char* what) {
  Random random(5);
  Matrix scores = test::random_matrix(9, experts, random, 2);
  for (int32_t e = 0; e < experts; ++e) scores[7][e] = float(e % 3);  // equals
  const Matrix bias = test::random_matrix(1, experts, random, 0.2F);
  Dispatch d;
  d.in[RouteIn::kScores] = scores.operand;
  if (biased) d.in[RouteIn::kBias] = bias.operand;
  d.attr = attr;
  Matrix expected(9, experts), found(9, experts);
  d.out() = expected.operand;
  const std::vector<Operand> in(d.in.begin(), d.in.begin() + 2);
  test::run(op::kRoute, in, expected.operand, attr, test::plain_slots(9));
  run_on_gpu(*gpu::make_backend(gpu::make_emulator()), op::kRoute, d, found, 9);
  test::expect_same_bits(expected, found, what);
}

TEST(GpuExperts, RoutesHaveTheBitsOfTheCpu) {
  expect_same_route({.used = 3}, 7, false, "softmax");
  expect_same_route({.used = 8, .normalise = true}, 128, false, "normalised");
  expect_same_route({.used = 1, .sigmoid = true, .scale = 2.5F}, 16, false, "one");
  expect_same_route({.used = 6, .sigmoid = true, .normalise = true, .scale = 2.5F}, 40, true,
                    "sigmoid and bias");
  expect_same_route({.used = 4, .sigmoid = true, .groups = 8, .groups_used = 3, .group_best = 2},
                    32, true, "groups");
  expect_same_route({.used = 4, .groups = 4, .groups_used = 2, .group_best = 1}, 32, false,
                    "groups of one");
  expect_same_route({.used = 2, .jitter = 0.01F}, 16, false, "jitter");
}

TEST(GpuNorms, LayerNormsHaveTheBitsOfTheCpu) {
  Random random(8);
  for (const auto& [cols, groups, whole, biased] :
       {std::tuple(80, 1, true, true), std::tuple(300, 3, false, false),
        std::tuple(96, 2, true, true), std::tuple(7, 1, true, false)}) {
    const int32_t width = whole ? cols : cols / groups;
    const Matrix x = test::random_matrix(5, cols, random, 3);
    const Matrix weight = test::random_matrix(1, width, random);
    const Matrix bias = test::random_matrix(1, width, random);
    Dispatch d;
    d.in[LayerNormIn::kX] = x.operand;
    d.in[LayerNormIn::kWeight] = weight.operand;
    if (biased) d.in[LayerNormIn::kBias] = bias.operand;
    d.attr = NormAttr{.eps = 1e-5F, .groups = groups};
    Matrix expected(5, cols), found(5, cols);
    test::run(op::kLayerNorm, {d.in.begin(), d.in.begin() + 3}, expected.operand, d.attr,
              test::plain_slots(5), {supported_targets().front(), 1});
    d.out() = found.operand;
    run_on_gpu(*gpu::make_backend(gpu::make_emulator()), op::kLayerNorm, d, found, 5);
    test::expect_same_bits(expected, found);
  }
}

struct Case {
  const char* name;
  DType type;
  MoeAttr attr;
  bool biases = false, residual = false;
};

// Weights as files have them, for both sides.
struct Weights {
  std::vector<std::byte> stored, cpu, gpu;
  Operand of_cpu, of_gpu;

  Weights(const Backend& backend, DType type, int32_t stack, int64_t height, int64_t cols,
          Random& random) {
    std::vector<float> values(static_cast<size_t>(stack * height * cols));
    for (float& v : values) v = random.normal() / std::sqrt(static_cast<float>(cols));
    stored.resize(byte_size(type, std::ssize(values)));
    encode(type, values, stored);
    const auto row = static_cast<int64_t>(byte_size(type, cols));
    of_cpu = {stored.data(), row, stack * height, int32_t(cols), type, Layout::kRowMajor};
    cpu.resize(static_cast<size_t>(stack) * packed_bytes(type, height, cols) + 64);
    of_cpu.data = cpu.data() + (64 - reinterpret_cast<uintptr_t>(cpu.data()) % 64) % 64;
    of_cpu.stride = int64_t(panel_bytes(type, cols));
    of_cpu.layout = Layout::kPanels;
    of_cpu.stack = stack;
    of_gpu = backend.weight({.dtype = type, .rows = stack * height, .cols = cols, .stack = stack});
    gpu.resize(backend.weight_bytes(of_gpu) + 64);
    of_gpu.data = gpu.data() + (64 - reinterpret_cast<uintptr_t>(gpu.data()) % 64) % 64;
    for (int32_t e = 0; e < stack; ++e) {
      const std::byte* from = stored.data() + e * height * row;
      pack_panels(type, from, height, cols, of_cpu.of_stack(e).data, 0, (height + 15) / 16);
      backend.pack(of_gpu, from, 0, height, of_gpu.of_stack(e).data);
    }
  }
};

// Each row chooses some experts, one of them none.
Matrix random_gates(int64_t rows, const MoeAttr& attr, Random& random) {
  Matrix gates(rows, attr.experts);
  for (int64_t r = 0; r < rows; ++r) {
    std::fill_n(gates[r], attr.experts, 0.0F);
    for (int i = 0; i < attr.used && r != 2; ++i)
      gates[r][random.next() % static_cast<uint64_t>(attr.experts)] = 0.2F + 0.1F * float(i);
  }
  return gates;
}

void expect_same_mixture(const Case& c, int64_t rows) {
  constexpr int64_t kIn = 64, kHidden = 96, kOut = 35;
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(3);
  const MoeAttr& attr = c.attr;
  const Weights weights[] = {{*backend, c.type, attr.experts, kHidden, kIn, random},
                             {*backend, c.type, attr.experts, kHidden, kIn, random},
                             {*backend, c.type, attr.experts, kOut, kHidden, random}};
  const Matrix x = test::random_matrix(rows, kIn, random);
  const Matrix residual = test::random_matrix(rows, kOut, random);
  const Matrix gates = random_gates(rows, attr, random);
  std::vector<Matrix> biases;
  for (const Weights& w : weights)
    biases.push_back(test::random_matrix(1, int32_t(w.of_cpu.rows), random));
  Dispatch d;
  d.in[MoeIn::kX] = x.operand;
  d.in[MoeIn::kGates] = gates.operand;
  if (c.residual) d.in[MoeIn::kResidual] = residual.operand;
  for (size_t i = 0; i < 3; ++i) {
    d.in[MoeIn::kGate + i] = weights[i].of_cpu;
    if (c.biases) d.in[MoeIn::kGateBias + i] = biases[i].operand;
  }
  d.attr = attr;
  Matrix expected(rows, kOut), found(rows, kOut);
  test::run(op::kMoe, {d.in.begin(), d.in.end()}, expected.operand, attr,
            test::plain_slots(int32_t(rows)), {supported_targets().front(), 1});
  for (size_t i = 0; i < 3; ++i) d.in[MoeIn::kGate + i] = weights[i].of_gpu;
  d.out() = found.operand;
  run_on_gpu(*backend, op::kMoe, d, found, rows);
  test::expect_same_bits(expected, found, c.name);
}

TEST(GpuExperts, MixturesHaveTheBitsOfTheCpu) {
  const Case cases[] = {
      {"plain", DType::kQ8_0, {.experts = 5, .used = 2}},
      {"biases", DType::kQ4_0, {.experts = 7, .used = 3}, true, true},
      {"limits", DType::kQ4_1, {.experts = 4, .used = 2, .limit = 0.4F, .alpha = 1.702F}, true},
      {"gated input", DType::kBF16, {.experts = 6, .used = 1, .gate_input = true}, false, true},
      {"gelu", DType::kF32, {.experts = 3, .used = 3, .activation = Activation::kGelu}, true},
      {"alone", DType::kF16, {.experts = 1, .used = 1}},
  };
  // Pairs one by one, in small and in large groups.
  for (const Case& c : cases)
    for (const int64_t rows : {1, 9, 30, 70}) expect_same_mixture(c, rows);
}

}  // namespace
}  // namespace veery
