// rope_reference.h: rotary position embeddings by their definition, in f64, for tests.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace veery::test {

/// The parameters of a rotation. `mode`: the numbers of veery_rope_mode.
struct RopeCase {
  int64_t batch = 1, heads = 1, tokens = 1, head_dim = 2, rope_dim = 2;
  int mode = 2;
  bool head_half = false;    ///< pairs are head_dim / 2 apart
  bool heads_first = false;  ///< [batch, heads, tokens, head_dim]
  double theta = 10000;
  std::array<uint32_t, 4> sections{};
  int scaling = 0;  ///< 1: linear, 2: Llama 3, 3: YaRN
  double factor = 1, context = 0, beta_fast = 32, beta_slow = 1, low = 1, high = 4;
  bool truncate = true;
  double magnitude = 1;
  std::vector<float> divisors;
  bool back = false;

  int64_t size() const { return batch * heads * tokens * head_dim; }
};

/// The axis of a pair, as ggml and transformers choose it.
inline int rope_axis(const RopeCase& c, int64_t pair) {
  if (c.mode == 0 || c.mode == 2) return 0;
  const int64_t s0 = c.sections[0], s1 = c.sections[1], s2 = c.sections[2], s3 = c.sections[3];
  const int64_t sector = pair % (s0 + s1 + s2 + s3);
  if (c.mode == 40) {
    if (sector % 3 == 1 && sector < 3 * s1) return 1;
    if (sector % 3 == 2 && sector < 3 * s2) return 2;
    if (sector % 3 == 0 && sector < 3 * s0) return 0;
    return s3 > 0 ? 3 : 0;
  }
  return sector < s0 ? 0 : sector < s0 + s1 ? 1 : sector < s0 + s1 + s2 ? 2 : 3;
}

/// Radians per position of a pair.
inline double rope_frequency(const RopeCase& c, int64_t pair) {
  const double pi = std::acos(-1.0);
  int64_t power = pair;
  auto dims = static_cast<double>(c.rope_dim);
  if (c.mode == 24) {
    dims /= 2;
    power = pair % (int64_t{c.sections[0]} + c.sections[1] + c.sections[2] + c.sections[3]);
    for (int axis = 0; axis < rope_axis(c, pair); ++axis)
      power -= c.sections[static_cast<size_t>(axis)];
  }
  double plain = 1 / std::pow(c.theta, 2 * static_cast<double>(power) / dims);
  if (!c.divisors.empty()) plain /= static_cast<double>(c.divisors[static_cast<size_t>(pair)]);
  const double stretched = plain / c.factor;
  if (c.scaling == 1) return stretched;
  if (c.scaling == 2) {
    const double wavelength = 2 * pi / plain;
    if (wavelength < c.context / c.high) return plain;
    if (wavelength > c.context / c.low) return stretched;
    const double smooth = (c.context / wavelength - c.low) / (c.high - c.low);
    return (1 - smooth) * stretched + smooth * plain;
  }
  if (c.scaling == 3) {
    const auto correction = [&](double turns) {
      return dims * std::log(c.context / (turns * 2 * pi)) / (2 * std::log(c.theta));
    };
    double low = correction(c.beta_fast), high = correction(c.beta_slow);
    if (c.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, dims - 1);
    if (low == high) high += 0.001;
    const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    return stretched * ramp + plain * (1 - ramp);
  }
  return plain;
}

/// The first dimension of a pair, and the second.
inline std::array<int64_t, 2> rope_pair(const RopeCase& c, int64_t pair) {
  if (c.mode == 0) return {2 * pair, 2 * pair + 1};
  return {pair, pair + (c.head_half ? c.head_dim : c.rope_dim) / 2};
}

/// Rotates `x`. `positions`: [4][batch * tokens].
inline std::vector<double> rope_reference(const RopeCase& c, const std::vector<double>& x,
                                          const std::vector<int32_t>& positions) {
  std::vector<double> y = x;
  for (int64_t row = 0; row < c.batch * c.heads * c.tokens; ++row) {
    const int64_t batch = row / (c.heads * c.tokens), inner = row % (c.heads * c.tokens);
    const int64_t token = batch * c.tokens + (c.heads_first ? inner % c.tokens : inner / c.heads);
    for (int64_t pair = 0; pair < c.rope_dim / 2; ++pair) {
      const double position =
          positions[static_cast<size_t>(rope_axis(c, pair) * c.batch * c.tokens + token)];
      const double angle = position * rope_frequency(c, pair) * (c.back ? -1 : 1);
      const double cos = std::cos(angle) * c.magnitude, sin = std::sin(angle) * c.magnitude;
      const auto [first, second] = rope_pair(c, pair);
      const auto a = static_cast<size_t>(row * c.head_dim + first);
      const auto b = static_cast<size_t>(row * c.head_dim + second);
      y[a] = x[a] * cos - x[b] * sin;
      y[b] = x[a] * sin + x[b] * cos;
    }
  }
  return y;
}

}  // namespace veery::test
