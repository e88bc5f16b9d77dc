// tensor_table.h: what tensors become when a model is written, for people and programs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "convert/quantize.h"

namespace veery::cli {

struct ReportOptions {
  double seconds = 0;
  bool dry = false;                        ///< nothing was written: the tensors one by one
  bool json = false;                       ///< one object
  std::vector<std::string> replaced = {};  ///< files that had the names of outputs
};

/// Names of the types and mixes that models can be written in.
std::vector<std::string> quant_mix_names();

/// Warns on standard error of tensors that become types of little use without importances, of which
/// `importance` (null: there is no matrix) has none.
void warn_of_missing_importance(const ModelFile& file, std::span<const TensorPlan> plans,
                                const ImportanceMatrix* importance);

/// For the report of a verb: what was replaced, a line a file.
void report_replaced(const std::vector<std::string>& paths);

/// Bytes before and after, bits a weight; what was replaced; and that there is no tokenizer.
void report_written(const ModelFile& file, std::span<const TensorPlan> plans,
                    const ReportOptions& options);

}  // namespace veery::cli
