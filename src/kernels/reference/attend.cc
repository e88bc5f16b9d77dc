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

  // `value` is null for a score without one.
  void add(double score, const float* value, int64_t n) {
    if (score > largest) {
      const double shrink = std::exp(largest - score);
      sum *= shrink;
      for (int64_t i = 0; i < n; ++i) acc[i] *= shrink;
      largest = score;
    }
    const double weight = std::exp(score - largest);
    sum += weight;
    for (int64_t i = 0; i < n && value != nullptr; ++i) acc[i] += weight * value[i];
  }
};

double score_of(const AttendAttr& attr, const float* q, const float* k, int64_t n) {
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += double{q[i]} * k[i];
  const double score = dot * attr.scale;
  return attr.softcap > 0 ? attr.softcap * std::tanh(score / attr.softcap) : score;
}

// Calls see(position, key, value) for each position visible to row r, through `key` and `value` [n]
// as buffers.
template <typename See>
void each_cached(const Dispatch& d, const Slots& slots, int64_t r, int64_t kv_head, float* key,
                 const See& see) {
  const int64_t last = slots.positions[r];
  const int64_t key_size = d.in[1].cols / d.in[1].rows;
  const int64_t value_size = d.out.cols / d.as<AttendAttr>().heads;
  float* value = key + key_size;
  for (int64_t p = first_visible(last, d.as<AttendAttr>()); p <= last; ++p) {
    const CachedHead k{d.in[1], page_of(d.in[1], slots, slots.sequence[r], p), kv_head, p};
    const CachedHead v{d.in[2], page_of(d.in[2], slots, slots.sequence[r], p), kv_head, p};
    for (int64_t i = 0; i < key_size; ++i) key[i] = read_cached(k, i);
    for (int64_t i = 0; i < value_size; ++i) value[i] = read_cached(v, i);
    see(p, key, value);
  }
}

template <typename See>
void each_row(const Dispatch& d, const Slots& slots, int64_t r, int64_t kv_head, const See& see) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t key_size = d.in[1].cols / attr.kv_heads;
  const int64_t value_stride = d.in[2].cols / attr.kv_heads;
  const int64_t last = slots.positions[r];
  const int64_t first = first_visible(last, attr);
  for (int64_t j = 0, rows = slots.count(d.in[1].rows); j < rows; ++j) {
    if (slots.sequence[j] == slots.sequence[r] && slots.positions[j] >= first &&
        slots.positions[j] <= last)
      see(slots.positions[j], d.in[1].row<float>(j) + kv_head * key_size,
          d.in[2].row<float>(j) + kv_head * value_stride);
  }
}

template <bool kCached>
void attend(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t n = d.in[0].cols / attr.heads;
  const int64_t value_size = d.out.cols / attr.heads;
  auto* acc = reinterpret_cast<double*>(worker.scratch);
  auto* key = reinterpret_cast<float*>(acc + value_size);
  const Share items = share(slots.count(d.out.rows) * attr.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t r = item / attr.heads;
    const int64_t h = item % attr.heads;
    const int64_t kv_head = h / (attr.heads / attr.kv_heads);
    const float* q = d.in[0].row<float>(r) + h * n;
    std::fill_n(acc, value_size, 0.0);
    Running running{.acc = acc};
    const double slope = alibi_slope(attr, h);
    const auto see = [&](int64_t position, const float* k, const float* v) {
      const auto distance = static_cast<double>(position - slots.positions[r]);
      running.add(score_of(attr, q, k, n) + slope * distance, v, value_size);
    };
    if constexpr (kCached)
      each_cached(d, slots, r, kv_head, key, see);
    else
      each_row(d, slots, r, kv_head, see);
    if (d.in[3]) running.add(d.in[3].row<float>(0)[h], nullptr, value_size);
    float* out = d.out.row<float>(r) + h * value_size;
    for (int64_t i = 0; i < value_size; ++i) out[i] = static_cast<float>(acc[i] / running.sum);
  }
}

size_t head_bytes(const Dispatch& d, int64_t, int) {
  const auto& attr = d.as<AttendAttr>();
  const auto key = static_cast<size_t>(d.in[0].cols / attr.heads);
  const auto value = static_cast<size_t>(d.out.cols / attr.heads);
  return value * (sizeof(double) + sizeof(float)) + key * sizeof(float);
}

bool takes_cache(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_cache(d.in[1]) && is_cache(d.in[2]) &&
         absent_or_matrix(d.in[3]) && is_matrix(d.out);
}
bool takes_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.in[1]) && is_matrix(d.in[2]) &&
         absent_or_matrix(d.in[3]) && is_matrix(d.out);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {Op::kAttend, kRef, takes_cache, {"attend_cache", {attend<true>}, nullptr, head_bytes}},
    {Op::kAttend, kRef, takes_rows, {"attend_rows", {attend<false>}, nullptr, head_bytes}},
};

}  // namespace

KernelRows reference_attend() { return kRows; }

}  // namespace veery
