#include "plan/variables.h"

#include "base/error.h"
#include "graph/ops/leaf.h"

namespace veery {

void VariableStore::add(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kVariable) continue;
    Operand operand = row_major(node.outputs.types[0]);
    VEERY_CHECK(operand.rows >= 0);
    if (const auto known = operands_.find(node.name); known != operands_.end()) {
      const Operand& there = known->second;
      if (there.rows == operand.rows && there.cols == operand.cols && there.dtype == operand.dtype)
        continue;
      throw Error(ErrorKind::kInput, "variable {} is declared as {} {} x {} and as {} {} x {}",
                  node.name, info(there.dtype).name, there.rows, there.cols,
                  info(operand.dtype).name, operand.rows, operand.cols);
    }
    const auto bytes = static_cast<size_t>(operand.rows * operand.stride);
    operand.data = memory_.emplace_back(device_->allocate(bytes)).data();
    bytes_ += bytes;
    operands_.emplace(node.name, operand);
  }
}

const Operand& VariableStore::at(std::string_view name) const {
  const auto found = operands_.find(name);
  if (found == operands_.end()) throw Error(ErrorKind::kBug, "no graph declares variable {}", name);
  return found->second;
}

const Operand& VariableStore::checked(std::string_view name, const HostType& type,
                                      size_t elements) const {
  const Operand& variable = at(name);
  check_element_type("variable", name, variable.dtype, type);
  const auto count = static_cast<size_t>(variable.rows * variable.cols);
  if (elements != count)
    throw Error(ErrorKind::kBug, "variable {} has {} elements, not {}", name, count, elements);
  return variable;
}

}  // namespace veery
