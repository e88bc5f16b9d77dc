#include "plan/run_block.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/ops/leaf.h"

namespace veery {

std::vector<InputSpec> inputs_of(const Graph& graph) {
  std::vector<InputSpec> inputs;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kInput) continue;
    const ValueType& type = node.outputs.types[0];
    const auto known = std::ranges::find(inputs, node.name, &InputSpec::name);
    if (known == inputs.end())
      inputs.push_back({node.name, type});
    else if (known->type != type)
      throw Error(ErrorKind::kBug, "input {} is declared as {} {} and as {} {}", node.name,
                  info(known->type.dtype).name, to_string(known->type.shape), info(type.dtype).name,
                  to_string(type.shape));
  }
  return inputs;
}

RunBlock::RunBlock(std::span<const InputSpec> inputs, int32_t rows) : rows_(rows) {
  const auto count = static_cast<size_t>(rows);
  size_t bytes = 0;
  const auto take = [&](size_t size) {
    const size_t offset = bytes;
    bytes += aligned(size);
    return offset;
  };
  const size_t spans = take(count * sizeof(Span)), span_of = take(count * sizeof(int32_t));
  const size_t output_rows = take(count * sizeof(int32_t));
  std::vector<size_t> offsets;
  for (const InputSpec& spec : inputs) {
    const Operand operand = row_major(spec.type);
    offsets.push_back(spec.name == "output_rows"
                          ? output_rows
                          : take(static_cast<size_t>(capacity(operand.rows) * operand.stride)));
    operands_.emplace(spec.name, operand);
  }
  memory_ = Memory(bytes);
  for (size_t i = 0; i < inputs.size(); ++i)
    operands_.find(inputs[i].name)->second.data = memory_.data() + offsets[i];
  spans_ = {reinterpret_cast<Span*>(memory_.data() + spans), count};
  span_of_ = {reinterpret_cast<int32_t*>(memory_.data() + span_of), count};
  output_rows_ = {reinterpret_cast<int32_t*>(memory_.data() + output_rows), count};
  positions_ = find<int32_t>("positions");
  shape.spans = spans_.data();
  shape.span_of = span_of_.data();
  shape.output_rows = output_rows_.data();
}

const Operand& RunBlock::operand(std::string_view name) const {
  const auto found = operands_.find(name);
  if (found == operands_.end()) throw Error(ErrorKind::kBug, "no graph declares input {}", name);
  return found->second;
}

void RunBlock::add_span(int32_t sequence, int32_t rows, int32_t position, int32_t visible) {
  const int32_t first = shape.rows;
  spans_[static_cast<size_t>(shape.span_count)] = {sequence, first, rows, position, visible};
  std::fill_n(span_of_.begin() + first, rows, shape.span_count++);
  if (!positions_.empty())
    std::iota(positions_.begin() + first, positions_.begin() + first + rows, position);
  shape.rows += rows;
}

void check_element_type(std::string_view what, std::string_view name, DType dtype,
                        const HostType& type) {
  const bool is_float = dtype == DType::kF32;
  if (byte_size(dtype, 1) != type.bytes || type.integral == is_float)
    throw Error(ErrorKind::kBug, "{} {} has elements of type {}, but is accessed as {}-byte {}",
                what, name, info(dtype).name, type.bytes, type.integral ? "integers" : "floats");
}

}  // namespace veery
