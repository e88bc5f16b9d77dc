// The log-sum-exp of attention against a computation in double precision.
#include <string>

#include "kernels/kernel_runner.h"
#include "support/sanitized.h"

namespace veery::test {
namespace {

struct Setting {
  const char* name;
  AttendAttr attr;
  int n;
  bool cached = false, sinks = false;
  DType type = DType::kF32;  ///< of the caches
  double tolerance = 2e-6;
};
const Setting kSettings[] = {
    {"causal", {.heads = 3, .kv_heads = 3, .scale = 0.2F}, 12},
    {"groups", {.heads = 6, .kv_heads = 2, .scale = 0.2F}, 16, false, true},
    {"window", {.heads = 4, .kv_heads = 1, .scale = 0.3F, .window = 37, .softcap = 4}, 20},
    {"chunks", {.heads = 2, .kv_heads = 1, .scale = 0.3F, .window = 50, .chunked = true}, 32},
    {"full", {.heads = 2, .kv_heads = 2, .scale = 0.3F, .alibi = 8, .mask = Mask::kFull}, 16},
    {"symmetric",
     {.heads = 3, .kv_heads = 1, .scale = 0.3F, .window = 9, .mask = Mask::kSymmetric},
     17,
     false,
     true},
    {"prefix", {.heads = 2, .kv_heads = 1, .scale = 0.3F, .mask = Mask::kPrefix}, 16},
    {"cached", {.heads = 6, .kv_heads = 2, .scale = 0.2F, .softcap = 8}, 32, true, true},
    {"cached window", {.heads = 2, .kv_heads = 1, .scale = 0.3F, .window = 140}, 16, true},
    {"cached, uneven", {.heads = 2, .kv_heads = 1, .scale = 0.3F}, 10, true, true},
    {"f16", {.heads = 4, .kv_heads = 2, .scale = 0.2F}, 32, true, false, DType::kF16, 2e-3},
    {"bf16", {.heads = 4, .kv_heads = 2, .scale = 0.2F}, 32, true, true, DType::kBF16, 2e-2},
    {"q8_0", {.heads = 4, .kv_heads = 2, .scale = 0.2F}, 32, true, false, DType::kQ8_0, 2e-2},
};

// Three sequences; with caches the run has the last rows of each.
struct Scene {
  static constexpr int kLengths[] = {150, 3, 290}, kPrefix = 60;
  const Setting& s;
  Batch whole{3, 512}, own{3, 512};
  Matrix k, v, q, sinks;
  Cache keys, values;

  explicit Scene(const Setting& setting, int cached_rows)
      : s(setting),
        k(1, 1),
        v(1, 1),
        q(1, 1),
        sinks(1, 1),
        keys(whole, true, s.type, s.attr.kv_heads, s.n),
        values(whole, false, s.type, s.attr.kv_heads, s.n) {
    own = whole.empty();
    for (int sequence = 0; sequence < 3; ++sequence) {
      const int length = kLengths[sequence];
      const int rows = s.cached ? std::min(length, cached_rows) : length;
      whole.add(sequence, 0, length);
      own.add(sequence, length - rows, rows);
    }
    for (Batch* batch : {&whole, &own}) batch->set_visible({kPrefix, 0, kPrefix});
    Random random(3);
    const auto all = static_cast<int64_t>(whole.positions.size());
    k = random_matrix(all, s.attr.kv_heads * s.n, random);
    v = random_matrix(all, s.attr.kv_heads * s.n, random);
    q = random_matrix(own.shape().rows, s.attr.heads * s.n, random, 1.5F);
    sinks = random_matrix(1, s.attr.heads, random, 3);
    run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, whole.shape());
    run(op::kCacheWrite, {v.operand, values.operand}, values.operand, {}, whole.shape());
  }

  void attend(Matrix& y, Matrix* log_sum, RunWith with) const {
    const auto rows = [](const Matrix& m) {
      Operand o = m.operand;
      o.rows = kTokenRows;
      return o;
    };
    run_all(op::kAttend,
            {rows(q), s.cached ? keys.operand : rows(k), s.cached ? values.operand : rows(v),
             s.sinks ? sinks.operand : Operand{}},
            {rows(y), log_sum != nullptr ? rows(*log_sum) : Operand{}}, s.attr, own.shape(), with);
  }
  bool sees(const Span& span, int64_t row, int64_t p) const {
    const int64_t window = s.attr.window;
    switch (s.attr.mask) {
      case Mask::kFull: return true;
      case Mask::kSymmetric: return std::abs(row - p) <= window;
      case Mask::kPrefix: return p <= row || p < span.visible;
      default: break;
    }
    if (p > row) return false;
    if (s.attr.chunked) return p >= row / window * window;
    return window == 0 || p > row - window;
  }
  double expected(int64_t r, int h) const {
    const RunShape shape = own.shape();
    const Span& span = shape.span(r);
    const int64_t row = shape.position(r), first = whole.spans[size_t(span.sequence)].first_row;
    const double slope =
        s.attr.alibi > 0 ? std::exp2(-double{s.attr.alibi} * (h + 1) / s.attr.heads) : 0;
    const int kv = h / (s.attr.heads / s.attr.kv_heads);
    double sum = s.sinks ? std::exp(double{sinks[0][h]}) : 0;
    for (int64_t p = 0; p < kLengths[span.sequence]; ++p) {
      if (!sees(span, row, p)) continue;
      double dot = 0;
      for (int i = 0; i < s.n; ++i)
        dot += double{q[r][h * s.n + i]} * double{k[first + p][kv * s.n + i]};
      double score = dot * double{s.attr.scale};
      if (s.attr.softcap > 0)
        score = double{s.attr.softcap} * std::tanh(score / double{s.attr.softcap});
      sum += std::exp(score - slope * static_cast<double>(std::abs(row - p)));
    }
    return std::log(sum);
  }
};

TEST(AttendLogSum, IsThatOfTheScoresInDoublePrecision) {
  for (const Setting& s : kSettings) {
    for (const int cached_rows : {1, 20}) {
      if (!s.cached && cached_rows > 1) continue;
      const Scene scene(s, cached_rows);
      const int64_t rows = scene.own.shape().rows;
      for (const Target target : supported_targets()) {
        if (kSanitized && target == Target::kPlain) continue;
        Matrix y(rows, s.attr.heads * s.n), log_sum(rows, s.attr.heads);
        scene.attend(y, &log_sum, {.target = target, .workers = 2});
        for (int64_t r = 0; r < rows; ++r)
          for (int h = 0; h < s.attr.heads; ++h) {
            const double expected = scene.expected(r, h);
            ASSERT_NEAR(log_sum[r][h], expected, s.tolerance * (1 + std::abs(expected)))
                << s.name << " on " << name(target) << " at " << r << ", " << h;
          }
      }
    }
  }
}

TEST(AttendLogSum, HasTheSameBitsOnAllTargetsAndDoesNotChangeTheOutput) {
  for (const Setting& s : kSettings) {
    const Scene scene(s, 2);
    const int64_t rows = scene.own.shape().rows;
    std::vector<Matrix> sums;
    for (const Target target : supported_targets()) {
      if (target == Target::kReference || (kSanitized && target == Target::kPlain)) continue;
      for (const int workers : {1, 3}) {
        Matrix y(rows, s.attr.heads * s.n), alone(rows, s.attr.heads * s.n);
        sums.emplace_back(rows, s.attr.heads);
        scene.attend(y, &sums.back(), {.target = target, .workers = workers});
        scene.attend(alone, nullptr, {.target = target, .workers = workers});
        expect_same_bits(y, alone, s.name);
        expect_same_bits(sums.back(), sums.front(), s.name);
      }
    }
  }
}

}  // namespace
}  // namespace veery::test
