#include "dtype/half_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dtype/half_lanes.cc"
#include "dtype/lane_targets.h"
//
#include <algorithm>

#include "dtype/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

struct Halves {
  I bits;
  I lost;  // finite before, infinite after the conversion
};

constexpr int32_t kInfinity = 0x7F800000;

HWY_INLINE Halves to_f16(V v) {
  const I bits = same_bits<I>(v);
  const I size = bits & 0x7FFFFFFF;
  const I beyond = size >= 0x477FF000;
  const I number = select(beyond, I{}, size);
  const I normal = ((number + (0xFFF + (number >> 13 & 1))) >> 13) - (112 << 10);
  // Adding 0.5 rounds to a multiple of 2^-24, the last bit of floats from 0.5 to 1.
  const I small = same_bits<I>(same_bits<V>(size) + 0.5F) - 0x3F000000;
  I half = select(size < 0x38800000, small, select(beyond, I{} + 0x7C00, normal));
  half = select(size > kInfinity, (size >> 13 & 0x1FF) | 0x7E00, half);
  return {half | (bits >> 16 & 0x8000), beyond & (size < kInfinity)};
}

HWY_INLINE Halves to_bf16(V v) {
  const I bits = same_bits<I>(v);
  const I size = bits & 0x7FFFFFFF;
  const I number = select(size > kInfinity, I{}, size);
  const I rounded = (number + (0x7FFF + (number >> 16 & 1))) >> 16;
  const I half = select(size > kInfinity, size >> 16 | 0x40, rounded);
  return {half | (bits >> 16 & 0x8000), (half >= kInfinity >> 16) & (size < kInfinity)};
}

HWY_INLINE V from_f16(I half) {
  const I exponent = half & 0x7C00;
  const I shifted = (half & 0x7FFF) << 13;
  const V small = to_floats(half & 0x3FF) * 5.9604644775390625e-8F;
  I bits = select(exponent > 0, shifted + (112 << 23), same_bits<I>(small));
  bits = select(exponent > 0x7BFF, shifted | kInfinity, bits);
  return same_bits<V>(bits | (half & 0x8000) << 16);
}

HWY_INLINE V from_bf16(I half) { return same_bits<V>(half << 16); }

/// Converts whole vectors, then the remainder padded with zeros.
template <typename Convert>
size_t encode_with(std::span<const float> in, std::byte* out, Convert convert) {
  for (size_t at = 0; at < in.size(); at += kLanes) {
    const size_t count = std::min<size_t>(kLanes, in.size() - at);
    float values[kLanes] = {};
    if (count < kLanes) std::memcpy(values, in.data() + at, count * sizeof(float));
    const Halves halves = convert(load(count < kLanes ? values : in.data() + at));
    int32_t lanes[kLanes];
    uint16_t narrow[kLanes];
    std::memcpy(lanes, &halves.bits, sizeof lanes);
    for (int j = 0; j < kLanes; ++j) narrow[j] = static_cast<uint16_t>(lanes[j]);
    std::memcpy(out + at * sizeof(uint16_t), narrow, count * sizeof(uint16_t));
    if (!any(halves.lost)) continue;
    std::memcpy(lanes, &halves.lost, sizeof lanes);
    return at + static_cast<size_t>(std::ranges::find_if_not(lanes, std::logical_not()) - lanes);
  }
  return in.size();
}

template <typename Convert>
void decode_with(const std::byte* in, std::span<float> out, Convert convert) {
  for (size_t at = 0; at < out.size(); at += kLanes) {
    const size_t count = std::min<size_t>(kLanes, out.size() - at);
    uint16_t narrow[kLanes] = {};
    std::memcpy(narrow, in + at * sizeof(uint16_t), count * sizeof(uint16_t));
    int32_t lanes[kLanes];
    for (int j = 0; j < kLanes; ++j) lanes[j] = narrow[j];
    I halves;
    std::memcpy(&halves, lanes, sizeof halves);
    const V values = convert(halves);
    std::memcpy(out.data() + at, &values, count * sizeof(float));
  }
}

size_t encode_halves(DType type, std::span<const float> in, std::byte* out) {
  if (type == DType::kF16) return encode_with(in, out, [](V v) HWY_ATTR { return to_f16(v); });
  return encode_with(in, out, [](V v) HWY_ATTR { return to_bf16(v); });
}

void decode_halves(DType type, const std::byte* in, std::span<float> out) {
  if (type == DType::kF16)
    return decode_with(in, out, [](I half) HWY_ATTR { return from_f16(half); });
  return decode_with(in, out, [](I half) HWY_ATTR { return from_bf16(half); });
}

}  // namespace

HalfConverter half_converter() { return {encode_halves, decode_halves}; }

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const std::vector<HalfConverter>& half_converters() {
  static const auto kConverters = VEERY_LANE_COPIES(half_converter);
  return kConverters;
}

}  // namespace veery
#endif
