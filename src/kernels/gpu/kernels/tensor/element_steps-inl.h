// element_steps-inl.h: the interpreter of element programs.
//
// A thread has kElements elements. Each step is decoded once per warp, because all threads read the
// same step from constant memory, and is then applied to all elements of the thread in registers.
// The accumulator of the steps stays in registers; other live values are in shared memory, where
// each thread has places of its own, so that nothing synchronises.
#pragma once
#include "kernels/gpu/kernels/tensor/element_functions-inl.h"
#include "kernels/gpu/params/tensor_params.h"

namespace veery::gpu {

VEERY_GPU uint32_t divide_index(uint32_t n, Divisor by) {
  return static_cast<uint32_t>(static_cast<uint64_t>(n) * by.multiplier >> (31 + by.shift));
}

/// The offset of element e, in the order of the program.
VEERY_GPU int64_t offset_of(const ElementSteps& a, const ElementOperand& operand, int64_t e) {
  int64_t offset = 0;
  if (a.is_big != 0) {
    for (int d = a.rank - 1; d > 0; --d) {
      const int64_t rest = e / a.shape[d];
      offset += (e - rest * a.shape[d]) * operand.strides[d];
      e = rest;
    }
    return offset + e * operand.strides[0];
  }
  auto n = static_cast<uint32_t>(e);
  for (int d = a.rank - 1; d > 0; --d) {
    const uint32_t rest = divide_index(n, a.divisors[d]);
    offset += (n - rest * static_cast<uint32_t>(a.shape[d])) * operand.strides[d];
    n = rest;
  }
  return offset + n * operand.strides[0];
}

/// Four elements of one type in memory.
template <typename Word>
VEERY_GPU void load_four(ElementType type, const uint8_t* data, int64_t at, Word* to) {
  switch (type) {
    case ElementType::kF32:
    case ElementType::kI32:
    case ElementType::kU32: {
      const auto four = load<Four<uint32_t>>(data + at * 4);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
      const bool is_signed = type == ElementType::kI32;
      for (int i = 0; i < 4; ++i)
        to[i] = is_signed ? to_word<Word>(static_cast<int32_t>(words[i])) : Word{words[i]};
      return;
    }
    case ElementType::kF16:
    case ElementType::kBF16: {
      const auto two = load<Two<uint32_t>>(data + at * 2);
      const uint32_t words[2] = {two.x, two.y};
      if (type == ElementType::kBF16) {
        for (int i = 0; i < 2; ++i) to[2 * i] = words[i] << 16, to[2 * i + 1] = words[i] & ~0xffffU;
      } else {
        for (int i = 0; i < 4; ++i)
          to[i] = to_word<Word>(f16_to_float(static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2))));
      }
      return;
    }
    case ElementType::kI64:
    case ElementType::kF64:
      for (int i = 0; i < 4; ++i) to[i] = load_word<Word>(type, data, at + i);
      return;
    default: {
      const auto bytes = load<uint32_t>(data + at);
      const bool is_signed = type == ElementType::kI8;
      for (int i = 0; i < 4; ++i) {
        const auto byte = static_cast<uint8_t>(bytes >> 8 * i);
        to[i] = is_signed ? to_word<Word>(static_cast<int8_t>(byte)) : Word{byte};
      }
    }
  }
}
template <typename Word>
VEERY_GPU void store_four(ElementType type, uint8_t* data, int64_t at, const Word* x) {
  uint32_t w[4];
  for (int i = 0; i < 4; ++i) w[i] = static_cast<uint32_t>(x[i]);
  switch (type) {
    case ElementType::kF32:
    case ElementType::kI32:
    case ElementType::kU32:
      *reinterpret_cast<Four<uint32_t>*>(data + at * 4) = {w[0], w[1], w[2], w[3]};
      return;
    case ElementType::kF16:
      for (int i = 0; i < 4; ++i) w[i] = uint32_t{float_to_f16(from_word<float>(x[i]))} << 16;
      [[fallthrough]];
    case ElementType::kBF16:
      *reinterpret_cast<Two<uint32_t>*>(data + at * 2) = {w[0] >> 16 | (w[1] & ~0xffffU),
                                                          w[2] >> 16 | (w[3] & ~0xffffU)};
      return;
    case ElementType::kI64:
    case ElementType::kF64:
      for (int i = 0; i < 4; ++i) store_word(type, data, at + i, x[i]);
      return;
    default:
      *reinterpret_cast<uint32_t*>(data + at) =
          (w[0] & 0xffU) | (w[1] & 0xffU) << 8 | (w[2] & 0xffU) << 16 | w[3] << 24;
  }
}

/// The elements of a thread: element i of the thread is element at(i) of the program, if there is
/// one. kVectors: elements 4 i to 4 i + 3 are neighbours, and at(4 i) is a multiple of 4.
struct VectorElements {
  static constexpr bool kVectors = true;
  int64_t first, size;
  int threads;
  VEERY_GPU int64_t at(int i) const { return first + int64_t{i / 4} * threads * 4 + i % 4; }
  VEERY_GPU bool has(int i) const { return at(i) < size; }
};
/// Elements `step` apart, of which `count` are there.
struct SpacedElements {
  static constexpr bool kVectors = false;
  int64_t first;
  int step, count;
  VEERY_GPU int64_t at(int i) const { return first + int64_t{i} * step; }
  VEERY_GPU bool has(int i) const { return i < count; }
};

/// kLean: no step is kPrecise, and operands are contiguous, repeated or aligned vectors, which
/// takes fewer registers.
template <typename Word, int kElements, typename Elements, bool kLean = false>
class ElementInterpreter {
 public:
  VEERY_GPU explicit ElementInterpreter(const ElementSteps& a) : a_(a) {}

  /// Leaves the result of the last step in value(). The usual steps, of f32, take few branches.
  VEERY_GPU void run(const Elements& elements) {
    elements_ = elements;
    for (int s = 0; s < a_.steps; ++s) {
      const ElementStep step = a_.code[s];
      if ((step.flags & ElementSteps::kUnusual) != 0) {
        run_unusual(step);
      } else if (step.operand >= ElementSteps::kFirstConstant &&
                 step.operand < ElementSteps::kFirstInput) {
        run_with_number(static_cast<ElementOp>(step.op), constant(step.operand));
      } else {
        if (step.operand != ElementSteps::kNone) fetch(step.operand);
        run_f32(static_cast<ElementOp>(step.op));
      }
      if ((step.flags & (ElementSteps::kRoundF16 | ElementSteps::kRoundBF16)) != 0)
        round(step.flags);
      if ((step.flags & ElementSteps::kKeeps) != 0) {
        if (step.slot != ElementSteps::kNone) save(step.slot, acc_);
        if (step.output != ElementSteps::kNone) store(a_.outputs[step.output]);
      }
    }
  }
  VEERY_GPU Word value(int i) const { return acc_[i]; }

 private:
  // Slots: [slot][elements / 4][thread][4].
  VEERY_GPU Word* slot(int index, int i) const {
    return reinterpret_cast<Word*>(shared_memory()) +
           ((int64_t{index} * (kElements / 4) + i / 4) * threads() + thread()) * 4 + i % 4;
  }
  VEERY_GPU void save(int index, const Word (&x)[kElements]) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kElements; i += 4)
      *reinterpret_cast<Four<Word>*>(slot(index, i)) = {x[i], x[i + 1], x[i + 2], x[i + 3]};
  }
  VEERY_GPU void load_slot(int index, Word (&to)[kElements]) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kElements; i += 4) {
      const auto four = load_shared<Four<Word>>(slot(index, i));
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  }
  VEERY_GPU Word constant(int operand) const {
    return static_cast<Word>(a_.constants[operand - ElementSteps::kFirstConstant]);
  }
  VEERY_GPU void fetch(int operand) {
    if (operand >= ElementSteps::kFirstInput)
      fetch_input(a_.inputs[operand - ElementSteps::kFirstInput]);
    else if (operand >= ElementSteps::kFirstConstant)
      fill(constant(operand));
    else
      load_slot(operand, b_);
  }
  VEERY_GPU void fill(Word value) {
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i) b_[i] = value;
  }
  VEERY_GPU void fetch_input(const ElementOperand& in) {
    const auto type = static_cast<ElementType>(in.type);
    if (in.access == ElementAccess::kRepeated) {
      fill(load_word<Word>(type, in.data, 0));
      return;
    }
    if constexpr (Elements::kVectors) {
      const bool contiguous = in.access == ElementAccess::kContiguous;
      if (contiguous || in.access == ElementAccess::kVectors) {
        VEERY_UNROLL(4)
        for (int i = 0; i < kElements; i += 4) {
          const int64_t e = elements_.at(i);
          if (e + 4 <= elements_.size)
            load_four(type, in.data, contiguous ? e : offset_of(a_, in, e), b_ + i);
          else if (e < elements_.size)
            fetch_single(in, type, i);
        }
        return;
      }
      if constexpr (kLean) return;
      if (in.access == ElementAccess::kRows) {
        const int64_t step = in.strides[a_.rank - 1];
        VEERY_UNROLL(4)
        for (int i = 0; i < kElements; i += 4) {
          if (!elements_.has(i)) continue;
          const int64_t first = offset_of(a_, in, elements_.at(i));
          VEERY_UNROLL(4)
          for (int k = 0; k < 4; ++k) b_[i + k] = load_word<Word>(type, in.data, first + k * step);
        }
        return;
      }
    }
    if constexpr (!Elements::kVectors)
      if (in.access == ElementAccess::kContiguous && elements_.has(kElements - 1) &&
          fetch_spaced(in.data, type))
        return;
    if (type == ElementType::kF32) {
      const auto* from = reinterpret_cast<const uint32_t*>(in.data);
      fetch_each(in, [&](int64_t at) { return Word{from[at]}; });
    } else {
      fetch_each(in, [&](int64_t at) { return load_word<Word>(type, in.data, at); });
    }
  }
  template <typename Load>
  VEERY_GPU void fetch_each(const ElementOperand& in, const Load& load_at) {
    const bool contiguous = in.access == ElementAccess::kContiguous;
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i) {
      if (!elements_.has(i)) continue;
      const int64_t e = elements_.at(i);
      b_[i] = load_at(contiguous ? e : offset_of(a_, in, e));
    }
  }
  // All elements, with one branch on the type. Returns false for the less usual ones.
  VEERY_GPU bool fetch_spaced(const uint8_t* data, ElementType type) {
    if (type == ElementType::kF32) {
      const auto* from = reinterpret_cast<const uint32_t*>(data) + elements_.first;
      VEERY_UNROLL(8)
      for (int i = 0; i < kElements; ++i) b_[i] = from[i * elements_.step];
    } else if (type == ElementType::kBF16) {
      const auto* from = reinterpret_cast<const uint16_t*>(data) + elements_.first;
      VEERY_UNROLL(8)
      for (int i = 0; i < kElements; ++i) b_[i] = Word{from[i * elements_.step]} << 16;
    } else {
      return false;
    }
    return true;
  }
  // The elements of a vector that are there, one by one.
  VEERY_GPU void fetch_single(const ElementOperand& in, ElementType type, int first) {
    VEERY_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      if (!elements_.has(first + k)) continue;
      const int64_t e = elements_.at(first + k);
      b_[first + k] = load_word<Word>(
          type, in.data,
          kLean || in.access == ElementAccess::kContiguous ? e : offset_of(a_, in, e));
    }
  }
  VEERY_GPU void store(const ElementOperand& out) {
    const auto type = static_cast<ElementType>(out.type);
    const bool contiguous = out.access == ElementAccess::kContiguous;
    VEERY_UNROLL(4)
    for (int i = 0; i < kElements; i += 4) {
      if constexpr (Elements::kVectors) {
        const int64_t e = elements_.at(i);
        if ((contiguous || out.access == ElementAccess::kVectors) && e + 4 <= elements_.size) {
          store_four(type, out.data, contiguous ? e : offset_of(a_, out, e), acc_ + i);
          continue;
        }
      }
      VEERY_UNROLL(4)
      for (int k = 0; k < 4; ++k) {
        if (!elements_.has(i + k)) continue;
        const int64_t e = elements_.at(i + k);
        store_word(type, out.data, kLean || contiguous ? e : offset_of(a_, out, e), acc_[i + k]);
      }
    }
  }

  // One instance of the functions, in a loop that is not unrolled; its operands are in shared
  // memory because registers have no index.
  VEERY_GPU void run_precise(ElementStep step) {
    save(a_.slots, acc_);
    if (step.operand != ElementSteps::kNone) save(a_.slots + 1, b_);
    VEERY_UNROLL(1)
    for (int i = 0; i < kElements; ++i) {
      Word* const x = slot(a_.slots, i);
      const Word y = step.operand != ElementSteps::kNone ? *slot(a_.slots + 1, i) : Word{0};
      *x = precise_step(step, *x, y);
    }
    load_slot(a_.slots, acc_);
  }
  VEERY_GPU void round(uint8_t flags) {
    if ((flags & ElementSteps::kRoundBF16) != 0) {
      VEERY_UNROLL(8)
      for (int i = 0; i < kElements; i += 2) {
        float x = from_word<float>(acc_[i]), y = from_word<float>(acc_[i + 1]);
        round_pair_to_bf16(x, y);
        acc_[i] = to_word<Word>(x);
        acc_[i + 1] = to_word<Word>(y);
      }
    } else if ((flags & ElementSteps::kRoundF16) != 0) {
      VEERY_UNROLL(16)
      for (int i = 0; i < kElements; ++i)
        acc_[i] = to_word<Word>(f16_to_float(float_to_f16(from_word<float>(acc_[i]))));
    }
  }

  template <typename T, typename Fn>
  VEERY_GPU void unary(const Fn& fn) {
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i) acc_[i] = to_word<Word>(fn(from_word<T>(acc_[i])));
  }
  template <typename T, typename Fn>
  VEERY_GPU void binary(const Fn& fn) {
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i)
      acc_[i] = to_word<Word>(fn(from_word<T>(acc_[i]), from_word<T>(b_[i])));
  }
  template <typename T, typename Fn>
  VEERY_GPU void test(const Fn& fn) {
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i)
      acc_[i] = fn(from_word<T>(acc_[i]), from_word<T>(b_[i])) ? 1 : 0;
  }
  VEERY_GPU void select(int third) {
    VEERY_UNROLL(4)
    for (int i = 0; i < kElements; i += 4) {
      Four<Word> no;
      if (third < ElementSteps::kFirstConstant)
        no = load_shared<Four<Word>>(slot(third, i));
      else
        no.x = no.y = no.z = no.w = constant(third);
      acc_[i] = acc_[i] != 0 ? b_[i] : no.x;
      acc_[i + 1] = acc_[i + 1] != 0 ? b_[i + 1] : no.y;
      acc_[i + 2] = acc_[i + 2] != 0 ? b_[i + 2] : no.z;
      acc_[i + 3] = acc_[i + 3] != 0 ? b_[i + 3] : no.w;
    }
  }
  VEERY_GPU void copy_operand() {
    VEERY_UNROLL(16)
    for (int i = 0; i < kElements; ++i) acc_[i] = b_[i];
  }

  VEERY_GPU void run_unusual(ElementStep step) {
    if (step.operand != ElementSteps::kNone) fetch(step.operand);
    if ((step.flags & ElementSteps::kSwapped) != 0) {
      VEERY_UNROLL(16)
      for (int i = 0; i < kElements; ++i) {
        const Word own = acc_[i];
        acc_[i] = b_[i];
        b_[i] = own;
      }
    }
    if constexpr (!kLean)
      if ((step.flags & ElementSteps::kPrecise) != 0) return run_precise(step);
    run_step(step);
  }
  VEERY_GPU void run_step(ElementStep step) {
    const auto op = static_cast<ElementOp>(step.op);
    if (op == kSelect) return select(step.third);
    if (op == kCopy) {
      if (step.operand != ElementSteps::kNone) copy_operand();
      return;
    }
    const auto type = static_cast<ElementType>(step.type);
    if (type == ElementType::kF32) return run_f32(op);
    if constexpr (sizeof(Word) == 8) {
      if (type == ElementType::kF64) return run_f64(op);
      if (type == ElementType::kI64) return run_integer<int64_t>(op);
    }
    switch (type) {
      case ElementType::kBool:
        if (op == kNot) return unary<uint8_t>([](uint8_t x) { return uint8_t{x == 0}; });
        return run_integer<uint8_t>(op);
      case ElementType::kI8: return run_integer<int8_t>(op);
      case ElementType::kI32: return run_integer<int32_t>(op);
      case ElementType::kU32: return run_integer<uint32_t>(op);
      default: return run_integer<uint8_t>(op);
    }
  }
  template <typename T>
  VEERY_GPU void run_number(ElementOp op) {
    switch (op) {
      case kEqual: return test<T>([](T x, T y) { return x == y; });
      case kNotEqual: return test<T>([](T x, T y) { return x != y; });
      case kLess: return test<T>([](T x, T y) { return x < y; });
      case kLessEqual: return test<T>([](T x, T y) { return x <= y; });
      case kAdd: return binary<T>([](T x, T y) { return add_numbers(x, y); });
      case kSubtract: return binary<T>([](T x, T y) { return subtract_numbers(x, y); });
      case kMultiply: return binary<T>([](T x, T y) { return multiply_numbers(x, y); });
      case kMinimum: return binary<T>([](T x, T y) { return least_number(x, y); });
      case kMaximum: return binary<T>([](T x, T y) { return greatest_number(x, y); });
      case kNegate: return unary<T>([](T x) { return negative_number(x); });
      case kAbsolute: return unary<T>([](T x) { return absolute_number(x); });
      case kSign: return unary<T>([](T x) { return sign_of_number(x); });
      default: return;
    }
  }
  template <typename T>
  VEERY_GPU void run_integer(ElementOp op) {
    switch (op) {
      case kAnd: return binary<T>([](T x, T y) { return static_cast<T>(x & y); });
      case kOr: return binary<T>([](T x, T y) { return static_cast<T>(x | y); });
      case kXor: return binary<T>([](T x, T y) { return static_cast<T>(x ^ y); });
      case kNot: return unary<T>([](T x) { return static_cast<T>(~x); });
      case kShiftLeft: return binary<T>([](T x, T y) { return shifted_left(x, y); });
      case kShiftRight: return binary<T>([](T x, T y) { return shifted_right(x, y); });
      default: return run_number<T>(op);
    }
  }
  VEERY_GPU void run_f64(ElementOp op) {
    if (op == kIsNan) return test<double>([](double x, double) { return x != x; });
    if (op == kIsInfinite)
      return test<double>([](double x, double) { return std::fabs(x) > 1.7976931348623157e308; });
    run_number<double>(op);
  }
  /// acc = op(acc, number) in f32. The lowering has no other ops here.
  VEERY_GPU void run_with_number(ElementOp op, Word number) {
    const float y = from_word<float>(number);
    switch (op) {
      case kAdd: return unary<float>([&](float x) { return x + y; });
      case kSubtract: return unary<float>([&](float x) { return x - y; });
      case kMultiply: return unary<float>([&](float x) { return x * y; });
      case kDivide: return unary<float>([&](float x) { return x / y; });
      case kMinimum: return unary<float>([&](float x) { return least_number(x, y); });
      default: return unary<float>([&](float x) { return greatest_number(x, y); });
    }
  }
  VEERY_GPU void run_f32(ElementOp op) {
    switch (op) {
      case kCopy: return copy_operand();
      case kIsNan: return test<float>([](float x, float) { return x != x; });
      case kIsInfinite:
        return test<float>(
            [](float x, float) { return magnitude(x) == bits_to_float(0x7f800000); });
      case kDivide: return binary<float>([](float x, float y) { return x / y; });
      case kCopySign: return binary<float>([](float x, float y) { return std::copysign(x, y); });
      case kSqrt: return unary<float>([](float x) { return square_root(x); });
      case kRsqrt: return unary<float>([](float x) { return 1.0F / square_root(x); });
      case kReciprocal: return unary<float>([](float x) { return 1.0F / x; });
      case kExp: return unary<float>([](float x) { return exp_all(x); });
      case kLog: return unary<float>([](float x) { return log_all(x); });
      case kTanh: return unary<float>([](float x) { return tanh_all(x); });
      case kSigmoid: return unary<float>([](float x) { return sigmoid_all(x); });
      case kFloor: return unary<float>([](float x) { return std::floor(x); });
      case kCeil: return unary<float>([](float x) { return std::ceil(x); });
      case kTruncate: return unary<float>([](float x) { return std::trunc(x); });
      case kRound: return unary<float>([](float x) { return std::rint(x); });
      default: return run_number<float>(op);
    }
  }

  const ElementSteps& a_;
  Elements elements_{};
  Word acc_[kElements] = {}, b_[kElements] = {};
};

}  // namespace veery::gpu
