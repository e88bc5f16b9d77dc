// fit_super-inl.h: joint fit of d, dmin, integer scales and codes of blocks of 256.
#if defined(VEERY_DTYPE_FIT_SUPER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_FIT_SUPER_INL_H
#undef VEERY_DTYPE_FIT_SUPER_INL_H
#else
#define VEERY_DTYPE_FIT_SUPER_INL_H
#endif

#include "dtype/encode/fit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Fits one or two blocks of 256 at a time; a lane is a sub-block of kSize elements.
template <int kSize>
class SuperFit {
 public:
  static constexpr int kGroup = 256 / kSize;       ///< lanes per block
  static constexpr int kBlocks = kLanes / kGroup;  ///< blocks at a time

  SuperFit(const Blocks<kSize>& b, const SuperFormat& format) : b_(b), format_(format) {}

  /// out[k].d or dmin is infinite if it does not fit f16.
  void run(SuperBlock* out) {
    start();
    V error = sum_over(error_of(now_), kGroup);
    for (int round = 0; round < 4; ++round) {
      State next = now_;
      improve_integers(next);
      solve_reals(next);
      const V found = sum_over(error_of(next), kGroup);
      const I better = found < error;
      if (!any(better)) break;
      error = select(better, found, error);
      now_ = {select(better, next.d, now_.d), select(better, next.dmin, now_.dmin),
              select(better, next.scale, now_.scale), select(better, next.min, now_.min)};
    }
    write(out);
  }

 private:
  // d and dmin are equal in all lanes of a block; scales and minima are integers.
  struct State {
    V d, dmin, scale, min;
    HWY_INLINE Affine map() const { return {d * scale, -(dmin * min)}; }
  };

  HWY_INLINE V error_of(const State& s) const { return squared_error(b_, s.map(), format_.codes); }

  // Fits each sub-block alone, then rounds its scale and minimum to integers.
  void start() {
    Affine fit = {};
    if (format_.largest_min > 0)
      fit = AffineFit<kSize>(b_, format_.codes, false).run();
    else
      fit.scale = fit_scale(b_, format_.codes);
    const I empty = b_.largest() < broadcast(1e-15F);
    fit.scale = select(empty, V{}, fit.scale);
    fit.offset = select(empty, V{}, fit.offset);
    float scales[kLanes], offsets[kLanes], d[kLanes], dmin[kLanes];
    store(fit.scale, scales);
    store(fit.offset, offsets);
    // A signed range reaches one further down than up.
    const int widest = format_.scales.low < 0 ? format_.scales.low : format_.scales.high;
    for (int begin = 0; begin < kLanes; begin += kGroup) {
      float extreme = 0, deepest = 0;
      for (int j = begin; j < begin + kGroup; ++j) {
        if (std::fabs(scales[j]) > std::fabs(extreme)) extreme = scales[j];
        deepest = offsets[j] < -deepest ? -offsets[j] : deepest;
      }
      for (int j = begin; j < begin + kGroup; ++j) {
        d[j] = extreme / static_cast<float>(widest);
        dmin[j] = format_.largest_min > 0 ? deepest / static_cast<float>(format_.largest_min) : 0;
      }
    }
    now_.d = rounded_to_half(load(d));
    now_.dmin = rounded_to_half(load(dmin));
    now_.scale = nearest_code(fit.scale * reciprocal(now_.d), format_.scales);
    now_.min = nearest_code(-fit.offset * reciprocal(now_.dmin), {0, format_.largest_min});
  }

  // Moves each sub-block's integers by one where that lowers the error.
  void improve_integers(State& s) const {
    const State before = s;
    V best = error_of(s);
    for (int up = -1; up <= 1; ++up)
      for (int down = -1; down <= 1; ++down) {
        if ((up == 0 && down == 0) || (down != 0 && format_.largest_min == 0)) continue;
        State trial = before;
        trial.scale = nearest_code(before.scale + static_cast<float>(up), format_.scales);
        trial.min = nearest_code(before.min + static_cast<float>(down), {0, format_.largest_min});
        const V error = error_of(trial);
        const I better = error < best;
        best = select(better, error, best);
        s.scale = select(better, trial.scale, s.scale);
        s.min = select(better, trial.min, s.min);
      }
  }

  // Solves the least squares problem of d and dmin for the current integers and codes; leaves them
  // unchanged if it is singular.
  void solve_reals(State& s) const {
    V codes[kSize];
    quantize(b_, s.map(), format_.codes, codes);
    V q = {}, qq = {}, x = {}, xq = {}, weight = {};
    for (int i = 0; i < kSize; ++i) {
      const V weighted = b_.w[i] * codes[i];
      weight += b_.w[i];
      q += weighted;
      qq += weighted * codes[i];
      x += b_.w[i] * b_.x[i];
      xq += weighted * b_.x[i];
    }
    const V aa = sum_over(s.scale * s.scale * qq, kGroup);
    const V ab = sum_over(-(s.scale * s.min * q), kGroup);
    const V bb = sum_over(s.min * s.min * weight, kGroup);
    const V ax = sum_over(s.scale * xq, kGroup);
    const V bx = sum_over(-(s.min * x), kGroup);
    const V determinant = aa * bb - ab * ab;
    const V d = (bb * ax - ab * bx) * reciprocal(determinant);
    const V dmin = (aa * bx - ab * ax) * reciprocal(determinant);
    const I both = (determinant > 1e-6F * aa * bb) & (bb > 0.0F) & (d > 0.0F) & (dmin >= 0.0F);
    const I alone = (bb <= 0.0F) & (aa > 0.0F);
    const V only = ax * reciprocal(aa);
    s.d = rounded_to_half(select(both, d, select(alone, only, s.d)));
    s.dmin = rounded_to_half(select(both, dmin, s.dmin));
  }

  void write(SuperBlock* out) const {
    V codes[kSize];
    quantize(b_, now_.map(), format_.codes, codes);
    int8_t lanes[kLanes * kSize];
    write_codes<kSize>(codes, lanes);
    float d[kLanes], dmin[kLanes], scale[kLanes], min[kLanes];
    store(now_.d, d);
    store(now_.dmin, dmin);
    store(now_.scale, scale);
    store(now_.min, min);
    for (int k = 0; k < kBlocks; ++k) {
      out[k].d = d[k * kGroup];
      out[k].dmin = dmin[k * kGroup];
      for (int j = 0; j < kGroup; ++j) {
        out[k].scales[j] = static_cast<int>(scale[k * kGroup + j]);
        out[k].mins[j] = static_cast<int>(min[k * kGroup + j]);
      }
      std::memcpy(out[k].codes, lanes + k * 256, 256);
    }
  }

  const Blocks<kSize>& b_;
  const SuperFormat& format_;
  State now_ = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif
