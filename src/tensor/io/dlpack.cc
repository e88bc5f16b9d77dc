// Exchange of tensors by DLPack.
#include "tensor/io/dlpack.h"

#include <array>
#include <veery/tensor_io.hpp>

#include "kernels/tensor/element_program.h"
#include "tensor/io/stored.h"

namespace veery::tensor {
namespace {

constexpr uint32_t kMajor = 1, kMinor = 0;

struct TypeRow {
  Dtype dtype;
  uint8_t code, bits;
};
constexpr std::array<TypeRow, 10> kTypes{{
    {Dtype::kBool, kDLBool, 8},
    {Dtype::kU8, kDLUInt, 8},
    {Dtype::kI8, kDLInt, 8},
    {Dtype::kI32, kDLInt, 32},
    {Dtype::kU32, kDLUInt, 32},
    {Dtype::kI64, kDLInt, 64},
    {Dtype::kF16, kDLFloat, 16},
    {Dtype::kBF16, kDLBfloat, 16},
    {Dtype::kF32, kDLFloat, 32},
    {Dtype::kF64, kDLFloat, 64},
}};

std::string name_of(const DLDataType& type) {
  constexpr std::string_view kNames[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
  const std::string lanes = type.lanes == 1 ? "" : fmt::format(" x {} lanes", type.lanes);
  if (type.code < std::size(kNames))
    return fmt::format("{}{}{}", kNames[type.code], type.bits, lanes);
  return fmt::format("code {} of {} bits{}", type.code, type.bits, lanes);
}

Dtype dtype_of(const DLDataType& type) {
  for (const TypeRow& row : kTypes)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  fail(ErrorKind::kUnsupported,
       "from_dlpack: the type {}, expected bool8, u8, i8, i32, u32, i64, f16, bf16, f32 or f64",
       name_of(type));
}

std::string name_of(const DLDevice& device) {
  constexpr std::string_view kNames[] = {
      "unknown", "cpu",          "cuda",   "cuda_host", "opencl",  "unknown",
      "unknown", "vulkan",       "metal",  "vpi",       "rocm",    "rocm_host",
      "ext_dev", "cuda_managed", "oneapi", "webgpu",    "hexagon", "maia"};
  const auto type = static_cast<size_t>(device.device_type);
  return fmt::format("{}:{}", type < std::size(kNames) ? kNames[type] : "unknown",
                     device.device_id);
}

Spec checked_spec(const DLTensor& tensor) {
  if (tensor.device.device_type != kDLCPU)
    fail(ErrorKind::kUnsupported, "from_dlpack: a tensor on {}, expected cpu",
         name_of(tensor.device));
  if (tensor.ndim < 0 || tensor.ndim > static_cast<int32_t>(kMaxTensorRank))
    fail(ErrorKind::kUnsupported, "from_dlpack: {} dimensions, expected at most {}", tensor.ndim,
         kMaxTensorRank);
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    fail(ErrorKind::kInput, "from_dlpack: {} dimensions without a shape", tensor.ndim);
  Spec spec{{tensor.shape, tensor.shape + tensor.ndim}, dtype_of(tensor.dtype)};
  check_shape("from_dlpack", spec.shape);
  return spec;
}

// The first element. Empty tensors need none.
std::byte* checked_address(const DLTensor& tensor, const Spec& spec) {
  auto* first = static_cast<std::byte*>(tensor.data);
  if (element_count(spec.shape) == 0) return first;
  if (first == nullptr)
    fail(ErrorKind::kInput, "from_dlpack: shape {} without data", text(spec.shape));
  first += tensor.byte_offset;
  if (reinterpret_cast<uintptr_t>(first) % byte_size(spec.dtype) != 0)
    fail(ErrorKind::kInput, "from_dlpack: the data of {} are not aligned to {} bytes",
         name(spec.dtype), byte_size(spec.dtype));
  return first;
}

/// An exported tensor with what it refers to.
struct Exported {
  DLManagedTensorVersioned managed = {};
  Data data;
  Shape shape;
};

void delete_exported(DLManagedTensorVersioned* self) {
  delete static_cast<Exported*>(self->manager_ctx);
}

DLDataType type_for(Dtype dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return {row.code, row.bits, 1};
  fail(ErrorKind::kInternal, "to_dlpack: no type for {}", name(dtype));
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x, bool copy) {
  require("to_dlpack", x);
  x.eval();
  return with_errors("to_dlpack", [&] {
    auto exported = std::make_unique<Exported>();
    exported->shape = x.shape();
    exported->data = data_of(x);
    if (copy) {
      exported->data = new_data(spec(x));
      x.copy_to(exported->data.buffer->data());
    }
    const Operand operand{&spec(x), &exported->data};
    DLManagedTensorVersioned& managed = exported->managed;
    managed.version = {kMajor, kMinor};
    managed.manager_ctx = exported.get();
    managed.deleter = delete_exported;
    managed.flags = copy ? DLPACK_FLAG_BITMASK_IS_COPIED : DLPACK_FLAG_BITMASK_READ_ONLY;
    managed.dl_tensor = {.data = operand.first(),
                         .device = {kDLCPU, 0},
                         .ndim = x.rank(),
                         .dtype = type_for(x.dtype()),
                         .shape = exported->shape.data(),
                         .strides = exported->data.strides.data(),
                         .byte_offset = 0};
    return &exported.release()->managed;
  });
}

Tensor from_dlpack(DLManagedTensorVersioned* tensor) {
  if (tensor == nullptr) fail(ErrorKind::kInput, "from_dlpack: no tensor");
  // Only the version and the deleter have the same place in all major versions.
  if (tensor->version.major != kMajor)
    fail(ErrorKind::kUnsupported, "from_dlpack: version {}.{} of DLPack, expected {}.x",
         tensor->version.major, tensor->version.minor, kMajor);
  const DLTensor& given = tensor->dl_tensor;
  Spec spec = checked_spec(given);
  std::byte* first = checked_address(given, spec);
  Data data{nullptr, 0, contiguous_strides(spec.shape)};
  if (given.strides != nullptr) data.strides.assign(given.strides, given.strides + given.ndim);
  data.buffer = Buffer::borrow(first, [tensor] {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
  return make_leaf(std::move(spec), std::move(data));
}

}  // namespace veery::tensor
