// Per-head linears: the first columns of each head times a matrix of that head; further columns
// are copied. Work is split by heads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/head_linear.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/common/intern.h"
#include "kernels/cpu/linear/head_linear.h"
#include "kernels/cpu/linear/multiply-inl.h"
#include "kernels/cpu/linear/rows-inl.h"

#ifndef VEERY_KERNELS_CPU_HEAD_LINEAR_PROBLEM
#define VEERY_KERNELS_CPU_HEAD_LINEAR_PROBLEM
namespace veery::heads {

struct Problem {
  const Dispatch& d;
  int64_t rows;
  int64_t heads = d.as<HeadsAttr>().heads;
  int64_t in = d.in[HeadLinearIn::kWeight].cols, out = d.in[HeadLinearIn::kWeight].rows / heads;
  int64_t from = d.in[HeadLinearIn::kX].cols / heads;  ///< columns of a head in x
  int64_t to = out + from - in;                        ///< columns of a head in the result

  Product of(int64_t head, Target target, bool exact) const {
    Product p;
    p.rows = rows;
    p.cols = in;
    add_weight(p, d.in[HeadLinearIn::kWeight].of_stack(head), target, exact);
    set_groups(p);
    return p;
  }
  const float* x(int64_t row, int64_t head) const {
    return d.in[HeadLinearIn::kX].row<float>(row) + head * from;
  }
  float* y(int64_t row, int64_t head) const { return d.out().row<float>(row) + head * to; }
};

}  // namespace veery::heads
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace heads;  // NOLINT(google-build-using-namespace)

void quantise_head(const Problem& h, const Product& p, int64_t head, std::byte* base) {
  for (int64_t g = 0; g < p.groups(); ++g) {
    Row rows[kGroupRows];
    for (int r = 0; r < p.group_rows(g); ++r)
      rows[r] = {h.x(g * p.group_size + r, head), nullptr, 1};
    quantise_group(p, base, g, rows);
  }
}

template <bool kExact>
void multiply_heads(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem h{d, shape.count(d.in[HeadLinearIn::kX].rows)};
  if (h.rows == 0) return;
  const Share heads = share(h.heads, 1, worker);
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const Product p = h.of(head, kTarget, kExact);
    quantise_head(h, p, head, worker.scratch);
    Epilogue finish;
    finish.out = {h.y(0, head), d.out().stride / int64_t{sizeof(float)}};
    multiply_panels(p, worker.scratch, worker.scratch + p.activation_bytes(), 0,
                    Share{0, p.weights[0].panels()}, finish);
    for (int64_t r = 0; r < h.rows; ++r)
      std::copy(h.x(r, head) + h.in, h.x(r, head) + h.from, h.y(r, head) + h.out);
  }
}

}  // namespace

extern const KernelFn kHeadLinear[2];
constexpr KernelFn kHeadLinear[2] = {multiply_heads<false>, multiply_heads<true>};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

using namespace heads;  // NOLINT(google-build-using-namespace)

template <bool kExact>
size_t head_scratch(const Dispatch& d, const RunExtent& run) {
  const Problem h{d, d.in[HeadLinearIn::kX].rows < 0 ? run.rows : d.in[HeadLinearIn::kX].rows};
  const Product p = h.of(0, Target::kPlain, kExact);
  return static_cast<size_t>(p.activation_bytes() + p.expanded_bytes());
}

bool accepts(Op op, const Dispatch& d) {
  const auto is_f32 = [](const Operand& o) {
    return o.layout == Layout::kRowMajor && o.dtype == DType::kF32;
  };
  const Operand& w = d.in[HeadLinearIn::kWeight];
  return op == op::kHeadLinear && in_panels(w) && w.format == 0 && can_pack(w.dtype) &&
         w.stack == d.as<HeadsAttr>().heads && is_f32(d.in[HeadLinearIn::kX]) && is_f32(d.out());
}

}  // namespace

Kernel head_linear_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  if (!accepts(op, dispatch)) return {};
  Kernel kernel;
  kernel.name =
      intern(fmt::format("head_linear_{}{}_{}", info(dispatch.in[HeadLinearIn::kWeight].dtype).name,
                         choice.exact ? "_exact" : "", veery::name(vectors_of(choice.target))));
  kernel.phases = {VEERY_FOR_TARGET(choice.target, kHeadLinear)[choice.exact ? 1 : 0]};
  kernel.scratch = choice.exact ? head_scratch<true> : head_scratch<false>;
  return kernel;
}

}  // namespace veery
#endif
