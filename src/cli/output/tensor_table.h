// tensor_table.h: reports of the types and sizes of a model that is written.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "convert/quantize.h"

namespace veery::cli {

struct ReportOptions {
  double seconds = 0;
  bool dry = false;                        ///< nothing was written: list all tensors
  bool json = false;                       ///< print a JSON object
  std::vector<std::string> replaced = {};  ///< paths of existing files that were replaced
};

/// Returns the names of all types and mixes that models can be written in.
std::vector<std::string> quant_mix_names();

/// Warns on standard error about tensors that get a type of 1 or 2 bits although `importance`
/// (null: no importance matrix) has no entry for them.
void warn_of_missing_importance(const ModelFile& file, std::span<const TensorPlan> plans,
                                const ImportanceMatrix* importance);

/// Prints a line for each replaced file.
void report_replaced(const std::vector<std::string>& paths);

/// Prints bytes before and after, bits per weight, replaced files, and whether there is no
/// tokenizer.
void report_written(const ModelFile& file, std::span<const TensorPlan> plans,
                    const ReportOptions& options);

}  // namespace veery::cli
