// element_program.h: element-wise programs on strided memory: what a chain of element-wise ops, a
// copy or a reduction of tensors compiles to.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/tensor/element_op.h"
#include "kernels/tensor/element_type.h"

namespace veery {

inline constexpr int kMaxTensorRank = 8;
/// The most registers of an element program. Each register holds one tile of elements.
inline constexpr int kElementRegisters = 24;

inline constexpr int kElementOps = static_cast<int>(ElementOp::kRoundBF16) + 1;

/// The name for messages: "add".
std::string_view name(ElementOp op);
/// The number of operands.
int operand_count(ElementOp op);
/// Whether the result is bool whatever the type of the operands.
constexpr bool is_test(ElementOp op) {
  return op >= ElementOp::kEqual && op <= ElementOp::kIsInfinite;
}
/// out = op(a, b, c) on registers. `type`: of the operands (of kSelect: of b and c).
struct Instruction {
  ElementOp op = ElementOp::kCopy;
  ElementType type = ElementType::kF32;
  ElementType to = ElementType::kF32;  ///< kCast only
  uint8_t out = 0, a = 0, b = 0, c = 0;
  bool operator==(const Instruction&) const = default;
};

/// Elements in memory. `strides` are in elements, one for each dimension of the program; 0 repeats
/// an element.
struct StridedElements {
  std::byte* data = nullptr;
  ElementType type = ElementType::kF32;
  std::array<int64_t, kMaxTensorRank> strides{};
};

/// A scalar in a register. The member that counts depends on the type of the register.
struct ElementConstant {
  uint8_t reg = 0;
  ElementType type = ElementType::kF32;
  double real = 0;
  int64_t integer = 0;
};
/// Elements that are read to a register, or written from one.
struct ElementTransfer {
  uint8_t reg = 0;
  StridedElements elements;
};

/// The reduction of register `reg` over the last `dimensions` dimensions of the program. `out` has
/// strides for the dimensions before them. Sums and products of f32 are taken in f32 in a fixed
/// order: chunks of kReduceChunk elements in the order of the dimensions; in a chunk, 16 lanes,
/// lane i having the elements i, i + 16, ..., then the lanes as a binary tree; chunks as a binary
/// tree.
struct ElementReduction {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kF32;  ///< of the register and of `out`
  uint8_t reg = 0;
  int dimensions = 1;
  StridedElements out;
};
inline constexpr int64_t kReduceChunk = 4096;
inline constexpr int kReduceLanes = 16;

/// Computes `code` for each element of a space of `rank` dimensions. f16 and bf16 are f32 in
/// registers. No instruction writes the register of an input or of a constant. Outputs must not
/// overlap inputs except where both have the same address and strides.
struct ElementProgram {
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> shape{};
  std::vector<ElementTransfer> inputs;
  std::vector<ElementConstant> constants;
  std::vector<Instruction> code;
  std::vector<ElementTransfer> outputs;
  std::optional<ElementReduction> reduction;

  int64_t size() const;  ///< elements of the space
};

/// Merges dimensions that all operands traverse as one and removes those of size 1. Reduced
/// dimensions stay apart from the others.
void collapse(ElementProgram& program);

}  // namespace veery
