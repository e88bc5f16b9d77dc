#include "tensor/element_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "dtype/half.h"
#include "kernels/cpu/tensor/run_program.h"
#include "tensor/devices.h"
#include "tensor/elementwise.h"
#include "tensor/runtime.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

using enum ElementOp;

constexpr uint8_t kNoRegister = 255;

bool is_half(Dtype type) { return type == Dtype::kF16 || type == Dtype::kBF16; }
double rounded(double value, Dtype type) {
  const auto x = static_cast<float>(value);
  return type == Dtype::kF16 ? f16_to_f32(f32_to_f16(x)) : bf16_to_f32(f32_to_bf16(x));
}
ElementOp rounding_to(Dtype type) { return type == Dtype::kF16 ? kRoundF16 : kRoundBF16; }

// Whether the result of an op on f16 or bf16 needs rounding, because it may be none of the
// operands.
bool makes_new_values(ElementOp op) {
  switch (op) {
    case kCopy:
    case kSelect:
    case kMinimum:
    case kMaximum:
    case kNegate:
    case kAbsolute:
    case kSign:
    case kCopySign:
    case kFloor:
    case kCeil:
    case kTruncate:
    case kRound: return false;
    default: return !is_test(op);
  }
}

/// Writes the program of a group, in virtual registers first.
class ProgramWriter {
 public:
  /// The dimensions of the program in the order of `order`: the kept ones first if there is a
  /// reduction.
  ProgramWriter(const Shape& shape, std::vector<int> order) : order_(std::move(order)) {
    program_.rank = static_cast<int>(order_.size());
    for (size_t i = 0; i < order_.size(); ++i)
      program_.shape[i] = shape[static_cast<size_t>(order_[i])];
  }

  StridedElements elements(std::byte* data, Dtype type, const Strides& strides) const {
    StridedElements result{data, element_type(type), {}};
    for (size_t i = 0; i < order_.size(); ++i)
      result.strides[i] = strides[static_cast<size_t>(order_[i])];
    return result;
  }
  size_t input(std::byte* data, Dtype type, const Strides& strides) {
    const size_t reg = fresh(type);
    inputs_.push_back({reg, elements(data, type, strides)});
    return reg;
  }
  size_t constant(const Scalar& value, Dtype type) {
    const size_t reg = fresh(type);
    ElementConstant c = element_constant(0, type, value);
    constants_.push_back({reg, c});
    return reg;
  }
  size_t step(ElementOp op, std::span<const size_t> operands, ElementType type, Dtype result,
              ElementType to = ElementType::kF32) {
    Step made{{.op = op, .type = type, .to = to}, fresh(result), {}};
    std::copy(operands.begin(), operands.end(), made.operands.begin());
    steps_.push_back(made);
    return made.out;
  }
  /// Adds the steps of one node. Returns the register of its result.
  size_t apply(ElementOp op, std::span<const size_t> operands, std::span<const Dtype> types,
               Dtype result) {
    const ElementType to = computed_type(element_type(result));
    if (op == kCast) {
      const ElementType from = computed_type(element_type(types[0]));
      size_t reg = operands[0];
      if (from != to) reg = step(kCast, operands, from, result, to);
      if (!is_half(result) || types[0] == result) return reg;
      return step(rounding_to(result), std::array{reg}, ElementType::kF32, result);
    }
    const ElementType type = computed_type(element_type(types.back()));
    const size_t reg = step(op, operands, type, result);
    if (!is_half(result) || !makes_new_values(op)) return reg;
    return step(rounding_to(result), std::array{reg}, ElementType::kF32, result);
  }
  void output(size_t reg, const StridedElements& to) { outputs_.push_back({reg, to}); }
  void reduce(size_t reg, ElementReduction reduction) {
    program_.reduction = reduction;
    reduced_ = reg;
  }

  /// Returns nothing if there are too few registers.
  std::optional<ElementProgram> take();

 private:
  struct Step {
    Instruction instruction;
    size_t out;
    std::array<size_t, 3> operands{};
  };
  size_t fresh(Dtype type) {
    types_.push_back(computed_type(element_type(type)));
    return types_.size() - 1;
  }
  std::vector<size_t> last_uses() const;

  std::vector<int> order_;
  ElementProgram program_;
  std::vector<ElementType> types_;  ///< of virtual registers
  std::vector<std::pair<size_t, StridedElements>> inputs_, outputs_;
  std::vector<std::pair<size_t, ElementConstant>> constants_;
  std::vector<Step> steps_;
  size_t reduced_ = 0;
};

// By virtual register: the last step that reads it. Inputs and constants are not freed.
std::vector<size_t> ProgramWriter::last_uses() const {
  std::vector<size_t> last(types_.size(), 0);
  for (size_t i = 0; i < steps_.size(); ++i)
    for (int k = 0; k < operand_count(steps_[i].instruction.op); ++k)
      last[steps_[i].operands[static_cast<size_t>(k)]] = i;
  for (const auto& [reg, elements] : outputs_) last[reg] = SIZE_MAX;
  if (program_.reduction) last[reduced_] = SIZE_MAX;
  for (const auto& [reg, elements] : inputs_) last[reg] = SIZE_MAX;
  for (const auto& [reg, value] : constants_) last[reg] = SIZE_MAX;
  return last;
}

std::optional<ElementProgram> ProgramWriter::take() {
  std::vector<uint8_t> at(types_.size(), kNoRegister);
  std::vector<uint8_t> free;
  for (int i = kElementRegisters; i-- > 0;) free.push_back(static_cast<uint8_t>(i));
  const auto assign = [&](size_t reg) {
    if (free.empty()) return false;
    at[reg] = free.back();
    free.pop_back();
    return true;
  };
  for (auto& [reg, elements] : inputs_) {
    if (!assign(reg)) return std::nullopt;
    program_.inputs.push_back({at[reg], elements});
  }
  for (auto& [reg, value] : constants_) {
    if (!assign(reg)) return std::nullopt;
    value.reg = at[reg];
    program_.constants.push_back(value);
  }
  const std::vector<size_t> last = last_uses();
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const auto operands =
        std::span(step.operands).first(static_cast<size_t>(operand_count(step.instruction.op)));
    // A result may replace an operand of its type.
    const auto release = [&](bool same_type) {
      for (size_t k = 0; k < operands.size(); ++k) {
        const size_t reg = operands[k];
        const bool again = std::find(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(k),
                                     reg) != operands.begin() + static_cast<ptrdiff_t>(k);
        if (last[reg] == i && !again && (types_[reg] == types_[step.out]) == same_type)
          free.push_back(at[reg]);
      }
    };
    release(true);
    if (!assign(step.out)) return std::nullopt;
    release(false);
    uint8_t* places[] = {&step.instruction.a, &step.instruction.b, &step.instruction.c};
    for (size_t k = 0; k < operands.size(); ++k) *places[k] = at[operands[k]];
    step.instruction.out = at[step.out];
    program_.code.push_back(step.instruction);
  }
  for (const auto& [reg, elements] : outputs_) program_.outputs.push_back({at[reg], elements});
  if (program_.reduction) program_.reduction->reg = at[reduced_];
  return std::move(program_);
}

std::vector<int> all_dimensions(const Shape& shape) {
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  return order;
}
// The dimensions that a reduction keeps, then those that it reduces.
std::vector<int> reduced_last(const Shape& shape, const std::vector<int>& axes) {
  std::vector<int> order;
  for (const int i : all_dimensions(shape))
    if (!std::binary_search(axes.begin(), axes.end(), i)) order.push_back(i);
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

// Without memory for the output.
ElementReduction reduction_of(const Reduce& reduce, const Spec& out) {
  return {.op = reduce.op(),
          .type = computed_type(element_type(out.dtype)),
          .dimensions = static_cast<int>(reduce.axes().size()),
          .out = {nullptr, element_type(out.dtype), {}}};
}
void set_output(ElementReduction& reduction, const Data& data) {
  reduction.out.data = data.buffer->data();
  std::copy(data.strides.begin(), data.strides.end(), reduction.out.strides.begin());
}

/// The registers of the values that a group has seen.
class GroupWriter {
 public:
  GroupWriter(const ElementGroup& group, ProgramWriter& writer) : writer_(writer) {
    for (const Node* member : group.members) add(*member);
  }
  std::vector<Tensor> take_inputs() { return std::move(inputs_); }
  size_t reg_of(const Node& member) const { return registers_.at({&member, 0}); }
  size_t reg(const Tensor& x) {
    const auto known = registers_.find({x.node().get(), x.output()});
    if (known != registers_.end()) return known->second;
    size_t reg = 0;
    if (const Scalar* value = constant_value(x)) {
      reg = writer_.constant(*value, x.dtype());
    } else {
      reg = writer_.input(nullptr, x.dtype(), Strides(spec(x).shape.size()));
      inputs_.push_back(x);
    }
    return registers_[{x.node().get(), x.output()}] = reg;
  }

 private:
  void add(const Node& member) {
    std::vector<size_t> operands;
    std::vector<Dtype> types;
    for (const Tensor& input : member.inputs) {
      operands.push_back(reg(input));
      types.push_back(input.dtype());
    }
    const auto& op = static_cast<const Elementwise&>(*member.operation);
    registers_[{&member, 0}] = writer_.apply(op.op(), operands, types, member.specs.front().dtype);
  }

  ProgramWriter& writer_;
  std::vector<Tensor> inputs_;
  std::map<std::pair<const Node*, int>, size_t> registers_;
};

bool evaluate_at_once(const ElementGroup& group) {
  std::optional<GroupProgram> made = write_program(group);
  if (!made) return false;
  std::vector<Operand> operands;
  for (const Tensor& x : made->inputs) operands.push_back({&spec(x), &data_of(x)});
  std::optional<std::vector<Data>> results = run(std::move(*made), operands);
  if (!results) return false;
  for (size_t i = 0; i < group.results.size(); ++i)
    group.results[i]->data.push_back(std::move((*results)[i]));
  if (group.reduction != nullptr) group.reduction->data.push_back(std::move(results->back()));
  return true;
}

}  // namespace

std::optional<GroupProgram> write_program(const ElementGroup& group) {
  const Reduce* reduce = group.reduction != nullptr
                             ? static_cast<const Reduce*>(group.reduction->operation.get())
                             : nullptr;
  const Shape& shape = group.members.back()->specs.front().shape;
  GroupProgram made;
  made.order = reduce != nullptr ? reduced_last(shape, reduce->axes()) : all_dimensions(shape);
  ProgramWriter writer(shape, made.order);
  GroupWriter values(group, writer);
  for (const Node* node : group.results) {
    made.specs.push_back(node->specs.front());
    writer.output(values.reg_of(*node),
                  writer.elements(nullptr, node->specs.front().dtype, Strides(shape.size())));
  }
  if (reduce != nullptr) {
    made.specs.push_back(group.reduction->specs.front());
    writer.reduce(values.reg(group.reduction->inputs.front()),
                  reduction_of(*reduce, made.specs.back()));
  }
  std::optional<ElementProgram> program = writer.take();
  if (!program) return std::nullopt;
  made.program = std::move(*program);
  made.inputs = values.take_inputs();
  return made;
}

std::optional<std::vector<Data>> run(GroupProgram made, std::span<const Operand> in) {
  ElementProgram& program = made.program;
  const auto set = [&](StridedElements& elements, std::byte* data, const Strides& strides) {
    elements.data = data;
    for (size_t i = 0; i < made.order.size(); ++i)
      elements.strides[i] = strides[static_cast<size_t>(made.order[i])];
  };
  for (size_t i = 0; i < in.size(); ++i)
    set(program.inputs[i].elements, in[i].first(), in[i].data->strides);
  std::vector<Data> results;
  for (const Spec& spec : made.specs) results.push_back(new_data(spec));
  for (size_t i = 0; i < program.outputs.size(); ++i)
    set(program.outputs[i].elements, results[i].buffer->data(), results[i].strides);
  if (program.reduction) set_output(*program.reduction, results.back());
  if (!run(program)) return std::nullopt;
  return results;
}

void evaluate(const ElementGroup& group) {
  if (evaluate_at_once(group)) return;
  for (Node* member : group.members) {
    const ElementGroup one{{member}, nullptr, {member}};
    evaluate_at_once(one);
  }
  if (group.reduction == nullptr) return;
  const Tensor& x = group.reduction->inputs.front();
  group.reduction->data.push_back(
      evaluate_one(static_cast<const Reduce&>(*group.reduction->operation), {&spec(x), &data_of(x)},
                   group.reduction->specs.front()));
}

Data evaluate_one(ElementOp op, std::span<const Operand> in, const Spec& out) {
  ProgramWriter writer(out.shape, all_dimensions(out.shape));
  std::vector<size_t> operands;
  std::vector<Dtype> types;
  for (const Operand& x : in) {
    operands.push_back(writer.input(x.first(), x.spec->dtype, x.data->strides));
    types.push_back(x.spec->dtype);
  }
  Data data = new_data(out);
  const size_t reg = writer.apply(op, operands, types, out.dtype);
  writer.output(reg, writer.elements(data.buffer->data(), out.dtype, data.strides));
  run_whole(*writer.take());
  return data;
}

Data evaluate_one(const Reduce& reduce, const Operand& in, const Spec& out) {
  ProgramWriter writer(in.spec->shape, reduced_last(in.spec->shape, reduce.axes()));
  Data data = new_data(out);
  const size_t reg = writer.input(in.first(), in.spec->dtype, in.data->strides);
  ElementReduction reduction = reduction_of(reduce, out);
  set_output(reduction, data);
  writer.reduce(reg, reduction);
  run_whole(*writer.take());
  return data;
}

void copy_elements(const Shape& shape, const Operand& x, std::byte* to, Dtype type,
                   const Strides& strides) {
  ProgramWriter writer(shape, all_dimensions(shape));
  const size_t reg = writer.input(x.first(), x.spec->dtype, x.data->strides);
  const size_t cast = writer.apply(kCast, std::array{reg}, std::array{x.spec->dtype}, type);
  writer.output(cast, writer.elements(to, type, strides));
  run_whole(*writer.take());
}

ElementConstant element_constant(uint8_t reg, Dtype type, const Scalar& value) {
  ElementConstant c{.reg = reg, .type = computed_type(element_type(type))};
  c.integer = value.integer();
  // A constant of f16 or bf16 has the value that such a type can hold.
  c.real = is_half(type) ? rounded(value.real(), type) : value.real();
  return c;
}

bool run(const ElementProgram& program) {
  if (TensorDevice* kernels = current_kernels()) return kernels->run(program);
  Runtime& runtime = Runtime::get();
  run_program(program, runtime.target(), runtime.pool());
  return true;
}
void run_whole(const ElementProgram& program) { VEERY_CHECK(run(program)); }

const Scalar* constant_value(const Tensor& x) {
  const Operation* made_by = x.node()->operation.get();
  if (const auto* constant = dynamic_cast<const Constant*>(made_by)) return &constant->value();
  if (dynamic_cast<const View*>(made_by) != nullptr && !x.node()->inputs.empty())
    return constant_value(x.node()->inputs.front());
  return nullptr;
}

}  // namespace veery::tensor
