// Attention that attend.h has no kernels for, and the choice of positions for it.
#include <algorithm>

#include "kernels/common/formulas.h"
#include "kernels/common/table.h"
#include "kernels/gpu/smem/attend_smem.h"
#include "kernels/gpu/params/attend_general_params.h"
#include "kernels/gpu/launches.h"

namespace veery::gpu {
namespace {

constexpr int kMostValueDims = 512, kMostKeyDims = 1024;
constexpr int kMostBlocks = 64;  // of threads, of a row and its key head

Stored stored_as(DType type) {
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
// What the CPU has no vectors for, and adds in f64.
bool is_uneven(const Dispatch& d) {
  return is_cached(d) && (key_dim(d) % 16 != 0 || value_dim(d) % 16 != 0);
}

// Where the CPU rounds queries and weights to bf16.
bool rounds(const Dispatch& d, bool exact) {
  return is_cached(d) && !exact && d.as<AttendAttr>().shared == 0 &&
         (d.in[AttendIn::kK].dtype == DType::kBF16 || d.in[AttendIn::kV].dtype == DType::kBF16);
}

WideArguments arguments_of(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  const Operand &k = d.in[AttendIn::kK], &v = d.in[AttendIn::kV];
  WideArguments a{to.run, to.matrix(d.in[AttendIn::kQ]), to.matrix(d.out())};
  if (is_cached(d)) {
    a.keys = cache_of(k), a.values = cache_of(v);
    a.key_type = stored_as(k.dtype), a.value_type = stored_as(v.dtype);
    a.blocks = most_blocks(to, k.group);
  } else {
    a.key_rows = to.matrix(k), a.value_rows = to.matrix(v);
  }
  a.chosen = to.matrix(d.in[AttendIn::kChosen]);
  a.sinks = d.in[AttendIn::kSinks].row<float>(0);
  a.parts = reinterpret_cast<float*>(to.parts);
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

// Of a block's memory: queries of all heads, four numbers at a time, and what heads count, which is
// found anew where there is little.
size_t choice_bytes(const Dispatch& d, const Machine& machine) {
  const int kept = machine.stages() ? 1 : 0;
  return sizeof(float) * static_cast<size_t>(d.as<ChooseAttr>().heads *
                                             ((d.in[ChooseIn::kK].cols + 3) / 4 * 4 + kept));
}

// In the order of kernel_list.h: for few rows, what merges these, and for many rows.
enum Part { kBlocks, kMerge, kRows, kParts };
KernelId kernel_of(Part part, bool shared, bool wide, bool flush) {
  const int form = shared ? 4 : (wide ? 2 : 0) + (flush ? 1 : 0);
  return static_cast<KernelId>(static_cast<int>(KernelId::wide_blocks_256) + kParts * form + part);
}

}  // namespace

Cache cache_of(const Operand& o) {
  return {reinterpret_cast<uint8_t*>(o.data), o.stride, o.group, static_cast<int32_t>(o.rows),
          static_cast<int32_t>(o.cols / o.rows)};
}
int32_t most_blocks(const Recorder& to, int16_t group) {
  const int64_t positions = int64_t{to.slots.table(group, 0).count} * kPagePositions;
  return static_cast<int32_t>((positions + kBlock - 1) / kBlock + 1);
}

bool takes_uneven(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<AttendAttr>();
  const Operand &k = d.in[AttendIn::kK], &v = d.in[AttendIn::kV];
  const bool cached = is_cache(k) && is_cache(v);
  const bool rows = is_matrix(k) && is_matrix(v) && attr.shared == 0;
  return is_matrix(d.in[AttendIn::kQ]) && (cached || rows) &&
         absent_or_matrix(d.in[AttendIn::kSinks]) && (cached || !d.in[AttendIn::kChosen]) &&
         is_matrix(d.out()) &&
         (attr.mask == Mask::kCausal || attr.mask == Mask::kFull ||
          attr.mask == Mask::kSymmetric) &&
         key_dim(d) <= kMostKeyDims && value_dim(d) <= kMostValueDims;
}
void record_uneven(const Dispatch& d, Recorder& to) {
  to.add(KernelId::attend_f64,
         {.blocks_x = d.as<AttendAttr>().heads,
          .blocks_y = static_cast<int>(to.most(d.out().rows)),
          .threads = kBlock,
          .shared = 3 * kBlock * sizeof(double) + sizeof(float) * static_cast<size_t>(key_dim(d))},
         arguments_of(d, to));
}
bool takes_wide(const Dispatch& d, const KernelChoice& choice) {
  return takes_uneven(d, choice) && !is_uneven(d);
}
void record_wide(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AttendAttr>();
  WideArguments a = arguments_of(d, to);
  const bool flush = rounds(d, to.exact);
  a.key_pairs = flush && a.key_type == Stored::kBF16 ? 1 : 0;
  a.value_pairs = flush && a.value_type == Stored::kBF16 ? 1 : 0;
  const bool shared = attr.shared > 0, wide = a.value_dim > 256;
  const int heads = shared ? 8 : 4, group = attr.heads / attr.kv_heads;
  const size_t floats =
      static_cast<size_t>(heads) * (static_cast<size_t>((a.key_dim + 3) / 4 * 4) + kBlock + 2);
  LaunchSize size{.blocks_y = attr.kv_heads * ((group + heads - 1) / heads),
                  .blocks_z = static_cast<int>(to.most(d.out().rows)),
                  .threads = kBlock,
                  .shared = floats * sizeof(float)};
  if (!is_cached(d) || size.blocks_z > kSplitRows)
    return to.add(kernel_of(kRows, shared, wide, flush), size, a);
  size.blocks_x = std::min(a.blocks, kMostBlocks);
  to.add(kernel_of(kBlocks, shared, wide, flush), size, a);
  size.blocks_x = heads;
  to.add(kernel_of(kMerge, shared, wide, flush), size, a);
}

bool takes_choice(const Dispatch& d, const KernelChoice&) {
  const Operand& keys = d.in[ChooseIn::kK];
  return is_matrix(d.in[ChooseIn::kQ]) && is_matrix(d.in[ChooseIn::kWeights]) && is_cache(keys) &&
         is_matrix(d.out(), DType::kI32);
}
bool fits_choice(const Dispatch& d, const Machine& machine) {
  return choice_bytes(d, machine) <= static_cast<size_t>(machine.most_shared());
}
int64_t choice_rows(int64_t rows, int64_t positions) {
  constexpr int64_t kMostScores = 16 << 20;
  return std::clamp<int64_t>(kMostScores / std::max<int64_t>(positions, 1), 1, rows);
}
void record_choice(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 1024;
  const auto& attr = d.as<ChooseAttr>();
  const Operand& keys = d.in[ChooseIn::kK];
  ChooseArguments a{to.run, to.matrix(d.in[ChooseIn::kQ]), to.matrix(d.in[ChooseIn::kWeights]),
                    to.matrix(d.out()), cache_of(keys)};
  a.type = stored_as(keys.dtype);
  a.scores = reinterpret_cast<float*>(to.parts);
  a.stride = to.positions;
  a.heads = attr.heads, a.dim = keys.cols, a.used = attr.used, a.scale = attr.scale;
  a.plain = keys.cols % 16 == 0 ? 0 : 1;
  const int64_t rows = to.most(d.out().rows);
  const int64_t each =
      std::min<int64_t>(choice_rows(rows, to.positions), 16 * to.machine.processors());
  for (int64_t first = 0; first < rows; first += each) {
    a.first_row = static_cast<int32_t>(first);
    const auto count = static_cast<int>(std::min(each, rows - first));
    to.add(KernelId::choose_scores,
           {.blocks_x = std::min(most_blocks(to, keys.group), kMostBlocks),
            .blocks_y = count,
            .threads = kBlock,
            .shared = choice_bytes(d, to.machine)},
           a);
    to.add(
        KernelId::choose_positions,
        {.blocks_x = count, .threads = kThreads, .shared = 6 * (kThreads / 32) * sizeof(int32_t)},
        a);
  }
}

}  // namespace veery::gpu
