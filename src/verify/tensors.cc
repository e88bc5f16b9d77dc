// tensors.cc: checks that all tensors that the definition requires exist, and no others.
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/printable.h"
#include "import/folder/folder_config.h"
#include "import/unused_tensors.h"
#include "verify/parts.h"

namespace veery {
namespace {

std::string wanted_text(const Node& node) {
  const Shape& shape = node.shape();
  return shape.rows() == Dim(1) ? fmt::format("{}", shape.cols())
                                : fmt::format("{} x {}", shape.rows().size, shape.cols());
}

bool is_turned(const TensorView& tensor, const Node& node) {
  return tensor.shape.size() == 2 && tensor.shape[0] == node.shape().cols() &&
         Dim(tensor.shape[1]) == node.shape().rows();
}

void check_presence(const ModelFile& file, const Graph& graph,
                    const std::vector<std::string>& unused, Report& report) {
  std::vector<std::string> missing;
  std::vector<std::string> misfits;
  bool turned = false;
  int64_t needed = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kParam) continue;
    ++needed;
    const TensorView* tensor = file.find(node.name);
    if (tensor == nullptr) {
      missing.push_back(fmt::format("{} ({})", node.name, wanted_text(node)));
    } else if (!has_shape(*tensor, node)) {
      turned = turned || is_turned(*tensor, node);
      misfits.push_back(
          fmt::format("{} is {}, not {}", node.name, shape_text(tensor->shape), wanted_text(node)));
    } else if (!info(tensor->dtype).decodable) {
      misfits.push_back(fmt::format("{} has type {}", node.name, info(tensor->dtype).name));
    }
  }
  if (missing.empty()) {
    report.ok("tensors", fmt::format("all {} required tensors are present", needed));
  } else {
    report.add({"tensors", CheckState::kFail, fmt::format("missing: {}", some_of(missing)),
                fmt::format("{} tensors", needed),
                unused.empty()
                    ? "the file is truncated, or the configuration belongs to another model"
                    : fmt::format("unused: {}", some_of(unused))});
  }
  if (misfits.empty())
    report.ok("shapes", "as configured");
  else
    report.add({"shapes", CheckState::kFail, some_of(misfits), "the shapes of the configuration",
                turned ? "a matrix is transposed: weights are (out, in)"
                       : "the configuration belongs to another model"});
}

void check_left_over(const ModelFile& file, const TransformerConfig& config,
                     const UnusedTensors& unused, Report& report) {
  const bool head =
      file.container == Container::kFolder && !config.output.tied && says_tied_head(file) == true;
  if (head)
    report.add({"tied head", CheckState::kWarn,
                "the configuration says that the output head is the embedding, but the file has "
                "another one, which is used",
                "tie_word_embeddings: false", "other programs may use the embedding"});
  if (!unused.beyond.empty())
    report.add({"layers", CheckState::kFail,
                fmt::format("{} beyond the last layer: {} is {}", some_of(unused.beyond),
                            layers_key(file, config), config.layers),
                fmt::format("layers 0 to {}", config.layers - 1),
                "the number of layers is too small, or tensors of another model were added"});
  if (!unused.unknown.empty())
    report.add({"unused tensors", CheckState::kWarn, some_of(unused.unknown), "no such tensors",
                "unknown to the model definition: the results may be wrong"});
  if (!head && unused.beyond.empty() && unused.unknown.empty())
    report.ok("unused tensors",
              unused.other_parts.empty()
                  ? "none"
                  : fmt::format("{} tensors of other parts", unused.other_parts.size()));
}

// Returns whether a layer should have the part according to the configuration; not all layers have
// keys and values.
bool needs_part(const TransformerConfig& config, int32_t layer, std::string_view part) {
  if (const std::vector<bool>& cells = config.recurrent.blocks.cells; !cells.empty()) {
    const bool cell = cells[static_cast<size_t>(layer)];
    if (part.starts_with("mlstm_")) return !cell;
    if (part.starts_with("slstm_") || part.starts_with("ffn_")) return cell;
    if (part.starts_with("cell_conv1d"))
      return !cell || config.recurrent.blocks.cell_conv_width > 0;
  }
  const bool value = part.starts_with("attn_v.");
  if (value && config.attention.values_are_keys && !config.is_local(layer)) return false;
  const bool key = part.starts_with("attn_k.") || part.starts_with("attn_k_norm.");
  return !config.shares_kv(layer) || !(key || value);
}

// Checks parts that the definition uses only if they exist: biases and norms.
void check_optional_parts(const ModelFile& file, const TransformerConfig& config, Report& report) {
  std::map<std::string, std::set<int64_t>> layers;
  for (const TensorView& tensor : file.tensors) {
    const auto [layer, part] = layer_part(tensor.name);
    if (layer >= 0 && layer < config.layers &&
        (part.ends_with(".bias") || part.ends_with("norm.weight")) &&
        needs_part(config, static_cast<int32_t>(layer), part))
      layers[part].insert(layer);
  }
  std::vector<std::string> odd;
  for (const auto& [part, where] : layers) {
    const auto count = static_cast<int64_t>(where.size());
    int64_t wanted = 0;
    for (int32_t layer = 0; layer < config.layers; ++layer)
      wanted += needs_part(config, layer, part) ? 1 : 0;
    if (count == wanted) continue;
    odd.push_back(fmt::format("{} in {} of {} layers", part, count, wanted));
  }
  // Parts of mixtures are expected to be missing in leading dense layers.
  std::erase_if(odd, [](const std::string& text) { return text.starts_with("exp_probs_b"); });
  if (odd.empty())
    report.ok("uniform layers", fmt::format("all {} layers have the same parts", config.layers));
  else
    report.add({"uniform layers", CheckState::kWarn, some_of(odd), "the same in all layers",
                "a bias or norm was lost; it is not applied"});
}

}  // namespace

void check_tensors(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                   Report& report) {
  const UnusedTensors unused = unused_tensors(file, config, graph);
  check_presence(file, graph, unused.unknown, report);
  check_left_over(file, config, unused, report);
  check_optional_parts(file, config, report);
}

}  // namespace veery
