// element_steps.h: element programs in the form that GPU kernels interpret.
#pragma once
#include <optional>

#include "kernels/gpu/params/tensor_params.h"
#include "kernels/tensor/element_program.h"

namespace veery::gpu {

/// The steps of a program without its reduction, whose register is in the accumulator after the
/// last step.
struct LoweredSteps {
  ElementSteps steps{};
  bool is_wide = false;    ///< some register has 64 bits
  bool is_narrow = false;  ///< all operands have 2 bytes
  bool is_lean = false;  ///< nothing is kPrecise, and operands need no index arithmetic per element
  bool has_precise = false;

  /// Slots in shared memory.
  int slots() const { return steps.slots + (has_precise ? 2 : 0); }
};
/// Nothing if the program has too many operands or steps. `program` is collapsed.
std::optional<LoweredSteps> lower(const ElementProgram& program);

}  // namespace veery::gpu
