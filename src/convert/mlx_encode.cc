#include "convert/mlx_encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

using Mode = MlxFormat::Mode;

constexpr float kLeastScale = 1e-7F;  // minimum scale of affine groups
constexpr std::array<float, 8> kE2m1 = {0, .5F, 1, 1.5F, 2, 3, 4, 6};
constexpr float kLargestE2m1 = 6, kLargestE4m3 = 448;

// Rounds a number to a type of 2 or 4 bytes.
float rounded(DType dtype, float value) {
  switch (dtype) {
    case DType::kF16: return f16_to_f32(f32_to_f16(value));
    case DType::kBF16: return bf16_to_f32(f32_to_bf16(value));
    default: return value;
  }
}

void store(DType dtype, float value, std::byte*& out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, &value, sizeof value);
    out += sizeof value;
    return;
  }
  const uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(out, &half, sizeof half);
  out += sizeof half;
}

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22.
float nearest(float value) {
  constexpr float kShift = 0x1.8p23F;
  return (value + kShift) - kShift;
}

// Packs codes into one bit stream, lowest bits first.
void pack(std::span<const uint8_t> codes, int bits, std::byte*& out) {
  uint32_t held = 0;
  int count = 0;
  for (const uint8_t code : codes) {
    held |= static_cast<uint32_t>(code) << count;
    for (count += bits; count >= 8; count -= 8, held >>= 8) *out++ = static_cast<std::byte>(held);
  }
}

struct Affine {
  float scale = 0, bias = 0;
};

// Codes count from the end of the range that is farther from 0. That end is an integer multiple of
// the scale, so that 0 is exact.
Affine fit(std::span<const float> group, float levels) {
  float low = group[0], high = group[0];
  for (const float value : group) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const bool negative = std::abs(low) > std::abs(high);
  const float step = std::max((high - low) / levels, kLeastScale);
  const Affine plain{negative ? step : -step, 0};
  const float edge = negative ? low : high;
  const float steps = std::rint(edge / plain.scale);
  return steps == 0 ? plain : Affine{edge / steps, edge};
}

void encode_affine(std::span<const float> group, const MlxFormat& format, DType dtype,
                   uint8_t* codes, MlxOutput& out) {
  const auto levels = static_cast<float>((1 << format.bits) - 1);
  const Affine affine = fit(group, levels);
  for (size_t i = 0; i < group.size(); ++i) {
    const float code = nearest((group[i] - affine.bias) / affine.scale);
    codes[i] = static_cast<uint8_t>(std::min(std::max(code, 0.0F), levels));
  }
  store(dtype, affine.scale, out.scales);
  store(dtype, affine.bias, out.biases);
}

// Returns the exponent + 127 of the smallest power of two that is at least `value`; 127 for 0.
uint8_t e8m0_above(float value) {
  if (value == 0) return 127;
  int exponent = 0;
  if (std::frexp(value, &exponent) == 0.5F) --exponent;
  return static_cast<uint8_t>(std::clamp(exponent, -127, 127) + 127);
}

// Rounds to the nearest magnitude, ties to the smaller one; values that round to 0 lose their sign.
uint8_t e2m1(float value) {
  const float magnitude = std::abs(value);
  if (!std::isfinite(magnitude)) return 0;  // the scale is 0
  uint8_t code = 0;
  for (uint8_t i = 1; i < kE2m1.size(); ++i)
    if (magnitude > (kE2m1[i - 1U] + kE2m1[i]) / 2) code = i;
  return code != 0 && std::signbit(value) ? code | 8 : code;
}

void encode_float(std::span<const float> group, const MlxFormat& format, DType dtype,
                  uint8_t* codes, MlxOutput& out) {
  float largest = 0;
  for (const float value : group) largest = std::max(largest, std::abs(value));
  const bool wide = format.mode == Mode::kMxfp8;
  const float wanted = rounded(dtype, largest / (wide ? kLargestE4m3 : kLargestE2m1));
  const bool nvidia = format.mode == Mode::kNvfp4;
  const uint8_t bits = nvidia ? f32_to_fp8_e4m3(wanted) : e8m0_above(wanted);
  *out.scales++ = static_cast<std::byte>(bits);
  const float scale =
      nvidia ? rounded(dtype, fp8_e4m3_to_f32(bits)) : std::ldexp(1.0F, int{bits} - 127);
  for (size_t i = 0; i < group.size(); ++i) {
    const float value = rounded(dtype, group[i] / scale);
    codes[i] = wide ? f32_to_fp8_e4m3(value) : e2m1(value);
  }
}

}  // namespace

uint8_t f32_to_fp8_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::min(std::abs(value), kLargestE4m3);
  constexpr float kLeastNormal = 0x1p-6F, kPerUnit = 0x1p9F;
  if (magnitude < kLeastNormal)
    return static_cast<uint8_t>(sign | static_cast<int>(nearest(magnitude * kPerUnit)));
  constexpr int kDropped = 20;  // of the 23 fraction bits
  constexpr uint32_t kBias = (127 - 7) << 3;
  auto bits = std::bit_cast<uint32_t>(magnitude);
  bits += (1U << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1);
  return static_cast<uint8_t>(sign | ((bits >> kDropped) - kBias));
}

MlxRow mlx_row(const MlxFormat& format, DType dtype, int64_t columns) {
  const auto groups = static_cast<size_t>(columns / format.group);
  const auto codes = static_cast<size_t>(columns * format.bits / 8);
  if (format.mode != Mode::kAffine) return {codes, groups, 0};
  const size_t size = groups * byte_size(dtype, 1);
  return {codes, size, size};
}

void encode_mlx(const MlxFormat& format, DType dtype, std::span<const float> values,
                const MlxOutput& out) {
  MlxOutput at = out;
  const auto size = static_cast<size_t>(format.group);
  std::vector<uint8_t> codes(size);
  VEERY_CHECK(values.size() % size == 0);
  for (size_t begin = 0; begin < values.size(); begin += size) {
    const std::span<const float> group = values.subspan(begin, size);
    for (size_t i = 0; i < size; ++i)
      if (!std::isfinite(group[i]))
        throw Error(ErrorKind::kInput, "element {} is {}, expected a finite number", begin + i,
                    group[i]);
    if (format.mode == Mode::kAffine)
      encode_affine(group, format, dtype, codes.data(), at);
    else
      encode_float(group, format, dtype, codes.data(), at);
    pack(codes, format.bits, at.codes);
  }
}

}  // namespace veery
