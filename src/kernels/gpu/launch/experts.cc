// Launches of mixtures of experts.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kMaxSeparate = 64;  // pairs that are multiplied one by one

constexpr auto experts_gemm(RowClass rows, bool gated) {
  return [=](WeightFormat f) { return key::experts_gemm(f, rows, gated); };
}
static_assert(for_quantized_formats(experts_gemm(RowClass::kEight, false)) &&
              for_quantized_formats(experts_gemm(RowClass::kEight, true)) &&
              for_quantized_formats(experts_gemm(RowClass::kThirtyTwo, false)) &&
              for_quantized_formats(experts_gemm(RowClass::kThirtyTwo, true)) &&
              for_quantized_formats([](WeightFormat f) { return key::experts_gemv(f, false); }) &&
              for_quantized_formats([](WeightFormat f) { return key::experts_gemv(f, true); }));

// One mixture: its sizes, and the layout of its workspace.
struct Mixture {
  const Dispatch& d;
  const MoeAttr& attr = d.as<MoeAttr>();
  int64_t rows, pairs, hidden, outputs, max_groups;
  bool exact;               // x and the weights as f32
  bool tensor_cores, many;  // many: groups of kManyPairs
  bool separate;            // pairs are multiplied one by one, without groups
  int first;                // MoeIn of the first weight: gate, or up without a gate
  // Offsets.
  size_t groups = 0, group, count, order, expert, gate, x, h, h_acts, products, bytes;

  // Without a machine: sizes for the machine that needs the most.
  Mixture(const Dispatch& dispatch, int64_t row_count, bool exactly,
          const Machine* machine = nullptr)
      : d(dispatch),
        rows(row_count),
        pairs(rows * attr.used),
        hidden(d.in[MoeIn::kDown].cols),
        outputs(d.out().cols),
        exact(exactly),
        tensor_cores(machine != nullptr && has_tensor_cores(*machine)),
        many(pairs >= int64_t{kManyPairs} / 2 * attr.experts),
        separate(pairs <= kMaxSeparate && !is_exact(MoeIn::kUp) && !is_exact(MoeIn::kDown) &&
                 attr.limit == 0 && !attr.gate_input),
        first(d.in[MoeIn::kGate] ? MoeIn::kGate : MoeIn::kUp) {
    for (const int i : {MoeIn::kUp, MoeIn::kDown})
      separate =
          separate && machine != nullptr && fits_experts_gemv(*machine, format(i), d.in[i].cols);
    max_groups = std::min<int64_t>(pairs, attr.experts) + pairs / max_pairs();
    bytes = 64;
    const auto take = [&](size_t& offset, int64_t size) {
      offset = bytes;
      bytes += aligned(static_cast<size_t>(size));
    };
    take(group, max_groups * int64_t{sizeof(PairGroup)});
    take(count, int64_t{attr.experts} * 4);
    take(order, pairs * 4);
    take(expert, pairs * 4);
    take(gate, pairs * 4);
    take(x, rows * act_bytes(MoeIn::kUp));
    take(h, pairs * hidden * 4);
    take(h_acts, pairs * act_bytes(MoeIn::kDown));
    take(products, pairs * outputs * 4);
  }
  int max_pairs() const { return many ? kManyPairs : kFewPairs; }
  WeightFormat format(int weight) const { return *weight_format(d.in[weight].dtype); }
  bool is_exact(int weight) const { return exact || uses_fma(format(weight), tensor_cores); }
  ActivationKind kind(int weight) const {
    return exact ? ActivationKind::kF32 : activation_kind_for(format(weight), tensor_cores);
  }
  int64_t act_bytes(int weight) const {
    return activation_layout(kind(weight), d.in[weight].cols).bytes;
  }

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(d.work + offset);
  }
  Pairs made_pairs() const {
    return {at<int32_t>(groups), at<PairGroup>(group), at<int32_t>(count), at<int32_t>(order),
            at<int32_t>(expert), at<float>(gate),      max_pairs()};
  }
  Activations activations(int weight, size_t offset) const {
    return {at<uint8_t>(offset), act_bytes(weight), kind(weight), d.in[weight].cols, 0};
  }
  Weight weight(int i) const {
    const Operand& w = d.in[i];
    return {reinterpret_cast<const uint8_t*>(w.data), w.stride,
            static_cast<int32_t>(w.rows / w.stack), w.cols, format(i)};
  }
};

void record_pairs(const Mixture& m, Recorder& to) {
  constexpr int kWarps = 8;
  const ExpertPairParams a{to.run, to.matrix(m.d.in[MoeIn::kGates]), m.made_pairs(), m.attr.experts,
                           m.attr.used};
  to.add(KernelId::pick_experts, launch_size((m.rows + kWarps - 1) / kWarps, kWarps * kWarp), a);
  if (m.separate) return;
  const LaunchSize size = launch_size(m.attr.experts, kWarps * kWarp, kWarps * sizeof(int32_t));
  to.add(KernelId::count_experts, size, a);
  to.add(KernelId::group_experts, size, a);
}

// Separate thread blocks for each pair, with the same number of panels each.
void record_separate(const Mixture& m, ExpertGemmParams a, Recorder& to) {
  const WeightFormat format = a.weight[0].format;
  a.max_smem = experts_gemv_smem(to.machine, format);
  const GemvSmem plan = gemv_smem(format, 1, a.act.cols, false, a.max_smem, GemvSmem::kExpertWarps);
  const int64_t panels = (a.weight[0].rows + 15) / 16, room = 2 * int64_t{to.machine.sm_count()};
  const int64_t each = (panels * m.pairs + room - 1) / room;
  to.add(key::experts_gemv(format, a.gated != 0),
         {.blocks_x = static_cast<int>((panels + each - 1) / each),
          .blocks_y = static_cast<int>(m.pairs),
          .threads = GemvSmem::kExpertThreads,
          .shared = static_cast<size_t>(plan.bytes)},
         a);
}

void record_product(const Mixture& m, int first, const Activations& act, float* out, Recorder& to) {
  const bool gated = first == MoeIn::kGate, down = first == MoeIn::kDown;
  ExpertGemmParams a{to.run, m.made_pairs(), act};
  for (int i = 0; i < (gated ? 2 : 1); ++i) {
    a.weight[i] = m.weight(first + i);
    a.bias[i] = m.d.in[first + i + MoeIn::kGateBias - MoeIn::kGate].row<float>(0);
  }
  a.rows = m.d.in[MoeIn::kX].rows;
  a.used = m.attr.used;
  a.gated = gated ? 1 : 0;
  a.pairs_per_row = down ? 1 : m.attr.used;
  a.gate_input = m.attr.gate_input && !down ? 1 : 0;
  a.limit = m.attr.limit, a.alpha = m.attr.alpha;
  if (!down) a.activation = activation_params(m.attr.activation);
  a.out = out;
  if (m.separate) return record_separate(m, a, to);
  const int panels = (a.weight[0].rows + 15) / 16, groups = static_cast<int>(m.max_groups);
  if (m.is_exact(first)) return record_experts_exact(a, panels, groups, m.exact, to);
  record_experts_gemm(a, panels, groups, m.many, to);
}

bool accepts_route(const Dispatch& d, const KernelChoice&) {
  constexpr int kMaxExperts = 2048;  // that fit into shared memory
  return is_matrix(d.in[RouteIn::kScores]) && absent_or_matrix(d.in[RouteIn::kBias]) &&
         is_matrix(d.out()) && d.out().cols <= kMaxExperts;
}
void record_route(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<RouteAttr>();
  RouteParams a{to.run, to.matrix(d.in[RouteIn::kScores]), to.matrix(d.out()),
                d.in[RouteIn::kBias].row<float>(0)};
  a.used = attr.used, a.sigmoid = attr.sigmoid ? 1 : 0, a.normalise = attr.normalise ? 1 : 0;
  a.groups = attr.groups, a.groups_used = attr.groups_used, a.group_best = attr.group_best;
  a.scale = attr.scale, a.jitter = attr.jitter;
  to.add(KernelId::route,
         launch_size(to.max_rows(d.out().rows), kWarp,
                     (4 * static_cast<size_t>(d.out().cols) + 1) * sizeof(float)),
         a);
}

bool accepts_moe(const Dispatch& d, const KernelChoice&) {
  for (int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    const Operand& w = d.in[i];
    if (i == MoeIn::kGate && !w) continue;
    if (w.layout != Layout::kPanels || w.stack != d.as<MoeAttr>().experts ||
        !weight_format(w.dtype) || !absent_or_matrix(d.in[i + MoeIn::kGateBias - MoeIn::kGate]))
      return false;
  }
  return is_matrix(d.in[MoeIn::kX]) && is_matrix(d.in[MoeIn::kGates]) &&
         absent_or_matrix(d.in[MoeIn::kResidual]) && is_matrix(d.out()) &&
         (!d.in[MoeIn::kGate] ||
          weight_format(d.in[MoeIn::kGate].dtype) == weight_format(d.in[MoeIn::kUp].dtype));
}
bool accepts_moe_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && accepts_moe(d, choice);
}
template <bool kExact>
size_t moe_workspace(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[MoeIn::kX].rows;
  return Mixture(d, rows < 0 ? run.rows : rows, kExact).bytes;
}
template <bool kExact>
void record_moe(const Dispatch& d, Recorder& to) {
  constexpr int kQuantizeThreads = 256;
  const Matrix x = to.matrix(d.in[MoeIn::kX]);
  const Mixture m(d, to.max_rows(x.rows), kExact, &to.machine);
  record_pairs(m, to);
  const Activations acts = m.activations(MoeIn::kUp, m.x);
  record_quantize_pairs(x, acts, m.rows, kQuantizeThreads, to);
  record_product(m, m.first, acts, m.at<float>(m.h), to);
  const Activations hidden = m.activations(MoeIn::kDown, m.h_acts);
  record_quantize_pairs(
      {m.at<float>(m.h), m.hidden, Run::times(x.rows, m.attr.used), static_cast<int32_t>(m.hidden)},
      hidden, m.pairs, kQuantizeThreads, to);
  record_product(m, MoeIn::kDown, hidden, m.at<float>(m.products), to);
  const CombineExpertsParams a{to.run,
                               m.made_pairs(),
                               m.at<float>(m.products),
                               to.matrix(d.in[MoeIn::kResidual]),
                               to.matrix(d.out()),
                               m.attr.used,
                               m.attr.gate_input ? 1 : 0};
  LaunchSize size = launch_size((m.outputs + 255) / 256, 256);
  size.blocks_y = static_cast<int>(m.rows);
  to.add(KernelId::combine_experts, size, a);
}

const LaunchRow kRows[] = {
    {op::kRoute, accepts_route, "route", nullptr, record_route, KernelId::route},
    {op::kMoe, accepts_moe_exact, "moe_exact", moe_workspace<true>, record_moe<true>,
     KernelId::experts_exact},
    {op::kMoe, accepts_moe, "moe", moe_workspace<false>, record_moe<false>,
     KernelId::experts_gemm_8_q8},
};

}  // namespace

int experts_gemv_smem(const Machine& machine, WeightFormat format) {
  constexpr int kHalf = 113 << 10;
  return format == kBF16 || machine.max_shared() < kHalf ? machine.max_shared() : kHalf;
}
bool fits_experts_gemv(const Machine& machine, WeightFormat format, int cols) {
  return machine.has(KernelId::experts_gemv_q8) &&
         gemv_smem(format, 1, cols, false, experts_gemv_smem(machine, format),
                   GemvSmem::kExpertWarps)
                 .stages >= GemvSmem::kMinStages;
}
void record_quantize_pairs(const Matrix& x, const Activations& act, int64_t rows, int threads,
                           Recorder& to) {
  QuantizeXParams a{to.run, x, {}, act, nullptr};
  a.blocks_per_row = 1;
  const auto floats = static_cast<size_t>((act.cols / 32 + 3) / 4 * 4 + 4);
  to.add(KernelId::quantize_x, launch_size(rows, threads, floats * sizeof(float)), a);
}
void record_experts_gemm(const ExpertGemmParams& a, int panels, int groups, bool many,
                         Recorder& to) {
  constexpr int kWarps = 4;
  const RowClass rows = many ? RowClass::kThirtyTwo : RowClass::kEight;
  to.add(
      key::experts_gemm(a.weight[0].format, rows, a.gated != 0),
      {.blocks_x = (panels + kWarps - 1) / kWarps, .blocks_y = groups, .threads = kWarps * kWarp},
      a);
}
void record_experts_exact(const ExpertGemmParams& a, int panels, int groups, bool exact,
                          Recorder& to) {
  to.add(key::experts_exact(a.weight[0].format == kBF16 && !exact),
         {.blocks_x = (panels + 1) / 2,
          .blocks_y = groups,
          .threads = kWarp,
          .shared = size_t{gemm_exact_smem_bytes(kGemmExactRows)}},
         a);
}

LaunchRows expert_launches() { return kRows; }

}  // namespace veery::gpu
