#include "kernels/tensor/element_program.h"

#include <algorithm>

namespace veery {
namespace {

using enum ElementOp;

struct ElementOpInfo {
  ElementOp op;
  std::string_view name;
  int operands;
};

constexpr std::array<ElementOpInfo, kElementOps> kOps{{
    {kCopy, "copy", 1},
    {kCast, "cast", 1},
    {kSelect, "where", 3},
    {kEqual, "equal", 2},
    {kNotEqual, "not_equal", 2},
    {kLess, "less", 2},
    {kLessEqual, "less_equal", 2},
    {kIsNan, "isnan", 1},
    {kIsInfinite, "isinf", 1},
    {kAnd, "bitwise_and", 2},
    {kOr, "bitwise_or", 2},
    {kXor, "bitwise_xor", 2},
    {kNot, "bitwise_invert", 1},
    {kShiftLeft, "bitwise_left_shift", 2},
    {kShiftRight, "bitwise_right_shift", 2},
    {kAdd, "add", 2},
    {kSubtract, "subtract", 2},
    {kMultiply, "multiply", 2},
    {kMinimum, "minimum", 2},
    {kMaximum, "maximum", 2},
    {kFloorDivide, "floor_divide", 2},
    {kRemainder, "remainder", 2},
    {kPower, "pow", 2},
    {kNegate, "negative", 1},
    {kAbsolute, "abs", 1},
    {kSign, "sign", 1},
    {kDivide, "divide", 2},
    {kArctan2, "atan2", 2},
    {kHypot, "hypot", 2},
    {kCopySign, "copysign", 2},
    {kExp, "exp", 1},
    {kExp2, "exp2", 1},
    {kExpm1, "expm1", 1},
    {kLog, "log", 1},
    {kLog2, "log2", 1},
    {kLog10, "log10", 1},
    {kLog1p, "log1p", 1},
    {kSqrt, "sqrt", 1},
    {kRsqrt, "rsqrt", 1},
    {kReciprocal, "reciprocal", 1},
    {kSin, "sin", 1},
    {kCos, "cos", 1},
    {kTan, "tan", 1},
    {kArcsin, "asin", 1},
    {kArccos, "acos", 1},
    {kArctan, "atan", 1},
    {kSinh, "sinh", 1},
    {kCosh, "cosh", 1},
    {kTanh, "tanh", 1},
    {kArcsinh, "asinh", 1},
    {kArccosh, "acosh", 1},
    {kArctanh, "atanh", 1},
    {kErf, "erf", 1},
    {kErfinv, "erfinv", 1},
    {kSigmoid, "sigmoid", 1},
    {kFloor, "floor", 1},
    {kCeil, "ceil", 1},
    {kTruncate, "trunc", 1},
    {kRound, "round", 1},
    {kRoundF16, "round_f16", 1},
    {kRoundBF16, "round_bf16", 1},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kOps.size(); ++i)
    if (kOps[i].op != static_cast<ElementOp>(i)) return false;
  return true;
}
static_assert(table_is_in_order());

const ElementOpInfo& info_of(ElementOp op) { return kOps[static_cast<size_t>(op)]; }

// Calls fn with the strides of every operand.
template <typename Fn>
void each_strides(ElementProgram& program, const Fn& fn) {
  for (ElementTransfer& in : program.inputs) fn(in.elements.strides);
  for (ElementTransfer& out : program.outputs) fn(out.elements.strides);
  if (program.reduction) fn(program.reduction->out.strides);
}

void remove_dimension(ElementProgram& program, int at) {
  const auto close = [&](std::array<int64_t, kMaxTensorRank>& values) {
    for (int i = at; i + 1 < kMaxTensorRank; ++i)
      values[static_cast<size_t>(i)] = values[static_cast<size_t>(i) + 1];
  };
  close(program.shape);
  each_strides(program, close);
  if (program.reduction && at >= program.rank - program.reduction->dimensions)
    --program.reduction->dimensions;
  --program.rank;
}

// Whether every operand traverses dimensions `at` and `at` + 1 as one.
bool can_merge(ElementProgram& program, int at) {
  if (program.reduction && at + 1 == program.rank - program.reduction->dimensions) return false;
  const auto i = static_cast<size_t>(at);
  bool all = true;
  each_strides(program, [&](const std::array<int64_t, kMaxTensorRank>& strides) {
    all = all && strides[i] == strides[i + 1] * program.shape[i + 1];
  });
  return all;
}

}  // namespace

std::string_view name(ElementOp op) { return info_of(op).name; }
int operand_count(ElementOp op) { return info_of(op).operands; }

int64_t ElementProgram::size() const {
  int64_t size = 1;
  for (int i = 0; i < rank; ++i) size *= shape[static_cast<size_t>(i)];
  return size;
}

void collapse(ElementProgram& program) {
  for (int i = program.rank - 1; i >= 0; --i)
    if (program.shape[static_cast<size_t>(i)] == 1) remove_dimension(program, i);
  for (int i = program.rank - 2; i >= 0; --i) {
    if (!can_merge(program, i)) continue;
    // The merged dimension has the strides of the inner one.
    const auto at = static_cast<size_t>(i);
    program.shape[at + 1] *= program.shape[at];
    remove_dimension(program, i);
  }
}

}  // namespace veery
