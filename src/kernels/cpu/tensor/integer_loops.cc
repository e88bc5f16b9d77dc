#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/integer_loops.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/numbers-inl.h"
//
#include "kernels/cpu/tensor/loop_tables.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

using enum ElementOp;

template <typename T>
ElementLoop bits_loop(ElementOp op) {
  switch (op) {
    case kCopy: return copy_loop<T>;
    case kSelect: return select_loop<T>;
    case kEqual: return binary_loop<Equal, T>;
    case kNotEqual: return binary_loop<NotEqual, T>;
    case kLess: return binary_loop<Less, T>;
    case kLessEqual: return binary_loop<LessEqual, T>;
    case kAnd: return binary_loop<And, T>;
    case kOr: return binary_loop<Or, T>;
    case kXor: return binary_loop<Xor, T>;
    case kNot: return unary_loop<Not, T>;
    default: return nullptr;
  }
}

template <typename T>
ElementLoop number_loop(ElementOp op) {
  switch (op) {
    case kShiftLeft: return binary_loop<ShiftLeft, T>;
    case kShiftRight: return binary_loop<ShiftRight, T>;
    case kAdd: return binary_loop<Add, T>;
    case kSubtract: return binary_loop<Subtract, T>;
    case kMultiply: return binary_loop<Multiply, T>;
    case kMinimum: return binary_loop<Minimum, T>;
    case kMaximum: return binary_loop<Maximum, T>;
    case kFloorDivide: return binary_loop<FloorDivide, T>;
    case kRemainder: return binary_loop<Remainder, T>;
    case kPower: return binary_loop<Power, T>;
    case kNegate: return unary_loop<Negate, T>;
    case kAbsolute: return unary_loop<Absolute, T>;
    case kSign: return unary_loop<Sign, T>;
    default: return bits_loop<T>(op);
  }
}

struct LogicalNot {
  static HWY_INLINE uint8_t of(uint8_t a) { return a == 0 ? 1 : 0; }
};

}  // namespace

ElementLoop integer_loop(ElementOp op, ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return op == kNot ? unary_loop<LogicalNot, uint8_t> : bits_loop<uint8_t>(op);
    case ElementType::kU8: return number_loop<uint8_t>(op);
    case ElementType::kI8: return number_loop<int8_t>(op);
    case ElementType::kI32: return number_loop<int32_t>(op);
    case ElementType::kU32: return number_loop<uint32_t>(op);
    case ElementType::kI64: return number_loop<int64_t>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

ElementLoop integer_loop(Target target, ElementOp op, ElementType type) {
  return VEERY_FOR_F32_TARGET(target, integer_loop(op, type));
}

}  // namespace veery
#endif
