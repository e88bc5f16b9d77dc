// The most probable token of one row: a search through the weight of an output head, in four
// phases. Which output is known when depends on the speed of the workers, the result does not.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/search/search.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>

#include "base/error.h"
#include "kernels/common/intern.h"
#include "kernels/cpu/search/search-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const LinearPhases kLinearPhases[2];  // linear.cc

namespace {

Product product_of(const Dispatch& d, const Slots& slots) {
  return product(d, slots.count(d.in[LinearIn::kX].rows), kTarget, false);
}

// One worker decides for all of them.
void begin_search(const Dispatch& d, const Slots& slots, const Worker& worker) {
  if (worker.index != 0) return;
  const Product p = product_of(d, slots);
  const SearchNotes& notes = search_notes(d);
  SearchRun& run = *SearchMemory(d, p, worker).run;
  run.searches = p.outer_rows() == 1 && notes.pause.load(std::memory_order_relaxed) == 0;
  run.together = notes.together.load(std::memory_order_relaxed) != 0;
  run.threshold.store(0, std::memory_order_relaxed);
}

void scan_panels(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Product p = product_of(d, slots);
  const SearchMemory memory(d, p, worker);
  if (!memory.run->searches) return kLinearPhases[0].few_argmax[0](d, slots, worker);
  prepare_few(d, p, worker);
  start_best(d.work, 1, worker.index);
  Search(d, p, worker, memory).scan();
}

void verify_panels(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Product p = product_of(d, slots);
  const SearchMemory memory(d, p, worker);
  if (!memory.run->searches) return;
  Best* best = reinterpret_cast<Best*>(d.work) + worker.index;
  const Epilogue finish = epilogue(d, best);
  multiply_candidates({finish, p}, worker, memory);
}

// Whether the next runs shall search, and how. Pauses double.
void note_search(const Product& p, const SearchCounts* counts, int workers, SearchNotes& notes) {
  constexpr int32_t kLongest = 127;
  int64_t candidates = 0;
  int64_t multiplied = 0;
  for (int i = 0; i < workers; ++i) {
    candidates += counts[i].candidates;
    multiplied += counts[i].multiplied;
  }
  const int64_t panels = p.weights[0].panels();
  const int64_t read = panels * SplitPanels::kUpper + candidates * SplitPanels::kMiddle +
                       multiplied * SplitPanels::kWhole;
  const bool pays = read < panels * SplitPanels::kWhole;
  const int32_t last = notes.next.load(std::memory_order_relaxed);
  const int32_t next = pays ? 0 : std::min(2 * last + 1, kLongest);
  notes.next.store(next, std::memory_order_relaxed);
  notes.pause.store(next, std::memory_order_relaxed);
  notes.together.store(2 * candidates > panels ? 1 : 0, std::memory_order_relaxed);
}

void end_search(const Dispatch& d, const Slots& slots, const Worker& worker) {
  kLinearPhases[0].few_argmax[1](d, slots, worker);
  if (worker.index != 0) return;
  const Product p = product_of(d, slots);
  const SearchMemory memory(d, p, worker);
  SearchNotes& notes = search_notes(d);
  const int32_t pause = notes.pause.load(std::memory_order_relaxed);
  if (memory.run->searches)
    note_search(p, memory.counts, worker.count, notes);
  else if (p.outer_rows() == 1 && pause > 0)
    notes.pause.store(pause - 1, std::memory_order_relaxed);
}

}  // namespace

extern const KernelPhases kSearchPhases;
constexpr KernelPhases kSearchPhases = {begin_search, scan_panels, verify_panels, end_search};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

Product sized(const Dispatch& d, int64_t rows) {
  const int64_t given = d.in[LinearIn::kX].rows;
  return product(d, given < 0 ? rows : given, Target::kPlain, false);
}
size_t work_bytes(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows);
  return static_cast<size_t>(p.outer_rows() * run.workers) * sizeof(Best) +
         SearchMemory::work_bytes(p, run.workers);
}
size_t scratch_bytes(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows);
  return static_cast<size_t>(p.few_scratch_bytes()) + SearchMemory::scratch_bytes(p);
}

bool accepts(Op op, const Dispatch& d, const KernelChoice& choice) {
  const auto* attr = d.attr.get<LinearAttr>();
  if (op != op::kLinearArgmax || attr == nullptr || attr->weights != 1 || choice.exact)
    return false;
  const auto is_f32 = [](const Operand& o) {
    return o.layout == Layout::kRowMajor && o.dtype == DType::kF32;
  };
  const Operand& norm = d.in[LinearIn::kNorm];
  const Operand& w = d.in[LinearIn::kWeight];
  if (!is_f32(d.in[LinearIn::kX]) || (norm && !is_f32(norm)) || d.in[LinearIn::kBias] ||
      d.in[LinearIn::kResidual] || d.out().layout != Layout::kRowMajor || !(attr->scale > 0))
    return false;
  if (!in_panels(w) || w.dtype != DType::kQ8_0 || w.format != kSplitFormat) return false;
  const Product p = sized(d, choice.rows);
  return p.two_terms && p.rows <= kSmallGroupRows;
}

}  // namespace

Kernel search_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  if (!accepts(op, dispatch, choice)) return {};
  Kernel kernel;
  kernel.name = intern(fmt::format("search_{}_{}", info(dispatch.in[LinearIn::kWeight].dtype).name,
                                   veery::name(vectors_of(choice.target))));
  kernel.phases = VEERY_FOR_TARGET(choice.target, kSearchPhases);
  kernel.work = work_bytes;
  kernel.scratch = scratch_bytes;
  kernel.main_phase = 1;
  kernel.weight_share = 1.0F * SplitPanels::kUpper / SplitPanels::kWhole;
  return kernel;
}

}  // namespace veery
#endif
