// Tensors from memory, their properties and values; memory of all tensors.
#include <cmath>

#include "capi/results.h"
#include "capi/structures.h"
#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;

namespace {

using tensor::Dtype;
using tensor::Scalar;
using tensor::Shape;
using tensor::Tensor;

bool is_dtype(int32_t dtype) { return dtype >= VEERY_DTYPE_BOOL && dtype <= VEERY_DTYPE_F64; }

/// Null if there is no such handle.
const Tensor* found(const veery_tensor* x) {
  return x != nullptr && is_handle(x) ? &x->tensor : nullptr;
}

bool has_elements(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) == shape.end();
}

veery_status give_number(veery_tensor** out, Scalar value, Dtype type) {
  return guarded([&] {
    required(out, "out") = nullptr;
    *out = new_handle(tensor::full({}, value, type), value);
    return VEERY_OK;
  });
}

}  // namespace

// The names end with a zero byte, because they are literals.
const char* veery_dtype_name(int32_t dtype) {
  return is_dtype(dtype) ? tensor::name(dtype_of(dtype)).data() : "unknown";
}

size_t veery_dtype_size(int32_t dtype) {
  return is_dtype(dtype) ? tensor::byte_size(dtype_of(dtype)) : 0;
}

veery_status veery_dtype_promote(int32_t a, int32_t b, int32_t* dtype) {
  return guarded([&] {
    required(dtype, "dtype") = 0;
    *dtype = static_cast<int32_t>(tensor::promote(dtype_of(a), dtype_of(b)));
    return VEERY_OK;
  });
}

veery_status veery_tensor_copy(const void* data, const int64_t* shape, size_t rank, int32_t dtype,
                               veery_tensor** out) {
  return give(out, [&] {
    const Shape sizes = sizes_of(shape, rank);
    if (has_elements(sizes)) required(static_cast<const char*>(data), "data");
    return Tensor::copy(data, sizes, dtype_of(dtype));
  });
}

veery_status veery_tensor_borrow(const void* data, const int64_t* shape, size_t rank, int32_t dtype,
                                 veery_tensor_release release, void* user, veery_tensor** out) {
  return give(out, [&] {
    const Shape sizes = sizes_of(shape, rank);
    if (has_elements(sizes)) required(static_cast<const char*>(data), "data");
    std::function<void()> end;
    if (release != nullptr) end = [release, user] { release(user); };
    return Tensor::borrow(data, sizes, dtype_of(dtype), std::move(end));
  });
}

veery_status veery_tensor_scalar(double value, veery_tensor** out) {
  return give_number(out, Scalar(value), Dtype::kF32);
}

veery_status veery_tensor_scalar_int(int64_t value, veery_tensor** out) {
  const bool is_small = value >= INT32_MIN && value <= INT32_MAX;
  return give_number(out, Scalar(value), is_small ? Dtype::kI32 : Dtype::kI64);
}

veery_status veery_tensor_scalar_bool(int32_t value, veery_tensor** out) {
  return give_number(out, Scalar(value != 0), Dtype::kBool);
}

size_t veery_tensor_rank(const veery_tensor* x) {
  const Tensor* of = found(x);
  return of == nullptr ? 0 : of->shape().size();
}

const int64_t* veery_tensor_shape(const veery_tensor* x) {
  static constexpr int64_t kNone = 0;  // not null, so that null always means no tensor
  const Tensor* of = found(x);
  if (of == nullptr) return nullptr;
  return of->shape().empty() ? &kNone : of->shape().data();
}

veery_status veery_tensor_dim(const veery_tensor* x, int32_t axis, int64_t* size) {
  return guarded([&] {
    required(size, "size") = 0;
    *size = tensor_of(x, "x").dim(axis);
    return VEERY_OK;
  });
}

int64_t veery_tensor_size(const veery_tensor* x) {
  const Tensor* of = found(x);
  return of == nullptr ? 0 : of->size();
}

int32_t veery_tensor_dtype(const veery_tensor* x) {
  const Tensor* of = found(x);
  return of == nullptr ? -1 : static_cast<int32_t>(of->dtype());
}

int32_t veery_tensor_is_evaluated(const veery_tensor* x) {
  const Tensor* of = found(x);
  return of != nullptr && of->is_evaluated() ? 1 : 0;
}

veery_status veery_tensor_byte_strides(const veery_tensor* x, int64_t* strides) {
  return guarded([&] {
    const std::vector<int64_t> found = tensor_of(x, "x").byte_strides();
    if (!found.empty()) required(strides, "strides");
    std::copy(found.begin(), found.end(), strides);
    return VEERY_OK;
  });
}

veery_status veery_tensor_data(const veery_tensor* x, const void** data) {
  return guarded([&] {
    required(data, "data") = nullptr;
    *data = tensor_of(x, "x").data();
    return VEERY_OK;
  });
}

veery_status veery_tensor_eval(const veery_tensor* x) {
  return guarded([&] {
    tensor_of(x, "x").eval();
    return VEERY_OK;
  });
}

veery_status veery_tensor_eval_all(veery_tensor* const* tensors, size_t count) {
  return guarded([&] {
    tensor::eval(tensors_of(tensors, count, "tensors"));
    return VEERY_OK;
  });
}

veery_status veery_tensor_item(const veery_tensor* x, double* value) {
  return guarded([&] {
    required(value, "value") = 0;
    *value = tensor_of(x, "x").item<double>();
    return VEERY_OK;
  });
}

veery_status veery_tensor_item_int(const veery_tensor* x, int64_t* value) {
  return guarded([&] {
    required(value, "value") = 0;
    *value = tensor_of(x, "x").item<int64_t>();
    return VEERY_OK;
  });
}

veery_status veery_tensor_copy_to(const veery_tensor* x, void* to, size_t bytes) {
  return guarded([&] {
    const Tensor& from = tensor_of(x, "x");
    const size_t expected = static_cast<size_t>(from.size()) * tensor::byte_size(from.dtype());
    if (bytes != expected)
      throw Error(ErrorKind::kInput, "bytes is {}, expected {}", bytes, expected);
    if (bytes > 0) required(static_cast<char*>(to), "to");
    from.copy_to(to);
    return VEERY_OK;
  });
}

veery_status veery_tensor_text(const veery_tensor* x, char** text, size_t* length) {
  return guarded([&] {
    required(text, "text") = nullptr;
    give_text(tensor_of(x, "x").text(), text, length);
    return VEERY_OK;
  });
}

veery_status veery_tensor_get_memory(veery_tensor_memory* memory) {
  return guarded([&] {
    const tensor::MemoryUse use = tensor::memory_use();
    veery_tensor_memory result{};
    result.active = use.active;
    result.peak = use.peak;
    result.cached = use.cached;
    give_structure(memory, required(memory, "memory").size, result, "veery_tensor_memory");
    return VEERY_OK;
  });
}

veery_status veery_tensor_reset_peak_memory(void) {
  return guarded([&] {
    tensor::reset_peak_memory();
    return VEERY_OK;
  });
}

veery_status veery_tensor_set_memory_limit(uint64_t bytes) {
  return guarded([&] {
    tensor::set_memory_limit(bytes);
    return VEERY_OK;
  });
}

veery_status veery_tensor_set_cache_limit(uint64_t bytes) {
  return guarded([&] {
    tensor::set_cache_limit(bytes);
    return VEERY_OK;
  });
}

veery_status veery_tensor_clear_cache(void) {
  return guarded([&] {
    tensor::clear_cache();
    return VEERY_OK;
  });
}

veery_status veery_tensor_set_threads(int32_t count) {
  return guarded([&] {
    tensor::set_threads(count);
    return VEERY_OK;
  });
}
