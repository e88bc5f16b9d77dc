#include "graph/ops/position.h"

#include "graph/graph.h"
#include "graph/ops/attention.h"
#include "graph/ops/norm.h"
#include "graph/ops/rows.h"

namespace veery::op::detail {

Outputs rope_angles(const OpContext& c) {
  const int64_t dims = c.attr<AnglesAttr>().dims;
  for (int i : {RopeAnglesIn::kDivisors, RopeAnglesIn::kExtended})
    if (c.has(i)) c.require(c.shape(i) == Shape{1, dims / 2}, "there must be one divisor a pair");
  c.require(c.has(RopeAnglesIn::kDivisors) || !c.has(RopeAnglesIn::kExtended),
            "divisors of extended sequences come with others");
  c.require(c.has(RopeAnglesIn::kExtended) == c.has(RopeAnglesIn::kIsExtended),
            "divisors of extended sequences need to know which rows are extended");
  return Shape{c.shape(RopeAnglesIn::kPositions).rows(), dims};
}

Outputs rope(const OpContext& c) {
  const auto& attr = c.attr<RopeAttr>();
  const Shape& x = c.shape(RopeIn::kX);
  c.require(attr.heads >= 1 && x.cols() % attr.heads == 0,
            "the columns must divide into the heads");
  c.require(attr.dims > 0 && attr.dims % 2 == 0 && attr.begin >= 0 &&
                attr.begin + attr.dims <= x.cols() / attr.heads,
            "the rotated dimensions must be even and at most those of a head");
  c.require(c.shape(RopeIn::kAngles) == Shape{x.rows(), attr.dims},
            "the angles must be [rows, rotated dimensions]");
  return x;
}

Outputs position_scale(const OpContext& c) {
  const auto& attr = c.attr<PositionScaleAttr>();
  const Shape& x = c.shape(PositionScaleIn::kX);
  c.require(attr.period > 0 && attr.shift >= 0,
            "the period must be above 0, and the shift must not be negative");
  c.require(c.shape(PositionScaleIn::kPositions) == Shape{x.rows(), 1},
            "there must be one position a row");
  return x;
}

Outputs qkv_rope(const OpContext& c) {
  const auto& attr = c.attr<QkvRopeAttr>();
  const Shape& qkv = c.shape(QkvRopeIn::kQkv);
  const int64_t q = int64_t{attr.heads} * attr.head_dim;
  const int64_t kv = int64_t{attr.kv_heads} * attr.head_dim;
  c.require(qkv.cols() == q + 2 * kv, "the columns must be those of q, k and v");
  c.require(c.shape(QkvRopeIn::kAngles) == Shape{qkv.rows(), attr.dims},
            "the angles must be [rows, rotated dimensions]");
  c.require(c.shape(QkvRopeIn::kKeys).cols() == kv && c.shape(QkvRopeIn::kValues).cols() == kv,
            "the caches must have the columns of k and v");
  return Shape{qkv.rows(), q};
}

Outputs rope_back_angles(const OpContext& c) {
  return Shape{c.same_shape(RopeBackAnglesIn::kDy, RopeBackAnglesIn::kX).rows(),
               c.attr<RopeAttr>().dims};
}

Outputs rope_tangent(const OpContext& c) {
  const Shape& x = c.shape(RopeTangentIn::kX);
  c.require(c.shape(RopeTangentIn::kTangles) == Shape{x.rows(), c.attr<RopeAttr>().dims},
            "the tangent of the angles must be [rows, rotated dimensions]");
  return x;
}

Outputs rope_angles_back(const OpContext& c) {
  c.same_shape(RopeAnglesBackIn::kDangles, RopeAnglesBackIn::kAngles);
  const Shape row{1, c.attr<AnglesAttr>().dims / 2};
  c.require(c.shape(RopeAnglesBackIn::kDivisors) == row, "there must be one divisor a pair");
  return {ValueType{row}, ValueType{row}};
}

Outputs rope_angles_tangent(const OpContext& c) {
  if (c.has(RopeAnglesTangentIn::kTdivisors))
    c.same_shape(RopeAnglesTangentIn::kDivisors, RopeAnglesTangentIn::kTdivisors);
  if (c.has(RopeAnglesTangentIn::kTextended))
    c.same_shape(RopeAnglesTangentIn::kExtended, RopeAnglesTangentIn::kTextended);
  return c.shape(RopeAnglesTangentIn::kAngles);
}

// Also writes the caches, so nodes that read them must follow.
Value decompose_qkv_rope(Graph& graph, const Node& node) {
  const auto attr = node.as<QkvRopeAttr>();
  const int64_t q = int64_t{attr.heads} * attr.head_dim;
  const int64_t kv = int64_t{attr.kv_heads} * attr.head_dim;
  const auto part = [&](int64_t begin, int64_t count) {
    return Value(
        graph.add(kColumns, inputs({node.in[QkvRopeIn::kQkv]}), ColumnsAttr{begin, count}));
  };
  const auto placed = [&](Value x, int norm, int32_t heads) {
    if (const Value weight = node.in[static_cast<size_t>(norm)])
      x = graph.add(kRmsNorm, inputs({x, weight}), NormAttr{attr.eps, heads});
    return Value(graph.add(kRope, inputs({x, node.in[QkvRopeIn::kAngles]}),
                           RopeAttr{heads, attr.dims, attr.interleaved}));
  };
  const auto write = [&](Value x, int state) {
    const Value cache = node.in[static_cast<size_t>(state)];
    graph.add(kCacheWrite, inputs({x, cache}), graph[cache].attr);
  };
  write(placed(part(q, kv), QkvRopeIn::kKeyNorm, attr.kv_heads), QkvRopeIn::kKeys);
  write(part(q + kv, kv), QkvRopeIn::kValues);
  return placed(part(0, q), QkvRopeIn::kQueryNorm, attr.heads);
}

}  // namespace veery::op::detail
