// npy.h: writes NumPy's .npy files, version 1.0
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace veery {

/// Returns the bytes before the data. `type` is NumPy's descriptor ("<f4"), the order is row-major.
std::string npy_header(const std::string& type, std::span<const int64_t> shape);

/// Writes a new file atomically. The product of `shape` must be the number of values. Throws as
/// PendingFile does.
void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const float> values);
void write_npy(const std::string& path, std::span<const int64_t> shape,
               std::span<const int32_t> values);

}  // namespace veery
