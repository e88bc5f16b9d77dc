#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/formulas.h"
#include "kernels/reference/cache_element.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// Softmax of the scores seen so far and the values under it, kept relative to the largest score.
struct Running {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double* acc;  // [head_dim], not yet divided by sum

  void add(double score, const float* value, int64_t n) {
    if (score > largest) {
      const double shrink = std::exp(largest - score);
      sum *= shrink;
      for (int64_t i = 0; i < n; ++i) acc[i] *= shrink;
      largest = score;
    }
    const double weight = std::exp(score - largest);
    sum += weight;
    for (int64_t i = 0; i < n; ++i) acc[i] += weight * value[i];
  }
};

double score_of(const AttendAttr& attr, const float* q, const float* k, int64_t n) {
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += double{q[i]} * k[i];
  const double score = dot * attr.scale;
  return attr.softcap > 0 ? attr.softcap * std::tanh(score / attr.softcap) : score;
}

// Calls see(key, value) for each position visible to row r, through `key` and `value` [n] as
// buffers.
template <typename See>
void each_cached(const Dispatch& d, const Slots& slots, int64_t r, int64_t kv_head, int64_t n,
                 float* key, float* value, const See& see) {
  const int64_t last = slots.positions[r];
  for (int64_t p = first_visible(last, d.as<AttendAttr>().window); p <= last; ++p) {
    const CachedHead k{d.in[1], page_of(d.in[1], slots, slots.sequence[r], p), kv_head, p};
    const CachedHead v{d.in[2], page_of(d.in[2], slots, slots.sequence[r], p), kv_head, p};
    for (int64_t i = 0; i < n; ++i) {
      key[i] = read_cached(k, i);
      value[i] = read_cached(v, i);
    }
    see(key, value);
  }
}

template <typename See>
void each_row(const Dispatch& d, const Slots& slots, int64_t r, int64_t kv_head, int64_t n,
              const See& see) {
  const int64_t last = slots.positions[r];
  const int64_t first = first_visible(last, d.as<AttendAttr>().window);
  for (int64_t j = 0, rows = slots.count(d.in[1].rows); j < rows; ++j) {
    if (slots.sequence[j] == slots.sequence[r] && slots.positions[j] >= first &&
        slots.positions[j] <= last)
      see(d.in[1].row<float>(j) + kv_head * n, d.in[2].row<float>(j) + kv_head * n);
  }
}

template <bool kCached>
void attend(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t n = d.out.cols / attr.heads;
  auto* acc = reinterpret_cast<double*>(worker.scratch);
  auto* key = reinterpret_cast<float*>(acc + n);
  const Share items = share(slots.count(d.out.rows) * attr.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t r = item / attr.heads;
    const int64_t h = item % attr.heads;
    const int64_t kv_head = h / (attr.heads / attr.kv_heads);
    const float* q = d.in[0].row<float>(r) + h * n;
    std::fill_n(acc, n, 0.0);
    Running running{.acc = acc};
    const auto see = [&](const float* k, const float* v) {
      running.add(score_of(attr, q, k, n), v, n);
    };
    if constexpr (kCached)
      each_cached(d, slots, r, kv_head, n, key, key + n, see);
    else
      each_row(d, slots, r, kv_head, n, see);
    float* out = d.out.row<float>(r) + h * n;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(acc[i] / running.sum);
  }
}

size_t head_bytes(const Dispatch& d, int64_t, int) {
  const auto n = static_cast<size_t>(d.out.cols / d.as<AttendAttr>().heads);
  return n * (sizeof(double) + 2 * sizeof(float));
}

bool takes_cache(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_cache(d.in[1]) && is_cache(d.in[2]) && is_matrix(d.out);
}
bool takes_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.in[1]) && is_matrix(d.in[2]) && is_matrix(d.out);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {Op::kAttend, kRef, takes_cache, {"attend_cache", {attend<true>}, nullptr, head_bytes}},
    {Op::kAttend, kRef, takes_rows, {"attend_rows", {attend<false>}, nullptr, head_bytes}},
};

}  // namespace

KernelRows reference_attend() { return kRows; }

}  // namespace veery
