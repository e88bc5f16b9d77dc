// Linears with packed weights. GEMV and skinny GEMM (few rows): one phase; each worker quantises
// all activations and multiplies its share of the panels. GEMM (many rows): the first phase
// quantises the activations once, the second multiplies. Argmax adds a phase that merges the
// workers' results.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/common/intern.h"
#include "kernels/cpu/codec/panel_kernels.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear/epilogue-inl.h"
#include "kernels/cpu/linear/multiply-inl.h"
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/linear/rows-inl.h"
#include "kernels/cpu/simd/bf16_dot.h"
#include "kernels/cpu/tiles/amx_linear.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

void multiply(const Dispatch& d, const Product& p, std::byte* base, std::byte* scratch, Best* best,
              const Worker& worker) {
  const Epilogue finish = epilogue(d, best);
  for (int i = 0; i < p.outputs(); ++i) {
    const Share panels = p.share_of(i, worker);
    if (panels.begin < panels.end) multiply_panels(p, base, scratch, i, panels, finish);
  }
}

// With few rows, quantising them in every worker is cheaper than a barrier.
template <bool kExact, bool kArgmax>
void few_rows(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product(d, shape.count(d.in[FusedLinearIn::kX].rows), kTarget, kExact);
  if (p.rows == 0) return;
  quantise_few(d, p, worker);
  Best* best = kArgmax ? start_best(d.work, p.outer_rows(), worker.index) : nullptr;
  multiply(d, p, worker.scratch, worker.scratch + p.activation_bytes(), best, worker);
}

template <bool kExact, bool kArgmax>
void quantise_activations(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product(d, shape.count(d.in[FusedLinearIn::kX].rows), kTarget, kExact);
  const Share groups = share(p.groups(), 1, worker);
  for (int64_t g = groups.begin; g < groups.end; ++g)
    quantise_group(d, p, d.work + p.best_bytes(kArgmax, worker), g, worker.scratch);
}

template <bool kExact, bool kArgmax>
void many_rows(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product(d, shape.count(d.in[FusedLinearIn::kX].rows), kTarget, kExact);
  if (p.rows == 0) return;
  if constexpr (kArgmax) {  // static shares: Best keeps the first index only if panels ascend
    Best* best = start_best(d.work, p.outer_rows(), worker.index);
    multiply(d, p, d.work + p.best_bytes(true, worker), worker.scratch, best, worker);
  } else {
    multiply_shared(p, d.work, worker, epilogue(d, nullptr));
  }
}

// Merges the largest outputs of all workers and lanes; the lowest index wins ties.
template <bool kExact>
void choose_best(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Product p = product(d, shape.count(d.in[FusedLinearIn::kX].rows), kTarget, kExact);
  const auto* all = reinterpret_cast<const Best*>(d.work);
  const Share rows = share(p.outer_rows(), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float value = -HUGE_VALF;
    int32_t index = 0;
    for (int w = 0; w < worker.count; ++w) {
      const Best& best = all[w * p.outer_rows() + r];
      for (int i = 0; i < kLanes; ++i) {
        if (best.value[i] < value || (best.value[i] == value && best.index[i] >= index)) continue;
        value = best.value[i];
        index = best.index[i];
      }
    }
    *d.out().row<int32_t>(r) = index;
  }
}

template <bool kExact>
constexpr LinearPhases phases() {
  LinearPhases p;
  p.few = {few_rows<kExact, false>};
  p.few_argmax = {few_rows<kExact, true>, choose_best<kExact>};
  p.many = {quantise_activations<kExact, false>, many_rows<kExact, false>};
  p.many_argmax = {quantise_activations<kExact, true>, many_rows<kExact, true>,
                   choose_best<kExact>};
  return p;
}

}  // namespace

extern const LinearPhases kLinearPhases[2];
constexpr LinearPhases kLinearPhases[2] = {phases<false>(), phases<true>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

int64_t most_rows(const Dispatch& d, int64_t rows) {
  return d.in[FusedLinearIn::kX].rows < 0 ? rows : d.in[FusedLinearIn::kX].rows;
}

// Returns the product from which memory sizes are computed; they do not depend on the instruction
// set.
Product sized(const Dispatch& d, int64_t rows, bool exact) {
  return product(d, most_rows(d, rows), Target::kPlain, exact);
}
template <bool kExact>
size_t few_scratch(const Dispatch& d, const RunExtent& run) {
  return static_cast<size_t>(sized(d, run.rows, kExact).few_scratch_bytes());
}
size_t few_argmax_work(const Dispatch& d, const RunExtent& run) {
  return static_cast<size_t>(most_rows(d, run.rows) * run.workers) * sizeof(Best);
}
template <bool kExact>
size_t many_scratch(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows, kExact);
  return static_cast<size_t>(std::max(p.expanded_bytes(), p.residual_bytes(kGroupRows)));
}
template <bool kExact>
size_t many_work(const Dispatch& d, const RunExtent& run) {
  const Product p = sized(d, run.rows, kExact);
  return static_cast<size_t>(p.activation_bytes());
}
template <bool kExact>
size_t many_argmax_work(const Dispatch& d, const RunExtent& run) {
  return many_work<kExact>(d, run) + few_argmax_work(d, run);
}

std::string_view kernel_name(Op op, const Dispatch& d, const KernelChoice& choice, bool few,
                             bool tiles) {
  const auto& attr = d.as<FusedLinearAttr>();
  std::string name = op == op::kLinearArgmax          ? "linear_argmax"
                     : attr.gate == Activation::kNone ? "linear"
                     : attr.weights == 2              ? "linear_gated"
                                                      : "linear_activated";
  bool bf16_dot = false;
  for (int i = 0; i < attr.weights; ++i) {
    const DType type = d.in[FusedLinearIn::kWeight + i].dtype;
    bf16_dot |= type == DType::kBF16 && !choice.exact && uses_bf16_dot(choice.target);
    if (i == 0 || type != d.in[FusedLinearIn::kWeight + i - 1].dtype)
      name += fmt::format("_{}", info(type).name);
  }
  name += fmt::format("{}_{}_{}", choice.exact ? "_exact" : "",
                      tiles      ? veery::name(choice.target)
                      : bf16_dot ? "avx512_bf16"
                                 : veery::name(vectors_of(choice.target)),
                      few ? "row" : "batch");
  return intern(std::move(name));
}

bool absent_or_f32(const Operand& o) {
  return !o || (o.layout == Layout::kRowMajor && o.dtype == DType::kF32);
}

bool accepts(Op op, const Dispatch& d) {
  const auto* attr = d.attr.get<FusedLinearAttr>();
  if ((op != op::kFusedLinear && op != op::kLinearArgmax) || attr == nullptr) return false;
  if (!d.in[FusedLinearIn::kX] || !absent_or_f32(d.in[FusedLinearIn::kX]) ||
      !absent_or_f32(d.in[FusedLinearIn::kNorm]) ||
      !absent_or_f32(d.in[FusedLinearIn::kResidual]) || d.out().layout != Layout::kRowMajor)
    return false;
  if (op == op::kLinearArgmax && attr->weights != 1) return false;
  for (int i = 0; i < attr->weights; ++i) {
    const Operand& w = d.in[FusedLinearIn::kWeight + i];
    if (!in_panels(w) || !can_pack(w.dtype) || !absent_or_f32(d.in[FusedLinearIn::kBias + i]))
      return false;
  }
  return true;
}

// Enough for the tile kernel, and for the kernel without tiles if a run has only few rows.
template <bool kArgmax>
size_t amx_work(const Dispatch& d, const RunExtent& run) {
  const int64_t tiles = amx_activation_bytes(sized(d, run.rows, false));
  return std::max(many_work<false>(d, run), static_cast<size_t>(tiles)) +
         (kArgmax ? few_argmax_work(d, run) : 0);
}
size_t amx_scratch(const Dispatch& d, const RunExtent& run) {
  const int64_t tiles = amx_scratch_bytes(sized(d, run.rows, false));
  return std::max(many_scratch<false>(d, run), static_cast<size_t>(tiles));
}

template <bool kExact>
void set_memory(Kernel& kernel, bool few, bool argmax) {
  kernel.scratch = few ? few_scratch<kExact> : many_scratch<kExact>;
  if (!few)
    kernel.work = argmax ? many_argmax_work<kExact> : many_work<kExact>;
  else if (argmax)
    kernel.work = few_argmax_work;
}

}  // namespace

Kernel linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  if (!accepts(op, dispatch)) return {};
  const bool few = sized(dispatch, choice.rows, choice.exact).rows <= kSmallGroupRows;
  const LinearPhases* tiles = few ? nullptr : amx_phases(dispatch, choice);
  const LinearPhases& phases =
      tiles != nullptr ? *tiles
                       : VEERY_FOR_TARGET(choice.target, kLinearPhases)[choice.exact ? 1 : 0];
  const bool argmax = op == op::kLinearArgmax;
  Kernel kernel;
  kernel.name = kernel_name(op, dispatch, choice, few, tiles != nullptr);
  kernel.phases = few && argmax ? phases.few_argmax
                  : few         ? phases.few
                  : argmax      ? phases.many_argmax
                                : phases.many;
  kernel.main_phase = few ? 0 : 1;
  if (tiles != nullptr) {
    kernel.scratch = amx_scratch;
    kernel.work = argmax ? amx_work<true> : amx_work<false>;
  } else if (choice.exact) {
    set_memory<true>(kernel, few, argmax);
  } else {
    set_memory<false>(kernel, few, argmax);
  }
  return kernel;
}

}  // namespace veery
#endif
