// walk_linear.h: products of a walk. Items are on their way from the weights to a ring that all
// warps share, which runs on over rows and what they wait for.
#pragma once
#include "kernels/gpu/arguments/walk_places.h"
#include "kernels/gpu/functions/attention/attend_states.h"
#include "kernels/gpu/functions/linear/linear_row.h"

namespace veery::gpu {

using WalkItems = RowItems<WalkPlaces::kWarps>;

/// What a thread knows of a walk: the table and the ring. Item i of the block is for warp i %
/// kWarps and lies in slot i % kSlots, one row's behind those of the row before; the warp asks for
/// item i + kSlots when it has looked at it. It is in registers, so what is given a reference to it
/// is compiled into its caller: other memory of a thread is as far away as the device's, as
/// barriers of the grid empty the caches in front of that.
class WalkState {
 public:
  using Places = WalkPlaces;
  static_assert(Places::kSlots % Places::kWarps == 0, "a slot's items are all for one warp");

  VEERY_GPU explicit WalkState(const WalkArguments& arguments) : a_(arguments) {}

  /// The first rows and mbarriers; the ring is begun. One warp fetches all rows, then and later.
  VEERY_GPU void begin() {
    for (int r = 0; warp() == 0 && r <= Places::kRowsAhead && r < a_.count; ++r) load_row(r);
    wait_for_groups<0>();
    // A loop: of an `if` nvcc makes predicates, and racecheck takes all threads to make mbarriers.
    for (int i = thread(); i < Places::kSlots; i += threads()) make_item_mbarrier(mbarrier(i));
    if (thread() == 0) {
      make_mbarrier(attend_mbarrier());
      *known() = {};
    }
    turns().make_all();
    fence_copies();
    sync_block();
    used_ = asked_ = item_ = ahead_item_ = warp();
    fill();
  }
  VEERY_GPU const WalkRow& row(int r) const {
    return *reinterpret_cast<const WalkRow*>(shared_memory() + Places::kRows +
                                             r % 8 * WalkRow::kBytes);
  }
  VEERY_GPU int current() const { return row_; }
  VEERY_GPU int count() const { return a_.count; }
  static VEERY_GPU Turns turns() { return Turns(shared_memory() + Places::kTurns); }
  static VEERY_GPU Mbarrier* attend_mbarrier() {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Places::kAttendMbarrier);
  }
  /// What attention of one layer finds for those after it, as that is several trips to memory.
  struct Known {
    AttendToken token;
    KnownPage page;
  };
  static_assert(sizeof(Known) <= 32);
  static VEERY_GPU Known* known() {
    return reinterpret_cast<Known*>(shared_memory() + Places::kKnown);
  }

  /// `waits`: the next row wants what all blocks have written. The block's memory is free behind
  /// it.
  VEERY_GPU void end_row(bool waits) {
    wait_for_groups<0>();
    ++row_;
    waits_ = waits;
    if (waits)
      arrive_at_grid(a_.barrier);
    else
      sync_block();
  }
  /// Until what the rows before have written is there, once a row.
  VEERY_GPU void wait_for_rows() {
    if (waits_) wait_for_grid(a_.barrier, static_cast<uint32_t>(blocks_x()) * ++barriers_);
  }
  /// Behind that: more rows are fetched, in the place of those that are over.
  VEERY_GPU void look_ahead() {
    known_ = loaded_;
    for (; loaded_ <= row_ + Places::kRowsAhead; ++loaded_)
      if (warp() == 0 && loaded_ + 1 < a_.count) load_row(loaded_ + 1);
    fill();
  }

  // Items

  static VEERY_GPU int first_panel(const WalkLinear& r) {
    const int start = block_x() - r.first;
    return start < 0 ? start + blocks_x() : start;
  }
  static VEERY_GPU int slots(const WalkLinear& r) {
    const int start = first_panel(r);
    return (r.each_block + (start < r.more_blocks ? 1 : 0)) * r.parts();
  }
  VEERY_GPU const uint8_t* wait() const {
    wait_for_pieces(mbarrier(used_ % Places::kSlots), used_ / Places::kSlots);
    return item_at(used_ % Places::kSlots);
  }
  /// The item that was waited for is not looked at any more.
  VEERY_GPU void next() {
    used_ += Places::kWarps;
    ask();
  }

  int item_ = 0;  ///< the first item of this warp in the row

 private:
  static VEERY_GPU Mbarrier* mbarrier(int slot) {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Places::kMbarriers) + slot;
  }
  static VEERY_GPU uint8_t* item_at(int slot) {
    return shared_memory() + Places::kRing + slot * Places::kSlot;
  }
  VEERY_GPU void load_row(int r) const {
    begin_copy(shared_memory() + Places::kRows + r % 8 * WalkRow::kBytes + 16 * lane(),
               reinterpret_cast<const uint8_t*>(a_.rows + r) + 16 * lane());
    end_group();
  }
  VEERY_GPU void fill() {
    while (asked_ - used_ < Places::kSlots && ask()) {
    }
  }
  /// Items of a row for this block.
  static VEERY_GPU int items(const WalkRow& r) {
    return r.kind == WalkKind::kLinear ? slots(r.linear) * r.linear.chunks : 0;
  }
  /// Each lane finds one of the warp's next items in the rows that are known, as far as there are
  /// any.
  VEERY_GPU void find_next() {
    int r = ahead_, item = ahead_item_ + lane() * Places::kWarps;
    int left = items(row(r));
    for (; item >= left && r < known_ && r + 1 < a_.count; left = items(row(++r))) item -= left;
    const bool is = item < left;
    if (is) {
      const WalkLinear& of = row(r).linear;
      WalkItems at;
      at.begin(slots(of), of.chunks, item);
      next_ = find_item(of.product, first_panel(of), blocks_x(), at.group + at.slot, at.chunk,
                        of.units, of.each, of.unit_bytes);
    }
    found_ = bit_count(ballot(is)), given_ = 0;
    // Where the next of all goes on.
    const int last = found_ == kWarp ? kWarp - 1 : found_;
    ahead_ = shuffle(r, last);
    ahead_item_ = shuffle(item, last) + (found_ == kWarp ? Places::kWarps : 0);
  }
  /// Asks for this warp's next item, where it is known.
  VEERY_GPU bool ask() {
    if (rarely(given_ == found_)) {
      find_next();
      if (found_ == 0) return false;
    }
    const int slot = asked_ % Places::kSlots;
    ask_item_of(given_, mbarrier(slot), item_at(slot), next_.from, next_.bytes);
    ++given_;
    asked_ += Places::kWarps;
    return true;
  }

  const WalkArguments& a_;
  int row_ = 0;
  int known_ = Places::kRowsAhead, loaded_ = Places::kRowsAhead;  // rows up to these, now and soon
  bool waits_ = false;
  uint32_t barriers_ = 0;
  int asked_ = 0, used_ = 0;  // items of the block
  // Of what is asked for next each lane knows one; behind those the next is item `ahead_item_` of
  // row `ahead_`.
  ItemSource next_;
  int given_ = 0, found_ = 0, ahead_ = 0, ahead_item_ = 0;
};

VEERY_GPU RowMemory memory_of(const WalkLinear& r) {
  return {{shared_memory(), r.places},
          reinterpret_cast<float*>(shared_memory() + r.late),
          WalkState::turns()};
}

VEERY_GPU void make_turns_again(const WalkLinear& r) {
  const int slots = WalkState::slots(r);
  WalkState::turns().make_again(slots, turns_of(slots, r.chunks));
}

/// x in its form, at the beginning of shared memory.
template <FormKind kKind, int kTerms>
VEERY_GPU void prepare_walk(WalkState& state, const WalkLinear& r) {
  const auto floats = [](int at) { return reinterpret_cast<float*>(shared_memory() + at); };
  RowSource source = {r.product.x, r.product.norm, r.product.form.cols, r.places};
  source.form = shared_memory();
  source.inverse = floats(r.inverse());
  source.largest_of = floats(r.largest());
  source.staged = floats(r.staged);
  const Row row = RowMaker<kKind, kTerms, WalkPlaces::kWarps>(source).make(
      [&] {
        make_turns_again(r);
        state.wait_for_rows();
      },
      [&] { state.look_ahead(); }, [] {});
  if (kKind != FormKind::kPer32 || kTerms != 1 || warp() != WalkPlaces::kWarps - 1) return;
  make_row_residual(source, row);
  WalkState::turns().pass_outliers();
}
/// The same x as that of the row before, with its outliers.
VEERY_GPU void keep_walk(WalkState& state, const WalkLinear& r) {
  make_turns_again(r);
  state.wait_for_rows();
  state.look_ahead();
  sync_block();
  if (warp() == 0) WalkState::turns().pass_outliers();
}

template <Format kFormat, int kTerms>
VEERY_GPU void walk_panels(WalkState& state, const WalkLinear& r, WalkItems& at) {
  const RowMemory memory = memory_of(r);
  RowPanels<kFormat, kTerms, WalkPlaces::kWarps, WalkState> panels(
      r.product, memory, WalkState::first_panel(r), blocks_x(), r.units);
  panels.run(state, at);
  state.item_ = at.chunk;
}

template <FormKind kKind, int kTerms>
VEERY_GPU void walk_product(WalkState& state, const WalkLinear& r) {
  WalkItems at;
  at.begin(WalkState::slots(r), r.chunks, state.item_);
  if (r.prepares != 0)
    prepare_walk<kKind, kTerms>(state, r);
  else
    keep_walk(state, r);
  const Format format = r.product.weight[0].format;
  if constexpr (kKind == FormKind::kPer32) {
    switch (format) {
      case kQ8: return walk_panels<kQ8, kTerms>(state, r, at);
      case kQ8M: return walk_panels<kQ8M, kTerms>(state, r, at);
      case kQ4: return walk_panels<kQ4, kTerms>(state, r, at);
      default: return walk_panels<kQ4M, kTerms>(state, r, at);
    }
  } else {
    switch (format) {
      case kK4M: return walk_panels<kK4M, kTerms>(state, r, at);
      case kK8M: return walk_panels<kK8M, kTerms>(state, r, at);
      case kK8: return walk_panels<kK8, kTerms>(state, r, at);
      default: return walk_panels<kK8M16, kTerms>(state, r, at);
    }
  }
}
/// Of one or both kinds of blocks; those of 32 are not in walks that have none.
template <bool kBlocks>
VEERY_GPU void walk_linear(WalkState& state, const WalkLinear& r) {
  const bool two = r.product.form.two_terms != 0;
  if constexpr (kBlocks)
    if (r.product.form.kind == FormKind::kPer32)
      return two ? walk_product<FormKind::kPer32, 2>(state, r)
                 : walk_product<FormKind::kPer32, 1>(state, r);
  return two ? walk_product<FormKind::kPer256, 2>(state, r)
             : walk_product<FormKind::kPer256, 1>(state, r);
}

}  // namespace veery::gpu
