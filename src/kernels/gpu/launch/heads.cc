// Launches of products with one matrix per head: mixtures in which each row uses all experts, one
// for each of its heads.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kMaxSeparate = 256;  // pairs that are multiplied one by one

// Sizes, and the layout of the workspace of one op.
struct Heads {
  const Dispatch& d;
  int32_t heads = d.as<HeadsAttr>().heads;
  int32_t in = d.in[HeadLinearIn::kWeight].cols;
  int32_t made = static_cast<int32_t>(d.in[HeadLinearIn::kWeight].rows / heads);
  WeightFormat format = *weight_format(d.in[HeadLinearIn::kWeight].dtype);
  int64_t rows, pairs;
  bool exact;                         // x and the weights as f32
  bool tensor_cores, many, separate;  // as in experts.cc
  // Offsets.
  size_t group, order, expert, gate, x, acts, products, bytes = 64;

  Heads(const Dispatch& dispatch, int64_t row_count, bool exactly, const Machine* machine = nullptr)
      : d(dispatch),
        rows(row_count),
        pairs(rows * heads),
        exact(exactly),
        tensor_cores(machine != nullptr && has_tensor_cores(*machine)),
        many(rows >= kManyPairs / 2),
        separate(pairs <= kMaxSeparate && !is_exact() && machine != nullptr &&
                 fits_experts_gemv(*machine, format, in)) {
    const auto take = [&](size_t& offset, int64_t size) {
      offset = bytes;
      bytes += aligned(static_cast<size_t>(size));
    };
    take(group, groups() * int64_t{sizeof(PairGroup)});
    take(order, pairs * 4);
    take(expert, pairs * 4);
    take(gate, pairs * 4);
    take(x, pairs * in * 4);
    take(acts, pairs * act_bytes());
    take(products, pairs * made * 4);
  }
  int max_pairs() const { return many ? kManyPairs : kFewPairs; }
  int64_t groups() const { return heads * ((rows + max_pairs() - 1) / max_pairs()); }
  bool is_exact() const { return exact || uses_fma(format, tensor_cores); }
  ActivationKind kind() const {
    return exact ? ActivationKind::kF32 : activation_kind_for(format, tensor_cores);
  }
  int64_t act_bytes() const { return activation_layout(kind(), in).bytes; }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(d.work + offset);
  }
  Pairs made_pairs() const {
    return {at<int32_t>(0),      at<PairGroup>(group), nullptr,    at<int32_t>(order),
            at<int32_t>(expert), at<float>(gate),      max_pairs()};
  }
};

void record_products(const Heads& h, const Activations& act, Recorder& to) {
  const Operand& w = h.d.in[HeadLinearIn::kWeight];
  ExpertGemmParams a{to.run, h.made_pairs(), act};
  a.weight[0] = {reinterpret_cast<const uint8_t*>(w.data), w.stride, h.made, w.cols, h.format};
  a.rows = h.d.in[HeadLinearIn::kX].rows;
  a.used = h.heads, a.pairs_per_row = 1;
  a.out = h.at<float>(h.products);
  const int panels = (h.made + 15) / 16;
  if (h.separate) {
    a.max_smem = experts_gemv_smem(to.machine, h.format);
    const GemvSmem plan = gemv_smem(h.format, 1, h.in, false, a.max_smem, GemvSmem::kExpertWarps);
    to.add(key::experts_gemv(h.format, false),
           {.blocks_x = (panels + GemvSmem::kExpertWarps - 1) / GemvSmem::kExpertWarps,
            .blocks_y = static_cast<int>(h.pairs),
            .threads = GemvSmem::kExpertThreads,
            .shared = static_cast<size_t>(plan.bytes)},
           a);
    return;
  }
  const auto groups = static_cast<int>(h.groups());
  if (h.is_exact()) return record_experts_exact(a, panels, groups, h.exact, to);
  record_experts_gemm(a, panels, groups, h.many, to);
}

bool accepts_head_linear(const Dispatch& d, const KernelChoice&) {
  const Operand& w = d.in[HeadLinearIn::kWeight];
  return is_matrix(d.in[HeadLinearIn::kX]) && w.layout == Layout::kPanels &&
         w.stack == d.as<HeadsAttr>().heads && weight_format(w.dtype) && is_matrix(d.out());
}
bool accepts_head_linear_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && accepts_head_linear(d, choice);
}
template <bool kExact>
size_t head_linear_workspace(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[HeadLinearIn::kX].rows;
  return Heads(d, rows < 0 ? run.rows : rows, kExact).bytes;
}
template <bool kExact>
void record_head_linear(const Dispatch& d, Recorder& to) {
  const Matrix x = to.matrix(d.in[HeadLinearIn::kX]);
  const Heads h(d, to.max_rows(x.rows), kExact, &to.machine);
  to.add(KernelId::split_heads, launch_size(h.rows, 256),
         SplitHeadsParams{to.run, x, h.at<float>(h.x), h.heads, h.in});
  to.add(KernelId::head_pairs, launch_size(h.heads, 128),
         HeadPairsParams{to.run, h.made_pairs(), x.rows, h.heads});
  const Activations act = {h.at<uint8_t>(h.acts), h.act_bytes(), h.kind(), h.in, 0};
  record_quantize_pairs({h.at<float>(h.x), h.in, Run::times(x.rows, h.heads), h.in}, act, h.pairs,
                        128, to);
  record_products(h, act, to);
  to.add(KernelId::join_heads, launch_size(h.rows, 256),
         JoinHeadsParams{to.run, x, to.matrix(d.out()), h.at<float>(h.products), h.heads, h.in,
                         h.made});
}

const LaunchRow kRows[] = {
    {op::kHeadLinear, accepts_head_linear_exact, "head_linear_exact", head_linear_workspace<true>,
     record_head_linear<true>, KernelId::experts_exact},
    {op::kHeadLinear, accepts_head_linear, "head_linear", head_linear_workspace<false>,
     record_head_linear<false>, KernelId::head_pairs},
};

}  // namespace

LaunchRows head_launches() { return kRows; }

}  // namespace veery::gpu
