#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/params/recurrence_params.h"
#include "kernels/gpu/launches.h"

namespace veery::gpu {
namespace {

KeptBlocks kept_blocks(const Operand& o) {
  return {reinterpret_cast<uint8_t*>(o.data), o.stride, o.group};
}
bool absent_or_blocks(const Operand& o) { return !o || o.layout == Layout::kBlocks; }

int32_t keys_of(const Dispatch& d) { return d.in[ScanIn::kK].cols / d.as<ScanAttr>().key_heads; }
ScanKind kind_of(const ScanAttr& attr) {
  if (attr.decay == Decay::kOuter) return ScanKind::kOuter;
  if (attr.low_rank == LowRank::kDelta) return ScanKind::kDelta;
  return attr.low_rank == LowRank::kGeneral ? ScanKind::kGeneral : ScanKind::kPlain;
}
ScanPlan plan_of(const Dispatch& d, const Machine& machine) {
  const auto& attr = d.as<ScanAttr>();
  return scan_plan(keys_of(d), kind_of(attr), attr.decay == Decay::kChannel, attr.normaliser,
                   machine.most_shared());
}
size_t slstm_bytes(const Dispatch& d) {
  return sizeof(float) * 8 * static_cast<size_t>(d.out().cols / d.as<SlstmAttr>().heads);
}
// In the order of kernel_list.h.
KernelId kernel_of(const ScanPlan& plan, ScanKind kind) {
  constexpr int kChains[] = {4, 16, 32, 64, 128};
  const auto at = std::ranges::find(kChains, plan.chain) - std::begin(kChains);
  return static_cast<KernelId>(static_cast<int>(KernelId::scan_plain_4) +
                               5 * static_cast<int>(kind) + static_cast<int>(at));
}

}  // namespace

bool takes_scan(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<ScanAttr>();
  const bool outer = attr.decay == Decay::kOuter;
  return std::all_of(d.in.begin(), d.in.begin() + ScanIn::kState, absent_or_matrix) &&
         absent_or_blocks(d.in[ScanIn::kState]) && is_matrix(d.out()) &&
         !(outer && attr.low_rank != LowRank::kNone);
}
bool fits_scan(const Dispatch& d, const Machine& machine) { return plan_of(d, machine).chain > 0; }
void record_scan(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<ScanAttr>();
  const auto in = [&](int i) { return to.matrix(d.in[static_cast<size_t>(i)]); };
  ScanArguments a{to.run};
  a.q = in(ScanIn::kQ), a.k = in(ScanIn::kK), a.v = in(ScanIn::kV), a.decay = in(ScanIn::kDecay);
  a.gate = in(ScanIn::kGate), a.a = in(ScanIn::kA), a.b = in(ScanIn::kB);
  a.bonus = in(ScanIn::kBonus), a.rates = in(ScanIn::kRates), a.out = to.matrix(d.out());
  a.state = kept_blocks(d.in[ScanIn::kState]);
  a.heads = attr.heads, a.key_heads = attr.key_heads, a.tiled = attr.map == HeadMap::kTiled;
  a.keys = keys_of(d), a.values = d.out().cols / attr.heads;
  const ScanLayout layout = scan_layout(attr, a.keys, a.values);
  a.blocks = static_cast<int32_t>(layout.blocks), a.block = static_cast<int32_t>(layout.block);
  a.normaliser = static_cast<int32_t>(layout.normaliser);
  a.stabiliser = static_cast<int32_t>(layout.stabiliser);
  a.channel = attr.decay == Decay::kChannel ? 1 : 0;
  a.read_before = attr.read_before ? 1 : 0;
  a.scale = attr.scale, a.eps = attr.eps;
  a.plan = plan_of(d, to.machine);
  const int parts = (a.values + ScanPlan::kColumns - 1) / ScanPlan::kColumns;
  to.add(kernel_of(a.plan, kind_of(attr)),
         {.blocks_x = attr.heads * parts,
          .blocks_y = static_cast<int>(to.spans),
          .threads = ScanPlan::kThreads,
          .shared = static_cast<size_t>(a.plan.bytes)},
         a);
}

bool takes_conv1d(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[Conv1dIn::kX]) && is_matrix(d.in[Conv1dIn::kWeight]) &&
         d.in[Conv1dIn::kWeight].rows <= Conv1dArguments::kMostWidth &&
         absent_or_matrix(d.in[Conv1dIn::kBias]) && absent_or_blocks(d.in[Conv1dIn::kState]) &&
         is_matrix(d.out());
}
void record_conv1d(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 128;
  const Conv1dArguments a{to.run,
                          to.matrix(d.in[Conv1dIn::kX]),
                          to.matrix(d.in[Conv1dIn::kWeight]),
                          to.matrix(d.in[Conv1dIn::kBias]),
                          to.matrix(d.out()),
                          kept_blocks(d.in[Conv1dIn::kState]),
                          activate_of(d.as<Conv1dAttr>().activation)};
  const int64_t rows = to.most(d.out().rows);
  to.add(
      KernelId::conv1d,
      {.blocks_x = (d.out().cols + kThreads - 1) / kThreads,
       .blocks_y = static_cast<int>((rows + Conv1dArguments::kRows - 1) / Conv1dArguments::kRows),
       .threads = kThreads},
      a);
}

bool takes_slstm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[SlstmIn::kX]) && is_matrix(d.in[SlstmIn::kRecurrent]) &&
         is_matrix(d.in[SlstmIn::kBias]) && absent_or_blocks(d.in[SlstmIn::kState]) &&
         is_matrix(d.out());
}
bool fits_slstm(const Dispatch& d, const Machine& machine) {
  return slstm_bytes(d) <= static_cast<size_t>(machine.most_shared());
}
void record_slstm(const Dispatch& d, Recorder& to) {
  const int32_t heads = d.as<SlstmAttr>().heads;
  to.add(KernelId::slstm,
         {.blocks_x = heads,
          .blocks_y = static_cast<int>(to.spans),
          .threads = 512,
          .shared = slstm_bytes(d)},
         SlstmArguments{to.run, to.matrix(d.in[SlstmIn::kX]), to.matrix(d.in[SlstmIn::kRecurrent]),
                        to.matrix(d.in[SlstmIn::kBias]), to.matrix(d.out()),
                        kept_blocks(d.in[SlstmIn::kState]), heads});
}

bool takes_linear_heads(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LinearHeadsIn::kX]) && is_matrix(d.in[LinearHeadsIn::kWeight]) &&
         is_matrix(d.out());
}
void record_linear_heads(const Dispatch& d, Recorder& to) {
  to.add(KernelId::linear_heads,
         {.blocks_x = (d.out().cols + 255) / 256,
          .blocks_y = static_cast<int>(to.most(d.out().rows)),
          .threads = 256},
         LinearHeadsArguments{to.run, to.matrix(d.in[LinearHeadsIn::kX]),
                              to.matrix(d.in[LinearHeadsIn::kWeight]), to.matrix(d.out())});
}

}  // namespace veery::gpu
