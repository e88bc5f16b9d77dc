// The choice of positions for sparse attention, and attention to chosen positions.
#include <numeric>

#include "kernels/common/top_positions.h"
#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

constexpr int kHeads = 5;

std::vector<Target> fast_targets() {
  std::vector<Target> targets = supported_targets();
  std::erase(targets, Target::kReference);
  return targets;
}

std::vector<int32_t> list_of(const Matrix& chosen, int64_t row) {
  const int32_t* list = chosen.operand.row<int32_t>(row);
  return {list, list + chosen.operand.cols};
}

// Integers, whose products and sums are exact. The first of each 32 determines the scale of q8_0;
// queries are 0 there, so it does not affect scores.
Matrix whole_numbers(int64_t rows, int32_t cols, Random& random, float first) {
  Matrix m(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int32_t c = 0; c < cols; ++c)
      m[r][c] = c % 32 == 0 ? first : static_cast<float>(random.next() % 5) - 2;
  return m;
}

/// Two sequences with keys, and queries of some of their rows. Many scores are equal.
struct Scene {
  static constexpr int kLength[2] = {700, 300};
  int n;
  Batch batch{2, 800};
  Matrix q{1, 1}, weights{1, 1};
  std::vector<Matrix> keys;
  Cache cache;
  ChooseAttr attr;

  Scene(int size, DType type, int used)
      : n(size), cache(batch, true, type, 1, size), attr{kHeads, used, 0.5F} {
    Random random(7);
    for (int s = 0; s < 2; ++s) {
      keys.push_back(whole_numbers(kLength[s], n, random, 127));
      Batch fill = batch.empty();
      fill.add(s, 0, kLength[s]);
      run(op::kCacheWrite, {keys.back().operand, cache.operand}, cache.operand, {}, fill.shape());
    }
    batch.add(0, 30, 60);
    batch.add(1, 0, 1);
    batch.add(0, 690, 10);
    batch.add(1, 255, 7);
    q = whole_numbers(batch.shape().rows, kHeads * n, random, 0);
    weights = whole_numbers(batch.shape().rows, kHeads, random, 1);
  }

  /// Returns the positions that a row sees, ordered by their scores, which are computed by the
  /// formula.
  std::vector<int32_t> ranked(int64_t row) const {
    const Span& span = batch.spans[static_cast<size_t>(batch.span_of[static_cast<size_t>(row)])];
    const int64_t seen = batch.positions[static_cast<size_t>(row)] + 1;
    std::vector<double> scores(static_cast<size_t>(seen));
    for (int64_t p = 0; p < seen; ++p)
      for (int h = 0; h < kHeads; ++h) {
        double dot = 0;
        for (int i = 0; i < n; ++i)
          dot += double{q[row][h * n + i]} * keys[static_cast<size_t>(span.sequence)][p][i];
        scores[static_cast<size_t>(p)] += 0.5 * weights[row][h] * std::max(dot, 0.0);
      }
    std::vector<int32_t> order(static_cast<size_t>(seen));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](int32_t p) { return scores[static_cast<size_t>(p)]; });
    return order;
  }
  std::vector<int32_t> expected(std::vector<int32_t> ranks) const {
    ranks.resize(std::min(ranks.size(), static_cast<size_t>(attr.used)));
    std::ranges::sort(ranks);
    ranks.resize(static_cast<size_t>(attr.used), -1);
    return ranks;
  }

  /// Chooses for rows [first, first + count) of the batch, as a separate run.
  void choose(const Matrix& out, int first, int count, RunWith with) const {
    Batch rows = batch.empty();
    for (const Span& span : batch.spans) {
      const int begin = std::max(first, span.first_row);
      const int end = std::min(first + count, span.end_row());
      if (begin < end) rows.add(span.sequence, span.position + begin - span.first_row, end - begin);
    }
    const auto part = [&](const Matrix& m) {
      Operand o = m.operand;
      o.data += first * o.stride;
      o.rows = kTokenRows;
      return o;
    };
    run(op::kChoosePositions, {part(q), part(weights), cache.operand}, part(out), attr,
        rows.shape(), with);
  }
  Matrix choose(RunWith with) const {
    const auto rows = static_cast<int>(q.operand.rows);
    const Matrix out(rows, attr.used, DType::kI32);
    choose(out, 0, rows, with);
    return out;
  }
};

TEST(ChoosePositions, AreThoseOfTheLargestScoresAndTheLowestAmongEqualOnes) {
  const Scene first(64, DType::kF32, 1);
  std::vector<std::vector<int32_t>> ranks;
  for (int64_t r = 0; r < first.q.operand.rows; ++r) ranks.push_back(first.ranked(r));
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (const int used : {1, 50, 270}) {
      const Scene scene(64, type, used);
      for (const Target target : supported_targets()) {
        const Matrix chosen = scene.choose({target, 3});
        for (int64_t r = 0; r < scene.q.operand.rows; ++r)
          ASSERT_EQ(list_of(chosen, r), scene.expected(ranks[static_cast<size_t>(r)]))
              << info(type).name << " " << used << " " << name(target) << " row " << r;
      }
    }
}

// Keys whose size is not a multiple of 16 are handled by the reference kernel.
TEST(ChoosePositions, TakesKeysOfAnySize) {
  const Scene scene(20, DType::kBF16, 40);
  const Matrix chosen = scene.choose({fast_targets()[0], 2});
  for (int64_t r = 0; r < scene.q.operand.rows; ++r)
    EXPECT_EQ(list_of(chosen, r), scene.expected(scene.ranked(r))) << r;
}

TEST(ChoosePositions, ARowHasOneAnswerInAnyChunkOrTeam) {
  const Scene scene(32, DType::kBF16, 100);
  const auto rows = static_cast<int>(scene.q.operand.rows);
  const Matrix whole = scene.choose({fast_targets()[0], 1});
  for (const int count : {1, 3, 5, 64})
    for (const int workers : {1, 2, 7}) {
      const Matrix parts(rows, 100, DType::kI32);
      for (int first = 0; first < rows; first += count)
        scene.choose(parts, first, std::min(count, rows - first), {fast_targets()[0], workers});
      for (int r = 0; r < rows; ++r)
        ASSERT_EQ(list_of(parts, r), list_of(whole, r)) << count << " " << workers << " " << r;
    }
}

// Rows of the run without a cache; the sequence begins in the run.
TEST(ChoosePositions, OfRowsOfTheRunAreThoseOfACache) {
  const Scene scene(32, DType::kF32, 100);
  Batch batch(1, 800);
  batch.add(0, 0, 300);
  Random random(3);
  const Matrix q = whole_numbers(300, kHeads * 32, random, 0),
               weights = whole_numbers(300, kHeads, random, 1);
  const Matrix cached(300, 100, DType::kI32), rows(300, 100, DType::kI32);
  const Cache cache(batch, true, DType::kF32, 1, 32);
  const Matrix& keys = scene.keys[1];
  run(op::kCacheWrite, {keys.operand, cache.operand}, cache.operand, {}, batch.shape());
  run(op::kChoosePositions, {q.operand, weights.operand, cache.operand}, cached.operand, scene.attr,
      batch.shape(), {fast_targets()[0], 2});
  run(op::kChoosePositions, {q.operand, weights.operand, keys.operand}, rows.operand, scene.attr,
      batch.shape(), {fast_targets()[0], 2});
  for (int64_t r = 0; r < 300; ++r) ASSERT_EQ(list_of(rows, r), list_of(cached, r)) << r;
}

TEST(TopPositions, KeepTheSameInAnyOrder) {
  constexpr int kMost = 16, kCount = 500;
  Random random(5);
  std::vector<float> scores;
  for (int i = 0; i < kCount; ++i) scores.push_back(static_cast<float>(random.next() % 40) - 20);
  scores[7] = -0.0F;
  std::vector<int32_t> order(kCount), first;
  std::iota(order.begin(), order.end(), 0);
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<uint64_t> memory(static_cast<size_t>(TopPositions::entries(kMost)));
    TopPositions top(memory.data(), kMost);
    for (const int32_t p : order) top.add(scores[static_cast<size_t>(p)], p);
    std::vector<int32_t> found(kMost);
    top.write(found.data());
    if (turn == 0) first = found;
    EXPECT_EQ(found, first) << turn;
    EXPECT_TRUE(std::ranges::is_sorted(found));
    for (int i = kCount - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[random.next() % static_cast<uint64_t>(i + 1)]);
  }
}

/// Latent attention of some heads: values are part of the keys.
struct Attention {
  static constexpr int kSize = 48, kShared = 32, kQueries = 7, kLength = 600, kRows = 19;
  AttendAttr attr{.heads = kQueries, .kv_heads = 1, .scale = 0.3F, .shared = kShared};
  Batch batch{1, 800};
  Matrix q{1, 1}, keys{1, 1};
  Cache cache;

  explicit Attention(DType type) : cache(batch, true, type, 1, kSize) {
    Random random(9);
    keys = random_matrix(kLength, kSize, random);
    Batch fill = batch.empty();
    fill.add(0, 0, kLength);
    run(op::kCacheWrite, {keys.operand, cache.operand}, cache.operand, {}, fill.shape());
    batch.add(0, kLength - kRows, kRows);
    q = random_matrix(kRows, kQueries * kSize, random);
  }

  Matrix attend(const Matrix* chosen, RunWith with, int each = kRows) const {
    Matrix out(kRows, kQueries * kShared);
    for (int first = 0; first < kRows; first += each) {
      const int count = std::min(each, kRows - first);
      Batch rows = batch.empty();
      rows.add(0, kLength - kRows + first, count);
      const auto part = [&](const Matrix& m) {
        Operand o = m.operand;
        o.data += first * o.stride;
        o.rows = kTokenRows;
        return o;
      };
      run(op::kAttend,
          {part(q), cache.operand, cache.operand, {}, chosen ? part(*chosen) : Operand{}},
          part(out), attr, rows.shape(), with);
    }
    return out;
  }
};

// Returns `used` random positions for every row, among those that it sees.
Matrix some_positions(int used) {
  Matrix chosen(Attention::kRows, used, DType::kI32);
  Random random(2);
  for (int64_t r = 0; r < Attention::kRows; ++r) {
    std::vector<int32_t> all(static_cast<size_t>(Attention::kLength - Attention::kRows + r + 1));
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = 0; i < static_cast<size_t>(used); ++i)
      std::swap(all[i], all[i + random.next() % (all.size() - i)]);
    std::sort(all.begin(), all.begin() + used);
    std::copy_n(all.begin(), used, chosen.operand.row<int32_t>(r));
  }
  return chosen;
}

TEST(AttendChosen, FastIsTheReferenceForEveryType) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Attention scene(type);
    for (const int used : {1, 100, 259, 550}) {
      const Matrix chosen = some_positions(used);
      const Matrix expected = scene.attend(&chosen, {});
      for (const Target target : fast_targets())
        expect_near(scene.attend(&chosen, {target, 2}), expected, 1e-4, name(target).data());
    }
  }
}

TEST(AttendChosen, ARowHasOneAnswerOnEveryTargetInAnyChunkOrTeam) {
  const Attention scene(DType::kBF16);
  const Matrix chosen = some_positions(300);
  const Matrix whole = scene.attend(&chosen, {fast_targets()[0], 1});
  for (const Target target : fast_targets())
    for (const int each : {1, 4, Attention::kRows})
      for (const int workers : {1, 3})
        expect_same_bits(scene.attend(&chosen, {target, workers}, each), whole,
                         name(target).data());
}

// Rows with at most `used` visible positions attend to all of them. For other rows, a list of
// consecutive positions gives the same bits as a cache with these positions only.
TEST(AttendChosen, AListIsACacheOfItsPositions) {
  const Attention scene(DType::kF16);
  Matrix every(Attention::kRows, Attention::kLength, DType::kI32);
  for (int64_t r = 0; r < Attention::kRows; ++r) {
    int32_t* list = every.operand.row<int32_t>(r);
    std::iota(list, list + Attention::kLength - Attention::kRows + r + 1, 0);
    std::fill(list + Attention::kLength - Attention::kRows + r + 1, list + Attention::kLength, -1);
  }
  for (const Target target : supported_targets())
    expect_same_bits(scene.attend(&every, {target, 2}), scene.attend(nullptr, {target, 2}));
  constexpr int kUsed = 300;
  const Matrix chosen = some_positions(kUsed);
  for (const Target target : supported_targets()) {
    const Matrix sparse = scene.attend(&chosen, {target, 2}, 1);
    for (const int r : {0, 13, 18}) {
      Batch batch(1, 800);
      const Cache cache(batch, true, DType::kF16, 1, Attention::kSize);
      Matrix keys(kUsed, Attention::kSize);
      for (int i = 0; i < kUsed; ++i)
        std::copy_n(scene.keys[chosen.operand.row<int32_t>(r)[i]], Attention::kSize, keys[i]);
      Batch fill = batch.empty();
      fill.add(0, 0, kUsed);
      run(op::kCacheWrite, {keys.operand, cache.operand}, cache.operand, {}, fill.shape());
      batch.add(0, kUsed - 1, 1);
      Matrix out(1, Attention::kQueries * Attention::kShared);
      Operand q = scene.q.operand;
      q.data += r * q.stride;
      q.rows = 1;
      run(op::kAttend, {q, cache.operand, cache.operand}, out.operand, scene.attr, batch.shape(),
          {target, 2});
      for (int32_t c = 0; c < out.operand.cols; ++c)
        ASSERT_EQ(out[0][c], sparse[r][c]) << name(target) << " row " << r << " column " << c;
    }
  }
}

}  // namespace
}  // namespace veery::test
