#include "tasks/inspect/attention_map.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/formulas.h"
#include "kernels/common/pages.h"

namespace veery {
namespace {

constexpr int64_t kRowsAtATime = 16;

// Transposes the keys to [size][keys], so that scores of neighbouring keys are computed together.
std::vector<float> turned_keys(const AttentionValues& v, int64_t key_head, ThreadPool& pool) {
  const int64_t count = v.keys, size = v.k.cols / v.attr.kv_heads;
  std::vector<float> keys(static_cast<size_t>(count * size));
  pool.parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const float* key = v.k.row<float>(p) + key_head * size;
      for (int64_t i = 0; i < size; ++i) keys[static_cast<size_t>(i * count + p)] = key[i];
    }
  });
  return keys;
}

// Replaces the scores of visible positions by their softmax.
void normalise(std::span<float> scores, const float* sink) {
  float largest = *std::ranges::max_element(scores);
  if (sink != nullptr) largest = std::max(largest, *sink);
  double sum = sink != nullptr ? std::exp(double{*sink} - largest) : 0;
  for (float& x : scores) {
    x = std::exp(x - largest);
    sum += x;
  }
  for (float& x : scores) x = static_cast<float>(x / sum);
}

void query_row(const AttentionValues& v, int64_t head, int64_t r, const float* keys, float* out) {
  const AttendAttr& attr = v.attr;
  const int64_t count = v.keys, size = v.q.cols / attr.heads;
  const PositionRange seen = visible(attr, v.shape.span(r), r);
  std::fill_n(out, count, 0.0F);
  if (seen.last < seen.first) return;
  const float* q = v.q.row<float>(r) + head * size;
  for (int64_t i = 0; i < size; ++i) {
    const float* key = keys + i * count;
    const float factor = q[i];
    for (int64_t p = seen.first; p <= seen.last; ++p) out[p] += factor * key[p];
  }
  const float slope = alibi_slope(attr, head);
  for (int64_t p = seen.first; p <= seen.last; ++p) {
    float score = out[p] * attr.scale;
    if (attr.softcap > 0) score = attr.softcap * std::tanh(score / attr.softcap);
    out[p] = score - slope * static_cast<float>(std::abs(p - r));
  }
  normalise({out + seen.first, out + seen.last + 1},
            v.sinks ? v.sinks.row<float>(0) + head : nullptr);
}

}  // namespace

void attention_maps(const AttentionValues& v, std::span<const int32_t> heads, ThreadPool& pool,
                    float* out) {
  const int64_t rows = v.shape.rows;
  const int64_t group = v.attr.heads / v.attr.kv_heads;
  std::vector<float> keys;
  int64_t of = -1;  // the key head in `keys`
  for (const int64_t head : heads) {
    if (head / group != of) keys = turned_keys(v, of = head / group, pool);
    pool.parallel_for(rows, kRowsAtATime, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) query_row(v, head, r, keys.data(), out + r * v.keys);
    });
    out += rows * v.keys;
  }
}

}  // namespace veery
