// op.h: the ops, and the table with what is known of each one: inputs, shape rule, cost.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "graph/attr.h"
#include "graph/shape.h"

namespace veery {

inline constexpr int kMaxInputs = 9;

/// Inputs are listed in order; [x] may be absent (id -1). All values are f32 unless said otherwise.
enum class Op : uint8_t {
  // leaves
  kParam,     ///< a weight, by name; its type is the file's; [ParamAttr]
  kSlot,      ///< what varies between runs (i32): "tokens", "positions", "output_rows", "targets"
  kState,     ///< a cache, by name
  kConstant,  ///< ScaleAttr: every element is factor
  // forward
  kEmbed,    ///< tokens, weight (vocab, cols); ScaleAttr -> (rows, cols)
  kLinear,   ///< x (rows, in), [norm (1, in)], [residual (rows, out)], w0 (out, in), [w1], [w2],
             ///< [b0], [b1], [b2]; LinearAttr:
             ///< y = linear(norm(x)) * scale + residual
  kRmsNorm,  ///< x, weight (1, cols / groups), [residual]; NormAttr: x / rms(x) * weight + residual
  kLayerNorm,   ///< x, weight (1, cols / groups) or (1, cols), [bias, as weight]; NormAttr:
                ///< (x - mean) / deviation * weight + bias
  kAdd,         ///< a, b
  kMul,         ///< a, b
  kScale,       ///< x; ScaleAttr
  kActivate,    ///< x; ActivateAttr
  kSoftcap,     ///< x; ScaleAttr: factor * tanh(x / factor)
  kRopeAngles,  ///< positions, [divisors (1, dims / 2)], [divisors of rows whose sequence is
                ///< extended]; AnglesAttr -> (rows, dims): cos at 2i, sin at 2i + 1
  kRope,        ///< x (rows, heads * head_dim), angles; RopeAttr
  kCacheWrite,  ///< x (rows, kv_heads * head_dim), state; its StateAttr -> the state
  kAttend,      ///< q (rows, heads * head_dim), k, v: states, or values of this run (training),
                ///< [sinks (1, heads)]; AttendAttr -> (rows, heads * size of a value). With
                ///< AttendAttr::shared v is k
  kColumns,     ///< x; ColumnsAttr: a view, nothing is copied
  kConcat,      ///< a (rows, m), b (rows, n) -> (rows, m + n)
  kSelectRows,  ///< x (tokens, cols), output_rows -> (outputs, cols)
  kArgmax,      ///< x (rows, n) -> (rows, 1) i32, the lowest index among equals
  kHeadLinear,  ///< x (rows, heads * (in + rest)), w (heads * out, in); HeadsAttr -> (rows, heads *
                ///< (out + rest)): the first columns of each head times a matrix of its own
  kRoute,  ///< scores (rows, experts), [bias (1, experts)]; RouteAttr -> (rows, experts): what each
           ///< expert counts for the row, 0 for those that were not chosen
  kMoe,    ///< x (rows, in), gates (rows, experts): at most MoeAttr::used of a row are not 0,
           ///< [residual (rows, out)], gate and up (experts * hidden, in), down (experts * out,
           ///< hidden), [biases of the three, one row each]; MoeAttr
  kCrossEntropy,  ///< logits (rows, n), targets -> (1, 1): mean of -log softmax; target -1 is left
                  ///< out
  // backward: made by vjp only
  kEmbedBack,         ///< dy, tokens, weight (its shape only); ScaleAttr -> (vocab, cols)
  kLinearBackX,       ///< dy (rows, out), w (out, in) -> (rows, in)
  kLinearBackW,       ///< dy, x -> (out, in)
  kRmsNormBackX,      ///< dy, x, weight; NormAttr
  kRmsNormBackW,      ///< dy, x; NormAttr -> (1, cols / groups)
  kLayerNormBackX,    ///< dy, x, weight; NormAttr
  kLayerNormBackW,    ///< dy, x, weight (its shape only); NormAttr
  kBiasBack,          ///< dy, bias (1, n) (its shape only), n a part of dy's columns -> (1, n)
  kActivateBack,      ///< dy, x; ActivateAttr
  kSoftcapBack,       ///< dy, x; ScaleAttr
  kAttendBack,        ///< dy, q, k, v; AttendAttr.part
  kSelectRowsBack,    ///< dy (outputs, cols), output_rows -> (tokens, cols), zero elsewhere
  kCrossEntropyBack,  ///< dy (1, 1), logits, targets -> (rows, n)
  // made by fusion only
  kQkvRope,  ///< qkv (rows, q + k + v), angles, k state, v state, [q_norm], [k_norm]; QkvRopeAttr
             ///< -> q
  kLinearArgmax,  ///< as kLinear with one weight -> (rows, 1) i32: the index of the largest, never
                  ///< the logits
  kCount
};

enum class OpGroup : uint8_t { kLeaf, kForward, kBackward, kFused };

struct OpInfo {
  Op op;
  std::string_view name;
  OpGroup group;
  int least, most;  ///< number of inputs
};
const OpInfo& info(Op op);

}  // namespace veery
