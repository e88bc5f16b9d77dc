// arguments.h: what the kernels for GPUs are given: plain structs with addresses in the device's
// memory, one a launch.
#pragma once
#include "kernels/gpu/dialect/compat.h"
#include "kernels/gpu/dialect/shared_places.h"

namespace veery::gpu {

/// Rows of f32 or i32. `rows` as Operand::rows has them.
struct Matrix {
  VEERY_DEVICE float* data;
  int64_t stride;  ///< elements
  int64_t rows;
  int32_t cols;

  VEERY_GPU VEERY_DEVICE float* row(int64_t r) const { return data + r * stride; }
  explicit VEERY_GPU_HOST operator bool() const { return data != nullptr; }
};

/// veery::Span
struct RunSpan {
  int32_t sequence, first_row, rows, position;
};

VEERY_GPU RunSpan span_at(const VEERY_DEVICE RunSpan* at) {
  return {at->sequence, at->first_row, at->rows, at->position};
}

/// What varies between runs (veery::Slots).
struct Run {
  const VEERY_DEVICE int32_t* counts;  ///< rows, outputs, spans, sequences
  const VEERY_DEVICE int32_t *tokens, *types, *positions, *output_rows, *span_of;
  const VEERY_DEVICE RunSpan* spans;
  const VEERY_DEVICE int32_t* tables;  ///< [group][sequence][2]: offset in `pages`, count
  const VEERY_DEVICE int32_t* pages;
  const VEERY_DEVICE int32_t* extended;  ///< [sequence]

  VEERY_GPU int64_t count(int64_t code) const {
    if (code >= 0) return code;
    const int64_t base = -(-code % 16), times = -code / 16;
    const int32_t own = base == -1 ? counts[0] : base == -2 ? counts[1] : counts[2];
    return times > 0 ? own * times : own;
  }
  /// The code of `times` as many rows as `code` stands for.
  static int64_t times(int64_t code, int64_t times) {
    return code >= 0 ? code * times : code - 16 * times;
  }
  VEERY_GPU int64_t token_row(int64_t code, int64_t r) const {
    return code == -2 ? output_rows[r] : r;
  }
};

/// How the panels of a weight lie: 16 rows, unit after unit. A unit is a block of 32 columns, or of
/// 256 for those with "K", of the 16 rows:
///   codes    for each 32 columns the a of multiply_tile(), lane after lane: 16 bytes, or 8 where a
///            code has 4 bits, the low halves being those of a0 and a1, the high ones of a2 and a3
///   d        f16 [8][2]: rows g and g + 8 together; FormatInfo::wide: f32; kBook2: bytes of e4m3
///            [8][2 halves][2]
///   m        the same, where there are minima
///   scales   K: [8][2][8 or 16] int8
///   minima   K, where there are minima: the same, unsigned
/// kQ4 stands for codes from which 8 is taken, kQ8MW for bytes to which 128 is added; kBook and
/// kBook2 for those of the book of MXFP4. Units of kBF16 are 16 columns: the a of multiply_bf16(),
/// lane after lane: columns 4 t to 4 t + 3 of row g, then of row g + 8; what is missing of the last
/// is 0. Other floats: [cols / 4, 8 or 16][16 rows][4, 8 or 16 columns]; behind those of kF8 f32
/// [cols / 32][16 rows].
enum Format : int32_t {
  kQ8,     ///< 8 bits a code
  kQ8M,    ///< with minima
  kQ4,     ///< 4 bits
  kQ4M,    ///< with minima
  kK4M,    ///< scales and minima for 32
  kK8M,    ///< the same with 8 bits
  kK8,     ///< scales for 16
  kK8M16,  ///< scales and minima for 16
  kBook,   ///< 4 bits of a code book
  kQ4MW,   ///< 4 bits, with minima; as MLX has them
  kQ8MW,   ///< 8 bits, with minima
  kBook2,  ///< as kBook, with scales for 16
  kBF16,   ///< tensor cores multiply floats
  kF32,
  kF16,
  kF8,  ///< e4m3 times a scale, rounded to f32
};

struct FormatInfo {
  int bits, block, sub;  ///< sub: columns a scale
  bool minima;
  int less = 0;       ///< what is taken from a code
  bool wide = false;  ///< scales, and minima of blocks of 32, are f32
};
VEERY_GPU_HOST constexpr FormatInfo format_info(Format format) {
  switch (format) {
    case kQ8: return {8, 32, 32, false};
    case kQ8M: return {8, 32, 32, true};
    case kQ4: return {4, 32, 32, false, 8};
    case kQ4M: return {4, 32, 32, true};
    case kK4M: return {4, 256, 32, true};
    case kK8M: return {8, 256, 32, true};
    case kK8: return {8, 256, 16, false, 0, true};
    case kK8M16: return {8, 256, 16, true};
    case kBook: return {4, 32, 32, false, 0, true};
    case kQ4MW: return {4, 32, 32, true, 0, true};
    case kQ8MW: return {8, 32, 32, true, -128, true};
    case kBook2: return {4, 32, 16, false};
    case kF32: return {32, 4, 0, false};
    case kF8: return {8, 16, 0, false};
    case kBF16: return {16, 16, 0, false};
    default: return {16, 8, 0, false};
  }
}
/// Whole numbers with scales.
VEERY_GPU_HOST constexpr bool is_coded(Format format) { return format < kBF16; }
/// A scale for each half of a block of 32, which are steps of a chain.
VEERY_GPU_HOST constexpr bool has_halves(Format format) { return format == kBook2; }
/// What is multiplied in chains of fma on every machine.
VEERY_GPU_HOST constexpr bool is_chained(Format format) { return format > kBF16; }
/// Columns of the pieces whose sums are added in order, for kBF16: docs/numerics.md.
VEERY_CONSTANT int kPieceColumns = 256;
/// Groups of 8 rows of a form of kBF16 that lie together (TilePlaces).
VEERY_CONSTANT int kGroupsTogether = 16;
/// Where the parts of a unit lie, in bytes.
struct UnitPlaces {
  int tile, d, m, scales, minima, bytes;
};
VEERY_GPU_HOST constexpr UnitPlaces unit_places(Format format) {
  const FormatInfo f = format_info(format);
  if (format == kBF16) return {0, 0, 0, 0, 0, 512};
  if (is_chained(format)) return {0, 0, 0, 0, 0, 256};
  const int tile = f.bits * 64;
  const int d = tile * (f.block / 32);
  const int each_d = f.wide ? 64 : 32;
  const int m = d + each_d;
  const int scales = m + (f.minima ? each_d : 0);
  const int each = f.block == 256 ? 16 * 256 / f.sub : 0;
  return {tile, d, m, scales, scales + each, scales + each * (f.minima ? 2 : 1)};
}

/// What linear_tiles() does: a block of threads has panels of 16 outputs and groups of 8 rows of x,
/// warps_m x warps_n warps share them. A slab is what the block takes at a time: 4 blocks of 32
/// columns or one of 256, or 128 columns of kBF16, of which several are on their way. One warp more
/// asks for those of kBF16.
struct TilePlan {
  int panels, groups, warps_m, warps_n;
  int stages, least;             ///< kBF16: slabs on their way, at most and at least
  int each;                      ///< units of a slab
  int weight_bytes, form_bytes;  ///< of a panel's and of a group's slab
  int stage_bytes, bytes, threads;
};

struct Weight {
  const VEERY_DEVICE uint8_t* data;
  int64_t panel;  ///< bytes
  int32_t rows, cols;
  Format format;
};

/// A row of activations as the products take it. For blocks of 32: int8 codes and their scales, and
/// of blocks that are outliers what the codes leave over (kernels/cpu/form/activations.h). For
/// blocks of 256: a scale, and a shift for each 32. kBF16: bf16, as many as weights have of 16
/// columns. kRounded: floats that were rounded to bf16. kPlanes: as kPer256, with codes times
/// shifts as two digits.
enum class FormKind : int32_t { kPer32, kPer256, kFloat, kRounded, kBF16, kPlanes };
VEERY_CONSTANT int kFormKinds = 6;
VEERY_GPU_HOST constexpr FormKind form_kind(Format format) {
  if (format == kBF16) return FormKind::kBF16;
  if (is_chained(format)) return FormKind::kFloat;
  return format_info(format).block == 32 ? FormKind::kPer32 : FormKind::kPer256;
}

VEERY_CONSTANT int kItemColumns = 512;  ///< of an item of linear_row.h at most, but for bf16
/// Where the arrays of a row lie, in bytes from its beginning. In codes the columns 4 t to 4 t + 3
/// and 16 + 4 t to 16 + 4 t + 3 of each 32 are neighbours. Arrays have room for whole items
/// (linear_row.h): of units that are not there something is loaded too, though not used.
struct FormPlaces {
  int32_t codes = 0, scale = 0, sum = 0;  ///< per 256: sum int32 of each 16, shifted
  int32_t shift = 0;                      ///< per 256: int32 [cols / 32]
  int32_t moment = 0;                     ///< per 32: f32, scale times sum and the same of residual
  int32_t residual = 0, residual_scale = 0,
          residual_sum = 0;  ///< per 32: codes, scale (0: none), sum
  int32_t outliers = 0;      ///< per 32: int32 count, then blocks in order
  int32_t bytes = 0;
};
VEERY_GPU_HOST constexpr FormPlaces form_places(FormKind kind, int32_t cols) {
  FormPlaces p;
  int32_t at = 0;
  const int32_t blocks = (cols + kItemColumns - 1) / kItemColumns * (kItemColumns / 32);
  if (kind == FormKind::kFloat || kind == FormKind::kRounded) {
    p.bytes = (cols * 4 + 63) / 64 * 64;
    return p;
  }
  if (kind == FormKind::kBF16) {
    p.bytes = (cols * 2 + 63) / 64 * 64;
    return p;
  }
  at += 32 * blocks;
  if (kind == FormKind::kPer32) {
    const int32_t words = 4 * blocks;
    p.residual = at, at += 32 * blocks;
    p.scale = at, at += words;
    p.sum = at, at += words;
    p.moment = at, at += words;
    p.residual_scale = at, at += words;
    p.residual_sum = at, at += words;
    p.outliers = at, at += 4 * (blocks / 4 + 2);
  } else {
    p.scale = at, at += (4 * (blocks / 8) + 15) / 16 * 16;
    p.shift = at, at += 4 * blocks;
    p.sum = at, at += 8 * blocks;
  }
  p.bytes = (at + 63) / 64 * 64;
  return p;
}

/// The form of many rows, for kPer32, kPer256 and kBF16: groups of 8 rows, and of a group slab
/// after slab, so that each of them is one piece of memory:
///   codes   for each 32 columns [8 rows][32], in the order that FormPlaces tells
///   kPer32  scale f32 [4 blocks][8 rows], sum int32 the same, moment f32 the same
///   kPer256 scale f32 [8 rows]; shift uint8 [2][8 rows][4 of 32 columns]; sums of 32 for minima:
///           f16 [8 rows][4][4], of parts 2 t and 2 t + 1 what 64 goes into, then what is left
///           over; sums of 16 [2][8 rows][4][4] likewise
/// Behind the slabs, kPer32: residual, residual_scale and residual_sum for each block of 32 as
/// codes, scale and sum; and of each row the number of its outliers and these.
/// kBF16: 16 groups together, slabs of 128 columns, each one piece: [16 groups][8 of 16 columns][2]
/// [8 rows][8], columns 4 t and 4 t + 1 of the 16, then 4 t + 2 and 4 t + 3. `bytes`: of a group.
/// kPlanes: 8 groups together, slabs of 256 columns. A code times 2 to the power of its shift is
/// 16 high + low, low being 0 to 15: for each 32 columns the high digits, int8 [2][8 rows][16
/// columns], then the low ones; scale and sums as kPer256.
struct TilePlaces {
  int bits = 2;                         ///< 2 to their power: blocks of 32 of a slab
  int together = 1;                     ///< groups whose slabs of the same columns are one piece
  int scale = 0, sum = 0, moment = 0;   ///< kPer32, in a slab
  int shift = 0, sums = 0, sums16 = 0;  ///< kPer256, in a slab
  int slab = 0;                         ///< bytes
  int64_t residual = 0, residual_scale = 0, residual_sum = 0;
  int64_t outliers = 0, list = 0;  ///< list: int32 a row
  int64_t bytes = 0;               ///< of a group
};
VEERY_GPU_HOST constexpr TilePlaces tile_places(FormKind kind, int64_t cols) {
  TilePlaces p;
  if (kind == FormKind::kBF16) {
    p.together = kGroupsTogether;
    p.slab = 128 * 8 * 2;
    p.bytes = (cols + 127) / 128 * p.slab;
    return p;
  }
  if (kind == FormKind::kPlanes) {
    p.together = 8, p.bits = 3;
    p.scale = 8 * 512, p.sums = p.scale + 32, p.slab = p.sums + 256;
    p.bytes = cols / 256 * p.slab;
    return p;
  }
  const int64_t blocks = cols / 32;
  p.bits = kind == FormKind::kPer32 ? 2 : 3;
  const int each = 1 << p.bits;
  p.scale = each * 256;
  if (kind == FormKind::kPer32) {
    p.sum = p.scale + 128, p.moment = p.sum + 128, p.slab = p.moment + 128;
  } else {
    p.shift = p.scale + 32, p.sums = p.shift + 64, p.sums16 = p.sums + 256;
    p.slab = p.sums16 + 512;
  }
  int64_t at = (blocks + each - 1) / each * p.slab;
  if (kind == FormKind::kPer32) {
    p.list = blocks / 4 + 2;
    p.residual = at, at += 256 * blocks;
    p.residual_scale = at, at += 32 * blocks;
    p.residual_sum = at, at += 32 * blocks;
    p.outliers = at, at += 32 * p.list;
  }
  p.bytes = (at + 127) / 128 * 128;
  return p;
}

/// What linear_row() has in shared memory: x in its form, what that is made with, and a ring for
/// each of `warps` warps, of items: what a warp takes from a panel at a time. One warp more has the
/// outliers.
struct RowPlan {
  static constexpr int kWarps = 12;
  static constexpr int kExpertWarps = 8;  ///< of experts_row(), two blocks of which a processor has
  static constexpr int kWideWarps = 8;    ///< of bf16: items twice as long, so as many bytes ahead
  static constexpr int kSlots = 8;        ///< panels (and mbarriers) that are under way together
  static constexpr int kLeastStages = 2;
  int each, item_bytes;              ///< of an item: units, bytes
  int largest, inverse, staged;      ///< RowSource
  int late, turns, mbarriers, ring;  ///< late: sums on their way; turns: Turns
  int stages;                        ///< items that are on their way to each warp
  int bytes;
  static VEERY_GPU_HOST constexpr int late_bytes(int terms) { return kSlots * kWarp * terms * 4; }
  static constexpr int kThreads = (kWarps + 1) * 32, kExpertThreads = (kExpertWarps + 1) * 32;
  static constexpr int kWideThreads = (kWideWarps + 1) * 32;
  static VEERY_GPU_HOST constexpr int warps_of(Format format) {
    return format == kBF16 ? kWideWarps : kWarps;
  }
};
/// Units of an item.
VEERY_GPU_HOST constexpr int row_units(Format format) {
  if (format == kBF16) return kPieceColumns / 16;
  constexpr int kItem = 4736;
  if (has_halves(format)) return 8;  // two steps each, which are in registers
  const int units = kItem / unit_places(format).bytes;
  return format_info(format).block == 32 ? units / 4 * 4 : units;
}
/// `room`: bytes of shared memory.
VEERY_GPU_HOST constexpr RowPlan row_plan(Format format, int terms, int cols, bool normed, int room,
                                          int warps) {
  constexpr int kMostStages = 8;
  const bool per32 = format_info(format).block == 32;
  RowPlan p{};
  p.each = row_units(format);
  p.item_bytes = p.each * unit_places(format).bytes;
  const FormPlaces places = form_places(form_kind(format), cols);
  int at = terms * places.bytes;
  p.largest = at, at += per32 ? (cols / 8 + 15) / 16 * 16 : 0;
  p.inverse = at, at += 16;
  p.late = at, at += RowPlan::late_bytes(terms);
  p.turns = at, at += TurnPlaces::kBytes;
  p.mbarriers = at, at += warps * kMostStages * 8;
  p.staged = at, at += normed ? 4 * cols : 0;
  p.ring = (at + 127) / 128 * 128;
  p.stages = (room - p.ring) / (warps * p.item_bytes);
  if (p.stages > kMostStages) p.stages = kMostStages;
  p.bytes = p.ring + warps * p.stages * p.item_bytes;
  return p;
}

/// Of bf16: 128 outputs and 128 rows, or 64 and 64. Each output has two sums in registers, so a
/// warp has 64 and 32 of them, or 32 and 32.
VEERY_GPU_HOST constexpr TilePlan bf16_tile_plan(bool small) {
  TilePlan p{};
  p.panels = small ? 4 : 8;
  p.groups = small ? 8 : 16;
  p.warps_m = 2, p.warps_n = small ? 2 : 4;
  p.stages = 3, p.least = small ? 1 : 2;
  p.each = 8;
  p.weight_bytes = p.each * unit_places(kBF16).bytes;
  p.form_bytes = tile_places(FormKind::kBF16, 128).slab;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.form_bytes;
  p.bytes = p.stages * (p.stage_bytes + 16);
  p.threads = (p.warps_m * p.warps_n + 1) * 32;
  return p;
}
/// Slabs that are on their way together, in `room` bytes.
VEERY_GPU_HOST constexpr int tile_stages(TilePlan plan, int room) {
  const int most = room / (plan.stage_bytes + 16);
  return most < plan.stages ? most : plan.stages;
}
VEERY_GPU_HOST constexpr TilePlan tile_plan(Format format, bool small) {
  if (format == kBF16) return bf16_tile_plan(small);
  const FormatInfo f = format_info(format);
  const TilePlaces places = tile_places(form_kind(format), 256);
  const bool wide = !small && f.block == 32 && !f.minima;  // one chain for each output
  TilePlan p{};
  p.panels = wide ? 8 : 4;
  p.groups = small || (f.block == 256 && f.sub == 16) ? 4 : 8;  // of the latter two sums a part
  p.warps_m = wide ? 4 : 2, p.warps_n = 2;
  p.stages = p.least = small ? 3 : 2;
  p.each = f.block == 32 ? 4 : 1;
  p.weight_bytes = p.each * unit_places(format).bytes;
  // No more than the format looks at.
  p.form_bytes = f.block == 32 ? (f.minima      ? places.slab
                                  : f.less != 0 ? places.moment
                                                : places.sum)
                 : !f.minima   ? places.sums
                 : f.sub == 32 ? places.sums16
                               : places.slab;
  p.stage_bytes = p.panels * p.weight_bytes + p.groups * p.form_bytes;
  p.bytes = p.stages * (p.stage_bytes + 8);
  // Afterwards sums (TileSums), and outliers that are still to be added.
  const int sums = 8 * p.groups * (16 * p.panels + 4) * 4 + outlier_places(8 * p.groups).bytes;
  if (f.block == 32 && sums > p.bytes) p.bytes = sums;
  p.threads = p.warps_m * p.warps_n * 32;
  return p;
}
/// Threads of all blocks that are to have room on a processor: its registers are shared out so.
VEERY_GPU_HOST constexpr int tile_threads(Format format, bool small) {
  const TilePlan plan = tile_plan(format, small);
  if (format == kBF16) return (small ? 2 : 1) * plan.threads;
  return (plan.groups == 4                                       ? 4
          : format == kQ4 || format == kBook || format == kBook2 ? 2
                                                                 : 3) *
         plan.threads;
}

struct Form {
  VEERY_DEVICE uint8_t* data;
  int64_t stride;  ///< bytes, of a row
  FormKind kind;
  int32_t cols;
  int32_t two_terms;  ///< rows 2 r and 2 r + 1 are row r: codes, and what they leave over
};

/// rms_norm of a row inside of another op.
struct Norm {
  const VEERY_DEVICE float* weight;  ///< nullptr: none
  float eps;
};

/// veery::ActivateAttr
struct Activate {
  int32_t kind;
  float positive, negative, beta, eps;
};

struct EmbedArguments {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Weight weight;
  Matrix out;
  float factor;
};

struct RmsNormArguments {
  Run run;
  Matrix x, residual, out;
  Norm norm;
  int32_t groups, staged;
};

struct LayerNormArguments {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float *weight, *bias;  ///< bias: or nullptr
  float eps;
  int32_t groups, whole;  ///< whole: the weight has an element a column, not one of a group
  int32_t staged;
};

enum class Elementwise : int32_t { kAdd, kMul, kScale, kActivate, kSoftcap };
struct ElementwiseArguments {
  Run run;
  Elementwise op;
  Matrix a, b, out;
  int32_t part;  ///< kMul: columns that an element of b is for
  float factor;
  Activate activate;
};

struct SelectRowsArguments {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE int32_t* rows;
};

struct ArgmaxArguments {
  Run run;
  Matrix x, out;  ///< out: i32
};

/// Keys or values of a layer.
struct Cache {
  VEERY_DEVICE uint8_t* data;
  int64_t page;  ///< bytes
  int32_t group, kv_heads, head_dim;
};

struct RopeArguments {
  Run run;
  Matrix x, angles, out;
  int32_t head_dim, pairs, begin, interleaved;
  float sign;
};

struct CacheWriteArguments {
  Run run;
  Matrix x;
  Cache cache;
  int32_t keys, bytes;  ///< bytes of an element: 4: f32, 2: bf16, 1: f16; or kQ8Bytes
};
VEERY_CONSTANT int kQ8Bytes = 34;  ///< of 32 elements of q8_0

struct QkvRopeArguments {
  Run run;
  Matrix qkv, angles, out;
  Cache keys, values;
  int32_t bytes, value_bytes;  ///< as in CacheWriteArguments
  int32_t heads, kv_heads, head_dim, pairs, interleaved;
  const VEERY_DEVICE float *query_norm, *key_norm;
  float eps;
  int32_t parts;  ///< blocks of threads of a row
};

struct PrepareArguments {
  Run run;
  Matrix x;
  Norm norm;
  Form form;
  VEERY_DEVICE uint64_t* best;  ///< LinearArguments::best, to be cleared; or nullptr
  int32_t staged;               ///< a row that is normalised has room in shared memory
  int32_t weights;  ///< and so have the norm's weights, which are multiples of 16 bytes apart
  int32_t parts;    ///< blocks of threads of a row
};

/// Some weights of one format side by side, or one with its gate. One product: what follows is
/// added in the order of docs/numerics.md.
struct LinearArguments {
  VEERY_STATIC int kWeights = 3;
  Run run;
  Form form;  ///< data: nullptr where linear_row() makes it of x and norm
  const float* x;
  Norm norm;
  int64_t rows;  ///< of x, as Matrix::rows
  Weight weight[kWeights];
  const VEERY_DEVICE float* bias[kWeights];
  int32_t column[kWeights];  ///< of the output
  int32_t weights, gated;
  Activate gate;
  float scale;
  Matrix residual, out;
  VEERY_DEVICE uint64_t* best;  ///< [rows]: keys of the largest, nothing is stored; or nullptr
  int32_t room;  ///< bytes of shared memory of linear_row(), and of linear_tiles() of kBF16
};

struct BestArguments {
  Run run;
  VEERY_DEVICE uint64_t* best;  ///< 0 again when it has been looked at
  Matrix out;
};

struct RouteArguments {
  Run run;
  Matrix scores, out;
  const VEERY_DEVICE float* bias;  ///< or nullptr
  int32_t used, sigmoid, normalise, groups, groups_used, group_best;
  float scale, jitter;
};

/// Some pairs of rows and experts (experts.h) that have one expert: places in Pairs::order.
struct alignas(16) PairGroup {
  int32_t expert, first, count, unused;
};
struct Pairs {
  VEERY_DEVICE int32_t* groups;  ///< their number
  VEERY_DEVICE PairGroup* group;
  VEERY_DEVICE int32_t* count;  ///< pairs of each expert
  VEERY_DEVICE int32_t* order;  ///< pairs by expert
  VEERY_DEVICE int32_t* expert;
  VEERY_DEVICE float* gate;
  int32_t most;  ///< pairs of a group
};

struct PairArguments {
  Run run;
  Matrix gates;
  Pairs pairs;
  int32_t experts, used;
};

/// Gate and up of the experts, or down.
struct ExpertArguments {
  Run run;
  Pairs pairs;
  Form form;
  Weight weight[2];  ///< of expert 0
  const VEERY_DEVICE float* bias[2];
  int64_t rows;  ///< of x, as Matrix::rows
  int32_t used, gated, gate_input;
  int32_t rows_each;  ///< pairs that share a row of the form
  float limit, alpha;
  int32_t room;             ///< LinearArguments::room
  Activate activation;      ///< of gate
  VEERY_DEVICE float* out;  ///< [pairs][rows of the weight]
};

struct AddExpertsArguments {
  Run run;
  Pairs pairs;
  const VEERY_DEVICE float* products;  ///< [pairs][columns of out]
  Matrix residual, out;
  int32_t used, gate_input;
};

struct AttendArguments {
  Run run;
  Matrix q, out;
  Cache keys, values;
  const VEERY_DEVICE float* sinks;
  VEERY_DEVICE float* parts;  ///< [row][head][block of 128][16 + value_dim]
  int32_t blocks;             ///< of a row in `parts`
  /// [row][queries that share keys], 0: how many blocks of threads have written; kHandsOver
  VEERY_DEVICE uint32_t* come;
  int32_t heads, kv_heads, group;  ///< group: heads that share keys
  int32_t key_dim, value_dim;
  float scale, softcap;
  int32_t window, chunked;
  int32_t staged;     ///< attend_blocks(): a block of positions has room in shared memory
  int32_t tile_rows;  ///< of attend_tiles(); 0: there are none
  int32_t spread;     ///< of attend_left()
};

/// Attention of a step of one sequence, and what makes its queries, key and value.
struct StepArguments {
  QkvRopeArguments rope;
  AttendArguments attend;
  /// The launch before is linear_row(), which lets this one begin when all before that have ended:
  /// what steps before have left may be looked at before that launch has ended, too.
  int32_t early;
};

}  // namespace veery::gpu
