// npy_header.h: the header of NumPy's .npy files
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/node.h"

namespace veery::tensor {

/// Most bytes before the data. Headers of the types that are read have some hundred bytes.
inline constexpr size_t kMostNpyHeader = size_t{1} << 17;

struct NpyHeader {
  Dtype dtype = Dtype::kF32;
  bool swapped = false;  ///< big endian
  bool fortran = false;  ///< the first dimension varies fastest
  Shape shape;
  size_t data_at = 0;  ///< bytes before the data

  size_t data_bytes() const { return static_cast<size_t>(element_count(shape)) * byte_size(dtype); }
};

/// Reads the header of an array of `size` bytes, of which `head` has the first ones: all, or at
/// least kMostNpyHeader. Throws FileError, naming `file`: kFormat for anything but versions 1, 2
/// and 3 and the structure of the format, or if the data are not exactly the elements of the shape;
/// kUnsupported for other types and more than 8 dimensions.
NpyHeader parse_npy_header(std::span<const std::byte> head, uint64_t size, const std::string& file);

/// Returns NumPy's name of a type, "<f4"; empty for bf16.
std::string_view npy_type(Dtype type);

}  // namespace veery::tensor
