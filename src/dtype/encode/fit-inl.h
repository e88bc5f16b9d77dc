// fit-inl.h: weighted least-squares search for scale, offset and codes of quantised blocks.
#if defined(VEERY_DTYPE_FIT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_FIT_INL_H
#undef VEERY_DTYPE_FIT_INL_H
#else
#define VEERY_DTYPE_FIT_INL_H
#endif

#include "dtype/encode/first_fits.h"
#include "dtype/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

HWY_INLINE V nearest_code(V value, CodeRange range) {
  return nearest(lane_max(lane_min(value, broadcast(static_cast<float>(range.high))),
                          broadcast(static_cast<float>(range.low))));
}

/// An affine map: x is approximated by scale * code + offset.
struct Affine {
  V scale, offset;
};

/// Computes the nearest codes; if the scale is 0, the codes closest to 0.
template <int kSize>
HWY_NOINLINE void quantize(const Blocks<kSize>& b, const Affine& map, CodeRange range, V* codes) {
  const V inverse = reciprocal(map.scale);
  for (int i = 0; i < kSize; ++i) codes[i] = nearest_code((b.x[i] - map.offset) * inverse, range);
}

/// Returns the weighted squared error with the nearest codes.
template <int kSize>
HWY_NOINLINE V squared_error(const Blocks<kSize>& b, const Affine& map, CodeRange range) {
  const V inverse = reciprocal(map.scale);
  V sum = {};
  for (int i = 0; i < kSize; ++i) {
    const V code = nearest_code((b.x[i] - map.offset) * inverse, range);
    const V error = map.scale * code + map.offset - b.x[i];
    sum += b.w[i] * error * error;
  }
  return sum;
}

/// Returns for each block the scale that minimises the weighted squared error of scale * code.
template <int kSize>
V fit_scale(const Blocks<kSize>& b, CodeRange range) {
  V extreme = {};
  for (int i = 0; i < kSize; ++i)
    extreme = select(magnitude(b.x[i]) > magnitude(extreme), b.x[i], extreme);
  const V unit = reciprocal(extreme);
  V best_scale = {}, best = {};
  const auto consider = [&](V inverse) HWY_ATTR {
    V qq = {}, xq = {};
    for (int i = 0; i < kSize; ++i) {
      const V code = nearest_code(b.x[i] * inverse, range);
      const V weighted = b.w[i] * code;
      qq += weighted * code;
      xq += weighted * b.x[i];
    }
    const V scale = xq * reciprocal(qq);
    const V gain = scale * xq;  // the squared error is sum(w x^2) - gain
    const I better = gain > best;
    best = select(better, gain, best);
    best_scale = select(better, scale, best_scale);
    return better;
  };
  for (const float factor : first_scales(range))
    consider(unit * (static_cast<float>(range.low) * factor));
  for (int k = 0; k < 2 && any(consider(reciprocal(best_scale))); ++k) {
  }
  return best_scale;
}

/// As fit_scale() for scale * code + offset with scale >= 0 and codes from 0; the offset is at most
/// 0 unless `any_offset`.
template <int kSize>
class AffineFit {
 public:
  AffineFit(const Blocks<kSize>& b, CodeRange range, bool any_offset)
      : b_(b), range_(range), any_offset_(any_offset) {}

  Affine run() {
    V low = b_.x[0], high = b_.x[0], sum = {};
    for (int i = 0; i < kSize; ++i) {
      low = lane_min(low, b_.x[i]);
      high = lane_max(high, b_.x[i]);
      weight_ += b_.w[i];
      sum += b_.w[i] * b_.x[i];
    }
    if (!any_offset_) low = lane_min(low, V{});
    mean_ = sum * reciprocal(weight_);
    for (int i = 0; i < kSize; ++i) {
      x_[i] = b_.x[i] - mean_;
      sum_x_ += b_.w[i] * x_[i];
    }
    const V width = high - low;
    best_ = {V{}, low};
    const I flat = (width < 1e-7F * lane_max(magnitude(low), magnitude(high))) | (width < 1e-20F);
    const V per_width = reciprocal(select(flat, V{}, width));
    const auto codes = static_cast<float>(range_.high);
    for (const auto [held, factor] : first_maps(range_)) {
      V offset = low + width * (held - held / factor);
      if (!any_offset_) offset = lane_min(offset, V{});
      consider(per_width * (codes * factor), offset);
    }
    for (int k = 0; k < 3 && any(consider(reciprocal(best_.scale), best_.offset)); ++k) {
    }
    return best_;
  }

 private:
  // Solves the least squares problem for the codes nearest under (x - offset) * inverse, and keeps
  // the result where it is better. Values are relative to their weighted mean and codes to the code
  // of that mean, so that little cancels even if one element outweighs all others.
  HWY_NOINLINE I consider(V inverse, V offset) {
    const V from = offset - mean_;
    const V middle = nearest_code(-(from * inverse), range_);
    V q = {}, qq = {}, xq = {};
    for (int i = 0; i < kSize; ++i) {
      const V code = nearest_code((x_[i] - from) * inverse, range_) - middle;
      const V weighted = b_.w[i] * code;
      q += weighted;
      qq += weighted * code;
      xq += weighted * x_[i];
    }
    const V divisor = reciprocal(weight_ * qq - q * q);
    V scale = (weight_ * xq - sum_x_ * q) * divisor;
    const V lift = (qq * sum_x_ - q * xq) * divisor;
    V gain = scale * xq + lift * sum_x_;
    V found = mean_ + lift - scale * middle;
    if (!any_offset_) {
      // With an offset of 0 the error is that of scale * code.
      const V all_xq = xq + mean_ * q + middle * (sum_x_ + mean_ * weight_);
      const V all_qq = qq + middle * (2.0F * q + middle * weight_);
      const V alone = all_xq * reciprocal(all_qq);
      const I above = (found > 0.0F) | (scale <= 0.0F);
      scale = select(above, alone, scale);
      gain = select(above, alone * all_xq - mean_ * (2.0F * sum_x_ + mean_ * weight_), gain);
      found = select(above, V{}, found);
    }
    const I better = (scale > 0.0F) & (inverse > 0.0F) & ((gain > gain_) | (best_.scale <= 0.0F));
    gain_ = select(better, gain, gain_);
    best_.scale = select(better, scale, best_.scale);
    best_.offset = select(better, found, best_.offset);
    return better;
  }

  const Blocks<kSize>& b_;
  const CodeRange range_;
  const bool any_offset_;
  V x_[kSize];  // elements minus mean_
  V mean_ = {}, weight_ = {}, sum_x_ = {}, gain_ = {};
  Affine best_ = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif
