// Attention over the KV cache, or over rows of the run.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/formulas.h"
#include "kernels/common/pages.h"
#include "kernels/reference/cache_element.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// Online softmax: sum of weights and weighted values, relative to the largest score so far.
struct Running {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double* acc;  // [head_dim] weighted values, not divided by `sum`

  // `value` is null for an attention sink.
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

// A list of chosen positions; without one a row attends to all visible positions.
struct Chosen {
  const int32_t* positions = nullptr;
  int64_t most = 0;
};
template <typename Visit>
void each_position(const PositionRange& seen, const Chosen& chosen, const Visit& visit) {
  if (chosen.positions == nullptr) {
    for (int64_t p = seen.first; p <= seen.last; ++p) visit(p);
    return;
  }
  for (int64_t i = 0; i < chosen.most && chosen.positions[i] >= 0; ++i)
    if (chosen.positions[i] >= seen.first && chosen.positions[i] <= seen.last)
      visit(chosen.positions[i]);
}

// Calls see(position, key, value) for each position that row r of the run attends to. `key` is a
// buffer for a key and a value.
template <typename See>
void each_cached(const Dispatch& d, const RunShape& shape, int64_t r, const Chosen& chosen,
                 int64_t kv_head, float* key, const See& see) {
  const Operand& keys = d.in[AttendIn::kK];
  const Operand& values = d.in[AttendIn::kV];
  const Span& span = shape.span(r);
  const int64_t key_size = keys.cols / keys.rows;
  const int64_t value_size = d.out().cols / d.as<AttendAttr>().heads;
  float* value = key + key_size;
  const PositionRange seen = visible(d.as<AttendAttr>(), span, shape.position(r));
  each_position(seen, chosen, [&](int64_t p) {
    const CachedHead k{keys, page_of(keys, shape, span.sequence, p), kv_head, p};
    const CachedHead v{values, page_of(values, shape, span.sequence, p), kv_head, p};
    for (int64_t i = 0; i < key_size; ++i) key[i] = read_cached(k, i);
    for (int64_t i = 0; i < value_size; ++i) value[i] = read_cached(v, i);
    see(p, key, value);
  });
}

// The same for keys and values that are rows of the run.
template <typename See>
void each_row(const Dispatch& d, const RunShape& shape, int64_t r, const Chosen& chosen,
              int64_t kv_head, const See& see) {
  const auto& attr = d.as<AttendAttr>();
  const Operand& keys = d.in[AttendIn::kK];
  const Operand& values = d.in[AttendIn::kV];
  const int64_t key = kv_head * (keys.cols / attr.kv_heads);
  const int64_t value = kv_head * (values.cols / attr.kv_heads);
  const Span& span = shape.span(r);
  PositionRange seen = visible(attr, span, shape.position(r));
  seen.first = std::max<int64_t>(seen.first, span.position);
  each_position(seen, chosen, [&](int64_t p) {
    const int64_t row = span.first_row + p - span.position;
    see(p, keys.row<float>(row) + key, values.row<float>(row) + value);
  });
}

template <bool kCached>
void attend(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t n = d.in[AttendIn::kQ].cols / attr.heads;
  const int64_t value_size = d.out().cols / attr.heads;
  auto* acc = reinterpret_cast<double*>(worker.scratch);
  auto* key = reinterpret_cast<float*>(acc + value_size);
  const Share items = share(shape.count(d.out().rows) * attr.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t out_row = item / attr.heads;
    const int64_t r = shape.token_row(d.out().rows, out_row);
    const int64_t h = item % attr.heads;
    const int64_t kv_head = h / (attr.heads / attr.kv_heads);
    const float* q = d.in[AttendIn::kQ].row<float>(out_row) + h * n;
    std::fill_n(acc, value_size, 0.0);
    Running running{.acc = acc};
    const double slope = alibi_slope(attr, h);
    const auto see = [&](int64_t position, const float* k, const float* v) {
      const auto distance = static_cast<double>(std::abs(position - shape.position(r)));
      running.add(score_of(attr, q, k, n) - slope * distance, v, value_size);
    };
    Chosen chosen;
    if (const Operand& list = d.in[AttendIn::kChosen])
      chosen = {list.row<int32_t>(out_row), list.cols};
    if constexpr (kCached)
      each_cached(d, shape, r, chosen, kv_head, key, see);
    else
      each_row(d, shape, r, chosen, kv_head, see);
    if (d.in[AttendIn::kSinks])
      running.add(d.in[AttendIn::kSinks].row<float>(0)[h], nullptr, value_size);
    float* out = d.out().row<float>(out_row) + h * value_size;
    for (int64_t i = 0; i < value_size; ++i) out[i] = static_cast<float>(acc[i] / running.sum);
    if (const Operand& log_sum = d.outputs[AttendOut::kLogSum])
      log_sum.row<float>(out_row)[h] = static_cast<float>(running.largest + std::log(running.sum));
  }
}

size_t head_bytes(const Dispatch& d, const RunExtent&) {
  const auto& attr = d.as<AttendAttr>();
  const auto key = static_cast<size_t>(d.in[AttendIn::kQ].cols / attr.heads);
  const auto value = static_cast<size_t>(d.out().cols / attr.heads);
  return value * (sizeof(double) + sizeof(float)) + key * sizeof(float);
}

bool takes_cache(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[AttendIn::kQ]) && is_cache(d.in[AttendIn::kK]) &&
         is_cache(d.in[AttendIn::kV]) && absent_or_matrix(d.in[AttendIn::kSinks]) &&
         is_matrix(d.out()) && absent_or_matrix(d.outputs[AttendOut::kLogSum]);
}
bool takes_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[AttendIn::kQ]) && is_matrix(d.in[AttendIn::kK]) &&
         is_matrix(d.in[AttendIn::kV]) && absent_or_matrix(d.in[AttendIn::kSinks]) &&
         is_matrix(d.out()) && absent_or_matrix(d.outputs[AttendOut::kLogSum]);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kAttend, kRef, takes_cache, {"attend_cache", {attend<true>}, nullptr, head_bytes}},
    {op::kAttend, kRef, takes_rows, {"attend_rows", {attend<false>}, nullptr, head_bytes}},
};

}  // namespace

KernelRows reference_attend() { return kRows; }

}  // namespace veery
