#include "dtype/fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtype/half.h"

namespace veery {
namespace {

constexpr int kLargestBlock = 32;  // elements that one scale serves

// Nearest integer of |value| < 2^22, ties to even: the sum's low bits are the integer. Vectorises,
// which a call of lrint does not.
inline float nearest(float value) { return (value + 12582912.0F) - 12582912.0F; }

inline float nearest_code(float value, CodeRange range) {
  return nearest(std::clamp(value, static_cast<float>(range.low), static_cast<float>(range.high)));
}

// The nearest codes under (x - offset) * inverse, as floats.
void round_codes(std::span<const float> x, float inverse, float offset, CodeRange range,
                 float* codes) {
  for (size_t i = 0; i < x.size(); ++i) codes[i] = nearest_code((x[i] - offset) * inverse, range);
}

float reciprocal(float scale) { return std::fabs(scale) < 1e-30F ? 0.0F : 1.0F / scale; }

// Squared error of decoding as scale * code + offset with the nearest codes.
double squared_error(std::span<const float> x, Affine map, CodeRange range) {
  const float inverse = reciprocal(map.scale);
  float sum[4] = {};  // independent sums, so that the loop vectorises
  for (size_t i = 0; i < x.size(); i += 4)
    for (size_t k = 0; k < 4; ++k) {
      const float code = nearest_code((x[i + k] - map.offset) * inverse, range);
      const float error = map.scale * code + map.offset - x[i + k];
      sum[k] += error * error;
    }
  return double{sum[0]} + sum[1] + sum[2] + sum[3];
}

struct Sums {
  double q = 0, qq = 0, x = 0, xq = 0;
};

Sums sums_of(std::span<const float> x, const float* codes) {
  float q[4] = {}, qq[4] = {}, xs[4] = {}, xq[4] = {};
  for (size_t i = 0; i < x.size(); i += 4)
    for (size_t k = 0; k < 4; ++k) {
      q[k] += codes[i + k];
      qq[k] += codes[i + k] * codes[i + k];
      xs[k] += x[i + k];
      xq[k] += x[i + k] * codes[i + k];
    }
  const auto total = [](const float* s) { return double{s[0]} + s[1] + s[2] + s[3]; };
  return {total(q), total(qq), total(xs), total(xq)};
}

// Least squares of scale and offset for fixed codes; scale 0 where there is no solution with scale
// > 0.
Affine solve(const Sums& s, double count, bool any_offset) {
  const double determinant = count * s.qq - s.q * s.q;
  if (determinant > 0) {
    const double scale = (count * s.xq - s.x * s.q) / determinant;
    const double offset = (s.qq * s.x - s.q * s.xq) / determinant;
    if (scale > 0 && (any_offset || offset <= 0))
      return {static_cast<float>(scale), static_cast<float>(offset)};
  }
  if (any_offset || s.qq <= 0 || s.xq <= 0) return {};
  return {static_cast<float>(s.xq / s.qq), 0};
}

}  // namespace

float largest_magnitude(std::span<const float> x) {
  float magnitude = 0;
  for (const float value : x) magnitude = std::max(magnitude, std::fabs(value));
  return magnitude;
}

void quantize(std::span<const float> x, Affine map, CodeRange range, int8_t* codes) {
  const float inverse = reciprocal(map.scale);
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<int8_t>(nearest_code((x[i] - map.offset) * inverse, range));
}

float fit_scale(std::span<const float> x, CodeRange range) {
  float extreme = 0;
  for (const float value : x)
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  std::array<float, kLargestBlock> codes;
  float best_scale = 0;
  double best = -1;
  const auto consider = [&](float inverse) {
    round_codes(x, inverse, 0, range, codes.data());
    const Sums s = sums_of(x, codes.data());
    if (s.qq <= 0) return false;
    const double gain = s.xq * s.xq / s.qq;  // the squared error is sum(x^2) - gain
    if (gain <= best) return false;
    best = gain;
    best_scale = static_cast<float>(s.xq / s.qq);
    return true;
  };
  // The extreme element gets the code `low`, or the code it would have with a smaller or larger
  // scale. Few codes gain from cutting the extreme off, many from a finer choice near it.
  const int levels = range.high - range.low + 1;
  const float widest = levels <= 8 ? 1.5F : levels <= 32 ? 1.3F : 1.1F;
  const float narrowest = levels <= 8 ? 0.7F : levels <= 32 ? 0.85F : 0.95F;
  constexpr int kSteps = 24;
  for (int sign = 1; sign >= (levels <= 32 ? -1 : 1); sign -= 2)
    for (int k = 0; k <= kSteps; ++k) {
      const float factor = narrowest + (widest - narrowest) * static_cast<float>(k) / kSteps;
      consider(static_cast<float>(sign * range.low) * factor / extreme);
    }
  for (int k = 0; k < 4 && best_scale != 0 && consider(1 / best_scale); ++k) {
  }
  return best_scale;
}

Affine fit_affine(std::span<const float> x, CodeRange range, bool any_offset) {
  const auto [least, most] = std::ranges::minmax(x);
  const float low = any_offset ? least : std::min(least, 0.0F);
  const float width = most - low;
  if (width < 1e-7F * std::max(std::fabs(low), std::fabs(most)) || width < 1e-20F) return {0, low};
  std::array<float, kLargestBlock> codes;
  Affine best = {width / static_cast<float>(range.high), low};
  double best_error = squared_error(x, best, range);
  const auto consider = [&](float inverse, float offset) {
    round_codes(x, inverse, offset, range, codes.data());
    const Affine found = solve(sums_of(x, codes.data()), static_cast<double>(x.size()), any_offset);
    if (found.scale <= 0) return false;
    const double error = squared_error(x, found, range);
    if (error >= best_error) return false;
    best_error = error;
    best = found;
    return true;
  };
  // As if there were up to 30 % fewer or more codes, and from an edge a little inside.
  constexpr int kSteps = 20;
  for (int k = 0; k <= kSteps; ++k) {
    const float factor = 0.8F + 0.6F * static_cast<float>(k) / kSteps;
    const float inverse = static_cast<float>(range.high) * factor / width;
    const float middle = 0.5F * (low + most);
    const float centred = middle - 0.5F * static_cast<float>(range.high) / inverse;
    if (any_offset || centred <= 0) consider(inverse, centred);
    consider(inverse, low);
  }
  for (int k = 0; k < 4 && consider(1 / best.scale, best.offset); ++k) {
  }
  return best;
}

namespace {

// The search state of one super-block.
class SuperFit {
 public:
  SuperFit(std::span<const float> x, const SuperFormat& format, SuperBlock& block)
      : x_(x), format_(format), block_(block), count_(256 / format.sub_block) {}

  void run() {
    start();
    if (overflowed()) return;
    double error = requantize();
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      const SuperBlock before = block_;
      improve_integers();
      solve_reals();
      if (overflowed()) {
        block_ = before;
        return;
      }
      const double now = requantize();
      if (now >= error) {
        block_ = before;
        return;
      }
      const bool small_gain = now > 0.999 * error;
      error = now;
      if (small_gain) return;
    }
  }

 private:
  std::span<const float> part(int j) const {
    return x_.subspan(static_cast<size_t>(j * format_.sub_block),
                      static_cast<size_t>(format_.sub_block));
  }
  bool overflowed() const {
    return (block_.d & 0x7FFFU) >= 0x7C00U || (block_.dmin & 0x7FFFU) >= 0x7C00U;
  }
  Affine map(int scale, int min) const {
    return {f16_to_f32(block_.d) * static_cast<float>(scale),
            -(f16_to_f32(block_.dmin) * static_cast<float>(min))};
  }

  // Fits each sub-block alone, then rounds its scale and minimum to integers.
  void start() {
    std::array<Affine, 16> fits = {};
    float extreme = 0;
    float deepest = 0;
    for (int j = 0; j < count_; ++j) {
      if (largest_magnitude(part(j)) < 1e-15F) continue;
      fits[j] = format_.largest_min > 0 ? fit_affine(part(j), format_.codes, false)
                                        : Affine{fit_scale(part(j), format_.codes), 0};
      if (std::fabs(fits[j].scale) > std::fabs(extreme)) extreme = fits[j].scale;
      deepest = std::max(deepest, -fits[j].offset);
    }
    // A signed range reaches one further down than up.
    const int widest = format_.scales.low < 0 ? format_.scales.low : format_.scales.high;
    block_.d = f32_to_f16(extreme / static_cast<float>(widest));
    if (format_.largest_min > 0)
      block_.dmin = f32_to_f16(deepest / static_cast<float>(format_.largest_min));
    if (overflowed()) return;
    const float scale_inverse = reciprocal(f16_to_f32(block_.d));
    const float min_inverse = reciprocal(f16_to_f32(block_.dmin));
    for (int j = 0; j < count_; ++j) {
      block_.scales[j] =
          static_cast<int>(nearest_code(fits[j].scale * scale_inverse, format_.scales));
      block_.mins[j] =
          static_cast<int>(nearest_code(-fits[j].offset * min_inverse, {0, format_.largest_min}));
    }
  }

  // Codes for the present scales; the squared error.
  double requantize() {
    double error = 0;
    for (int j = 0; j < count_; ++j) {
      const Affine now = map(block_.scales[j], block_.mins[j]);
      quantize(part(j), now, format_.codes, block_.codes + j * format_.sub_block);
      error += squared_error(part(j), now, format_.codes);
    }
    return error;
  }

  // Moves each sub-block's integers by one where that lowers its error.
  void improve_integers() {
    for (int j = 0; j < count_; ++j) {
      const int scale = block_.scales[j];
      const int min = block_.mins[j];
      double best = squared_error(part(j), map(scale, min), format_.codes);
      for (int s = std::max(scale - 1, format_.scales.low);
           s <= std::min(scale + 1, format_.scales.high); ++s)
        for (int m = std::max(min - 1, 0); m <= std::min(min + 1, format_.largest_min); ++m) {
          const double error = squared_error(part(j), map(s, m), format_.codes);
          if (error >= best) continue;
          best = error;
          block_.scales[j] = s;
          block_.mins[j] = m;
        }
      quantize(part(j), map(block_.scales[j], block_.mins[j]), format_.codes,
               block_.codes + j * format_.sub_block);
    }
  }

  // Least squares of d and dmin for the present integers and codes; unchanged where there is none.
  void solve_reals() {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int j = 0; j < count_; ++j) {
      std::array<float, kLargestBlock> codes;
      const std::span<const float> x = part(j);
      for (size_t i = 0; i < x.size(); ++i)
        codes[i] = block_.codes[j * format_.sub_block + static_cast<int>(i)];
      const Sums s = sums_of(x, codes.data());
      const double scale = block_.scales[j];
      const double min = -block_.mins[j];
      aa += scale * scale * s.qq;
      ab += scale * min * s.q;
      bb += min * min * static_cast<double>(x.size());
      ax += scale * s.xq;
      bx += min * s.x;
    }
    const double determinant = aa * bb - ab * ab;
    if (bb > 0 && determinant > 1e-9 * aa * bb) {
      const double d = (bb * ax - ab * bx) / determinant;
      const double dmin = (aa * bx - ab * ax) / determinant;
      if (d > 0 && dmin >= 0) {
        block_.d = f32_to_f16(static_cast<float>(d));
        block_.dmin = f32_to_f16(static_cast<float>(dmin));
      }
    } else if (bb <= 0 && aa > 0) {
      block_.d = f32_to_f16(static_cast<float>(ax / aa));
    }
  }

  std::span<const float> x_;
  const SuperFormat& format_;
  SuperBlock& block_;
  int count_;
};

}  // namespace

void fit_super_block(std::span<const float> x, const SuperFormat& format, SuperBlock& out) {
  SuperFit(x, format, out).run();
}

}  // namespace veery
