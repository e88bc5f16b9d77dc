// Attention variants on the GPU emulator, with the bits of the CPU: wide heads, latent attention,
// q8_0 caches, caches of two types, masks, rows of the run.
#include <gtest/gtest.h>

#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Batch;
using test::Matrix;

// Runs one op on the emulator, whose memory is host memory.
void run_on(Backend& backend, Op op, const std::vector<Operand>& in,
            const std::vector<Operand>& outputs, const Attr& attr, RunShape shape, bool exact) {
  Dispatch d;
  std::copy(in.begin(), in.end(), d.in.begin());
  std::copy(outputs.begin(), outputs.end(), d.outputs.begin());
  d.attr = attr;
  backend.choose(op, d, {.exact = exact});
  const std::vector<int32_t> numbers(static_cast<size_t>(shape.rows));
  shape.output_rows = numbers.data();
  const Step step{op, d};
  const auto table = backend.lower(
      {&step, 1}, {},
      {.shape = &shape, .groups = 1, .rows = shape.rows, .outputs = shape.rows, .exact = exact});
  table->run(shape);
}

using RunOp = void (*)(Op, const std::vector<Operand>&, const std::vector<Operand>& outputs,
                       const Attr&, const RunShape&, bool exact);
void gpu_run(Op op, const std::vector<Operand>& in, const std::vector<Operand>& outputs,
             const Attr& attr, const RunShape& shape, bool exact) {
  static const auto backend = gpu::make_backend(gpu::make_emulator());
  run_on(*backend, op, in, outputs, attr, shape, exact);
}
void metal_run(Op op, const std::vector<Operand>& in, const std::vector<Operand>& outputs,
               const Attr& attr, const RunShape& shape, bool exact) {
  metal::FakeGpu gpu;
  const auto backend = metal::make_fake_backend(gpu);
  run_on(*backend, op, in, outputs, attr, shape, exact);
  EXPECT_EQ(gpu.faults, "");
}
void cpu_run(Op op, const std::vector<Operand>& in, const std::vector<Operand>& outputs,
             const Attr& attr, const RunShape& shape, bool exact) {
  test::run_all(op, in, outputs, attr, shape, {supported_targets().front(), 1, exact});
}

struct Setting {
  const char* name;
  AttendAttr attr;
  int n;
  DType keys, values;
  int v = 0;  ///< 0: n
  bool sinks = false, exact = false;
};
const Setting kSettings[] = {
    {"plain", {.heads = 4, .kv_heads = 2, .scale = 0.125F}, 64, DType::kF16, DType::kF16},
    {"plain bf16",
     {.heads = 4, .kv_heads = 1, .scale = 0.1F, .window = 100},
     32,
     DType::kBF16,
     DType::kBF16,
     0,
     true},
    {"wide", {.heads = 4, .kv_heads = 2, .scale = 0.05F}, 512, DType::kBF16, DType::kBF16},
    {"wide f16",
     {.heads = 3, .kv_heads = 1, .scale = 0.05F, .window = 100, .softcap = 5},
     320,
     DType::kF16,
     DType::kF16},
    {"latent",
     {.heads = 10, .kv_heads = 1, .scale = 0.05F, .shared = 512},
     576,
     DType::kBF16,
     DType::kBF16,
     512},
    {"latent f32",
     {.heads = 3, .kv_heads = 1, .scale = 0.1F, .shared = 48},
     64,
     DType::kF32,
     DType::kF32,
     48},
    {"latent q8",
     {.heads = 3, .kv_heads = 1, .scale = 0.1F, .shared = 64},
     96,
     DType::kQ8_0,
     DType::kQ8_0,
     64},
    {"q8", {.heads = 6, .kv_heads = 3, .scale = 0.125F}, 96, DType::kQ8_0, DType::kQ8_0},
    {"q8 keys",
     {.heads = 5, .kv_heads = 1, .scale = 0.2F, .window = 70},
     32,
     DType::kQ8_0,
     DType::kBF16},
    {"q8 values",
     {.heads = 2, .kv_heads = 2, .scale = 0.1F, .softcap = 5},
     64,
     DType::kBF16,
     DType::kQ8_0,
     0,
     true},
    {"two types", {.heads = 2, .kv_heads = 1, .scale = 0.1F}, 32, DType::kF16, DType::kBF16},
    {"two types of floats",
     {.heads = 2, .kv_heads = 1, .scale = 0.1F},
     48,
     DType::kF32,
     DType::kF16,
     80},
    {"alibi",
     {.heads = 5, .kv_heads = 5, .scale = 0.1F, .alibi = 8},
     16,
     DType::kBF16,
     DType::kBF16},
    {"full",
     {.heads = 2, .kv_heads = 1, .scale = 0.1F, .mask = Mask::kFull},
     32,
     DType::kF16,
     DType::kF16},
    {"symmetric",
     {.heads = 2, .kv_heads = 1, .scale = 0.1F, .window = 20, .mask = Mask::kSymmetric},
     32,
     DType::kBF16,
     DType::kBF16},
    {"exact",
     {.heads = 2, .kv_heads = 1, .scale = 0.1F},
     32,
     DType::kBF16,
     DType::kBF16,
     0,
     false,
     true},
    {"uneven",
     {.heads = 3, .kv_heads = 1, .scale = 0.1F, .softcap = 3},
     20,
     DType::kBF16,
     DType::kBF16,
     12,
     true},
    {"uneven alibi",
     {.heads = 3, .kv_heads = 3, .scale = 0.1F, .window = 30, .alibi = 4},
     10,
     DType::kF32,
     DType::kF16},
};

// Sequences whose KV caches the CPU has written, and rows of them.
class Scene {
 public:
  explicit Scene(const Setting& s)
      : s_(s),
        v_(s.v > 0 ? s.v : s.n),
        batch_(3, 512),
        keys_(batch_, true, s.keys, s.attr.kv_heads, s.n),
        values_(batch_, false, s.values, s.attr.kv_heads, v_) {
    for (int sequence = 0; sequence < 3; ++sequence) {
      Batch fill = batch_.empty();
      fill.add(sequence, 0, 300);
      const Matrix k = test::random_matrix(300, s.attr.kv_heads * s.n, random_);
      const Matrix v = test::random_matrix(300, s.attr.kv_heads * v_, random_);
      test::run(op::kCacheWrite, {k.operand, keys_.operand}, keys_.operand, {}, fill.shape());
      test::run(op::kCacheWrite, {v.operand, values_.operand}, values_.operand, {}, fill.shape());
    }
    sinks_ = test::random_matrix(1, s.attr.heads, random_, 3);
  }
  /// With `log_sums`, also compares the log-sum-exp.
  void expect_same(const std::vector<Span>& parts, RunOp own = gpu_run, bool log_sums = false) {
    Batch rows = batch_.empty();
    for (const Span& part : parts) rows.add(part.sequence, part.position, part.rows);
    const int64_t count = rows.shape().rows;
    Matrix q = test::random_matrix(count, s_.attr.heads * s_.n, random_, 1.5F);
    const auto results = [&](RunOp run) {
      std::vector<Matrix> all = {Matrix(count, s_.attr.heads * v_), Matrix(count, s_.attr.heads)};
      if (!log_sums) all.pop_back();
      Operand in = q.operand;
      in.rows = kTokenRows;
      std::vector<Operand> outputs;
      for (const Matrix& m : all) outputs.emplace_back(m.operand).rows = kTokenRows;
      const Operand& values = s_.attr.shared > 0 ? keys_.operand : values_.operand;
      run(op::kAttend, {in, keys_.operand, values, s_.sinks ? sinks_.operand : Operand{}}, outputs,
          s_.attr, rows.shape(), s_.exact);
      return all;
    };
    const std::vector<Matrix> expected = results(cpu_run), found = results(own);
    for (size_t i = 0; i < found.size(); ++i)
      test::expect_same_bits(expected[i], found[i], s_.name);
  }

 private:
  const Setting& s_;
  int v_;
  Random random_{11};
  Batch batch_;
  test::Cache keys_, values_;
  Matrix sinks_{1, 1};
};

TEST(GpuAttend, EverySettingHasTheBitsOfTheCpu) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.n > 100) continue;
    Scene scene(s);
    scene.expect_same({{0, 0, 1, 299}, {1, 0, 2, 128}});
    scene.expect_same({{2, 0, 5, 250}, {0, 0, 1, 0}, {1, 0, 3, 140}});
  }
}

TEST(MetalAttend, EverySettingHasTheBitsOfTheCpu) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.n > 100) continue;
    Scene scene(s);
    scene.expect_same({{0, 0, 1, 299}, {1, 0, 2, 128}}, metal_run);
    scene.expect_same({{2, 0, 4, 150}, {0, 0, 1, 0}}, metal_run);
  }
}

TEST(GpuAttend, LogSumsHaveTheBitsOfTheCpu) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.n > 100) continue;
    for (const RunOp own : {gpu_run, metal_run}) {
      Scene(s).expect_same({{0, 0, 1, 299}, {1, 0, 2, 128}}, own, true);
      Scene(s).expect_same({{2, 0, 4, 150}, {0, 0, 1, 0}}, own, true);
    }
  }
}

// Keys and values are rows of the run, with spans of any length.
void expect_same_of_rows(RunOp own) {
  const Setting settings[] = {
      {"full", {.heads = 4, .kv_heads = 4, .scale = 0.2F, .mask = Mask::kFull}, 32},
      {"uneven",
       {.heads = 6, .kv_heads = 3, .scale = 0.1F, .softcap = 3, .mask = Mask::kFull},
       20,
       DType::kF32,
       DType::kF32,
       22,
       true},
      {"symmetric",
       {.heads = 2,
        .kv_heads = 1,
        .scale = 0.1F,
        .window = 5,
        .alibi = 8,
        .mask = Mask::kSymmetric},
       22,
       DType::kF32,
       DType::kF32,
       7},
      {"causal", {.heads = 3, .kv_heads = 1, .scale = 0.1F, .window = 40}, 12},
  };
  for (const Setting& s : settings) {
    const int v = s.v > 0 ? s.v : s.n;
    Batch batch(4, 512);
    batch.add(0, 0, 17);
    batch.add(1, 0, 150);
    batch.add(2, 61, 9);
    batch.add(3, 0, 1);
    Random random(5);
    const int64_t rows = batch.shape().rows;
    const Matrix q = test::random_matrix(rows, s.attr.heads * s.n, random, 1.5F);
    const Matrix k = test::random_matrix(rows, s.attr.kv_heads * s.n, random);
    const Matrix values = test::random_matrix(rows, s.attr.kv_heads * v, random);
    const Matrix sinks = test::random_matrix(1, s.attr.heads, random, 3);
    const auto results = [&](RunOp run) {
      std::pair<Matrix, Matrix> all(Matrix(rows, s.attr.heads * v), Matrix(rows, s.attr.heads));
      const auto of = [](const Matrix& m) {
        Operand o = m.operand;
        o.rows = kTokenRows;
        return o;
      };
      run(op::kAttend, {of(q), of(k), of(values), s.sinks ? sinks.operand : Operand{}},
          {of(all.first), of(all.second)}, s.attr, batch.shape(), false);
      return all;
    };
    const auto expected = results(cpu_run), found = results(own);
    test::expect_same_bits(expected.first, found.first, s.name);
    test::expect_same_bits(expected.second, found.second, s.name);
  }
}
TEST(GpuAttend, RowsOfTheRunHaveTheBitsOfTheCpu) { expect_same_of_rows(gpu_run); }
TEST(MetalAttend, RowsOfTheRunHaveTheBitsOfTheCpu) { expect_same_of_rows(metal_run); }

// Cache writes store the bytes of the CPU, also for q8_0 and for numbers that are not finite.
TEST(GpuCache, HoldsTheBytesOfTheCpu) {
  for (const DType type : {DType::kQ8_0, DType::kBF16, DType::kF16, DType::kF32}) {
    for (const bool keys : {true, false}) {
      constexpr int kHeads = 2, kDim = 64, kCount = 20;
      Batch batch(1, 256);
      batch.add(0, 7, kCount);
      Random random(2);
      Matrix x = test::random_matrix(kCount, kHeads * kDim, random);
      std::fill_n(x[3], kDim, 0.0F);
      x.operand.rows = kTokenRows;
      const auto bytes = [&](RunOp run) {
        test::Cache cache(batch, keys, type, kHeads, kDim);
        std::fill_n(cache.operand.data, cache.operand.stride, std::byte{0});
        run(op::kCacheWrite, {x.operand, cache.operand}, {cache.operand}, {}, batch.shape(), false);
        return std::vector<std::byte>(cache.operand.data,
                                      cache.operand.data + cache.operand.stride);
      };
      EXPECT_EQ(bytes(gpu_run), bytes(cpu_run)) << info(type).name << keys;
      EXPECT_EQ(bytes(metal_run), bytes(cpu_run)) << info(type).name << keys;
    }
  }
}

}  // namespace
}  // namespace veery
