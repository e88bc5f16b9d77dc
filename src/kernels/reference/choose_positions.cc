// Chooses the positions of sparse attention (kChoosePositions).
#include <algorithm>

#include "kernels/common/formulas.h"
#include "kernels/common/pages.h"
#include "kernels/reference/cache_element.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// The best positions so far, in descending order of their scores. The earlier position wins ties.
struct Best {
  float* scores;
  int32_t* positions;
  int64_t most;
  int64_t count = 0;

  void add(float score, int64_t position) {
    int64_t at = std::min(count, most);
    while (at > 0 && score > scores[at - 1]) --at;
    if (at == most) return;
    count = std::min(count + 1, most);
    std::copy_backward(scores + at, scores + count - 1, scores + count);
    std::copy_backward(positions + at, positions + count - 1, positions + count);
    scores[at] = score;
    positions[at] = static_cast<int32_t>(position);
  }
};

// Returns the key of a position: decoded from a cache into `buffer`, or a row of the run.
const float* key_of(const Operand& keys, const RunShape& shape, const Span& span, int64_t position,
                    float* buffer) {
  if (!in_pages(keys)) return keys.row<float>(span.first_row + position - span.position);
  const CachedHead head{keys, page_of(keys, shape, span.sequence, position), 0, position};
  for (int64_t i = 0; i < keys.cols; ++i) buffer[i] = read_cached(head, i);
  return buffer;
}

float score_of(const ChooseAttr& attr, const float* q, const float* weights, const float* key,
               int64_t n) {
  float score = 0;
  for (int64_t h = 0; h < attr.heads; ++h) {
    float dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += q[h * n + i] * key[i];
    score += weights[h] * attr.scale * relu(dot);
  }
  return score;
}

void choose_positions(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ChooseAttr>();
  const Operand& keys = d.in[ChooseIn::kK];
  auto* scores = reinterpret_cast<float*>(worker.scratch);
  float* buffer = scores + attr.used;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t r = shape.token_row(d.out().rows, row);
    const Span& span = shape.span(r);
    Best best{scores, d.out().row<int32_t>(row), attr.used};
    for (int64_t p = in_pages(keys) ? 0 : span.position; p <= shape.position(r); ++p)
      best.add(score_of(attr, d.in[ChooseIn::kQ].row<float>(row),
                        d.in[ChooseIn::kWeights].row<float>(row),
                        key_of(keys, shape, span, p, buffer), keys.cols),
               p);
    std::sort(best.positions, best.positions + best.count);
    std::fill(best.positions + best.count, best.positions + attr.used, -1);
  }
}

size_t scratch_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.as<ChooseAttr>().used + d.in[ChooseIn::kK].cols) * sizeof(float);
}

bool takes(const Dispatch& d, const KernelChoice&) {
  const Operand& keys = d.in[ChooseIn::kK];
  return is_matrix(d.in[ChooseIn::kQ]) && is_matrix(d.in[ChooseIn::kWeights]) &&
         (is_cache(keys) || is_matrix(keys)) && is_matrix(d.out(), DType::kI32);
}

constexpr KernelRow kRows[] = {{op::kChoosePositions,
                                Target::kReference,
                                takes,
                                {"choose_positions", {choose_positions}, nullptr, scratch_bytes}}};

}  // namespace

KernelRows reference_choose_positions() { return kRows; }

}  // namespace veery
