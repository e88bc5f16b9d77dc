// Launches of attention that attend.cc has no kernels for, and of the choice of positions for
// sparse attention.
#include <algorithm>

#include "kernels/common/formulas.h"
#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {
namespace {

constexpr int kMaxValueDims = 512, kMaxKeyDims = 1024;

Stored stored_type(DType type) {
  switch (type) {
    case DType::kF16: return Stored::kF16;
    case DType::kBF16: return Stored::kBF16;
    case DType::kQ8_0: return Stored::kQ8;
    default: return Stored::kF32;
  }
}
int key_dim(const Dispatch& d) { return d.in[AttendIn::kQ].cols / d.as<AttendAttr>().heads; }
int value_dim(const Dispatch& d) { return d.out().cols / d.as<AttendAttr>().heads; }
bool is_cached(const Dispatch& d) { return in_pages(d.in[AttendIn::kK]); }
// Heads for which the CPU has no vectors; it adds them in f64.
bool needs_f64(const Dispatch& d) {
  return is_cached(d) && (key_dim(d) % 16 != 0 || value_dim(d) % 16 != 0);
}

// Whether the CPU rounds queries and weights to bf16.
bool rounds_to_bf16(const Dispatch& d, bool exact) {
  return is_cached(d) && !exact && d.as<AttendAttr>().shared == 0 &&
         (d.in[AttendIn::kK].dtype == DType::kBF16 || d.in[AttendIn::kV].dtype == DType::kBF16);
}

AttendGeneralParams general_params(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  const Operand &k = d.in[AttendIn::kK], &v = d.in[AttendIn::kV];
  AttendGeneralParams a{to.run, to.matrix(d.in[AttendIn::kQ]), to.matrix(d.out())};
  if (is_cached(d)) {
    a.keys = cache_of(k), a.values = cache_of(v);
    a.key_type = stored_type(k.dtype), a.value_type = stored_type(v.dtype);
    a.blocks = max_kv_blocks(to, k.group);
  } else {
    a.key_rows = to.matrix(k), a.value_rows = to.matrix(v);
  }
  a.log_sum = to.matrix(d.outputs[AttendOut::kLogSum]);
  a.chosen = to.matrix(d.in[AttendIn::kChosen]);
  a.sinks = d.in[AttendIn::kSinks].row<float>(0);
  a.partials = reinterpret_cast<float*>(to.scratch);
  a.heads = attr.heads, a.kv_heads = attr.kv_heads;
  a.key_dim = key_dim(d), a.value_dim = value_dim(d);
  a.scale = attr.scale, a.softcap = attr.softcap;
  a.mask = static_cast<int32_t>(attr.mask);
  a.window = attr.window, a.chunked = attr.chunked ? 1 : 0;
  a.shared = attr.shared;
  if (attr.alibi > 0) {
    std::vector<float> slopes;
    for (int64_t h = 0; h < attr.heads; ++h) slopes.push_back(alibi_slope(attr, h));
    Memory& memory = to.memory.emplace_back(to.machine.allocate(slopes.size() * sizeof(float)));
    to.machine.upload(memory.data(), slopes.data(), memory.size());
    a.slopes = reinterpret_cast<const float*>(memory.data());
  }
  return a;
}

bool accepts_f64(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<AttendAttr>();
  const Operand &k = d.in[AttendIn::kK], &v = d.in[AttendIn::kV];
  const bool cached = is_cache(k) && is_cache(v);
  const bool rows = is_matrix(k) && is_matrix(v) && attr.shared == 0;
  return is_matrix(d.in[AttendIn::kQ]) && (cached || rows) &&
         absent_or_matrix(d.in[AttendIn::kSinks]) && (cached || !d.in[AttendIn::kChosen]) &&
         is_matrix(d.out()) && absent_or_matrix(d.outputs[AttendOut::kLogSum]) &&
         (attr.mask == Mask::kCausal || attr.mask == Mask::kFull ||
          attr.mask == Mask::kSymmetric) &&
         key_dim(d) <= kMaxKeyDims && value_dim(d) <= kMaxValueDims;
}
void record_f64(const Dispatch& d, Recorder& to) {
  to.add(
      KernelId::attend_f64,
      {.blocks_x = d.as<AttendAttr>().heads,
       .blocks_y = static_cast<int>(to.max_rows(d.out().rows)),
       .threads = kKvBlock,
       .shared = 3 * kKvBlock * sizeof(double) + sizeof(float) * static_cast<size_t>(key_dim(d))},
      general_params(d, to));
}

bool accepts_general(const Dispatch& d, const KernelChoice& choice) {
  return accepts_f64(d, choice) && !needs_f64(d);
}
GeneralForm general_form(bool latent, bool wide, bool flushed) {
  if (latent) return GeneralForm::kLatent;
  if (wide) return flushed ? GeneralForm::k512Flushed : GeneralForm::k512;
  return flushed ? GeneralForm::k256Flushed : GeneralForm::k256;
}
void record_general(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  AttendGeneralParams a = general_params(d, to);
  const bool bf16 = rounds_to_bf16(d, to.exact), latent = attr.shared > 0;
  a.key_pairs = bf16 && a.key_type == Stored::kBF16 ? 1 : 0;
  a.value_pairs = bf16 && a.value_type == Stored::kBF16 ? 1 : 0;
  const GeneralForm form = general_form(latent, a.value_dim > 256, bf16);
  const int heads = latent ? 8 : 4, group = attr.heads / attr.kv_heads;
  const size_t floats =
      static_cast<size_t>(heads) * (static_cast<size_t>((a.key_dim + 3) / 4 * 4) + kKvBlock + 2);
  LaunchSize size{.blocks_y = attr.kv_heads * ((group + heads - 1) / heads),
                  .blocks_z = static_cast<int>(to.max_rows(d.out().rows)),
                  .threads = kKvBlock,
                  .shared = floats * sizeof(float)};
  if (!is_cached(d) || size.blocks_z > kSplitRows)
    return to.add(key::attend_general(GeneralPart::kRows, form), size, a);
  size.blocks_x = std::min(a.blocks, kMaxSplits);
  to.add(key::attend_general(GeneralPart::kSplit, form), size, a);
  size.blocks_x = heads;
  to.add(key::attend_general(GeneralPart::kMerge, form), size, a);
}

// Sparse attention: the choice of positions.

// Bytes of shared memory: the queries of all heads, padded to four floats, and the weights of the
// heads. Machines that do not stage rows recompute the weights instead.
size_t choice_smem(const Dispatch& d, const Machine& machine) {
  const int kept = machine.stages_rows() ? 1 : 0;
  return sizeof(float) * static_cast<size_t>(d.as<ChooseAttr>().heads *
                                             ((d.in[ChooseIn::kK].cols + 3) / 4 * 4 + kept));
}
bool accepts_choice(const Dispatch& d, const KernelChoice&) {
  const Operand& keys = d.in[ChooseIn::kK];
  return is_matrix(d.in[ChooseIn::kQ]) && is_matrix(d.in[ChooseIn::kWeights]) && is_cache(keys) &&
         is_matrix(d.out(), DType::kI32);
}
bool fits_choice(const Dispatch& d, const Machine& machine) {
  return choice_smem(d, machine) <= static_cast<size_t>(machine.max_shared());
}
// Rows whose scores are in memory at a time.
int64_t choice_rows(int64_t rows, int64_t positions) {
  constexpr int64_t kMaxScores = 16 << 20;
  return std::clamp<int64_t>(kMaxScores / std::max<int64_t>(positions, 1), 1, rows);
}
size_t choice_scratch(const Dispatch& d, const Recorder& to) {
  const int64_t rows = choice_rows(to.max_rows(d.out().rows), to.positions);
  return static_cast<size_t>(rows * to.positions) * sizeof(float);
}
void record_choice(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 1024;
  const auto& attr = d.as<ChooseAttr>();
  const Operand& keys = d.in[ChooseIn::kK];
  ChoosePositionsParams a{to.run, to.matrix(d.in[ChooseIn::kQ]),
                          to.matrix(d.in[ChooseIn::kWeights]), to.matrix(d.out()), cache_of(keys)};
  a.type = stored_type(keys.dtype);
  a.scores = reinterpret_cast<float*>(to.scratch);
  a.stride = to.positions;
  a.heads = attr.heads, a.dim = keys.cols, a.used = attr.used, a.scale = attr.scale;
  a.plain = keys.cols % 16 == 0 ? 0 : 1;
  const int64_t rows = to.max_rows(d.out().rows);
  const int64_t each =
      std::min<int64_t>(choice_rows(rows, to.positions), 16 * to.machine.sm_count());
  for (int64_t first = 0; first < rows; first += each) {
    a.first_row = static_cast<int32_t>(first);
    const auto count = static_cast<int>(std::min(each, rows - first));
    to.add(KernelId::score_positions,
           {.blocks_x = std::min(max_kv_blocks(to, keys.group), kMaxSplits),
            .blocks_y = count,
            .threads = kKvBlock,
            .shared = choice_smem(d, to.machine)},
           a);
    to.add(KernelId::choose_positions,
           launch_size(count, kThreads, 6 * (kThreads / 32) * sizeof(int32_t)), a);
  }
}

const LaunchRow kRows[] = {
    {op::kAttend, accepts_general, "attend_general", nullptr, record_general,
     KernelId::attend_general_rows_256, nullptr, attend_scratch},
    {op::kAttend, accepts_f64, "attend_f64", nullptr, record_f64, KernelId::attend_f64, nullptr,
     attend_scratch},
    {op::kChoosePositions, accepts_choice, "choose_positions", nullptr, record_choice,
     KernelId::choose_positions, fits_choice, choice_scratch},
};

}  // namespace

Cache cache_of(const Operand& o) {
  return {reinterpret_cast<uint8_t*>(o.data), o.stride, o.group, static_cast<int32_t>(o.rows),
          static_cast<int32_t>(o.cols / o.rows)};
}
int32_t max_kv_blocks(const Recorder& to, int16_t group) {
  const int64_t positions = int64_t{to.group_pages[static_cast<size_t>(group)]} * kPagePositions;
  return static_cast<int32_t>((positions + kKvBlock - 1) / kKvBlock + 1);
}

LaunchRows attend_general_launches() { return kRows; }

}  // namespace veery::gpu
