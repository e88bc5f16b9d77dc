#include "import/folder/described.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/source_config.h"
#include "model/config.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

// Keys of some families and the common keys that they are renamed to.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"n_embd", "hidden_size"},
    {"n_inner", "intermediate_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_positions", "max_position_embeddings"},
    {"activation_function", "hidden_act"},
    {"layer_norm_eps", "rms_norm_eps"},
    {"layer_norm_epsilon", "rms_norm_eps"},
    {"norm_epsilon", "rms_norm_eps"},
    {"rotary_pct", "partial_rotary_factor"},
    {"rope_pct", "partial_rotary_factor"},
    {"num_layers", "num_hidden_layers"},
    {"scale_emb", "embedding_multiplier"},
    {"moe_k", "num_experts_per_tok"},
    {"top_k_experts", "num_experts_per_tok"},
    {"moe_topk", "num_experts_per_tok"},
    {"ffn_dim", "intermediate_size"},
    {"ffn_hidden_size", "intermediate_size"},
    {"activation", "hidden_act"},
    {"norm_eps", "rms_norm_eps"},
    {"num_kv_heads", "num_key_value_heads"},
    {"n_head_kv", "num_key_value_heads"},
    {"parallel_attn", "use_parallel_residual"},
    {"n_embed", "hidden_size"},
    {"seq_length", "max_position_embeddings"},
    {"d_model", "hidden_size"},
    {"n_heads", "num_attention_heads"},
    {"n_layers", "num_hidden_layers"},
    {"max_seq_len", "max_position_embeddings"},
    {"softmax_scale", "attention_multiplier"},
    {"moe_num_experts", "num_experts"},
    {"moe_num_shared_experts", "n_shared_experts"},
    {"rotary_emb_base", "rope_theta"},
    {"rotary_emb_fraction", "partial_rotary_factor"},
    {"tie_embedding", "tie_word_embeddings"},
    {"num_experts_per_token", "num_experts_per_tok"},
    {"num_shared_experts", "n_shared_experts"},
    {"moe_renormalize", "norm_topk_prob"},
    {"route_norm", "norm_topk_prob"},
    {"route_scale", "routed_scaling_factor"},
    {"score_func", "scoring_func"},
    {"score_function", "scoring_func"},
    {"expert_selection_fn", "scoring_func"},
    {"moe_router_activation_func", "scoring_func"},
    {"num_expert_group", "n_group"},
    {"model_max_length", "max_position_embeddings"},
    {"output_logit_soft_cap", "final_logit_softcapping"},
    {"embedding_dim", "hidden_size"},
    {"block_ff_dim", "intermediate_size"},
    {"block_norm_eps", "rms_norm_eps"},
    {"mlp_hidden_act", "hidden_act"},
    {"lm_head_multiplier", "logit_scale"},
    {"global_attn_every_n_layers", "sliding_window_pattern"},
    {"global_rope_theta", "rope_theta"},
    {"local_rope_theta", "rope_local_base_freq"}};

bool has_tensor(const ModelFile& file, std::string_view part) {
  return std::ranges::any_of(file.tensors, [&](const TensorView& tensor) {
    return tensor.name.find(part) != std::string::npos;
  });
}

// MPT nests its attention settings in attn_config; moves them to the top level.
void lift_attention(Json& config) {
  const auto nested = config.find("attn_config");
  if (nested == config.end() || !nested->is_object()) return;
  const Json attention = *nested;
  for (const auto& [key, value] : attention.items())
    if (!config.contains(key)) config[key] = value;
}

// Falcon's head counts depend on its other keys.
void normalise_falcon(Json& config) {
  const auto flag = [&](const char* key, bool usual) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() ? found->get<bool>() : usual;
  };
  const bool newer = flag("new_decoder_architecture", false);
  if (newer) config["use_parallel_residual"] = true;
  if (!newer) config["num_key_value_heads"] = Json();
  if (!newer && flag("multi_query", true)) config["num_key_value_heads"] = 1;
}

// xLSTM has two keys for the number of layers; num_blocks takes precedence.
void normalise_xlstm(Json& config) {
  const auto blocks = config.find("num_blocks");
  if (blocks != config.end() && !blocks->is_null()) config["num_hidden_layers"] = Json(*blocks);
}

// Renames the keys of the package `xlstm`, in which the activation of feed-forward parts is nested.
void normalise_xlstm_lm(const ModelFile& file, Json& config) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"embedding_dim", "hidden_size"},
      {"num_blocks", "num_hidden_layers"},
      {"context_length", "max_position_embeddings"},
      {"tie_weights", "tie_word_embeddings"}};
  for (const auto& [theirs, ours] : kNames)
    if (const auto value = config.find(theirs); value != config.end()) config[ours] = Json(*value);
  const auto block = config.find("slstm_block");
  if (block == config.end() || !block->is_object()) return;
  const auto feed = block->find("feedforward");
  if (feed == block->end() || !feed->is_object()) return;
  if (const auto act = feed->find("act_fn"); act != feed->end() && *act != "gelu")
    throw Error(ErrorKind::kUnsupported, "{}: act_fn is {}, expected gelu", file.path,
                dump_json(*act));
  const auto cells = block->find("slstm");
  if (cells == block->end() || !cells->is_object()) return;
  if (const auto kind = cells->find("function"); kind != cells->end() && *kind != "slstm")
    throw Error(ErrorKind::kUnsupported, "{}: function is {}, expected slstm", file.path,
                dump_json(*kind));
}

// Returns the number of layers, limited to the largest valid number; 0 if the file does not state
// it.
int64_t layers_of(const Json& config) {
  constexpr const char* kLayers = "num_hidden_layers";
  const auto found = config.find(kLayers);
  if (found == config.end() || !found->is_number_unsigned()) return 0;
  const auto most = static_cast<uint64_t>(range_of_size(kLayers).high);
  return static_cast<int64_t>(std::min(found->get<uint64_t>(), most));
}

// Returns the layer kinds of Cohere 2 mixture models. Without a list, leading dense layers have
// their own period.
Json cohere_kinds(const Json& config, const char* key, int64_t layers, int64_t dense) {
  const auto list = config.find(key);
  if (list != config.end() && list->is_array()) return *list;
  const bool windows = std::string_view(key) == "layer_types";
  const auto period = [&](const char* name, int64_t usual) {
    const auto found = config.find(name);
    return found != config.end() && found->is_number_unsigned() && *found != 0
               ? found->get<int64_t>()
               : usual;
  };
  Json kinds = Json::array();
  for (int64_t i = 0; i < layers; ++i) {
    const bool leads = i < dense;
    const int64_t every = leads ? period("prefix_dense_sliding_window_pattern", 1)
                                : period("sliding_window_pattern", 4);
    const bool sees_all = ((leads ? i : i - dense) + 1) % every == 0;
    if (windows)
      kinds.push_back(sees_all ? "full_attention" : "sliding_attention");
    else
      kinds.push_back(leads ? "dense" : "sparse");
  }
  return kinds;
}

// Cohere 2 mixture models: RoPE applies to layers with a window and, unless dense layers have their
// own period, to dense layers. The epsilon of the unused kind of norm is null.
void normalise_cohere_moe(const ModelFile& file, Json& config) {
  const auto eps = config.find("rms_norm_eps");
  if (eps != config.end() && eps->is_null()) config.erase("rms_norm_eps");
  const int64_t layers = layers_of(config);
  const auto first = config.find("first_k_dense_replace");
  const int64_t dense =
      first != config.end() && first->is_number_unsigned() ? first->get<int64_t>() : 0;
  const Json windows = cohere_kinds(config, "layer_types", layers, dense);
  const Json parts = cohere_kinds(config, "mlp_layer_types", layers, dense);
  if (parts.size() != windows.size())
    throw Error(ErrorKind::kFormat, "{}: mlp_layer_types has {} entries, but layer_types has {}",
                file.path, parts.size(), windows.size());
  const auto period = config.find("prefix_dense_sliding_window_pattern");
  const bool turns_dense = period == config.end() || *period == 1;
  Json turned = Json::array();
  for (size_t i = 0; i < windows.size(); ++i)
    turned.push_back(windows[i] == "sliding_attention" || (turns_dense && parts[i] == "dense") ? 1
                                                                                               : 0);
  config["layer_types"] = windows;
  if (windows.size() == static_cast<size_t>(layers)) config["no_rope_layers"] = turned;
}

// Nemotron-H lists its layers by name, in older files by letter. Converts letters to names and sets
// the number of layers accordingly.
void normalise_nemotron_h(const ModelFile& file, Json& config) {
  constexpr std::pair<char, const char*> kLetters[] = {
      {'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}};
  constexpr const char* kPattern = "hybrid_override_pattern";
  Json names = Json::array();
  const auto pattern = config.find(kPattern);
  if (pattern != config.end() && pattern->is_string()) {
    for (const char letter : pattern->get<std::string>()) {
      const auto row = std::ranges::find(kLetters, letter, &std::pair<char, const char*>::first);
      if (row == std::end(kLetters))
        throw Error(ErrorKind::kFormat, "{}: {} has '{}', expected M, *, - or E", file.path,
                    kPattern, printable(std::string(1, letter)));
      names.push_back(row->second);
    }
  } else if (const auto list = config.find("layers_block_type");
             list != config.end() && list->is_array()) {
    for (const Json& item : *list)
      names.push_back(item == "linear_attention" ? Json("mamba")
                      : item == "full_attention" ? Json("attention")
                                                 : item);
  } else {
    throw Error(ErrorKind::kFormat, "{}: missing {} or layers_block_type", file.path, kPattern);
  }
  if (std::ranges::find(names, Json("moe")) == names.end()) config["n_routed_experts"] = 0;
  config["num_hidden_layers"] = names.size();
  config["layers_block_type"] = std::move(names);
}

// Computes the size of Falcon-H1's recurrent heads if the file omits it.
void normalise_falcon_h1(Json& config) {
  const auto head = config.find("mamba_d_head");
  if (head != config.end() && *head != "auto" && !head->is_null()) return;
  const auto size = [&](const char* key, int64_t usual) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number_unsigned() && *found != 0
               ? std::min<int64_t>(found->get<int64_t>(), kMaxSize)
               : usual;
  };
  const auto inner = config.find("mamba_d_ssm");
  const int64_t values = inner != config.end() && inner->is_null()
                             ? size("mamba_expand", 2) * size("hidden_size", 4096)
                             : size("mamba_d_ssm", 1024);
  config["mamba_d_head"] = values / size("mamba_n_heads", 128);
}

// RWKV-7 has no attention heads, so both head counts become 1. The width of the channel mix is a
// multiple of the model's width unless it is given.
void normalise_rwkv7(Json& config) {
  config["num_attention_heads"] = config["num_key_value_heads"] = 1;
  const auto given = config.find("intermediate_size");
  if (given != config.end() && !given->is_null()) return;
  const auto ratio = config.find("hidden_ratio");
  const auto width = config.find("hidden_size");
  if (width == config.end() || !width->is_number_unsigned()) return;
  const double times = ratio != config.end() && ratio->is_number() ? ratio->get<double>() : 4;
  constexpr int64_t kMultiple = 32;
  const double hidden = static_cast<double>(std::min<int64_t>(width->get<int64_t>(), kMaxSize)) *
                        std::clamp(times, 0.0, 1e3);
  config["intermediate_size"] =
      (static_cast<int64_t>(hidden) + kMultiple - 1) / kMultiple * kMultiple;
}

// Jamba: a single expert is a dense layer.
void normalise_jamba(Json& config) {
  const auto experts = config.find("num_experts");
  if (experts != config.end() && *experts == 1) *experts = 0;
}

// Generates the layer kinds of LFM3 if there is no list.
void normalise_lfm3(Json& config) {
  const auto list = config.find("layer_types");
  if (list != config.end() && !list->is_null()) return;
  const int64_t count = config.contains("num_hidden_layers") ? layers_of(config) : 24;
  Json names = Json::array();
  for (int64_t i = 0; i < count; ++i)
    names.push_back(i % 4 == 2            ? "full_attention"
                    : i % 4 == 0 && i > 0 ? "sliding_attention"
                                          : "conv");
  config["layer_types"] = std::move(names);
}

// Ling 2.0 repeats the width of one shared expert; the published code ignores that key.
void normalise_bailing(Json& config) { config.erase("moe_shared_expert_intermediate_size"); }

// HunYuan repeats values for each layer; replaces the lists by the common value.
void merge_layers(const ModelFile& file, Json& config) {
  for (const char* key : {"num_experts_per_tok", "moe_intermediate_size", "num_experts"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_array() || found->empty()) continue;
    const Json first = found->front();
    if (std::ranges::any_of(*found, [&](const Json& item) { return item != first; }))
      throw Error(ErrorKind::kUnsupported, "{}: {} differs between layers, expected one value",
                  file.path, key);
    config[key] = first;
  }
}

// GPT-NeoX ignores the common names of these keys.
void normalise_neox(Json& config) {
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) config.erase(key);
}

// Guesses the model type from tensor names, for folders whose config.json does not state it.
std::string_view type_by_weights(const ModelFile& file) {
  const bool head_norms = has_tensor(file, "layers.0.self_attn.q_norm.weight");
  if (has_tensor(file, "layers.0.pre_feedforward_layernorm.weight"))
    return head_norms ? "gemma3_text" : "gemma2";
  if (has_tensor(file, "layers.0.post_feedforward_layernorm.weight")) return "olmo2";
  if (has_tensor(file, "h.0.attn.c_attn.weight")) return "gpt2";
  if (has_tensor(file, "layers.0.attention.query_key_value.weight")) return "gpt_neox";
  if (has_tensor(file, "layers.0.mlp.c_fc.weight")) return "starcoder2";
  if (head_norms) return "qwen3";
  if (has_tensor(file, "layers.0.self_attn.qkv_proj.weight")) return "phi3";
  if (has_tensor(file, "layers.0.self_attn.q_proj.bias") &&
      !has_tensor(file, "layers.0.self_attn.o_proj.bias"))
    return "qwen2";
  return has_tensor(file, "layers.0.self_attn.q_proj.weight") ? "llama" : "";
}

}  // namespace

const Json& text_config(const Json& config) {
  for (const char* key : {"text_config", "llm_config"}) {
    const auto nested = config.find(key);
    if (nested != config.end() && nested->is_object()) return *nested;
  }
  return config;
}

const FolderType* find_type(const ModelFile& file, std::string& found) {
  const Json& text = text_config(*file.config);
  const auto named = text.find("model_type");
  const auto classes = text.find("architectures");
  if (named != text.end() && named->is_string()) {
    found = named->get<std::string>();
    // Ling 1 and Ling 2.0 share the name "bailing_moe"; some programs rename the latter to
    // "bailing_moe_v2".
    const Json first = Json::array({"BailingMoeForCausalLM"});
    if (found == "bailing_moe" && classes != text.end() && *classes == first)
      found = "bailing_moe_v1";
    if (found == "bailing_moe_v2") found = "bailing_moe";
    // Jina's second BERT calls itself "bert"; its position type identifies it.
    const auto positions = text.find("position_embedding_type");
    if (found == "bert" && positions != text.end() && *positions == "alibi") found = "jina_bert_v2";
    return find_folder_type(found);
  }
  if (classes != text.end() && classes->is_array() && !classes->empty() &&
      classes->front().is_string()) {
    found = classes->front().get<std::string>();
    return find_folder_class(found);
  }
  found = text.contains("mlstm_block") || text.contains("slstm_block")
              ? "xlstm_lm"
              : std::string(type_by_weights(file));
  return find_folder_type(found);
}

Described described(const ModelFile& file) {
  Described result{text_config(*file.config), {}};
  Json& config = result.config;
  std::string found;
  const FolderType* type = find_type(file, found);
  if (type != nullptr && type->type == "gpt_neox") normalise_neox(config);
  lift_attention(config);
  if (type != nullptr && type->type == "nemotron_h") normalise_nemotron_h(file, config);
  if (type != nullptr && type->type == "rwkv7") normalise_rwkv7(config);
  if (type != nullptr && type->type == "jamba") normalise_jamba(config);
  if (type != nullptr && type->type == "lfm3") normalise_lfm3(config);
  if (type != nullptr && type->type == "falcon_h1") normalise_falcon_h1(config);
  if (type != nullptr && type->type == "cohere2_moe") normalise_cohere_moe(file, config);
  if (type != nullptr && type->type == "bailing_moe") normalise_bailing(config);
  // All layers of these types are equal, so the list, whose names other types do not use, is
  // dropped.
  if (type != nullptr && (type->type == "deepseek_v32" || type->type == "glm_moe_dsa"))
    config.erase("layer_types");
  for (const auto& [theirs, ours] : kOtherNames) {
    const auto value = config.find(theirs);
    if (value == config.end() || config.contains(ours)) continue;
    config[ours] = Json(*value);
    result.names[ours] = theirs;
  }
  merge_layers(file, config);
  if (type != nullptr && type->type == "falcon") normalise_falcon(config);
  if (type != nullptr && type->type == "xlstm_lm") normalise_xlstm_lm(file, config);
  if (type != nullptr && type->type == "xlstm") normalise_xlstm(config);
  if (type != nullptr && type->type == "whisper") normalise_whisper(config);
  return result;
}

JsonFields fields_of(const ModelFile& file, const Described& described, const FolderType* type) {
  Json defaults = type == nullptr ? Json::object() : parse_json(type->defaults, "defaults");
  return {described.config, std::move(defaults), file.path + "/config.json", described.names};
}

}  // namespace veery
