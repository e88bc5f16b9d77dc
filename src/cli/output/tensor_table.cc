#include "cli/output/tensor_table.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/output/output.h"

namespace veery::cli {
namespace {

std::string shape_text(const TensorView& tensor) {
  return fmt::format("{}", fmt::join(tensor.shape, " x "));
}

struct PlannedSizes {
  size_t before = 0, after = 0;
  int64_t elements = 0;
  size_t smaller_blocks = 0;  ///< tensors whose rows did not fit the wanted type
};

PlannedSizes planned_sizes(const ModelFile& file, std::span<const TensorPlan> plans) {
  PlannedSizes sizes;
  for (size_t i = 0; i < plans.size(); ++i) {
    sizes.before += file.tensors[i].bytes();
    sizes.after += planned_bytes(file.tensors[i], plans[i]);
    sizes.elements += file.tensors[i].elements();
    sizes.smaller_blocks += plans[i].wanted ? 1 : 0;
  }
  return sizes;
}

void print_tensors(const ModelFile& file, std::span<const TensorPlan> plans) {
  Output& out = standard_output();
  out.line(fmt::format("{:40} {:>18} {:>8} {:>8} {:>10} {:>10}", "tensor", "shape", "from", "to",
                       "before", "after"));
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    const std::string note =
        plans[i].wanted ? fmt::format("  (rows do not fit {})", info(*plans[i].wanted).name) : "";
    out.line(fmt::format("{:40} {:>18} {:>8} {:>8} {:>10} {:>10}{}", escaped(tensor.name),
                         shape_text(tensor), info(tensor.dtype).name, info(plans[i].type).name,
                         human_bytes(static_cast<double>(tensor.bytes())),
                         human_bytes(static_cast<double>(planned_bytes(tensor, plans[i]))), note));
  }
}

Json tensors_json(const ModelFile& file, std::span<const TensorPlan> plans) {
  Json list = Json::array();
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    list.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"from", info(tensor.dtype).name},
                    {"to", info(plans[i].type).name},
                    {"bytes", planned_bytes(tensor, plans[i])}});
    if (plans[i].wanted) list.back()["wanted"] = info(*plans[i].wanted).name;
  }
  return list;
}

std::string summary_of(const PlannedSizes& sizes) {
  std::string text =
      fmt::format("{} -> {} ({:.2f} bits a weight)", human_bytes(static_cast<double>(sizes.before)),
                  human_bytes(static_cast<double>(sizes.after)),
                  8.0 * static_cast<double>(sizes.after) / static_cast<double>(sizes.elements));
  if (sizes.smaller_blocks > 0)
    text += fmt::format(
        "; {} tensors have rows that do not fit their type's blocks and got a larger one",
        sizes.smaller_blocks);
  return text;
}

}  // namespace

std::vector<std::string> quant_mix_names() {
  std::vector<std::string> names;
  for (const QuantMix& mix : quant_mixes()) names.emplace_back(mix.name);
  return names;
}

void warn_of_missing_importance(const ModelFile& file, std::span<const TensorPlan> plans,
                                const ImportanceMatrix* importance) {
  constexpr DType kNeedy[] = {DType::kIQ1_S, DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS,
                              DType::kIQ2_S};
  std::string type, first;
  size_t count = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    if (plans[i].type == tensor.dtype || std::ranges::count(kNeedy, plans[i].type) == 0) continue;
    if (importance != nullptr && importance->values.contains(tensor.name)) continue;
    if (count++ > 0) continue;
    type = info(plans[i].type).name;
    first = tensor.name;
  }
  if (count == 0) return;
  const std::string which =
      count == 1 ? escaped(first) : fmt::format("{} tensors, {} first", count, escaped(first));
  write_error(
      fmt::format("warning: {} has few bits and needs an importance matrix, found none for {}: "
                  "answers may be poor; 'veery imatrix' computes one for --imatrix\n",
                  type, which));
}

void report_replaced(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) standard_output().line("replaced " + path);
}

void report_written(const ModelFile& file, std::span<const TensorPlan> plans,
                    const ReportOptions& options) {
  const PlannedSizes sizes = planned_sizes(file, plans);
  const std::string tokenizer = file.metadata.text("tokenizer.ggml.model").value_or("none");
  if (options.json) {
    standard_output().json({{"before", sizes.before},
                            {"after", sizes.after},
                            {"seconds", options.seconds},
                            {"tokenizer", tokenizer},
                            {"replaced", options.replaced},
                            {"tensors", tensors_json(file, plans)}});
    return;
  }
  if (options.dry) print_tensors(file, plans);
  standard_output().line(summary_of(sizes) +
                         (options.dry ? "" : fmt::format(" in {:.2f} s", options.seconds)));
  report_replaced(options.replaced);
  if (tokenizer == "none")
    standard_output().line(
        fmt::format("{} has no tokenizer: the new model runs on --ids only", file.path));
}

}  // namespace veery::cli
