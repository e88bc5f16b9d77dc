// search_rows-inl.h: the largest product of each of several rows with a weight in parts.
//
// What the upper part leaves open of one row, it leaves open of most panels for one row or another,
// so the upper and the middle part of all panels are read at once. They are multiplied with the
// first terms of the rows only, half of the products: with x = x1 + x2 an output is
// sum d (u - 128) x, of which 8 sum d (v - 16) x1 is computed, v being the upper five bits of u.
// The lower three are within 3.5 of their middle, and u - 128 within 128 of 0: the output is within
// sum |d| (3.5 |x1| + 128 |x2|) of 8 sum d (v - 16) x1 + 3.5 sum d x1. Each worker then multiplies,
// for each row, the panel whose bound is the largest as a whole; those whose bounds reach the
// outputs found there are multiplied as for one row (search-inl.h), each row by itself.
#if defined(VEERY_KERNELS_CPU_SEARCH_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_SEARCH_ROWS_INL_H
#undef VEERY_KERNELS_CPU_SEARCH_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_SEARCH_ROWS_INL_H
#endif

#include "kernels/cpu/pruned_head/search-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// The first terms of the rows as a product of one term, in groups that five_bits has kernels for.
inline Product first_terms(const Product& p) {
  Product firsts = p;
  firsts.two_terms = false;
  firsts.rows = p.outer_rows();
  firsts.group_size = kPairs ? kGroupRows : kSmallGroupRows;
  return firsts;
}

/// The search of one worker, of its share of the panels.
class RowsSearch {
 public:
  RowsSearch(const Dispatch& d, const Product& p, const Worker& worker, const SearchMemory& s)
      : d_(d), p_(p), firsts_(first_terms(p)), worker_(worker), s_(s) {}

  // Finds a bound of every panel for every row, and an output of every row.
  void scan() {
    prepare();
    Best largest[kSearchedRows];
    start_best(reinterpret_cast<std::byte*>(largest), rows_, 0);
    const Share panels = p_.share_of(0, worker_);
    if (panels.begin >= panels.end) return;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel)
      for (int64_t g = 0; g < firsts_.groups(); ++g) bound(panel, g, largest);
    for (int64_t r = 0; r < rows_; ++r)
      Threshold(*s_.run, r)
          .raise(largest_product(d_, p_, searched_row(p_, worker_, r), panel_of(largest[r])));
  }

 private:
  ActivationGroup group(int64_t g) const {
    constexpr auto kForm = Activations::kPer32;
    return activation_group(kForm, firsts_.group(s_.firsts, static_cast<int>(kForm), g), p_.cols,
                            group_width(firsts_.group_rows(g)));
  }

  void prepare() {
    std::byte* residual = worker_.scratch + p_.activation_bytes() + p_.expanded_bytes();
    Product one = p_;
    one.rows = 2;
    Row rows[2];
    for (int64_t r = 0; r < rows_; ++r) {
      input_rows(d_, p_, 2 * r, 2, residual, rows);
      prepare_group(one, reinterpret_cast<std::byte*>(searched_row(p_, worker_, r).quads), 0, rows);
      sum_terms(searched_row(p_, worker_, r), r);
    }
    for (int64_t g = 0; g < firsts_.groups(); ++g) {
      Row of[kGroupRows];
      for (int r = 0; r < firsts_.group_rows(g); ++r)
        of[r] = input_row(d_, p_, 2 * (g * firsts_.group_size + r), nullptr);
      prepare_group(firsts_, s_.firsts, g, of);
    }
  }

  // Of both terms of a row: what spread_of() takes of each block.
  void sum_terms(const ActivationGroup& g, int64_t row) {
    const float times = with_rounding(blocks_);
    for (int64_t b = 0; b < blocks_; ++b) {
      const auto size = [&](int term) {
        return g.scale[2 * b + term] *
               static_cast<float>(sum_of_magnitudes(g.quads + 64 * b, term));
      };
      s_.moment[b * rows_ + row] = g.moment[2 * b];
      s_.magnitude[b * rows_ + row] = times * (size(0) + 128 / kRadius<kAfterMiddle> * size(1));
    }
  }

  // The panel that seems to hold the largest output.
  static int64_t panel_of(const Best& best) {
    return best.index[std::max_element(best.value, best.value + kLanes) - best.value];
  }

  void bound(int64_t panel, int64_t g, Best* largest) {
    const ActivationGroup rows = group(g);
    const SplitPanel parts(p_.weights[0], panel);
    const int count = firsts_.group_rows(g);
    alignas(64) float y[kGroupRows * kLanes];
    five_bits_[std::countr_zero(static_cast<unsigned>(group_width(count)))](
        parts.parts, rows, p_.cols, g == 0 ? Ahead{p_.ahead, 0} : Ahead(), y);
    const auto* upper = reinterpret_cast<const uint8_t*>(parts.parts[0]);
    const int64_t first = g * firsts_.group_size;
    for (int r = 0; r < count; r += kTogether) {
      const int now = std::min(kTogether, count - r);
      with_width(group_width(now), [&](auto many) {
        if constexpr (many() <= kTogether)
          note<many()>(panel, upper, first + r, now, y + r * kLanes, largest);
      });
    }
  }

  // The bounds of rows [row, row + count) of kRows at a time.
  template <int kRows>
  HWY_INLINE void note(int64_t panel, const uint8_t* upper, int64_t row, int count, const float* y,
                       Best* largest) {
    Spread spread[kRows];
    for (Spread& of : spread) of = {zero(), zero()};
    for (int64_t b = 0; b < blocks_; ++b) {
      const F32 d = load_f16(upper + b * SplitPanels::kUpper + SplitPanels::kScale);
      const int64_t at = b * rows_ + row;
      for (int r = 0; r < kRows; ++r) {
        const int64_t i = at + (r < count ? r : 0);
        spread[r].moment = fma(d, set(s_.moment[i]), spread[r].moment);
        spread[r].magnitude = fma(abs(d), set(s_.magnitude[i]), spread[r].magnitude);
      }
    }
    const int64_t panels = p_.weights[0].panels();
    for (int r = 0; r < count; ++r) {
      const F32 estimate = fma(spread[r].moment, set(kRadius<kAfterMiddle>),
                               mul(load(y + r * kLanes), set(kStep<kAfterMiddle>)));
      s_.bounds[(row + r) * panels + panel] = bound_of<kAfterMiddle>(estimate, spread[r]);
      Best& best = largest[row + r];
      const F32 so_far = load(best.value);
      const Mask better = greater(estimate, so_far);
      store(best.value, select(better, estimate, so_far));
      const I32 here = set(static_cast<int32_t>(panel));
      store_int(best.index, bits(select(better, as_float(here), as_float(load_int(best.index)))));
    }
  }

  static constexpr int kTogether = 4;  // rows whose bounds are worked out side by side

  const Dispatch& d_;
  const Product& p_;
  const Product firsts_;
  const Worker& worker_;
  const SearchMemory& s_;
  const int64_t rows_ = p_.outer_rows();
  const int64_t blocks_ = p_.cols / 32;
  const DirectFn* five_bits_ = split_kernels(kTarget).five_bits;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_SEARCH_ROWS_INL_H
