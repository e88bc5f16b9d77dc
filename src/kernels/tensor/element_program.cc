#include "kernels/tensor/element_program.h"

#include <algorithm>

namespace veery {
namespace {

using enum ElementOp;

/// The types of the operands of an op.
enum class OpTypes : uint8_t { kAny, kBits, kIntegers, kNumbers, kFloats, kF32Only };

struct ElementOpInfo {
  ElementOp op;
  std::string_view name;
  int operands;
  OpTypes types;
};

constexpr std::array<ElementOpInfo, kElementOps> kOps{{
    {kCopy, "copy", 1, OpTypes::kAny},
    {kCast, "cast", 1, OpTypes::kAny},
    {kSelect, "where", 3, OpTypes::kAny},
    {kEqual, "equal", 2, OpTypes::kAny},
    {kNotEqual, "not_equal", 2, OpTypes::kAny},
    {kLess, "less", 2, OpTypes::kAny},
    {kLessEqual, "less_equal", 2, OpTypes::kAny},
    {kIsNan, "isnan", 1, OpTypes::kFloats},
    {kIsInfinite, "isinf", 1, OpTypes::kFloats},
    {kAnd, "bitwise_and", 2, OpTypes::kBits},
    {kOr, "bitwise_or", 2, OpTypes::kBits},
    {kXor, "bitwise_xor", 2, OpTypes::kBits},
    {kNot, "bitwise_invert", 1, OpTypes::kBits},
    {kShiftLeft, "bitwise_left_shift", 2, OpTypes::kIntegers},
    {kShiftRight, "bitwise_right_shift", 2, OpTypes::kIntegers},
    {kAdd, "add", 2, OpTypes::kNumbers},
    {kSubtract, "subtract", 2, OpTypes::kNumbers},
    {kMultiply, "multiply", 2, OpTypes::kNumbers},
    {kMinimum, "minimum", 2, OpTypes::kNumbers},
    {kMaximum, "maximum", 2, OpTypes::kNumbers},
    {kFloorDivide, "floor_divide", 2, OpTypes::kNumbers},
    {kRemainder, "remainder", 2, OpTypes::kNumbers},
    {kPower, "pow", 2, OpTypes::kNumbers},
    {kNegate, "negative", 1, OpTypes::kNumbers},
    {kAbsolute, "abs", 1, OpTypes::kNumbers},
    {kSign, "sign", 1, OpTypes::kNumbers},
    {kDivide, "divide", 2, OpTypes::kFloats},
    {kArctan2, "atan2", 2, OpTypes::kFloats},
    {kHypot, "hypot", 2, OpTypes::kFloats},
    {kCopySign, "copysign", 2, OpTypes::kFloats},
    {kExp, "exp", 1, OpTypes::kFloats},
    {kExp2, "exp2", 1, OpTypes::kFloats},
    {kExpm1, "expm1", 1, OpTypes::kFloats},
    {kLog, "log", 1, OpTypes::kFloats},
    {kLog2, "log2", 1, OpTypes::kFloats},
    {kLog10, "log10", 1, OpTypes::kFloats},
    {kLog1p, "log1p", 1, OpTypes::kFloats},
    {kSqrt, "sqrt", 1, OpTypes::kFloats},
    {kRsqrt, "rsqrt", 1, OpTypes::kFloats},
    {kReciprocal, "reciprocal", 1, OpTypes::kFloats},
    {kSin, "sin", 1, OpTypes::kFloats},
    {kCos, "cos", 1, OpTypes::kFloats},
    {kTan, "tan", 1, OpTypes::kFloats},
    {kArcsin, "asin", 1, OpTypes::kFloats},
    {kArccos, "acos", 1, OpTypes::kFloats},
    {kArctan, "atan", 1, OpTypes::kFloats},
    {kSinh, "sinh", 1, OpTypes::kFloats},
    {kCosh, "cosh", 1, OpTypes::kFloats},
    {kTanh, "tanh", 1, OpTypes::kFloats},
    {kArcsinh, "asinh", 1, OpTypes::kFloats},
    {kArccosh, "acosh", 1, OpTypes::kFloats},
    {kArctanh, "atanh", 1, OpTypes::kFloats},
    {kErf, "erf", 1, OpTypes::kFloats},
    {kErfinv, "erfinv", 1, OpTypes::kFloats},
    {kSigmoid, "sigmoid", 1, OpTypes::kFloats},
    {kFloor, "floor", 1, OpTypes::kFloats},
    {kCeil, "ceil", 1, OpTypes::kFloats},
    {kTruncate, "trunc", 1, OpTypes::kFloats},
    {kRound, "round", 1, OpTypes::kFloats},
    {kRoundF16, "round_f16", 1, OpTypes::kF32Only},
    {kRoundBF16, "round_bf16", 1, OpTypes::kF32Only},
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

bool is_supported(ElementOp op, ElementType type) {
  switch (info_of(op).types) {
    case OpTypes::kAny: return true;
    case OpTypes::kBits: return !is_float(type);
    case OpTypes::kIntegers: return is_integer(type);
    case OpTypes::kNumbers: return type != ElementType::kBool;
    case OpTypes::kFloats: return is_float(type);
    case OpTypes::kF32Only: return type == ElementType::kF32;
  }
  return false;
}

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
