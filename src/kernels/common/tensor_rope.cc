#include "kernels/common/tensor_rope.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/common/rope_angles.h"

namespace veery {
namespace {

constexpr int64_t kMostDimensions = 1 << 20;
/// Kernels reduce angles below 2^51; positions are at most 2^31.
constexpr double kMostFrequency = 1 << 20;

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

bool has_sections(RopeMode mode) {
  return mode == RopeMode::kMrope || mode == RopeMode::kImrope || mode == RopeMode::kVision;
}

std::string invalid_dimensions(const RopeParameters& p) {
  for (const auto& [name, value] : {std::pair{"head_dim", p.head_dim}, {"rope_dim", p.rope_dim}}) {
    if (value < 1) return fmt::format("{} is {}, expected 1 or more", name, value);
    if (value % 2 != 0) return fmt::format("{} is {}, expected an even number", name, value);
    if (value > kMostDimensions)
      return fmt::format("{} is {}, expected at most {}", name, value, kMostDimensions);
  }
  if (p.rope_dim > p.head_dim)
    return fmt::format("rope_dim is {}, expected at most head_dim, {}", p.rope_dim, p.head_dim);
  return "";
}

std::string invalid_mode(const RopeParameters& p) {
  switch (p.mode) {
    case RopeMode::kInterleaved:
    case RopeMode::kNeox:
    case RopeMode::kMrope:
    case RopeMode::kVision:
    case RopeMode::kImrope: break;
    default:
      return fmt::format(
          "mode is {}, expected 0 (interleaved), 2 (NeoX), 8 (MROPE), 24 (vision) or 40 (IMROPE)",
          static_cast<int>(p.mode));
  }
  if (p.pairing != RopePairing::kRopeHalf && p.pairing != RopePairing::kHeadHalf)
    return fmt::format("pairing is {}, expected 0 (rope_dim / 2) or 1 (head_dim / 2)",
                       static_cast<int>(p.pairing));
  if (has_sections(p.mode) && p.sections == std::array<uint32_t, 4>{})
    return "sections are all 0, expected 1 or more pairs in one of them";
  return "";
}

std::string invalid_yarn(const AnglesAttr& a) {
  if (a.theta <= 1) return fmt::format("theta_base is {}, expected more than 1 for YaRN", a.theta);
  for (const auto& [name, value] :
       {std::pair{"beta_fast", a.beta_fast}, {"beta_slow", a.beta_slow}})
    if (!is_positive(value))
      return fmt::format("{} is {}, expected a finite number above 0", name, value);
  if (a.beta_fast <= a.beta_slow)
    return fmt::format("beta_fast is {}, expected more than beta_slow, {}", a.beta_fast,
                       a.beta_slow);
  return "";
}

std::string invalid_llama3(const AnglesAttr& a) {
  if (!is_positive(a.low_freq_factor))
    return fmt::format("low_freq_factor is {}, expected a finite number above 0",
                       a.low_freq_factor);
  if (!std::isfinite(a.high_freq_factor) || a.high_freq_factor <= a.low_freq_factor)
    return fmt::format("high_freq_factor is {}, expected a finite number above low_freq_factor, {}",
                       a.high_freq_factor, a.low_freq_factor);
  return "";
}

std::string invalid_scaling(const RopeParameters& p) {
  const AnglesAttr& a = p.angles;
  if (a.scaling != RopeScaling::kNone && !is_positive(a.factor))
    return fmt::format("factor is {}, expected a finite number above 0", a.factor);
  if (!is_positive(a.attention_factor))
    return fmt::format("attention_factor is {}, expected a finite number above 0",
                       a.attention_factor);
  if (a.scaling == RopeScaling::kNone || a.scaling == RopeScaling::kLinear) return "";
  if (p.mode == RopeMode::kVision)
    return fmt::format("scaling is {}, expected 0 (none) or 1 (linear) in vision mode",
                       static_cast<int>(a.scaling));
  if (!is_positive(a.original_context))
    return fmt::format("original_context is {}, expected a finite number above 0",
                       a.original_context);
  return a.scaling == RopeScaling::kYarn ? invalid_yarn(a) : invalid_llama3(a);
}

std::string invalid_divisors(const RopeParameters& p) {
  if (!p.divisors.empty() && std::ssize(p.divisors) != p.rope_dim / 2)
    return fmt::format("frequency_factors are {}, expected rope_dim / 2 = {}", p.divisors.size(),
                       p.rope_dim / 2);
  for (size_t i = 0; i < p.divisors.size(); ++i)
    if (!is_positive(p.divisors[i]))
      return fmt::format("frequency_factors[{}] is {}, expected a finite number above 0", i,
                         p.divisors[i]);
  return "";
}

/// A pair within the sections.
struct Sector {
  uint8_t axis;
  int64_t index;  ///< in the run of its axis
};

Sector run_of(int64_t at, const std::array<uint32_t, 4>& sections) {
  uint8_t axis = 0;
  while (axis < 3 && at >= sections[axis]) at -= sections[axis++];
  return {axis, at};
}

// The axes take turns until their pairs are used up. Pairs that are then left belong to e, or, in a
// model without pairs for e, to t, as in transformers (Qwen3-VL with sections 24, 20, 20).
uint8_t alternating_axis(int64_t at, const std::array<uint32_t, 4>& sections) {
  const auto axis = static_cast<uint8_t>(at % 3);
  if (at < 3 * int64_t{sections[axis]}) return axis;
  return sections[3] > 0 ? 3 : 0;
}

Sector sector_of(int64_t pair, const RopeParameters& p) {
  if (!has_sections(p.mode)) return {0, pair};
  const int64_t at = pair % std::accumulate(p.sections.begin(), p.sections.end(), int64_t{0});
  if (p.mode == RopeMode::kImrope) return {alternating_axis(at, p.sections), pair};
  const Sector run = run_of(at, p.sections);
  return {run.axis, p.mode == RopeMode::kVision ? run.index : pair};
}

// The frequencies of all pairs.
std::vector<double> frequencies(const RopeParameters& p) {
  AnglesAttr attr = p.angles;
  const bool is_vision = p.mode == RopeMode::kVision;
  attr.dims = static_cast<int32_t>(is_vision ? p.rope_dim / 2 : p.rope_dim);
  const float* divisors = p.divisors.empty() ? nullptr : p.divisors.data();
  const RopeFrequencies of(attr, is_vision ? nullptr : divisors);
  std::vector<double> all(static_cast<size_t>(p.rope_dim / 2));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = of(static_cast<int>(sector_of(static_cast<int64_t>(i), p).index));
    if (is_vision && divisors != nullptr) all[i] /= divisors[i];
  }
  return all;
}

std::string invalid_frequencies(const RopeParameters& p) {
  const std::vector<double> all = frequencies(p);
  for (size_t i = 0; i < all.size(); ++i)
    if (!(all[i] <= kMostFrequency))
      return fmt::format(
          "theta_base is {}: the frequency of pair {} is {}, expected at most {} radians per "
          "position",
          p.angles.theta, i, all[i], kMostFrequency);
  return "";
}

}  // namespace

std::string invalid_rope(const RopeParameters& p) {
  if (std::string wrong = invalid_dimensions(p); !wrong.empty()) return wrong;
  if (!is_positive(p.angles.theta))
    return fmt::format("theta_base is {}, expected a finite number above 0", p.angles.theta);
  for (const auto check : {invalid_mode, invalid_scaling, invalid_divisors, invalid_frequencies})
    if (std::string wrong = check(p); !wrong.empty()) return wrong;
  return "";
}

RopeTable::RopeTable(const RopeParameters& p) {
  if (const std::string wrong = invalid_rope(p); !wrong.empty())
    throw Error(ErrorKind::kInput, "rope: {}", wrong);
  frequency = frequencies(p);
  for (int64_t i = 0; i < pairs(); ++i) axis.push_back(sector_of(i, p).axis);
  magnitude = p.angles.attention_factor;
  const bool adjacent = p.mode == RopeMode::kInterleaved;
  step = adjacent ? 2 : 1;
  distance = adjacent ? 1 : p.pairing == RopePairing::kRopeHalf ? p.rope_dim / 2 : p.head_dim / 2;
}

}  // namespace veery
