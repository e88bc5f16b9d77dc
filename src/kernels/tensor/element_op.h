// element_op.h: the operations of element programs, for the host and for GPU kernels.
#pragma once
#include <cstdint>

namespace veery {

/// Operations on elements. Unless stated otherwise, result and operands have one type, and integers
/// wrap around.
enum class ElementOp : uint8_t {
  // Any type.
  kCopy,
  kCast,    ///< from Instruction::type to Instruction::to; floats saturate to integers, NaN gives 0
  kSelect,  ///< a (bool) ? b : c; the type is that of b and c
  // bool results.
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kIsNan,
  kIsInfinite,
  // bool and integers; kNot of integers inverts bits.
  kAnd,
  kOr,
  kXor,
  kNot,
  // Integers. Counts of at least the width give 0, or -1 for negative numbers shifted right.
  kShiftLeft,
  kShiftRight,
  // Numbers.
  kAdd,
  kSubtract,
  kMultiply,
  kMinimum,      ///< NaN if one is NaN
  kMaximum,      ///< NaN if one is NaN
  kFloorDivide,  ///< integers: 0 for a divisor of 0
  kRemainder,    ///< has the sign of the divisor; integers: 0 for a divisor of 0
  kPower,        ///< integers: negative exponents give 0 unless the base is 1 or -1
  kNegate,
  kAbsolute,
  kSign,  ///< NaN for NaN
  // Floats.
  kDivide,
  kArctan2,
  kHypot,
  kCopySign,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSin,
  kCos,
  kTan,
  kArcsin,
  kArccos,
  kArctan,
  kSinh,
  kCosh,
  kTanh,
  kArcsinh,
  kArccosh,
  kArctanh,
  kErf,
  kErfinv,
  kSigmoid,
  kFloor,
  kCeil,
  kTruncate,
  kRound,  ///< halves to even
  // f32 to f32: the nearest value of f16 or bf16.
  kRoundF16,
  kRoundBF16,
};
enum class ReduceOp : uint8_t { kSum, kProduct, kMinimum, kMaximum };

}  // namespace veery
