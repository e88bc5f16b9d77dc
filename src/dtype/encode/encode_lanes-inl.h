// encode_lanes-inl.h: loads the elements of a job into lanes of blocks, and stores fitted blocks.
#if defined(VEERY_DTYPE_ENCODE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_ENCODE_LANES_INL_H
#undef VEERY_DTYPE_ENCODE_LANES_INL_H
#else
#define VEERY_DTYPE_ENCODE_LANES_INL_H
#endif

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "dtype/encode/encode_lanes.h"
#include "dtype/lanes-inl.h"
#include "dtype/pack_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

inline bool fits_half(float scale) { return (f32_to_f16(scale) & 0x7FFFU) < 0x7C00U; }

/// Returns the weights of `count` elements from element `at` on; gathers them in `buffer` if a row
/// ends among them.
inline const float* weights_at(const EncodeJob& job, size_t at, size_t count, float* buffer) {
  if (job.weights == nullptr) return nullptr;
  const size_t begin = at % job.row;
  if (begin + count <= job.row) return job.weights + begin;
  for (size_t i = 0; i < count; ++i) buffer[i] = job.weights[(begin + i) % job.row];
  return buffer;
}

/// Returns the first lane with an element that is NaN or too large, or -1.
template <int kSize>
int first_out_of_range(const Blocks<kSize>& blocks) {
  I largest = {};  // compared as integers, in whose order NaN is the largest
  for (const V& x : blocks.x) {
    const I size = same_bits<I>(magnitude(x));
    largest = select(size > largest, size, largest);
  }
  const auto limit = static_cast<int32_t>(bits_of_float(kLargestEncoded));
  if (!any(largest > limit)) return -1;
  int32_t lanes[kLanes];
  std::memcpy(lanes, &largest, sizeof lanes);
  const auto at = std::ranges::find_if(lanes, [&](int32_t size) { return size > limit; });
  return static_cast<int>(at - lanes);
}

/// The weights of consecutive sets of 16 blocks, transposed as in Blocks. They repeat with the
/// rows, so each distinct set is computed once.
template <int kSize>
class RepeatedWeights {
 public:
  explicit RepeatedWeights(const EncodeJob& job) {
    if (job.weights == nullptr) return;
    const size_t row_blocks = job.row / kSize, whole = job.in.size() / kSize / kLanes;
    period_ = std::min(whole, row_blocks / std::gcd(row_blocks, size_t{kLanes}));
    lanes_.resize(period_ * kSetFloats);
    for (size_t i = 0; i < period_; ++i) {
      float buffer[kSetFloats];
      V set[kSize];
      Blocks<kSize>::transpose(weights_at(job, i * kSetFloats, kSetFloats, buffer), kLanes, set);
      std::memcpy(&lanes_[i * kSetFloats], set, sizeof set);
    }
  }
  /// Copies the weights of set `i`, all of whose lanes are in use.
  void read(size_t i, Blocks<kSize>& to) const {
    std::memcpy(to.w, &lanes_[i % period_ * kSetFloats], sizeof to.w);
  }

 private:
  static constexpr size_t kSetFloats = size_t{kLanes} * kSize;
  size_t period_ = 0;  // in sets
  std::vector<float> lanes_;
};

/// Calls body(blocks, first block, block count) for all blocks of kSize elements, 16 at a time in
/// multiples of kGroup. `body` returns the index of the first block whose scale does not fit, or
/// -1.
template <int kSize, int kGroup, typename Body>
size_t for_lanes(const EncodeJob& job, const Body& body) {
  const size_t count = job.in.size() / kSize;
  const RepeatedWeights<kSize> weights(job);
  for (size_t at = 0; at < count; at += kLanes) {
    const size_t lanes = std::min<size_t>(kLanes, count - at);
    const float* const values = job.in.data() + at * kSize;
    Blocks<kSize> blocks;
    if (job.weights != nullptr && lanes == kLanes) {
      Blocks<kSize>::transpose(values, kLanes, blocks.x);
      weights.read(at / kLanes, blocks);
    } else {
      float buffer[kLanes * kSize];
      blocks.read(values, weights_at(job, at * kSize, lanes * kSize, buffer),
                  static_cast<int>(lanes));
    }
    const int outside = first_out_of_range(blocks);
    if (outside >= 0) return (at + static_cast<size_t>(outside / kGroup * kGroup)) * kSize;
    if (job.weights == nullptr) blocks.weigh_by_size(blocks.squares() * (1.0F / kSize));
    const int bad = body(blocks, at / kGroup, static_cast<int>(lanes) / kGroup);
    if (bad >= 0) return (at + static_cast<size_t>(bad * kGroup)) * kSize;
  }
  return job.in.size();
}

template <typename Block>
void put(const EncodeJob& job, size_t index, const Block& block) {
  std::memcpy(job.out + index * sizeof block, &block, sizeof block);
}

template <typename Block>
int put_super(const EncodeJob& job, const SuperBlock* super, size_t first, int count) {
  for (int k = 0; k < count; ++k) {
    if (!fits_half(super[k].d) || !fits_half(super[k].dmin)) return k;
    Block block;
    pack(super[k], block);
    put(job, first + static_cast<size_t>(k), block);
  }
  return -1;
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif
