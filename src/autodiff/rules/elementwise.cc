#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs add_vjp(const VjpContext& c) { return inputs({c.dy(), c.dy()}); }
Value add_jvp(const JvpContext& c) { return c.sum(c.t(BinaryIn::kA), c.t(BinaryIn::kB)); }

Inputs mul_vjp(const VjpContext& c) {
  Inputs grad{};
  if (c.wants(BinaryIn::kA)) grad[BinaryIn::kA] = c.make(op::kMul, {c.dy(), c.in(BinaryIn::kB)});
  if (c.wants(BinaryIn::kB)) grad[BinaryIn::kB] = c.make(op::kMul, {c.dy(), c.in(BinaryIn::kA)});
  return grad;
}
Value mul_jvp(const JvpContext& c) {
  const auto term = [&](int changes, int other) -> Value {
    return c.t(changes) ? c.make(op::kMul, {c.t(changes), c.in(other)}) : kNoValue;
  };
  return c.sum(term(BinaryIn::kA, BinaryIn::kB), term(BinaryIn::kB, BinaryIn::kA));
}

Inputs mul_row_vjp(const VjpContext& c) {
  const Value row = c.in(MulRowIn::kRow);
  Inputs grad{};
  if (c.wants(MulRowIn::kX)) grad[MulRowIn::kX] = c.make(op::kMulRow, {c.dy(), row});
  if (c.wants(MulRowIn::kRow))
    grad[MulRowIn::kRow] =
        c.make(op::kBiasBack, {c.make(op::kMul, {c.dy(), c.in(MulRowIn::kX)}), row});
  return grad;
}
Value mul_row_jvp(const JvpContext& c) {
  const auto term = [&](Value x, Value row) -> Value {
    return x && row ? c.make(op::kMulRow, {x, row}) : kNoValue;
  };
  return c.sum(term(c.t(MulRowIn::kX), c.in(MulRowIn::kRow)),
               term(c.in(MulRowIn::kX), c.t(MulRowIn::kRow)));
}

Inputs scale_vjp(const VjpContext& c) {
  return inputs({c.make(op::kScale, {c.dy()}, c.node().attr)});
}
Value scale_jvp(const JvpContext& c) {
  return c.make(op::kScale, {c.t(UnaryIn::kX)}, c.node().attr);
}

// Each element depends on its own alone: the Jacobian is diagonal, and its own transpose.
template <const OpDef& kBack>
Inputs diagonal_vjp(const VjpContext& c) {
  return inputs({c.make(kBack, {c.dy(), c.in(UnaryIn::kX)}, c.node().attr)});
}
template <const OpDef& kBack>
Value diagonal_jvp(const JvpContext& c) {
  return c.make(kBack, {c.t(UnaryIn::kX), c.in(UnaryIn::kX)}, c.node().attr);
}

constexpr DiffDef kRules[] = {
    {op::kAdd, add_vjp, add_jvp},
    {op::kMul, mul_vjp, mul_jvp},
    {op::kMulRow, mul_row_vjp, mul_row_jvp},
    {op::kScale, scale_vjp, scale_jvp},
    {op::kActivate, diagonal_vjp<op::kActivateBack>, diagonal_jvp<op::kActivateBack>},
    {op::kSoftcap, diagonal_vjp<op::kSoftcapBack>, diagonal_jvp<op::kSoftcapBack>},
};

}  // namespace

DiffTable elementwise_rules() { return kRules; }

}  // namespace veery
