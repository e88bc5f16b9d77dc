#include "import/unused_tensors.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "import/names/folder_names.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

// Prefixes of tensors that belong to parts other than the text model.
constexpr std::string_view kOtherParts[] = {
    "v.",        "mm.",         "a.",          "vision_",           "model.vision_", "visual.",
    "audio_",    "model.audio", "multi_modal", "model.multi_modal", "model.visual.", "mtp.",
    "model.mtp", "cls",         "lm_head.",    "decoder.",          "dense.",        "dense_2.",
    "dense_3."};

bool is_known_extra(std::string_view name) {
  // xIELU parameters are read with the configuration.
  return is_auxiliary_tensor(name) || name.find(".xielu_") != std::string_view::npos ||
         std::ranges::any_of(kOtherParts, [&](auto prefix) { return name.starts_with(prefix); });
}

// Returns whether the model does not read a tensor: keys and values of layers that share another
// layer's KV cache, and sparse attention indexers that are not used; files contain both.
bool is_unread(const TransformerConfig& config, std::string_view name, int64_t layer) {
  const IndexConfig& index = config.index;
  if (index.used > 0 && layer >= 0 && layer < config.layers &&
      name.find(".indexer.") != std::string_view::npos)
    return !config.sparse || !index.layers[static_cast<size_t>(layer)];
  constexpr std::string_view kParts[] = {".attn_k.weight", ".attn_v.weight", ".attn_k_norm.weight"};
  return layer >= 0 && layer < config.layers && config.shares_kv(static_cast<int32_t>(layer)) &&
         std::ranges::any_of(kParts, [&](auto part) { return name.ends_with(part); });
}

// Records the definition of a file's model, for serving or encoding, with its encoder.
Trace trace_into(Graph& graph, const ModelFile& file, const TransformerConfig& config) {
  const bool decoder = config.attention.mask == Mask::kCausal;
  Trace trace(graph, decoder ? TraceMode::kServe : TraceMode::kEncode,
              Weights(weight_rules(config.architecture), file));
  const Architecture& architecture = find_architecture(config.architecture);
  TransformerConfig whole = config;
  whole.sparse = config.index.used > 0;
  architecture.define(trace, whole);
  if (architecture.encoder != nullptr) architecture.encoder(trace, whole);
  return trace;
}

bool is_beyond(const TransformerConfig& config, int64_t layer) {
  return layer >= int64_t{config.layers} + config.mtp_layers;
}

}  // namespace

std::pair<int64_t, std::string> layer_part(const std::string& name) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return {-1, name};
  const char* const begin = name.data() + kBlock.size();
  const char* const end = name.data() + name.size();
  uint32_t layer = 0;
  const auto [next, error] = std::from_chars(begin, end, layer);
  if (error != std::errc() || next == end || *next != '.') return {-1, name};
  return {layer, std::string(next + 1, end)};
}

std::string layers_key(const ModelFile& file, const TransformerConfig& config) {
  return file.container == Container::kFolder ? "num_hidden_layers"
                                              : config.architecture + ".block_count";
}

UnusedTensors unused_tensors(const ModelFile& file, const TransformerConfig& config,
                             const Graph& graph) {
  std::set<std::string_view> used;
  for (const Node& node : graph.nodes())
    if (node.op == op::kParam) used.insert(node.name);
  UnusedTensors unused;
  for (const TensorView& tensor : file.tensors) {
    const bool repeats_embedding = tensor.name == "output.weight" && config.output.tied;
    if (used.contains(tensor.name) || repeats_embedding) continue;
    const int64_t layer = layer_part(tensor.name).first;
    if (is_beyond(config, layer))
      unused.beyond.push_back(tensor.name);
    else if (layer >= config.layers || is_known_extra(tensor.name) ||
             is_unread(config, tensor.name, layer))
      unused.other_parts.push_back(tensor.name);
    else if (tensor.name.starts_with("output."))
      unused.other_parts.push_back(tensor.name);
    else
      unused.unknown.push_back(tensor.name);
  }
  return unused;
}

Graph trace_definition(const ModelFile& file, const TransformerConfig& config) {
  Graph graph;
  trace_into(graph, file, config);
  return graph;
}

void refuse_wrong_weights(const ModelFile& file, const TransformerConfig& config) {
  Graph graph;
  trace_into(graph, file, config).check_weights();
}

void refuse_surplus_layers(const ModelFile& file, const TransformerConfig& config) {
  for (const TensorView& tensor : file.tensors) {
    const int64_t layer = layer_part(tensor.name).first;
    if (is_beyond(config, layer))
      throw Error(ErrorKind::kFormat, "{}: {} is {}, but found a tensor of layer {}: {}", file.path,
                  layers_key(file, config), config.layers, layer, printable(tensor.name));
  }
}

void refuse_unknown_tensors(const ModelFile& file, const TransformerConfig& config) {
  Graph graph;
  trace_into(graph, file, config).check_weights();
  const UnusedTensors unused = unused_tensors(file, config, graph);
  if (unused.unknown.empty()) return;
  std::vector<std::string> names;
  for (const std::string& name : unused.unknown) names.push_back(printable(name));
  throw Error(ErrorKind::kUnsupported, "{}: found unknown tensors {}, expected those of a {} model",
              file.path, some_of(names), config.architecture);
}

}  // namespace veery
