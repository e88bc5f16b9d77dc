// imatrix.h: importance matrices: the mean square input of each column of a weight.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "file/output/output_path.h"

namespace veery {

/// For each tensor, the mean square of each input column, one expert after the other.
struct ImportanceMatrix {
  std::map<std::string, std::vector<float>> values;
  std::vector<std::string> datasets;
  int64_t chunks = 0;
};

/// Squared inputs of a tensor, summed over token rows: [expert][column], and the number of rows of
/// each expert (one entry if there are no experts).
struct ImportanceSums {
  std::vector<double> squares;
  std::vector<int64_t> counts;
};

/// The text from which the sums were collected, as recorded by write_imatrix().
struct ImportanceSource {
  std::string dataset;     ///< name of the text
  int64_t chunks = 0;      ///< number of windows
  int64_t chunk_size = 0;  ///< tokens per window
};

/// Writes the GGUF form, which read_imatrix() and llama.cpp read. Throws as PendingFile does.
void write_imatrix(const std::map<std::string, ImportanceSums>& sums, const ImportanceSource& from,
                   const std::string& path, const OutputRules& rules = {});

/// Reads a GGUF file with tensors NAME.in_sum2 and NAME.counts, or the older binary form (*.dat).
/// Source: imatrix files written by llama.cpp. Experts that were never used get equal importance
/// for all columns. Throws kNotFound, kIo, or kFormat naming the entry.
ImportanceMatrix read_imatrix(const std::string& path);

/// Parses the older form from memory; `name` replaces the path in messages.
ImportanceMatrix parse_old_imatrix(std::span<const std::byte> bytes, const std::string& name);

}  // namespace veery
