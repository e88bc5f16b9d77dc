// pruned_argmax_rows-inl.h: pruned argmax of an output head for several token rows.
//
// With several rows, almost every panel is a candidate for one of them after the upper part alone.
// So upper and middle part are read in one pass, and only the main quantisation x1 of each row
// x = x1 + x2 is multiplied, without the residual x2: half of the products. An output is
// sum d (u - 128) x, u being the 8-bit code and v its upper five bits. The pass computes
// 8 sum d (v - 16) x1. The lower three bits are within 3.5 of their centre and |u - 128| <= 128, so
// the output is within sum |d| (3.5 |x1| + 128 |x2|) of 8 sum d (v - 16) x1 + 3.5 sum d x1.
// Then each worker computes, for each row, the exact outputs of the panel with the largest
// estimate; they raise the row's threshold. Panels whose bounds reach it are multiplied as for one
// row (pruned_argmax-inl.h), separately for each row.
#if defined(VEERY_KERNELS_CPU_PRUNED_ARGMAX_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_PRUNED_ARGMAX_ROWS_INL_H
#undef VEERY_KERNELS_CPU_PRUNED_ARGMAX_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_PRUNED_ARGMAX_ROWS_INL_H
#endif

#include "kernels/cpu/pruned_head/pruned_argmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Returns the product of the main quantisation alone, in groups that five_bits has kernels for.
inline Product main_rows(const Product& p) {
  Product main = p;
  main.quantises_residual = false;
  main.rows = p.outer_rows();
  main.group_size = kPairs ? kGroupRows : kSmallGroupRows;
  return main;
}

/// Bounds the outputs of one worker's share of the panels, for several token rows.
class RowsPruner {
 public:
  RowsPruner(const Dispatch& d, const Product& p, const Worker& worker, const PruningMemory& s)
      : d_(d), p_(p), main_(main_rows(p)), worker_(worker), s_(s) {}

  // Stores a bound of every panel for every row, and raises the threshold of every row.
  void scan() {
    quantise();
    Best largest[kPrunedRows];
    start_best(reinterpret_cast<std::byte*>(largest), rows_, 0);
    const Share panels = p_.share_of(0, worker_);
    if (panels.begin >= panels.end) return;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel)
      for (int64_t g = 0; g < main_.groups(); ++g) bound(panel, g, largest);
    for (int64_t r = 0; r < rows_; ++r)
      Threshold(*s_.run, r)
          .raise(largest_product(d_, p_, residual_pair(p_, worker_, r), panel_of(largest[r])));
  }

 private:
  ActivationGroup group(int64_t g) const {
    constexpr auto kKind = Activations::kPer32;
    return activation_group(kKind, main_.group(s_.main, static_cast<int>(kKind), g), p_.cols,
                            group_width(main_.group_rows(g)));
  }

  void quantise() {
    std::byte* residual = worker_.scratch + p_.activation_bytes() + p_.expanded_bytes();
    Product one = p_;
    one.rows = 2;
    Row rows[2];
    for (int64_t r = 0; r < rows_; ++r) {
      input_rows(d_, p_, 2 * r, 2, residual, rows);
      quantise_group(one, reinterpret_cast<std::byte*>(residual_pair(p_, worker_, r).quads), 0,
                     rows);
      sum_row(residual_pair(p_, worker_, r), r);
    }
    for (int64_t g = 0; g < main_.groups(); ++g) {
      Row of[kGroupRows];
      for (int r = 0; r < main_.group_rows(g); ++r)
        of[r] = input_row(d_, p_, 2 * (g * main_.group_size + r), nullptr);
      quantise_group(main_, s_.main, g, of);
    }
  }

  // Computes `moment` and `magnitude` of every block of a row (Spread). g: values and residual.
  void sum_row(const ActivationGroup& g, int64_t row) {
    const float times = with_rounding(blocks_);
    for (int64_t b = 0; b < blocks_; ++b) {
      const auto size = [&](int term) {
        return g.scale[2 * b + term] * static_cast<float>(quad_magnitudes(g.quads + 64 * b, term));
      };
      s_.moment[b * rows_ + row] = g.moment[2 * b];
      s_.magnitude[b * rows_ + row] = times * (size(0) + 128 / kRadius<kBitsAfterMiddle> * size(1));
    }
  }

  // Returns the panel with the largest estimate.
  static int64_t panel_of(const Best& best) {
    return best.index[std::max_element(best.value, best.value + kLanes) - best.value];
  }

  void bound(int64_t panel, int64_t g, Best* largest) {
    const ActivationGroup rows = group(g);
    const SplitPanel parts(p_.weights[0], panel);
    const int count = main_.group_rows(g);
    alignas(64) float y[kGroupRows * kLanes];
    five_bits_[std::countr_zero(static_cast<unsigned>(group_width(count)))](
        parts.parts, rows, p_.cols, g == 0 ? Prefetch{p_.ahead, 0} : Prefetch(), y);
    const auto* upper = reinterpret_cast<const uint8_t*>(parts.parts[0]);
    const int64_t first = g * main_.group_size;
    for (int r = 0; r < count; r += kRowsAtOnce) {
      const int now = std::min(kRowsAtOnce, count - r);
      with_width(group_width(now), [&](auto many) {
        if constexpr (many() <= kRowsAtOnce)
          note<many()>(panel, upper, first + r, now, y + r * kLanes, largest);
      });
    }
  }

  // Computes the bounds of rows [row, row + count) of a panel, count <= kRows, and updates the
  // largest estimate of each row. y[count][16]: products of the five upper bits.
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
      const F32 estimate = fma(spread[r].moment, set(kRadius<kBitsAfterMiddle>),
                               mul(load(y + r * kLanes), set(kStep<kBitsAfterMiddle>)));
      s_.bounds[(row + r) * panels + panel] = bound_of<kBitsAfterMiddle>(estimate, spread[r]);
      Best& best = largest[row + r];
      const F32 so_far = load(best.value);
      const Mask better = greater(estimate, so_far);
      store(best.value, select(better, estimate, so_far));
      const I32 here = set(static_cast<int32_t>(panel));
      store_int(best.index, bits(select(better, as_float(here), as_float(load_int(best.index)))));
    }
  }

  static constexpr int kRowsAtOnce = 4;  // rows that share a pass over the scales of a panel

  const Dispatch& d_;
  const Product& p_;
  const Product main_;
  const Worker& worker_;
  const PruningMemory& s_;
  const int64_t rows_ = p_.outer_rows();
  const int64_t blocks_ = p_.cols / 32;
  const DirectFn* five_bits_ = split_kernels(kTarget).five_bits;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_PRUNED_ARGMAX_ROWS_INL_H
