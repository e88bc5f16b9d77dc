// Attention of bf16 models by tensor cores, on the GPU emulator. It has its own order of sums,
// which is the same for rows of one tile and for single rows.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/kernel_runner.h"
#include "support/gpu_machine.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Batch;
using test::Matrix;

// A plan with attention and a bf16 product; the latter selects the tensor core kernels.
class Attention {
 public:
  explicit Attention(bool cores) : cores_(cores) {
    const Operand weight = backend_->weight({.dtype = DType::kBF16, .rows = 16, .cols = 16});
    weights_.resize(backend_->weight_bytes(weight) + 64);
    product_.in[FusedLinearIn::kX] = x_.operand;
    product_.in[FusedLinearIn::kWeight] = weight;
    product_.in[FusedLinearIn::kWeight].data =
        weights_.data() + (64 - reinterpret_cast<uintptr_t>(weights_.data()) % 64) % 64;
    product_.out() = y_.operand;
    product_.attr = FusedLinearAttr{};
  }
  void run(const std::vector<Operand>& in, const Operand& out, const AttendAttr& attr,
           RunShape shape) {
    Dispatch d;
    std::copy(in.begin(), in.end(), d.in.begin());
    d.out() = out;
    d.attr = attr;
    const std::vector<int32_t> numbers(static_cast<size_t>(shape.rows));
    shape.output_rows = numbers.data();
    std::vector<Step> steps{{op::kFusedLinear, product_}, {op::kAttend, d}};
    if (!cores_) steps.erase(steps.begin());
    std::vector<std::byte> work(1 << 16);
    for (Step& step : steps) {
      backend_->choose(step.op, step.dispatch, {});
      if (step.op == op::kFusedLinear) step.dispatch.work = work.data();
    }
    backend_
        ->lower(steps, {},
                {.shape = &shape, .groups = 1, .rows = shape.rows, .outputs = shape.rows})
        ->run(shape);
  }

 private:
  bool cores_;
  std::unique_ptr<Backend> backend_ = gpu::make_backend(gpu::make_emulator());
  std::vector<std::byte> weights_;
  Matrix x_{1, 16}, y_{1, 16};
  Dispatch product_;
};

struct Setting {
  const char* name;
  AttendAttr attr;
  int n, v;
  bool sinks = false;
  int positions = 300;
};
constexpr Setting kSettings[] = {
    {"64", {.heads = 4, .kv_heads = 2, .scale = 0.1F}, 64, 64},
    {"128 and a window", {.heads = 4, .kv_heads = 1, .scale = 0.1F, .window = 70}, 128, 128},
    {"chunks", {.heads = 3, .kv_heads = 3, .scale = 0.1F, .window = 96, .chunked = true}, 32, 32},
    {"two widths, sinks", {.heads = 6, .kv_heads = 2, .scale = 0.2F}, 80, 48, true},
    {"soft cap", {.heads = 5, .kv_heads = 1, .scale = 0.2F, .softcap = 3}, 64, 128},
    // After 16 KV blocks, segments have several blocks.
    {"long", {.heads = 2, .kv_heads = 2, .scale = 0.1F}, 32, 32, false, 2700},
};

class Scene {
 public:
  explicit Scene(const Setting& s)
      : s_(s),
        batch_(2, s.positions + 100),
        keys_(batch_, true, DType::kBF16, s.attr.kv_heads, s.n),
        values_(batch_, false, DType::kBF16, s.attr.kv_heads, s.v),
        sinks_(test::random_matrix(1, s.attr.heads, random_, 3)) {
    for (int sequence = 0; sequence < 2; ++sequence) {
      Batch fill = batch_.empty();
      fill.add(sequence, 0, s.positions);
      const Matrix k = test::random_matrix(s.positions, s.attr.kv_heads * s.n, random_);
      const Matrix v = test::random_matrix(s.positions, s.attr.kv_heads * s.v, random_);
      test::run(op::kCacheWrite, {k.operand, keys_.operand}, keys_.operand, {}, fill.shape());
      test::run(op::kCacheWrite, {v.operand, values_.operand}, values_.operand, {}, fill.shape());
    }
  }
  struct Row {
    int sequence, position;
  };
  // Runs rows whose queries depend only on their sequence and position. `cores`: tensor cores.
  Matrix run(const std::vector<Row>& rows, bool cores) {
    Batch batch = batch_.empty();
    Matrix q(std::ssize(rows), s_.attr.heads * s_.n, DType::kF32, 4);  // rows aligned as in plans
    for (size_t r = 0, end = 0; r < rows.size(); r = end) {
      for (end = r + 1; end < rows.size() && rows[end].sequence == rows[r].sequence &&
                        rows[end].position == rows[end - 1].position + 1;)
        ++end;
      batch.add(rows[r].sequence, rows[r].position, static_cast<int>(end - r));
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      Random random(static_cast<uint64_t>(10'000 * rows[r].sequence + rows[r].position));
      for (int i = 0; i < s_.attr.heads * s_.n; ++i)
        q[static_cast<int64_t>(r)][i] = 1.5F * random.normal();
    }
    Matrix y(std::ssize(rows), s_.attr.heads * s_.v, DType::kF32, 4);
    Operand in = q.operand, out = y.operand;
    in.rows = out.rows = kTokenRows;
    Attention(cores).run(
        {in, keys_.operand, values_.operand, s_.sinks ? sinks_.operand : Operand{}}, out, s_.attr,
        batch.shape());
    return y;
  }

 private:
  const Setting& s_;
  Random random_{11};
  Batch batch_;
  test::Cache keys_, values_;
  Matrix sinks_;
};

TEST(GpuCores, RowsOfAttentionHaveOneOrderHoweverTheyAreRun) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.n > 64) continue;
    Scene scene(s);
    std::vector<Scene::Row> rows;
    for (int i = 0; i < 37; ++i) rows.push_back({0, s.positions - 37 + i});
    const Matrix together = scene.run(rows, true), as_cpu = scene.run(rows, false);
    double apart = 0, length = 0;
    int differ = 0;
    for (int64_t r = 0; r < 37; ++r)
      for (int i = 0; i < s.attr.heads * s.v; ++i) {
        apart += std::pow(together[r][i] - as_cpu[r][i], 2);
        length += std::pow(as_cpu[r][i], 2);
        differ += together[r][i] != as_cpu[r][i] ? 1 : 0;
      }
    EXPECT_LE(std::sqrt(apart), 2e-3 * std::sqrt(length)) << s.name;
    EXPECT_GT(differ, 0) << s.name;  // otherwise tensor cores were not used
    // Single rows, pairs, and alternating rows of two sequences, which form no tile.
    const auto expect_rows = [&](const std::vector<Scene::Row>& some, const char* how) {
      const Matrix found = scene.run(some, true);
      for (size_t r = 0; r < some.size(); ++r) {
        if (some[r].sequence != 0) continue;
        const float* own = together[some[r].position - rows[0].position];
        for (int i = 0; i < s.attr.heads * s.v; ++i)
          ASSERT_EQ(found[static_cast<int64_t>(r)][i], own[i])
              << s.name << ", " << how << ", position " << some[r].position << ", " << i;
      }
    };
    for (const int i : {0, 1, 20, 36}) expect_rows({rows[static_cast<size_t>(i)]}, "alone");
    expect_rows({rows[5], rows[6]}, "two");
    std::vector<Scene::Row> mixed;
    for (int i = 0; i < 12; ++i) {
      mixed.push_back(rows[static_cast<size_t>(3 * i)]);
      mixed.push_back({1, 100 + 7 * i});
    }
    expect_rows(mixed, "mixed");
    expect_rows({rows.begin() + 9, rows.end()}, "another tile");
  }
}

}  // namespace
}  // namespace veery
