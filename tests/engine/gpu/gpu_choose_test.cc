// The choice of positions, and attention to chosen positions, on the GPU emulator with the CUDA and
// the Metal kernels: the choice and the bits of the CPU.
#include <gtest/gtest.h>

#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "support/run_on_gpu.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Batch;
using test::Matrix;
using GpuChoose = test::EachGpuDialect;
INSTANTIATE_TEST_SUITE_P(Each, GpuChoose, test::gpu_dialects(), test::dialect_name);

// kFew: inputs have few distinct values, so that many scores are equal.
enum class Numbers { kAny, kFew };
Matrix matrix_of(Numbers numbers, int64_t rows, int32_t cols, Random& random) {
  if (numbers == Numbers::kAny) return test::random_matrix(rows, cols, random);
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int32_t c = 0; c < cols; ++c) m[r][c] = static_cast<float>(random.next() % 3) - 1;
  return m;
}

struct Setting {
  const char* name;
  DType type;
  int heads, n, used;
  Numbers numbers = Numbers::kAny;
};
const Setting kSettings[] = {
    {"bf16", DType::kBF16, 9, 32, 64},
    {"f16, few numbers", DType::kF16, 3, 16, 100, Numbers::kFew},
    {"f32, more than a warp has", DType::kF32, 2, 48, 300},
    {"q8_0", DType::kQ8_0, 5, 64, 64},
    {"no multiple of 16", DType::kBF16, 6, 12, 11},
    {"no multiple of 16, few numbers", DType::kF32, 2, 20, 64, Numbers::kFew},
    {"no multiple of 4", DType::kF32, 3, 10, 40},
    {"one", DType::kF32, 4, 16, 1},
};

// Two sequences of 600 positions, and some of their rows.
class Scene {
 public:
  Scene(const Setting& s, const std::vector<Span>& parts)
      : s_(s), batch_(2, 700), keys_(batch_, true, s.type, 1, s.n), attr_{s.heads, s.used, 0.25F} {
    for (int sequence = 0; sequence < 2; ++sequence) {
      Batch fill = batch_.empty();
      fill.add(sequence, 0, 600);
      const Matrix k = matrix_of(s.numbers, 600, s.n, random_);
      test::run(op::kCacheWrite, {k.operand, keys_.operand}, keys_.operand, {}, fill.shape());
    }
    for (const Span& part : parts) batch_.add(part.sequence, part.position, part.rows);
    q_ = matrix_of(s.numbers, rows(), s.heads * s.n, random_);
    weights_ = matrix_of(s.numbers, rows(), s.heads, random_);
  }
  int64_t rows() const { return batch_.shape().rows; }

  template <typename RunOp>
  std::vector<int32_t> choose(const RunOp& run_op) {
    Matrix out(rows(), s_.used);
    Operand q = q_.operand, weights = weights_.operand, to = out.operand;
    to.dtype = DType::kI32;
    q.rows = weights.rows = to.rows = kTokenRows;
    run_op(op::kChoosePositions, {q, weights, keys_.operand}, to, attr_, batch_.shape());
    const auto* chosen = to.row<int32_t>(0);
    return {chosen, chosen + rows() * s_.used};
  }

 private:
  Setting s_;
  Random random_{5};
  Batch batch_;
  test::Cache keys_;
  ChooseAttr attr_;
  Matrix q_{1, 1}, weights_{1, 1};
};

void run_on_cpu(Op op, const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                const RunShape& shape) {
  test::run(op, in, out, attr, shape, {supported_targets().front(), 1});
}

// Rows that see fewer positions than are chosen, equally many, and more; more rows than a launch
// has.
TEST_P(GpuChoose, ChoosesWhatTheCpuDoes) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.type != DType::kF32) continue;
    const int32_t used = s.used;
    for (const std::vector<Span>& parts :
         {std::vector<Span>{{0, 0, 1, 599}}, std::vector<Span>{{1, 0, 3, used - 2}, {0, 0, 2, 127}},
          std::vector<Span>{{0, 0, 30, 300}, {1, 0, 1, 0}, {1, 0, 10, 590}}}) {
      if (parts[0].position < 0) continue;
      Scene scene(s, parts);
      EXPECT_EQ(scene.choose(GetParam().run), scene.choose(run_on_cpu)) << s.name;
    }
  }
}

struct Attention {
  const char* name;
  AttendAttr attr;
  int n;
  DType type;
};
const Attention kAttention[] = {
    {"bf16", {.heads = 10, .kv_heads = 1, .scale = 0.05F, .shared = 64}, 80, DType::kBF16},
    {"q8_0", {.heads = 3, .kv_heads = 1, .scale = 0.1F, .shared = 32}, 64, DType::kQ8_0},
    {"f32, wide", {.heads = 2, .kv_heads = 1, .scale = 0.1F, .shared = 512}, 576, DType::kF32},
    {"no multiple of 16",
     {.heads = 3, .kv_heads = 1, .scale = 0.1F, .shared = 20},
     28,
     DType::kF32},
};

// Lists of 150 positions, which are two blocks, for rows that see fewer and more positions.
TEST_P(GpuChoose, AttentionToThemHasTheBitsOfTheCpu) {
  constexpr int kUsed = 150;
  for (const Attention& s : kAttention) {
    if (test::kSanitized && s.n > 100) continue;
    Random random(3);
    Batch all(1, 512);
    const test::Cache keys(all, true, s.type, 1, s.n);
    Batch fill = all.empty();
    fill.add(0, 0, 400);
    const Matrix k = test::random_matrix(400, s.n, random);
    test::run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, fill.shape());
    for (const auto& [position, rows] : {std::pair(398, 2), std::pair(146, 9)}) {
      Batch batch = all.empty();
      batch.add(0, position, rows);
      const Matrix q = test::random_matrix(rows, s.attr.heads * s.n, random, 1.5F);
      Matrix list(rows, kUsed);
      list.operand.dtype = DType::kI32;
      for (int r = 0; r < rows; ++r) {
        auto* places = list.operand.row<int32_t>(r);
        const int seen = position + r + 1, step = seen / kUsed;
        for (int i = 0; i < kUsed; ++i)
          places[i] = seen <= kUsed ? (i < seen ? i : -1) : step * i + (r + i) % step;
      }
      const auto attend = [&](const auto& run_op) {
        Matrix y(rows, s.attr.heads * s.attr.shared);
        Operand in = q.operand, chosen = list.operand, to = y.operand;
        in.rows = chosen.rows = to.rows = kTokenRows;
        run_op(op::kAttend, std::vector<Operand>{in, keys.operand, keys.operand, {}, chosen}, to,
               s.attr, batch.shape());
        return y;
      };
      test::expect_same_bits(attend(run_on_cpu), attend(GetParam().run), s.name);
    }
  }
}

// Threadgroup memory on Metal has room for the 64 heads of DeepSeek V3.2, but not for more.
TEST_P(GpuChoose, QueriesWithoutRoomAreRefused) {
  const bool metal = GetParam().name == std::string("metal");
  const int most = metal ? 64 : 450;
  const std::vector<Span> parts = {{0, 0, 1, 5}};
  Scene scene({"many heads", DType::kF32, most, 128, 4}, parts);
  EXPECT_EQ(scene.choose(GetParam().run), scene.choose(run_on_cpu));
  Scene more({"more heads", DType::kF32, most + 1, 128, 4}, parts);
  try {
    more.choose(GetParam().run);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    const std::string_view name = metal ? "metal" : "emulator";
    EXPECT_TRUE(std::string(error.what())
                    .starts_with(fmt::format("choose_positions: no kernel on {}", name)))
        << error.what();
  }
}

}  // namespace
}  // namespace veery
