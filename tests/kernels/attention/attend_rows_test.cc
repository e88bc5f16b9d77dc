#include <string>

#include "kernels/kernel_runner.h"
#include "support/sanitized.h"

namespace veery::test {
namespace {

struct Setting {
  AttendAttr attr;
  int n;      ///< dimensions of a key
  int v = 0;  ///< dimensions of a value; 0: n
  bool sinks = false;
  std::vector<int32_t> prefixes = {};  ///< Span::visible of each sequence
};
const Setting kSettings[] = {
    {{.heads = 3, .kv_heads = 3, .scale = 0.2F, .mask = Mask::kFull}, 32},
    {{.heads = 4, .kv_heads = 4, .scale = 0.2F, .mask = Mask::kFull}, 12},
    {{.heads = 6, .kv_heads = 2, .scale = 0.1F, .alibi = 8, .mask = Mask::kFull}, 64},
    {{.heads = 6, .kv_heads = 3, .scale = 0.1F, .softcap = 3, .mask = Mask::kFull}, 20, 22, true},
    {{.heads = 2, .kv_heads = 1, .scale = 0.1F, .window = 5, .mask = Mask::kSymmetric}, 22, 7},
    {{.heads = 3, .kv_heads = 1, .scale = 0.1F, .window = 64, .mask = Mask::kSymmetric}, 64},
    {{.heads = 2,
      .kv_heads = 2,
      .scale = 0.1F,
      .window = 170,
      .alibi = 4,
      .mask = Mask::kSymmetric},
     1,
     17,
     true},
    {{.heads = 4, .kv_heads = 2, .scale = 0.1F, .mask = Mask::kPrefix},
     33,
     0,
     false,
     {0, 140, 1, 7, 20, 1000}},
    {{.heads = 2, .kv_heads = 2, .scale = 0.1F, .mask = Mask::kPrefix}, 16},
    {{.heads = 3, .kv_heads = 3, .scale = 0.1F}, 12, 32},
    {{.heads = 49, .kv_heads = 1, .scale = 0.1F, .window = 40, .softcap = 5}, 20},
    {{.heads = 5, .kv_heads = 1, .scale = 0.1F, .window = 70, .chunked = true, .alibi = 8},
     64,
     0,
     true},
};

// Spans of rows; one begins at position 61, one follows another of its sequence.
struct Part {
  int sequence, position, rows;
};
const std::vector<Part> kParts = {{0, 0, 17}, {1, 0, 300}, {2, 0, 1},   {3, 61, 70},
                                  {4, 0, 48}, {5, 0, 129}, {3, 131, 15}};

struct Scene {
  Setting setting;
  Batch batch{6, 512};
  Matrix q, k, v, sinks;

  Scene(const Setting& s, const std::vector<Part>& parts)
      : setting(s), q(1, 1), k(q), v(q), sinks(q) {
    for (const Part& p : parts) batch.add(p.sequence, p.position, p.rows);
    if (setting.v == 0) setting.v = s.n;
    Random random(7);
    const auto rows = static_cast<int64_t>(batch.positions.size());
    q = random_matrix(rows, s.attr.heads * s.n, random, 1.5F);
    k = random_matrix(rows, s.attr.kv_heads * s.n, random);
    v = random_matrix(rows, s.attr.kv_heads * setting.v, random);
    sinks = random_matrix(1, s.attr.heads, random, 3);
  }

  /// Runs some spans as a separate run, writing to their rows of `out`.
  void attend(Matrix& out, size_t first, size_t count, RunWith with) const {
    Batch rows = batch.empty();
    for (size_t i = first; i < first + count; ++i)
      rows.add(batch.spans[i].sequence, batch.spans[i].position, batch.spans[i].rows);
    rows.set_visible(setting.prefixes);
    const RunShape shape = rows.shape();
    const auto part = [&](const Matrix& m) {
      Operand o = m.operand;
      o.data += batch.spans[first].first_row * o.stride;
      o.rows = kTokenRows;
      return o;
    };
    run(op::kAttend, {part(q), part(k), part(v), setting.sinks ? sinks.operand : Operand{}},
        part(out), setting.attr, shape, with);
  }
  Matrix attend(RunWith with) const {
    Matrix out = empty();
    attend(out, 0, batch.spans.size(), with);
    return out;
  }
  // Returns an output matrix with a guard value after each row.
  Matrix empty() const {
    Matrix out(q.operand.rows, setting.attr.heads * setting.v);
    for (int64_t r = 0; r < out.operand.rows; ++r) std::fill_n(out[r] + out.operand.cols, 3, 0.25F);
    return out;
  }
};

std::vector<Target> fast_targets() {
  std::vector<Target> targets = supported_targets();
  targets.pop_back();
  if (test::kSanitized) std::erase(targets, Target::kPlain);
  return targets;
}

TEST(AttendRows, FastIsTheReference) {
  for (const Setting& s : kSettings) {
    const Scene scene(s, kParts);
    const Matrix expected = scene.attend({});
    for (Target target : fast_targets()) {
      const Matrix out = scene.attend({.target = target, .workers = 2});
      expect_near(out, expected, 1e-5, name(target).data());
      for (int64_t r = 0; r < out.operand.rows; ++r)
        for (int i = 0; i < 3; ++i) ASSERT_EQ(out[r][out.operand.cols + i], 0.25F) << r;
    }
  }
}

TEST(AttendRows, FastIsTheReferenceForSpansOfAnyLength) {
  for (int length = 1; length <= 300; length += length < 36 ? 1 : 37) {
    const Scene scene({{.heads = 2, .kv_heads = 1, .scale = 0.2F, .mask = Mask::kFull}, 20},
                      {{0, 0, length}, {1, 5, 3}});
    const Matrix expected = scene.attend({});
    for (Target target : fast_targets())
      expect_near(scene.attend({.target = target, .workers = 3}), expected, 1e-5,
                  std::to_string(length).c_str());
  }
}

TEST(AttendRows, ASpanHasOneAnswerAloneAmongOthersAndInAnyTeam) {
  for (const Setting& s : kSettings) {
    const Scene scene(s, kParts);
    const Matrix whole = scene.attend({.target = fast_targets()[0]});
    for (Target target : fast_targets()) {
      for (int workers : {1, 2, 7, 64})
        expect_same_bits(scene.attend({.target = target, .workers = workers}), whole, "workers");
      for (size_t count : {1, 2, 3}) {
        Matrix out = scene.empty();
        for (size_t i = 0; i < kParts.size(); i += count)
          scene.attend(out, i, std::min(count, kParts.size() - i),
                       {.target = target, .workers = 2});
        expect_same_bits(out, whole, "parts");
      }
    }
  }
}

// After 2048 positions segments are longer.
TEST(AttendRows, LongSpans) {
  const Scene scene(
      {{.heads = 2, .kv_heads = 1, .scale = 0.3F, .window = 1500, .mask = Mask::kSymmetric}, 12},
      {{0, 0, 5}, {1, 0, 2700}});
  const Matrix expected = scene.attend({});
  const Matrix first = scene.attend({.target = fast_targets()[0]});
  for (Target target : fast_targets()) {
    const Matrix out = scene.attend({.target = target, .workers = 2});
    expect_near(out, expected, 1e-5, name(target).data());
    expect_same_bits(out, first, name(target).data());
  }
}

// Rows of the run give the same bits as an f32 KV cache.
TEST(AttendRows, AreTheBitsOfACacheOfF32) {
  for (const Setting& s : kSettings) {
    if (s.n % 16 != 0 || s.v % 16 != 0) continue;
    const Scene scene(s, {{0, 0, 300}, {1, 0, 17}, {2, 0, 129}});
    const Matrix& k = scene.k;
    Batch batch = scene.batch;
    batch.set_visible(s.prefixes);
    const RunShape shape = batch.shape();
    const Cache keys(scene.batch, true, DType::kF32, s.attr.kv_heads, s.n);
    const Cache values(scene.batch, false, DType::kF32, s.attr.kv_heads, scene.setting.v);
    run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, shape);
    run(op::kCacheWrite, {scene.v.operand, values.operand}, values.operand, {}, shape);
    for (Target target : fast_targets()) {
      Matrix cached = scene.empty();
      run(op::kAttend,
          {scene.q.operand, keys.operand, values.operand,
           s.sinks ? scene.sinks.operand : Operand{}},
          cached.operand, s.attr, shape, {.target = target});
      expect_same_bits(scene.attend({.target = target}), cached, name(target).data());
    }
  }
}

}  // namespace
}  // namespace veery::test
