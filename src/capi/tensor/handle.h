// handle.h: handles of tensors, and checked arguments of calls with tensors.
#pragma once
#include <veery/veery.h>

#include <optional>
#include <span>
#include <string>
#include <vector>
#include <veery/tensor.hpp>

#include "capi/arguments.h"
#include "capi/status.h"

struct veery_tensor {
  veery::tensor::Tensor tensor;
  std::optional<veery::tensor::Scalar> number;  ///< of veery_tensor_scalar()
};

namespace veery::capi {

/// Most tensors in one argument; a larger count is that of something else.
constexpr size_t kMostTensors = size_t{1} << 20;

veery_tensor* new_handle(tensor::Tensor tensor, std::optional<tensor::Scalar> number = {});
/// Does nothing for null and for a handle that is not there any more.
void release_handle(veery_tensor* handle) noexcept;
bool is_handle(const veery_tensor* handle);
size_t handle_count();

/// Throws kInput naming the argument if it is null or no handle.
const veery_tensor& handle_of(const veery_tensor* handle, const char* name);
inline const tensor::Tensor& tensor_of(const veery_tensor* handle, const char* name) {
  return handle_of(handle, name).tensor;
}
std::vector<tensor::Tensor> tensors_of(veery_tensor* const* handles, size_t count,
                                       const char* name);
/// Throws kInput for a number that is no veery_dtype.
tensor::Dtype dtype_of(int32_t dtype);

/// Sizes, axes or slices: at most as many as a tensor has dimensions. Throws kInput for null,
/// unless the count is 0.
template <typename T>
std::span<const T> per_axis(const T* values, size_t count, const char* name) {
  constexpr size_t kMostAxes = 8;
  if (count > kMostAxes)
    throw Error(ErrorKind::kInput, "{}: found {}, expected at most {}", name, count, kMostAxes);
  if (count > 0) required(values, name);
  return {values, count};
}
inline tensor::Shape sizes_of(const int64_t* shape, size_t rank, const char* name = "shape") {
  const auto sizes = per_axis(shape, rank, name);
  return {sizes.begin(), sizes.end()};
}
inline tensor::Axes axes_of(const int32_t* axes, size_t count) {
  const auto list = per_axis(axes, count, "axes");
  return {list.begin(), list.end()};
}

/// Writes a handle of the tensor that `make` returns to `out`; null if it throws.
template <typename Make>
veery_status give(veery_tensor** out, const Make& make) noexcept {
  return guarded([&] {
    required(out, "out") = nullptr;
    *out = new_handle(make());
    return VEERY_OK;
  });
}
/// Writes handles of tensors, or none if memory is short.
void give_all(std::span<const tensor::Tensor> tensors, veery_tensor** out);

}  // namespace veery::capi
