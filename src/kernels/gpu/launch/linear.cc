// Launches of products: quantisation of the activations, then one launch for each run of weights of
// one format.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/packing/pack.h"
#include "kernels/gpu/smem/gemm_skinny_smem.h"
#include "kernels/gpu/smem/gemm_wgmma_smem.h"

namespace veery::gpu {
namespace {

constexpr int kDirectWarps = 4;  // of gemm_direct() and its variants

static_assert(for_quantized_formats([](WeightFormat f) { return key::gemv(f, false); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemv(f, true); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_direct(f, false); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_direct(f, true); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_skinny(f, false); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_skinny(f, true); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_mma(f, false); }) &&
              for_quantized_formats([](WeightFormat f) { return key::gemm_mma(f, true); }));
static_assert(find_kernel(key::gemv(kBF16, false)) && find_kernel(key::gemm_direct(kBF16, true)) &&
              find_kernel(key::gemm_skinny(kBF16, true)) &&
              find_kernel(key::gemm_mma(kBF16, true)) && find_kernel(key::gemm_wgmma_bf16()));

WeightFormat format_at(const Dispatch& d, int i) {
  return *weight_format(d.in[FusedLinearIn::kWeight + i].dtype);
}
bool is_gated(const Dispatch& d) {
  const auto& attr = d.as<FusedLinearAttr>();
  return attr.gate != Activation::kNone && attr.weights == 2;
}
bool is_aligned(const Operand& o) { return reinterpret_cast<uintptr_t>(o.data) % 16 == 0; }

// How the products of a table are computed.
enum class GemmMode : uint8_t {
  kTensorCores,  // mma and asynchronous copies
  kDirect,       // without them, as on Metal
  kExact,        // --exact: f32 activations, weights of any type as f32
};

ActivationKind kind_for(WeightFormat format, GemmMode mode) {
  if (mode == GemmMode::kExact) return ActivationKind::kF32;
  return activation_kind_for(format, mode == GemmMode::kTensorCores);
}
bool uses_residual_rows(const Dispatch& d, GemmMode mode) {
  return mode != GemmMode::kExact && d.as<FusedLinearAttr>().precision == Precision::kHigh &&
         is_quantized(format_at(d, 0));
}

// Whether the kind is quantised (or rounded) 16 columns or more at a time.
bool is_blocked(ActivationKind kind, int64_t cols) {
  return kind == ActivationKind::kInt8Block32 || kind == ActivationKind::kInt8Block256 ||
         kind == ActivationKind::kInt4Digits || (kind == ActivationKind::kBF16 && cols % 16 == 0);
}
// Whether the product reads groups of 8 rows (ActivationGroupLayout).
bool in_groups(ActivationKind kind, int64_t rows, int64_t cols, GemmMode mode) {
  return mode == GemmMode::kTensorCores && rows > 1 && is_blocked(kind, cols);
}
// Bytes of a row, or of a group.
int64_t act_stride(ActivationKind kind, int64_t rows, int64_t cols, GemmMode mode) {
  return in_groups(kind, rows, cols, mode) ? activation_group_layout(kind, cols).bytes
                                           : activation_layout(kind, cols).bytes;
}
// `act_rows`: rows, or twice as many with residual quantisation.
size_t act_bytes(ActivationKind kind, int64_t rows, int64_t act_rows, int64_t cols, GemmMode mode) {
  const int64_t stride = act_stride(kind, rows, cols, mode);
  if (!in_groups(kind, rows, cols, mode)) return static_cast<size_t>(act_rows * stride);
  const int together = activation_group_layout(kind, cols).groups_together;
  return static_cast<size_t>((act_rows + 8 * together - 1) / (8 * together) * together * stride);
}

// Whether the int8 kernels by wgmma may compute the product.
bool may_use_wgmma_int8(const Dispatch& d, WeightFormat format, int64_t rows, GemmMode mode) {
  return mode == GemmMode::kTensorCores && has_wgmma_int8(format) && rows > 1 &&
         !uses_residual_rows(d, mode);
}

// The workspace of a product: keys of argmax, then the activations of each kind.
struct Workspace {
  size_t act[kActivationKinds] = {};
  size_t bytes = 0;
};
Workspace workspace_of(const Dispatch& d, int64_t rows, GemmMode mode) {
  Workspace work;
  work.bytes = aligned(static_cast<size_t>(rows) * sizeof(uint64_t));
  const int64_t cols = d.in[FusedLinearIn::kX].cols;
  const int64_t act_rows = rows * (uses_residual_rows(d, mode) ? 2 : 1);
  std::array<bool, kActivationKinds> made{};
  for (int i = 0; i < d.as<FusedLinearAttr>().weights; ++i) {
    const WeightFormat format = format_at(d, i);
    const ActivationKind kind = may_use_wgmma_int8(d, format, rows, mode)
                                    ? ActivationKind::kInt4Digits
                                    : kind_for(format, mode);
    const auto at = static_cast<size_t>(kind);
    if (std::exchange(made[at], true)) continue;
    work.act[at] = work.bytes;
    work.bytes += act_bytes(kind, rows, act_rows, cols, mode);
  }
  // A machine without wgmma uses int8 codes in the place of int4 digits, which are larger.
  const auto int8 = static_cast<size_t>(ActivationKind::kInt8Block256);
  if (!made[int8]) work.act[int8] = work.act[static_cast<size_t>(ActivationKind::kInt4Digits)];
  return work;
}

// One op: products of all its weights.
struct Gemm {
  const Dispatch& d;
  Recorder& to;
  int64_t rows;  // at most
  Workspace work;
  bool argmax;  // only the index of the largest output is requested
  GemmMode mode;
  Matrix out;                          // all outputs
  uint64_t* row_argmax_key = nullptr;  // argmax of one row: 0 at the start of each run

  int32_t cols() const { return d.in[FusedLinearIn::kX].cols; }
  int terms() const { return uses_residual_rows(d, mode) ? 2 : 1; }
  int64_t act_rows() const { return rows * terms(); }
  int max_shared() const { return to.machine.max_shared(); }
  Norm norm() const {
    return {d.in[FusedLinearIn::kNorm].row<float>(0), d.as<FusedLinearAttr>().eps};
  }
  uint64_t* argmax_keys() const {
    if (row_argmax_key != nullptr) return row_argmax_key;
    return argmax ? reinterpret_cast<uint64_t*>(d.work) : nullptr;
  }
  // Those that quantisation has to clear.
  uint64_t* cleared_keys() const { return row_argmax_key != nullptr ? nullptr : argmax_keys(); }

  Activations activations(ActivationKind kind) const {
    return {reinterpret_cast<uint8_t*>(d.work) + work.act[static_cast<size_t>(kind)],
            act_stride(kind, rows, cols(), mode), kind, cols(), terms() - 1};
  }
  ActivationKind kind_of(WeightFormat format) const {
    return wgmma_int8(format) ? ActivationKind::kInt4Digits : kind_for(format, mode);
  }

  void quantize(ActivationKind kind, WeightFormat format) const {
    if (in_groups(kind, rows, cols(), mode))
      quantize_groups(kind, format);
    else
      quantize_rows(kind);
  }
  void quantize_rows(ActivationKind kind) const {
    QuantizeXParams a{to.run, to.matrix(d.in[FusedLinearIn::kX]), norm(), activations(kind),
                      cleared_keys()};
    const bool normed = a.norm.weight != nullptr;
    const bool staged = to.machine.stages_rows() && normed && cols() <= kMaxStagedColumns;
    a.staged = staged ? 1 : 0;
    a.staged_weights = staged && 2 * cols() <= kMaxStagedColumns &&
                               is_aligned(d.in[FusedLinearIn::kNorm]) && cols() % 4 == 0
                           ? 1
                           : 0;
    const auto floats =
        static_cast<size_t>((cols() / 32 + 3) / 4 * 4 + 4 + (a.staged + a.staged_weights) * cols());
    // One warp per block of 256, unless a norm needs the whole row.
    constexpr int kWarps = 4;
    const bool split = kind == ActivationKind::kInt8Block256 && !normed;
    a.blocks_per_row = split ? (cols() / 256 + kWarps - 1) / kWarps : 1;
    to.add(KernelId::quantize_x,
           launch_size(rows * a.blocks_per_row, split ? kWarps * 32 : 1024, floats * sizeof(float)),
           a);
  }
  // If thread blocks need whole rows, the number of rows per block is halved until each SM has 1.5
  // thread blocks, the rows fit into the registers of a block's warps, and two blocks fit into
  // an SM's shared memory.
  void quantize_groups(ActivationKind kind, WeightFormat format) const {
    QuantizeXGroupsParams a{to.run, to.matrix(d.in[FusedLinearIn::kX]), norm(), activations(kind),
                            cleared_keys()};
    const bool normed = a.norm.weight != nullptr;
    const bool whole = QuantizeXGroupsSmem::needs_rows(kind, normed);
    const int max_warps = whole ? QuantizeXGroupsSmem::max_warps(kind) : 2;
    const int64_t groups = (act_rows() + 7) / 8;
    const auto blocks = [&] { return groups * (8 >> a.slot_bits); };
    const auto warps = [&] {  // for all columns at once
      const int columns = QuantizeXGroupsSmem::columns(kind) * (8 >> a.slot_bits);
      return (cols() + columns - 1) / columns;
    };
    const auto shared = [&](bool staged) {
      const int shape = 1 << a.slot_bits;
      return quantize_x_groups_smem(kind, cols(), shape, shape / terms(), staged).floats * 4;
    };
    a.slot_bits = 3;
    while (
        whole && 1 << a.slot_bits > terms() &&
        (2 * blocks() < int64_t{3} * to.machine.sm_count() ||
         (normed && ((a.slot_bits > 1 && warps() > max_warps) || 2 * shared(true) > max_shared()))))
      --a.slot_bits;
    a.staged = normed && shared(true) <= max_shared() ? 1 : 0;
    constexpr int kFullRows = 512;  // from here on each SM has a tile of the product
    a.delay_dependents = rows < kFullRows && !skinny(format) ? 1 : 0;
    const int each = std::clamp(warps(), 2, max_warps);
    a.blocks_per_row = whole ? 1 : (warps() + each - 1) / each;
    to.add(key::quantize_x_groups(kind),
           launch_size(blocks() * a.blocks_per_row, each * kWarp,
                       static_cast<size_t>(shared(a.staged != 0))),
           a);
  }

  // The weights [first, first + count), which have one format, or are multiplied as f32.
  void multiply(int first, int count) const {
    const auto& attr = d.as<FusedLinearAttr>();
    const WeightFormat format = format_at(d, first);
    GemmParams a{to.run, activations(kind_of(format))};
    a.rows = d.in[FusedLinearIn::kX].rows;
    a.max_smem = max_shared();
    if (is_gemv(format)) {
      a.act.data = nullptr;
      a.x = to.matrix(d.in[FusedLinearIn::kX]).data;
      a.norm = norm();
    }
    int64_t panels = 0, max_panels = 0;
    int32_t column = 0;
    for (int i = 0; i < first; ++i)
      column += static_cast<int32_t>(d.in[FusedLinearIn::kWeight + i].rows);
    for (int i = 0; i < count; ++i) {
      const Operand& w = d.in[FusedLinearIn::kWeight + first + i];
      a.weight[i] = {reinterpret_cast<const uint8_t*>(w.data), w.stride,
                     static_cast<int32_t>(w.rows), w.cols, format_at(d, first + i)};
      a.bias[i] = d.in[FusedLinearIn::kBias + first + i].row<float>(0);
      a.column[i] = column;
      column += a.weight[i].rows;
      const int64_t own = (w.rows + 15) / 16;
      panels += own;
      max_panels = std::max(max_panels, own);
    }
    a.weights = count;
    a.gated = is_gated(d) ? 1 : 0;
    a.gate = activation_params(attr.gate);
    a.scale = attr.scale;
    a.residual = to.matrix(d.in[FusedLinearIn::kResidual]);
    a.out = out;
    a.argmax_keys = argmax_keys();
    launch(a, format, a.gated != 0 ? max_panels : panels, max_panels);
  }
  // `panels`: of all weights; `max_panels`: of the largest one.
  void launch(const GemmParams& a, WeightFormat format, int64_t panels, int64_t max_panels) const {
    if (mode == GemmMode::kExact || uses_fma(format, mode == GemmMode::kTensorCores))
      launch_exact(a, format, max_panels);
    else if (is_gemv(format))
      launch_gemv(a, format, panels);
    else if (!in_groups(a.act.kind, rows, cols(), mode))
      launch_direct(a, format, max_panels);
    else if (skinny(format))
      launch_skinny(a, format, panels);
    else if (const auto wgmma = wgmma_int8(format))
      to.add(*wgmma, wgmma_int8_size(*wgmma, panels), a);
    else if (format == kBF16 && uses_wgmma_bf16(panels))
      to.add(key::gemm_wgmma_bf16(), wgmma_bf16_size(panels), a);
    else
      launch_mma(a, format, panels);
  }

  // fma chains, two panels per warp.
  void launch_exact(const GemmParams& a, WeightFormat format, int64_t max_panels) const {
    const int each = rows == 1 ? 1 : kGemmExactRows;
    to.add(key::gemm_exact(rows == 1, format == kBF16 && mode != GemmMode::kExact),
           {.blocks_x = static_cast<int>((max_panels + 1) / 2),
            .blocks_y = static_cast<int>((rows + each - 1) / each),
            .blocks_z = a.gated != 0 ? 1 : a.weights,
            .threads = kWarp,
            .shared = static_cast<size_t>(gemm_exact_smem_bytes(rows))},
           a);
  }

  // gemv(): one row, which the kernel quantises itself.
  GemvSmem gemv_plan(WeightFormat format) const {
    return gemv_smem(format, terms(), cols(), static_cast<bool>(d.in[FusedLinearIn::kNorm]),
                     max_shared(), GemvSmem::warps_for(format));
  }
  bool is_gemv(WeightFormat format) const {
    return mode == GemmMode::kTensorCores && rows == 1 &&
           is_blocked(kind_for(format, mode), cols()) && !(is_gated(d) && terms() == 2) &&
           is_aligned(d.in[FusedLinearIn::kX]) && is_aligned(d.in[FusedLinearIn::kNorm]) &&
           gemv_plan(format).stages >= GemvSmem::kMinStages;
  }
  void launch_gemv(const GemmParams& a, WeightFormat format, int64_t panels) const {
    LaunchSize size = launch_size(std::min<int64_t>(panels, to.machine.sm_count()),
                                  (GemvSmem::warps_for(format) + 1) * kWarp,
                                  static_cast<size_t>(gemv_plan(format).bytes));
    size.waits_before_trigger = true;
    to.add(key::gemv(format, terms() == 2), size, a);
  }

  // One panel per warp; rows are quantised one by one. gemm_simdgroup() is faster from nine rows
  // on: up to eight rows are one thread block, so that the direct kernels read the weights only
  // once.
  void launch_direct(const GemmParams& a, WeightFormat format, int64_t max_panels) const {
    const bool gated = a.gated != 0, quantized = is_quantized(format);
    const KernelKey gemv = key::gemv_simdgroup(format, gated);
    const KernelKey gemm = key::gemm_simdgroup(format, gated);
    const bool use_gemv = quantized && act_rows() == 1 && to.machine.has(gemv);
    const bool use_gemm = quantized && act_rows() > 8 && to.machine.has(gemm);
    const int each = use_gemm ? GemmSimdgroupSmem::kRows : 8;
    static_assert(GemmSimdgroupSmem::kWarps == kDirectWarps);
    to.add(use_gemv   ? gemv
           : use_gemm ? gemm
                      : key::gemm_direct(format, gated),
           {.blocks_x = static_cast<int>((max_panels + kDirectWarps - 1) / kDirectWarps),
            .blocks_y = static_cast<int>((act_rows() + each - 1) / each),
            .blocks_z = gated ? 1 : a.weights,
            .threads = kDirectWarps * 32,
            .shared = use_gemm ? size_t{GemmSimdgroupSmem::kBytes} : 0},
           a);
  }

  // gemm_skinny(): up to two groups of rows, if a thread block has room for its rings.
  GemmSkinnySmem skinny_plan(WeightFormat format) const {
    return gemm_skinny_smem(format, act_rows() > 8, cols(), max_shared());
  }
  bool skinny(WeightFormat format) const {
    const GemmSkinnySmem plan = skinny_plan(format);
    return act_rows() <= 8 * plan.groups && plan.stages >= GemmSkinnySmem::kMinStages;
  }
  void launch_skinny(const GemmParams& a, WeightFormat format, int64_t panels) const {
    const GemmSkinnySmem plan = skinny_plan(format);
    to.add(key::gemm_skinny(format, plan.groups > 1),
           launch_size(std::min<int64_t>(panels, to.machine.sm_count()), (plan.warps + 1) * kWarp,
                       static_cast<size_t>(plan.bytes)),
           a);
  }

  template <typename Smem>
  LaunchSize wgmma_size(int panels_per_block, int64_t panels) const {
    if (is_gated(d)) panels_per_block /= 2;
    return {.blocks_x = static_cast<int>((rows + 8 * Smem::kGroups - 1) / (8 * Smem::kGroups)),
            .blocks_y = static_cast<int>((panels + panels_per_block - 1) / panels_per_block),
            .threads = Smem::kThreads,
            .shared = Smem::kBytes};
  }
  LaunchSize wgmma_int8_size(const KernelKey& kernel, int64_t panels) const {
    return kernel == key::gemm_wgmma_splitk()
               ? wgmma_size<GemmWgmmaSplitkSmem>(GemmWgmmaSplitkSmem::kPanels, panels)
               : wgmma_size<GemmWgmmaInt8Smem>(GemmWgmmaInt8Smem::kWarps, panels);
  }
  // The int8 kernel by wgmma for a format, if there is one: large tiles if two of three SMs get
  // one, split-K tiles if each of them gets an SM of its own.
  std::optional<KernelKey> wgmma_int8(WeightFormat format) const {
    const KernelKey large = key::gemm_wgmma_int8(), split_k = key::gemm_wgmma_splitk();
    if (!may_use_wgmma_int8(d, format, rows, mode) || argmax || skinny(format) ||
        max_shared() < std::max(GemmWgmmaInt8Smem::kBytes, GemmWgmmaSplitkSmem::kBytes) ||
        !to.machine.has(large))
      return {};
    int64_t panels = 0;
    for (int i = 0; i < (is_gated(d) ? 1 : d.as<FusedLinearAttr>().weights); ++i)
      if (format_at(d, i) == format) panels += (d.in[FusedLinearIn::kWeight + i].rows + 15) / 16;
    const auto blocks = [&](const KernelKey& kernel) {
      const LaunchSize size = wgmma_int8_size(kernel, panels);
      return size.blocks_x * size.blocks_y;
    };
    constexpr int kMinRows = 65;  // with fewer, half of a large tile would be empty
    if (rows >= kMinRows && 3 * blocks(large) >= 2 * to.machine.sm_count()) return large;
    if (blocks(split_k) <= to.machine.sm_count()) return split_k;
    return {};
  }

  // bf16 by wgmma, if two of three SMs get a thread block, and if small tiles would read the
  // weights twice (kMinRows).
  LaunchSize wgmma_bf16_size(int64_t panels) const {
    constexpr int kBlocks = GemmWgmmaBf16Smem::kBlocks;
    LaunchSize size = wgmma_size<GemmWgmmaBf16Smem>(GemmWgmmaBf16Smem::kWarps, panels);
    size.blocks_y = (size.blocks_y + kBlocks - 1) / kBlocks * kBlocks;
    size.cluster = kBlocks;
    return size;
  }
  bool uses_wgmma_bf16(int64_t panels) const {
    constexpr int kMinRows = 65;
    const LaunchSize size = wgmma_bf16_size(panels);
    return rows >= kMinRows && to.machine.has(key::gemm_wgmma_bf16()) &&
           max_shared() >= GemmWgmmaBf16Smem::kBytes &&
           3 * size.blocks_x * size.blocks_y >= 2 * to.machine.sm_count();
  }

  // gemm_mma(): uses small tiles if there are too few large ones for all SMs.
  void launch_mma(const GemmParams& a, WeightFormat format, int64_t panels) const {
    const auto size_of = [&](bool small) {
      const GemmMmaSmem plan = gemm_mma_smem(format, small);
      const int64_t each = a.gated != 0 ? plan.panels / 2 : plan.panels;
      return LaunchSize{
          .blocks_x = static_cast<int>((act_rows() + 8 * plan.groups - 1) / (8 * plan.groups)),
          .blocks_y = static_cast<int>((panels + each - 1) / each),
          .threads = plan.threads,
          .shared = static_cast<size_t>(format == kBF16 ? gemm_mma_stages(plan, max_shared()) *
                                                              (plan.stage_bytes + 16)
                                                        : plan.bytes)};
    };
    const LaunchSize large = size_of(false);
    const GemmMmaSmem plan = gemm_mma_smem(format, false);
    // Large tiles are used if there are at least this many per SM. Tiles of 64 outputs need more,
    // because otherwise a partly filled last wave would cost too much.
    const int blocks_per_sm = format == kBF16 ? 1 : plan.panels == 4 ? 4 : 2;
    const bool small = act_rows() <= 8 * gemm_mma_smem(format, true).groups ||
                       large.blocks_x * large.blocks_y < blocks_per_sm * to.machine.sm_count() ||
                       (format == kBF16 && gemm_mma_stages(plan, max_shared()) < plan.min_stages);
    to.add(key::gemm_mma(format, small), small ? size_of(true) : large, a);
  }
};

void record(const Gemm& gemm) {
  const Dispatch& d = gemm.d;
  const int weights = d.as<FusedLinearAttr>().weights;
  std::array<bool, kActivationKinds> made{};
  for (int first = 0; first < weights;) {
    const WeightFormat format = format_at(d, first);
    const ActivationKind kind = gemm.kind_of(format);
    if (!gemm.is_gemv(format) && !std::exchange(made[static_cast<size_t>(kind)], true))
      gemm.quantize(kind, format);
    int count = 1;
    while (first + count < weights &&
           (gemm.mode == GemmMode::kExact || format_at(d, first + count) == format))
      ++count;
    gemm.multiply(first, count);
    first += count;
  }
}
int64_t max_rows(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[FusedLinearIn::kX].rows;
  return rows < 0 ? run.rows : rows;
}

bool accepts_products(const Dispatch& d) {
  const auto& attr = d.as<FusedLinearAttr>();
  if (!is_matrix(d.in[FusedLinearIn::kX]) || !absent_or_matrix(d.in[FusedLinearIn::kNorm]) ||
      !absent_or_matrix(d.in[FusedLinearIn::kResidual]) || d.out().layout != Layout::kRowMajor)
    return false;
  for (int i = 0; i < attr.weights; ++i) {
    const Operand& w = d.in[FusedLinearIn::kWeight + i];
    if (w.layout != Layout::kPanels || w.stack != 1 || !weight_format(w.dtype) ||
        !absent_or_matrix(d.in[FusedLinearIn::kBias + i]))
      return false;
  }
  return true;
}
bool accepts_one_weight(const Dispatch& d, const KernelChoice& choice) {
  return accepts_linear(d, choice) && d.as<FusedLinearAttr>().weights == 1;
}
bool accepts_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && accepts_products(d);
}
bool accepts_exact_argmax(const Dispatch& d, const KernelChoice& choice) {
  return accepts_exact(d, choice) && d.as<FusedLinearAttr>().weights == 1;
}

template <GemmMode kMode>
size_t linear_workspace(const Dispatch& d, const RunExtent& run) {
  return workspace_of(d, max_rows(d, run), kMode).bytes;
}
template <GemmMode kMode>
void record_linear(const Dispatch& d, Recorder& to) {
  const int64_t rows = to.max_rows(d.in[FusedLinearIn::kX].rows);
  record({d, to, rows, workspace_of(d, rows, kMode), false, kMode, to.matrix(d.out())});
}
// Argmax of each row: the product kernels find the largest order_key() of the outputs, which
// argmax_finish() converts to an index.
void record_argmax_keys(const Dispatch& d, Recorder& to) {
  constexpr GemmMode kMode = GemmMode::kTensorCores;
  const int64_t rows = to.max_rows(d.in[FusedLinearIn::kX].rows);
  Gemm gemm{d, to, rows, workspace_of(d, rows, kMode), true, kMode, {}};
  if (rows == 1) {
    const Memory& key = to.memory.emplace_back(to.machine.allocate(sizeof(uint64_t)));
    gemm.row_argmax_key = reinterpret_cast<uint64_t*>(key.data());
  }
  record(gemm);
  to.add(KernelId::argmax_finish, launch_size((rows + 63) / 64, 64),
         ArgmaxFinishParams{to.run, gemm.argmax_keys(), to.matrix(d.out())});
}
// Argmax for kernels without keys: all outputs are written to the workspace, after the activations.
template <GemmMode kMode>
size_t argmax_workspace(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = max_rows(d, run);
  return aligned(workspace_of(d, rows, kMode).bytes) +
         static_cast<size_t>(rows * d.in[FusedLinearIn::kWeight].rows) * sizeof(float);
}
template <GemmMode kMode>
void record_argmax(const Dispatch& d, Recorder& to) {
  const int64_t rows = to.max_rows(d.in[FusedLinearIn::kX].rows);
  const Workspace work = workspace_of(d, rows, kMode);
  const auto outputs = static_cast<int32_t>(d.in[FusedLinearIn::kWeight].rows);
  const Matrix all{reinterpret_cast<float*>(d.work + aligned(work.bytes)), outputs,
                   d.in[FusedLinearIn::kX].rows, outputs};
  record({d, to, rows, work, false, kMode, all});
  to.add(KernelId::argmax, launch_size(rows, 256, 64),
         ArgmaxParams{to.run, all, to.matrix(d.out())});
}

constexpr GemmMode kTensorCores = GemmMode::kTensorCores, kDirect = GemmMode::kDirect,
                   kExact = GemmMode::kExact;
const LaunchRow kRows[] = {
    {op::kFusedLinear, accepts_exact, "linear_exact", linear_workspace<kExact>,
     record_linear<kExact>, KernelId::gemv_exact},
    {op::kLinearArgmax, accepts_exact_argmax, "argmax_exact", argmax_workspace<kExact>,
     record_argmax<kExact>, KernelId::gemv_exact},
    {op::kFusedLinear, accepts_linear, "linear", linear_workspace<kTensorCores>,
     record_linear<kTensorCores>, KernelId::gemm_mma_q8},
    {op::kLinearArgmax, accepts_linear, "linear_argmax", linear_workspace<kTensorCores>,
     record_argmax_keys, KernelId::argmax_finish},
    {op::kFusedLinear, accepts_linear, "linear_direct", linear_workspace<kDirect>,
     record_linear<kDirect>, KernelId::gemm_direct_q8},
    {op::kLinearArgmax, accepts_one_weight, "argmax_direct", argmax_workspace<kDirect>,
     record_argmax<kDirect>, KernelId::argmax},
};

}  // namespace

bool has_mma_gemm(std::span<const Step> steps, const Machine& machine) {
  return has_tensor_cores(machine) && std::ranges::any_of(steps, [](const Step& step) {
           const Dispatch& d = step.dispatch;
           if (step.op == op::kFusedLinear &&
               d.as<FusedLinearAttr>().precision == Precision::kUsual)
             return weight_format(d.in[FusedLinearIn::kWeight].dtype) == kBF16;
           return step.op == op::kMoe && weight_format(d.in[MoeIn::kUp].dtype) == kBF16;
         });
}

bool accepts_linear(const Dispatch& d, const KernelChoice&) {
  if (!accepts_products(d)) return false;
  const auto& attr = d.as<FusedLinearAttr>();
  for (int i = 1; i < attr.weights; ++i)
    if (is_quantized(format_at(d, i)) != is_quantized(format_at(d, 0)) &&
        attr.precision == Precision::kHigh)
      return false;
  return !is_gated(d) || format_at(d, 0) == format_at(d, 1);
}

LaunchRows linear_launches() { return kRows; }

}  // namespace veery::gpu
