#include "graph/ops/attention.h"

#include <algorithm>

namespace veery::op::detail {
namespace {

struct Operands {
  int q, k, v;
};

void check(const OpContext& c, const Operands& in) {
  const auto& attr = c.attr<AttendAttr>();
  const int64_t q = c.shape(in.q).cols(), k = c.shape(in.k).cols(), v = c.shape(in.v).cols();
  c.require(attr.heads >= 1 && attr.kv_heads >= 1 && attr.heads % attr.kv_heads == 0,
            "the heads must be a multiple of the key heads");
  c.require(q % attr.heads == 0, "the columns of q must divide into the heads");
  c.require(k == q / attr.heads * attr.kv_heads, "k must have key heads x head size columns");
  c.require(v % attr.kv_heads == 0, "the columns of v must divide into the key heads");
  c.require(attr.shared >= 0 && (attr.shared == 0 || c.shape(in.v) == c.shape(in.k)) &&
                attr.shared <= k / attr.kv_heads,
            "keys that hold values are given as both, and are no smaller");
  c.require(attr.mask != Mask::kSymmetric || attr.window > 0, "a symmetric window has a size");
  c.require(attr.mask == Mask::kCausal || !attr.chunked, "only a causal mask has chunks");
  c.require(attr.mask == Mask::kCausal || attr.mask == Mask::kSymmetric || attr.window == 0,
            "a full mask and one with a prefix have no window");
}

int64_t value_size(const AttendAttr& attr, const Shape& v) {
  return attr.shared > 0 ? attr.shared : v.cols() / attr.kv_heads;
}

void check_log_sum(const OpContext& c, int log_sum, int dlog_sum, Dim rows) {
  c.require(c.shape(log_sum) == Shape{rows, c.attr<AttendAttr>().heads},
            "there must be one log_sum per row and head");
  if (c.has(dlog_sum)) c.same_shape(log_sum, dlog_sum);
}

// Returns the mean number of positions that a row sees.
double seen(const AttendAttr& attr, const RunSize& size) {
  const auto context = static_cast<double>(size.context);
  const double before = context - (static_cast<double>(size.rows) - 1) / 2;
  switch (attr.mask) {
    case Mask::kFull:
    case Mask::kSource: return context;
    case Mask::kSymmetric: return std::min(context, 2.0 * attr.window + 1);
    default: return attr.window > 0 ? std::min(before, static_cast<double>(attr.window)) : before;
  }
}

}  // namespace

Outputs cache_write(const OpContext& c) {
  const Shape& state = c.shape(CacheWriteIn::kState);
  c.require(c.shape(CacheWriteIn::kX).cols() == state.cols(),
            "the value and the cache must have the same columns");
  return state;
}

Outputs attend(const OpContext& c) {
  const auto& attr = c.attr<AttendAttr>();
  check(c, {AttendIn::kQ, AttendIn::kK, AttendIn::kV});
  if (c.has(AttendIn::kSinks))
    c.require(c.shape(AttendIn::kSinks) == Shape{1, attr.heads}, "there must be one sink a head");
  if (c.has(AttendIn::kChosen)) {
    const ValueType& chosen = c.type(AttendIn::kChosen);
    c.require(chosen.dtype == DType::kI32 && chosen.shape.rows() == c.shape(AttendIn::kQ).rows(),
              "positions are i32 and have the rows of q");
    c.require(
        attr.shared > 0 && attr.mask == Mask::kCausal && attr.window == 0 && attr.alibi == 0,
        "positions are chosen of causal attention with values inside of keys, without window");
  }
  const Dim rows = c.shape(AttendIn::kQ).rows();
  return {ValueType{{rows, value_size(attr, c.shape(AttendIn::kV)) * attr.heads}},
          ValueType{{rows, attr.heads}}};
}

Outputs attend_back(const OpContext& c) {
  check(c, {AttendBackIn::kQ, AttendBackIn::kK, AttendBackIn::kV});
  const Shape& q = c.shape(AttendBackIn::kQ);
  const Shape& v = c.shape(AttendBackIn::kV);
  const Shape y{q.rows(), value_size(c.attr<AttendAttr>(), v) * c.attr<AttendAttr>().heads};
  c.require(c.same_shape(AttendBackIn::kDy, AttendBackIn::kY) == y,
            "dy and y must have heads x value size columns");
  check_log_sum(c, AttendBackIn::kLogSum, AttendBackIn::kDlogSum, q.rows());
  return {ValueType{q}, ValueType{c.shape(AttendBackIn::kK)}, ValueType{v}};
}

Outputs attend_back_sinks(const OpContext& c) {
  const Shape& y = c.same_shape(AttendBackSinksIn::kDy, AttendBackSinksIn::kY);
  check_log_sum(c, AttendBackSinksIn::kLogSum, AttendBackSinksIn::kDlogSum, y.rows());
  return c.shape(AttendBackSinksIn::kSinks);
}

Outputs attend_tangent(const OpContext& c) {
  for (int i : {AttendIn::kQ, AttendIn::kK, AttendIn::kV}) {
    const int tangent = AttendTangentIn::kTq + i;
    if (c.has(tangent)) c.same_shape(i, tangent);
  }
  if (c.has(AttendTangentIn::kTsinks)) c.same_shape(AttendIn::kSinks, AttendTangentIn::kTsinks);
  return attend(c);
}

Outputs choose_positions(const OpContext& c) {
  const auto& attr = c.attr<ChooseAttr>();
  const Shape& q = c.shape(ChooseIn::kQ);
  const Shape& weights = c.shape(ChooseIn::kWeights);
  c.require(attr.heads >= 1 && attr.used >= 1, "there must be heads, and positions to choose");
  c.require(q.cols() == c.shape(ChooseIn::kK).cols() * attr.heads,
            "q must have heads of the size of a key");
  c.require(weights.rows() == q.rows() && weights.cols() == attr.heads,
            "there must be one weight a head");
  return {{q.rows(), attr.used}, DType::kI32};
}

Cost choose_positions_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return {.flops = 2 * size.elements(c.shape(ChooseIn::kQ)) * seen({}, size)};
}

Cost attend_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  const Shape& q = c.shape(AttendIn::kQ);
  const auto columns = static_cast<double>(q.cols() + out.types[0].shape.cols());
  double positions = seen(c.attr<AttendAttr>(), size);
  if (c.has(AttendIn::kChosen))
    positions = std::min(positions, static_cast<double>(c.shape(AttendIn::kChosen).cols()));
  return {.flops = 2 * size(q.rows()) * positions * columns};
}

// Five matrix products: scores and dp recomputed, dq, dk and dv.
Cost attend_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const Shape& q = c.shape(AttendBackIn::kQ);
  const auto columns = static_cast<double>(3 * q.cols() + 2 * c.shape(AttendBackIn::kDy).cols());
  double positions = seen(c.attr<AttendAttr>(), size);
  if (c.has(AttendBackIn::kChosen))
    positions = std::min(positions, static_cast<double>(c.shape(AttendBackIn::kChosen).cols()));
  return {.flops = 2 * size(q.rows()) * positions * columns};
}

// Scores and weighted values, and their products with two tangents each.
Cost attend_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  return {.flops = 3 * attend_cost(c, out, size).flops};
}

}  // namespace veery::op::detail
