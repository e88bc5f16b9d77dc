// stored.h: tensors of bytes of a file, the bytes of tensors for a file, and errors of files.
#pragma once
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "tensor/node.h"

namespace veery::tensor {

/// The errors of the layers below, which with_errors() makes errors of tensors.
using FileError = veery::Error;
using FileErrorKind = veery::ErrorKind;

/// Elements in row-major order, which `owner` keeps in memory.
struct StoredBytes {
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
  bool swapped = false;  ///< the bytes of an element are in the other order
};

/// Throws kUnsupported, naming file and tensor, if no tensor can have the shape.
void require_shape(const std::string& path, const std::string& name, const Shape& shape);

/// Returns a tensor that refers to `bytes`. If they are not aligned to the elements, or swapped,
/// evaluation copies them. Any byte of a bool but 0 is true.
Tensor from_bytes(const StoredBytes& bytes, Shape shape, Dtype type);

using WritePiece = std::function<void(size_t offset, std::span<const std::byte> bytes)>;
/// Calls `write` for all elements of an evaluated tensor in row-major order: once with its own
/// memory if that is contiguous, otherwise with copies of a few MiB.
void each_piece(const Tensor& x, const WritePiece& write);

/// Returns the memory of an evaluated tensor in row-major order, copied if it is not contiguous.
Data row_major(const Tensor& x);
/// Returns the bytes of contiguous elements.
std::span<std::byte> bytes_of(const Spec& spec, const Data& data);

/// The kind of tensor.hpp for a kind of base/error.h. `format`: that of kFormat, which is another
/// one where bytes are an argument instead of a file.
ErrorKind error_kind(FileErrorKind kind, ErrorKind format);

/// Returns the result of `body`, whose FileErrors become those of tensor.hpp with the name of
/// the function in front.
template <typename Body>
auto with_errors(std::string_view function, const Body& body,
                 ErrorKind format = ErrorKind::kFormat) {
  try {
    return body();
  } catch (const FileError& error) {
    throw Error(error_kind(error.kind(), format), fmt::format("{}: {}", function, error.what()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kLimit, fmt::format("{}: not enough memory", function));
  }
}

}  // namespace veery::tensor
