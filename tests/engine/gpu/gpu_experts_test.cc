// Routing, mixtures of experts and linears on the GPU emulator: the bits of the CPU for each
// attribute; for bf16 the order of docs/numerics.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dtype/affine.h"
#include "dtype/fp8.h"
#include "dtype/half.h"
#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "support/gpu_machine.h"
#include "support/near_rows.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Matrix;

// Runs an op on the emulator, whose memory is host memory. Outputs are NaN until written.
void run_on_gpu(const Backend& backend, Op op, Dispatch d, const Matrix& out, int64_t rows,
                bool exact = false) {
  const Kernel kernel = backend.choose(op, d, {.exact = exact});
  const size_t size = kernel.work != nullptr ? kernel.work(d, {rows, 1, 1}) : 0;
  test::AlignedBytes work(size);
  std::fill_n(work.data(), size, std::byte{0xff});
  d.work = work.data();
  d.out() = out.operand;
  test::Batch batch(1, kPagePositions);
  batch.add(0, 0, static_cast<int32_t>(rows));
  const std::vector<int32_t> numbers(static_cast<size_t>(rows));
  RunShape shape = batch.shape();
  shape.output_rows = numbers.data();
  const Step step{op, d};
  const auto table = const_cast<Backend&>(backend).lower(  // NOLINT
      {&step, 1}, {},
      {.shape = &shape, .groups = 1, .rows = rows, .outputs = rows, .exact = exact});
  table->run(shape);
}

void expect_same_route(const RouteAttr& attr, int32_t experts, bool biased, const char* what) {
  Random random(5);
  Matrix scores = test::random_matrix(9, experts, random, 2);
  for (int32_t e = 0; e < experts; ++e) scores[7][e] = float(e % 3);  // equal scores
  const Matrix bias = test::random_matrix(1, experts, random, 0.2F);
  Dispatch d;
  d.in[RouteIn::kScores] = scores.operand;
  if (biased) d.in[RouteIn::kBias] = bias.operand;
  d.attr = attr;
  Matrix expected(9, experts), found(9, experts);
  d.out() = expected.operand;
  const std::vector<Operand> in(d.in.begin(), d.in.begin() + 2);
  test::run(op::kRoute, in, expected.operand, attr, test::plain_shape(9));
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
              test::plain_shape(5), {supported_targets().front(), 1});
    d.out() = found.operand;
    run_on_gpu(*gpu::make_backend(gpu::make_emulator()), op::kLayerNorm, d, found, 5);
    test::expect_same_bits(expected, found);
  }
}

struct Case {
  const char* name;
  DType type;
  MoeAttr attr;
  bool biases = false, residual = false, ungated = false;
};

// Encodes values in the layout of a file. Affine groups (MLX) and FP8 have no encoder, so their
// bytes are random.
void store(DType type, std::span<const float> values, Random& random, std::span<std::byte> to) {
  if (!is_affine(type) && !is_fp8(type)) return encode(type, values, to);
  for (std::byte& byte : to) byte = static_cast<std::byte>(random.next() & 0x77);
  const auto block = static_cast<size_t>(info(type).bytes);
  for (size_t at = 0; at < to.size(); at += block) {
    const float scale = 0.001F * static_cast<float>(1 + random.next() % 30), bias = -2 * scale;
    std::byte* const first = to.data() + at;
    if (type == DType::kMXFP8) {
      *first = static_cast<std::byte>(118 + random.next() % 5);
    } else if (is_fp8(type) || affine_format(type).scale == DType::kF32) {
      std::memcpy(first, &scale, 4);
      if (!is_fp8(type)) std::memcpy(first + 4, &bias, 4);
    } else {
      const bool half = affine_format(type).scale == DType::kF16;
      const uint16_t pair[] = {half ? f32_to_f16(scale) : f32_to_bf16(scale),
                               half ? f32_to_f16(bias) : f32_to_bf16(bias)};
      std::memcpy(first, pair, 4);
    }
  }
}

// Weights in the layout of a file, packed for CPU and GPU.
struct Weights {
  std::vector<std::byte> stored, cpu, gpu;
  Operand of_cpu, of_gpu;

  Weights(const Backend& backend, DType type, int32_t stack, int64_t height, int64_t cols,
          Random& random) {
    std::vector<float> values(static_cast<size_t>(stack * height * cols));
    for (float& v : values) v = random.normal() / std::sqrt(static_cast<float>(cols));
    stored.resize(byte_size(type, std::ssize(values)));
    store(type, values, random, stored);
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

// Returns gates; each row chooses some experts, one row none.
Matrix random_gates(int64_t rows, const MoeAttr& attr, Random& random) {
  Matrix gates(rows, attr.experts);
  for (int64_t r = 0; r < rows; ++r) {
    std::fill_n(gates[r], attr.experts, 0.0F);
    for (int i = 0; i < attr.used && r != 2; ++i)
      gates[r][random.next() % static_cast<uint64_t>(attr.experts)] = 0.2F + 0.1F * float(i);
  }
  return gates;
}

// bf16: each row has the bits that it has alone, and is close to the CPU.
void expect_rows_alone(const Backend& backend, const Dispatch& d, const Matrix& expected,
                       const Matrix& found, const char* what) {
  const int64_t rows = found.operand.rows;
  const int32_t cols = found.operand.cols;
  for (int64_t r = 0; r < rows; ++r) {
    Dispatch alone = d;
    for (Operand& o : alone.in)
      if (o && o.layout == Layout::kRowMajor && o.rows == rows && o.rows > 1)
        o.data += r * o.stride, o.rows = 1;
    Matrix one(1, cols);
    alone.out() = one.operand;
    run_on_gpu(backend, alone.attr.get<MoeAttr>() != nullptr ? op::kMoe : op::kFusedLinear, alone,
               one, 1);
    double apart = 0, length = 0;
    for (int32_t i = 0; i < cols; ++i) {
      EXPECT_EQ(one[0][i], found[r][i]) << what << " row " << r << " of " << rows << ", " << i;
      apart += std::pow(found[r][i] - expected[r][i], 2);
      length += std::pow(expected[r][i], 2);
    }
    EXPECT_LE(std::sqrt(apart), test::kNear * std::sqrt(length)) << what << " row " << r;
  }
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
  const size_t first = c.ungated ? 1 : 0;
  for (size_t i = first; i < 3; ++i) {
    d.in[MoeIn::kGate + i] = weights[i].of_cpu;
    if (c.biases) d.in[MoeIn::kGateBias + i] = biases[i].operand;
  }
  d.attr = attr;
  Matrix expected(rows, kOut), found(rows, kOut);
  test::run(op::kMoe, {d.in.begin(), d.in.end()}, expected.operand, attr,
            test::plain_shape(int32_t(rows)), {supported_targets().front(), 1});
  for (size_t i = first; i < 3; ++i) d.in[MoeIn::kGate + i] = weights[i].of_gpu;
  d.out() = found.operand;
  run_on_gpu(*backend, op::kMoe, d, found, rows);
  if (c.type == DType::kBF16) return expect_rows_alone(*backend, d, expected, found, c.name);
  test::expect_same_bits(expected, found, c.name);
}

TEST(GpuExperts, MixturesHaveTheBitsOfTheCpu) {
  const Case cases[] = {
      {"plain", DType::kQ8_0, {.experts = 5, .used = 2}},
      {"biases", DType::kQ4_0, {.experts = 7, .used = 3}, true, true},
      {"limits", DType::kQ4_1, {.experts = 4, .used = 2, .limit = 0.4F, .alpha = 1.702F}, true},
      {"gated input", DType::kQ8_0, {.experts = 6, .used = 1, .gate_input = true}, false, true},
      {"bf16", DType::kBF16, {.experts = 5, .used = 2}, true, true},
      {"bf16, gated input", DType::kBF16, {.experts = 6, .used = 1, .gate_input = true}},
      {"gelu", DType::kF32, {.experts = 3, .used = 3, .activation = Activation::kGelu}, true},
      {"ungated",
       DType::kQ8_0,
       {.experts = 5, .used = 2, .activation = Activation::kReluSquared},
       true,
       true,
       true},
      {"ungated, gated input",
       DType::kQ4_0,
       {.experts = 4, .used = 2, .activation = Activation::kGelu, .gate_input = true},
       true,
       false,
       true},
      {"ungated, bf16",
       DType::kBF16,
       {.experts = 5, .used = 2, .activation = Activation::kReluSquared},
       false,
       false,
       true},
      {"ungated, f32", DType::kF32, {.experts = 3, .used = 2}, true, false, true},
      {"alone", DType::kF16, {.experts = 1, .used = 1}},
      {"mxfp4", DType::kMXFP4, {.experts = 5, .used = 2, .limit = 7, .alpha = 1.702F}, true},
      {"4 bits of MLX", affine_type({4, 32, DType::kBF16}), {.experts = 5, .used = 2}},
      {"6 bits of MLX", affine_type({6, 32, DType::kF32}), {.experts = 3, .used = 2}},
      {"fp8", DType::kFP8_32, {.experts = 4, .used = 2}},
  };
  // Single pairs, small groups and large groups.
  for (const Case& c : cases)
    for (const int64_t rows : {1, 9, 30, 70}) expect_same_mixture(c, rows);
}

// Returns a bf16 output as defined by docs/numerics.md: pieces of 256 columns, steps of 16. Within
// a step the emulator adds in double, in the column order of the lanes.
float bf16_product(const float* x, const uint16_t* w, int64_t cols) {
  float y = 0;
  for (int64_t first = 0; first < cols; first += 256) {
    float piece = 0;
    for (int64_t k = first; k < std::min(cols, first + 256); k += 16) {
      double step = piece;
      for (const int64_t half : {0, 2})
        for (int64_t four = 0; four < 16; four += 4)
          for (int64_t at = k + four + half; at < k + four + half + 2; ++at)
            if (at < cols) step += double{bf16_to_f32(f32_to_bf16(x[at]))} * bf16_to_f32(w[at]);
      piece = static_cast<float>(step);
    }
    y += piece;
  }
  return y;
}

// One row, and rows in small and in large tiles. The last unit, the last K tile and the last piece
// of 256 columns are incomplete. The CPU accumulates in another order. With n roundings, an output
// of either side has an error of up to n 2^-24 times the sum of the magnitudes of its products.
TEST(GpuLinear, Bf16HasAnOrderOfItsOwn) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(6);
  constexpr int64_t kOut = 150;
  for (const int64_t cols : {24, 256, 304, 1088}) {
    const Weights weight(*backend, DType::kBF16, 1, kOut, cols, random);
    const auto* stored = reinterpret_cast<const uint16_t*>(weight.stored.data());
    for (const int64_t rows : {1, 3, 20, 140}) {
      const Matrix x = test::random_matrix(rows, int32_t(cols), random);
      const Matrix bias = test::random_matrix(1, kOut, random);
      const Matrix residual = test::random_matrix(rows, kOut, random);
      Dispatch d;
      d.in[FusedLinearIn::kX] = x.operand;
      d.in[FusedLinearIn::kWeight] = weight.of_cpu;
      d.in[FusedLinearIn::kBias] = bias.operand;
      d.in[FusedLinearIn::kResidual] = residual.operand;
      // The output head requests high precision, but bf16 has no residual quantisation.
      d.attr = FusedLinearAttr{.precision = rows == 3 ? Precision::kHigh : Precision::kUsual};
      Matrix of_cpu(rows, kOut), expected(rows, kOut), found(rows, kOut);
      test::run(op::kFusedLinear, {d.in.begin(), d.in.end()}, of_cpu.operand, d.attr,
                test::plain_shape(int32_t(rows)), {supported_targets().front(), 1});
      d.in[FusedLinearIn::kWeight] = weight.of_gpu;
      d.out() = found.operand;
      run_on_gpu(*backend, op::kFusedLinear, d, found, rows);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t n = 0; n < kOut; ++n) {
          const uint16_t* w = stored + n * cols;
          expected[r][n] = bf16_product(x[r], w, cols) + bias[0][n] + residual[r][n];
          double magnitudes = std::abs(bias[0][n]) + std::abs(residual[r][n]);
          for (int64_t k = 0; k < cols; ++k)
            magnitudes += std::abs(double{x[r][k]} * bf16_to_f32(w[k]));
          ASSERT_NEAR(found[r][n], of_cpu[r][n], 2 * double(cols + 2) * 0x1p-24 * magnitudes);
        }
      test::expect_same_bits(expected, found, fmt::format("{} x {}", rows, cols).c_str());
    }
    Matrix ids = test::indices({3, 149, 17, 18});
    Dispatch d;
    d.in[EmbedIn::kIds] = ids.operand;
    d.in[EmbedIn::kWeight] = weight.of_gpu;
    d.attr = ScaleAttr{1};
    Matrix found(4, int32_t(cols));
    d.out() = found.operand;
    run_on_gpu(*backend, op::kEmbed, d, found, 4);
    for (int64_t k = 0; k < cols; ++k)
      EXPECT_EQ(found[1][k], bf16_to_f32(stored[149 * cols + k])) << k;
  }
}

// With a norm, with several weights, with a gate: the epilogue is the same for all weight types.
TEST(GpuLinear, RowsOfBf16AreThoseThatTheyAreAlone) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(7);
  constexpr int64_t kIn = 336, kOut = 75;
  std::vector<Weights> weights;
  for (int i = 0; i < 3; ++i) weights.emplace_back(*backend, DType::kBF16, 1, kOut, kIn, random);
  for (const int count : {2, 3})
    for (const bool normed : {false, true})
      for (const int64_t rows : {1, 3, 20, 140}) {
        Matrix x = test::random_matrix(rows, kIn, random);
        Matrix norm = test::random_matrix(1, kIn, random);
        const int64_t made = count == 2 ? kOut : 3 * kOut;
        Dispatch d;
        d.in[FusedLinearIn::kX] = x.operand;
        if (normed) d.in[FusedLinearIn::kNorm] = norm.operand;
        for (int i = 0; i < count; ++i) d.in[FusedLinearIn::kWeight + i] = weights[i].of_cpu;
        FusedLinearAttr attr{.weights = static_cast<uint8_t>(count), .eps = 1e-5F};
        if (count == 2) attr.gate = Activation::kSilu;
        d.attr = attr;
        Matrix expected(rows, int32_t(made)), found(rows, int32_t(made));
        test::run(op::kFusedLinear, {d.in.begin(), d.in.end()}, expected.operand, d.attr,
                  test::plain_shape(int32_t(rows)), {supported_targets().front(), 1});
        for (int i = 0; i < count; ++i) d.in[FusedLinearIn::kWeight + i] = weights[i].of_gpu;
        d.out() = found.operand;
        run_on_gpu(*backend, op::kFusedLinear, d, found, rows);
        expect_rows_alone(*backend, d, expected, found,
                          fmt::format("{} weights, norm {}", count, normed).c_str());
      }
}

// Tiles by wgmma, with incomplete pieces, K tiles and weight tiles; the last tiles have no outputs.
// 7 runs of 20 rows use other kernels.
TEST(GpuLinear, TilesOfBf16HaveTheBitsOfFewRows) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(9);
  constexpr int64_t kRows = 140, kOut = 410;
  for (const int64_t cols : {48, 336, 912}) {
    std::vector<Weights> weights;
    for (int i = 0; i < 2; ++i) weights.emplace_back(*backend, DType::kBF16, 1, kOut, cols, random);
    const Matrix bias = test::random_matrix(1, kOut, random);
    for (const auto& [count, gate] :
         {std::pair(1, Activation::kNone), std::pair(2, Activation::kSilu),
          std::pair(2, Activation::kNone)}) {
      const auto made =
          static_cast<int32_t>(count == 2 && gate == Activation::kNone ? 2 * kOut : kOut);
      Matrix x = test::random_matrix(kRows, int32_t(cols), random);
      Matrix residual = test::random_matrix(kRows, made, random);
      const auto run = [&](int64_t first, int64_t rows) {
        Dispatch d;
        d.in[FusedLinearIn::kX] = x.operand;
        d.in[FusedLinearIn::kResidual] = residual.operand;
        for (Operand* o : {&d.in[FusedLinearIn::kX], &d.in[FusedLinearIn::kResidual]})
          o->data += first * o->stride, o->rows = rows;
        for (int i = 0; i < count; ++i)
          d.in[FusedLinearIn::kWeight + i] = weights[size_t(i)].of_gpu;
        d.in[FusedLinearIn::kBias] = bias.operand;
        d.attr = FusedLinearAttr{.weights = static_cast<uint8_t>(count), .gate = gate};
        Matrix out(rows, made);
        d.out() = out.operand;
        run_on_gpu(*backend, op::kFusedLinear, d, out, rows);
        return out;
      };
      const Matrix all = run(0, kRows);
      for (int64_t first = 0; first < kRows; first += 20) {
        const Matrix some = run(first, 20);
        for (int64_t r = 0; r < 20; ++r)
          for (int32_t i = 0; i < made; ++i)
            ASSERT_EQ(all[first + r][i], some[r][i])
                << cols << " " << count << " " << first + r << " " << i;
      }
    }
  }
}

void expect_bits_of_cpu(Backend& backend, const Weights& weight, const Matrix& x,
                        bool exact = false) {
  const int64_t rows = x.operand.rows;
  const auto height = int32_t(weight.of_cpu.rows);
  Dispatch d;
  d.in[FusedLinearIn::kX] = x.operand;
  d.in[FusedLinearIn::kWeight] = weight.of_cpu;
  d.attr = FusedLinearAttr{};
  Matrix expected(rows, height), found(rows, height);
  test::run(op::kFusedLinear, {d.in.begin(), d.in.end()}, expected.operand, d.attr,
            test::plain_shape(int32_t(rows)), {supported_targets().front(), 1, exact});
  d.in[FusedLinearIn::kWeight] = weight.of_gpu;
  d.out() = found.operand;
  run_on_gpu(backend, op::kFusedLinear, d, found, rows, exact);
  const std::string what = fmt::format("{}, {} rows of {}, exact {}",
                                       info(weight.of_cpu.dtype).name, rows, x.operand.cols, exact);
  test::expect_same_bits(expected, found, what.c_str());
}

// Creates blocks that are outlier blocks of all rows, of one row, and of some rows, and one row
// with more outlier blocks than outlier_limit(); more blocks than a tile processes at a time.
void add_outliers(Matrix& x, int64_t rows, int64_t blocks, Random& random) {
  for (int64_t r = 0; r < rows; ++r) {
    x[r][40] = 90;
    for (int64_t b = 0; b < blocks; ++b) {
      const bool is = r == 5 ? b % 3 == 0 : random.next() % 20 == 0;
      if (is) x[r][32 * b + random.next() % 32] = 40 + 60 * random.uniform();
    }
  }
  x[rows - 1][32 * (blocks - 1)] = 70;
}
TEST(GpuLinear, OutliersOfManyRowsHaveTheBitsOfTheCpu) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(11);
  constexpr int64_t kBlocks = 130, kOut = 150;
  for (const DType type :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_1, DType::kMXFP4, DType::kNVFP4}) {
    if (test::kSanitized && type != DType::kQ8_0 && type != DType::kQ4_1) continue;
    const Weights weight(*backend, type, 1, kOut, 32 * kBlocks, random);
    for (const int64_t rows : {1, 12, 20, 70}) {
      Matrix x = test::random_matrix(rows, 32 * kBlocks, random);
      add_outliers(x, rows, kBlocks, random);
      expect_bits_of_cpu(*backend, weight, x);
    }
  }
}

// Single rows, small and large tiles, and gathered rows.
TEST(GpuLinear, WeightsOfOtherFilesHaveTheBitsOfTheCpu) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(4);
  constexpr int64_t kIn = 256, kOut = 150;
  for (const DType type :
       {DType::kMXFP4, affine_type({2, 64, DType::kF16}), affine_type({4, 128, DType::kBF16}),
        affine_type({5, 64, DType::kF32}), affine_type({8, 32, DType::kF16}), DType::kMXFP8,
        DType::kFP8_32, DType::kFP8_128}) {
    const Weights weight(*backend, type, 1, kOut, kIn, random);
    for (const int64_t rows : {1, 3, 70}) {
      Matrix x = test::random_matrix(rows, kIn, random);
      for (int64_t r = 0; r < rows; ++r) x[r][40] = 30;  // an outlier of its block
      for (const bool exact : {false, true}) expect_bits_of_cpu(*backend, weight, x, exact);
    }
    Matrix ids = test::indices({3, 149, 17, 18});
    Dispatch d;
    d.in[EmbedIn::kIds] = ids.operand;
    d.in[EmbedIn::kWeight] = weight.of_gpu;
    d.attr = ScaleAttr{0.5F};
    Matrix expected(4, kIn), found(4, kIn);
    test::run(op::kEmbed, {ids.operand, weight.of_cpu}, expected.operand, d.attr,
              test::plain_shape(4), {supported_targets().front(), 1});
    d.out() = found.operand;
    run_on_gpu(*backend, op::kEmbed, d, found, 4);
    test::expect_same_bits(expected, found, std::string(info(type).name).c_str());
  }
}

// Floats in any number of columns: stages that are full or not (GemmExactSmem), the last four
// columns incomplete, subnormal numbers.
TEST(GpuLinear, FloatsOfAnyWidthHaveTheBitsOfTheCpu) {
  const auto backend = gpu::make_backend(gpu::make_emulator());
  Random random(21);
  constexpr int64_t kOut = 43;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16})
    for (const int64_t cols : {1, 6, 33, 70, 128, 259, 1090}) {
      const Weights weight(*backend, type, 1, kOut, cols, random);
      for (const int64_t rows : {1, 5, 9, 20}) {
        Matrix x = test::random_matrix(rows, cols, random);
        for (int64_t k = 0; k < cols; k += 3) x[rows / 2][k] *= 1e-38F;
        for (const bool exact : {false, true})
          if (exact || type != DType::kBF16) expect_bits_of_cpu(*backend, weight, x, exact);
      }
    }
}

// Thread blocks quantise one, two, four and eight rows, with and without a norm, with and without
// residual quantisation. The last K tile is incomplete, and there are more columns than a block
// processes at a time. Rows and norm weights are unaligned, or do not fit into shared memory.
TEST(GpuLinear, QuantisedRowsDoNotDependOnTheWorkSplit) {
  Random random(12);
  constexpr int32_t kRows = 41, kOut = 20;
  const auto own = gpu::make_backend(gpu::make_emulator());
  for (const auto& [type, cols] :
       {std::pair(DType::kQ8_0, 1184), std::pair(DType::kQ8_0, 3072), std::pair(DType::kQ4_K, 1024),
        std::pair(DType::kQ4_K, 8448), std::pair(DType::kQ6_K, 2304), std::pair(DType::kBF16, 1168),
        std::pair(DType::kBF16, 3072)}) {
    if (test::kSanitized && cols > 3072) continue;
    const Weights weight(*own, type, 1, kOut, cols, random);
    for (const bool normed : {false, true})
      for (const bool shifted : {false, true}) {
        Matrix x = test::random_matrix(kRows, cols + 1, random);
        for (int r = 0; r < kRows; ++r)
          for (int i = 0; i < r % 7; ++i) x[r][(r * 131 + i * 97) % cols] = 20;  // outliers
        Matrix norm = test::random_matrix(1, cols + 1, random);
        Dispatch d;
        d.in[FusedLinearIn::kX] = x.operand;
        if (normed) d.in[FusedLinearIn::kNorm] = norm.operand;
        for (Operand* o : {&d.in[FusedLinearIn::kX], &d.in[FusedLinearIn::kNorm]}) {
          if (o->data == nullptr) continue;
          o->cols = cols;
          if (shifted) o->data += sizeof(float);
        }
        for (const Precision precision : {Precision::kUsual, Precision::kHigh}) {
          d.attr = FusedLinearAttr{.eps = 1e-5F, .precision = precision};
          Matrix expected(kRows, kOut);
          d.in[FusedLinearIn::kWeight] = weight.of_cpu;
          if (type != DType::kBF16)
            test::run(op::kFusedLinear, {d.in.begin(), d.in.end()}, expected.operand, d.attr,
                      test::plain_shape(kRows), {supported_targets().front(), 1});
          d.in[FusedLinearIn::kWeight] = weight.of_gpu;
          bool first = type == DType::kBF16;  // bf16 has another order than the CPU
          for (const auto& [sm_count, room] :
               {std::pair(64, 227), std::pair(12, 227), std::pair(6, 227), std::pair(2, 227),
                std::pair(64, 48)}) {
            const auto backend = gpu::make_backend(gpu::make_emulator(room << 10, sm_count));
            Matrix found(kRows, kOut);
            d.out() = found.operand;
            run_on_gpu(*backend, op::kFusedLinear, d, found, kRows);
            if (std::exchange(first, false)) expected = found;
            test::expect_same_bits(
                expected, found,
                fmt::format("{} {} norm {} shifted {} of {} SMs, {} KB", info(type).name, cols,
                            normed, shifted, sm_count, room)
                    .c_str());
          }
        }
      }
  }
}

}  // namespace
}  // namespace veery
