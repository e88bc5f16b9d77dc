#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/smem/gemm_exact_smem.h"
#include "kernels/gpu/smem/gemm_skinny_smem.h"
#include "kernels/gpu/smem/gemm_simdgroup_smem.h"
#include "kernels/gpu/launches.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kTileWarps = 4;

// The kernels of a format, in the order of kernel_list.h.
enum Way { kRow, kRowTwoTerms, kFew, kFewGated, kTiles, kSmallTiles, kGroup, kGroups, kWays };
KernelId kernel_of(Format format, Way way) {
  // Of two terms bf16 knows nothing.
  if (format == kBF16)
    return static_cast<KernelId>(static_cast<int>(KernelId::linear_row_bf16) +
                                 (way == kRow ? 0 : way - 1));
  return static_cast<KernelId>(static_cast<int>(KernelId::linear_row_q8) + kWays * (format - kQ8) +
                               way);
}
KernelId tiles_maker(FormKind kind) {
  switch (kind) {
    case FormKind::kPer32: return KernelId::prepare_tiles_per32;
    case FormKind::kPer256: return KernelId::prepare_tiles_per256;
    case FormKind::kPlanes: return KernelId::prepare_tiles_planes;
    default: return KernelId::prepare_tiles_bf16;
  }
}
// Of one row and of several, without tensor cores.
KernelId coded_of(KernelId first, Format format, bool gated) {
  return static_cast<KernelId>(static_cast<int>(first) + 2 * (format - kQ8) + (gated ? 1 : 0));
}
KernelId dots_of(Format format, bool gated) {
  return coded_of(KernelId::linear_dots_q8, format, gated);
}
KernelId matrices_of(Format format, bool gated) {
  return coded_of(KernelId::linear_matrices_q8, format, gated);
}

Format format_at(const Dispatch& d, int i) { return *format_of(d.in[LinearIn::kWeight + i].dtype); }
bool is_gated(const Dispatch& d) {
  const auto& attr = d.as<LinearAttr>();
  return attr.gate != Activation::kNone && attr.weights == 2;
}

// How products of a table are made.
struct How {
  bool tiles;          // many rows in tiles, one row through rings of copies; bf16 by tensor cores
  bool exact = false;  // x and the weights as floats

  FormKind form_of(Format format) const {
    return exact ? FormKind::kFloat : gpu::form_of(format, tiles);
  }
  bool has_two_terms(const Dispatch& d) const {
    return !exact && d.as<LinearAttr>().precision == Precision::kHigh && is_coded(format_at(d, 0));
  }
};

// Whether rows have a form that is made 16 columns or more at a time.
bool is_row(FormKind kind, int64_t cols) {
  return kind == FormKind::kPer32 || kind == FormKind::kPer256 || kind == FormKind::kPlanes ||
         (kind == FormKind::kBF16 && cols % 16 == 0);
}

bool is_aligned(const Operand& o) { return reinterpret_cast<uintptr_t>(o.data) % 16 == 0; }

// Whether products take groups of rows (TilePlaces).
bool in_tiles(FormKind kind, int64_t rows, int64_t cols, bool tiles) {
  return tiles && rows > 1 && is_row(kind, cols);
}
// Of a row, or of a group.
int64_t form_stride(FormKind kind, int64_t rows, int64_t cols, bool tiles) {
  return in_tiles(kind, rows, cols, tiles) ? tile_places(kind, cols).bytes
                                           : form_places(kind, cols).bytes;
}

// Whether linear_planes() or linear_deep() may have the product.
enum class Planes { kNone, kWide, kDeep };
bool may_have_planes(const Dispatch& d, Format format, int64_t rows, How how) {
  return how.tiles && has_planes(format) && rows > 1 && !how.has_two_terms(d);
}

// Where the forms of x lie in the work of a product.
struct Work {
  size_t best, forms[kFormKinds] = {}, bytes;
};
size_t form_bytes(FormKind kind, int64_t rows, int64_t lines, int64_t cols, bool tiles) {
  const int64_t stride = form_stride(kind, rows, cols, tiles);
  if (!in_tiles(kind, rows, cols, tiles)) return static_cast<size_t>(lines * stride);
  const int together = tile_places(kind, cols).together;
  return static_cast<size_t>((lines + 8 * together - 1) / (8 * together) * together * stride);
}
Work work_of(const Dispatch& d, int64_t rows, How how) {
  Work work{0, {}, 0};
  work.bytes = aligned(static_cast<size_t>(rows) * sizeof(uint64_t));
  const int64_t lines = rows * (how.has_two_terms(d) ? 2 : 1), cols = d.in[LinearIn::kX].cols;
  std::array<bool, kFormKinds> made{};
  for (int i = 0; i < d.as<LinearAttr>().weights; ++i) {
    const Format format = format_at(d, i);
    const auto add = [&](FormKind kind) {
      const auto at = static_cast<size_t>(kind);
      if (std::exchange(made[at], true)) return;
      work.forms[at] = work.bytes;
      work.bytes += form_bytes(kind, rows, lines, cols, how.tiles);
    };
    add(may_have_planes(d, format, rows, how) ? FormKind::kPlanes : how.form_of(format));
  }
  // Those of planes are larger, and where a machine has no kernels for them the others take their
  // place.
  auto& per256 = work.forms[static_cast<size_t>(FormKind::kPer256)];
  if (!made[static_cast<size_t>(FormKind::kPer256)])
    per256 = work.forms[static_cast<size_t>(FormKind::kPlanes)];
  return work;
}

struct Product {
  const Dispatch& d;
  Recorder& to;
  int64_t rows;  // at most
  Work work;
  bool argmax;  // only the largest is wanted
  How how;
  Matrix out;                       // of all outputs
  uint64_t* best_of_row = nullptr;  // argmax of one row: 0 whenever a run begins

  Form form(FormKind kind) const {
    const int32_t cols = d.in[LinearIn::kX].cols;
    return {reinterpret_cast<uint8_t*>(d.work) + work.forms[static_cast<size_t>(kind)],
            form_stride(kind, rows, cols, how.tiles), kind, cols, terms() - 1};
  }
  // Rows of x, or their terms, as the products of quantised weights count them.
  int terms() const { return how.has_two_terms(d) ? 2 : 1; }
  int64_t lines() const { return rows * terms(); }
  uint64_t* best() const {
    if (best_of_row != nullptr) return best_of_row;
    return argmax ? reinterpret_cast<uint64_t*>(d.work + work.best) : nullptr;
  }

  // Of which kind x is for a format.
  FormKind kind_of(Format format) const {
    return planes(format) != Planes::kNone ? FormKind::kPlanes : how.form_of(format);
  }

  Norm norm() const { return {d.in[LinearIn::kNorm].row<float>(0), d.as<LinearAttr>().eps}; }

  void prepare(FormKind kind, Format format) const {
    const int32_t cols = d.in[LinearIn::kX].cols;
    if (in_tiles(kind, rows, cols, how.tiles)) return prepare_tiles(kind, format);
    PrepareArguments own{to.run, to.matrix(d.in[LinearIn::kX]), norm(), form(kind),
                         best_of_row != nullptr ? nullptr : best()};
    const bool normed = own.norm.weight != nullptr;
    const bool staged = to.machine.stages() && normed && cols <= kMostStaged;
    own.staged = staged ? 1 : 0;
    own.weights =
        staged && 2 * cols <= kMostStaged && is_aligned(d.in[LinearIn::kNorm]) && cols % 4 == 0 ? 1
                                                                                                : 0;
    const auto floats =
        static_cast<size_t>((cols / 32 + 3) / 4 * 4 + 4 + (own.staged + own.weights) * cols);
    // A block of 256 for a warp, where no norm wants the whole row.
    constexpr int kWarps = 4;
    const bool split = kind == FormKind::kPer256 && !normed;
    own.parts = split ? (cols / 256 + kWarps - 1) / kWarps : 1;
    to.add(KernelId::prepare,
           {.blocks_x = static_cast<int>(rows) * own.parts,
            .threads = split ? kWarps * 32 : 1024,
            .shared = floats * sizeof(float)},
           own);
  }

  // Whole rows: so many of a block of threads that all processors have some, that its warps have
  // them in registers, and that a processor's memory has room for two blocks.
  void prepare_tiles(FormKind kind, Format format) const {
    const int32_t cols = d.in[LinearIn::kX].cols;
    PrepareTilesArguments own{to.run, to.matrix(d.in[LinearIn::kX]), norm(), form(kind),
                              best_of_row != nullptr ? nullptr : best()};
    const bool normed = own.norm.weight != nullptr;
    const bool whole = TilesMakerPlaces::wants_rows(kind, normed);
    const int most = whole ? TilesMakerPlaces::most_warps(kind) : 2;
    const int64_t groups = (lines() + 7) / 8;
    const auto blocks = [&] { return groups * (8 >> own.bits); };
    const auto warps = [&] {  // that have what they take at a time
      const int columns = TilesMakerPlaces::columns(kind) * (8 >> own.bits);
      return (cols + columns - 1) / columns;
    };
    const auto shared = [&](bool staged) {
      const int places = 1 << own.bits;
      return tiles_maker_places(kind, cols, places, places / terms(), staged).floats * 4;
    };
    own.bits = 3;
    while (whole && 1 << own.bits > terms() &&
           (2 * blocks() < int64_t{3} * to.machine.processors() ||
            (normed && ((own.bits > 1 && warps() > most) || 2 * shared(true) > room()))))
      --own.bits;
    own.staged = normed && shared(true) <= room() ? 1 : 0;
    constexpr int kSpread = 512;  // rows from which on there are tiles for all processors
    own.alone = rows < kSpread && !in_groups(format) ? 1 : 0;
    const int each = std::clamp(warps(), 2, most);
    own.parts = whole ? 1 : (warps() + each - 1) / each;
    to.add(tiles_maker(kind),
           {.blocks_x = static_cast<int>(blocks()) * own.parts,
            .threads = each * kWarp,
            .shared = static_cast<size_t>(shared(own.staged != 0))},
           own);
  }

  // Whether linear_row() has the product, which brings x to its form by itself.
  bool in_rows(Format format) const {
    return how.tiles && rows == 1 && is_row(how.form_of(format), d.in[LinearIn::kX].cols) &&
           !(is_gated(d) && terms() == 2) && is_aligned(d.in[LinearIn::kX]) &&
           is_aligned(d.in[LinearIn::kNorm]) && plan(format).stages >= RowPlan::kLeastStages;
  }
  RowPlan plan(Format format) const {
    return row_plan(format, terms(), d.in[LinearIn::kX].cols,
                    static_cast<bool>(d.in[LinearIn::kNorm]), room(), RowPlan::warps_of(format));
  }
  int room() const { return to.machine.most_shared(); }

  // The weights [first, first + count), which have one format, or are brought to floats.
  void multiply(int first, int count) const {
    const auto& attr = d.as<LinearAttr>();
    const Format format = format_at(d, first);
    LinearArguments a{to.run, form(kind_of(format))};
    a.rows = d.in[LinearIn::kX].rows;
    a.room = room();
    if (in_rows(format)) {
      a.form.data = nullptr;
      a.x = to.matrix(d.in[LinearIn::kX]).data;
      a.norm = norm();
    }
    int64_t panels = 0, most = 0;
    int32_t column = 0;
    for (int i = 0; i < first; ++i)
      column += static_cast<int32_t>(d.in[LinearIn::kWeight + i].rows);
    for (int i = 0; i < count; ++i) {
      const Operand& w = d.in[LinearIn::kWeight + first + i];
      a.weight[i] = {reinterpret_cast<const uint8_t*>(w.data), w.stride,
                     static_cast<int32_t>(w.rows), w.cols, format_at(d, first + i)};
      a.bias[i] = d.in[LinearIn::kBias + first + i].row<float>(0);
      a.column[i] = column;
      column += a.weight[i].rows;
      const int64_t own = (w.rows + 15) / 16;
      panels += own;
      most = std::max(most, own);
    }
    a.weights = count;
    a.gated = is_gated(d) ? 1 : 0;
    a.gate = activate_of(attr.gate);
    a.scale = attr.scale;
    a.residual = to.matrix(d.in[LinearIn::kResidual]);
    a.out = out;
    a.best = best();
    launch(a, format, a.gated != 0 ? most : panels, most);
  }

  void launch(const LinearArguments& a, Format format, int64_t panels, int64_t most) const {
    if (how.exact || by_chain(format, how.tiles)) {
      launch_fma(a, format, most);
    } else if (in_rows(format)) {
      to.add(kernel_of(format, terms() == 2 ? kRowTwoTerms : kRow),
             {.blocks_x = static_cast<int>(std::min<int64_t>(panels, to.machine.processors())),
              .threads = (RowPlan::warps_of(format) + 1) * kWarp,
              .shared = static_cast<size_t>(plan(format).bytes),
              .waits_first = true},
             a);
    } else if (!in_tiles(a.form.kind, rows, a.form.cols, how.tiles)) {
      launch_rows(a, format, most, lines());
    } else if (in_groups(format)) {
      launch_groups(a, format, panels);
    } else if (planes(format) == Planes::kWide) {
      to.add(KernelId::linear_planes_k4m, planes_size<PlanePlan>(PlanePlan::kWarps, panels), a);
    } else if (planes(format) == Planes::kDeep) {
      to.add(KernelId::linear_deep_k4m, planes_size<DeepPlan>(DeepPlan::kPanels, panels), a);
    } else if (format == kBF16 && in_core_tiles(panels)) {
      to.add(KernelId::linear_core_tiles_bf16, core_size(panels), a);
    } else {
      launch_tiles(a, format, panels, lines());
    }
  }

  // Chains of fma, two panels a warp. `most`: panels of the largest weight.
  void launch_fma(const LinearArguments& a, Format format, int64_t most) const {
    const bool flushed = format == kBF16 && !how.exact;
    const int each = rows == 1 ? 1 : kFmaRows;
    to.add(rows > 1  ? flushed ? KernelId::linear_flushed_rows : KernelId::linear_fma_rows
           : flushed ? KernelId::linear_flushed_row
                     : KernelId::linear_fma_row,
           {.blocks_x = static_cast<int>((most + 1) / 2),
            .blocks_y = static_cast<int>((rows + each - 1) / each),
            .blocks_z = a.gated != 0 ? 1 : a.weights,
            .threads = kWarp,
            .shared = static_cast<size_t>(fma_bytes(rows))},
           a);
  }

  // A panel a warp, of rows whose forms lie one by one: matrices pay from the ninth on, as blocks
  // of eight have no others.
  void launch_rows(const LinearArguments& a, Format format, int64_t panels, int64_t lines) const {
    const bool gated = a.gated != 0, coded = is_coded(format);
    const bool dots = coded && lines == 1 && to.machine.has(dots_of(format, gated));
    const bool matrices = coded && lines > 8 && to.machine.has(matrices_of(format, gated));
    const int each = matrices ? MatrixPlan::kRows : 8;
    static_assert(MatrixPlan::kWarps == kTileWarps);
    to.add(dots       ? dots_of(format, gated)
           : matrices ? matrices_of(format, gated)
                      : kernel_of(format, gated ? kFewGated : kFew),
           {.blocks_x = static_cast<int>((panels + kTileWarps - 1) / kTileWarps),
            .blocks_y = static_cast<int>((lines + each - 1) / each),
            .blocks_z = gated ? 1 : a.weights,
            .threads = kTileWarps * 32,
            .shared = matrices ? size_t{MatrixPlan::kBytes} : 0},
           a);
  }

  // Up to two groups of rows.
  GroupPlan groups(Format format) const {
    return group_plan(format, lines() > 8, d.in[LinearIn::kX].cols, room());
  }
  // Whether linear_groups() has the product: a block has room for what that takes.
  bool in_groups(Format format) const {
    const GroupPlan plan = groups(format);
    return lines() <= 8 * plan.groups && plan.stages >= GroupPlan::kLeastStages;
  }
  void launch_groups(const LinearArguments& a, Format format, int64_t panels) const {
    const GroupPlan plan = groups(format);
    to.add(kernel_of(format, plan.groups > 1 ? kGroups : kGroup),
           {.blocks_x = static_cast<int>(std::min<int64_t>(panels, to.machine.processors())),
            .threads = (plan.warps + 1) * kWarp,
            .shared = static_cast<size_t>(plan.bytes)},
           a);
  }

  template <typename Plan>
  LaunchSize planes_size(int each, int64_t panels) const {
    if (is_gated(d)) each /= 2;
    return {.blocks_x = static_cast<int>((rows + 8 * Plan::kGroups - 1) / (8 * Plan::kGroups)),
            .blocks_y = static_cast<int>((panels + each - 1) / each),
            .threads = Plan::kThreads,
            .shared = Plan::kBytes};
  }
  // Which has the products of a format: wide blocks where two of three processors get one, deep
  // ones where all that there are have a processor for themselves.
  Planes planes(Format format) const {
    if (!may_have_planes(d, format, rows, how) || argmax || in_groups(format) ||
        room() < std::max(PlanePlan::kBytes, DeepPlan::kBytes) ||
        !to.machine.has(KernelId::linear_planes_k4m))
      return Planes::kNone;
    int64_t panels = 0;
    for (int i = 0; i < (is_gated(d) ? 1 : d.as<LinearAttr>().weights); ++i)
      if (format_at(d, i) == format) panels += (d.in[LinearIn::kWeight + i].rows + 15) / 16;
    const auto blocks = [](const LaunchSize& size) { return size.blocks_x * size.blocks_y; };
    const int wide = blocks(planes_size<PlanePlan>(PlanePlan::kWarps, panels));
    const int deep = blocks(planes_size<DeepPlan>(DeepPlan::kPanels, panels));
    constexpr int kLeastRows = 65;  // half of a wide block would have nothing to do
    if (rows >= kLeastRows && 3 * wide >= 2 * to.machine.processors()) return Planes::kWide;
    return deep <= to.machine.processors() ? Planes::kDeep : Planes::kNone;
  }

  // Products of bf16 by warpgroups: of so many rows that small tiles would come to the weights
  // twice, where two of three processors get a block.
  LaunchSize core_size(int64_t panels) const {
    constexpr int kBlocks = CoreTilePlan::kBlocks;
    LaunchSize size = planes_size<CoreTilePlan>(CoreTilePlan::kWarps, panels);
    size.blocks_y = (size.blocks_y + kBlocks - 1) / kBlocks * kBlocks;
    size.cluster = kBlocks;
    return size;
  }
  bool in_core_tiles(int64_t panels) const {
    constexpr int kLeastRows = 65;
    const LaunchSize size = core_size(panels);
    return rows >= kLeastRows && to.machine.has(KernelId::linear_core_tiles_bf16) &&
           room() >= CoreTilePlan::kBytes &&
           3 * size.blocks_x * size.blocks_y >= 2 * to.machine.processors();
  }

  // Tiles that are small where large ones would leave processors without any.
  void launch_tiles(const LinearArguments& a, Format format, int64_t panels, int64_t lines) const {
    const auto size_of = [&](bool small) {
      const TilePlan plan = tile_plan(format, small);
      const int64_t each = a.gated != 0 ? plan.panels / 2 : plan.panels;
      return LaunchSize{
          .blocks_x = static_cast<int>((lines + 8 * plan.groups - 1) / (8 * plan.groups)),
          .blocks_y = static_cast<int>((panels + each - 1) / each),
          .threads = plan.threads,
          .shared = static_cast<size_t>(
              format == kBF16 ? tile_stages(plan, room()) * (plan.stage_bytes + 16) : plan.bytes)};
    };
    const LaunchSize large = size_of(false);
    const TilePlan plan = tile_plan(format, false);
    // Those of 64 outputs: as many of them as small ones would be half of the last round.
    const int each = format == kBF16 ? 1 : plan.panels == 4 ? 4 : 2;
    const bool small = lines <= 8 * tile_plan(format, true).groups ||
                       large.blocks_x * large.blocks_y < each * to.machine.processors() ||
                       (format == kBF16 && tile_stages(plan, room()) < plan.least);
    to.add(kernel_of(format, small ? kSmallTiles : kTiles), small ? size_of(true) : large, a);
  }
};

void record(const Product& product) {
  const Dispatch& d = product.d;
  const int weights = d.as<LinearAttr>().weights;
  std::array<bool, kFormKinds> made{};
  for (int first = 0; first < weights;) {
    const Format format = format_at(d, first);
    const FormKind kind = product.kind_of(format);
    if (!product.in_rows(format) && !std::exchange(made[static_cast<size_t>(kind)], true))
      product.prepare(kind, format);
    int count = 1;
    while (first + count < weights && (product.how.exact || format_at(d, first + count) == format))
      ++count;
    product.multiply(first, count);
    first += count;
  }
}
int64_t most_rows(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[LinearIn::kX].rows;
  return rows < 0 ? run.rows : rows;
}

// Whatever the weights are.
bool takes_products(const Dispatch& d) {
  const auto& attr = d.as<LinearAttr>();
  if (!is_matrix(d.in[LinearIn::kX]) || !absent_or_matrix(d.in[LinearIn::kNorm]) ||
      !absent_or_matrix(d.in[LinearIn::kResidual]) || d.out().layout != Layout::kRowMajor)
    return false;
  for (int i = 0; i < attr.weights; ++i) {
    const Operand& w = d.in[LinearIn::kWeight + i];
    if (w.layout != Layout::kPanels || w.stack != 1 || !format_of(w.dtype) ||
        !absent_or_matrix(d.in[LinearIn::kBias + i]))
      return false;
  }
  return true;
}
// All outputs, then the largest of each row: they lie behind the forms.
size_t largest_work(const Dispatch& d, const RunExtent& run, How how) {
  const int64_t rows = most_rows(d, run);
  return aligned(work_of(d, rows, how).bytes) +
         static_cast<size_t>(rows * d.in[LinearIn::kWeight].rows) * sizeof(float);
}
void record_largest(const Dispatch& d, Recorder& to, How how) {
  const int64_t rows = to.most(d.in[LinearIn::kX].rows);
  const Work work = work_of(d, rows, how);
  const auto outputs = static_cast<int32_t>(d.in[LinearIn::kWeight].rows);
  const Matrix all{reinterpret_cast<float*>(d.work + aligned(work.bytes)), outputs,
                   d.in[LinearIn::kX].rows, outputs};
  record({d, to, rows, work, false, how, all});
  to.add(KernelId::argmax, {.blocks_x = static_cast<int>(rows), .threads = 256, .shared = 64},
         ArgmaxArguments{to.run, all, to.matrix(d.out())});
}
void record_products(const Dispatch& d, Recorder& to, How how) {
  const int64_t rows = to.most(d.in[LinearIn::kX].rows);
  record({d, to, rows, work_of(d, rows, how), false, how, to.matrix(d.out())});
}

constexpr How kTiled{.tiles = true}, kPlain{.tiles = false};
constexpr How kExact{.tiles = false, .exact = true};

}  // namespace

bool has_core_products(std::span<const Step> steps, const Machine& machine) {
  return has_cores(machine) && std::ranges::any_of(steps, [](const Step& step) {
           const Dispatch& d = step.dispatch;
           if (step.op == op::kLinear && d.as<LinearAttr>().precision == Precision::kUsual)
             return format_of(d.in[LinearIn::kWeight].dtype) == kBF16;
           return step.op == op::kMoe && format_of(d.in[MoeIn::kUp].dtype) == kBF16;
         });
}
bool takes_linear(const Dispatch& d, const KernelChoice&) {
  if (!takes_products(d)) return false;
  const auto& attr = d.as<LinearAttr>();
  for (int i = 1; i < attr.weights; ++i)
    if (is_coded(format_at(d, i)) != is_coded(format_at(d, 0)) &&
        attr.precision == Precision::kHigh)
      return false;
  return !is_gated(d) || format_at(d, 0) == format_at(d, 1);
}
size_t linear_work(const Dispatch& d, const RunExtent& run) {
  return work_of(d, most_rows(d, run), kTiled).bytes;
}
void record_linear(const Dispatch& d, Recorder& to) { record_products(d, to, kTiled); }
void record_linear_argmax(const Dispatch& d, Recorder& to) {
  const int64_t rows = to.most(d.in[LinearIn::kX].rows);
  Product product{d, to, rows, work_of(d, rows, kTiled), true, kTiled, {}};
  if (rows == 1) {
    const Memory& best = to.memory.emplace_back(to.machine.allocate(sizeof(uint64_t)));
    product.best_of_row = reinterpret_cast<uint64_t*>(best.data());
  }
  record(product);
  to.add(KernelId::best, {.blocks_x = static_cast<int>((rows + 63) / 64), .threads = 64},
         BestArguments{to.run, product.best(), to.matrix(d.out())});
}

size_t few_work(const Dispatch& d, const RunExtent& run) {
  return work_of(d, most_rows(d, run), kPlain).bytes;
}
void record_few(const Dispatch& d, Recorder& to) { record_products(d, to, kPlain); }
bool takes_few_argmax(const Dispatch& d, const KernelChoice& choice) {
  return takes_linear(d, choice) && d.as<LinearAttr>().weights == 1;
}
size_t few_argmax_work(const Dispatch& d, const RunExtent& run) {
  return largest_work(d, run, kPlain);
}
void record_few_argmax(const Dispatch& d, Recorder& to) { record_largest(d, to, kPlain); }

bool takes_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && takes_products(d);
}
size_t exact_work(const Dispatch& d, const RunExtent& run) {
  return work_of(d, most_rows(d, run), kExact).bytes;
}
void record_exact(const Dispatch& d, Recorder& to) { record_products(d, to, kExact); }
bool takes_exact_argmax(const Dispatch& d, const KernelChoice& choice) {
  return takes_exact(d, choice) && d.as<LinearAttr>().weights == 1;
}
size_t exact_argmax_work(const Dispatch& d, const RunExtent& run) {
  return largest_work(d, run, kExact);
}
void record_exact_argmax(const Dispatch& d, Recorder& to) { record_largest(d, to, kExact); }

}  // namespace veery::gpu
