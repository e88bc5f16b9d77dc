// walk_linear.h: products of a walk. Each warp has a ring of items on their way from the weights,
// which runs on over rows and what they wait for.
#pragma once
#include "kernels/gpu/dialect/walk_places.h"
#include "kernels/gpu/functions/linear/linear_row.h"

namespace veery::gpu {

using WalkItems = RowItems<WalkPlaces::kWarps>;

/// What all rows of a walk share: the table and the rings.
class WalkState {
 public:
  using Places = WalkPlaces;

  VEERY_GPU explicit WalkState(const WalkArguments& arguments) : a_(arguments) {}

  /// The first rows and mbarriers; the rings are begun.
  VEERY_GPU void begin() {
    for (int r = warp(); r <= Places::kRowsAhead && r < a_.count; r += warps()) load_row(r);
    wait_for_groups<0>();
    if (thread() < Places::kWarps * Places::kSlots) make_item_mbarrier(mbarriers() + thread());
    if (thread() == 0) make_mbarrier(attend_mbarrier());
    fence_copies();
    sync_block();
    begin_items(ahead_items_, row(0), warp());
    item_ = warp();
    fill();
  }
  VEERY_GPU const WalkRow& row(int r) const {
    return *reinterpret_cast<const WalkRow*>(shared_memory() + Places::kRows +
                                             r % 8 * WalkRow::kBytes);
  }
  VEERY_GPU int current() const { return row_; }
  VEERY_GPU Mbarrier* attend_mbarrier() const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Places::kAttendMbarrier);
  }

  VEERY_GPU void end_row(bool waits) {
    wait_for_groups<0>();
    ++row_;
    waits_ = waits;
  }
  /// Until what the rows before have written is there, once a row; then one row more is fetched, in
  /// the place of the last.
  VEERY_GPU void wait_for_rows() {
    if (waits_)
      sync_grid(a_.barrier, static_cast<uint32_t>(blocks_x()) * ++barriers_);
    else
      sync_block();
    known_ = row_ + Places::kRowsAhead;
    if (warp() == 0 && known_ + 1 < a_.count) load_row(known_ + 1);
    fill();
  }

  // Items

  VEERY_GPU int first_panel(const WalkLinear& r) const {
    const int start = block_x() - r.first;
    return start < 0 ? start + blocks_x() : start;
  }
  VEERY_GPU int slots(const WalkLinear& r) const {
    const int start = first_panel(r);
    return start < r.panels ? ((r.panels - 1 - start) / blocks_x() + 1) * r.parts : 0;
  }
  VEERY_GPU const uint8_t* wait() const {
    wait_for_pieces(mbarriers() + warp() * Places::kSlots + used_ % Places::kSlots,
                    used_ / Places::kSlots);
    return item_at(used_ % Places::kSlots);
  }
  /// The item that was waited for is not looked at any more.
  VEERY_GPU void next() {
    ++used_;
    ask();
  }

  int item_ = 0;  ///< the first item of this warp in the row

 private:
  VEERY_GPU Mbarrier* mbarriers() const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Places::kMbarriers);
  }
  VEERY_GPU uint8_t* item_at(int slot) const {
    return shared_memory() + Places::kRing + (warp() * Places::kSlots + slot) * Places::kSlot;
  }
  VEERY_GPU void load_row(int r) const {
    begin_copy(shared_memory() + Places::kRows + r % 8 * WalkRow::kBytes + 16 * lane(),
               reinterpret_cast<const uint8_t*>(a_.rows + r) + 16 * lane());
    end_group();
  }
  VEERY_GPU void begin_items(WalkItems& items, const WalkRow& r, int item) const {
    if (r.kind == WalkKind::kLinear)
      items.begin(slots(r.linear), r.linear.chunks, item);
    else
      items.begin(0, 1, item);
  }
  VEERY_GPU void fill() {
    while (asked_ - used_ < Places::kSlots && ask()) {
    }
  }
  /// Asks for this warp's next item, of this row or one of those that are known.
  VEERY_GPU bool ask() {
    while (ahead_items_.ended()) {
      if (ahead_ + 1 >= a_.count || ahead_ >= known_) return false;
      begin_items(ahead_items_, row(++ahead_), ahead_items_.chunk);
    }
    const WalkLinear& r = row(ahead_).linear;
    const int own = ahead_items_.group + ahead_items_.slot;
    const PanelOf of =
        find_panel(r.product, first_panel(r) + (r.parts == 2 ? own / 2 : own) * blocks_x());
    const Weight& w = r.product.weight[r.parts == 2 ? own % 2 : of.weight];
    const int unit = ahead_items_.chunk * r.each;
    const int count = r.units - unit < r.each ? r.units - unit : r.each;
    const int slot = asked_ % Places::kSlots;
    ask_item(mbarriers() + warp() * Places::kSlots + slot, item_at(slot),
             w.data + of.panel * w.panel + int64_t{unit} * r.unit_bytes, count * r.unit_bytes);
    ahead_items_.next();
    ++asked_;
    return true;
  }

  WalkArguments a_;
  int row_ = 0, known_ = Places::kRowsAhead;
  bool waits_ = false;
  uint32_t barriers_ = 0;
  int asked_ = 0, used_ = 0;  // items of this warp
  int ahead_ = 0;             // where the ring is
  WalkItems ahead_items_ = {};
};

/// x in its form, at the beginning of shared memory.
template <FormKind kKind, int kTerms>
VEERY_GPU_APART void prepare_walk(WalkState& state, const WalkLinear& r) {
  const Form& form = r.product.form;
  RowSource source = {r.product.x, r.product.norm, form.cols, r.places};
  auto* work = reinterpret_cast<float*>(shared_memory() + WalkPlaces::kForm);
  source.form = shared_memory();
  source.inverse = work;
  source.largest_of = work + 4;
  source.staged = work + 4 + (form.cols / 32 + 3) / 4 * 4;
  source.weights = r.weights != 0 ? source.staged + form.cols : nullptr;
  auto* done = reinterpret_cast<int32_t*>(shared_memory() + WalkPlaces::kDone);
  const Row row = RowMaker<kKind, kTerms, WalkPlaces::kWarps>(source).make([&] {
    state.wait_for_rows();
    if (thread() <= RowPlan::kSlots) done[thread()] = 0;
  });
  if (kKind != FormKind::kPer32 || kTerms != 1 || warp() != WalkPlaces::kWarps - 1) return;
  make_row_residual(source, row);
  if (lane() == 0) set_flag(done + RowPlan::kSlots, 1);
}
VEERY_GPU void prepare_walk(WalkState& state, const WalkLinear& r) {
  const bool per32 = r.product.form.kind == FormKind::kPer32;
  if (r.product.form.two_terms != 0)
    return per32 ? prepare_walk<FormKind::kPer32, 2>(state, r)
                 : prepare_walk<FormKind::kPer256, 2>(state, r);
  return per32 ? prepare_walk<FormKind::kPer32, 1>(state, r)
               : prepare_walk<FormKind::kPer256, 1>(state, r);
}
/// The same x as that of the row before.
VEERY_GPU void keep_walk(WalkState& state) {
  state.wait_for_rows();
  auto* done = reinterpret_cast<int32_t*>(shared_memory() + WalkPlaces::kDone);
  if (thread() < RowPlan::kSlots) done[thread()] = 0;
  sync_block();
}

// The state is copied, so that its numbers are in registers.
template <Format kFormat, int kTerms>
VEERY_GPU_APART void walk_panels(WalkState& state, const WalkLinear& r) {
  WalkState own = state;
  const RowMemory memory = {{shared_memory(), r.places},
                            reinterpret_cast<float*>(shared_memory() + WalkPlaces::kLate),
                            reinterpret_cast<int32_t*>(shared_memory() + WalkPlaces::kDone)};
  RowPanels<kFormat, kTerms, WalkPlaces::kWarps, WalkState> panels(
      r.product, memory, own.first_panel(r), blocks_x(), r.units);
  WalkItems at;
  at.begin(own.slots(r), r.chunks, own.item_);
  panels.run(own, at);
  own.item_ = at.chunk;
  state = own;
}

template <Format kFormat>
VEERY_GPU void walk_product(WalkState& state, const WalkLinear& r) {
  if (r.product.form.two_terms != 0)
    walk_panels<kFormat, 2>(state, r);
  else
    walk_panels<kFormat, 1>(state, r);
}
VEERY_GPU void walk_linear(WalkState& state, const WalkLinear& r) {
  if (r.prepares != 0)
    prepare_walk(state, r);
  else
    keep_walk(state);
  switch (r.product.weight[0].format) {
    case kQ8: return walk_product<kQ8>(state, r);
    case kQ8M: return walk_product<kQ8M>(state, r);
    case kQ4: return walk_product<kQ4>(state, r);
    case kQ4M: return walk_product<kQ4M>(state, r);
    case kK4M: return walk_product<kK4M>(state, r);
    case kK8M: return walk_product<kK8M>(state, r);
    case kK8: return walk_product<kK8>(state, r);
    default: return walk_product<kK8M16>(state, r);
  }
}

}  // namespace veery::gpu
