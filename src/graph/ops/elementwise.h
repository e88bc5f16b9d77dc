// elementwise.h: ops that look at one element of each input at a time.
#pragma once
#include "graph/op.h"

namespace veery {

struct ScaleAttr {
  float factor = 1;
};

/// kGelu: the tanh approximation; kGeluErf: with the error function. kReluSquared: max(x, 0)^2 (So
/// et al., arXiv:2109.08668). kXielu (Huang and Schlag, arXiv:2411.13010): above 0 `positive` x^2 +
/// `beta` x, from there down `negative` (e^min(x, `eps`) - 1 - x) + `beta` x.
enum class Activation : uint8_t {
  kNone,
  kSilu,
  kGelu,
  kGeluErf,
  kRelu,
  kReluSquared,
  kXielu,
  kTanh,
  kSigmoid
};

/// activate, activate_back, and wherever an activation is part of another op. All but kXielu have
/// no numbers of their own, so that the kind alone says which it is.
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
  bool operator==(const ActivateAttr&) const = default;
};

struct UnaryIn {
  enum { kX };
};
struct BinaryIn {
  enum { kA, kB };
};
struct MulRowIn {
  enum { kX, kRow };
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
inline Outputs binary(const OpContext& c) { return c.same_shape(BinaryIn::kA, BinaryIn::kB); }
inline Outputs mul_row(const OpContext& c) {
  const Shape& x = c.shape(MulRowIn::kX);
  const Shape& row = c.shape(MulRowIn::kRow);
  c.require(row == Shape{1, x.cols()} || row == Shape{1, 1},
            "the row must be [1, columns] or [1, 1]");
  return x;
}

}  // namespace detail

inline constexpr OpDef kAdd{
    .name = "add", .inputs = {"a", "b"}, .infer = detail::binary, .cost = detail::elements<1>};
inline constexpr OpDef kMul{
    .name = "mul", .inputs = {"a", "b"}, .infer = detail::binary, .cost = detail::elements<1>};
/// Each row of x times one row [1, columns], or one number [1, 1].
inline constexpr OpDef kMulRow{.name = "mul_row",
                               .inputs = {"x", "row"},
                               .infer = detail::mul_row,
                               .cost = detail::elements<1>};
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

inline constexpr Op kElementwise[] = {kAdd,      kMul,          kMulRow,  kScale,
                                      kActivate, kActivateBack, kSoftcap, kSoftcapBack};

}  // namespace op
}  // namespace veery
