// Causal depthwise convolutions with a short kernel (kConv1d).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrence/conv1d.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/activate-inl.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/common/blocks.h"
#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

constexpr int kMaxWidth = 8;
// Channels per work item.
constexpr int64_t kChunk = 128;

/// Processes up to kChunk channels of one span, row after row. Processing 16 channels of all rows
/// was slower, because each row is in a different cache line and page.
class Channels {
 public:
  Channels(const Dispatch& d, const RunShape& shape, const Span& span, int64_t begin, int64_t end)
      : d_(d),
        shape_(shape),
        span_(span),
        begin_(begin),
        size_(end - begin),
        before_(static_cast<int>(d.in[Conv1dIn::kWeight].rows) - 1) {
    const Operand& kept = d.in[Conv1dIn::kState];
    if (!kept || span.position == 0) {
      std::fill_n(earlier_, before_ * kChunk, 0.0F);
      return;
    }
    // A copy, because a state block that is written may be the one that is read.
    const float* from = block_of(kept, shape, span.sequence, span.position) + begin;
    for (int j = 0; j < before_; ++j)
      std::memcpy(earlier_ + j * kChunk, from + j * d.out().cols, bytes());
  }

  HWY_INLINE void walk() {
    const Operand& kept = d_.in[Conv1dIn::kState];
    const int64_t count = kept ? blocks_kept(kept, shape_, span_.sequence) : 0;
    for (int64_t i = 0; i < span_.rows; ++i) {
      if (before_ == 3)
        row<3>(i);
      else
        row<-1>(i);
      if (span_.rows - i > count) continue;
      float* to = block_of(kept, shape_, span_.sequence, span_.position + i + 1) + begin_;
      for (int j = 0; j < before_; ++j)
        std::memcpy(to + j * d_.out().cols, input(i + 1 + j), bytes());
    }
  }

 private:
  size_t bytes() const { return static_cast<size_t>(size_) * sizeof(float); }
  // Returns input row i; the first before_ rows precede the span.
  HWY_INLINE const float* input(int64_t i) const {
    if (i < before_) return earlier_ + i * kChunk;
    return d_.in[Conv1dIn::kX].row<float>(span_.first_row + i - before_) + begin_;
  }

  template <int kBefore>
  HWY_INLINE void row(int64_t i) {
    const int before = kBefore >= 0 ? kBefore : before_;
    const float* past[kMaxWidth];
    const float* weight[kMaxWidth];
    for (int j = 0; j <= before; ++j) {
      past[j] = input(i + j);
      weight[j] = d_.in[Conv1dIn::kWeight].row<float>(j) + begin_;
    }
    const float* bias =
        d_.in[Conv1dIn::kBias] ? d_.in[Conv1dIn::kBias].row<float>(0) + begin_ : nullptr;
    const ActivateAttr act = d_.as<Conv1dAttr>().activation;
    float* out = d_.out().row<float>(span_.first_row + i) + begin_;
    const auto of = [&](int64_t c, auto get) {
      F32 y = bias != nullptr ? get(bias + c) : zero();
      for (int j = 0; j <= before; ++j) y = fma(get(weight[j] + c), get(past[j] + c), y);
      return activated(y, act);
    };
    int64_t c = 0;
    for (; c + 16 <= size_; c += 16) store(out + c, of(c, [](const float* p) { return load(p); }));
    const int n = static_cast<int>(size_ - c);
    if (n > 0) store_first(out + c, of(c, [n](const float* p) { return load_first(p, n); }), n);
  }

  const Dispatch& d_;
  const RunShape& shape_;
  const Span& span_;
  const int64_t begin_, size_;
  const int before_;
  float earlier_[(kMaxWidth - 1) * kChunk];
};

}  // namespace

void fast_conv1d(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t chunks = (d.out().cols + kChunk - 1) / kChunk;
  const Share items = share(shape.span_count * chunks, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t begin = item % chunks * kChunk;
    const int64_t end = std::min<int64_t>(begin + kChunk, d.out().cols);
    Channels(d, shape, shape.spans[item / chunks], begin, end).walk();
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
