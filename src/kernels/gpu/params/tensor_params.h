// tensor_params.h: parameters of the kernels for tensors (src/tensor).
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Division of numbers below 2^31 by a constant: n * multiplier >> 31 + shift. With
/// 2^shift >= divisor and multiplier = floor(2^(31 + shift) / divisor) + 1 it is exact (Granlund
/// and Montgomery, PLDI 1994).
struct Divisor {
  uint32_t multiplier, shift;
};

/// How the elements of an operand are found.
enum class ElementAccess : uint8_t {
  kContiguous,  ///< in the order of the program; vectors of 4 are aligned
  kRepeated,    ///< all elements are the same one
  kVectors,     ///< aligned vectors of 4 along the last dimension
  kRows,        ///< 4 elements at a time are in one row of the last dimension
  kAny,
};

/// Elements in device memory. `strides` are in elements.
struct ElementOperand {
  VEERY_DEVICE uint8_t* data;
  int64_t strides[8];
  uint8_t type;  ///< veery::ElementType
  ElementAccess access;
};

/// One step of an element program in accumulator form: acc = op(acc, operand, third), then rounded,
/// kept in a slot, and written to an output. Operands are codes of ElementSteps.
struct alignas(8) ElementStep {
  uint8_t op;        ///< veery::ElementOp; kCopy loads the operand
  uint8_t type, to;  ///< veery::ElementType
  uint8_t flags;     ///< of ElementSteps
  uint8_t operand;   ///< the second operand, or kNone
  uint8_t third;     ///< of a selection: a slot or a constant
  uint8_t slot;      ///< that keeps the result, or kNone
  uint8_t output;    ///< that gets the result, or kNone
};

struct ElementSteps {
  VEERY_STATIC int kInputs = 15, kOutputs = 8, kConstants = 24, kSteps = 128, kRank = 8;
  // Codes of operands: slots from 0 on, constants, inputs.
  VEERY_STATIC int kFirstConstant = 64, kFirstInput = 128, kNone = 255;
  // Flags of steps. kUnusual: swapped, precise, a selection, not of f32, or an operation with a
  // constant that has no form of its own. kKeeps: there is a slot or an output.
  VEERY_STATIC int kSwapped = 1, kRoundF16 = 2, kRoundBF16 = 4, kPrecise = 8;
  VEERY_STATIC int kUnusual = 16, kKeeps = 32;

  int64_t size;  ///< elements of the program
  int64_t shape[kRank];
  Divisor divisors[kRank];  ///< of `shape`
  int32_t rank, steps;
  int32_t slots;   ///< in shared memory; two more if a step is kPrecise
  int32_t is_big;  ///< size >= 2^31: divisors cannot be used
  uint64_t constants[kConstants];
  ElementOperand inputs[kInputs], outputs[kOutputs];
  ElementStep code[kSteps];
};

/// A reduction of the accumulator of the last step over the `reduced` last elements of each of
/// `kept`, in chunks (veery::ElementReduction).
struct ElementReduceParams {
  ElementSteps steps;
  int64_t kept, reduced, chunks;
  VEERY_DEVICE uint8_t* results;  ///< [kept][chunks]
  uint64_t neutral;
  int32_t op, type;   ///< veery::ReduceOp, veery::ElementType
  int32_t by_thread;  ///< a thread has a kept element, instead of 16 threads
  int32_t slots;      ///< with those of kPrecise steps; the partial sums of threads are after them
};

/// Combines up to kTreeElements neighbours of each of `rows` rows as a binary tree.
struct ReduceTreeParams {
  const VEERY_DEVICE uint8_t* x;  ///< [rows][count]
  VEERY_DEVICE uint8_t* out;      ///< [rows][count / kTreeElements, rounded up]
  int64_t rows, count;
  int32_t op, type;
};
VEERY_CONSTANT int kTreeElements = 512;

}  // namespace veery::gpu
