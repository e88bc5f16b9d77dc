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

template <typename T>
ElementLoop bits_loop(ElementOp op) {
  switch (op) {
    case kAnd: return binary_loop<And, T>;
    case kOr: return binary_loop<Or, T>;
    case kXor: return binary_loop<Xor, T>;
    case kNot: return unary_loop<Not, T>;
    default: return any_loop<T>(op);
  }
}

template <typename T>
ElementLoop integers_loop(ElementOp op) {
  if (op == kShiftLeft) return binary_loop<ShiftLeft, T>;
  if (op == kShiftRight) return binary_loop<ShiftRight, T>;
  const ElementLoop loop = bits_loop<T>(op);
  return loop != nullptr ? loop : number_loop<T>(op);
}

struct LogicalNot {
  static HWY_INLINE uint8_t of(uint8_t a) { return a == 0 ? 1 : 0; }
};

ElementLoop integer_loop(ElementOp op, ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return op == kNot ? unary_loop<LogicalNot, uint8_t> : bits_loop<uint8_t>(op);
    case ElementType::kU8: return integers_loop<uint8_t>(op);
    case ElementType::kI8: return integers_loop<int8_t>(op);
    case ElementType::kI32: return integers_loop<int32_t>(op);
    case ElementType::kU32: return integers_loop<uint32_t>(op);
    case ElementType::kI64: return integers_loop<int64_t>(op);
    default: return nullptr;
  }
}

}  // namespace

using FindLoop = ElementLoop (*)(ElementOp op, ElementType type);
constexpr FindLoop kFindLoop[] = {integer_loop};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

ElementLoop integer_loop(Target target, ElementOp op, ElementType type) {
  return VEERY_FOR_F32_TARGET(target, kFindLoop)[0](op, type);
}

}  // namespace veery
#endif
