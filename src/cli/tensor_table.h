// tensor_table.h: what tensors become when a model is written, for people and programs.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "model/quantize.h"

namespace veery::cli {

struct PlannedSizes {
  size_t before = 0, after = 0;
  int64_t elements = 0;
  size_t smaller_blocks = 0;  // tensors whose rows did not fit
};

PlannedSizes planned_sizes(const ModelFile& file, std::span<const TensorPlan> plans);

void print_tensors(const ModelFile& file, std::span<const TensorPlan> plans);
Json tensors_json(const ModelFile& file, std::span<const TensorPlan> plans);
/// Bytes before and after, bits a weight.
std::string summary_of(const PlannedSizes& sizes);

}  // namespace veery::cli
