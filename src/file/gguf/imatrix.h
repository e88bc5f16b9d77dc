// imatrix.h: importance matrices: how much each column of a weight is used.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "file/output/output_path.h"

namespace veery {

/// Of each tensor the mean square of each input column, for one expert after the other.
struct ImportanceMatrix {
  std::map<std::string, std::vector<float>> values;
  std::vector<std::string> datasets;
  int64_t chunks = 0;
};

/// Squares of what a tensor was multiplied with, summed over rows: [expert][column], and the rows
/// of each expert (one where there are none).
struct ImportanceSums {
  std::vector<double> squares;
  std::vector<int64_t> counts;
};

/// The text that the sums were collected on, as write_imatrix() records it.
struct ImportanceSource {
  std::string dataset;     ///< its name
  int64_t chunks = 0;      ///< windows
  int64_t chunk_size = 0;  ///< tokens of each
};

/// Writes the GGUF form that read_imatrix() and llama.cpp read. Throws as PendingFile does.
void write_imatrix(const std::map<std::string, ImportanceSums>& sums, const ImportanceSource& from,
                   const std::string& path, const OutputRules& rules = {});

/// Reads a GGUF file with tensors NAME.in_sum2 and NAME.counts, or the older binary form (*.dat).
/// Sources: llama.cpp's imatrix files as they are written. Experts that were never used count all
/// columns the same. Throws kNotFound, kIo, kFormat naming the entry.
ImportanceMatrix read_imatrix(const std::string& path);

/// The older form on bytes in memory; `name` stands for the path in messages.
ImportanceMatrix parse_old_imatrix(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery
