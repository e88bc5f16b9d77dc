#include "tensor/io/stored.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/printable.h"
#include "base/untrusted_file.h"
#include "tensor/element_group.h"
#include "tensor/lines.h"
#include "tensor/runtime.h"

namespace veery::tensor {
namespace {

constexpr size_t kPiece = size_t{4} << 20;  // bytes of a copied piece

/// Bytes that cannot be used where they are.
class CopyOfStored : public Operation {
 public:
  explicit CopyOfStored(StoredBytes bytes) : bytes_(std::move(bytes)) {}
  std::string_view name() const override { return "load"; }
  std::vector<Data> evaluate(std::span<const Operand>, std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    const auto size = static_cast<int64_t>(byte_size(out.front().dtype));
    Runtime::get().pool().parallel_for(element_count(out.front().shape), 1 << 17,
                                       [&](int64_t begin, int64_t end) {
                                         std::byte* to = data.buffer->data();
                                         std::memcpy(to + begin * size, bytes_.data + begin * size,
                                                     static_cast<size_t>((end - begin) * size));
                                         for (int64_t i = begin; bytes_.swapped && i < end; ++i)
                                           std::reverse(to + i * size, to + (i + 1) * size);
                                       });
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }

 private:
  StoredBytes bytes_;
};

// Elements in row-major order as contiguous memory. Call with the runtime's mutex held.
Data copied(const Spec& spec, const Data& data) {
  Data copy = new_data(spec);
  if (element_count(spec.shape) > 0)
    copy_elements(spec.shape, {&spec, &data}, copy.buffer->data(), spec.dtype, copy.strides);
  return copy;
}

// Writes a part of a tensor, splitting its first axis until a copy is small.
void write_part(const Spec& spec, const Data& data, size_t& offset, const WritePiece& write) {
  const Shape& shape = spec.shape;
  const size_t bytes = static_cast<size_t>(element_count(shape)) * byte_size(spec.dtype);
  if (bytes == 0) return;
  if (data.strides == contiguous_strides(shape)) {
    write(offset, bytes_of(spec, data));
  } else if (bytes <= kPiece || shape.size() < 2) {
    Data copy;
    {
      const std::lock_guard lock(Runtime::get().mutex());
      copy = copied(spec, data);
    }
    write(offset, bytes_of(spec, copy));
  } else {
    const size_t row = bytes / static_cast<size_t>(shape[0]);
    const auto rows = static_cast<int64_t>(std::max<size_t>(kPiece / row, 1));
    for (int64_t i = 0; i < shape[0]; i += rows) {
      Spec part{shape, spec.dtype};
      Data of_part = data;
      part.shape[0] = std::min(rows, shape[0] - i);
      of_part.offset += i * data.strides[0];
      if (part.shape[0] == 1) {
        part.shape.erase(part.shape.begin());
        of_part.strides.erase(of_part.strides.begin());
      }
      write_part(part, of_part, offset, write);
    }
    return;
  }
  offset += bytes;
}

}  // namespace

void require_shape(const std::string& path, const std::string& name, const Shape& shape) {
  if (!is_valid(shape))
    throw FileError(FileErrorKind::kUnsupported,
                    "{}: tensor '{}' has the shape {}, expected at most {} dimensions and 2^60 "
                    "elements",
                    shown_path(path), printable(name), text(shape), kMaxTensorRank);
}

Tensor from_bytes(const StoredBytes& bytes, Shape shape, Dtype type) {
  if (type == Dtype::kBool)
    return astype(from_bytes(bytes, std::move(shape), Dtype::kU8), Dtype::kBool);
  const size_t size = byte_size(type);
  if ((bytes.swapped && size > 1) || reinterpret_cast<uintptr_t>(bytes.data) % size != 0)
    return make(CopyOfStored(bytes), {}, {std::move(shape), type});
  return Tensor::borrow(bytes.data, std::move(shape), type, [owner = bytes.owner] {});
}

void each_piece(const Tensor& x, const WritePiece& write) {
  size_t offset = 0;
  write_part(spec(x), data_of(x), offset, write);
}

Data row_major(const Tensor& x) {
  if (data_of(x).strides == contiguous_strides(x.shape())) return data_of(x);
  const std::lock_guard lock(Runtime::get().mutex());
  return copied(spec(x), data_of(x));
}

std::span<std::byte> bytes_of(const Spec& spec, const Data& data) {
  return {Operand{&spec, &data}.first(),
          static_cast<size_t>(element_count(spec.shape)) * byte_size(spec.dtype)};
}

ErrorKind error_kind(FileErrorKind kind, ErrorKind format) {
  switch (kind) {
    case FileErrorKind::kInput: return ErrorKind::kInput;
    case FileErrorKind::kFormat: return format;
    case FileErrorKind::kUnsupported: return ErrorKind::kUnsupported;
    case FileErrorKind::kLimit: return ErrorKind::kLimit;
    case FileErrorKind::kNotFound: return ErrorKind::kNotFound;
    case FileErrorKind::kIo: return ErrorKind::kIo;
    case FileErrorKind::kBug: return ErrorKind::kInternal;
  }
  return ErrorKind::kInternal;
}

}  // namespace veery::tensor
