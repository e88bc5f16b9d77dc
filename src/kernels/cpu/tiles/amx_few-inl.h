// amx_few-inl.h: skinny GEMM on AMX tiles: one group of up to 16 rows times panels of blocks of 32,
// expanded and multiplied in one software pipeline.
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

// With one group of rows every block is used once, so expanding a chunk of blocks first (as
// multiply_columns() does) gains nothing. Expanding and multiplying block by block would stall
// twice per block: TILELOADD cannot forward from the store buffer, so a tile waits until the stores
// of its data have drained, and sums pass through memory before they are added. Therefore four
// blocks are in flight. Step e expands block e + 3, multiplies block e, stores the sums of block e
// - 2 and adds those of block e - 4, in this order.
template <class Tiles, typename T, typename PanelLayout>
class FewRows {
 public:
  FewRows(TileWorker<Tiles>& worker, const TileGroup& group, const PanelLayout& at,
          const typename PanelLayout::Panel& panel, int64_t blocks)
      : tiles_(worker.tiles),
        ring_(worker.ring),
        sums_(worker.tile_sums),
        rows_(group.tiles),
        row_scale_(group.scale),
        at_(at),
        expanded_(panel),
        added_(panel),
        last_(blocks - 1) {}

  // Writes y[16][16], D (linear.h) without the residuals of outlier blocks.
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
  using TileType = ByteTiles<T::kOffset == 0, kRows>;
  static constexpr int kSums = kRingTiles;  // blocks in flight: sum tiles and ring slots
  static constexpr int kAhead = kSums - 1;
  static constexpr int64_t kFetched = 8192;  // prefetch distance, bytes

  // Expands block e into slot kSlot of the ring. Past the end it expands the last block again; that
  // copy is not used.
  template <int kSlot>
  HWY_INLINE void expand(int64_t e) {
    at_.fetch(expanded_, kFetched);
    expand_codes<T>(at_.block(expanded_, 0), ring_ + kSlot * kByteTile);
    if (e < last_) expanded_ = at_.next(expanded_);
  }
  template <int kSum>
  HWY_INLINE void begin(int64_t e) {
    expand<(kSum + kAhead) % kSums>(e + kAhead);
    TileType::template multiply<kSum>(tiles_, ring_ + kSum * kByteTile,
                                      rows_ + e * TileType::kRowTile);
  }
  template <int kSum>
  HWY_INLINE void end() const {
    tiles_.template store<4 + kSum>(sums_ + kSum * kTileFloats);
  }
  HWY_INLINE void add_block(int64_t e, const float* c, F32 (&d)[kRows]) {
    const F32 scale = at_.scale(added_, 0);
    const float* s = row_scale_ + e * kTileRows;
    unroll<kRows>([&](auto r) {
      d[r()] = fma(mul(scale, set(s[r()])), TileType::sum(c + r() * kLanes), d[r()]);
    });
    added_ = at_.next(added_);
  }
  template <int kSum>
  HWY_INLINE void step(int64_t e, F32 (&d)[kRows]) {
    begin<kSum>(e);
    end<(kSum + 2) % kSums>();
    add_block(e - kSums, sums_ + kSum * kTileFloats, d);
  }
  // Multiplies all blocks; adds all except the last kSums.
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
  const PanelLayout at_;
  typename PanelLayout::Panel expanded_, added_;  // the next block to expand, and to add
  const int64_t last_;
};

template <class Tiles, typename T, typename PanelLayout>
HWY_NOINLINE void multiply_few(TileWorker<Tiles>& w, const TileGroup& group,
                               const std::byte* const* packed, int64_t cols, float* y) {
  w.use(kByteTiles<kTileRows>);
  FewRows<Tiles, T, PanelLayout>(w, group, PanelLayout(), PanelLayout::open(packed), cols / 32)
      .run(y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_AMX_FEW_INL_H
