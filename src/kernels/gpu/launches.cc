#include "kernels/gpu/launches.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/common/table.h"
#include "kernels/gpu/smem/attend_smem.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kMostBlocks = 64;  // of threads, of a row and its key head

Weight weight_of(const Operand& o) {
  return {reinterpret_cast<const uint8_t*>(o.data), o.stride, static_cast<int32_t>(o.rows), o.cols,
          *format_of(o.dtype)};
}
// Whether kernels may take four elements of a row at a time.
bool in_fours(const Matrix& m) {
  return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride % 4 == 0;
}
bool is_gpu_weight(const Operand& o) {
  return o.layout == Layout::kPanels && o.stack == 1 && format_of(o.dtype).has_value();
}

LaunchSize size_of(int64_t blocks, int threads, size_t shared = 0) {
  return {.blocks_x = static_cast<int>(blocks), .threads = threads, .shared = shared};
}

// embed, select_rows, argmax

bool takes_embed(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[EmbedIn::kIds], DType::kI32) && is_gpu_weight(d.in[EmbedIn::kWeight]) &&
         is_matrix(d.out());
}
void record_embed(const Dispatch& d, Recorder& to) {
  to.add(KernelId::embed, size_of(to.most(d.out().rows), 256),
         EmbedArguments{to.run, to.ids(d.in[EmbedIn::kIds]), weight_of(d.in[EmbedIn::kWeight]),
                        to.matrix(d.out()), d.as<ScaleAttr>().factor});
}

bool takes_select(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[SelectRowsIn::kX]) && is_matrix(d.in[SelectRowsIn::kRows], DType::kI32) &&
         is_matrix(d.out());
}
void record_select(const Dispatch& d, Recorder& to) {
  to.add(KernelId::select_rows, size_of(to.most(d.out().rows), 256),
         SelectRowsArguments{to.run, to.matrix(d.in[SelectRowsIn::kX]), to.matrix(d.out()),
                             to.ids(d.in[SelectRowsIn::kRows])});
}

bool takes_argmax(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.out(), DType::kI32);
}
void record_argmax(const Dispatch& d, Recorder& to) {
  to.add(KernelId::argmax, size_of(to.most(d.out().rows), 256, 64),
         ArgmaxArguments{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out())});
}

// rms_norm and elementwise ops

bool takes_norm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RmsNormIn::kX]) && is_matrix(d.in[RmsNormIn::kWeight]) &&
         absent_or_matrix(d.in[RmsNormIn::kResidual]) && is_matrix(d.out());
}
void record_norm(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<NormAttr>();
  const bool staged = to.machine.stages() && attr.groups == 1 && d.out().cols <= kMostStaged;
  const size_t shared = 16 + (staged ? static_cast<size_t>(d.out().cols) * sizeof(float) : 0);
  to.add(KernelId::rms_norm, size_of(to.most(d.out().rows), 256, shared),
         RmsNormArguments{to.run,
                          to.matrix(d.in[RmsNormIn::kX]),
                          to.matrix(d.in[RmsNormIn::kResidual]),
                          to.matrix(d.out()),
                          {d.in[RmsNormIn::kWeight].row<float>(0), attr.eps},
                          attr.groups,
                          staged ? 1 : 0});
}

bool takes_layer_norm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LayerNormIn::kX]) && is_matrix(d.in[LayerNormIn::kWeight]) &&
         absent_or_matrix(d.in[LayerNormIn::kBias]) && is_matrix(d.out());
}
void record_layer_norm(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<NormAttr>();
  const int32_t cols = d.out().cols;
  const bool staged = to.machine.stages() && cols + 2 * attr.groups <= kMostStaged;
  const int32_t floats = 2 * attr.groups + (staged ? cols : 0);
  to.add(KernelId::layer_norm,
         size_of(to.most(d.out().rows), 256, static_cast<size_t>(floats) * sizeof(float)),
         LayerNormArguments{to.run, to.matrix(d.in[LayerNormIn::kX]), to.matrix(d.out()),
                            d.in[LayerNormIn::kWeight].row<float>(0),
                            d.in[LayerNormIn::kBias].row<float>(0), attr.eps, attr.groups,
                            d.in[LayerNormIn::kWeight].cols == cols ? 1 : 0, staged ? 1 : 0});
}

bool takes_elements(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && absent_or_matrix(d.in[BinaryIn::kB]) &&
         is_matrix(d.out());
}
template <Elementwise kOp>
void record_elements(const Dispatch& d, Recorder& to) {
  const Operand& b = d.in[BinaryIn::kB];
  ElementwiseArguments a{to.run, kOp, to.matrix(d.in[BinaryIn::kA]), to.matrix(b),
                         to.matrix(d.out())};
  a.part = b && kOp == Elementwise::kMul ? d.out().cols / b.cols : 1;
  if (const auto* scale = d.attr.get<ScaleAttr>()) a.factor = scale->factor;
  if (const auto* activate = d.attr.get<ActivateAttr>()) a.activate = activate_of(*activate);
  LaunchSize size = size_of(std::min((d.out().cols + 255) / 256, 64), 256);
  size.blocks_y = static_cast<int>(to.most(d.out().rows));
  to.add(KernelId::elementwise, size, a);
}

// Positions

bool takes_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeIn::kX]) && is_matrix(d.in[RopeIn::kAngles]) && is_matrix(d.out());
}
void record_rope(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<RopeAttr>();
  to.add(KernelId::rope, size_of(to.most(d.out().rows), 256),
         RopeArguments{to.run, to.matrix(d.in[RopeIn::kX]), to.matrix(d.in[RopeIn::kAngles]),
                       to.matrix(d.out()), d.out().cols / attr.heads, attr.dims / 2, attr.begin,
                       attr.interleaved ? 1 : 0, attr.sign});
}

// Caches of floats.
bool is_gpu_cache(const Operand& o) {
  return in_pages(o) &&
         (o.dtype == DType::kF32 || o.dtype == DType::kF16 || o.dtype == DType::kBF16);
}
// CacheWriteArguments::bytes.
int32_t put_bytes(const Operand& o) {
  if (o.dtype == DType::kQ8_0) return kQ8Bytes;
  return o.dtype == DType::kF32 ? 4 : o.dtype == DType::kBF16 ? 2 : 1;
}
bool takes_write(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CacheWriteIn::kX]) && is_cache(d.in[CacheWriteIn::kState]);
}
void record_write(const Dispatch& d, Recorder& to) {
  const Operand& cache = d.in[CacheWriteIn::kState];
  to.add(KernelId::cache_write, size_of(to.most(d.in[CacheWriteIn::kX].rows), 256),
         CacheWriteArguments{to.run, to.matrix(d.in[CacheWriteIn::kX]), cache_of(cache),
                             cache.layout == Layout::kKeyPages ? 1 : 0, put_bytes(cache)});
}

bool takes_qkv(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[QkvRopeIn::kQkv]) && is_matrix(d.in[QkvRopeIn::kAngles]) &&
         is_cache(d.in[QkvRopeIn::kKeys]) && is_cache(d.in[QkvRopeIn::kValues]) &&
         absent_or_matrix(d.in[QkvRopeIn::kQueryNorm]) &&
         absent_or_matrix(d.in[QkvRopeIn::kKeyNorm]) && is_matrix(d.out());
}
void record_qkv(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<QkvRopeAttr>();
  QkvRopeArguments a{to.run, to.matrix(d.in[QkvRopeIn::kQkv]), to.matrix(d.in[QkvRopeIn::kAngles]),
                     to.matrix(d.out())};
  a.keys = cache_of(d.in[QkvRopeIn::kKeys]);
  a.values = cache_of(d.in[QkvRopeIn::kValues]);
  a.bytes = put_bytes(d.in[QkvRopeIn::kKeys]);
  a.value_bytes = put_bytes(d.in[QkvRopeIn::kValues]);
  a.heads = attr.heads, a.kv_heads = attr.kv_heads, a.head_dim = attr.head_dim;
  a.pairs = attr.dims / 2, a.interleaved = attr.interleaved ? 1 : 0, a.eps = attr.eps;
  a.query_norm = d.in[QkvRopeIn::kQueryNorm].row<float>(0);
  a.key_norm = d.in[QkvRopeIn::kKeyNorm].row<float>(0);
  LaunchSize size = size_of(to.most(d.in[QkvRopeIn::kQkv].rows), 256);
  constexpr int kRowsDim = 128, kBF16Bytes = 2, kLeastRows = 256;
  if (to.machine.has(KernelId::qkv_rows) && size.blocks_x >= kLeastRows && a.head_dim == kRowsDim &&
      2 * a.pairs == a.head_dim && a.query_norm == nullptr && a.key_norm == nullptr &&
      a.bytes == kBF16Bytes && a.value_bytes == kBF16Bytes && in_fours(a.qkv) &&
      in_fours(a.angles) && in_fours(a.out))
    return to.add(KernelId::qkv_rows, size, a);
  // A warp a head, as long as the processors have room for all.
  constexpr int kWarps = 8, kBlocksEach = 8;
  a.parts = std::min(std::max(to.machine.processors() * kBlocksEach / size.blocks_x, 2),
                     (a.heads + 2 * a.kv_heads + kWarps - 1) / kWarps);
  size.blocks_y = a.parts;
  to.add(KernelId::qkv_rope, size, a);
}

// Attention

bool takes_attend(const Dispatch& d, const KernelChoice& choice) {
  const auto& attr = d.as<AttendAttr>();
  const Operand& k = d.in[AttendIn::kK];
  return is_matrix(d.in[AttendIn::kQ]) && is_gpu_cache(k) && is_gpu_cache(d.in[AttendIn::kV]) &&
         k.dtype == d.in[AttendIn::kV].dtype && absent_or_matrix(d.in[AttendIn::kSinks]) &&
         is_matrix(d.out()) && attr.mask == Mask::kCausal && attr.alibi == 0 && attr.shared == 0 &&
         d.in[AttendIn::kQ].cols / attr.heads % 16 == 0 && d.out().cols / attr.heads % 16 == 0 &&
         d.out().cols / attr.heads <= 256 && !(choice.exact && k.dtype == DType::kBF16);
}
int value_dim(const Dispatch& d) { return d.out().cols / d.as<AttendAttr>().heads; }
// By tensor cores, in an order of sums of their own.
bool takes_cores(const Dispatch& d, const KernelChoice& choice) {
  return takes_attend(d, choice) && d.out().rows == kTokenRows && choice.rows >= kRelaxedRows &&
         d.in[AttendIn::kK].dtype == DType::kBF16 && value_dim(d) <= kMostTileDims &&
         d.in[AttendIn::kQ].cols / d.as<AttendAttr>().heads <= kMostTileDims;
}
int64_t blocks_of(int64_t positions) { return (positions + 127) / 128 + 1; }

// Rows that follow each other, of takes_cores().
void record_cores(AttendArguments& a, int64_t rows, Recorder& to) {
  const bool same = a.key_dim == a.value_dim;
  a.tile_rows = kCoreQueries / shared_heads(a.heads, a.kv_heads);
  to.add(same && a.key_dim == 64    ? KernelId::attend_cores_64
         : same && a.key_dim == 128 ? KernelId::attend_cores_128
                                    : KernelId::attend_cores_any,
         {.blocks_x = a.kv_heads * ((a.heads / a.kv_heads + kMostHeads - 1) / kMostHeads),
          .blocks_y = static_cast<int>((rows + a.tile_rows - 1) / a.tile_rows),
          .threads = kCoreThreads,
          .shared = static_cast<size_t>(core_places(a.key_dim, a.value_dim).bytes)},
         a);
}

// Rows that follow each other, where there are enough of them to keep processors busy.
void record_tiles(AttendArguments& a, int type, bool by_cores, int64_t rows, Recorder& to) {
  constexpr int kF32 = 2;
  const int each = attend_tile_rows(a.heads, a.kv_heads);
  const int parts = a.kv_heads * ((a.heads / a.kv_heads + kMostHeads - 1) / kMostHeads);
  const int64_t tiles = (rows + each - 1) / each;
  if (!to.machine.has(KernelId::attend_tiles_bf16_2) || type == kF32 || a.key_dim > kMostTileDims ||
      a.value_dim > kMostTileDims || 2 * tiles * parts < to.machine.processors())
    return;
  a.tile_rows = each;
  if (by_cores) {
    const bool same = a.key_dim == a.value_dim;
    return to.add(same && a.key_dim == 64    ? KernelId::attend_core_tiles_64
                  : same && a.key_dim == 128 ? KernelId::attend_core_tiles_128
                                             : KernelId::attend_core_tiles_any,
                  {.blocks_x = parts,
                   .blocks_y = static_cast<int>(tiles),
                   .threads = kCoreTileThreads,
                   .shared = static_cast<size_t>(core_tile_places(a.key_dim, a.value_dim).bytes)},
                  a);
  }
  constexpr KernelId kKernels[2][2] = {
      {KernelId::attend_tiles_bf16_2, KernelId::attend_tiles_bf16_4},
      {KernelId::attend_tiles_f16_2, KernelId::attend_tiles_f16_4}};
  to.add(kKernels[type][a.value_dim > 64 ? 1 : 0],
         {.blocks_x = parts,
          .blocks_y = static_cast<int>(tiles),
          .threads = 256,
          .shared = static_cast<size_t>(attend_places(a.key_dim, a.value_dim).bytes)},
         a);
}

// The rows that tiles leave, of blocks of threads that have room together; in steps of several
// sequences these are all.
void record_left(AttendArguments& a, KernelId kernel, LaunchSize size, Recorder& to) {
  constexpr int kBlocksEach = 4, kStep = 256;
  const int spread = kBlocksEach * to.machine.processors() / size.blocks_y;
  if (size.blocks_z > kStep) size.blocks_z = std::clamp(spread, 1, size.blocks_z);
  a.spread = size.blocks_z;
  to.add(kernel, size, a);
}

// Blocks of threads that share the positions of a row's queries with one key head, as long as there
// are few of these; 1: a block goes through all positions.
int splits(const AttendAttr& attr, int64_t rows, const Machine& machine) {
  constexpr int kBlocksEach = 4;
  const int group = attr.heads / attr.kv_heads;
  const int64_t own = rows * attr.kv_heads * ((group + kMostHeads - 1) / kMostHeads);
  if (rows <= kSplitRows) return kMostBlocks;
  return static_cast<int>(
      std::clamp<int64_t>(kBlocksEach * machine.processors() / own, 1, kMostBlocks));
}

// Of rows that are read and written as one.
bool overlap(const Matrix& a, const Matrix& b) {
  const std::less<> before;
  return before(a.data, b.data + b.cols) && before(b.data, a.data + a.cols);
}

// One row whose queries, newest key and newest value the launch before makes for it alone: a launch
// of both in its place. `kernel`: of attend_step().
bool join_step(KernelId kernel, LaunchSize size, const AttendArguments& a, Recorder& to) {
  if (size.blocks_z != 1 || a.staged == 0 || !to.machine.has(kernel) || to.launches.empty() ||
      to.launches.back().kernel != KernelId::qkv_rope)
    return false;
  const auto rope = to.launches.back().as<QkvRopeArguments>();
  // Some blocks of threads have written to `out` when others read what queries are made of.
  if (to.launches.back().size.blocks_x != 1 || overlap(rope.qkv, a.out) ||
      overlap(rope.angles, a.out))
    return false;
  if (rope.out.data != a.q.data || rope.keys.data != a.keys.data ||
      rope.values.data != a.values.data || rope.head_dim != a.key_dim ||
      rope.head_dim != a.value_dim || rope.bytes != rope.value_bytes || rope.bytes == kQ8Bytes)
    return false;
  // As many as processors have room for.
  constexpr int kBlocksEach = 2;
  const int most = std::max(1, kBlocksEach * to.machine.processors() / size.blocks_y);
  size.blocks_x = std::min(size.blocks_x, most);
  size.threads = kStepThreads;
  to.launches.pop_back();
  const bool early = !to.launches.empty() && to.launches.back().size.waits_first;
  to.add(kernel, size, StepArguments{rope, a, early ? 1 : 0});
  return true;
}

// In the order of attend_by_cores.h.
bool goes_by_cores(const AttendArguments& a, int type, const Recorder& to) {
  return to.cores && type == 0 && a.key_dim <= kMostTileDims && a.value_dim <= kMostTileDims;
}
KernelId left_kernel(int type, bool by_cores) {
  if (by_cores) return KernelId::attend_left_cores;
  return type == 0 ? KernelId::attend_left_bf16 : KernelId::attend_left_f16;
}

template <bool kByCores>
void record_attend(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  const Operand& keys = d.in[AttendIn::kK];
  AttendArguments a{to.run, to.matrix(d.in[AttendIn::kQ]), to.matrix(d.out()), cache_of(keys),
                    cache_of(d.in[AttendIn::kV])};
  a.sinks = d.in[AttendIn::kSinks].row<float>(0);
  a.parts = reinterpret_cast<float*>(to.parts);
  a.blocks = most_blocks(to, keys.group);
  a.heads = attr.heads, a.kv_heads = attr.kv_heads, a.group = attr.heads / attr.kv_heads;
  a.key_dim = d.in[AttendIn::kQ].cols / attr.heads, a.value_dim = value_dim(d);
  a.scale = attr.scale, a.softcap = attr.softcap;
  a.window = attr.window, a.chunked = attr.chunked ? 1 : 0;
  const int type = keys.dtype == DType::kBF16 ? 0 : keys.dtype == DType::kF16 ? 1 : 2;
  const int wide = a.value_dim > 128 ? 1 : 0;
  const bool by_cores = goes_by_cores(a, type, to);
  const auto kernel = [&](KernelId cores, KernelId first, int each, int way) {
    return by_cores
               ? cores
               : static_cast<KernelId>(static_cast<int>(first) + each * (2 * type + wide) + way);
  };
  constexpr int kHeads = kMostHeads;
  const int group = attr.heads / attr.kv_heads;
  const auto dims = static_cast<size_t>(a.key_dim + (by_cores ? a.value_dim : 0));
  const size_t shared = sizeof(float) * (kHeads * (dims + 128) + 16);
  LaunchSize size{.blocks_y = attr.kv_heads * ((group + kHeads - 1) / kHeads),
                  .blocks_z = static_cast<int>(to.most(d.out().rows)),
                  .threads = 128,
                  .shared = shared};
  const StagePlaces places = stage_places(a.key_dim, a.value_dim, type == 2 ? 4 : 2);
  const int blocks = kByCores ? 1 : splits(attr, size.blocks_z, to.machine);
  if (kByCores && in_fours(a.q) && in_fours(a.out))
    record_cores(a, size.blocks_z, to);
  else if (blocks == 1)
    record_tiles(a, type, by_cores, size.blocks_z, to);
  if (a.tile_rows > 0) return record_left(a, left_kernel(type, by_cores), size, to);
  a.staged = to.machine.stages() && places.bytes <= kMostStage ? 1 : 0;
  size.shared = static_cast<size_t>(a.staged != 0 ? places.bytes : 0) + shared;
  if (blocks == 1)
    return to.add(kernel(KernelId::attend_rows_cores, KernelId::attend_blocks_bf16_1, 2, 1), size,
                  a);
  size.blocks_x = std::min(a.blocks, blocks);
  const auto merge =
      static_cast<KernelId>(static_cast<int>(KernelId::attend_merge_bf16_1) + 2 * type + wide);
  const bool merges = to.machine.has(merge);
  if (!merges) {
    const auto counters = static_cast<size_t>(size.blocks_y) * static_cast<size_t>(size.blocks_z);
    const Memory& come = to.memory.emplace_back(to.machine.allocate(counters * sizeof(uint32_t)));
    a.come = reinterpret_cast<uint32_t*>(come.data());
  }
  if (join_step(kernel(KernelId::attend_step_cores, KernelId::attend_step_bf16_1, 1, 0), size, a,
                to))
    return;
  to.add(kernel(KernelId::attend_blocks_cores, KernelId::attend_blocks_bf16_1, 2, 0), size, a);
  if (!merges) return;
  size.shared = shared;
  size.threads = 64;
  size.blocks_x = kHeads;
  to.add(merge, size, a);
}

const LaunchRow kRows[] = {
    {op::kEmbed, takes_embed, "embed", nullptr, record_embed, KernelId::embed},
    {op::kSelectRows, takes_select, "select_rows", nullptr, record_select, KernelId::select_rows},
    {op::kArgmax, takes_argmax, "argmax", nullptr, record_argmax, KernelId::argmax},
    {op::kRmsNorm, takes_norm, "rms_norm", nullptr, record_norm, KernelId::rms_norm},
    {op::kLayerNorm, takes_layer_norm, "layer_norm", nullptr, record_layer_norm,
     KernelId::layer_norm},
    {op::kAdd, takes_elements, "add", nullptr, record_elements<Elementwise::kAdd>,
     KernelId::elementwise},
    {op::kMul, takes_elements, "mul", nullptr, record_elements<Elementwise::kMul>,
     KernelId::elementwise},
    {op::kScale, takes_elements, "scale", nullptr, record_elements<Elementwise::kScale>,
     KernelId::elementwise},
    {op::kActivate, takes_elements, "activate", nullptr, record_elements<Elementwise::kActivate>,
     KernelId::elementwise},
    {op::kSoftcap, takes_elements, "softcap", nullptr, record_elements<Elementwise::kSoftcap>,
     KernelId::elementwise},
    {op::kRopeAngles, takes_angles, "rope_angles", nullptr, record_angles, KernelId::angles},
    {op::kRope, takes_rope, "rope", nullptr, record_rope, KernelId::rope},
    {op::kCacheWrite, takes_write, "cache_write", nullptr, record_write, KernelId::cache_write},
    {op::kQkvRope, takes_qkv, "qkv_rope", nullptr, record_qkv, KernelId::qkv_rope},
    {op::kAttend, takes_cores, "attend_relaxed", nullptr, record_attend<true>,
     KernelId::attend_cores_64},
    {op::kAttend, takes_attend, "attend", nullptr, record_attend<false>,
     KernelId::attend_rows_bf16_1},
    {op::kAttend, takes_wide, "attend_wide", nullptr, record_wide, KernelId::wide_rows_256},
    {op::kAttend, takes_uneven, "attend_f64", nullptr, record_uneven, KernelId::attend_f64},
    {op::kChoosePositions, takes_choice, "choose_positions", nullptr, record_choice,
     KernelId::choose_positions, fits_choice},
    {op::kRoute, takes_route, "route", nullptr, record_route, KernelId::route},
    {op::kMoe, takes_moe_exact, "moe_exact", moe_work<true>, record_moe<true>,
     KernelId::experts_fma},
    {op::kMoe, takes_moe, "moe", moe_work<false>, record_moe<false>, KernelId::experts_q8},
    {op::kScan, takes_scan, "scan", nullptr, record_scan, KernelId::scan_plain_4, fits_scan},
    {op::kConv1d, takes_conv1d, "conv1d", nullptr, record_conv1d, KernelId::conv1d},
    {op::kSlstm, takes_slstm, "slstm", nullptr, record_slstm, KernelId::slstm, fits_slstm},
    {op::kLinearHeads, takes_linear_heads, "linear_heads", nullptr, record_linear_heads,
     KernelId::linear_heads},
    {op::kHeadLinear, takes_head_linear_exact, "head_linear_exact", head_linear_work<true>,
     record_head_linear<true>, KernelId::experts_fma},
    {op::kHeadLinear, takes_head_linear, "head_linear", head_linear_work<false>,
     record_head_linear<false>, KernelId::head_pairs},
    {op::kL2Norm, takes_rows, "l2_norm", nullptr, record_l2_norm, KernelId::l2_norm},
    {op::kConcat, takes_rows, "concat", nullptr, record_concat, KernelId::concat},
    {op::kLinear, takes_linear_one, "linear_one", nullptr, record_linear_one, KernelId::linear_one},
    {op::kEmbed, takes_embed_rows, "embed_rows", nullptr, record_embed_rows, KernelId::embed_rows},
    {op::kSumTo, takes_sum_to, "sum_to", nullptr, record_sum_to, KernelId::sum_to},
    {op::kShift, takes_rows, "shift", nullptr, record_shift, KernelId::shift},
    {op::kPool, takes_rows, "pool", nullptr, record_pool, KernelId::pool},
    {op::kTopK, takes_top_k, "top_k", nullptr, record_top_k, KernelId::top_k_groups},
    {op::kLinear, takes_exact, "linear_exact", exact_work, record_exact, KernelId::linear_fma_row},
    {op::kLinearArgmax, takes_exact_argmax, "argmax_exact", exact_argmax_work, record_exact_argmax,
     KernelId::linear_fma_row},
    {op::kLinear, takes_relaxed, "linear_relaxed", relaxed_work, record_relaxed, KernelId::expand},
    {op::kLinear, takes_linear, "linear", linear_work, record_linear, KernelId::linear_tiles_q8},
    {op::kLinearArgmax, takes_linear, "linear_argmax", linear_work, record_linear_argmax,
     KernelId::best},
    {op::kLinear, takes_linear, "linear_few", few_work, record_few, KernelId::linear_few_q8},
    {op::kLinearArgmax, takes_few_argmax, "few_argmax", few_argmax_work, record_few_argmax,
     KernelId::argmax},
};

}  // namespace

Activate activate_of(const ActivateAttr& attr) {
  return {static_cast<int32_t>(attr.kind), attr.positive, attr.negative, attr.beta, attr.eps};
}

const int32_t* Recorder::ids(const Operand& o) const {
  const auto* at = reinterpret_cast<const int32_t*>(o.data);
  return at == slots.tokens        ? run.tokens
         : at == slots.positions   ? run.positions
         : at == slots.output_rows ? run.output_rows
         : at == types             ? run.types
                                   : at;
}

const LaunchRow* Recorder::row_of(const Step& step) const {
  return find_row(step.op, step.dispatch, {.rows = most(step.dispatch.in[0].rows), .exact = exact},
                  machine);
}

const LaunchRow* find_row(Op op, const Dispatch& dispatch, const KernelChoice& choice,
                          const Machine& machine) {
  const auto* const row = std::ranges::find_if(kRows, [&](const LaunchRow& r) {
    return r.op == op && machine.has(r.needs) && r.accepts(dispatch, choice) &&
           (r.fits == nullptr || r.fits(dispatch, machine));
  });
  return row == std::end(kRows) ? nullptr : row;
}

bool has_row(Op op, const Machine& machine) {
  return std::ranges::any_of(
      kRows, [&](const LaunchRow& r) { return r.op == op && machine.has(r.needs); });
}

size_t part_bytes(const Step& step, int64_t rows, int64_t positions, const Machine& machine) {
  if (step.op == op::kChoosePositions)
    return static_cast<size_t>(choice_rows(rows, positions) * positions) * sizeof(float);
  if (step.op != op::kAttend) return 0;
  const auto& attr = step.dispatch.as<AttendAttr>();
  if (splits(attr, rows, machine) == 1) return 0;
  const auto each = static_cast<size_t>(16 + value_dim(step.dispatch));
  return static_cast<size_t>(rows * attr.heads * blocks_of(positions)) * each * sizeof(float);
}

}  // namespace veery::gpu
