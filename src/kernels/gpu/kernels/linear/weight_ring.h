// item_ring.h: how the weights of a product come to a block of threads, where their way takes the
// time: item by item to the warp that multiplies it.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// Warps that multiply: kWarps, or, where that is 0, all of the block but one.
template <int kWarps>
VEERY_GPU int multiplying() {
  return kWarps > 0 ? kWarps : warps() - 1;
}

/// The items of a block's panels in the order in which its warps take them: of RowPlan::kSlots
/// panels (or gates and panels, which alternate) chunk after chunk, of a chunk panel after panel,
/// so that a chain rarely waits for the item before.
template <int kWarps>
struct RowItems {
  int slots = 0, chunks = 0;
  int group = 0, width = 0, chunk = 0, slot = 0;  ///< the item; group: its first slot
  int more_chunks = 0, more_slots = 0;            ///< to the warp's next one

  /// Where there are no more than `item`: what is left of it is `chunk`.
  VEERY_GPU void begin(int of_slots, int of_chunks, int item) {
    slots = of_slots, chunks = of_chunks, group = 0;
    enter(item);
  }
  VEERY_GPU bool ended() const { return group >= slots; }
  VEERY_GPU void next() {
    slot += more_slots, chunk += more_chunks;
    if (slot >= width) slot -= width, ++chunk;
    if (chunk < chunks) return;
    const int item = (chunk - chunks) * width + slot;
    group += width;
    enter(item);
  }
  /// How many items of the slot there were before.
  VEERY_GPU int turn() const { return panel() * chunks + chunk; }
  /// How many panels of the slot there were before.
  VEERY_GPU int panel() const { return group / RowPlan::kSlots; }

 private:
  VEERY_GPU void enter(int item) {
    for (; group < slots; group += width, item -= width * chunks) {
      width = slots - group < RowPlan::kSlots ? slots - group : RowPlan::kSlots;
      if (item < width * chunks) break;
    }
    if (group >= slots) return void(chunk = item);
    chunk = item / width, slot = item - chunk * width;
    more_chunks = multiplying<kWarps>() / width;
    more_slots = multiplying<kWarps>() - more_chunks * width;
  }
};

/// Turns that a slot has in all, of so many slots and chunks.
VEERY_GPU int turns_of(int slots, int chunks) {
  return (slots + RowPlan::kSlots - 1) / RowPlan::kSlots * chunks;
}

/// Where the rings of a block's warps are in shared memory (RowPlan, GroupPlan).
struct RingPlaces {
  int mbarriers, items, item_bytes;
  int stages;  ///< items on their way to each warp
};

/// Where an item's weights are.
struct ItemSource {
  const uint8_t* from = nullptr;
  int bytes = 0;
};

/// The items of warp `of` of a block that has the panels `blocks_x()` apart, in the order in which
/// they come. The warp asks for them itself. Each lane knows where one of its next items is, as
/// what finds that takes as long as half of a product does.
template <Format kFormat, int kUnits, int kWarps>
class ItemRing {
 public:
  using Items = RowItems<kWarps>;
  static constexpr int kUnitBytes = unit_places(kFormat).bytes;

  VEERY_GPU ItemRing(const LinearArguments& arguments, const RingPlaces& places, int of)
      : a_(arguments), places_(places), of_(of) {
    constexpr int kOfUnit = format_info(kFormat).block;
    units_ = (arguments.form.cols + kOfUnit - 1) / kOfUnit;
    chunks_ = (units_ + kUnits - 1) / kUnits;
    const int panels = panels_of(a_), parts = a_.gated != 0 ? 2 : 1;
    slots_ = block_x() < panels ? ((panels - 1 - block_x()) / blocks_x() + 1) * parts : 0;
    left_ = (slots_ * chunks_ - of + multiplying<kWarps>() - 1) / multiplying<kWarps>();
  }

  VEERY_GPU int units() const { return units_; }
  VEERY_GPU int chunks() const { return chunks_; }
  /// Panels of the block, or gates and panels.
  VEERY_GPU int slots() const { return slots_; }
  /// That a slot has in all.
  VEERY_GPU int turns() const { return turns_of(slots_, chunks_); }
  VEERY_GPU Items first() const { return items_from(of_); }
  /// The panel of slot `own`, and its weight.
  VEERY_GPU PanelOf panel_of(int own) const {
    const bool gated = a_.gated != 0;
    const PanelOf of = find_panel(a_, block_x() + (gated ? own / 2 : own) * blocks_x());
    return {gated ? own % 2 : of.weight, of.panel};
  }

  /// By the warp. Asks for the first item. Weights do not depend on what was launched before.
  VEERY_GPU void begin() {
    if (lane() < places_.stages) make_item_mbarrier(mbarrier(lane()));
    sync_warp();
    if (left_ > 0) ask(0);
  }
  /// Asks for as many more as there is room for: once, before the first is waited for, and when
  /// what else is to come soon is there, as that waits behind all that is asked for before.
  VEERY_GPU void fill() {
    for (int i = 1; i < places_.stages && left_ > 0; ++i) ask(i);
  }
  VEERY_GPU const uint8_t* wait() const {
    wait_for_pieces(mbarrier(slot_), turn_);
    return item(slot_);
  }
  /// Asks for the next item, in the place of the last, which no lane looks at any more.
  VEERY_GPU void next() {
    if (left_ > 0) ask(slot_);
    if (++slot_ == places_.stages) slot_ = 0, ++turn_;
  }
  /// No copy may be on its way when the block ends. Where none was waited for.
  VEERY_GPU void drain() const {
    for (int i = 0; i < asked_; ++i) wait_for_pieces(mbarrier(i), 0);
  }

 private:
  VEERY_GPU Items items_from(int item) const {
    Items at;
    at.begin(slots_, chunks_, item);
    return at;
  }
  VEERY_GPU Mbarrier* mbarrier(int i) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + places_.mbarriers) + of_ * places_.stages +
           i;
  }
  VEERY_GPU uint8_t* item(int i) const {
    return shared_memory() + places_.items + (of_ * places_.stages + i) * places_.item_bytes;
  }
  VEERY_GPU void look_ahead() {
    const Items at = items_from(of_ + (asked_ + lane()) * multiplying<kWarps>());
    if (!at.ended()) next_ = source_of(at.group + at.slot, at.chunk);
  }
  VEERY_GPU ItemSource source_of(int own, int chunk) const {
    const PanelOf of = panel_of(own);
    const Weight& w = a_.weight[of.weight];
    const int unit = chunk * kUnits, count = units_ - unit < kUnits ? units_ - unit : kUnits;
    return {w.data + of.panel * w.panel + int64_t{unit} * kUnitBytes, count * kUnitBytes};
  }
  VEERY_GPU void ask(int to) {
    const int own = asked_ % kWarp;
    if (rarely(own == 0)) look_ahead();
    ask_item_of(own, mbarrier(to), item(to), next_.from, next_.bytes);
    ++asked_, --left_;
  }

  const LinearArguments& a_;
  RingPlaces places_;
  int of_, units_, chunks_, slots_;
  int slot_ = 0, turn_ = 0;  // of the item that is waited for next
  int asked_ = 0, left_;     // of the warp's items
  ItemSource next_;
};

}  // namespace veery::gpu
