#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "dtype/blocks.h"
#include "dtype/dtype.h"
#include "dtype/encode/encode_lanes.h"
#include "dtype/half.h"
#include "dtype/half_lanes.h"

namespace veery {
namespace {

float largest_magnitude(std::span<const float> x) {
  float magnitude = 0;
  for (const float value : x) magnitude = std::max(magnitude, std::fabs(value));
  return magnitude;
}

// Rounds to the nearest integer, ties to even; |value| < 2^22.
float nearest(float value) { return (value + 12582912.0F) - 12582912.0F; }

void quantize(std::span<const float> x, float scale, int8_t* codes) {
  const float inverse = scale < 1e-30F ? 0.0F : 1.0F / scale;
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<int8_t>(nearest(std::clamp(x[i] * inverse, -127.0F, 127.0F)));
}

[[noreturn]] void refuse_scale(std::span<const float> block, size_t first) {
  const auto at = std::ranges::max_element(block, {}, [](float v) { return std::fabs(v); });
  throw Error(ErrorKind::kInput,
              "encode: element {} is {}: its block needs a scale beyond what the type can hold",
              first + static_cast<size_t>(at - block.begin()), *at);
}

// Encodes activation blocks: the scale is the largest magnitude / 127, without a search, so that
// activation quantisation in the kernels gives the same bits.
void encode_block(std::span<const float> x, size_t first, BlockQ8_1& b) {
  b.d = f32_to_f16(largest_magnitude(x) / 127);
  if ((b.d & 0x7FFFU) >= 0x7C00U) refuse_scale(x, first);
  quantize(x, f16_to_f32(b.d), b.qs);
  int sum = 0;
  for (const int8_t code : b.qs) sum += code;
  b.s = f32_to_f16(f16_to_f32(b.d) * static_cast<float>(sum));
  if ((b.s & 0x7FFFU) >= 0x7C00U) refuse_scale(x, first);
}

void encode_block(std::span<const float> x, size_t, BlockQ8_K& b) {
  const float magnitude = largest_magnitude(x);
  b.d = magnitude < 1e-30F ? 0 : magnitude / 127;
  quantize(x, b.d, b.qs);
  for (int j = 0; j < 16; ++j) {
    int sum = 0;
    for (int i = 16 * j; i < 16 * j + 16; ++i) sum += b.qs[i];
    b.bsums[j] = static_cast<int16_t>(sum);
  }
}

void check_range(DType type, std::span<const float> in, float limit) {
  for (size_t i = 0; i < in.size(); ++i)
    if (!(std::fabs(in[i]) <= limit))
      throw Error(ErrorKind::kInput,
                  "encode {}: element {} is {}, expected a finite number up to {:.2g}",
                  info(type).name, i, in[i], limit);
}

template <typename Block, int kElements>
void encode_blocks(DType type, std::span<const float> in, std::span<std::byte> out, float limit) {
  check_range(type, in, limit);
  for (size_t i = 0; i < in.size() / kElements; ++i) {
    Block block;
    encode_block(in.subspan(i * kElements, kElements), i * kElements, block);
    std::memcpy(out.data() + i * sizeof block, &block, sizeof block);
  }
}

template <typename T, typename Convert>
void encode_plain(std::span<const float> in, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < in.size(); ++i) {
    const T value = convert(in[i]);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
}

// Encodes f16 or bf16. Rejects finite numbers that become infinite; infinities and NaN are kept.
void encode_half(DType type, std::span<const float> in, std::span<std::byte> out) {
  const size_t lost = half_converters().front().encode(type, in, out.data());
  if (lost == in.size()) return;
  throw Error(ErrorKind::kInput, "encode {}: element {} is {}, the type holds up to {}",
              info(type).name, lost, in[lost],
              type == DType::kF16 ? 65504.0F : bf16_to_f32(0x7F7F));
}

// Returns the importances divided by their mean, with a lower bound so that no element is ignored;
// empty if all are 0.
std::vector<float> relative_weights(DType type, std::span<const float> importance) {
  double sum = 0;
  for (size_t i = 0; i < importance.size(); ++i) {
    if (!(importance[i] >= 0) || importance[i] > 1e30F)
      throw Error(ErrorKind::kInput, "encode {}: importance {} is {}, expected 0 to 1e30",
                  info(type).name, i, importance[i]);
    sum += importance[i];
  }
  if (sum <= 0) return {};
  const double scale = static_cast<double>(importance.size()) / sum;
  std::vector<float> weights;
  weights.reserve(importance.size());
  for (const float value : importance)
    weights.push_back(std::clamp(static_cast<float>(value * scale), 1e-4F, 1e6F));
  return weights;
}

void encode_quantized(DType type, std::span<const float> in, std::span<const float> importance,
                      std::byte* out) {
  const std::vector<float> weights = relative_weights(type, importance);
  const EncodeJob job = {in, weights.empty() ? nullptr : weights.data(), weights.size(), out};
  const size_t bad = lane_encoders(type).front()(type, job);
  if (bad == in.size()) return;
  check_range(type, in, kLargestEncoded);
  refuse_scale(in.subspan(bad, static_cast<size_t>(info(type).block)), bad);
}

}  // namespace

void encode(DType type, std::span<const float> in, std::span<std::byte> out,
            std::span<const float> importance) {
  const size_t needed = byte_size(type, static_cast<int64_t>(in.size()));
  if (out.size() != needed)
    throw Error(ErrorKind::kInput,
                "encode {}: found room for {} bytes, expected {} for {} elements", info(type).name,
                out.size(), needed, in.size());
  if (!importance.empty() && (in.size() % importance.size() != 0 ||
                              importance.size() % static_cast<size_t>(info(type).block) != 0))
    throw Error(ErrorKind::kInput,
                "encode {}: {} importances do not fit rows among {} elements of blocks of {}",
                info(type).name, importance.size(), in.size(), info(type).block);
  switch (type) {
    case DType::kF32: return encode_plain<float>(in, out, [](float v) { return v; });
    case DType::kF16:
    case DType::kBF16: return encode_half(type, in, out);
    case DType::kF64: return encode_plain<double>(in, out, [](float v) { return double{v}; });
    case DType::kQ8_1: return encode_blocks<BlockQ8_1, kSmallBlock>(type, in, out, kLargestEncoded);
    case DType::kQ8_K:
      return encode_blocks<BlockQ8_K, kSuperBlock>(type, in, out,
                                                   std::numeric_limits<float>::max());
    default: return encode_quantized(type, in, importance, out.data());
  }
}

}  // namespace veery
