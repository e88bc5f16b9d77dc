#include <algorithm>
#include <cstring>

#include "tensor/devices.h"
#include "tensor/element_group.h"
#include "tensor/elementwise.h"
#include "tensor/lines.h"
#include "tensor/node.h"

namespace veery::tensor {
namespace {

// Numbers of a nested list, at most kShown of each dimension.
constexpr int64_t kShown = 6;
template <typename T>
std::string list(const std::vector<T>& values, const Shape& shape, size_t axis, int64_t at) {
  if (axis == shape.size()) return fmt::format("{}", values[static_cast<size_t>(at)]);
  int64_t step = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) step *= shape[i];
  std::string result = "[";
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (i > 0) result += ", ";
    if (shape[axis] > kShown && i == kShown / 2) {
      result += "..., ";
      i = shape[axis] - kShown / 2;
    }
    result += list(values, shape, axis + 1, at + i * step);
  }
  return result + "]";
}

void copy_from_device(const Tensor& x, void* to) {
  const OnDevice device(device_of(x));
  const std::lock_guard lock(Runtime::get().mutex());
  with_public_errors([&] {
    const Operand operand{&spec(x), &data_of(x)};
    const Data packed = contiguous(operand, x.dtype());
    const Operand elements{&spec(x), &packed};
    current_kernels()->download(to, elements.first(),
                                static_cast<size_t>(x.size()) * byte_size(x.dtype()));
  });
}

}  // namespace

const Shape& Tensor::shape() const {
  require("shape", *this);
  return spec(*this).shape;
}
Dtype Tensor::dtype() const {
  require("dtype", *this);
  return spec(*this).dtype;
}
int64_t Tensor::dim(int axis) const {
  return shape()[static_cast<size_t>(axis_of("dim", axis, rank()))];
}
int64_t Tensor::size() const { return element_count(shape()); }

void Tensor::eval() const { tensor::eval({this, 1}); }
bool Tensor::is_evaluated() const { return node_ != nullptr && node_->is_evaluated(); }

template <typename T>
Tensor Tensor::of(std::span<const T> values, Shape shape) {
  check_shape("of", shape);
  if (element_count(shape) != static_cast<int64_t>(values.size()))
    fail(ErrorKind::kInput, "of: {} values for the shape {}", values.size(), tensor::text(shape));
  return copy(values.data(), std::move(shape), dtype_of<T>());
}

Tensor Tensor::copy(const void* data, Shape shape, Dtype type) {
  check_shape("copy", shape);
  const size_t bytes = static_cast<size_t>(element_count(shape)) * byte_size(type);
  const OnDevice device(default_device());
  Data own{Buffer::allocate(bytes), 0, contiguous_strides(shape)};
  if (TensorDevice* kernels = current_kernels()) {
    const std::lock_guard lock(Runtime::get().mutex());
    with_public_errors([&] { kernels->upload(own.buffer->data(), data, bytes); });
  } else if (bytes > 0) {
    std::memcpy(own.buffer->data(), data, bytes);
  }
  return make_leaf({std::move(shape), type}, std::move(own));
}

Tensor Tensor::borrow(const void* data, Shape shape, Dtype type, std::function<void()> release) {
  check_shape("borrow", shape);
  if (reinterpret_cast<uintptr_t>(data) % byte_size(type) != 0)
    fail(ErrorKind::kInput, "borrow: the address is no multiple of {} bytes, the size of {}",
         byte_size(type), name(type));
  // Evaluation never writes to the memory of a leaf.
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));  // NOLINT
  Data own{Buffer::borrow(bytes, std::move(release)), 0, contiguous_strides(shape)};
  return make_leaf({std::move(shape), type}, std::move(own));
}

void Tensor::copy_to(void* to) const {
  eval();
  if (size() == 0) return;
  if (!device_of(*this).is_cpu()) return copy_from_device(*this, to);
  const Operand operand{&spec(*this), &data_of(*this)};
  if (operand.data->strides == contiguous_strides(shape())) {
    std::memcpy(to, operand.first(), static_cast<size_t>(size()) * byte_size(dtype()));
    return;
  }
  const std::lock_guard lock(Runtime::get().mutex());
  copy_elements(shape(), operand, static_cast<std::byte*>(to), dtype(),
                contiguous_strides(shape()));
}

template <typename T>
std::vector<T> Tensor::values() const {
  const Tensor same = astype(*this, dtype_of<T>());
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<uint8_t> bytes(static_cast<size_t>(size()));
    same.copy_to(bytes.data());
    return {bytes.begin(), bytes.end()};
  } else {
    std::vector<T> result(static_cast<size_t>(size()));
    same.copy_to(result.data());
    return result;
  }
}

template <typename T>
T Tensor::item() const {
  if (size() != 1)
    fail(ErrorKind::kInput, "item: a tensor of shape {}, expected one element",
         tensor::text(shape()));
  return values<T>().front();
}

std::vector<int64_t> Tensor::byte_strides() const {
  if (!is_evaluated()) fail(ErrorKind::kInput, "byte_strides: the tensor is not evaluated");
  std::vector<int64_t> strides = data_of(*this).strides;
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(byte_size(dtype()));
  return strides;
}
const void* Tensor::data() const {
  if (!is_evaluated()) fail(ErrorKind::kInput, "data: the tensor is not evaluated");
  return Operand{&spec(*this), &data_of(*this)}.first();
}

std::string Tensor::text() const {
  if (node_ == nullptr) return "no tensor";
  std::string numbers;
  if (dtype() == Dtype::kBool || is_integer(dtype()))
    numbers = list(values<int64_t>(), shape(), 0, 0);
  else if (dtype() == Dtype::kF64)
    numbers = list(values<double>(), shape(), 0, 0);
  else  // the fewest digits that give the same f32
    numbers = list(values<float>(), shape(), 0, 0);
  return fmt::format("{} {} {}", name(dtype()), tensor::text(shape()), numbers);
}

#define VEERY_INSTANTIATE(T)                                \
  template Tensor Tensor::of<T>(std::span<const T>, Shape); \
  template std::vector<T> Tensor::values<T>() const;        \
  template T Tensor::item<T>() const;
VEERY_INSTANTIATE(bool)
VEERY_INSTANTIATE(uint8_t)
VEERY_INSTANTIATE(int8_t)
VEERY_INSTANTIATE(int32_t)
VEERY_INSTANTIATE(uint32_t)
VEERY_INSTANTIATE(int64_t)
VEERY_INSTANTIATE(float)
VEERY_INSTANTIATE(double)
#undef VEERY_INSTANTIATE

}  // namespace veery::tensor
