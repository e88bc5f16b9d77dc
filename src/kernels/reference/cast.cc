#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

template <typename T>
T load(const std::byte* at, int32_t i) {
  T value;
  std::memcpy(&value, at + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void store(std::byte* at, int32_t i, T value) {
  std::memcpy(at + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
}

// Converts towards zero, clamped to the range of T; NaN becomes 0. 2^31 is the smallest float above
// any int32.
template <typename T>
T to_integer(float x) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr auto kEnd = static_cast<float>(double{std::numeric_limits<T>::max()} + 1);
  if (!(x > kLow)) return x != x ? 0 : std::numeric_limits<T>::min();  // NOLINT
  return x >= kEnd ? std::numeric_limits<T>::max() : static_cast<T>(x);
}

float element(DType type, const std::byte* row, int32_t i) {
  switch (type) {
    case DType::kF16: return f16_to_f32(load<uint16_t>(row, i));
    case DType::kBF16: return bf16_to_f32(load<uint16_t>(row, i));
    case DType::kI32: return static_cast<float>(load<int32_t>(row, i));
    case DType::kU8: return load<uint8_t>(row, i);
    default: return load<float>(row, i);
  }
}
void set_element(DType type, std::byte* row, int32_t i, float x) {
  switch (type) {
    case DType::kF16: return store(row, i, f32_to_f16(x));
    case DType::kBF16: return store(row, i, f32_to_bf16(x));
    case DType::kI32: return store(row, i, to_integer<int32_t>(x));
    case DType::kU8: return store(row, i, to_integer<uint8_t>(x));
    default: return store(row, i, x);
  }
}

void cast(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[UnaryIn::kX];
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int32_t c = 0; c < x.cols; ++c)
      set_element(d.out().dtype, d.out().row<std::byte>(r), c,
                  element(x.dtype, x.row<std::byte>(r), c));
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return d.in[UnaryIn::kX].layout == Layout::kRowMajor && d.out().layout == Layout::kRowMajor;
}

constexpr KernelRow kRows[] = {{op::kCast, Target::kReference, accepts, {"cast", {cast}}}};

}  // namespace

KernelRows reference_cast() { return kRows; }

}  // namespace veery
