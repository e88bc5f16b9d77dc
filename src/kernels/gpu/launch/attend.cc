// Launches of causal attention over the KV cache.
#include <algorithm>
#include <functional>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {
namespace {

int key_dim(const Dispatch& d) { return d.in[AttendIn::kQ].cols / d.as<AttendAttr>().heads; }
int value_dim(const Dispatch& d) { return d.out().cols / d.as<AttendAttr>().heads; }
// Thread blocks per row: each has up to kMaxHeads of the query heads that share a KV head.
int head_blocks(const AttendAttr& attr) {
  return attr.kv_heads * ((attr.heads / attr.kv_heads + kMaxHeads - 1) / kMaxHeads);
}

bool is_float_cache(const Operand& o) {
  return in_pages(o) &&
         (o.dtype == DType::kF32 || o.dtype == DType::kF16 || o.dtype == DType::kBF16);
}
// These kernels do not store the log-sum-exp; those of attend_general.cc do.
bool accepts_attend(const Dispatch& d, const KernelChoice& choice) {
  const auto& attr = d.as<AttendAttr>();
  const Operand& k = d.in[AttendIn::kK];
  return is_matrix(d.in[AttendIn::kQ]) && is_float_cache(k) && is_float_cache(d.in[AttendIn::kV]) &&
         k.dtype == d.in[AttendIn::kV].dtype && absent_or_matrix(d.in[AttendIn::kSinks]) &&
         is_matrix(d.out()) && !d.outputs[AttendOut::kLogSum] && attr.mask == Mask::kCausal &&
         attr.alibi == 0 && attr.shared == 0 && key_dim(d) % 16 == 0 && value_dim(d) % 16 == 0 &&
         value_dim(d) <= 256 && !(choice.exact && k.dtype == DType::kBF16);
}
// FlashAttention by tensor cores, whose bits are not those of the CPU.
bool accepts_flash(const Dispatch& d, const KernelChoice& choice) {
  return accepts_attend(d, choice) && d.out().rows == kTokenRows && choice.rows >= kRelaxedRows &&
         d.in[AttendIn::kK].dtype == DType::kBF16 && value_dim(d) <= kMaxPrefillDims &&
         key_dim(d) <= kMaxPrefillDims;
}

// Thread blocks that share the positions of a row's queries of one KV head, while there are few
// rows; 1: a thread block goes through all positions.
int kv_splits(const AttendAttr& attr, int64_t rows, const Machine& machine) {
  constexpr int kBlocksPerSm = 4;
  if (rows <= kSplitRows) return kMaxSplits;
  const int64_t own = rows * head_blocks(attr);
  return static_cast<int>(
      std::clamp<int64_t>(kBlocksPerSm * machine.sm_count() / own, 1, kMaxSplits));
}

// Attention of one step.
struct Attend {
  const Dispatch& d;
  Recorder& to;
  const AttendAttr& attr = d.as<AttendAttr>();
  int64_t rows = to.max_rows(d.out().rows);
  AttendParams a = params();
  CacheType type = cache_type();

  AttendParams params() const {
    const Operand& keys = d.in[AttendIn::kK];
    AttendParams p{to.run, to.matrix(d.in[AttendIn::kQ]), to.matrix(d.out()), cache_of(keys),
                   cache_of(d.in[AttendIn::kV])};
    p.sinks = d.in[AttendIn::kSinks].row<float>(0);
    p.partials = reinterpret_cast<float*>(to.scratch);
    p.blocks = max_kv_blocks(to, keys.group);
    p.heads = attr.heads, p.kv_heads = attr.kv_heads, p.group = attr.heads / attr.kv_heads;
    p.key_dim = key_dim(d), p.value_dim = value_dim(d);
    p.scale = attr.scale, p.softcap = attr.softcap;
    p.window = attr.window, p.chunked = attr.chunked ? 1 : 0;
    return p;
  }
  CacheType cache_type() const {
    switch (d.in[AttendIn::kK].dtype) {
      case DType::kF32: return CacheType::kF32;
      case DType::kF16: return CacheType::kF16;
      default:
        return to.mma_attention && a.key_dim <= kMaxPrefillDims && a.value_dim <= kMaxPrefillDims
                   ? CacheType::kBF16Mma
                   : CacheType::kBF16;
    }
  }
  bool is_wide() const { return a.value_dim > 128; }
  KernelKey key(AttendPart part) const { return key::attend(part, type, is_wide()); }
  KernelKey decode_key() const { return key::attend_decode(type, is_wide()); }
  bool is_mma() const { return type == CacheType::kBF16Mma; }
  // The head dimension, if attend_prefill_mma() and attend_flash() have a kernel for it; otherwise
  // 0, which selects their kernels for any dimension.
  int common_dim() const {
    const bool common = a.key_dim == a.value_dim && (a.key_dim == 64 || a.key_dim == 128);
    return common ? a.key_dim : 0;
  }

  // Bytes of attend_split() and attend_rows() besides the staged KV block.
  size_t shared() const {
    const auto dims = static_cast<size_t>(a.key_dim + (is_mma() ? a.value_dim : 0));
    return sizeof(float) * (kMaxHeads * (dims + 128) + 16);
  }
  AttendStageSmem stage() const {
    return attend_stage_smem(a.key_dim, a.value_dim, type == CacheType::kF32 ? 4 : 2);
  }
  bool is_staged() const { return to.machine.stages_rows() && stage().bytes <= kMaxKvStage; }
  LaunchSize size() const {
    return {.blocks_y = head_blocks(attr),
            .blocks_z = static_cast<int>(rows),
            .threads = 128,
            .shared = shared()};
  }

  void record_flash() {
    a.tile_rows = kFlashQueries / shared_heads(a.heads, a.kv_heads);
    to.add(key::attend_flash(common_dim()),
           {.blocks_x = head_blocks(attr),
            .blocks_y = static_cast<int>((rows + a.tile_rows - 1) / a.tile_rows),
            .threads = kFlashThreads,
            .shared = static_cast<size_t>(attend_flash_smem(a.key_dim, a.value_dim).bytes)},
           a);
  }
  // Attention of tiles, rows at consecutive positions of one sequence, if there are enough of them
  // to keep the SMs busy. Sets tile_rows if so.
  void record_prefill() {
    const int each = attend_prefill_rows(a.heads, a.kv_heads), parts = head_blocks(attr);
    const int64_t tiles = (rows + each - 1) / each;
    if (!to.machine.has(KernelId::attend_prefill_bf16_2) || type == CacheType::kF32 ||
        a.key_dim > kMaxPrefillDims || a.value_dim > kMaxPrefillDims ||
        2 * tiles * parts < to.machine.sm_count())
      return;
    a.tile_rows = each;
    LaunchSize size{.blocks_x = parts, .blocks_y = static_cast<int>(tiles), .threads = 256};
    if (is_mma()) {
      size.threads = kPrefillMmaThreads;
      size.shared = static_cast<size_t>(attend_prefill_mma_smem(a.key_dim, a.value_dim).bytes);
      return to.add(key::attend_prefill_mma(common_dim()), size, a);
    }
    size.shared = static_cast<size_t>(attend_prefill_smem(a.key_dim, a.value_dim).bytes);
    to.add(key::attend_prefill(type, a.value_dim > 64), size, a);
  }
  // Attention of the rows that are not in a tile of record_prefill(), which are all rows in decode
  // steps of several sequences. If there are many rows, the launch is at most one wave of thread
  // blocks.
  void record_ragged() {
    constexpr int kBlocksPerSm = 4, kManyRows = 256;
    LaunchSize own = size();
    const int spread = kBlocksPerSm * to.machine.sm_count() / own.blocks_y;
    if (own.blocks_z > kManyRows) own.blocks_z = std::clamp(spread, 1, own.blocks_z);
    a.blocks_per_head = own.blocks_z;
    to.add(key::attend_ragged(type), own, a);
  }
  // Attention with split KV; the last thread block, or another kernel, merges the states.
  void record_split(int splits, const Dispatch* rope) {
    LaunchSize own = size();
    a.staged = is_staged() ? 1 : 0;
    if (a.staged != 0) own.shared += static_cast<size_t>(stage().bytes);
    own.blocks_x = std::min(a.blocks, splits);
    const bool merges = to.machine.has(key(AttendPart::kMerge));
    if (!merges) {
      const auto counters = static_cast<size_t>(own.blocks_y) * static_cast<size_t>(own.blocks_z);
      const Memory& arrivals =
          to.memory.emplace_back(to.machine.allocate(counters * sizeof(uint32_t)));
      a.arrivals = reinterpret_cast<uint32_t*>(arrivals.data());
    }
    if (rope != nullptr) return record_decode(own, *rope);
    to.add(key(AttendPart::kSplit), own, a);
    if (!merges) return;
    own.shared = shared();
    own.threads = 64;
    own.blocks_x = kMaxHeads;
    to.add(key(AttendPart::kMerge), own, a);
  }
  // Attention of one decode step with the RoPE that precedes it.
  void record_decode(LaunchSize own, const Dispatch& rope) {
    constexpr int kBlocksPerSm = 2;  // that are resident
    own.blocks_x =
        std::min(own.blocks_x, std::max(1, kBlocksPerSm * to.machine.sm_count() / own.blocks_y));
    own.threads = kDecodeThreads;
    const bool prefetch = !to.launches.empty() && to.launches.back().size.waits_before_trigger;
    to.add(decode_key(), own, AttendDecodeParams{qkv_rope_params(rope, to), a, prefetch ? 1 : 0});
  }
  void record_rows() {
    LaunchSize own = size();
    a.staged = is_staged() ? 1 : 0;
    if (a.staged != 0) own.shared += static_cast<size_t>(stage().bytes);
    to.add(key(AttendPart::kRows), own, a);
  }
};

template <bool kFlash>
void record_attend(const Dispatch& d, Recorder& to) {
  Attend attend{d, to};
  const int splits = kFlash ? 1 : kv_splits(attend.attr, attend.rows, to.machine);
  if (splits > 1) {
    const auto rope = to.decode_ropes.find(&d);
    return attend.record_split(splits, rope == to.decode_ropes.end() ? nullptr : rope->second);
  }
  if (kFlash && is_vectorizable(attend.a.q) && is_vectorizable(attend.a.out))
    attend.record_flash();
  else
    attend.record_prefill();
  if (attend.a.tile_rows > 0)
    attend.record_ragged();
  else
    attend.record_rows();
}

// Whether two rows that are read and written as a whole overlap.
bool overlap(const Matrix& a, const Matrix& b) {
  const std::less<> before;
  return before(a.data, b.data + b.cols) && before(b.data, a.data + a.cols);
}
// Whether attend_decode() can compute both steps: one row, whose query, key and value only the
// attention reads. Its thread blocks write outputs while others still read the inputs of the
// queries, so these must not overlap.
bool is_fusible(const Step& rope, const Step& step, Recorder& to) {
  if (!may_fuse_decode(rope.op, step.op, 1)) return false;
  const LaunchRow* const row = to.row_of(step);
  if (row == nullptr || row->record != record_attend<false>) return false;
  const Attend attend{step.dispatch, to};
  const QkvRopeParams r = qkv_rope_params(rope.dispatch, to);
  const AttendParams& a = attend.a;
  return attend.rows == 1 && to.max_rows(rope.dispatch.in[QkvRopeIn::kQkv].rows) == 1 &&
         attend.is_staged() && to.machine.has(attend.decode_key()) && !overlap(r.qkv, a.out) &&
         !overlap(r.angles, a.out) && r.out.data == a.q.data && r.keys.data == a.keys.data &&
         r.values.data == a.values.data && r.head_dim == a.key_dim && r.head_dim == a.value_dim &&
         r.bytes == r.value_bytes && r.bytes != kQ8Bytes;
}

const LaunchRow kRows[] = {
    {op::kAttend, accepts_flash, "attend_relaxed", nullptr, record_attend<true>,
     KernelId::attend_flash_64, nullptr, attend_scratch},
    {op::kAttend, accepts_attend, "attend", nullptr, record_attend<false>,
     KernelId::attend_rows_bf16_1, nullptr, attend_scratch},
};

// There is a flash kernel and a prefill kernel for each result of common_dim(), and a kernel of
// each cache type for the rows that prefill does not process.
static_assert(find_kernel(key::attend_flash(0)) && find_kernel(key::attend_flash(64)) &&
              find_kernel(key::attend_flash(128)) && find_kernel(key::attend_prefill_mma(0)) &&
              find_kernel(key::attend_prefill_mma(64)) &&
              find_kernel(key::attend_prefill_mma(128)));
consteval bool has_cache_kernels() {
  for (const CacheType type : {CacheType::kBF16, CacheType::kF16, CacheType::kF32})
    for (const bool wide : {false, true}) {
      for (const AttendPart part : {AttendPart::kSplit, AttendPart::kMerge, AttendPart::kRows})
        if (!find_kernel(key::attend(part, type, wide))) return false;
      if (!find_kernel(key::attend_decode(type, wide))) return false;
    }
  for (const CacheType type : {CacheType::kBF16, CacheType::kF16, CacheType::kBF16Mma})
    if (!find_kernel(key::attend_ragged(type))) return false;
  return true;
}
static_assert(has_cache_kernels());

}  // namespace

size_t attend_scratch(const Dispatch& d, const Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  const int64_t rows = to.max_rows(d.out().rows);
  if (kv_splits(attr, rows, to.machine) == 1) return 0;
  constexpr int kHeader = 16;  // kPartialHeader of softmax_state-inl.h
  const int64_t blocks = (to.positions + kKvBlock - 1) / kKvBlock + 1;
  return static_cast<size_t>(rows * attr.heads * blocks * (kHeader + value_dim(d))) * sizeof(float);
}

bool may_fuse_decode(Op first, Op second, int64_t rows) {
  return rows == 1 && first == op::kQkvRope && second == op::kAttend;
}
void fuse_decode_steps(std::span<const Step> steps, Recorder& to) {
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!is_fusible(steps[i], steps[i + 1], to)) continue;
    to.fused_ropes.insert(&steps[i].dispatch);
    to.decode_ropes[&steps[i + 1].dispatch] = &steps[i].dispatch;
  }
}

LaunchRows attend_launches() { return kRows; }

}  // namespace veery::gpu
