// norm.h: normalisation of rows.
#pragma once
#include "graph/op.h"

namespace veery {

/// Parameters of rms_norm and layer_norm. `groups` > 1: each of `groups` equal parts of a row
/// (heads) is normalised separately.
struct NormAttr {
  float eps = 1e-6F;
  int32_t groups = 1;
};

struct RmsNormIn {
  enum { kX, kWeight };
};
struct RmsNormAddIn {
  enum { kX, kWeight, kResidual };
};
struct LayerNormIn {
  enum { kX, kWeight, kBias };
};
struct NormBackIn {
  enum { kDy, kX, kWeight };
};
struct NormTangentIn {
  enum { kX, kWeight, kTx, kTweight, kTbias };
};

namespace op {
namespace detail {

inline const Shape& grouped(const OpContext& c, const Shape& x) {
  const auto& attr = c.attr<NormAttr>();
  c.require(attr.groups >= 1 && x.cols() % attr.groups == 0,
            "the columns must divide into the groups");
  return x;
}
inline Shape group_row(const OpContext& c, const Shape& x) {
  return {1, x.cols() / c.attr<NormAttr>().groups};
}
inline Outputs rms_norm(const OpContext& c) {
  const Shape& x = grouped(c, c.shape(RmsNormIn::kX));
  c.require(c.shape(RmsNormIn::kWeight) == group_row(c, x),
            "the weight must be [1, columns / groups]");
  return x;
}
inline Outputs rms_norm_add(const OpContext& c) {
  c.same_shape(RmsNormAddIn::kX, RmsNormAddIn::kResidual);
  return rms_norm(c);
}
inline Outputs layer_norm(const OpContext& c) {
  const Shape& x = grouped(c, c.shape(LayerNormIn::kX));
  const Shape& weight = c.shape(LayerNormIn::kWeight);
  c.require(weight == group_row(c, x) || weight == Shape{1, x.cols()},
            "the weight must be [1, columns / groups] or [1, columns]");
  if (c.has(LayerNormIn::kBias))
    c.require(c.shape(LayerNormIn::kBias) == weight, "the bias must have the shape of the weight");
  return x;
}
inline Outputs l2_norm(const OpContext& c) {
  c.require(c.attr<NormAttr>().groups == 1, "a row has one length");
  return c.shape(RmsNormIn::kX);
}
inline Outputs norm_back_x(const OpContext& c) {
  return c.same_shape(NormBackIn::kDy, NormBackIn::kX);
}
inline Outputs rms_norm_back_w(const OpContext& c) {
  return group_row(c, c.same_shape(NormBackIn::kDy, NormBackIn::kX));
}
inline Outputs layer_norm_back_w(const OpContext& c) {
  c.same_shape(NormBackIn::kDy, NormBackIn::kX);
  return c.shape(NormBackIn::kWeight);
}
inline Outputs rms_norm_tangent(const OpContext& c) {
  if (c.has(NormTangentIn::kTx)) c.same_shape(NormTangentIn::kX, NormTangentIn::kTx);
  if (c.has(NormTangentIn::kTweight)) c.same_shape(NormTangentIn::kWeight, NormTangentIn::kTweight);
  return rms_norm(c);
}
inline Outputs layer_norm_tangent(const OpContext& c) {
  const Shape& x = grouped(c, c.shape(NormTangentIn::kX));
  if (c.has(NormTangentIn::kTx)) c.same_shape(NormTangentIn::kX, NormTangentIn::kTx);
  for (int i : {NormTangentIn::kTweight, NormTangentIn::kTbias})
    if (c.has(i)) c.same_shape(NormTangentIn::kWeight, i);
  return x;
}
inline Cost norm(const OpContext&, const Outputs& out, const RunSize& size) {
  return {.flops = 4 * size.elements(out.types[0].shape)};
}
Value decompose_rms_norm_add(Graph& graph, const Node& node);

}  // namespace detail

/// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich, arXiv:1910.07467). Weight [1, columns /
/// groups].
inline constexpr OpDef kRmsNorm{
    .name = "rms_norm", .inputs = {"x", "weight"}, .infer = detail::rms_norm, .cost = detail::norm};
/// rms_norm(x) + residual
inline constexpr OpDef kRmsNormAdd{.name = "rms_norm_add",
                                   .group = OpGroup::kFused,
                                   .inputs = {"x", "weight", "residual"},
                                   .infer = detail::rms_norm_add,
                                   .cost = detail::norm,
                                   .decompose = detail::decompose_rms_norm_add};
/// (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al., arXiv:1607.06450). Weight and bias
/// [1, columns / groups] for all groups, or [1, columns].
inline constexpr OpDef kLayerNorm{.name = "layer_norm",
                                  .inputs = {"x", "weight", "bias?"},
                                  .infer = detail::layer_norm,
                                  .cost = detail::norm};
/// x / max(sqrt(sum(x^2)), eps)
inline constexpr OpDef kL2Norm{
    .name = "l2_norm", .inputs = {"x"}, .infer = detail::l2_norm, .cost = detail::norm};
inline constexpr OpDef kL2NormBack{.name = "l2_norm_back",
                                   .group = OpGroup::kBackward,
                                   .inputs = {"dy", "x"},
                                   .infer = detail::norm_back_x,
                                   .cost = detail::norm};
inline constexpr OpDef kRmsNormBackX{.name = "rms_norm_back_x",
                                     .group = OpGroup::kBackward,
                                     .inputs = {"dy", "x", "weight"},
                                     .outputs = {"dx"},
                                     .infer = detail::norm_back_x,
                                     .cost = detail::norm};
inline constexpr OpDef kRmsNormBackW{.name = "rms_norm_back_w",
                                     .group = OpGroup::kBackward,
                                     .inputs = {"dy", "x"},
                                     .outputs = {"dweight"},
                                     .infer = detail::rms_norm_back_w,
                                     .cost = detail::norm};
inline constexpr OpDef kLayerNormBackX{.name = "layer_norm_back_x",
                                       .group = OpGroup::kBackward,
                                       .inputs = {"dy", "x", "weight"},
                                       .outputs = {"dx"},
                                       .infer = detail::norm_back_x,
                                       .cost = detail::norm};
/// Only the shape of the weight is used.
inline constexpr OpDef kLayerNormBackW{.name = "layer_norm_back_w",
                                       .group = OpGroup::kBackward,
                                       .inputs = {"dy", "x", "weight"},
                                       .outputs = {"dweight"},
                                       .infer = detail::layer_norm_back_w,
                                       .cost = detail::norm};

/// The tangent of y for those of x, weight and bias; absent ones are zero.
inline constexpr OpDef kRmsNormTangent{.name = "rms_norm_tangent",
                                       .group = OpGroup::kBackward,
                                       .inputs = {"x", "weight", "tx?", "tweight?"},
                                       .infer = detail::rms_norm_tangent,
                                       .cost = detail::norm};
inline constexpr OpDef kLayerNormTangent{.name = "layer_norm_tangent",
                                         .group = OpGroup::kBackward,
                                         .inputs = {"x", "weight", "tx?", "tweight?", "tbias?"},
                                         .infer = detail::layer_norm_tangent,
                                         .cost = detail::norm};

inline constexpr Op kNorms[] = {kRmsNorm,        kRmsNormAdd,     kLayerNorm,       kL2Norm,
                                kL2NormBack,     kRmsNormBackX,   kRmsNormBackW,    kLayerNormBackX,
                                kLayerNormBackW, kRmsNormTangent, kLayerNormTangent};

}  // namespace op
}  // namespace veery
