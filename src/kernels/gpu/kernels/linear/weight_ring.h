// item_ring.h: how the weights of a product come to a block of threads, where their way takes the
// time: item by item to the warp that multiplies it.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// Warps that multiply: kWarps, or, where that is 0, all of the block but one.
template <int kWarps>
VEERY_GPU int consumer_warps() {
  return kWarps > 0 ? kWarps : warps() - 1;
}

/// The items of a block's panels in the order in which its warps take them: of GemvSmem::kSlots
/// panels (or gates and panels, which alternate) chunk after chunk, of a chunk panel after panel,
/// so that a chain rarely waits for the item before.
template <int kWarps>
struct TileIterator {
  int slots = 0, chunks = 0;
  int group = 0, width = 0, chunk = 0, slot = 0;  ///< the item; group: its first slot
  int chunk_step = 0, slot_step = 0;              ///< to the warp's next one

  /// Where there are no more than `item`: what is left of it is `chunk`.
  VEERY_GPU void begin(int of_slots, int of_chunks, int tile) {
    slots = of_slots, chunks = of_chunks, group = 0;
    enter(tile);
  }
  VEERY_GPU bool ended() const { return group >= slots; }
  VEERY_GPU void next() {
    slot += slot_step, chunk += chunk_step;
    if (slot >= width) slot -= width, ++chunk;
    if (chunk < chunks) return;
    const int tile = (chunk - chunks) * width + slot;
    group += width;
    enter(tile);
  }
  /// How many items of the slot there were before.
  VEERY_GPU int ticket() const { return panel() * chunks + chunk; }
  /// How many panels of the slot there were before.
  VEERY_GPU int panel() const { return group / GemvSmem::kSlots; }

 private:
  VEERY_GPU void enter(int tile) {
    for (; group < slots; group += width, tile -= width * chunks) {
      width = slots - group < GemvSmem::kSlots ? slots - group : GemvSmem::kSlots;
      if (tile < width * chunks) break;
    }
    if (group >= slots) return void(chunk = tile);
    chunk = tile / width, slot = tile - chunk * width;
    chunk_step = consumer_warps<kWarps>() / width;
    slot_step = consumer_warps<kWarps>() - chunk_step * width;
  }
};

/// Turns that a slot has in all, of so many slots and chunks.
VEERY_GPU int ticket_count(int slots, int chunks) {
  return (slots + GemvSmem::kSlots - 1) / GemvSmem::kSlots * chunks;
}

/// Where the rings of a block's warps are in shared memory (GemvSmem, GemmSkinnySmem).
struct RingLayout {
  int mbarriers, tiles, tile_bytes;
  int stages;  ///< items on their way to each warp
};

/// Where an item's weights are.
struct TileSource {
  const uint8_t* from = nullptr;
  int bytes = 0;
};

/// The items of warp `of` of a block that has the panels `blocks_x()` apart, in the order in which
/// they come. The warp asks for them itself. Each lane knows where one of its next items is, as
/// what finds that takes as long as half of a product does.
template <WeightFormat kFormat, int kUnits, int kWarps>
class WeightRing {
 public:
  using Iterator = TileIterator<kWarps>;
  static constexpr int kUnitBytes = unit_layout(kFormat).bytes;

  VEERY_GPU WeightRing(const GemmParams& params, const RingLayout& layout, int of)
      : a_(params), layout_(layout), of_(of) {
    constexpr int kOfUnit = weight_format_info(kFormat).block;
    units_ = (params.act.cols + kOfUnit - 1) / kOfUnit;
    chunks_ = (units_ + kUnits - 1) / kUnits;
    const int panels = panel_count(a_), parts = a_.gated != 0 ? 2 : 1;
    slots_ = block_x() < panels ? ((panels - 1 - block_x()) / blocks_x() + 1) * parts : 0;
    left_ = (slots_ * chunks_ - of + consumer_warps<kWarps>() - 1) / consumer_warps<kWarps>();
  }

  VEERY_GPU int units() const { return units_; }
  VEERY_GPU int chunks() const { return chunks_; }
  /// Panels of the block, or gates and panels.
  VEERY_GPU int slots() const { return slots_; }
  /// That a slot has in all.
  VEERY_GPU int tickets() const { return ticket_count(slots_, chunks_); }
  VEERY_GPU Iterator first() const { return tiles_from(of_); }
  /// The panel of slot `own`, and its weight.
  VEERY_GPU PanelIndex panel_of(int own) const {
    const bool gated = a_.gated != 0;
    const PanelIndex of = find_panel(a_, block_x() + (gated ? own / 2 : own) * blocks_x());
    return {gated ? own % 2 : of.weight, of.panel};
  }

  /// By the warp. Asks for the first item. Weights do not depend on what was launched before.
  VEERY_GPU void begin() {
    if (lane() < layout_.stages) init_tile_mbarrier(mbarrier(lane()));
    sync_warp();
    if (left_ > 0) issue(0);
  }
  /// Asks for as many more as there is room for: once, before the first is waited for, and when
  /// what else is to come soon is there, as that waits behind all that is asked for before.
  VEERY_GPU void fill() {
    for (int i = 1; i < layout_.stages && left_ > 0; ++i) issue(i);
  }
  VEERY_GPU const uint8_t* wait() const {
    wait_for_phase(mbarrier(slot_), phase_);
    return tile(slot_);
  }
  /// Asks for the next item, in the place of the last, which no lane looks at any more.
  VEERY_GPU void next() {
    if (left_ > 0) issue(slot_);
    if (++slot_ == layout_.stages) slot_ = 0, ++phase_;
  }
  /// No copy may be on its way when the block ends. Where none was waited for.
  VEERY_GPU void drain() const {
    for (int i = 0; i < issued_; ++i) wait_for_phase(mbarrier(i), 0);
  }

 private:
  VEERY_GPU Iterator tiles_from(int tile) const {
    Iterator at;
    at.begin(slots_, chunks_, tile);
    return at;
  }
  VEERY_GPU Mbarrier* mbarrier(int i) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + layout_.mbarriers) + of_ * layout_.stages +
           i;
  }
  VEERY_GPU uint8_t* tile(int i) const {
    return shared_memory() + layout_.tiles + (of_ * layout_.stages + i) * layout_.tile_bytes;
  }
  VEERY_GPU void prefetch_sources() {
    const Iterator at = tiles_from(of_ + (issued_ + lane()) * consumer_warps<kWarps>());
    if (!at.ended()) next_ = source_of(at.group + at.slot, at.chunk);
  }
  VEERY_GPU TileSource source_of(int own, int chunk) const {
    const PanelIndex of = panel_of(own);
    const Weight& w = a_.weight[of.weight];
    const int unit = chunk * kUnits, count = units_ - unit < kUnits ? units_ - unit : kUnits;
    return {w.data + of.panel * w.panel + int64_t{unit} * kUnitBytes, count * kUnitBytes};
  }
  VEERY_GPU void issue(int to) {
    const int own = issued_ % kWarp;
    if (unlikely(own == 0)) prefetch_sources();
    copy_bulk_from_lane(own, mbarrier(to), tile(to), next_.from, next_.bytes);
    ++issued_, --left_;
  }

  const GemmParams& a_;
  RingLayout layout_;
  int of_, units_, chunks_, slots_;
  int slot_ = 0, phase_ = 0;  // of the item that is waited for next
  int issued_ = 0, left_;     // of the warp's items
  TileSource next_;
};

}  // namespace veery::gpu
