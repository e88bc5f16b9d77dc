#include "graph/op.h"

#include <algorithm>

#include "graph/graph.h"

namespace veery {

Outputs::Outputs(std::initializer_list<ValueType> list) : count(static_cast<int>(list.size())) {
  VEERY_CHECK(list.size() <= kMaxOutputs);
  std::copy(list.begin(), list.end(), types.begin());
}

const ValueType& OpContext::type(int input) const {
  if (!has(input))
    fail("input " + std::string(op_->inputs[static_cast<size_t>(input)]) + " is missing");
  return graph_.type(in_[static_cast<size_t>(input)]);
}

const Shape& OpContext::same_shape(int a, int b) const {
  const auto name = [&](int i) { return std::string(op_->inputs[static_cast<size_t>(i)]); };
  if (shape(a) != shape(b)) fail(name(a) + " and " + name(b) + " must have one shape");
  return shape(a);
}

void OpContext::fail(const std::string& expected) const {
  std::string saw;
  for (size_t i = 0; i < in_.size(); ++i) {
    if (!in_[i]) continue;
    std::string_view name = op_->inputs[i];
    if (name.ends_with('?')) name.remove_suffix(1);
    saw +=
        fmt::format("{}{} {}", saw.empty() ? "" : ", ", name, to_string(graph_.type(in_[i]).shape));
  }
  throw Error(ErrorKind::kInput, "{}: saw {}; {}", op_->name, saw, expected);
}

double RunSize::operator()(Dim dim) const {
  switch (dim.symbol) {
    case Symbol::kRows: return static_cast<double>(rows);
    case Symbol::kOutputs: return static_cast<double>(outputs);
    case Symbol::kSequences: return static_cast<double>(sequences);
    default: return static_cast<double>(dim.size);
  }
}

}  // namespace veery
