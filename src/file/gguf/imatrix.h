// imatrix.h: importance matrices: how much each column of a weight is used.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

namespace veery {

/// Of each tensor the mean square of each input column, for one expert after the other.
struct ImportanceMatrix {
  std::map<std::string, std::vector<float>> values;
  std::vector<std::string> datasets;
  int64_t chunks = 0;
};

/// Reads a GGUF file with tensors NAME.in_sum2 and NAME.counts, or the older binary form (*.dat).
/// Sources: llama.cpp's imatrix files as they are written. Experts that were never used count all
/// columns the same. Throws kNotFound, kIo, kFormat naming the entry.
ImportanceMatrix read_imatrix(const std::string& path);

/// The older form on bytes in memory; `name` stands for the path in messages.
ImportanceMatrix parse_old_imatrix(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery
