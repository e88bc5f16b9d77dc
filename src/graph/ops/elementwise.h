// elementwise.h: ops on single elements of their inputs.
#pragma once
#include "graph/op.h"

namespace veery {

struct ScaleAttr {
  float factor = 1;
};

/// kGelu: tanh approximation. kGeluErf: with the error function. kReluSquared: max(x, 0)^2 (So et
/// al., arXiv:2109.08668). kXielu (Huang and Schlag, arXiv:2411.13010): `positive` x^2 + `beta` x
/// for x > 0, otherwise `negative` (e^min(x, `eps`) - 1 - x) + `beta` x. kSoftplus: ln(1 + e^x).
/// kLogSigmoid: -softplus(-x). kClip: clamps to [`negative`, `positive`].
enum class Activation : uint8_t {
  kNone,
  kSilu,
  kGelu,
  kGeluErf,
  kRelu,
  kReluSquared,
  kXielu,
  kTanh,
  kSigmoid,
  kSoftplus,
  kLogSigmoid,
  kClip
};

/// Parameters of activate, activate_back and ops with a fused activation. Only kXielu and kClip
/// have numeric parameters; other kinds convert implicitly.
struct ActivateAttr {
  Activation kind = Activation::kNone;
  float positive = 0, negative = 0, beta = 0, eps = 0;

  ActivateAttr() = default;
  ActivateAttr(Activation activation) : kind(activation) {}  // NOLINT(google-explicit-constructor)
  static ActivateAttr xielu(float positive, float negative, float beta, float eps) {
    ActivateAttr attr(Activation::kXielu);
    attr.positive = positive, attr.negative = negative, attr.beta = beta, attr.eps = eps;
    return attr;
  }
  static ActivateAttr clip(float least, float most) {
    ActivateAttr attr(Activation::kClip);
    attr.negative = least, attr.positive = most;
    return attr;
  }
  bool operator==(const ActivateAttr&) const = default;
};

/// cast: the element type of the result.
struct CastAttr {
  DType to = DType::kF32;
};

struct UnaryIn {
  enum { kX };
};
struct BinaryIn {
  enum { kA, kB };
};
struct UnaryBackIn {
  enum { kDy, kX };
};

namespace op {
namespace detail {

template <int kPerElement>
Cost elements(const OpContext&, const Outputs& out, const RunSize& size) {
  return {.flops = kPerElement * size.elements(out.types[0].shape)};
}
template <typename A>
Outputs unary(const OpContext& c) {
  c.attr<A>();
  return c.shape(UnaryIn::kX);
}
template <typename A>
Outputs unary_back(const OpContext& c) {
  c.attr<A>();
  return c.same_shape(UnaryBackIn::kDy, UnaryBackIn::kX);
}
inline Outputs cast(const OpContext& c) {
  const DType from = c.type(UnaryIn::kX).dtype, to = c.attr<CastAttr>().to;
  const auto has_cast = [](DType type) {
    return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
           type == DType::kI32 || type == DType::kU8;
  };
  c.require(has_cast(from) && has_cast(to) && from != to,
            "casts are between two of f32, f16, bf16, i32 and u8");
  return {c.shape(UnaryIn::kX), to};
}
inline Outputs add(const OpContext& c) {
  const Shape& a = c.shape(BinaryIn::kA);
  const Shape& b = c.shape(BinaryIn::kB);
  c.require(b == a || b == Shape{1, a.cols()}, "b must have the shape of a, or be one row");
  return a;
}
inline Outputs mul(const OpContext& c) {
  const Shape& a = c.shape(BinaryIn::kA);
  const Shape& b = c.shape(BinaryIn::kB);
  c.require((b.rows() == a.rows() || b.rows() == Dim(1)) && a.cols() % b.cols() == 0,
            "b must have the rows of a or one, and columns that divide those of a");
  return a;
}
inline Outputs sum_to(const OpContext& c) {
  const Shape& like = c.shape(BinaryIn::kB);
  const Shape& x = c.shape(BinaryIn::kA);
  c.require((like.rows() == x.rows() || like.rows() == Dim(1)) && x.cols() % like.cols() == 0,
            "the result must have the rows of x or one, and columns that divide those of x");
  return like;
}
inline Outputs spread_to(const OpContext& c) {
  const Shape& like = c.shape(BinaryIn::kB);
  const Shape& x = c.shape(BinaryIn::kA);
  c.require((x.rows() == like.rows() || x.rows() == Dim(1)) && like.cols() % x.cols() == 0,
            "x must have the rows of the result or one, and columns that divide those of the "
            "result");
  return like;
}

}  // namespace detail

/// a + b; b [rows or 1, columns].
inline constexpr OpDef kAdd{
    .name = "add", .inputs = {"a", "b"}, .infer = detail::add, .cost = detail::elements<1>};
/// a * b; b [rows or 1, parts]: element i of b multiplies part i of a row of a, where the parts
/// have equal size.
inline constexpr OpDef kMul{
    .name = "mul", .inputs = {"a", "b"}, .infer = detail::mul, .cost = detail::elements<1>};
/// Sums over rows and parts of columns so that the result has the shape of `like`, whose values are
/// not read. The transpose of the broadcast in mul and add.
inline constexpr OpDef kSumTo{.name = "sum_to",
                              .inputs = {"x", "like"},
                              .infer = detail::sum_to,
                              .cost = detail::elements<1>};
/// The broadcast of mul and add: repeats x over rows and parts of columns so that the result has
/// the shape of `like`, whose values are not read.
inline constexpr OpDef kSpreadTo{.name = "spread_to",
                                 .group = OpGroup::kBackward,
                                 .inputs = {"x", "like"},
                                 .infer = detail::spread_to};
/// factor * x
inline constexpr OpDef kScale{.name = "scale",
                              .inputs = {"x"},
                              .infer = detail::unary<ScaleAttr>,
                              .cost = detail::elements<1>};
inline constexpr OpDef kActivate{.name = "activate",
                                 .inputs = {"x"},
                                 .infer = detail::unary<ActivateAttr>,
                                 .cost = detail::elements<10>};
inline constexpr OpDef kActivateBack{.name = "activate_back",
                                     .group = OpGroup::kBackward,
                                     .inputs = {"dy", "x"},
                                     .infer = detail::unary_back<ActivateAttr>,
                                     .cost = detail::elements<10>};
/// x in another element type. To f16 and bf16: to nearest, ties to even; to integers: towards zero,
/// clamped to the range of the type, NaN to 0.
inline constexpr OpDef kCast{.name = "cast", .inputs = {"x"}, .infer = detail::cast};
/// factor * tanh(x / factor)
inline constexpr OpDef kSoftcap{.name = "softcap",
                                .inputs = {"x"},
                                .infer = detail::unary<ScaleAttr>,
                                .cost = detail::elements<10>};
inline constexpr OpDef kSoftcapBack{.name = "softcap_back",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "x"},
                                    .infer = detail::unary_back<ScaleAttr>,
                                    .cost = detail::elements<10>};

inline constexpr Op kElementwise[] = {kAdd,      kMul,          kSumTo, kSpreadTo, kScale,
                                      kActivate, kActivateBack, kCast,  kSoftcap,  kSoftcapBack};

}  // namespace op
}  // namespace veery
