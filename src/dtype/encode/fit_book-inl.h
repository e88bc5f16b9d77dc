// fit_book-inl.h: weighted least-squares search of scales for blocks with a code book.
#if defined(VEERY_DTYPE_FIT_BOOK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_FIT_BOOK_INL_H
#undef VEERY_DTYPE_FIT_BOOK_INL_H
#else
#define VEERY_DTYPE_FIT_BOOK_INL_H
#endif

#include "dtype/code_range.h"
#include "dtype/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

struct CodedValue {
  V code, value;
};

/// Returns the nearest value of the book and its index.
HWY_INLINE CodedValue nearest_in(const Book& book, V x) {
  V code = {};
  V value = broadcast(book[0]);
  for (size_t k = 1; k < book.size(); ++k) {
    const I above = x > broadcast(0.5F * (book[k - 1] + book[k]));
    code = select(above, broadcast(static_cast<float>(k)), code);
    value = select(above, broadcast(book[k]), value);
  }
  return {code, value};
}

struct BookSums {
  V qq, xq;
  /// Returns the squared error under `scale` minus the sum of w x^2.
  HWY_INLINE V excess(V scale) const { return scale * (scale * qq - 2.0F * xq); }
};

template <int kSize>
HWY_INLINE BookSums book_sums(const Blocks<kSize>& b, const Book& book, V inverse) {
  BookSums s = {};
  for (int i = 0; i < kSize; ++i) {
    const V value = nearest_in(book, b.x[i] * inverse).value;
    const V weighted = b.w[i] * value;
    s.qq += weighted * value;
    s.xq += weighted * b.x[i];
  }
  return s;
}

/// Computes the nearest codes; if the scale is 0, the code of the value nearest to 0.
template <int kSize>
HWY_INLINE void quantize_to_book(const Blocks<kSize>& b, const Book& book, V scale, V* codes) {
  const V inverse = reciprocal(scale);
  for (int i = 0; i < kSize; ++i) codes[i] = nearest_in(book, b.x[i] * inverse).code;
}

/// Returns for each block the scale that minimises the weighted squared error of scale *
/// book[code].
template <int kSize>
V fit_book_scale(const Blocks<kSize>& b, const Book& book) {
  V extreme = {};
  for (int i = 0; i < kSize; ++i)
    extreme = select(magnitude(b.x[i]) > magnitude(extreme), b.x[i], extreme);
  const V unit = reciprocal(extreme);
  V best_scale = {}, best = {};
  const auto consider = [&](V inverse) HWY_ATTR {
    const BookSums s = book_sums(b, book, inverse);
    const V scale = s.xq * reciprocal(s.qq);
    const V gain = scale * s.xq;  // the squared error is sum(w x^2) - gain
    const I better = gain > best;
    best = select(better, gain, best);
    best_scale = select(better, scale, best_scale);
    return better;
  };
  // Map the extreme element close to either end of the book. Scales further away have smaller
  // errors, but models whose extreme elements shrink a lot predict worse.
  constexpr int kSteps = 8;
  for (const float end : {book.front(), book.back()})
    for (int k = 0; k <= kSteps; ++k)
      consider(unit * (end * (0.9F + 0.2F * static_cast<float>(k) / kSteps)));
  for (int k = 0; k < 4 && any(consider(reciprocal(best_scale))); ++k) {
  }
  return best_scale;
}

/// Fits d, eight scales in [-32, 31] and the codes of two blocks of 256 at a time; a lane is a
/// sub-block of 32 elements. d is infinite if it does not fit f16.
class BookFit {
 public:
  static constexpr int kGroup = 8;

  BookFit(const Blocks<32>& b, const Book& book) : b_(b), book_(book) {}

  void run(SuperBlock* out) {
    start();
    V error = total(d_, scale_);
    for (int round = 0; round < 3; ++round) {
      const V scale = improved_scales();
      const BookSums s = book_sums(b_, book_, reciprocal(d_ * scale));
      const V d = rounded_to_half(sum_over(scale * s.xq, kGroup) *
                                  reciprocal(sum_over(scale * scale * s.qq, kGroup)));
      const V found = total(d, scale);
      const I better = found < error;
      if (!any(better)) break;
      error = select(better, found, error);
      d_ = select(better, d, d_);
      scale_ = select(better, scale, scale_);
    }
    write(out);
  }

 private:
  static constexpr float kLeast = -32, kMost = 31;

  HWY_INLINE V excess(V scale) const {
    return book_sums(b_, book_, reciprocal(scale)).excess(scale);
  }
  V total(V d, V scale) const { return sum_over(excess(d * scale), kGroup); }

  // Fits each sub-block alone. The largest scale becomes -32, because the integer range reaches
  // further down than up.
  void start() {
    const V fits = select(b_.largest() < broadcast(1e-15F), V{}, fit_book_scale(b_, book_));
    float scales[kLanes], d[kLanes];
    store(fits, scales);
    for (int begin = 0; begin < kLanes; begin += kGroup) {
      float extreme = 0;
      for (int j = begin; j < begin + kGroup; ++j)
        if (std::fabs(scales[j]) > std::fabs(extreme)) extreme = scales[j];
      for (int j = begin; j < begin + kGroup; ++j) d[j] = extreme / kLeast;
    }
    d_ = rounded_to_half(load(d));
    scale_ =
        nearest(lane_max(lane_min(fits * reciprocal(d_), broadcast(kMost)), broadcast(kLeast)));
  }
  V improved_scales() const {
    V best_scale = scale_;
    V best = excess(d_ * scale_);
    for (const float step : {-1.0F, 1.0F}) {
      const V trial = lane_max(lane_min(scale_ + step, broadcast(kMost)), broadcast(kLeast));
      const V error = excess(d_ * trial);
      const I better = error < best;
      best = select(better, error, best);
      best_scale = select(better, trial, best_scale);
    }
    return best_scale;
  }
  void write(SuperBlock* out) const {
    V codes[32];
    quantize_to_book(b_, book_, d_ * scale_, codes);
    int8_t lanes[kLanes * 32];
    write_codes<32>(codes, lanes);
    float d[kLanes], scale[kLanes];
    store(d_, d);
    store(scale_, scale);
    for (int k = 0; k < kLanes / kGroup; ++k) {
      out[k].d = d[k * kGroup];
      for (int j = 0; j < kGroup; ++j) out[k].scales[j] = static_cast<int>(scale[k * kGroup + j]);
      std::memcpy(out[k].codes, lanes + k * 256, 256);
    }
  }

  const Blocks<32>& b_;
  const Book& book_;
  V d_ = {}, scale_ = {};
};

/// Computes FP4 (e2m1) codes, whose doubled values are scaled by `half`, and returns the weighted
/// squared error.
template <int kSize>
HWY_INLINE V nearest_fp4(const Blocks<kSize>& b, V half, V* codes) {
  constexpr float kValues[] = {0, 1, 2, 3, 4, 6, 8, 12};
  const V inverse = reciprocal(half);
  V error = {};
  for (int i = 0; i < kSize; ++i) {
    const V x = magnitude(b.x[i]) * inverse;
    V code = {}, value = {};
    for (int k = 1; k < 8; ++k) {
      const I above = x > broadcast(0.5F * (kValues[k - 1] + kValues[k]));
      code = select(above, broadcast(static_cast<float>(k)), code);
      value = select(above, broadcast(kValues[k]), value);
    }
    const V left = magnitude(b.x[i]) - half * value;
    error += b.w[i] * left * left;
    codes[i] = select((b.x[i] < 0.0F) & (code > 0.0F), code + 8.0F, code);
  }
  return error;
}

/// Tries `count` consecutive scale codes from `first` on, which `half_of` decodes, and keeps the
/// one with the smallest error.
template <int kSize, typename HalfOf>
void fit_fp4(const Blocks<kSize>& b, const int* first, int count, HalfOf half_of, uint8_t* scales,
             int8_t* codes) {
  V best = broadcast(3e38F);
  V kept[kSize] = {};
  float chosen[kLanes] = {};
  for (int step = 0; step < count; ++step) {
    float half[kLanes], found[kLanes], so_far[kLanes];
    for (int j = 0; j < kLanes; ++j) half[j] = half_of(first[j] + step);
    V trial[kSize];
    const V error = nearest_fp4(b, load(half), trial);
    const I better = error < best;
    store(error, found);
    store(best, so_far);
    for (int j = 0; j < kLanes; ++j)
      if (found[j] < so_far[j]) chosen[j] = static_cast<float>(first[j] + step);
    best = select(better, error, best);
    for (int i = 0; i < kSize; ++i) kept[i] = select(better, trial[i], kept[i]);
  }
  for (int j = 0; j < kLanes; ++j) scales[j] = static_cast<uint8_t>(chosen[j]);
  write_codes<kSize>(kept, codes);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif
