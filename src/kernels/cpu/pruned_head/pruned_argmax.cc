// The four phases of the pruned argmax (pruned_argmax.h). Which panels are pruned depends on the
// speed of the workers; the result does not.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pruned_head/pruned_argmax.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>

#include "base/error.h"
#include "kernels/common/intern.h"
#include "kernels/cpu/pruned_head/pruned_argmax_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

extern const LinearPhases kLinearPhases[2];  // linear.cc

namespace {

Product product_of(const Dispatch& d, const RunShape& shape) {
  return product(d, shape.count(d.in[FusedLinearIn::kX].rows), kTarget, false);
}

PruningHistory::Pause& pause_of(const Product& p, PruningHistory& history) {
  return p.outer_rows() == 1 ? history.one : history.several;
}

// Worker 0 initialises the state that all workers share.
void begin_run(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  if (worker.index != 0) return;
  const Product p = product_of(d, shape);
  PruningHistory& history = pruning_history(d);
  const PruningMemory memory(d, p, worker);
  PruningRun& run = *memory.run;
  run.prunes = pause_of(p, history).left.load(std::memory_order_relaxed) == 0;
  run.reads_two_parts = history.reads_two_parts.load(std::memory_order_relaxed) != 0;
  for (std::atomic<uint32_t>& threshold : run.threshold)
    threshold.store(0, std::memory_order_relaxed);
  for (int i = 0; i < worker.count; ++i) memory.counts[i] = {};
}

void scan_panels(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product_of(d, shape);
  if (p.rows == 0) return;
  const PruningMemory memory(d, p, worker);
  if (!memory.run->prunes) return kLinearPhases[0].many_argmax[0](d, shape, worker);
  start_best(d.work, p.outer_rows(), worker.index);
  if (p.outer_rows() > 1) return RowsPruner(d, p, worker, memory).scan();
  quantise_few(d, p, worker);
  PanelPruner(d, p, worker, memory).scan();
}

void verify_panels(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product_of(d, shape);
  if (p.rows == 0) return;
  const PruningMemory memory(d, p, worker);
  if (!memory.run->prunes) return kLinearPhases[0].many_argmax[1](d, shape, worker);
  const int64_t rows = p.outer_rows();
  const Epilogue finish = epilogue(d, reinterpret_cast<Best*>(d.work) + rows * worker.index);
  for (int64_t r = 0; r < rows; ++r) multiply_candidates({finish, p}, worker, memory, r);
}

// Returns whether the run was faster than one without pruning. With one row the bytes read decide.
// With several rows the number of completely multiplied panels decides: each is fetched for a
// single row, and this latency costs ten times the time that pruning saves per panel and row
// (SmolLM2, 8 rows, two cores with AVX-512 VNNI: 0.53 us; 0.04 instead of 0.09 us).
bool pruning_pays(const Product& p, int64_t candidates, int64_t multiplied) {
  const int64_t panels = p.weights[0].panels();
  if (p.outer_rows() > 1) return 10 * multiplied < p.outer_rows() * panels;
  const int64_t read = panels * SplitPanels::kUpper + candidates * SplitPanels::kMiddle +
                       multiplied * SplitPanels::kWhole;
  return read < panels * SplitPanels::kWhole;
}

// Decides whether the next runs prune, and whether they read two parts at once. After a pause of n
// runs the next one has 2 n + 1.
void update_history(const Product& p, const PruningCounts* counts, int workers,
                    PruningHistory& history) {
  constexpr int32_t kLongest = 127;
  int64_t candidates = 0;
  int64_t multiplied = 0;
  for (int i = 0; i < workers; ++i) {
    candidates += counts[i].candidates;
    multiplied += counts[i].multiplied;
  }
  PruningHistory::Pause& pause = pause_of(p, history);
  const int32_t last = pause.last.load(std::memory_order_relaxed);
  const int32_t next =
      pruning_pays(p, candidates, multiplied) ? 0 : std::min(2 * last + 1, kLongest);
  pause.last.store(next, std::memory_order_relaxed);
  pause.left.store(next, std::memory_order_relaxed);
  if (p.outer_rows() == 1)
    history.reads_two_parts.store(2 * candidates > p.weights[0].panels() ? 1 : 0,
                                  std::memory_order_relaxed);
}

void end_run(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  kLinearPhases[0].many_argmax[2](d, shape, worker);
  if (worker.index != 0) return;
  const Product p = product_of(d, shape);
  if (p.rows == 0) return;
  const PruningMemory memory(d, p, worker);
  PruningHistory& history = pruning_history(d);
  if (memory.run->prunes) return update_history(p, memory.counts, worker.count, history);
  std::atomic<int32_t>& left = pause_of(p, history).left;
  left.store(std::max(left.load(std::memory_order_relaxed) - 1, 0), std::memory_order_relaxed);
}

}  // namespace

extern const KernelPhases kPrunedArgmaxPhases;
constexpr KernelPhases kPrunedArgmaxPhases = {begin_run, scan_panels, verify_panels, end_run};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

Product sized(const Dispatch& d, int64_t rows) {
  const int64_t given = d.in[FusedLinearIn::kX].rows;
  return product(d, given < 0 ? rows : given, Target::kPlain, false);
}
size_t work_bytes(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows);
  return static_cast<size_t>(p.outer_rows() * run.workers) * sizeof(Best) +
         PruningMemory::work_bytes(p, run.workers);
}
size_t scratch_bytes(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows);
  return static_cast<size_t>(p.few_scratch_bytes()) + PruningMemory::scratch_bytes(p);
}

bool accepts(Op op, const Dispatch& d, const KernelChoice& choice) {
  const auto* attr = d.attr.get<FusedLinearAttr>();
  if (op != op::kLinearArgmax || attr == nullptr || attr->weights != 1 || choice.exact)
    return false;
  const auto is_f32 = [](const Operand& o) {
    return o.layout == Layout::kRowMajor && o.dtype == DType::kF32;
  };
  const Operand& norm = d.in[FusedLinearIn::kNorm];
  const Operand& w = d.in[FusedLinearIn::kWeight];
  if (!is_f32(d.in[FusedLinearIn::kX]) || (norm && !is_f32(norm)) || d.in[FusedLinearIn::kBias] ||
      d.in[FusedLinearIn::kResidual] || d.out().layout != Layout::kRowMajor || !(attr->scale > 0))
    return false;
  if (!in_panels(w) || w.dtype != DType::kQ8_0 || w.format != kSplitFormat) return false;
  // On machines with AMX tiles, the tile kernels are faster for more rows.
  const bool tiles = vectors_of(choice.target) != choice.target;
  const Product p = sized(d, choice.rows);
  return p.quantises_residual && p.outer_rows() <= (tiles ? kSmallGroupRows : kPrunedRows);
}

}  // namespace

Kernel pruned_argmax_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  if (!accepts(op, dispatch, choice)) return {};
  Kernel kernel;
  kernel.name = intern(fmt::format("pruned_argmax_{}_{}",
                                   info(dispatch.in[FusedLinearIn::kWeight].dtype).name,
                                   veery::name(vectors_of(choice.target))));
  kernel.phases = VEERY_FOR_TARGET(choice.target, kPrunedArgmaxPhases);
  kernel.work = work_bytes;
  kernel.scratch = scratch_bytes;
  kernel.main_phase = 1;
  kernel.weight_share =
      1.0F *
      (sized(dispatch, choice.rows).outer_rows() > 1 ? SplitPanels::kUpper + SplitPanels::kMiddle
                                                     : SplitPanels::kUpper) /
      SplitPanels::kWhole;
  return kernel;
}

}  // namespace veery
#endif
