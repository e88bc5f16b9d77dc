// Tensors in safetensors files.
#include "file/folder/safetensors.h"

#include <array>
#include <veery/tensor_io.hpp>

#include "base/printable.h"
#include "base/utf8.h"
#include "tensor/io/stored.h"

namespace veery::tensor {
namespace {

constexpr std::array<std::pair<StoredType, Dtype>, 10> kTypes{{
    {StoredType::kBool, Dtype::kBool},
    {StoredType::kU8, Dtype::kU8},
    {StoredType::kI8, Dtype::kI8},
    {StoredType::kI32, Dtype::kI32},
    {StoredType::kU32, Dtype::kU32},
    {StoredType::kI64, Dtype::kI64},
    {StoredType::kF16, Dtype::kF16},
    {StoredType::kBF16, Dtype::kBF16},
    {StoredType::kF32, Dtype::kF32},
    {StoredType::kF64, Dtype::kF64},
}};

Dtype dtype_of(const StoredTensor& tensor, const std::string& path) {
  for (const auto& [stored, type] : kTypes)
    if (stored == tensor.type) return type;
  throw FileError(FileErrorKind::kUnsupported,
                  "{}: tensor '{}' has the type {}, expected BOOL, U8, I8, I32, U32, I64, F16, "
                  "BF16, F32 or F64",
                  shown_path(path), printable(tensor.name), veery::name(tensor.type));
}

StoredType stored_type(Dtype type) {
  for (const auto& [stored, own] : kTypes)
    if (own == type) return stored;
  fail(ErrorKind::kInternal, "save_safetensors: no type for {}", name(type));
}

void require_utf8(std::string_view what, const std::string& text) {
  if (valid_utf8(text) != text)
    fail(ErrorKind::kInput, "save_safetensors: {} '{}' is not UTF-8", what, printable(text));
}

}  // namespace

Safetensors load_safetensors(const std::string& path) {
  return with_errors("load_safetensors", [&] {
    SafetensorsFile file = open_safetensors(path);
    Safetensors result;
    for (const StoredTensor& tensor : file.tensors) {
      require_shape(path, tensor.name, tensor.shape);
      result.tensors.emplace(tensor.name, from_bytes({tensor.data.data(), file.mapping},
                                                     tensor.shape, dtype_of(tensor, path)));
    }
    result.metadata = std::move(file.metadata);
    result.file = FileInUse([mapping = file.mapping] {
      with_errors("check_unchanged", [&] { mapping->check_unchanged(); });
    });
    return result;
  });
}

void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<Tensor> values;
  std::vector<StoredTensor> entries;
  for (const auto& [name, x] : tensors) {
    require("save_safetensors", x);
    require_utf8("the name", name);
    values.push_back(x);
    entries.push_back({name, stored_type(x.dtype()), x.shape(), {}});
  }
  for (const auto& [key, value] : metadata) {
    require_utf8("the key", key);
    require_utf8("the value", value);
  }
  eval(values);
  with_errors("save_safetensors", [&] {
    SafetensorsWriter writer(path, entries, metadata);
    for (size_t i = 0; i < values.size(); ++i)
      each_piece(values[i], [&](size_t offset, std::span<const std::byte> bytes) {
        writer.write(i, offset, bytes);
      });
    writer.commit();
  });
}

}  // namespace veery::tensor
