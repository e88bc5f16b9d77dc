#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs embed_vjp(const VjpContext& c) {
  Inputs grad{};
  grad[EmbedIn::kWeight] =
      c.make(op::kEmbedBack, {c.dy(), c.in(EmbedIn::kIds), c.in(EmbedIn::kWeight)}, c.node().attr);
  return grad;
}
Tangents embed_jvp(const JvpContext& c) {
  return c.make(op::kEmbed, {c.in(EmbedIn::kIds), c.t(EmbedIn::kWeight)}, c.node().attr);
}

Inputs columns_vjp(const VjpContext& c) {
  auto attr = c.node().as<ColumnsAttr>();
  attr.width = c.graph.shape(c.in(UnaryIn::kX)).cols();
  return inputs({c.make(op::kColumnsBack, {c.dy()}, attr)});
}
Tangents columns_jvp(const JvpContext& c) {
  return c.make(op::kColumns, {c.t(UnaryIn::kX)}, c.node().attr);
}

Inputs concat_vjp(const VjpContext& c) {
  const int64_t a = c.graph.shape(c.in(BinaryIn::kA)).cols();
  const int64_t b = c.graph.shape(c.in(BinaryIn::kB)).cols();
  return inputs({c.make(op::kColumns, {c.dy()}, ColumnsAttr{0, a}),
                 c.make(op::kColumns, {c.dy()}, ColumnsAttr{a, b})});
}
Tangents concat_jvp(const JvpContext& c) {
  const auto tangent = [&](int i) -> Value {
    return c.t(i) ? c.t(i) : c.make(op::kScale, {c.in(i)}, ScaleAttr{0});
  };
  return c.make(op::kConcat, {tangent(BinaryIn::kA), tangent(BinaryIn::kB)});
}

Inputs select_rows_vjp(const VjpContext& c) {
  return inputs({c.make(op::kSelectRowsBack, {c.dy(), c.in(SelectRowsIn::kRows)})});
}
Tangents select_rows_jvp(const JvpContext& c) {
  return c.make(op::kSelectRows, {c.t(SelectRowsIn::kX), c.in(SelectRowsIn::kRows)});
}

Inputs shift_vjp(const VjpContext& c) {
  return inputs({c.make(op::kShift, {c.dy()}, ShiftAttr{-c.node().as<ShiftAttr>().by})});
}
Tangents shift_jvp(const JvpContext& c) {
  return c.make(op::kShift, {c.t(UnaryIn::kX)}, c.node().attr);
}

Inputs pool_vjp(const VjpContext& c) {
  return inputs({c.make(op::kPoolBack, {c.dy(), c.in(UnaryIn::kX)}, c.node().attr)});
}
// All poolings except kMax are linear.
Tangents pool_jvp(const JvpContext& c) {
  const Value tx = c.t(UnaryIn::kX);
  return c.node().as<PoolAttr>().kind == Pooling::kMax
             ? c.make(op::kPoolTangent, {c.in(UnaryIn::kX), tx}, c.node().attr)
             : c.make(op::kPool, {tx}, c.node().attr);
}

// The variable has the elements of x afterwards.
Inputs assign_vjp(const VjpContext& c) { return inputs({c.dy()}); }
Tangents assign_jvp(const JvpContext& c) { return c.t(AssignIn::kX); }

// The indices are constants.
Inputs top_k_vjp(const VjpContext& c) {
  return inputs(
      {c.make(op::kTopKBack, {c.in(UnaryIn::kX), Value(c.y, TopKOut::kIndices),
                              c.cotangents[TopKOut::kValues], c.cotangents[TopKOut::kMass]})});
}
Tangents top_k_jvp(const JvpContext& c) {
  const NodeId tangent =
      c.graph.add(op::kTopKTangent,
                  inputs({c.in(UnaryIn::kX), Value(c.y, TopKOut::kIndices), c.t(UnaryIn::kX)}));
  return {Value(tangent, TopKTangentOut::kValues), kNoValue, Value(tangent, TopKTangentOut::kMass)};
}

constexpr DiffDef kRules[] = {
    {op::kEmbed, embed_vjp, embed_jvp},
    {op::kColumns, columns_vjp, columns_jvp},
    {op::kConcat, concat_vjp, concat_jvp},
    {op::kSelectRows, select_rows_vjp, select_rows_jvp},
    {op::kAssign, assign_vjp, assign_jvp},
    {op::kShift, shift_vjp, shift_jvp},
    {.op = op::kArgmax,
     .no_vjp = "an index is a whole number",
     .no_jvp = "an index is a whole number"},
    {op::kTopK, top_k_vjp, top_k_jvp},
    {op::kPool, pool_vjp, pool_jvp},
};

}  // namespace

DiffTable row_rules() { return kRules; }

}  // namespace veery
