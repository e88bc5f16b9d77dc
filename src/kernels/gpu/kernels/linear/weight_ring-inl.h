// weight_ring-inl.h: a warp's multi-stage buffer of weight tiles, for products bound by reading the
// weights.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// Consumer warps: kWarps, or all warps of the block except one if that is 0.
template <int kWarps>
VEERY_GPU int consumer_warps() {
  return kWarps > 0 ? kWarps : warps() - 1;
}

/// The weight tiles of a block in the order in which its warps take them. GemvSmem::kSlots panels
/// (or gate and up panels, alternating) are processed at the same time: chunk after chunk, and
/// within a chunk panel after panel, so that a tile rarely waits for the sums of the one before it.
template <int kWarps>
struct TileIterator {
  int slots = 0, chunks = 0;
  int group = 0, width = 0, chunk = 0, slot = 0;  ///< the tile; group: its first slot
  int chunk_step = 0, slot_step = 0;              ///< to the next tile of the warp

  /// If there are no more than `tile` tiles, `chunk` is the number of tiles past the end.
  VEERY_GPU void begin(int of_slots, int of_chunks, int tile) {
    slots = of_slots, chunks = of_chunks, group = 0;
    enter(tile);
  }
  VEERY_GPU bool ended() const { return group >= slots; }
  /// Whether fewer slots than before are processed at the same time. They belong to other warps
  /// than in the groups before: tile i of a slot is of warp (i * width + slot) mod warps.
  VEERY_GPU bool is_narrow() const { return group > 0 && width < GemvSmem::kSlots; }
  VEERY_GPU void next() {
    slot += slot_step, chunk += chunk_step;
    if (slot >= width) slot -= width, ++chunk;
    if (chunk < chunks) return;
    const int tile = (chunk - chunks) * width + slot;
    group += width;
    enter(tile);
  }
  /// Number of earlier tiles of the slot.
  VEERY_GPU int ticket() const { return panel() * chunks + chunk; }
  /// Number of earlier panels of the slot.
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

/// Tickets of a slot in all.
VEERY_GPU int ticket_count(int slots, int chunks) {
  return (slots + GemvSmem::kSlots - 1) / GemvSmem::kSlots * chunks;
}

/// Whether the warps must meet before a narrow last group (Tickets::meet()). Without it, a warp
/// could wait for a phase of an mbarrier whose previous phase is not complete. No mbarrier has a
/// second phase if there are few tickets.
VEERY_GPU bool must_meet(int slots, int tickets) {
  return slots % GemvSmem::kSlots != 0 && tickets > TicketSmem::kTicketsPerSlot;
}

/// Offsets of the rings of a block in shared memory (GemvSmem, GemmSkinnySmem).
struct RingLayout {
  int mbarriers, tiles, tile_bytes;
  int stages;  ///< tiles in flight per warp
};

/// The weights of a tile in device memory.
struct TileSource {
  const uint8_t* from = nullptr;
  int bytes = 0;
};

/// The tiles of warp `of`, in order; the panels of a block are blocks_x() apart. The warp issues
/// the copies itself. Each lane knows the source of one of the next 32 tiles, because finding the
/// source of one tile takes half as long as its product.
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
  /// Panels of the block, or gate and up panels.
  VEERY_GPU int slots() const { return slots_; }
  /// Tickets of each slot.
  VEERY_GPU int tickets() const { return ticket_count(slots_, chunks_); }
  VEERY_GPU Iterator first() const { return tiles_from(of_); }
  /// Returns the panel of slot `own`, and its weight.
  VEERY_GPU PanelIndex panel_of(int own) const {
    const bool gated = a_.gated != 0;
    const PanelIndex of = find_panel(a_, block_x() + (gated ? own / 2 : own) * blocks_x());
    return {gated ? own % 2 : of.weight, of.panel};
  }

  /// Issues the first copy. Weights do not depend on earlier launches.
  VEERY_GPU void begin() {
    if (lane() < layout_.stages) init_tile_mbarrier(mbarrier(lane()));
    sync_warp();
    if (left_ > 0) issue(0);
  }
  /// Issues the copies for all other stages. Called once, before the warp waits for its first tile,
  /// and after more urgent loads have arrived: these would otherwise queue up after all copies.
  VEERY_GPU void fill() {
    for (int i = 1; i < layout_.stages && left_ > 0; ++i) issue(i);
  }
  VEERY_GPU const uint8_t* wait() const {
    wait_for_phase(mbarrier(slot_), phase_);
    return tile(slot_);
  }
  /// Releases the current stage, which no lane reads any more, and issues the next copy to it.
  VEERY_GPU void next() {
    if (left_ > 0) issue(slot_);
    if (++slot_ == layout_.stages) slot_ = 0, ++phase_;
  }
  /// Waits for the copies if no tile was waited for; none may be in flight when the block ends.
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
  int slot_ = 0, phase_ = 0;  // of the tile that is waited for next
  int issued_ = 0, left_;     // tiles of the warp
  TileSource next_;
};

}  // namespace veery::gpu
