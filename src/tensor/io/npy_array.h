// npy_array.h: arrays of .npy files and of the members of .npz archives.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <veery/tensor_io.hpp>

#include "tensor/io/npy_header.h"

namespace veery::tensor {

/// Returns the array whose data `owner` keeps in memory.
Tensor npy_array(const NpyHeader& header, const std::byte* data, std::shared_ptr<const void> owner);

/// Returns the bytes before the data of x. Throws kUnsupported naming function and tensor if NumPy
/// lacks its type.
std::string npy_head(std::string_view function, const std::string& name, const Tensor& x);

/// As load_npz() for bytes in memory; `file` replaces the path in messages. Throws FileError.
TensorMap parse_npz(std::span<const std::byte> archive, const std::string& file, size_t most_bytes);

}  // namespace veery::tensor
