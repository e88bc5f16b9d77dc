// rope_angles.h: the frequencies of rotary position embeddings and their scalings for long
// contexts; factors by position.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/ops/ops.h"

namespace veery {

/// Returns the factor of position_scale.
inline double position_factor(const PositionScaleAttr& attr, double position) {
  return 1 + attr.weight * std::log(1 + std::floor((position + attr.shift) / attr.period));
}

/// The frequency of pair i < dims / 2, in radians per position (Su et al., arXiv:2104.09864),
/// scaled as in the transformers library: kLlama3 keeps short wavelengths, stretches long ones and
/// blends in between; kYarn follows Peng et al., arXiv:2309.00071.
class RopeFrequencies {
 public:
  /// `divisors`: dims / 2 divisors from the model file that replace a formula, or nullptr.
  explicit RopeFrequencies(const AnglesAttr& attr, const float* divisors = nullptr)
      : attr_(attr), divisors_(divisors) {
    if (attr.scaling != RopeScaling::kYarn) return;
    low_ = turns_at(attr.beta_fast);
    high_ = turns_at(attr.beta_slow);
    if (attr.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(0.0, low_);
    high_ = std::min(attr.dims - 1.0, high_);
    if (high_ == low_) high_ += 0.001;
  }
  double operator()(int i) const {
    const double plain = unscaled(i);
    switch (attr_.scaling) {
      case RopeScaling::kNone: return plain;
      case RopeScaling::kLinear: return plain / attr_.factor;
      case RopeScaling::kLlama3: {
        const double turns = attr_.original_context * plain / (2 * std::numbers::pi);
        return blend(plain, (turns - attr_.low_freq_factor) /
                                (attr_.high_freq_factor - attr_.low_freq_factor));
      }
      case RopeScaling::kYarn: return blend(plain, 1 - (i - low_) / (high_ - low_));
    }
    return plain;
  }
  /// Returns the derivative of the frequency of pair i by its divisor.
  double slope(int i) const {
    const double plain = unscaled(i);
    double by_plain = (*this)(i) / plain;
    if (attr_.scaling == RopeScaling::kLlama3) {
      // The blend depends on the frequency too, except at its ends.
      const double by_turns = 1 / (attr_.high_freq_factor - attr_.low_freq_factor);
      const double by_frequency = attr_.original_context / (2 * std::numbers::pi) * by_turns;
      const double keep = by_frequency * plain - attr_.low_freq_factor * by_turns;
      if (keep > 0 && keep < 1) by_plain += (plain - plain / attr_.factor) * by_frequency;
    }
    return -by_plain * plain / divisor(i);
  }
  /// Returns the factor of cos and sin at a position.
  double magnitude(double position) const {
    if (attr_.temperature == 0) return attr_.attention_factor;
    return attr_.attention_factor *
           position_factor({attr_.temperature, attr_.original_context}, position);
  }

 private:
  double divisor(int i) const {
    return divisors_ != nullptr ? static_cast<double>(divisors_[i]) : 1.0;
  }
  // The error of pow grows with that of the exponent only; exp(i * step) would add that of step.
  double unscaled(int i) const {
    return 1 / std::pow(attr_.theta, 2.0 * i / attr_.dims) / divisor(i);
  }
  double blend(double plain, double keep) const {
    const double part = std::clamp(keep, 0.0, 1.0);
    return plain * part + plain / attr_.factor * (1 - part);
  }
  // Returns the (fractional) pair that makes `turns` full turns within the original context.
  double turns_at(double turns) const {
    return attr_.dims * std::log(attr_.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(attr_.theta));
  }

  AnglesAttr attr_;
  const float* divisors_;
  double low_ = 0, high_ = 1;
};

}  // namespace veery
