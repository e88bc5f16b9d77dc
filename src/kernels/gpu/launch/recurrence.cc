// Launches of recurrent layers.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"

namespace veery::gpu {
namespace {

RecurrentState state_of(const Operand& o) {
  return {reinterpret_cast<uint8_t*>(o.data), o.stride, o.group};
}
bool absent_or_blocks(const Operand& o) { return !o || o.layout == Layout::kBlocks; }

int32_t keys_of(const Dispatch& d) { return d.in[ScanIn::kK].cols / d.as<ScanAttr>().key_heads; }
ScanKind kind_of(const ScanAttr& attr) {
  if (attr.decay == Decay::kOuter) return ScanKind::kOuter;
  if (attr.low_rank == LowRank::kDelta) return ScanKind::kDelta;
  return attr.low_rank == LowRank::kGeneral ? ScanKind::kGeneral : ScanKind::kPlain;
}
ScanSmem smem_of(const Dispatch& d, const Machine& machine) {
  const auto& attr = d.as<ScanAttr>();
  return scan_smem(keys_of(d), kind_of(attr), attr.decay == Decay::kChannel, attr.normaliser,
                   machine.max_shared());
}
size_t slstm_bytes(const Dispatch& d) {
  return sizeof(float) * 8 * static_cast<size_t>(d.out().cols / d.as<SlstmAttr>().heads);
}
consteval bool has_scan_kernels() {
  for (const ScanKind kind :
       {ScanKind::kPlain, ScanKind::kDelta, ScanKind::kGeneral, ScanKind::kOuter})
    for (const int keys : {16, 64, 128, 256, 512})
      if (!find_kernel(key::scan(kind, scan_smem(keys, kind, true, true, 227 << 10).chain)))
        return false;
  return true;
}
static_assert(has_scan_kernels());

bool accepts_scan(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<ScanAttr>();
  const bool outer = attr.decay == Decay::kOuter;
  return std::all_of(d.in.begin(), d.in.begin() + ScanIn::kState, absent_or_matrix) &&
         absent_or_blocks(d.in[ScanIn::kState]) && is_matrix(d.out()) &&
         !(outer && attr.low_rank != LowRank::kNone);
}
bool fits_scan(const Dispatch& d, const Machine& machine) { return smem_of(d, machine).chain > 0; }
void record_scan(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<ScanAttr>();
  const auto in = [&](int i) { return to.matrix(d.in[static_cast<size_t>(i)]); };
  ScanParams a{to.run};
  a.q = in(ScanIn::kQ), a.k = in(ScanIn::kK), a.v = in(ScanIn::kV), a.decay = in(ScanIn::kDecay);
  a.gate = in(ScanIn::kGate), a.a = in(ScanIn::kA), a.b = in(ScanIn::kB);
  a.bonus = in(ScanIn::kBonus), a.rates = in(ScanIn::kRates), a.out = to.matrix(d.out());
  a.state = state_of(d.in[ScanIn::kState]);
  a.heads = attr.heads, a.key_heads = attr.key_heads, a.tiled = attr.map == HeadMap::kTiled;
  a.keys = keys_of(d), a.values = d.out().cols / attr.heads;
  const ScanLayout layout = scan_layout(attr, a.keys, a.values);
  a.blocks = static_cast<int32_t>(layout.blocks), a.block = static_cast<int32_t>(layout.block);
  a.normaliser = static_cast<int32_t>(layout.normaliser);
  a.stabiliser = static_cast<int32_t>(layout.stabiliser);
  a.channel = attr.decay == Decay::kChannel ? 1 : 0;
  a.read_before = attr.read_before ? 1 : 0;
  a.scale = attr.scale, a.eps = attr.eps;
  a.plan = smem_of(d, to.machine);
  const int parts = (a.values + ScanSmem::kColumns - 1) / ScanSmem::kColumns;
  to.add(key::scan(kind_of(attr), a.plan.chain),
         {.blocks_x = attr.heads * parts,
          .blocks_y = static_cast<int>(to.spans),
          .threads = ScanSmem::kThreads,
          .shared = static_cast<size_t>(a.plan.bytes)},
         a);
}

bool accepts_conv1d(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[Conv1dIn::kX]) && is_matrix(d.in[Conv1dIn::kWeight]) &&
         d.in[Conv1dIn::kWeight].rows <= Conv1dParams::kMaxWidth &&
         absent_or_matrix(d.in[Conv1dIn::kBias]) && absent_or_blocks(d.in[Conv1dIn::kState]) &&
         is_matrix(d.out());
}
void record_conv1d(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 128;
  const Conv1dParams a{to.run,
                       to.matrix(d.in[Conv1dIn::kX]),
                       to.matrix(d.in[Conv1dIn::kWeight]),
                       to.matrix(d.in[Conv1dIn::kBias]),
                       to.matrix(d.out()),
                       state_of(d.in[Conv1dIn::kState]),
                       activation_params(d.as<Conv1dAttr>().activation)};
  const int64_t rows = to.max_rows(d.out().rows);
  to.add(KernelId::conv1d,
         {.blocks_x = (d.out().cols + kThreads - 1) / kThreads,
          .blocks_y = static_cast<int>((rows + Conv1dParams::kRows - 1) / Conv1dParams::kRows),
          .threads = kThreads},
         a);
}

bool accepts_slstm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[SlstmIn::kX]) && is_matrix(d.in[SlstmIn::kRecurrent]) &&
         is_matrix(d.in[SlstmIn::kBias]) && absent_or_blocks(d.in[SlstmIn::kState]) &&
         is_matrix(d.out());
}
bool fits_slstm(const Dispatch& d, const Machine& machine) {
  return slstm_bytes(d) <= static_cast<size_t>(machine.max_shared());
}
void record_slstm(const Dispatch& d, Recorder& to) {
  const int32_t heads = d.as<SlstmAttr>().heads;
  to.add(KernelId::slstm,
         {.blocks_x = heads,
          .blocks_y = static_cast<int>(to.spans),
          .threads = 512,
          .shared = slstm_bytes(d)},
         SlstmParams{to.run, to.matrix(d.in[SlstmIn::kX]), to.matrix(d.in[SlstmIn::kRecurrent]),
                     to.matrix(d.in[SlstmIn::kBias]), to.matrix(d.out()),
                     state_of(d.in[SlstmIn::kState]), heads});
}

bool accepts_linear_heads(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LinearHeadsIn::kX]) && is_matrix(d.in[LinearHeadsIn::kWeight]) &&
         is_matrix(d.out());
}
void record_linear_heads(const Dispatch& d, Recorder& to) {
  to.add(KernelId::linear_heads,
         {.blocks_x = (d.out().cols + 255) / 256,
          .blocks_y = static_cast<int>(to.max_rows(d.out().rows)),
          .threads = 256},
         LinearHeadsParams{to.run, to.matrix(d.in[LinearHeadsIn::kX]),
                           to.matrix(d.in[LinearHeadsIn::kWeight]), to.matrix(d.out())});
}

const LaunchRow kRows[] = {
    {op::kScan, accepts_scan, "scan", nullptr, record_scan, KernelId::scan_plain_4, fits_scan},
    {op::kConv1d, accepts_conv1d, "conv1d", nullptr, record_conv1d, KernelId::conv1d},
    {op::kSlstm, accepts_slstm, "slstm", nullptr, record_slstm, KernelId::slstm, fits_slstm},
    {op::kLinearHeads, accepts_linear_heads, "linear_heads", nullptr, record_linear_heads,
     KernelId::linear_heads},
};

}  // namespace

LaunchRows recurrence_launches() { return kRows; }

}  // namespace veery::gpu
