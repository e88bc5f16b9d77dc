// GEMM on AMX tiles. Loops, from the outside: blocks of row groups, batches of panels (split over
// the workers), column ranges that keep the rows in L2, chunks of columns that are expanded into
// tiles in L1, groups of 16 rows.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tiles/amx_linear.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>
#include <cstring>

#include "kernels/cpu/tiles/amx_emulated.h"
#include "kernels/cpu/tiles/amx_linear.h"
#include "kernels/cpu/tiles/amx_memory.h"

#if HWY_TARGET == HWY_AVX3_DL

#include "kernels/cpu/linear/epilogue-inl.h"
#include "kernels/cpu/linear/rows-inl.h"
#include "kernels/cpu/tiles/amx_few-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const LinearPhases kLinearPhases[2];

namespace {

constexpr int64_t kFewestRows = 12;        // with fewer rows, vector dot products are faster
constexpr int64_t kRowsInCache = 1 << 20;  // bytes: half of an L2 cache of 2 MiB

using Packed = const std::byte* const*;  ///< the parts of a packed panel

/// The tile microkernels of one weight type.
template <class Tiles>
struct TileKernels {
  Activations activations;
  /// Expands columns [k, k + width) of a panel into tiles.
  void (*expand)(Packed packed, int64_t k, int64_t width, std::byte* out);
  /// Accumulates columns [k, k + width) of `count` <= 2 groups in d[group], each [16][16].
  void (*multiply)(TileWorker<Tiles>& w, const TileGroup* groups, int count, int64_t k,
                   int64_t width, const std::byte* expanded, float* const* d);
  /// Called before complete() of the first group of a panel; may initialise `whole`, memory that
  /// the groups of the panel share. May be null.
  void (*begin)(Packed packed, int64_t cols, std::byte* whole);
  /// Turns the accumulators of all columns into outputs: adds residuals and minima. May be null.
  void (*complete)(TileWorker<Tiles>& w, const TileGroup& group, Packed packed, int64_t cols,
                   std::byte* whole, float* d);
  /// Replaces expand() and multiply() for all columns if there is one group (amx_few-inl.h). May be
  /// null.
  void (*few)(TileWorker<Tiles>& w, const TileGroup& group, Packed packed, int64_t cols, float* d);
};

template <typename T, typename PanelLayout>
void expand_block_chunk(Packed packed, int64_t k, int64_t width, std::byte* out) {
  expand_blocks<T>(PanelLayout(), PanelLayout::open(packed), k / 32, width / 32, out);
}
template <class Tiles, bool kUnsigned>
void multiply_blocks(TileWorker<Tiles>& w, const TileGroup* groups, int count, int64_t k,
                     int64_t width, const std::byte* expanded, float* const* d) {
  const int64_t b = k / 32;
  for (int g = 0; g < count; ++g) {
    const auto multiply = groups[g].half ? accumulate<Tiles, ByteTiles<kUnsigned, kTileRows / 2>>
                                         : accumulate<Tiles, ByteTiles<kUnsigned, kTileRows>>;
    multiply(w, groups[g].tiles + b * kByteTile, groups[g].scale + b * kTileRows, expanded,
             width / 32, d[g]);
  }
}

// For blocks of 32, `whole` holds one unit per block, expanded on first use, then one flag per
// block that says whether it has been expanded.
inline bool* is_expanded(std::byte* whole, int64_t blocks) {
  return reinterpret_cast<bool*>(whole + blocks * kByteUnit);
}
inline void begin_blocks(Packed, int64_t cols, std::byte* whole) {
  std::fill_n(is_expanded(whole, cols / 32), cols / 32, false);
}
// Adds the products with the residuals of outlier blocks. expand(b, out) expands block b.
template <class Tiles, bool kUnsigned, typename Expand>
void add_residual(TileWorker<Tiles>& w, const TileGroup& group, int64_t blocks, std::byte* whole,
                  Expand expand, float* d) {
  bool* const expanded = is_expanded(whole, blocks);
  const int32_t count = group.residual_block[blocks];
  for (int32_t e = 0; e < count; ++e) {
    const int32_t b = group.residual_block[e];
    if (!expanded[b]) expand(b, whole + b * kByteUnit);
    expanded[b] = true;
  }
  if (count == 0) return;
  const auto add = group.half ? accumulate_listed<Tiles, ByteTiles<kUnsigned, kTileRows / 2>>
                              : accumulate_listed<Tiles, ByteTiles<kUnsigned, kTileRows>>;
  add(w, group.residual, group.residual_scale, whole, group.residual_block, count, d);
}
// Adds M (linear.h) of kRows rows. min_of(b) returns the minima of block b.
template <int kRows, typename Min>
HWY_INLINE void add_minima_of(const TileGroup& group, int64_t blocks, Min min_of, float* d) {
  F32 m[kRows];
  for (int r = 0; r < kRows; ++r) m[r] = zero();
  for (int64_t b = 0; b < blocks; ++b) {
    const F32 min = min_of(b);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) m[r] = fma(min, set(group.moment[b * kTileRows + r]), m[r]);
  }
  for (int r = 0; r < kRows; ++r) store(d + r * kLanes, add(load(d + r * kLanes), m[r]));
}
template <typename Min>
HWY_INLINE void add_minima(const TileGroup& group, int64_t blocks, Min min_of, float* d) {
  if (group.half)
    add_minima_of<kTileRows / 2>(group, blocks, min_of, d);
  else
    add_minima_of<kTileRows>(group, blocks, min_of, d);
}
template <class Tiles, typename T, typename PanelLayout>
void complete_blocks(TileWorker<Tiles>& w, const TileGroup& group, Packed packed, int64_t cols,
                     std::byte* whole, float* d) {
  const auto panel = PanelLayout::open(packed);
  const auto expand = [&](int64_t b, std::byte* out) {
    expand_blocks<T>(PanelLayout(), panel, b, 1, out);
  };
  add_residual<Tiles, T::kOffset == 0>(w, group, cols / 32, whole, expand, d);
  if constexpr (PanelLayout::kBias)
    add_minima(
        group, cols / 32, [&](int64_t b) { return PanelLayout::bias(panel, b); }, d);
}

// Affine groups: thin wrappers around functions compiled once for all group sizes and scale types.
template <DType kType>
using AffineOf = PanelAffine<affine_format(kType).bits>;
template <DType kType>
void expand_affine_chunk(Packed packed, int64_t k, int64_t width, std::byte* out) {
  expand_affine<AffineOf<kType>>(affine_format(kType), bytes_of(*packed), k / 32, width / 32, out);
}
template <class Tiles>
struct AffinePanel {
  AffineFormat format;
  void (*expand)(const AffineFormat& format, const uint8_t* panel, int64_t first, int64_t blocks,
                 std::byte* out);
  const uint8_t* panel;

  HWY_NOINLINE void complete(TileWorker<Tiles>& w, const TileGroup& group, int64_t blocks,
                             std::byte* whole, float* d) const {
    const AffineLayout at(format);
    const auto one = [&](int64_t b, std::byte* out) { expand(format, panel, b, 1, out); };
    add_residual<Tiles, true>(w, group, blocks, whole, one, d);
    add_minima(
        group, blocks, [&](int64_t b) { return at.bias(panel, b); }, d);
  }
};
template <class Tiles, DType kType>
void complete_affine(TileWorker<Tiles>& w, const TileGroup& group, Packed packed, int64_t cols,
                     std::byte* whole, float* d) {
  const AffinePanel<Tiles> panel = {affine_format(kType), expand_affine<AffineOf<kType>>,
                                    bytes_of(*packed)};
  panel.complete(w, group, cols / 32, whole, d);
}

template <typename T, DType kType>
void expand_super_chunk(Packed packed, int64_t k, int64_t, std::byte* out) {
  expand_super<T, kType>(*packed + k / 256 * panel_format(T::kType).unit, out);
}
template <class Tiles, Split kSplit>
void multiply_super(TileWorker<Tiles>& w, const TileGroup* groups, int count, int64_t k, int64_t,
                    const std::byte* expanded, float* const* d) {
  const int last = count - 1;
  Pending next = {reinterpret_cast<const float*>(expanded + kSuperTiles * kTileBytes),
                  {groups[0].scale + k / 256 * kTileRows, groups[last].scale + k / 256 * kTileRows},
                  {d[0], count == 2 ? d[1] : w.unused},
                  nullptr};
  const std::byte* first = groups[0].tiles + k / 32 * kTileBytes;
  const std::byte* second = groups[last].tiles + k / 32 * kTileBytes;
  if (count == 2)
    super_block<Tiles, kSplit, 2>(w, first, second, expanded, next);
  else
    super_block<Tiles, kSplit, 1>(w, first, second, expanded, next);
}
// Subtracts M (linear.h), which is also computed on tiles.
template <class Tiles>
void complete_super(TileWorker<Tiles>& w, const TileGroup& group, Packed, int64_t cols,
                    std::byte* whole, float* d) {
  alignas(64) float m[kTileFloats] = {};
  accumulate<Tiles, Bf16Tiles>(w, group.sums, group.scale, whole, cols / 256, m);
  for (int r = 0; r < kTileRows; ++r)
    store(d + r * kLanes, sub(load(d + r * kLanes), load(m + r * kLanes)));
}

template <class Tiles, typename T, typename PanelLayout = BlockLayout<T>>
constexpr TileKernels<Tiles> kOfBlocks = {Activations::kPer32,
                                          expand_block_chunk<T, PanelLayout>,
                                          multiply_blocks<Tiles, T::kOffset == 0>,
                                          begin_blocks,
                                          complete_blocks<Tiles, T, PanelLayout>,
                                          multiply_few<Tiles, T, PanelLayout>};
template <class Tiles>
struct AffineTiles {
  TileKernels<Tiles> of[kAffineTypes];
};
template <class Tiles, int... kIndex>
constexpr AffineTiles<Tiles> affine_tiles(std::integer_sequence<int, kIndex...>) {
  return {
      {{Activations::kPer32, expand_affine_chunk<affine_at(kIndex)>, multiply_blocks<Tiles, true>,
        begin_blocks, complete_affine<Tiles, affine_at(kIndex)>, nullptr}...}};
}
template <class Tiles>
constexpr AffineTiles<Tiles> kOfAffine =
    affine_tiles<Tiles>(std::make_integer_sequence<int, kAffineTypes>());
template <class Tiles, typename T, DType kType>
constexpr TileKernels<Tiles> super_kernels() {
  TileKernels<Tiles> k = {Activations::kPer256,
                          expand_super_chunk<T, kType>,
                          multiply_super<Tiles, kSplit<T>>,
                          nullptr,
                          nullptr,
                          nullptr};
  if constexpr (T::kDmin != 0) {
    k.begin = expand_mins<T>;
    k.complete = complete_super<Tiles>;
  }
  return k;
}
template <class Tiles, typename T, DType kType = T::kType>
constexpr TileKernels<Tiles> kOfSuper = super_kernels<Tiles, T, kType>();

// Returns null for types without tile kernels.
template <class Tiles>
constexpr const TileKernels<Tiles>* tile_kernels(DType type, uint8_t format = 0) {
  if (format == kSplitFormat) return &kOfBlocks<Tiles, PanelSplitQ8_0, SplitLayout<3>>;
  switch (type) {
    case DType::kQ4_0: return &kOfBlocks<Tiles, PanelQ4_0>;
    case DType::kQ4_1: return &kOfBlocks<Tiles, PanelQ4_1>;
    case DType::kQ5_0: return &kOfBlocks<Tiles, PanelQ5_0>;
    case DType::kQ5_1: return &kOfBlocks<Tiles, PanelQ5_1>;
    case DType::kQ8_0: return &kOfBlocks<Tiles, PanelQ8_0>;
    case DType::kIQ4_NL: return &kOfBlocks<Tiles, PanelIQ4_NL>;
    case DType::kMXFP4: return &kOfBlocks<Tiles, PanelMXFP4>;
    case DType::kQ2_K: return &kOfSuper<Tiles, PanelQ2_K>;
    case DType::kQ3_K: return &kOfSuper<Tiles, PanelQ3_K>;
    case DType::kQ4_K: return &kOfSuper<Tiles, PanelQ4_K>;
    case DType::kQ5_K: return &kOfSuper<Tiles, PanelQ5_K>;
    case DType::kQ6_K: return &kOfSuper<Tiles, PanelQ6_K>;
    case DType::kQ8_K: return &kOfSuper<Tiles, PanelQ8_K>;
    case DType::kIQ4_XS: return &kOfSuper<Tiles, PanelCodes4>;
    case DType::kIQ3_XXS: return &kOfSuper<Tiles, PanelCodes4, DType::kIQ3_XXS>;
    case DType::kIQ3_S: return &kOfSuper<Tiles, PanelCodes4, DType::kIQ3_S>;
    case DType::kIQ2_XXS: return &kOfSuper<Tiles, PanelCodes3<32>>;
    case DType::kIQ1_S: return &kOfSuper<Tiles, PanelCodes3<32>, DType::kIQ1_S>;
    case DType::kIQ2_XS: return &kOfSuper<Tiles, PanelCodes3<16>>;
    case DType::kIQ2_S: return &kOfSuper<Tiles, PanelCodes3<16>, DType::kIQ2_S>;
    case DType::kIQ1_M: return &kOfSuper<Tiles, PanelCodes3<16>, DType::kIQ1_M>;
    case DType::kTQ1_0: return &kOfSuper<Tiles, PanelCodes2, DType::kTQ1_0>;
    case DType::kTQ2_0: return &kOfSuper<Tiles, PanelCodes2>;
    default: break;
  }
  return is_affine(type) ? &kOfAffine<Tiles>.of[affine_index(type)] : nullptr;
}
[[maybe_unused]] constexpr bool types_are_those_of_has_tiles() {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const auto type = static_cast<DType>(i);
    if (has_tiles(type) != (tile_kernels<EmulatedTiles>(type) != nullptr)) return false;
  }
  return true;
}
// With a sanitizer, GCC does not evaluate the comparison of an address with null at compile time.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static_assert(types_are_those_of_has_tiles());
#endif

/// The quantised token rows, in groups of 16.
struct TileRows {
  const Product& p;
  std::byte* base;

  int64_t groups() const { return (p.rows + kTileRows - 1) / kTileRows; }
  int count(int64_t group) const {
    return static_cast<int>(std::min<int64_t>(kTileRows, p.rows - group * kTileRows));
  }
  std::byte* at(Activations kind, int64_t group) const {
    const bool second = kind == Activations::kPer256 && p.needs[1];
    const int64_t before =
        second ? groups() * TileLayout(Activations::kPer32, p.cols).bytes : int64_t{0};
    return base + before + group * TileLayout(kind, p.cols).bytes;
  }
  TileGroup group(Activations kind, int64_t index) const {
    TileGroup group = tile_group(kind, at(kind, index), p.cols);
    group.half = count(index) <= kTileRows / 2;
    return group;
  }
};

/// A panel and its kernels.
template <class Tiles>
struct TilePanel {
  const TileKernels<Tiles>* kernels;
  const Weight* weight;
  const std::byte* packed[kMostParts];
  int64_t index;

  /// Returns what to prefetch while columns from k on are multiplied: the same columns of the panel
  /// `between` panels later.
  NextPanel next_panel(int64_t between, int64_t k, int64_t cols) const {
    NextPanel f;
    if (index + between >= weight->panels()) return f;
    const int block = kernels->activations == Activations::kPer256 ? 256 : 32;
    f.parts = weight->kernels->parts;
    for (int i = 0; i < f.parts; ++i) {
      const int64_t stride = weight->parts[i].stride;
      f.bytes[i] = stride * block / cols;
      f.at[i] = weight->part(i, index + between) + f.bytes[i] * (k / block);
    }
    return f;
  }
};

// Multiplies one worker's panels of one output with groups [first, first + groups) of the rows.
template <class Tiles>
class TileBlock {
 public:
  TileBlock(TileWorker<Tiles>& worker, const TileRows& rows, const BatchMemory& memory,
            int64_t first, int64_t groups)
      : worker_(worker), rows_(rows), memory_(memory), first_(first), groups_(groups) {
    // The columns for which all rows of the block fit the L2 cache.
    const Activations kind = rows.p.needs[2] ? Activations::kPer256 : Activations::kPer32;
    chunk_ = kind == Activations::kPer256 ? kSuperChunk : kBlockChunk;
    const int64_t strip = groups * chunk_ / 32 * row_tile_bytes(kind);
    columns_ = std::max<int64_t>(1, kRowsInCache / strip) * chunk_;
    between_ = batch() / (rows.p.gated ? 2 : 1);
  }
  // Returns the number of panels per batch. All panels of a batch are multiplied with a column
  // range while its rows are in the L2 cache.
  int64_t batch() const { return columns_ >= rows_.p.cols ? 2 : kBatchPanels; }

  void multiply(const TilePanel<Tiles>* panels, int count) {
    const auto has_few = [](const TilePanel<Tiles>& panel) {
      return panel.kernels->few != nullptr;
    };
    if (groups_ == 1 && std::all_of(panels, panels + count, has_few))
      for (int i = 0; i < count; ++i)
        panels[i].kernels->few(worker_, rows_.group(panels[i].kernels->activations, first_),
                               panels[i].packed, rows_.p.cols, memory_.accumulator(i, 0));
    else
      multiply_chunks(panels, count);
    for (int i = 0; i < count; ++i) complete(panels[i], i);
  }
  const float* result(int panel, int64_t group) const { return memory_.accumulator(panel, group); }

 private:
  void multiply_chunks(const TilePanel<Tiles>* panels, int count) {
    for (int i = 0; i < count; ++i)
      std::memset(memory_.accumulator(i, 0), 0, static_cast<size_t>(groups_) * kTileFloats * 4);
    for (int64_t k = 0; k < rows_.p.cols; k += columns_)
      for (int i = 0; i < count; i += 2)
        multiply_columns(panels + i, i, std::min(2, count - i), k,
                         std::min(rows_.p.cols, k + columns_));
  }
  // Multiplies one or two panels, which share the rows in the L1 cache.
  void multiply_columns(const TilePanel<Tiles>* panels, int first, int count, int64_t k,
                        int64_t end) {
    for (; k < end; k += chunk_) {
      const int64_t width = std::min(chunk_, end - k);
      for (int i = 0; i < count; ++i)
        panels[i].kernels->expand(panels[i].packed, k, width, chunk(i));
      for (int64_t g = 0; g < groups_; g += 2) {
        const int both = static_cast<int>(std::min<int64_t>(2, groups_ - g));
        for (int i = 0; i < count; ++i) {
          const Activations kind = panels[i].kernels->activations;
          const TileGroup groups[2] = {rows_.group(kind, first_ + g),
                                       rows_.group(kind, first_ + g + both - 1)};
          float* const d[2] = {memory_.accumulator(first + i, g),
                               memory_.accumulator(first + i, g + both - 1)};
          worker_.next_panel =
              g == 0 ? panels[i].next_panel(between_, k, rows_.p.cols) : NextPanel();
          panels[i].kernels->multiply(worker_, groups, both, k, width, chunk(i), d);
        }
      }
      add_last(worker_);
    }
  }
  void complete(const TilePanel<Tiles>& panel, int i) {
    const TileKernels<Tiles>& k = *panel.kernels;
    if (k.begin != nullptr) k.begin(panel.packed, rows_.p.cols, memory_.whole);
    for (int64_t g = 0; g < groups_ && k.complete != nullptr; ++g)
      k.complete(worker_, rows_.group(k.activations, first_ + g), panel.packed, rows_.p.cols,
                 memory_.whole, memory_.accumulator(i, g));
  }
  std::byte* chunk(int i) const { return memory_.chunks + i * kChunkBytes; }

  TileWorker<Tiles>& worker_;
  const TileRows& rows_;
  const BatchMemory& memory_;
  int64_t first_, groups_, chunk_, columns_;
  int64_t between_;  // panels of a weight per batch: the distance to the panel to prefetch
};

// Multiplies a share of the panels of an output. With a gate, panels of both weights alternate.
template <class Tiles>
void multiply_share(TileWorker<Tiles>& worker, const TileRows& rows, const BatchMemory& memory,
                    int output, Share share, const Operand* weights, const Finish& finish) {
  const Product& p = rows.p;
  // Fills the panel in place: copying a fresh struct would stall on store forwarding.
  const auto open = [&](TilePanel<Tiles>& panel, int weight, int64_t index) {
    const Weight& w = p.weights[weight];
    const Operand& of = weights[weight];
    panel.kernels = tile_kernels<Tiles>(of.dtype, of.format);
    panel.weight = &w;
    panel.index = index;
    for (int k = 0; k < w.kernels->parts; ++k) panel.packed[k] = w.part(k, index);
  };
  for (int64_t first = 0; first < rows.groups(); first += kBlockGroups) {
    const int64_t groups = std::min(kBlockGroups, rows.groups() - first);
    TileBlock<Tiles> block(worker, rows, memory, first, groups);
    const int each = p.gated ? 2 : 1;
    const int64_t step = block.batch() / each;
    for (int64_t panel = share.begin; panel < share.end; panel += step) {
      TilePanel<Tiles> panels[kBatchPanels];
      int count = 0;
      for (int64_t i = panel; i < std::min(share.end, panel + step); ++i) {
        for (int n = 0; n < each; ++n, ++count) open(panels[count], n == 0 ? output : 1, i);
      }
      block.multiply(panels, count);
      for (int i = 0; i < count; i += each)
        for (int64_t g = 0; g < groups; ++g)
          finish(output, panels[i].index, (first + g) * kTileRows, rows.count(first + g),
                 block.result(i, g), p.gated ? block.result(i + 1, g) : nullptr);
    }
  }
}

const KernelPhases& without_tiles(bool argmax) {
  return argmax ? kLinearPhases[0].many_argmax : kLinearPhases[0].many;
}

// Quantises group g. `scratch` has quantise_scratch_bytes().
void quantise_group_of(const Dispatch& d, const TileRows& rows, int64_t g, std::byte* scratch) {
  using enum Activations;
  const Product& p = rows.p;
  Row of_group[kTileRows];
  const int count = rows.count(g);
  input_rows(d, p, g * kTileRows, count, scratch + row_scratch_bytes(p), of_group);
  RowScratch own;
  own.row = scratch;
  own.outliers =
      reinterpret_cast<OutlierBlock*>(scratch + activation_row_bytes(Activations::kPer32, p.cols));
  if (p.needs[1]) rows_per32(of_group, count, p.cols, own, rows.at(kPer32, g));
  if (p.needs[2]) rows_per256(of_group, count, p.cols, own, rows.at(kPer256, g));
}

// A single group is quantised by every worker itself (in multiply()): splitting its rows, or
// reading another worker's results, takes longer.
template <bool kArgmax>
void quantise_activations(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p =
      product(d, shape.count(d.in[FusedLinearIn::kX].rows), Target::kAvx512Vnni, /*exact=*/false);
  if (p.rows < kFewestRows) return without_tiles(kArgmax)[0](d, shape, worker);
  const TileRows rows = {p, d.work + p.best_bytes(kArgmax, worker)};
  if (rows.groups() == 1) return;
  const Share groups = share(rows.groups(), 1, worker);
  for (int64_t g = groups.begin; g < groups.end; ++g) quantise_group_of(d, rows, g, worker.scratch);
}

template <class Tiles, bool kArgmax>
void multiply(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p =
      product(d, shape.count(d.in[FusedLinearIn::kX].rows), Target::kAvx512Vnni, /*exact=*/false);
  if (p.rows < kFewestRows) return without_tiles(kArgmax)[1](d, shape, worker);
  Best* best = kArgmax ? start_best(d.work, p.outer_rows(), worker.index) : nullptr;
  TileRows rows = {p, d.work + p.best_bytes(kArgmax, worker)};
  const BatchMemory memory(worker.scratch, p.cols);
  if (rows.groups() == 1) {
    std::byte* const own = worker.scratch + BatchMemory::bytes(p.cols);
    rows.base = own + quantise_scratch_bytes(p);
    quantise_group_of(d, rows, 0, own);
  }
  const Epilogue finish = epilogue(d, best);
  const Operand* weights = &d.in[FusedLinearIn::kWeight];
  TileWorker<Tiles> tiles;
  for (int i = 0; i < p.outputs(); ++i) {
    const Share panels = p.share_of(i, worker);
    if (panels.begin < panels.end)
      multiply_share(tiles, rows, memory, i, panels, weights, {finish, p});
  }
  tiles.tiles.release();
}

void choose_best(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  without_tiles(/*argmax=*/true)[2](d, shape, worker);
}

template <class Tiles>
constexpr LinearPhases tile_phases() {
  LinearPhases p = {};
  p.many = {quantise_activations<false>, multiply<Tiles, false>, nullptr};
  p.many_argmax = {quantise_activations<true>, multiply<Tiles, true>, choose_best};
  return p;
}

}  // namespace

// Tables instead of functions: only selected kernels may execute code of this target.
extern const LinearPhases kEmulatedTilePhases, kTilePhases;
constexpr LinearPhases kEmulatedTilePhases = tile_phases<EmulatedTiles>();
constexpr LinearPhases kTilePhases = tile_phases<AmxTiles>();

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE
namespace veery {

int64_t amx_activation_bytes(const Product& p) {
  return (p.rows + kTileRows - 1) / kTileRows * group_bytes(p);
}

#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET > HWY_AVX2  // otherwise AVX-512 is not compiled

const LinearPhases* amx_phases(const Dispatch& dispatch, const KernelChoice& choice) {
  if (choice.exact) return nullptr;
  for (int i = 0; i < dispatch.as<FusedLinearAttr>().weights; ++i)
    if (const Operand& w = dispatch.in[FusedLinearIn::kWeight + i];
        !in_panels(w) || !has_tiles(w.dtype))
      return nullptr;
  return choice.target == Target::kAmx           ? &N_AVX3_DL::kTilePhases
         : choice.target == Target::kAmxEmulated ? &N_AVX3_DL::kEmulatedTilePhases
                                                 : nullptr;
}
int64_t amx_scratch_bytes(const Product& p) {
  return BatchMemory::bytes(p.cols) + quantise_scratch_bytes(p) + group_bytes(p);
}

#else

const LinearPhases* amx_phases(const Dispatch&, const KernelChoice&) { return nullptr; }
int64_t amx_scratch_bytes(const Product&) { return 0; }

#endif

}  // namespace veery
#endif
