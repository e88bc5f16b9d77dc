// element_group.h: element-wise nodes that one program computes.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "kernels/tensor/element_program.h"
#include "tensor/node.h"
#include "tensor/reduce.h"

namespace veery::tensor {

/// Element-wise nodes of one shape, each after those that it depends on, and perhaps the reduction
/// of the last one. Inputs that are not members are evaluated, or constants, broadcast or not.
struct ElementGroup {
  std::vector<Node*> members;
  Node* reduction = nullptr;
  std::vector<Node*> results;  ///< members whose values are needed outside

  Node& root() const { return reduction != nullptr ? *reduction : *members.back(); }
};

/// The program of a group, which gets its memory when it runs. It may run several times.
struct GroupProgram {
  ElementProgram program;
  std::vector<int> order;      ///< the dimension of the group that each one of the program is
  std::vector<Tensor> inputs;  ///< of the program
  std::vector<Spec> specs;     ///< of the results, then of the reduction
};
/// Returns nothing if one program has too few registers for all members.
std::optional<GroupProgram> write_program(const ElementGroup& group);
/// Runs a program on operands in the order of its inputs. Returns new data in the order of specs,
/// or nothing if the program is too long for the current device; no program is too long for the
/// CPU.
std::optional<std::vector<Data>> run(GroupProgram made, std::span<const Operand> in);

/// Computes the results of a group and the output of its reduction, and stores them in the nodes.
/// If one program cannot hold all members, they are computed one after the other.
void evaluate(const ElementGroup& group);

/// The program of one operation on evaluated operands.
Data evaluate_one(ElementOp op, std::span<const Operand> in, const Spec& out);
/// The reduction of an evaluated tensor.
Data evaluate_one(const Reduce& reduce, const Operand& in, const Spec& out);
/// Copies elements to memory with any strides; x is cast to the type of `to`.
void copy_elements(const Shape& shape, const Operand& x, std::byte* to, Dtype type,
                   const Strides& strides);

ElementConstant element_constant(uint8_t reg, Dtype type, const Scalar& value);
/// Runs a program on the current device: on the workers of the runtime if it is the CPU. Returns
/// false if it is too long for the device; programs of one operation never are.
bool run(const ElementProgram& program);
void run_whole(const ElementProgram& program);  ///< of one operation
/// The number of a tensor that is a constant or a view of one; null if it is something else.
const Scalar* constant_value(const Tensor& x);

}  // namespace veery::tensor
