// Mixtures of experts with packed weights (moe.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/moe/moe.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/common/intern.h"
#include "kernels/cpu/linear/multiply-inl.h"
#include "kernels/cpu/linear/rows-inl.h"
#include "kernels/cpu/moe/moe.h"
#include "kernels/cpu/moe/moe_problem.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace moe;  // NOLINT(google-build-using-namespace)

// Quantises rows [first, last) of x in every kind that up and gate need, each as a group of one
// row.
void quantise_x(const Problem& m, std::byte* base, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; ++r) {
    ActivationGroup groups[kActivationKinds];
    for (int kind = 0; kind < kActivationKinds; ++kind)
      if (m.up.needs[kind])
        groups[kind] =
            activation_group(static_cast<Activations>(kind), m.x_row(base, kind, r), m.up.cols, 1);
    const Row row = {m.d.in[MoeIn::kX].row<float>(r), nullptr, 1};
    quantise_rows(&row, 1, m.up, groups, 1);
  }
}

// Interleaves the words of W rows.
template <int W>
void interleave(const std::byte* const* rows, int64_t words, std::byte* out) {
  const uint32_t* from[W];
  for (int r = 0; r < W; ++r) from[r] = reinterpret_cast<const uint32_t*>(rows[r]);
  auto* to = reinterpret_cast<uint32_t*>(out);
  for (int64_t i = 0; i < words; ++i, to += W)
    for (int r = 0; r < W; ++r) to[r] = from[r][i];
}

// Builds a group of w rows from quantised rows (groups of one row).
void gather_group(Activations kind, const std::byte* const* rows, int w, int64_t cols,
                  std::byte* out) {
  const int64_t words = activation_words(kind, cols);
  switch (w) {
    case 1: std::memcpy(out, rows[0], static_cast<size_t>(words) * 4); break;
    case 2: interleave<2>(rows, words, out); break;
    case 4: interleave<4>(rows, words, out); break;
    default: interleave<8>(rows, words, out); break;
  }
  if (kind != Activations::kPer32) return;
  const ActivationGroup to = activation_group(kind, out, cols, w);
  for (int r = 0; r < w; ++r) {
    const ActivationGroup from =
        activation_group(kind, const_cast<std::byte*>(rows[r]), cols, 1);  // NOLINT
    for (int32_t e = 0; e < to.extra[r]; ++e) to.outliers[e * w + r] = from.outliers[e];
  }
}

// Gathers the rows listed in `list` into the groups of `p`.
void gather(const Problem& m, const Product& p, const std::byte* x, const int32_t* list,
            std::byte* out) {
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    if (!p.needs[kind]) continue;
    for (int64_t g = 0; g < p.groups(); ++g) {
      const int count = p.group_rows(g);
      const int w = group_width(count);
      const std::byte* rows[kGroupRows] = {};
      for (int r = 0; r < w; ++r)
        rows[r] = m.x_row(x, kind, list[g * p.group_size + std::min(r, count - 1)]);
      gather_group(static_cast<Activations>(kind), rows, w, p.cols, p.group(out, kind, g));
    }
  }
}

const float* bias_of(const Operand& biases, int64_t expert, int64_t size) {
  return biases ? biases.row<float>(0) + expert * size : nullptr;
}

// Returns the epilogue of up and, if there is one, gate: writes h for the routed rows from `first`
// on.
Epilogue after_up(const Problem& m, const Lists& lists, int64_t expert, int64_t first) {
  Epilogue e;
  e.out = {m.h_row(first), m.h_stride()};
  const float* const up_bias = bias_of(m.d.in[MoeIn::kUpBias], expert, m.hidden);
  if (m.up.gated)
    e.bias = {bias_of(m.d.in[MoeIn::kGateBias], expert, m.hidden), up_bias};
  else
    e.bias = {up_bias};
  if (m.attr.gate_input) e.input_factor = lists.gate + first;
  e.gate = m.attr.activation;
  e.limit = m.attr.limit;
  e.alpha = m.attr.alpha;
  return e;
}

// Returns the epilogue of down: adds the product, times the gate, to the output rows.
Epilogue after_down(const Problem& m, const Lists& lists, int64_t expert) {
  const int64_t first = lists.begin[expert];
  Epilogue e;
  e.out = epilogue_rows(m.d.out());
  e.out.order = lists.row + first;
  e.added = e.out;
  e.bias = {bias_of(m.d.in[MoeIn::kDownBias], expert, m.d.out().cols)};
  if (!m.attr.gate_input) e.factor = lists.gate + first;
  return e;
}

// Multiplies a worker's share of the up (and gate) panels of all experts.
void multiply_up(const Problem& m, const Lists& lists, const std::byte* x, std::byte* scratch,
                 const Worker& worker) {
  PanelShares shares(m, lists, worker);
  for (int64_t e = 0; e < m.attr.experts; ++e) {
    const Share panels = shares.next(lists.count(e));
    if (panels.begin >= panels.end) continue;
    const int64_t end = lists.begin[e + 1];
    for (int64_t first = lists.begin[e]; first < end; first += m.block_rows) {
      const Product p = m.up_of(e, std::min(end - first, m.block_rows));
      gather(m, p, x, lists.row + first, scratch);
      multiply_panels(p, scratch, scratch + p.activation_bytes(), 0, panels,
                      after_up(m, lists, e, first));
    }
  }
}

// Quantises groups [from, to) of h, counted over all experts.
void quantise_h(const Problem& m, const Lists& lists, std::byte* base, int64_t from, int64_t to) {
  int64_t before = 0;
  for (int64_t e = 0; e < m.attr.experts && before < to; ++e) {
    if (lists.count(e) == 0) continue;
    const Product p = m.down_of(e, lists.count(e));
    const int64_t first = std::max<int64_t>(from - before, 0);
    for (int64_t g = first; g < std::min(p.groups(), to - before); ++g) {
      Row rows[kGroupRows];
      for (int r = 0; r < p.group_rows(g); ++r)
        rows[r] = {m.h_row(lists.begin[e] + g * p.group_size + r), nullptr, 1};
      quantise_group(p, m.h_group(base, lists, e), g, rows);
    }
    before += p.groups();
  }
}

// Computes a worker's share of the output columns, for all experts and rows. No two workers write
// the same output, and the experts are added in order.
void multiply_down(const Problem& m, const Lists& lists, std::byte* h, std::byte* scratch,
                   const Worker& worker) {
  const Share panels = share(m.down.weights[0].panels(), 1, worker);
  const int64_t begin = panels.begin * kLanes;
  const int64_t end = std::min<int64_t>(panels.end * kLanes, m.d.out().cols);
  if (begin >= end) return;
  for (int64_t r = 0; r < m.rows; ++r)
    std::fill(m.d.out().row<float>(r) + begin, m.d.out().row<float>(r) + end, 0.0F);
  for (int64_t e = 0; e < m.attr.experts; ++e)
    if (lists.count(e) > 0)
      multiply_panels(m.down_of(e, lists.count(e)), m.h_group(h, lists, e), scratch, 0, panels,
                      after_down(m, lists, e));
  if (!m.d.in[MoeIn::kResidual]) return;
  for (int64_t r = 0; r < m.rows; ++r) {
    float* out = m.d.out().row<float>(r);
    const float* residual = m.d.in[MoeIn::kResidual].row<float>(r);
    for (int64_t n = begin; n < end; n += kLanes) {
      const int lanes = static_cast<int>(std::min<int64_t>(kLanes, end - n));
      store_first(out + n, add(load_first(out + n, lanes), load_first(residual + n, lanes)), lanes);
    }
  }
}

// With few rows, sorting and quantising them in every worker is cheaper than a barrier.
template <bool kExact>
void few_up(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  const Lists lists(m, worker.scratch);
  lists.fill(m);
  std::byte* x = worker.scratch + m.list_bytes();
  quantise_x(m, x, 0, m.rows);
  multiply_up(m, lists, x, x + m.x_bytes(), worker);
}

template <bool kExact>
void few_down(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  const Lists lists(m, worker.scratch);
  lists.fill(m);
  std::byte* h = worker.scratch + m.list_bytes();
  quantise_h(m, lists, h, 0, m.groups(lists));
  multiply_down(m, lists, h, h + m.h_group_bytes(), worker);
}

template <bool kExact>
void quantise_inputs(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  if (worker.index == 0) Lists(m, m.lists_at()).fill(m);
  const Share rows = share(m.rows, 1, worker);
  quantise_x(m, m.x_at(), rows.begin, rows.end);
}

template <bool kExact>
void many_up(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  multiply_up(m, Lists(m, m.lists_at()), m.x_at(), worker.scratch, worker);
}

template <bool kExact>
void quantise_hidden(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  const Lists lists(m, m.lists_at());
  const Share groups = share(m.groups(lists), 1, worker);
  quantise_h(m, lists, m.h_groups_at(), groups.begin, groups.end);
}

template <bool kExact>
void many_down(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Problem m(d, shape.count(d.in[MoeIn::kX].rows), kTarget, kExact);
  multiply_down(m, Lists(m, m.lists_at()), m.h_groups_at(), worker.scratch, worker);
}

template <bool kExact>
constexpr Phases phases() {
  return {{few_up<kExact>, few_down<kExact>},
          {quantise_inputs<kExact>, many_up<kExact>, quantise_hidden<kExact>, many_down<kExact>}};
}

}  // namespace

extern const Phases kMoePhases[2];
constexpr Phases kMoePhases[2] = {phases<false>(), phases<true>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

using namespace moe;  // NOLINT(google-build-using-namespace)

Problem sized(const Dispatch& d, int64_t rows, bool exact) {
  return Problem(d, d.in[MoeIn::kX].rows < 0 ? rows : d.in[MoeIn::kX].rows, Target::kPlain, exact);
}
template <bool kExact>
size_t few_scratch(const Dispatch& d, const RunExtent& run) {
  const Problem m = sized(d, run.rows, kExact);
  const int64_t up = m.x_bytes() + m.up_scratch_bytes();
  const int64_t down = m.h_group_bytes() + m.down.expanded_bytes();
  return static_cast<size_t>(m.list_bytes() + std::max(up, down));
}
template <bool kExact>
size_t few_work(const Dispatch& d, const RunExtent& run) {
  return static_cast<size_t>(sized(d, run.rows, kExact).h_bytes());
}
template <bool kExact>
size_t many_scratch(const Dispatch& d, const RunExtent& run) {
  const Problem m = sized(d, run.rows, kExact);
  return static_cast<size_t>(std::max(m.up_scratch_bytes(), m.down.expanded_bytes()));
}
template <bool kExact>
size_t many_work(const Dispatch& d, const RunExtent& run) {
  const Problem m = sized(d, run.rows, kExact);
  return static_cast<size_t>(m.h_bytes() + m.list_bytes() + m.x_bytes() + m.h_group_bytes());
}

bool absent_or_f32(const Operand& o) {
  return !o || (o.layout == Layout::kRowMajor && o.dtype == DType::kF32);
}

bool accepts(Op op, const Dispatch& d) {
  const auto* attr = d.attr.get<MoeAttr>();
  if (op != op::kMoe || attr == nullptr) return false;
  for (int i : {MoeIn::kX, MoeIn::kGates, MoeIn::kResidual, MoeIn::kGateBias, MoeIn::kUpBias,
                MoeIn::kDownBias})
    if (!absent_or_f32(d.in[i])) return false;
  for (int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    if (i == MoeIn::kGate && !d.in[i]) continue;
    if (!in_panels(d.in[i]) || d.in[i].format != 0 || !can_pack(d.in[i].dtype) ||
        d.in[i].stack != attr->experts)
      return false;
  }
  return d.out().layout == Layout::kRowMajor;
}

std::string_view kernel_name(const Dispatch& d, const KernelChoice& choice, bool few) {
  const int first = d.in[MoeIn::kGate] ? MoeIn::kGate : MoeIn::kUp;
  std::string name = "moe";
  for (int i = first; i <= MoeIn::kDown; ++i)
    if (i == first || d.in[i].dtype != d.in[i - 1].dtype)
      name += fmt::format("_{}", info(d.in[i].dtype).name);
  name += fmt::format("{}_{}_{}", choice.exact ? "_exact" : "",
                      veery::name(vectors_of(choice.target)), few ? "row" : "batch");
  return intern(std::move(name));
}

}  // namespace

Kernel moe_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  if (!accepts(op, dispatch)) return {};
  const int64_t rows = dispatch.in[MoeIn::kX].rows < 0 ? choice.rows : dispatch.in[MoeIn::kX].rows;
  const bool few = rows <= kSmallGroupRows;
  const Phases& phases = VEERY_FOR_TARGET(choice.target, kMoePhases)[choice.exact ? 1 : 0];
  Kernel kernel;
  kernel.name = kernel_name(dispatch, choice, few);
  kernel.phases = few ? phases.few : phases.many;
  kernel.main_phase = few ? 0 : 1;  // up and gate
  if (choice.exact) {
    kernel.work = few ? few_work<true> : many_work<true>;
    kernel.scratch = few ? few_scratch<true> : many_scratch<true>;
  } else {
    kernel.work = few ? few_work<false> : many_work<false>;
    kernel.scratch = few ? few_scratch<false> : many_scratch<false>;
  }
  return kernel;
}

}  // namespace veery
#endif
