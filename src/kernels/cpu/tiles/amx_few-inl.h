// amx_few-inl.h: products of one group of rows with panels of blocks of 32, which are expanded on
// the way.
#if defined(VEERY_KERNELS_CPU_AMX_FEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_AMX_FEW_INL_H
#undef VEERY_KERNELS_CPU_AMX_FEW_INL_H
#else
#define VEERY_KERNELS_CPU_AMX_FEW_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/tiles/amx_multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// With one group of rows a block is multiplied once, so nothing is gained by expanding a chunk of
// blocks first, and each step would wait for the one before it: a tile is loaded from memory only
// when what was stored there has left the store buffer, and sums are stored before they are added.
// Here several blocks are on their way at a time. In the step of block e block e + 3 is expanded, e
// is multiplied, the sums of e - 2 are stored and those of e - 4 are added, in this order.
template <class Tiles, typename T, typename Places>
class FewRows {
 public:
  FewRows(TileWorker<Tiles>& worker, const TileGroup& group, const Places& at,
          const typename Places::Panel& panel, int64_t blocks)
      : tiles_(worker.tiles),
        ring_(worker.ring),
        sums_(worker.chain_sums),
        rows_(group.tiles),
        row_scale_(group.scale),
        at_(at),
        expanded_(panel),
        added_(panel),
        last_(blocks - 1) {}

  // y[16][16] = D of the panel without the residuals of outlier blocks.
  HWY_INLINE void run(float* y) {
    F32 d[kRows];
    unroll<kRows>([&](auto r) { d[r()] = zero(); });
    expand<0>(0);
    expand<1>(1);
    expand<2>(2);
    if (last_ + 1 < kSums)
      begin_few();
    else
      multiply_all(d);
    for (int64_t e = std::max<int64_t>(0, last_ + 1 - kSums); e <= last_; ++e)
      add_block(e, sums_ + e % kSums * kTileFloats, d);
    unroll<kRows>([&](auto r) { store(y + r() * kLanes, d[r()]); });
  }

 private:
  static constexpr int kRows = kTileRows;
  using Form = ByteTiles<T::kOffset == 0, kRows>;
  static constexpr int kSums = kRingTiles;  // tiles, and places in memory
  static constexpr int kAhead = kSums - 1;
  static constexpr int64_t kFetched = 8192;  // bytes from what is expanded to what is fetched

  // Block e to its place in the ring; past the end the last one, which is not used again.
  template <int kPlace>
  HWY_INLINE void expand(int64_t e) {
    at_.fetch(expanded_, kFetched);
    expand_codes<T>(at_.block(expanded_, 0), ring_ + kPlace * kByteTile);
    if (e < last_) expanded_ = at_.next(expanded_);
  }
  template <int kSum>
  HWY_INLINE void begin(int64_t e) {
    expand<(kSum + kAhead) % kSums>(e + kAhead);
    Form::template multiply<kSum>(tiles_, ring_ + kSum * kByteTile, rows_ + e * Form::kRowTile);
  }
  template <int kSum>
  HWY_INLINE void end() const {
    tiles_.template store<4 + kSum>(sums_ + kSum * kTileFloats);
  }
  HWY_INLINE void add_block(int64_t e, const float* c, F32 (&d)[kRows]) {
    const F32 scale = at_.scale(added_, 0);
    const float* s = row_scale_ + e * kTileRows;
    unroll<kRows>([&](auto r) {
      d[r()] = fma(mul(scale, set(s[r()])), Form::sum(c + r() * kLanes), d[r()]);
    });
    added_ = at_.next(added_);
  }
  template <int kSum>
  HWY_INLINE void step(int64_t e, F32 (&d)[kRows]) {
    begin<kSum>(e);
    end<(kSum + 2) % kSums>();
    add_block(e - kSums, sums_ + kSum * kTileFloats, d);
  }
  // All but the last kSums are added.
  HWY_INLINE void multiply_all(F32 (&d)[kRows]) {
    begin<0>(0);
    begin<1>(1);
    begin<2>(2);
    end<0>();
    begin<3>(3);
    end<1>();
    int64_t e = kSums;
    for (; e + kSums <= last_ + 1; e += kSums) {
      step<0>(e, d);
      step<1>(e + 1, d);
      step<2>(e + 2, d);
      step<3>(e + 3, d);
    }
    if (e <= last_) step<0>(e, d);
    if (e + 1 <= last_) step<1>(e + 1, d);
    if (e + 2 <= last_) step<2>(e + 2, d);
    switch (last_ % kSums) {
      case 0: return end<3>(), end<0>();
      case 1: return end<0>(), end<1>();
      case 2: return end<1>(), end<2>();
      default: return end<2>(), end<3>();
    }
  }
  HWY_INLINE void begin_few() {
    begin<0>(0);
    if (last_ > 0) begin<1>(1);
    if (last_ > 1) begin<2>(2);
    end<0>();
    if (last_ > 0) end<1>();
    if (last_ > 1) end<2>();
  }

  Tiles& tiles_;
  std::byte* const ring_;
  float* const sums_;
  const std::byte* const rows_;
  const float* const row_scale_;
  const Places at_;
  typename Places::Panel expanded_, added_;  // the blocks that are next
  const int64_t last_;
};

template <class Tiles, typename T, typename Places>
HWY_NOINLINE void multiply_few(TileWorker<Tiles>& w, const TileGroup& group,
                               const std::byte* const* packed, int64_t cols, float* y) {
  w.use(kByteTiles<kTileRows>);
  FewRows<Tiles, T, Places>(w, group, Places(), Places::open(packed), cols / 32).run(y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_AMX_FEW_INL_H
