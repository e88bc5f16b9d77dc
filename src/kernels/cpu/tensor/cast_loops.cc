#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/cast_loops.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/numbers-inl.h"
//
#include "dtype/half.h"
#include "kernels/cpu/tensor/loop_tables.h"

#ifndef VEERY_KERNELS_CPU_TENSOR_CAST_LOOPS
#define VEERY_KERNELS_CPU_TENSOR_CAST_LOOPS
namespace veery {
namespace {

/// The functions of one instruction set.
struct CastLoops {
  ElementLoop (*cast)(ElementType from, ElementType to);
  ReduceKernel (*reduce)(ReduceOp op, ElementType type);
  TransferLoop (*load)(ElementType type);
  TransferLoop (*store)(ElementType type);
};

}  // namespace
}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// bool is a type of its own here; its elements are bytes of 0 and 1.
struct Bool {
  uint8_t value;
};

template <typename To, typename From>
HWY_INLINE To cast(From x) {
  if constexpr (std::is_same_v<To, Bool> && std::is_same_v<From, Bool>) {
    return x;
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != From{0} ? 1 : 0)};
  } else if constexpr (std::is_same_v<From, Bool>) {
    return static_cast<To>(x.value);
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    // The limits are compared in the float type; the upper one rounds up to a power of two.
    constexpr auto kLeast = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kMost = static_cast<From>(std::numeric_limits<To>::max());
    if (is_nan(x)) return To{0};
    if (x >= kMost) return std::numeric_limits<To>::max();
    if (x <= kLeast) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
void cast_all(const void* a, const void*, const void*, void* out, int64_t n) {
  const auto* x = static_cast<const From*>(a);
  auto* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = cast<To>(x[i]);
}

template <typename From>
ElementLoop cast_from(ElementType to) {
  switch (to) {
    case ElementType::kBool: return cast_all<From, Bool>;
    case ElementType::kU8: return cast_all<From, uint8_t>;
    case ElementType::kI8: return cast_all<From, int8_t>;
    case ElementType::kI32: return cast_all<From, int32_t>;
    case ElementType::kU32: return cast_all<From, uint32_t>;
    case ElementType::kI64: return cast_all<From, int64_t>;
    case ElementType::kF32: return cast_all<From, float>;
    case ElementType::kF64: return cast_all<From, double>;
    default: return nullptr;
  }
}

void load_halves(const void* from, void* to, int64_t n) {
  const auto* x = static_cast<const uint16_t*>(from);
  auto* y = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, load_f16(x + i));
  for (; i < n; ++i) y[i] = f16_to_f32(x[i]);
}
void store_halves(const void* from, void* to, int64_t n) {
  const auto* x = static_cast<const float*>(from);
  auto* y = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store_f16(y + i, load(x + i));
  for (; i < n; ++i) y[i] = f32_to_f16(x[i]);
}
void load_bf16s(const void* from, void* to, int64_t n) {
  const auto* x = static_cast<const uint16_t*>(from);
  auto* y = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, load_bf16(x + i));
  for (; i < n; ++i) y[i] = bf16_to_f32(x[i]);
}
void store_bf16s(const void* from, void* to, int64_t n) {
  const auto* x = static_cast<const float*>(from);
  auto* y = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = f32_to_bf16(x[i]);
}

template <typename Fn, typename T>
void reduce_all(const void* a, int64_t n, void* lanes) {
  const auto* x = static_cast<const T*>(a);
  auto* to = static_cast<T*>(lanes);
  T sums[kReduceLanes];
  for (int i = 0; i < kReduceLanes; ++i) sums[i] = to[i];
  int64_t at = 0;
  for (; at + kReduceLanes <= n; at += kReduceLanes)
    for (int i = 0; i < kReduceLanes; ++i) sums[i] = Fn::of(sums[i], x[at + i]);
  for (int i = 0; at < n; ++i, ++at) sums[i] = Fn::of(sums[i], x[at]);
  for (int i = 0; i < kReduceLanes; ++i) to[i] = sums[i];
}
template <typename Fn, typename T>
void combine_all(const void* a, int64_t n, void* lanes) {
  const auto* x = static_cast<const T*>(a);
  auto* to = static_cast<T*>(lanes);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Fn::of(to[i], x[i]);
}

template <typename T>
constexpr T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::kSum: return T{0};
    case ReduceOp::kProduct: return T{1};
    case ReduceOp::kMinimum: return kIsFloat<T> ? Limits::infinity() : Limits::max();
    case ReduceOp::kMaximum: return kIsFloat<T> ? -Limits::infinity() : Limits::min();
  }
  return T{0};
}
template <ReduceOp kOp, typename T>
void clear_all(void* lanes, int64_t n) {
  auto* to = static_cast<T*>(lanes);
  for (int64_t i = 0; i < n; ++i) to[i] = neutral<T>(kOp);
}

template <typename T>
ReduceKernel reduce_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return {reduce_all<Add, T>, combine_all<Add, T>, clear_all<ReduceOp::kSum, T>};
    case ReduceOp::kProduct:
      return {reduce_all<Multiply, T>, combine_all<Multiply, T>, clear_all<ReduceOp::kProduct, T>};
    case ReduceOp::kMinimum:
      return {reduce_all<Minimum, T>, combine_all<Minimum, T>, clear_all<ReduceOp::kMinimum, T>};
    case ReduceOp::kMaximum:
      return {reduce_all<Maximum, T>, combine_all<Maximum, T>, clear_all<ReduceOp::kMaximum, T>};
  }
  return {};
}

ElementLoop cast_loop(ElementType from, ElementType to) {
  switch (from) {
    case ElementType::kBool: return cast_from<Bool>(to);
    case ElementType::kU8: return cast_from<uint8_t>(to);
    case ElementType::kI8: return cast_from<int8_t>(to);
    case ElementType::kI32: return cast_from<int32_t>(to);
    case ElementType::kU32: return cast_from<uint32_t>(to);
    case ElementType::kI64: return cast_from<int64_t>(to);
    case ElementType::kF32: return cast_from<float>(to);
    case ElementType::kF64: return cast_from<double>(to);
    default: return nullptr;
  }
}

ReduceKernel reduce_kernel_of(ReduceOp op, ElementType type) {
  switch (type) {
    case ElementType::kU8: return reduce_kernel<uint8_t>(op);
    case ElementType::kI8: return reduce_kernel<int8_t>(op);
    case ElementType::kI32: return reduce_kernel<int32_t>(op);
    case ElementType::kU32: return reduce_kernel<uint32_t>(op);
    case ElementType::kI64: return reduce_kernel<int64_t>(op);
    case ElementType::kF32: return reduce_kernel<float>(op);
    case ElementType::kF64: return reduce_kernel<double>(op);
    default: return {};
  }
}
TransferLoop load_loop(ElementType type) {
  return type == ElementType::kF16 ? load_halves : load_bf16s;
}
TransferLoop store_loop(ElementType type) {
  return type == ElementType::kF16 ? store_halves : store_bf16s;
}

}  // namespace

constexpr CastLoops kCastLoops{cast_loop, reduce_kernel_of, load_loop, store_loop};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/error.h"

namespace veery {

ElementLoop cast_loop(Target target, ElementType from, ElementType to) {
  return VEERY_FOR_F32_TARGET(target, kCastLoops).cast(from, to);
}

ElementLoop find_element_loop(Target target, const Instruction& i) {
  ElementLoop loop = i.op == ElementOp::kCast ? cast_loop(target, i.type, i.to) : nullptr;
  if (loop == nullptr) loop = integer_loop(target, i.op, i.type);
  if (loop == nullptr) loop = float_loop(target, i.op, i.type);
  VEERY_CHECK(loop != nullptr);
  return loop;
}

ReduceKernel find_reduce_kernel(Target target, ReduceOp op, ElementType type) {
  const ReduceKernel kernel = VEERY_FOR_F32_TARGET(target, kCastLoops).reduce(op, type);
  VEERY_CHECK(kernel.reduce != nullptr);
  return kernel;
}

TransferLoop find_load(Target target, ElementType type) {
  return VEERY_FOR_F32_TARGET(target, kCastLoops).load(type);
}
TransferLoop find_store(Target target, ElementType type) {
  return VEERY_FOR_F32_TARGET(target, kCastLoops).store(type);
}

}  // namespace veery
#endif
