// amx_multiply-inl.h: the tile microkernels: groups of rows times panels, both in tiles.
#if defined(VEERY_KERNELS_CPU_AMX_MULTIPLY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_AMX_MULTIPLY_INL_H
#undef VEERY_KERNELS_CPU_AMX_MULTIPLY_INL_H
#else
#define VEERY_KERNELS_CPU_AMX_MULTIPLY_INL_H
#endif

#include "kernels/cpu/tiles/amx_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Products of a block of 256 that have not been added to the accumulators d of two groups yet.
/// `sums` is [group][2][16][16]; the two partial sums of an output are added first.
struct Pending {
  const float* scale;  // of the panel
  const float* row_scale[2];
  float* d[2];
  const float* sums;
};

/// The packed panel to prefetch into the L2 cache, in steps of one block.
struct NextPanel {
  const std::byte* at[kMostParts];
  int64_t bytes[kMostParts];  // per step
  int parts = 0;              // 0: no prefetch

  HWY_INLINE void fetch(int64_t step) const {
    for (int i = 0; i < parts; ++i)
      for (int64_t b = step * bytes[i]; b < (step + 1) * bytes[i]; b += 64)
        __builtin_prefetch(at[i] + b, 0, 2);
  }
};

/// Expanded blocks in flight in amx_few-inl.h.
inline constexpr int kRingTiles = 4;

/// The state of one worker during a multiplication.
template <class Tiles>
struct TileWorker {
  Tiles tiles;
  Pending pending;
  int side = 0;  // the free half of `sums`
  alignas(64) float sums[2][4 * kTileFloats] = {};
  alignas(64) float tile_sums[4 * kTileFloats];
  alignas(64) std::byte ring[kRingTiles * kByteTile];
  alignas(64) float unused[kTileFloats] = {};  // destination of updates without an output

  const TileConfig* config = nullptr;
  NextPanel next_panel;

  TileWorker() { pending = nothing(); }
  TileWorker(const TileWorker&) = delete;
  /// Configures the tiles unless they already have this configuration.
  HWY_INLINE void use(const TileConfig& wanted) {
    if (config == &wanted) return;
    config = &wanted;
    tiles.configure(wanted);
  }
  Pending nothing() { return {unused, {unused, unused}, {unused, unused}, sums[1]}; }
};

inline constexpr TileConfig kFullTiles = full_tiles();
template <int kRows>
inline constexpr TileConfig kByteTiles = byte_tiles(kRows);

// Tile types of SequentialSum.

// bf16 tiles with f32 sums.
struct Bf16Tiles {
  static constexpr int kRows = kTileRows, kRowTile = kTileBytes, kPanelTile = kTileBytes;
  static constexpr const TileConfig& kConfig = kFullTiles;

  template <int kSide, class Tiles>
  static HWY_INLINE void multiply(Tiles& tiles, const std::byte* panel, const std::byte* rows) {
    tiles.template load<kSide>(panel);
    tiles.template load<2 + kSide>(rows);
    tiles.template zero<4 + kSide>();
    tiles.template dot<4 + kSide, 2 + kSide, kSide>();
  }
  static HWY_INLINE F32 sum(const float* at) { return load(at); }
};
// int8 tiles with int32 sums. Codes of panels are unsigned (kUnsigned) or signed. kCount is the
// number of rows that are multiplied, 8 or 16.
template <bool kUnsigned, int kCount>
struct ByteTiles {
  static constexpr int kRows = kCount, kRowTile = kByteTile, kPanelTile = kByteTile;
  static constexpr const TileConfig& kConfig = kByteTiles<kCount>;

  template <int kSum, class Tiles>
  static HWY_INLINE void multiply(Tiles& tiles, const std::byte* panel, const std::byte* rows) {
    constexpr int kSide = kSum % 2;
    tiles.template load_bytes<kSide, kTileRowBytes>(panel);
    tiles.template load_bytes<2 + kSide, kByteRowBytes>(rows);
    tiles.template zero<4 + kSum>();
    tiles.template dot_bytes<4 + kSum, 2 + kSide, kSide, kUnsigned>();
  }
  static HWY_INLINE F32 sum(const float* at) { return to_float(load_int(at)); }
};

// Sequential accumulation over entries [0, n): d[r] = fma(scale * row_scale[r], sum of products,
// d[r]). Entry e is row tile e with its 16 scales, and unit e (if kListed, unit index[e]) of the
// panel. The products of an entry are computed while two earlier entries are added. All sums are
// integers below 2^24, so they are exact.
template <class Tiles, class TileType, bool kListed>
class SequentialSum {
 public:
  HWY_INLINE SequentialSum(Tiles& tiles, float* buffer, const std::byte* rows,
                           const float* row_scale, const std::byte* panel, const int32_t* index,
                           const NextPanel& next_panel)
      : tiles_(tiles),
        next_panel_(next_panel),
        buffer_(buffer),
        rows_(rows),
        row_scale_(row_scale),
        panel_(panel),
        index_(index) {}

  HWY_INLINE void run(int64_t n, float* out) const {
    F32 d[kRows];
    unroll<kRows>([&](auto r) { d[r()] = load(out + r() * kLanes); });
    begin<0>(0);
    if (n > 1) begin<1>(1);
    int64_t e = 0;
    for (; e + 3 < n; e += 2) {
      begin<0>(e + 2);
      add_entry(e, d);
      begin<1>(e + 3);
      add_entry(e + 1, d);
    }
    if (e + 2 < n) begin<0>(e + 2);
    for (; e < n; ++e) add_entry(e, d);
    unroll<kRows>([&](auto r) { store(out + r() * kLanes, d[r()]); });
  }

 private:
  static constexpr int kRows = TileType::kRows;

  HWY_INLINE const std::byte* unit(int64_t e) const {
    return panel_ + (kListed ? int64_t{index_[e]} : e) * (TileType::kPanelTile + 64);
  }
  HWY_INLINE float* sums(int64_t e) const { return buffer_ + (e & 3) * kTileFloats; }
  template <int kSide>
  HWY_INLINE void begin(int64_t e) const {
    next_panel_.fetch(e);
    TileType::template multiply<kSide>(tiles_, unit(e), rows_ + e * TileType::kRowTile);
    tiles_.template store<4 + kSide>(sums(e));
  }
  HWY_INLINE void add_entry(int64_t e, F32 (&d)[kRows]) const {
    const F32 scale = load(reinterpret_cast<const float*>(unit(e) + TileType::kPanelTile));
    const float* s = row_scale_ + e * kTileRows;
    const float* c = sums(e);
    unroll<kRows>([&](auto r) {
      d[r()] = fma(mul(scale, set(s[r()])), TileType::sum(c + r() * kLanes), d[r()]);
    });
  }

  Tiles& tiles_;
  const NextPanel& next_panel_;
  float* buffer_;
  const std::byte* rows_;
  const float* row_scale_;
  const std::byte* panel_;
  const int32_t* index_;
};

template <class Tiles, class TileType>
HWY_NOINLINE void accumulate(TileWorker<Tiles>& w, const std::byte* rows, const float* row_scale,
                             const std::byte* panel, int64_t n, float* d) {
  w.use(TileType::kConfig);
  SequentialSum<Tiles, TileType, false>(w.tiles, w.tile_sums, rows, row_scale, panel, nullptr,
                                        w.next_panel)
      .run(n, d);
}
template <class Tiles, class TileType>
HWY_NOINLINE void accumulate_listed(TileWorker<Tiles>& w, const std::byte* rows,
                                    const float* row_scale, const std::byte* panel,
                                    const int32_t* index, int64_t n, float* d) {
  w.use(TileType::kConfig);
  SequentialSum<Tiles, TileType, true>(w.tiles, w.tile_sums, rows, row_scale, panel, index, {})
      .run(n, d);
}

// Adds pending products for rows [kFirst, kFirst + kCount) of the 32 rows of two groups.
template <int kFirst, int kCount>
HWY_INLINE void add_pending(const Pending& p) {
  constexpr int kGroup = kFirst / kTileRows;
  const F32 scale = load(p.scale);
#pragma GCC unroll 16
  for (int i = kFirst % kTileRows; i < kFirst % kTileRows + kCount; ++i) {
    const float* sums = p.sums + kGroup * 2 * kTileFloats + i * kLanes;
    float* d = p.d[kGroup] + i * kLanes;
    const F32 t = add(load(sums), load(sums + kTileFloats));
    store(d, fma(mul(scale, set(p.row_scale[kGroup][i])), t, load(d)));
  }
}
template <class Tiles>
void add_last(TileWorker<Tiles>& w) {
  add_pending<0, 16>(w.pending);
  add_pending<16, 16>(w.pending);
  w.pending = w.nothing();
}

// Step 0 to 7 of the product of a block of 256 of a panel with one or two groups (`rows`: their
// tiles). Tiles 4 to 7 hold the sums [group][2]. Interleaved with the tile products, a part of the
// pending products of the previous block is added.
template <class Tiles, Split kSplit, int kGroups>
HWY_INLINE void super_step(Tiles& t, const std::byte* const (&rows)[2], const std::byte* panel,
                           const Pending& before, auto step) {
  constexpr int kStep = step();
  if constexpr (kSplit == Split::kPlanes) {
    t.template load<0>(panel + 2 * kStep * kTileBytes);
    t.template load<1>(panel + (2 * kStep + 1) * kTileBytes);
    t.template load<2>(rows[0] + kStep * kTileBytes);
    t.template dot<4, 2, 0>();
    t.template dot<5, 2, 1>();
    if constexpr (kGroups == 2) {
      t.template load<3>(rows[1] + kStep * kTileBytes);
      t.template dot<6, 3, 0>();
      t.template dot<7, 3, 1>();
    }
  } else {
    constexpr int kHalf = kStep % 2;
    constexpr int kStrip = kStep / 2 + 4 * kHalf;
    t.template load<kHalf>(panel + kStrip * kTileBytes);
    t.template load<2>(rows[0] + kStrip * kTileBytes);
    t.template dot<4 + kHalf, 2, kHalf>();
    if constexpr (kGroups == 2) {
      t.template load<3>(rows[1] + kStrip * kTileBytes);
      t.template dot<6 + kHalf, 3, kHalf>();
    }
  }
  add_pending<4 * kStep, 4>(before);
}

template <class Tiles, Split kSplit, int kGroups>
HWY_NOINLINE void super_block(TileWorker<Tiles>& w, const std::byte* first, const std::byte* second,
                              const std::byte* panel, const Pending& next) {
  w.use(kFullTiles);
  Tiles& t = w.tiles;
  const std::byte* const rows[2] = {first, second};
  const Pending before = w.pending;  // in registers
  t.template zero<4>();
  t.template zero<5>();
  if constexpr (kGroups == 2) {
    t.template zero<6>();
    t.template zero<7>();
  }
  unroll<8>([&](auto step) { super_step<Tiles, kSplit, kGroups>(t, rows, panel, before, step); });
  float* sums = w.sums[w.side];
  t.template store<4>(sums);
  t.template store<5>(sums + kTileFloats);
  if constexpr (kGroups == 2) {
    t.template store<6>(sums + 2 * kTileFloats);
    t.template store<7>(sums + 3 * kTileFloats);
  }
  w.pending = next;
  w.pending.sums = sums;
  w.side ^= 1;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_AMX_MULTIPLY_INL_H
