#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrence/conv1d.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/activate-inl.h"
//
#include <algorithm>

#include "kernels/common/blocks.h"
#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

constexpr int kMaxWidth = 8;
// Channels that a worker takes at a time.
constexpr int64_t kChunk = 128;

// 16 channels of one span. The inputs before a position are kept in order, the oldest first.
HWY_INLINE void convolve(const Dispatch& d, const Slots& slots, const Span& span, int64_t c) {
  const Operand& kept = d.in[Conv1dIn::kState];
  const int64_t channels = d.out().cols;
  const int n = static_cast<int>(std::min<int64_t>(16, channels - c));
  const int before = static_cast<int>(d.in[Conv1dIn::kWeight].rows) - 1;
  const int64_t count = kept ? blocks_kept(kept, slots, span.sequence) : 0;
  F32 weight[kMaxWidth], past[kMaxWidth];
  for (int j = 0; j <= before; ++j)
    weight[j] = load_first(d.in[Conv1dIn::kWeight].row<float>(j) + c, n);
  const bool begins = !kept || span.position == 0;
  for (int j = 0; j < before; ++j)
    past[j] =
        begins
            ? zero()
            : load_first(block_of(kept, slots, span.sequence, span.position) + j * channels + c, n);
  const F32 bias =
      d.in[Conv1dIn::kBias] ? load_first(d.in[Conv1dIn::kBias].row<float>(0) + c, n) : zero();
  const ActivateAttr act = d.as<Conv1dAttr>().activation;
  for (int64_t i = 0; i < span.rows; ++i) {
    const int64_t row = span.first_row + i;
    past[before] = load_first(d.in[Conv1dIn::kX].row<float>(row) + c, n);
    F32 y = bias;
    for (int j = 0; j <= before; ++j) y = fma(weight[j], past[j], y);
    store_first(d.out().row<float>(row) + c, activated(y, act), n);
    for (int j = 0; j < before; ++j) past[j] = past[j + 1];
    if (span.rows - i > count) continue;
    float* to = block_of(kept, slots, span.sequence, span.position + i + 1) + c;
    for (int j = 0; j < before; ++j) store_first(to + j * channels, past[j], n);
  }
}

}  // namespace

void fast_conv1d(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const int64_t chunks = (d.out().cols + kChunk - 1) / kChunk;
  const Share items = share(slots.span_count * chunks, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t begin = item % chunks * kChunk;
    const int64_t end = std::min<int64_t>(begin + kChunk, d.out().cols);
    for (int64_t c = begin; c < end; c += 16) convolve(d, slots, slots.spans[item / chunks], c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

constexpr int64_t kMostRows = 8;

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[Conv1dIn::kX]) && is_matrix(d.in[Conv1dIn::kWeight]) &&
         d.in[Conv1dIn::kWeight].rows <= kMostRows && absent_or_matrix(d.in[Conv1dIn::kBias]) &&
         (!d.in[Conv1dIn::kState] || d.in[Conv1dIn::kState].layout == Layout::kBlocks) &&
         is_matrix(d.out());
}

constexpr KernelRow kRows[] = {VEERY_F32_ROWS(op::kConv1d, accepts, conv1d, nullptr)};

}  // namespace

KernelRows fast_conv1d() { return kRows; }

}  // namespace veery
#endif
