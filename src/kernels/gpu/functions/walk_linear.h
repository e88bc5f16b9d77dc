// walk_linear.h: products of a walk. Each warp has a ring of items on their way from the weights,
// which runs on over rows and what they wait for.
#pragma once
#include "kernels/gpu/dialect/walk_places.h"
#include "kernels/gpu/functions/linear_row.h"

namespace veery::gpu {

/// What all rows of a walk share: the table, the rings, and the steps of segments.
class WalkState {
 public:
  using Places = WalkPlaces;

  VEERY_GPU explicit WalkState(const WalkArguments& arguments) : a_(arguments) {}

  /// The first rows, gates and counters; the rings are begun.
  VEERY_GPU void begin() {
    for (int r = warp(); r <= Places::kRowsAhead && r < a_.count; r += warps()) load_row(r);
    wait_for_groups<0>();
    if (thread() < Places::kWarps * Places::kSlots) make_gate(gates() + thread(), 1);
    if (thread() == 0) make_gate(attend_gate());
    if (thread() < 2 * Places::kSegments) counters()[thread()] = 0;
    fence_copies();
    sync_block();
    ahead_item_ = item_ = warp();
    ahead_items_ = items_of(row(0));
    fill();
  }
  VEERY_GPU const WalkRow& row(int r) const {
    return *reinterpret_cast<const WalkRow*>(shared_memory() + Places::kRows +
                                             r % 8 * WalkRow::kBytes);
  }
  VEERY_GPU int current() const { return row_; }
  VEERY_GPU int rows() const { return a_.count; }
  VEERY_GPU Gate* attend_gate() const {
    return reinterpret_cast<Gate*>(shared_memory() + Places::kAttendGate);
  }

  /// Begins to fetch what is to be known of rows; next_row() when the current one is carried out.
  VEERY_GPU void begin_row() {
    if (warp() == 0 && row_ + Places::kRowsAhead + 1 < a_.count)
      load_row(row_ + Places::kRowsAhead + 1);
    fill();
  }
  VEERY_GPU void next_row(bool waits) {
    wait_for_groups<0>();
    ++row_;
    if (waits)
      sync_grid(a_.barrier, static_cast<uint32_t>(blocks_x()) * ++barriers_);
    else
      sync_block();
  }

  // Items

  VEERY_GPU int panels_before(const WalkLinear& r) const {
    const int start = block_x() - r.first;
    return start < 0 ? start + blocks_x() : start;
  }
  /// Panels of this block of threads.
  VEERY_GPU int panels_of_block(const WalkLinear& r) const {
    const int start = panels_before(r);
    return start < r.panels ? (r.panels - 1 - start) / blocks_x() + 1 : 0;
  }
  VEERY_GPU const uint8_t* wait_for_item() const {
    const int slot = used_ % Places::kSlots;
    wait_for_pieces(gates() + warp() * Places::kSlots + slot, used_ / Places::kSlots);
    return item_at(slot);
  }
  /// The item that was waited for is not looked at any more.
  VEERY_GPU void next_item() {
    ++used_;
    ask();
  }

  // Segments

  VEERY_GPU Step* steps(int buffer) const {
    return reinterpret_cast<Step*>(shared_memory() + Places::kSteps + buffer * Places::kSegment);
  }
  VEERY_GPU float* carried(int buffer) const {
    return reinterpret_cast<float*>(shared_memory() + Places::kCarried + buffer * 256);
  }
  VEERY_GPU void wait_for_buffer(int segment) const {
    if (lane() == 0)
      wait_for_flag(folded() + segment % Places::kSegments, segment / Places::kSegments);
    sync_warp();
  }
  /// What the warp has written for a segment is there. Whether nothing else is wanted for it.
  VEERY_GPU bool arrive(int segment, int expected) const {
    sync_warp();
    int32_t come = 0;
    if (lane() == 0) come = arrive_at(arrived() + segment % Places::kSegments) + 1;
    const bool last = shuffle(come, 0) == expected;
    sync_warp();
    return last;
  }
  /// All of a segment is added up: its buffer is free.
  VEERY_GPU void release(int segment) const {
    sync_warp();
    if (lane() != 0) return;
    set_flag(arrived() + segment % Places::kSegments, 0);
    set_flag(folded() + segment % Places::kSegments, segment / Places::kSegments + 1);
  }

  int item_ = 0;      ///< the first item of this warp in the row
  int segments_ = 0;  ///< those of the rows before

 private:
  VEERY_GPU int32_t* counters() const {
    return reinterpret_cast<int32_t*>(shared_memory() + Places::kCounters);
  }
  VEERY_GPU int32_t* arrived() const { return counters(); }
  VEERY_GPU int32_t* folded() const { return counters() + Places::kSegments; }
  VEERY_GPU Gate* gates() const {
    return reinterpret_cast<Gate*>(shared_memory() + Places::kGates);
  }
  VEERY_GPU uint8_t* item_at(int slot) const {
    return shared_memory() + Places::kRing + (warp() * Places::kSlots + slot) * Places::kSlot;
  }
  VEERY_GPU void load_row(int r) const {
    begin_copy(shared_memory() + Places::kRows + r % 8 * WalkRow::kBytes + 16 * lane(),
               reinterpret_cast<const uint8_t*>(a_.rows + r) + 16 * lane());
    end_group();
  }
  VEERY_GPU int items_of(const WalkRow& r) const {
    if (r.kind != WalkKind::kLinear) return 0;
    return panels_of_block(r.linear) * r.linear.chunks * r.linear.parts;
  }
  VEERY_GPU void fill() {
    while (asked_ - used_ < Places::kSlots && ask()) {
    }
  }
  /// Asks for this warp's next item, of this row or one of those that are known.
  VEERY_GPU bool ask() {
    while (ahead_item_ >= ahead_items_) {
      if (ahead_ + 1 >= a_.count || ahead_ >= row_ + Places::kRowsAhead) return false;
      ahead_item_ -= ahead_items_;
      ahead_items_ = items_of(row(++ahead_));
    }
    const WalkLinear& r = row(ahead_).linear;
    const int of_panel = r.chunks * r.parts;
    const int local = ahead_item_ / of_panel, in = ahead_item_ - local * of_panel;
    const int chunk = r.parts == 2 ? in / 2 : in, part = r.parts == 2 ? in % 2 : 0;
    const PanelOf of = find_panel(r.product, panels_before(r) + local * blocks_x());
    const Weight& w = r.product.weight[r.parts == 2 ? part : of.weight];
    const int unit = chunk * r.each;
    const int count = r.units - unit < r.each ? r.units - unit : r.each;
    const uint8_t* from = w.data + of.panel * w.panel + int64_t{unit} * r.unit_bytes;
    const int slot = asked_ % Places::kSlots;
    if (lane() == 0)
      ask_piece(gates() + warp() * Places::kSlots + slot, item_at(slot), from,
                count * r.unit_bytes);
    ahead_item_ += Places::kWarps;
    ++asked_;
    return true;
  }

  const WalkArguments& a_;
  int row_ = 0;
  uint32_t barriers_ = 0;
  int asked_ = 0, used_ = 0;                          // items of this warp
  int ahead_ = 0, ahead_item_ = 0, ahead_items_ = 0;  // where the ring is
};

/// One row of the table.
template <Format kFormat, int kTerms, int kParts>
class WalkProduct {
 public:
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr int kEach = walk_each(kFormat);
  static constexpr int kChunks = walk_chunks(kFormat, kTerms, kParts);  // of a segment
  static constexpr int kSets = kParts * (kInfo.minima ? 2 : 1);
  static constexpr int kChains = kSets * kTerms;
  static constexpr int kSetSteps = WalkPlaces::kSegment / 8 / kSets;
  static constexpr int kUnitBytes = unit_places(kFormat).bytes;
  static_assert(kEach >= 1 && kChunks >= 1 && kChains <= 4);

  VEERY_GPU WalkProduct(WalkState& state, const WalkLinear& r)
      : state_(state), r_(r), x_{shared_memory(), r.places.bytes, r.places} {}

  VEERY_GPU void run() {
    const int of_panel = r_.chunks * kParts;
    const int panels = state_.panels_of_block(r_), items = panels * of_panel;
    int local = state_.item_ / of_panel, in = state_.item_ - local * of_panel;
    int item = state_.item_;
    for (; item < items; item += WalkPlaces::kWarps) {
      find(local, in / kParts, in % kParts);
      in += WalkPlaces::kWarps;
      while (in >= of_panel) in -= of_panel, ++local;
    }
    state_.item_ = item - items;
    if (r_.product.best != nullptr && best_ != 0) keep_largest(r_.product.best, best_);
    state_.segments_ += panels * r_.segments;
  }

 private:
  static VEERY_GPU int at_most(int a, int b) { return a < b ? a : b; }
  VEERY_GPU int segment_of(int local, int segment) const {
    return state_.segments_ + local * r_.segments + segment;
  }
  VEERY_GPU StepsAt steps_at(int buffer, int part, int place) const {
    Step* at = state_.steps(buffer) + place * 16 * kTerms;
    return {at + part * kSetSteps, at + (kInfo.minima ? kParts + part : 0) * kSetSteps};
  }
  /// Items of a segment, and the one before it.
  VEERY_GPU int expected(int segment) const {
    return at_most(kChunks, r_.chunks - segment * kChunks) * kParts + (segment > 0 ? 1 : 0);
  }

  VEERY_GPU void find(int local, int chunk, int part) {
    const int segment = chunk / kChunks, all = segment_of(local, segment);
    const uint8_t* units = state_.wait_for_item();
    state_.wait_for_buffer(all);
    const int unit = chunk * kEach, left = at_most(kEach, r_.units - unit);
    const int place = chunk % kChunks * kEach, buffer = all % WalkPlaces::kSegments;
    constexpr int kStep = kInfo.block == 32 ? 4 : 1;
    VEERY_UNROLL(2)
    for (int j = 0; j < kEach; j += kStep) {
      if (j >= left) break;
      const StepsAt to = steps_at(buffer, part, place + j);
      if constexpr (kInfo.block == 32)
        x_.some_blocks(
            units + j * kUnitBytes, unit + j, at_most(4, left - j), [] {}, to);
      else
        x_.super_block(
            units + j * kUnitBytes, unit + j, [] {}, to);
    }
    sync_warp();
    state_.next_item();
    if (state_.arrive(all, expected(segment))) add(local, segment);
  }

  /// The chains of a segment, and of those behind it that only wait for this one: lanes 0 to 15
  /// have the 16 outputs of chains 0 and 2, the others those of 1 and 3: [minima][part][term].
  VEERY_GPU void add(int local, int segment) {
    constexpr int kOwn = (kChains + 1) / 2;
    float sum[kOwn] = {};
    const int half = lane() / 16, output = lane() % 16;
    if (segment > 0) {
      const float* from = state_.carried(segment_of(local, segment) % WalkPlaces::kSegments);
      for (int i = 0; i < kOwn; ++i) sum[i] = from[i * kWarp + lane()];
    }
    for (;; ++segment) {
      const int all = segment_of(local, segment), buffer = all % WalkPlaces::kSegments;
      constexpr int kUnits = kChunks * kEach;
      add_steps(buffer, at_most(kUnits, r_.units - segment * kUnits), kChains, half, output, sum);
      if (segment + 1 == r_.segments) {
        add_outliers(local, buffer, half, output, sum);
        state_.release(all);
        return finish(local, output, sum);
      }
      state_.release(all);
      state_.wait_for_buffer(all + 1);
      float* to = state_.carried((all + 1) % WalkPlaces::kSegments);
      for (int i = 0; i < kOwn; ++i) to[i * kWarp + lane()] = sum[i];
      if (!state_.arrive(all + 1, expected(segment + 1))) return;
    }
  }
  VEERY_GPU void add_steps(int buffer, int count, int chains, int half, int output,
                           float (&sum)[(kChains + 1) / 2]) const {
    VEERY_UNROLL(2)
    for (int i = 0; i < (kChains + 1) / 2; ++i) {
      const int chain = 2 * i + half;
      if (chain >= chains) continue;
      const Step* steps =
          state_.steps(buffer) + chain / kTerms * kSetSteps + output * kTerms + chain % kTerms;
      VEERY_UNROLL(16)
      for (int k = 0; k < count; ++k) {
        const Step step = steps[k * 16 * kTerms];
        sum[i] = fma(step.x, step.y, sum[i]);
      }
    }
  }
  /// What the codes of outliers leave over, in the buffer of the last segment.
  VEERY_GPU void add_outliers(int local, int buffer, int half, int output,
                              float (&sum)[(kChains + 1) / 2]) const {
    if constexpr (kInfo.block == 32 && kTerms == 1) {
      const int outliers = x_.outliers();
      const PanelOf of = panel_of(local);
      for (int first = 0; first < outliers; first += 4) {
        const int count = at_most(4, outliers - first);
        sync_warp();
        VEERY_UNROLL(2)
        for (int part = 0; part < kParts; ++part) {
          const Weight& w = r_.product.weight[kParts == 2 ? part : of.weight];
          x_.outliers(w.data + of.panel * w.panel, first, count, steps_at(buffer, part, 0));
        }
        sync_warp();
        add_steps(buffer, count, kParts, half, output, sum);
      }
    }
  }
  VEERY_GPU PanelOf panel_of(int local) const {
    return find_panel(r_.product, state_.panels_before(r_) + local * blocks_x());
  }
  VEERY_GPU void finish(int local, int output, const float (&sum)[(kChains + 1) / 2]) {
    float chain[4];
    VEERY_UNROLL(4)
    for (int c = 0; c < kChains; ++c) chain[c] = shuffle(sum[c / 2], output + 16 * (c % 2));
    float y[kParts];
    VEERY_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      float term[kTerms];
      VEERY_UNROLL(2)
      for (int t = 0; t < kTerms; ++t) {
        const int c = part * kTerms + t;
        term[t] = chain[c];
        if constexpr (kInfo.minima) {
          const float m = chain[kParts * kTerms + c];
          term[t] = kInfo.block == 32 ? term[t] + m : term[t] - m;
        }
      }
      y[part] = kTerms == 2 ? term[0] + term[kTerms - 1] : term[0];
    }
    const PanelOf of = panel_of(local);
    const int n = of.panel * 16 + output;
    if (lane() >= 16 || n >= r_.product.weight[of.weight].rows) return;
    const uint64_t key =
        finish_output(r_.product, 0, of.weight, n, y[0], kParts == 2 ? y[kParts - 1] : 0.0F);
    best_ = key > best_ ? key : best_;
  }

  WalkState& state_;
  const WalkLinear& r_;
  RowSteps<kFormat, kTerms, const FormPlaces&> x_;
  uint64_t best_ = 0;
};

/// x in its form, at the beginning of shared memory.
VEERY_GPU void prepare_walk(const WalkLinear& r) {
  const Form& form = r.product.form;
  auto* largest_of = reinterpret_cast<float*>(shared_memory() + WalkPlaces::kSteps);
  float* own = largest_of + (form.cols / 32 + 3) / 4 * 4;
  const Row row = row_of(r.x, r.norm, form.cols, r.staged != 0, own, nullptr);
  const FormRow to = {shared_memory(), r.places},
                after = {shared_memory() + r.places.bytes, r.places};
  const FormRow* second = form.two_terms != 0 ? &after : nullptr;
  if (form.kind == FormKind::kPer32)
    write_per32<8>(row, form.cols, to, second, largest_of);
  else
    write_per256(row, form.cols, to, second, 0, 1);
  sync_block();
}

template <Format kFormat>
VEERY_GPU void walk_product(WalkState& state, const WalkLinear& r) {
  if (r.parts == 2)
    WalkProduct<kFormat, 1, 2>(state, r).run();
  else if (r.product.form.two_terms != 0)
    WalkProduct<kFormat, 2, 1>(state, r).run();
  else
    WalkProduct<kFormat, 1, 1>(state, r).run();
}
VEERY_GPU void walk_linear(WalkState& state, const WalkLinear& r) {
  if (r.prepares != 0) prepare_walk(r);
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
