#include "convert/mlx_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/regex.h"

namespace veery {
namespace {

constexpr std::string_view kWeight = ".weight";

// Layers that mlx-lm does not quantise like the others, by name suffix: 8 bits in groups of 64, or
// floats.
struct KeptRow {
  std::string_view type, end;
  std::optional<MlxFormat> format = MlxFormat{MlxFormat::Mode::kAffine, 64, 8};
};
constexpr KeptRow kKept[] = {{"granite", "self_attn.o_proj"},
                             {"granite", "mlp.down_proj"},
                             {"granite", "lm_head"},
                             {"granitemoe", "router.layer"},
                             {"granitemoe", "self_attn.o_proj"},
                             {"granitemoe", "mlp.down_proj"},
                             {"granitemoe", "lm_head"},
                             {"granitemoehybrid", "router.layer"},
                             {"qwen3_moe", "mlp.gate"},
                             {"gpt_oss", "router"},
                             {"deepseek_v2", "mlp.gate", std::nullopt},
                             {"deepseek_v3", "mlp.gate", std::nullopt},
                             {"deepseek_v32", "mlp.gate", std::nullopt},
                             {"glm_moe_dsa", "mlp.gate", std::nullopt},
                             {"glm4_moe_lite", "mlp.gate", std::nullopt},
                             {"exaone_moe", "mlp.gate", std::nullopt},
                             {"bailing_moe", "gate.gate_proj"},
                             {"lfm2_moe", "feed_forward.gate"},
                             {"afmoe", "router.gate"},
                             {"minimax_m2", "block_sparse_moe.gate"},
                             {"qwen3_5_moe_text", "mlp.gate"},
                             {"qwen3_5_moe_text", "shared_expert_gate"},
                             {"qwen3_next", "mlp.gate"},
                             {"qwen3_next", "shared_expert_gate"}};

bool is_matrix(const TensorView& tensor) {
  return tensor.shape.size() >= 2 && tensor.name.ends_with(kWeight) &&
         !tensor.name.ends_with("norm.weight");
}

Json described(const MlxFormat& format) {
  return {
      {"group_size", format.group}, {"bits", format.bits}, {"mode", mlx_mode_name(format.mode)}};
}

}  // namespace

MlxFormat mlx_format_of(std::string_view mode, int bits, int64_t group) {
  Json format = {{"mode", mode}};
  if (bits != 0) format["bits"] = static_cast<uint64_t>(bits);
  if (group != 0) format["group_size"] = static_cast<uint64_t>(group);
  try {
    if (!format.contains("bits") && !format.contains("group_size")) format["group_size"] = nullptr;
    return *mlx_format({{"quantization", format}}, "all layers");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kFormat) throw;
    throw Error(ErrorKind::kInput,
                "found {} bits in groups of {} ({}); expected affine with 2, 3, 4, 5, 6 or 8 bits "
                "in groups of 32, 64 or 128, mxfp4 (4 bits, 32), mxfp8 (8 bits, 32) or nvfp4 (4 "
                "bits, 16)",
                bits == 0 ? "default" : std::to_string(bits),
                group == 0 ? "the default size" : std::to_string(group), printable(mode));
  }
}

MlxPlan plan_mlx(const FolderTensors& tensors, const FolderType& type, const MlxOptions& options) {
  std::vector<Regex> patterns;
  for (const MlxRule& rule : options.rules) patterns.emplace_back(rule.pattern);
  RegexScratch scratch;
  Regex::Match match;
  MlxPlan plan{{}, {}, described(options.format)};
  for (const FolderTensor& tensor : tensors.tensors) {
    std::optional<MlxFormat>& format = plan.formats.emplace_back();
    if (!is_matrix(tensor.view)) continue;
    const std::string_view layer =
        std::string_view(tensor.view.name).substr(0, tensor.view.name.size() - kWeight.size());
    const auto kept = std::ranges::find_if(kKept, [&](const KeptRow& row) {
      return row.type == type.type && layer.ends_with(row.end);
    });
    format = kept == std::end(kKept) ? options.format : kept->format;
    for (size_t i = 0; i < patterns.size(); ++i)
      if (patterns[i].find(layer, 0, scratch, match)) {
        format = options.rules[i].format;
        break;
      }
    if (format && tensor.view.shape.back() % format->group != 0) {
      format.reset();
      plan.misfits.push_back(tensor.view.name);
    }
    if (format && *format != options.format)
      plan.quantization[std::string(layer)] = described(*format);
  }
  const auto quantised = [](const auto& format) { return format.has_value(); };
  if (std::ranges::none_of(plan.formats, quantised)) plan.quantization = nullptr;
  return plan;
}

}  // namespace veery
