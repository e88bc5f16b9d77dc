// npy.h: arrays as NumPy's .npy files, version 1.0
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace veery {

/// What stands before the data: `type` as NumPy writes it ("<f4"), row-major.
std::string npy_header(const std::string& type, std::span<const int64_t> shape);

/// Writes a new file, whole or not at all. The product of `shape` is the number of values. Throws
/// as PendingFile does.
void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const float> values);
void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const int32_t> values);

}  // namespace veery
