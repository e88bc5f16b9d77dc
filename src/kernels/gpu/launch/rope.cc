// Launches of rotary position embeddings, of scaling by position and of writes to the KV cache.
#include <algorithm>

#include "base/error.h"
#include "kernels/common/rope_angles.h"
#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"

namespace veery::gpu {
namespace {

const double* uploaded(const std::vector<double>& all, Recorder& to) {
  Memory& memory = to.memory.emplace_back(to.machine.allocate(all.size() * sizeof(double)));
  to.machine.upload(memory.data(), all.data(), memory.size());
  return reinterpret_cast<const double*>(memory.data());
}
std::vector<double> frequencies(const AnglesAttr& attr, const Operand& divisors, int half,
                                const Recorder& to) {
  std::vector<float> given(static_cast<size_t>(half));
  if (divisors) to.machine.download(given.data(), divisors.data, given.size() * sizeof(float));
  const RopeFrequencies of(attr, divisors ? given.data() : nullptr);
  std::vector<double> all(given.size());
  for (int i = 0; i < half; ++i) all[static_cast<size_t>(i)] = of(i);
  return all;
}
// Returns the factor of each period that a sequence may reach, times `scale`. With sliding windows
// a sequence may be longer than its pages.
const double* position_factors(const PositionScaleAttr& attr, double scale, Recorder& to) {
  constexpr int64_t kLongest = int64_t{1} << 24;
  const double last = static_cast<double>(std::max(to.positions, kLongest)) + attr.shift;
  std::vector<double> all;
  for (double period = 0; period * attr.period <= last; ++period)
    all.push_back(scale * position_factor(attr, period * attr.period - attr.shift));
  return uploaded(all, to);
}

bool accepts_angles(const Dispatch& d, const KernelChoice&) {
  const Operand& is_extended = d.in[RopeAnglesIn::kIsExtended];
  return is_ids(d.in[RopeAnglesIn::kPositions]) && (!is_extended || is_ids(is_extended)) &&
         absent_or_matrix(d.in[RopeAnglesIn::kDivisors]) &&
         absent_or_matrix(d.in[RopeAnglesIn::kExtended]) && is_matrix(d.out());
}
void record_angles(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AnglesAttr>();
  const int half = d.out().cols / 2;
  const Operand& extended = d.in[RopeAnglesIn::kExtended];
  RopeAnglesParams a{to.run};
  a.usual = uploaded(frequencies(attr, d.in[RopeAnglesIn::kDivisors], half, to), to);
  if (extended) a.extended = uploaded(frequencies(attr, extended, half, to), to);
  if (extended) a.is_extended = to.ids(d.in[RopeAnglesIn::kIsExtended]);
  a.magnitude = RopeFrequencies(attr).magnitude(0);
  a.positions = to.ids(d.in[RopeAnglesIn::kPositions]);
  a.out = to.matrix(d.out());
  if (attr.temperature != 0) {
    a.magnitudes =
        position_factors({attr.temperature, attr.original_context}, attr.attention_factor, to);
    a.context = attr.original_context;
  }
  to.add(KernelId::rope_angles, launch_size(to.max_rows(d.out().rows), 64), a);
}

bool accepts_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeIn::kX]) && is_matrix(d.in[RopeIn::kAngles]) && is_matrix(d.out());
}
void record_rope(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<RopeAttr>();
  to.add(KernelId::rope, launch_size(to.max_rows(d.out().rows), 256),
         RopeParams{to.run, to.matrix(d.in[RopeIn::kX]), to.matrix(d.in[RopeIn::kAngles]),
                    to.matrix(d.out()), d.out().cols / attr.heads, attr.dims / 2, attr.begin,
                    attr.interleaved ? 1 : 0, attr.sign});
}

bool accepts_position_scale(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[PositionScaleIn::kX]) && is_ids(d.in[PositionScaleIn::kPositions]) &&
         is_matrix(d.out());
}
void record_position_scale(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<PositionScaleAttr>();
  PositionScaleParams a{to.run, to.matrix(d.in[PositionScaleIn::kX]), to.matrix(d.out())};
  a.positions = to.ids(d.in[PositionScaleIn::kPositions]);
  a.factors = position_factors(attr, 1, to);
  a.shift = attr.shift, a.period = attr.period;
  to.add(KernelId::position_scale, launch_size(to.max_rows(d.out().rows), 256), a);
}

// CacheWriteParams::bytes.
int32_t cache_element_bytes(const Operand& o) {
  if (o.dtype == DType::kQ8_0) return kQ8Bytes;
  return o.dtype == DType::kF32 ? 4 : o.dtype == DType::kBF16 ? 2 : 1;
}
bool accepts_cache_write(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CacheWriteIn::kX]) && is_cache(d.in[CacheWriteIn::kState]);
}
void record_cache_write(const Dispatch& d, Recorder& to) {
  const Operand& cache = d.in[CacheWriteIn::kState];
  to.add(KernelId::cache_write, launch_size(to.max_rows(d.in[CacheWriteIn::kX].rows), 256),
         CacheWriteParams{to.run, to.matrix(d.in[CacheWriteIn::kX]), cache_of(cache),
                          cache.layout == Layout::kKeyPages ? 1 : 0, cache_element_bytes(cache)});
}

bool accepts_qkv_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[QkvRopeIn::kQkv]) && is_matrix(d.in[QkvRopeIn::kAngles]) &&
         is_cache(d.in[QkvRopeIn::kKeys]) && is_cache(d.in[QkvRopeIn::kValues]) &&
         absent_or_matrix(d.in[QkvRopeIn::kQueryNorm]) &&
         absent_or_matrix(d.in[QkvRopeIn::kKeyNorm]) && is_matrix(d.out());
}
bool has_rope_rows(const QkvRopeParams& a, int64_t rows, const Machine& machine) {
  constexpr int kDim = 128, kBF16Bytes = 2, kMinRows = 256;
  return machine.has(KernelId::qkv_rope_rows) && rows >= kMinRows && a.head_dim == kDim &&
         2 * a.pairs == a.head_dim && a.query_norm == nullptr && a.key_norm == nullptr &&
         a.bytes == kBF16Bytes && a.value_bytes == kBF16Bytes && is_vectorizable(a.qkv) &&
         is_vectorizable(a.angles) && is_vectorizable(a.out);
}
void record_qkv_rope(const Dispatch& d, Recorder& to) {
  if (to.fused_ropes.contains(&d)) return;
  QkvRopeParams a = qkv_rope_params(d, to);
  LaunchSize size = launch_size(to.max_rows(d.in[QkvRopeIn::kQkv].rows), 256);
  if (has_rope_rows(a, size.blocks_x, to.machine)) return to.add(KernelId::qkv_rope_rows, size, a);
  // One warp per head, as long as the SMs have room for all.
  constexpr int kWarps = 8, kBlocksPerSm = 8;
  a.blocks_per_row = std::min(std::max(to.machine.sm_count() * kBlocksPerSm / size.blocks_x, 2),
                              (a.heads + 2 * a.kv_heads + kWarps - 1) / kWarps);
  size.blocks_y = a.blocks_per_row;
  to.add(KernelId::qkv_rope, size, a);
}

const LaunchRow kRows[] = {
    {op::kRopeAngles, accepts_angles, "rope_angles", nullptr, record_angles, KernelId::rope_angles},
    {op::kRope, accepts_rope, "rope", nullptr, record_rope, KernelId::rope},
    {op::kPositionScale, accepts_position_scale, "position_scale", nullptr, record_position_scale,
     KernelId::position_scale},
    {op::kCacheWrite, accepts_cache_write, "cache_write", nullptr, record_cache_write,
     KernelId::cache_write},
    {op::kQkvRope, accepts_qkv_rope, "qkv_rope", nullptr, record_qkv_rope, KernelId::qkv_rope},
};

}  // namespace

QkvRopeParams qkv_rope_params(const Dispatch& d, const Recorder& to) {
  const auto& attr = d.as<QkvRopeAttr>();
  QkvRopeParams a{to.run, to.matrix(d.in[QkvRopeIn::kQkv]), to.matrix(d.in[QkvRopeIn::kAngles]),
                  to.matrix(d.out())};
  a.keys = cache_of(d.in[QkvRopeIn::kKeys]);
  a.values = cache_of(d.in[QkvRopeIn::kValues]);
  a.bytes = cache_element_bytes(d.in[QkvRopeIn::kKeys]);
  a.value_bytes = cache_element_bytes(d.in[QkvRopeIn::kValues]);
  a.heads = attr.heads, a.kv_heads = attr.kv_heads, a.head_dim = attr.head_dim;
  a.pairs = attr.dims / 2, a.interleaved = attr.interleaved ? 1 : 0, a.eps = attr.eps;
  a.query_norm = d.in[QkvRopeIn::kQueryNorm].row<float>(0);
  a.key_norm = d.in[QkvRopeIn::kKeyNorm].row<float>(0);
  a.blocks_per_row = 1;
  return a;
}

LaunchRows rope_launches() { return kRows; }

}  // namespace veery::gpu
