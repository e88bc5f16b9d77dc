#include "kernels/gpu/tensor/element_steps.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/error.h"

namespace veery::gpu {
namespace {

using enum ElementOp;

constexpr int kNone = ElementSteps::kNone;

Divisor divisor(int64_t by) {
  const auto d = static_cast<uint64_t>(std::max<int64_t>(by, 1));
  const int shift = d == 1 ? 0 : 64 - std::countl_zero(d - 1);
  return {static_cast<uint32_t>((uint64_t{1} << (31 + shift)) / d + 1),
          static_cast<uint32_t>(shift)};
}

// Steps that the kernels compute one element at a time, because they are long.
bool is_precise(const Instruction& i) {
  if (i.op == kCast) return true;
  const bool is_divided = i.op == kFloorDivide || i.op == kRemainder || i.op == kPower;
  if (!is_float(i.type)) return is_divided;
  if (i.op <= kIsInfinite || (i.op >= kAdd && i.op <= kMaximum) ||
      (i.op >= kNegate && i.op <= kSign))
    return false;
  if (i.type == ElementType::kF64) return true;
  switch (i.op) {
    case kDivide:
    case kCopySign:
    case kSqrt:
    case kRsqrt:
    case kReciprocal:
    case kExp:
    case kLog:
    case kTanh:
    case kSigmoid:
    case kFloor:
    case kCeil:
    case kTruncate:
    case kRound:
    case kRoundF16:
    case kRoundBF16: return false;
    default: return true;
  }
}

bool is_wide(ElementType type) { return type == ElementType::kI64 || type == ElementType::kF64; }

ElementAccess access_of(const ElementProgram& program, const StridedElements& x) {
  const auto at = [&](int d) { return x.strides[static_cast<size_t>(d)]; };
  const int bytes = info(x.type).bytes;
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(std::min(4 * bytes, 16)) == 0;
  bool contiguous = true, repeated = true, aligned_rows = is_aligned;
  int64_t next = 1;
  for (int d = program.rank - 1; d >= 0; --d) {
    contiguous = contiguous && at(d) == next;
    repeated = repeated && at(d) == 0;
    aligned_rows = aligned_rows && (d == program.rank - 1 ? at(d) == 1 : at(d) % 4 == 0);
    next *= program.shape[static_cast<size_t>(d)];
  }
  if (contiguous && is_aligned) return ElementAccess::kContiguous;
  if (repeated) return ElementAccess::kRepeated;
  const bool in_rows =
      program.rank > 0 && program.shape[static_cast<size_t>(program.rank - 1)] % 4 == 0;
  if (in_rows && aligned_rows) return ElementAccess::kVectors;
  return in_rows ? ElementAccess::kRows : ElementAccess::kAny;
}

ElementOperand operand_of(const ElementProgram& program, const StridedElements& x) {
  ElementOperand result{
      reinterpret_cast<uint8_t*>(x.data), {}, static_cast<uint8_t>(x.type), access_of(program, x)};
  std::copy_n(x.strides.begin(), program.rank, result.strides);
  return result;
}

uint64_t constant_word(const ElementConstant& c) {
  if (c.type == ElementType::kF64) return std::bit_cast<uint64_t>(c.real);
  if (is_float(c.type)) return std::bit_cast<uint32_t>(static_cast<float>(c.real));
  switch (c.type) {
    case ElementType::kI8: return static_cast<uint64_t>(static_cast<int8_t>(c.integer));
    case ElementType::kI32: return static_cast<uint64_t>(static_cast<int32_t>(c.integer));
    case ElementType::kI64: return static_cast<uint64_t>(c.integer);
    case ElementType::kU32: return static_cast<uint32_t>(c.integer);
    default: return static_cast<uint8_t>(c.integer);
  }
}

/// Writes the steps. Values are defined by instructions, inputs and constants; a register may hold
/// several values one after the other.
class StepWriter {
 public:
  explicit StepWriter(const ElementProgram& program) : program_(program) {
    at_.fill(kNone);
    for (size_t i = 0; i < program.inputs.size(); ++i)
      at_[program.inputs[i].reg] = ElementSteps::kFirstInput + static_cast<int>(i);
    for (size_t i = 0; i < program.constants.size(); ++i)
      at_[program.constants[i].reg] = ElementSteps::kFirstConstant + static_cast<int>(i);
  }

  bool write() {
    if (program_.inputs.size() > size_t{ElementSteps::kInputs} ||
        program_.outputs.size() > size_t{ElementSteps::kOutputs} ||
        program_.constants.size() > size_t{ElementSteps::kConstants})
      return false;
    for (const ElementTransfer& in : program_.inputs)
      if (uses_from(0, in.reg) > 1) bring_to_slot(in.reg);
    for (size_t i = 0; i < program_.code.size(); ++i) write(i);
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      if (!is_stored_[k]) store(k);
    if (program_.reduction) bring(program_.reduction->reg);
    return steps_.size() <= size_t{ElementSteps::kSteps} &&
           slots_.size() + 2 <= size_t{ElementSteps::kFirstConstant};
  }
  std::vector<ElementStep> steps() const {
    std::vector<ElementStep> steps = steps_;
    for (ElementStep& step : steps) {
      if (is_unusual(step)) step.flags |= ElementSteps::kUnusual;
      if (step.slot != kNone || step.output != kNone) step.flags |= ElementSteps::kKeeps;
    }
    return steps;
  }
  int slots() const { return static_cast<int>(slots_.size()); }
  bool has_precise() const { return has_precise_; }

 private:
  static bool is_unusual(const ElementStep& step) {
    const auto op = static_cast<ElementOp>(step.op);
    if ((step.flags & (ElementSteps::kSwapped | ElementSteps::kPrecise)) != 0 || op == kSelect ||
        static_cast<ElementType>(step.type) != ElementType::kF32)
      return true;
    if (op == kCopy) return step.operand < ElementSteps::kFirstInput || step.operand == kNone;
    const bool is_constant =
        step.operand >= ElementSteps::kFirstConstant && step.operand < ElementSteps::kFirstInput;
    return is_constant && op != kAdd && op != kSubtract && op != kMultiply && op != kDivide &&
           op != kMinimum && op != kMaximum;
  }
  static bool reads(const Instruction& i, uint8_t reg) {
    const uint8_t operands[] = {i.a, i.b, i.c};
    return std::find(operands, operands + operand_count(i.op), reg) !=
           operands + operand_count(i.op);
  }
  // How often the value that `reg` holds before instruction `first` is still needed.
  int uses_from(size_t first, uint8_t reg) const {
    int uses = 0;
    for (size_t i = first; i < program_.code.size(); ++i) {
      const Instruction& code = program_.code[i];
      if (reads(code, reg)) uses += operand_count(code.op) == 2 && code.a == code.b ? 2 : 1;
      if (code.out == reg) return uses;
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      uses += program_.outputs[k].reg == reg && !is_stored_[k] ? 1 : 0;
    return uses + (program_.reduction && program_.reduction->reg == reg ? 1 : 0);
  }
  int new_slot() {
    const auto free = std::find(slots_.begin(), slots_.end(), false);
    if (free != slots_.end()) {
      *free = true;
      return static_cast<int>(free - slots_.begin());
    }
    slots_.push_back(true);
    return static_cast<int>(slots_.size()) - 1;
  }
  ElementStep& add(ElementOp op, ElementType type, int operand) {
    steps_.push_back({static_cast<uint8_t>(op), static_cast<uint8_t>(type), 0, 0,
                      static_cast<uint8_t>(operand), kNone, kNone, kNone});
    return steps_.back();
  }
  // Brings the value of a register to the accumulator, whose own value is kept if it is needed.
  void bring(uint8_t reg) {
    if (acc_ == reg) return;
    if (acc_ >= 0 && uses_from(now_, static_cast<uint8_t>(acc_)) > 0) keep();
    VEERY_CHECK(at_[reg] != kNone);
    add(kCopy, ElementType::kF32, at_[reg]);
    acc_ = reg;
  }
  // Keeps the accumulator in a slot.
  void keep() {
    if (at_[static_cast<size_t>(acc_)] < ElementSteps::kFirstInput) return;
    const int slot = new_slot();
    if (steps_.back().slot != kNone) add(kCopy, ElementType::kF32, kNone);
    steps_.back().slot = static_cast<uint8_t>(slot);
    at_[static_cast<size_t>(acc_)] = slot;
  }
  // An input that is used more than once is read once. So is the third operand of a selection.
  void bring_to_slot(uint8_t reg) {
    if (at_[reg] < ElementSteps::kFirstInput) return;
    bring(reg);
    keep();
  }
  void store(size_t output) {
    bring(program_.outputs[output].reg);
    if (steps_.back().output != kNone) add(kCopy, ElementType::kF32, kNone);
    steps_.back().output = static_cast<uint8_t>(output);
    is_stored_[output] = true;
  }

  void write(size_t at) {
    now_ = at;
    const Instruction& i = program_.code[at];
    const int operands = operand_count(i.op);
    uint8_t first = i.a, second = i.b;
    const bool swapped = operands == 2 && acc_ == i.b;
    if (swapped) std::swap(first, second);
    if (i.op == kSelect) bring_to_slot(i.c);
    bring(first);
    const bool is_later = i.out != first && uses_from(at + 1, first) > 0;
    const bool is_again = operands > 1 && second == first;
    if (at_[first] == kNone && (is_later || is_again)) keep();
    const bool is_rounding = i.op == kRoundF16 || i.op == kRoundBF16;
    if (is_rounding && can_round(steps_.back()))
      steps_.back().flags |= rounding_flag(i.op);
    else
      write_step(i, operands > 1 ? at_[second] : kNone, swapped);
    release(at, i);
    acc_ = i.out;
    at_[i.out] = kNone;
    store_result(at, i.out);
  }
  static uint8_t rounding_flag(ElementOp op) {
    return op == kRoundF16 ? ElementSteps::kRoundF16 : ElementSteps::kRoundBF16;
  }
  // Whether nothing needs the result of a step that is not rounded.
  static bool can_round(const ElementStep& step) {
    return (step.flags & (ElementSteps::kRoundF16 | ElementSteps::kRoundBF16)) == 0 &&
           step.slot == kNone && step.output == kNone;
  }
  void write_step(const Instruction& i, int operand, bool swapped) {
    const bool is_rounding = i.op == kRoundF16 || i.op == kRoundBF16;
    ElementStep& step = add(is_rounding ? kCopy : i.op, i.type, operand);
    if (is_rounding) step.flags |= rounding_flag(i.op);
    step.to = static_cast<uint8_t>(i.to);
    if (i.op == kSelect) step.third = static_cast<uint8_t>(at_[i.c]);
    if (swapped) step.flags |= ElementSteps::kSwapped;
    if (is_precise(i)) step.flags |= ElementSteps::kPrecise, has_precise_ = true;
  }
  // Slots of values that instruction `at` reads last.
  void release(size_t at, const Instruction& i) {
    const uint8_t operands[] = {i.a, i.b, i.c};
    for (int k = 0; k < operand_count(i.op); ++k) {
      const int slot = at_[operands[k]];
      if (slot >= ElementSteps::kFirstConstant) continue;
      if (operands[k] == i.out || uses_from(at + 1, operands[k]) == 0) {
        slots_[static_cast<size_t>(slot)] = false;
        at_[operands[k]] = kNone;
      }
    }
  }
  // Writes the result of instruction `at` to the outputs that are it.
  void store_result(size_t at, uint8_t reg) {
    now_ = at + 1;
    for (size_t later = at + 1; later < program_.code.size(); ++later)
      if (program_.code[later].out == reg) return;  // another value of the register
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      if (program_.outputs[k].reg == reg) store(k);
  }

  const ElementProgram& program_;
  std::vector<ElementStep> steps_;
  std::array<int, 256> at_{};  ///< by register: code of its slot, constant or input; or kNone
  int acc_ = -1;               ///< the register in the accumulator
  size_t now_ = 0;             ///< the instruction that is being written
  std::vector<bool> slots_;    ///< in use
  std::array<bool, 64> is_stored_{};
  bool has_precise_ = false;
};

}  // namespace

std::optional<LoweredSteps> lower(const ElementProgram& program) {
  StepWriter writer(program);
  if (!writer.write()) return std::nullopt;
  LoweredSteps result;
  ElementSteps& steps = result.steps;
  steps.size = program.size();
  steps.is_big = steps.size >= int64_t{1} << 31 ? 1 : 0;
  steps.rank = program.rank;
  for (int d = 0; d < program.rank; ++d) {
    steps.shape[d] = program.shape[static_cast<size_t>(d)];
    if (steps.is_big == 0) steps.divisors[d] = divisor(steps.shape[d]);
  }
  result.is_narrow = true;
  result.is_lean = !writer.has_precise();
  const auto operand = [&](const StridedElements& x, bool is_input) {
    result.is_wide = result.is_wide || is_wide(x.type);
    result.is_narrow = result.is_narrow && info(x.type).bytes == 2;
    const ElementOperand made = operand_of(program, x);
    result.is_lean = result.is_lean && (made.access == ElementAccess::kContiguous ||
                                        made.access == ElementAccess::kVectors ||
                                        (is_input && made.access == ElementAccess::kRepeated));
    return made;
  };
  for (size_t i = 0; i < program.inputs.size(); ++i)
    steps.inputs[i] = operand(program.inputs[i].elements, true);
  for (size_t i = 0; i < program.outputs.size(); ++i)
    steps.outputs[i] = operand(program.outputs[i].elements, false);
  for (size_t i = 0; i < program.constants.size(); ++i) {
    steps.constants[i] = constant_word(program.constants[i]);
    result.is_wide = result.is_wide || is_wide(program.constants[i].type);
  }
  for (const Instruction& i : program.code)
    result.is_wide = result.is_wide || is_wide(i.type) || (i.op == kCast && is_wide(i.to));
  const std::vector<ElementStep> code = writer.steps();
  std::copy(code.begin(), code.end(), steps.code);
  steps.steps = static_cast<int32_t>(code.size());
  steps.slots = writer.slots();
  result.has_precise = writer.has_precise();
  return result;
}

}  // namespace veery::gpu
