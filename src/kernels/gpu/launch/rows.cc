// Launches of ops that look at one row at a time.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

Weight weight_of(const Operand& o) {
  return {reinterpret_cast<const uint8_t*>(o.data), o.stride, static_cast<int32_t>(o.rows), o.cols,
          *weight_format(o.dtype)};
}
bool is_packed_weight(const Operand& o) {
  return o.layout == Layout::kPanels && o.stack == 1 && weight_format(o.dtype).has_value();
}

// embed, select_rows, argmax

bool accepts_embed(const Dispatch& d, const KernelChoice&) {
  return is_ids(d.in[EmbedIn::kIds]) && is_packed_weight(d.in[EmbedIn::kWeight]) &&
         is_matrix(d.out());
}
void record_embed(const Dispatch& d, Recorder& to) {
  to.add(KernelId::embed, launch_size(to.max_rows(d.out().rows), 256),
         EmbedParams{to.run, to.ids(d.in[EmbedIn::kIds]), weight_of(d.in[EmbedIn::kWeight]),
                     to.matrix(d.out()), d.as<ScaleAttr>().factor});
}
bool accepts_embed_rows(const Dispatch& d, const KernelChoice&) {
  return is_ids(d.in[EmbedIn::kIds]) && is_matrix(d.in[EmbedIn::kWeight]) && is_matrix(d.out());
}
void record_embed_rows(const Dispatch& d, Recorder& to) {
  to.add(KernelId::embed_rows, launch_size(to.max_rows(d.out().rows), 256),
         EmbedRowsParams{to.run, to.ids(d.in[EmbedIn::kIds]), to.matrix(d.in[EmbedIn::kWeight]),
                         to.matrix(d.out()), d.as<ScaleAttr>().factor});
}

bool accepts_select(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[SelectRowsIn::kX]) && is_ids(d.in[SelectRowsIn::kRows]) &&
         is_matrix(d.out());
}
void record_select(const Dispatch& d, Recorder& to) {
  to.add(KernelId::select_rows, launch_size(to.max_rows(d.out().rows), 256),
         SelectRowsParams{to.run, to.matrix(d.in[SelectRowsIn::kX]), to.matrix(d.out()),
                          to.ids(d.in[SelectRowsIn::kRows])});
}

bool accepts_argmax(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.out(), DType::kI32);
}
void record_argmax(const Dispatch& d, Recorder& to) {
  to.add(KernelId::argmax, launch_size(to.max_rows(d.out().rows), 256, 64),
         ArgmaxParams{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out())});
}

// Norms

bool accepts_rms_norm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RmsNormIn::kX]) && is_matrix(d.in[RmsNormIn::kWeight]) &&
         absent_or_matrix(d.in[RmsNormAddIn::kResidual]) && is_matrix(d.out());
}
void record_rms_norm(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<NormAttr>();
  const bool staged =
      to.machine.stages_rows() && attr.groups == 1 && d.out().cols <= kMaxStagedColumns;
  const size_t shared = 16 + (staged ? static_cast<size_t>(d.out().cols) * sizeof(float) : 0);
  to.add(KernelId::rms_norm, launch_size(to.max_rows(d.out().rows), 256, shared),
         RmsNormParams{to.run,
                       to.matrix(d.in[RmsNormIn::kX]),
                       to.matrix(d.in[RmsNormAddIn::kResidual]),
                       to.matrix(d.out()),
                       {d.in[RmsNormIn::kWeight].row<float>(0), attr.eps},
                       attr.groups,
                       staged ? 1 : 0});
}

bool accepts_layer_norm(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[LayerNormIn::kX]) && is_matrix(d.in[LayerNormIn::kWeight]) &&
         absent_or_matrix(d.in[LayerNormIn::kBias]) && is_matrix(d.out());
}
void record_layer_norm(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<NormAttr>();
  const int32_t cols = d.out().cols;
  const bool staged = to.machine.stages_rows() && cols + 2 * attr.groups <= kMaxStagedColumns;
  const int32_t floats = 2 * attr.groups + (staged ? cols : 0);
  to.add(KernelId::layer_norm,
         launch_size(to.max_rows(d.out().rows), 256, static_cast<size_t>(floats) * sizeof(float)),
         LayerNormParams{to.run, to.matrix(d.in[LayerNormIn::kX]), to.matrix(d.out()),
                         d.in[LayerNormIn::kWeight].row<float>(0),
                         d.in[LayerNormIn::kBias].row<float>(0), attr.eps, attr.groups,
                         d.in[LayerNormIn::kWeight].cols == cols ? 1 : 0, staged ? 1 : 0});
}

void record_l2_norm(const Dispatch& d, Recorder& to) {
  to.add(
      KernelId::l2_norm, launch_size(to.max_rows(d.out().rows), kWarp, 4096),
      L2NormParams{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()), d.as<NormAttr>().eps});
}

// Elementwise ops

bool accepts_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && absent_or_matrix(d.in[BinaryIn::kB]) &&
         is_matrix(d.out());
}
template <Elementwise kOp>
void record_elementwise(const Dispatch& d, Recorder& to) {
  const Operand& b = d.in[BinaryIn::kB];
  ElementwiseParams a{to.run, kOp, to.matrix(d.in[BinaryIn::kA]), to.matrix(b), to.matrix(d.out())};
  a.part = b && kOp == Elementwise::kMul ? d.out().cols / b.cols : 1;
  if (const auto* scale = d.attr.get<ScaleAttr>()) a.factor = scale->factor;
  if (const auto* activate = d.attr.get<ActivateAttr>()) a.activate = activation_params(*activate);
  LaunchSize size = launch_size(std::min((d.out().cols + 255) / 256, 64), 256);
  size.blocks_y = static_cast<int>(to.max_rows(d.out().rows));
  to.add(KernelId::elementwise, size, a);
}
CastType cast_type(DType type) {
  switch (type) {
    case DType::kF16: return CastType::kF16;
    case DType::kBF16: return CastType::kBF16;
    case DType::kI32: return CastType::kI32;
    case DType::kU8: return CastType::kU8;
    default: return CastType::kF32;
  }
}
bool accepts_cast(const Dispatch& d, const KernelChoice&) {
  return d.in[UnaryIn::kX].layout == Layout::kRowMajor && d.out().layout == Layout::kRowMajor;
}
void record_cast(const Dispatch& d, Recorder& to) {
  const Operand& x = d.in[UnaryIn::kX];
  to.add(KernelId::cast, launch_size(to.max_rows(d.out().rows), 256),
         CastParams{to.run, reinterpret_cast<const uint8_t*>(x.data),
                    reinterpret_cast<uint8_t*>(d.out().data), x.stride, d.out().stride,
                    d.out().rows, x.cols, cast_type(x.dtype), cast_type(d.out().dtype)});
}
void record_concat(const Dispatch& d, Recorder& to) {
  to.add(KernelId::concat, launch_size(to.max_rows(d.out().rows), 256),
         ConcatParams{to.run, to.matrix(d.in[BinaryIn::kA]), to.matrix(d.in[BinaryIn::kB]),
                      to.matrix(d.out())});
}
// The kernels copy elements of 4 bytes without looking at them; casts of the others to f32 and back
// are exact.
void record_assign(const Dispatch& d, Recorder& to) {
  if (byte_size(d.out().dtype, 1) < 4) return record_cast(d, to);
  to.add(KernelId::concat, launch_size(d.out().rows, 256),
         ConcatParams{to.run, to.matrix(d.in[AssignIn::kX]), {}, to.matrix(d.out())});
}
// Sums over columns only. Sums over rows, which gradients need, have no kernel.
bool accepts_sum_to(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && is_matrix(d.out()) &&
         d.in[BinaryIn::kA].rows == d.out().rows;
}
void record_sum_to(const Dispatch& d, Recorder& to) {
  to.add(KernelId::sum_to, launch_size(to.max_rows(d.out().rows), 64),
         SumToParams{to.run, to.matrix(d.in[BinaryIn::kA]), to.matrix(d.out())});
}
void record_shift(const Dispatch& d, Recorder& to) {
  to.add(
      KernelId::shift, launch_size(to.max_rows(d.out().rows), 256),
      ShiftParams{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()), d.as<ShiftAttr>().by});
}
void record_pool(const Dispatch& d, Recorder& to) {
  LaunchSize size = launch_size((d.out().cols + 127) / 128, 128);
  size.blocks_y = static_cast<int>(to.max_rows(d.out().rows));
  to.add(KernelId::pool, size,
         PoolParams{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()),
                    static_cast<int32_t>(d.as<PoolAttr>().kind)});
}

// A product with a weight of one f32 row.

bool accepts_linear_one(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<FusedLinearAttr>();
  const Operand& w = d.in[FusedLinearIn::kWeight];
  return is_matrix(d.in[FusedLinearIn::kX]) && !d.in[FusedLinearIn::kNorm] && attr.weights == 1 &&
         attr.gate == Activation::kNone && is_matrix(w) && w.rows == 1 &&
         absent_or_matrix(d.in[FusedLinearIn::kBias]) &&
         absent_or_matrix(d.in[FusedLinearIn::kResidual]) && is_matrix(d.out());
}
void record_linear_one(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 64;
  const int64_t rows = to.max_rows(d.out().rows);
  to.add(KernelId::linear_one, launch_size((rows + kThreads - 1) / kThreads, kThreads),
         LinearOneParams{to.run, to.matrix(d.in[FusedLinearIn::kX]),
                         d.in[FusedLinearIn::kWeight].row<float>(0),
                         d.in[FusedLinearIn::kBias].row<float>(0), d.as<FusedLinearAttr>().scale,
                         to.matrix(d.in[FusedLinearIn::kResidual]), to.matrix(d.out())});
}

const LaunchRow kRows[] = {
    {op::kEmbed, accepts_embed, "embed", nullptr, record_embed, KernelId::embed},
    {op::kEmbed, accepts_embed_rows, "embed_rows", nullptr, record_embed_rows,
     KernelId::embed_rows},
    {op::kSelectRows, accepts_select, "select_rows", nullptr, record_select, KernelId::select_rows},
    {op::kArgmax, accepts_argmax, "argmax", nullptr, record_argmax, KernelId::argmax},
    {op::kRmsNorm, accepts_rms_norm, "rms_norm", nullptr, record_rms_norm, KernelId::rms_norm},
    {op::kRmsNormAdd, accepts_rms_norm, "rms_norm", nullptr, record_rms_norm, KernelId::rms_norm},
    {op::kLayerNorm, accepts_layer_norm, "layer_norm", nullptr, record_layer_norm,
     KernelId::layer_norm},
    {op::kL2Norm, accepts_rows, "l2_norm", nullptr, record_l2_norm, KernelId::l2_norm},
    {op::kAdd, accepts_rows, "add", nullptr, record_elementwise<Elementwise::kAdd>,
     KernelId::elementwise},
    {op::kMul, accepts_rows, "mul", nullptr, record_elementwise<Elementwise::kMul>,
     KernelId::elementwise},
    {op::kScale, accepts_rows, "scale", nullptr, record_elementwise<Elementwise::kScale>,
     KernelId::elementwise},
    {op::kActivate, accepts_rows, "activate", nullptr, record_elementwise<Elementwise::kActivate>,
     KernelId::elementwise},
    {op::kSoftcap, accepts_rows, "softcap", nullptr, record_elementwise<Elementwise::kSoftcap>,
     KernelId::elementwise},
    {op::kCast, accepts_cast, "cast", nullptr, record_cast, KernelId::cast},
    {op::kAssign, accepts_cast, "assign", nullptr, record_assign, KernelId::concat},
    {op::kConcat, accepts_rows, "concat", nullptr, record_concat, KernelId::concat},
    {op::kSumTo, accepts_sum_to, "sum_to", nullptr, record_sum_to, KernelId::sum_to},
    {op::kShift, accepts_rows, "shift", nullptr, record_shift, KernelId::shift},
    {op::kPool, accepts_rows, "pool", nullptr, record_pool, KernelId::pool},
    {op::kFusedLinear, accepts_linear_one, "linear_one", nullptr, record_linear_one,
     KernelId::linear_one},
};

}  // namespace

LaunchRows row_launches() { return kRows; }

}  // namespace veery::gpu
