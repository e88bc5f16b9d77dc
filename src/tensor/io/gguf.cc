// Tensors in GGUF files.
#include "file/gguf/gguf.h"

#include "base/printable.h"
#include "tensor/io/quantized.h"
#include "tensor/io/stored.h"

namespace veery::tensor {
namespace {

// The type of tensors that have the elements of a type of files; nothing for blocks.
std::optional<Dtype> dtype_of(DType type) {
  switch (type) {
    case DType::kF32: return Dtype::kF32;
    case DType::kF16: return Dtype::kF16;
    case DType::kBF16: return Dtype::kBF16;
    case DType::kF64: return Dtype::kF64;
    case DType::kI8: return Dtype::kI8;
    case DType::kI32: return Dtype::kI32;
    case DType::kI64: return Dtype::kI64;
    case DType::kU8: return Dtype::kU8;
    default: return std::nullopt;
  }
}

// The bytes of a tensor in its file; in memory if they are computed.
StoredBytes bytes_of(const TensorView& view, const std::shared_ptr<const ModelFile>& file) {
  if (view.source == nullptr) return {view.data.data(), file};
  const auto buffer = Buffer::allocate(view.bytes());
  view.source->read(0, view.elements() / view.columns(), buffer->data());
  return {buffer->data(), buffer};
}

GgufValue value_of(const MetaValue& value) {
  return std::visit(
      [](const auto& of) -> GgufValue {
        using T = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<T, std::vector<std::string_view>>)
          return std::vector<std::string>(of.begin(), of.end());
        else
          return of;
      },
      value);
}

Gguf contents(const std::shared_ptr<const ModelFile>& file) {
  Gguf result;
  for (const TensorView& view : file->tensors) {
    const std::optional<Dtype> type = dtype_of(view.dtype);
    if (!type && !info(view.dtype).decodable)
      throw FileError(FileErrorKind::kUnsupported,
                      "{}: tensor '{}' has the type {}, expected floats, blocks, i8, i32 or i64",
                      shown_path(file->path), printable(view.name), info(view.dtype).name);
    require_shape(file->path, view.name, view.shape);
    const StoredBytes bytes = bytes_of(view, file);
    if (type)
      result.tensors.emplace(view.name, from_bytes(bytes, view.shape, *type));
    else
      result.quantized.emplace(view.name, make_quantized("load_gguf", {.name = view.name,
                                                                       .type = view.dtype,
                                                                       .shape = view.shape,
                                                                       .owner = bytes.owner,
                                                                       .blocks = bytes.data}));
  }
  for (const auto& [key, value] : file->metadata.all())
    result.metadata.emplace(key, value_of(value));
  return result;
}

}  // namespace

Gguf load_gguf(const std::string& path) {
  return with_errors("load_gguf", [&] {
    const auto file = std::make_shared<const ModelFile>(open_gguf(path));
    Gguf result = file->checked([&] { return contents(file); });
    result.file =
        FileInUse([file] { with_errors("check_unchanged", [&] { file->check_unchanged(); }); });
    return result;
  });
}

}  // namespace veery::tensor
