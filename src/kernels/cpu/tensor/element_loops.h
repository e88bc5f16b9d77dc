// element_loops.h: the loops of element programs: one op on a tile of elements.
#pragma once
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/tensor/element_program.h"

namespace veery {

/// Computes n elements of `out` from contiguous operands; those that the op lacks are null. `out`
/// may be one of the operands.
using ElementLoop = void (*)(const void* a, const void* b, const void* c, void* out, int64_t n);
/// Returns the loop of an instruction. Throws kBug if there is none for the type.
ElementLoop find_element_loop(Target target, const Instruction& instruction);

/// Combines n contiguous elements with kReduceLanes accumulators, element i with lane
/// i % kReduceLanes.
using ReduceLoop = void (*)(const void* x, int64_t n, void* lanes);
/// The loop and what belongs to it for elements of one type.
struct ReduceKernel {
  ReduceLoop reduce = nullptr;
  /// lanes[i] = op(lanes[i], x[i]) for n elements.
  void (*combine)(const void* x, int64_t n, void* lanes) = nullptr;
  /// Writes the neutral element to n accumulators: the least or greatest value for kMaximum and
  /// kMinimum.
  void (*clear)(void* lanes, int64_t n) = nullptr;
};
/// Throws kBug for bool.
ReduceKernel find_reduce_kernel(Target target, ReduceOp op, ElementType type);

/// Converts n contiguous elements between memory and registers: f16 and bf16 from and to f32.
using TransferLoop = void (*)(const void* from, void* to, int64_t n);
TransferLoop find_load(Target target, ElementType type);   ///< f16 or bf16
TransferLoop find_store(Target target, ElementType type);  ///< f16 or bf16

}  // namespace veery
