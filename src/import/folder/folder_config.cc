#include "import/folder/folder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "import/folder/folder_rope.h"
#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"
#include "import/folder/recurrent_config.h"
#include "import/folder/source_config.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

// What some families call the same, and what the others call it.
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
    {"moe_router_activation_func", "scoring_func"},
    {"num_expert_group", "n_group"},
    {"model_max_length", "max_position_embeddings"},
    {"output_logit_soft_cap", "final_logit_softcapping"},
    {"embedding_dim", "hidden_size"},
    {"block_ff_dim", "intermediate_size"},
    {"block_norm_eps", "rms_norm_eps"},
    {"global_rope_theta", "rope_theta"},
    {"local_rope_theta", "rope_local_base_freq"}};

bool has_tensor(const ModelFile& file, std::string_view part) {
  return std::ranges::any_of(file.tensors, [&](const TensorView& tensor) {
    return tensor.name.find(part) != std::string::npos;
  });
}

// MPT has its numbers of attention apart.
void lift_attention(Json& config) {
  const auto nested = config.find("attn_config");
  if (nested == config.end() || !nested->is_object()) return;
  const Json attention = *nested;
  for (const auto& [key, value] : attention.items())
    if (!config.contains(key)) config[key] = value;
}

// Falcon's keys of heads count only where its other keys let them.
void settle_falcon(Json& config) {
  const auto flag = [&](const char* key, bool usual) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() ? found->get<bool>() : usual;
  };
  const bool newer = flag("new_decoder_architecture", false);
  if (newer) config["use_parallel_residual"] = true;
  if (!newer) config["num_key_value_heads"] = Json();
  if (!newer && flag("multi_query", true)) config["num_key_value_heads"] = 1;
}

// Of xLSTM's two names for the number of layers the other one counts.
void settle_xlstm(Json& config) {
  const auto blocks = config.find("num_blocks");
  if (blocks != config.end() && !blocks->is_null()) config["num_hidden_layers"] = Json(*blocks);
}

// HunYuan says for each layer what is the same for all of them.
void merge_layers(const ModelFile& file, Json& config) {
  for (const char* key : {"num_experts_per_tok", "moe_intermediate_size", "num_experts"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_array() || found->empty()) continue;
    const Json first = found->front();
    if (std::ranges::any_of(*found, [&](const Json& item) { return item != first; }))
      throw Error(ErrorKind::kUnsupported, "{}: {} is not the same for each layer", file.path, key);
    config[key] = first;
  }
}

// GPT-NeoX does not look at the names that the others have.
void settle_neox(Json& config) {
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) config.erase(key);
}

// For folders whose config.json does not say what they are.
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

const FolderType* find_type(const ModelFile& file, std::string& found) {
  const Json& text = text_config(*file.config);
  const auto named = text.find("model_type");
  if (named != text.end() && named->is_string()) {
    found = named->get<std::string>();
    return find_folder_type(found);
  }
  const auto classes = text.find("architectures");
  if (classes != text.end() && classes->is_array() && !classes->empty() &&
      classes->front().is_string()) {
    found = classes->front().get<std::string>();
    return find_folder_class(found);
  }
  found = type_by_weights(file);
  return find_folder_type(found);
}

/// The text part under the names that most families use, and what the file calls them.
struct Described {
  Json config;
  std::map<std::string, std::string> names;
};
Described described(const ModelFile& file) {
  Described result{text_config(*file.config), {}};
  Json& config = result.config;
  std::string found;
  const FolderType* type = find_type(file, found);
  if (type != nullptr && type->type == "gpt_neox") settle_neox(config);
  lift_attention(config);
  for (const auto& [theirs, ours] : kOtherNames) {
    const auto value = config.find(theirs);
    if (value == config.end() || config.contains(ours)) continue;
    config[ours] = Json(*value);
    result.names[ours] = theirs;
  }
  merge_layers(file, config);
  if (type != nullptr && type->type == "falcon") settle_falcon(config);
  if (type != nullptr && type->type == "xlstm") settle_xlstm(config);
  if (type != nullptr && type->type == "whisper") settle_whisper(config);
  return result;
}

// Reads `described`, which has to last as long.
JsonFields fields_of(const ModelFile& file, const Described& described, const FolderType* type) {
  Json defaults = type == nullptr ? Json::object() : parse_json(type->defaults, "defaults");
  return {described.config, std::move(defaults), file.path + "/config.json", described.names};
}

// Rows of a matrix of the file; 0 if it is not there.
int64_t rows_of(const ModelFile& file, std::string_view name) {
  const TensorView* tensor = file.find(name);
  return tensor == nullptr || tensor->shape.size() != 2 ? 0 : tensor->shape[0];
}

// LFM2's width of the feed-forward part is two thirds of what the file says, times a factor,
// rounded up.
int64_t adjusted_hidden(const JsonFields& fields, int64_t hidden) {
  if (!fields.flag_or("block_auto_adjust_ff_dim", false)) return hidden;
  const int64_t multiple = fields.size("block_multiple_of");
  const auto scaled = static_cast<int64_t>(fields.number("block_ffn_dim_multiplier") *
                                           static_cast<double>(2 * hidden / 3));
  return (scaled + multiple - 1) / multiple * multiple;
}

void read_sizes(const JsonFields& fields, const ModelFile& file, TransformerConfig& c) {
  c.dim = fields.size("hidden_size");
  const int64_t up_rows = rows_of(file, "blk.0.ffn_up.weight");
  c.hidden = up_rows > 0 && !fields.has("intermediate_size")
                 ? up_rows
                 : adjusted_hidden(fields, fields.size("intermediate_size"));
  c.layers = static_cast<int32_t>(fields.size("num_hidden_layers"));
  c.further_layers = static_cast<int32_t>(fields.size_or_zero("num_nextn_predict_layers"));
  c.heads = static_cast<int32_t>(fields.size("num_attention_heads"));
  c.context = static_cast<int32_t>(fields.size("max_position_embeddings"));
  const int64_t q_rows = rows_of(file, "blk.0.attn_q.weight");
  const int64_t k_rows = rows_of(file, "blk.0.attn_k.weight");
  int64_t head_dim = c.dim / c.heads;
  if (fields.given("head_dim"))
    head_dim = fields.size("head_dim");
  else if (q_rows > 0)
    head_dim = q_rows / c.heads;
  else if (fields.has("head_dim"))
    head_dim = fields.size("head_dim");
  if (head_dim < 1)
    throw Error(ErrorKind::kFormat, "{}: {} heads for a width of {}", fields.where(), c.heads,
                c.dim);
  c.head_dim = static_cast<int32_t>(head_dim);
  int64_t kv_heads = c.heads;
  if (fields.given("num_key_value_heads"))
    kv_heads = fields.size("num_key_value_heads");
  else if (k_rows >= head_dim)
    kv_heads = k_rows / head_dim;
  else if (fields.has("num_key_value_heads"))
    kv_heads = fields.size("num_key_value_heads");
  c.kv_heads = static_cast<int32_t>(kv_heads);
  if (c.heads % c.kv_heads != 0)
    throw Error(ErrorKind::kFormat, "{}: {} heads do not divide among {} key heads", fields.where(),
                c.heads, c.kv_heads);
  const TensorView& embedding = file.at("token_embd.weight");
  if (embedding.shape.size() != 2)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected 2", file.path,
                embedding.name, embedding.shape.size());
  c.vocab = embedding.shape[0];
}

// The first Gemma means the other formula where it says "gelu", later ones have a key of their own
// and do not look at the usual one.
Activation read_activation(const JsonFields& fields, std::string_view architecture) {
  const bool gemma = architecture == "gemma";
  std::string name = gemma ? "" : fields.text_or("hidden_activation", "");
  if (name.empty() && architecture.starts_with("gemma") && !gemma) name = "gelu_pytorch_tanh";
  if (name.empty()) name = fields.text_or("hidden_act", "silu");
  if (gemma && name == "gelu") name = "gelu_pytorch_tanh";
  if (name == "silu" || name == "swish" || name == "swiglu") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::kGelu;
  if (name == "gelu" || name == "gelu_python") return Activation::kGeluErf;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu2") return Activation::kReluSquared;
  if (name == "xielu") return Activation::kXielu;
  throw Error(
      ErrorKind::kUnsupported,
      "{}: hidden_act is '{}', expected silu, gelu, gelu_pytorch_tanh, relu, relu2 or xielu",
      fields.where(), printable(name));
}

// The layers that layer_types calls local. Absent: no such list.
std::optional<std::vector<bool>> listed_layers(const JsonFields& fields, int32_t layers) {
  const Json* list = fields.find("layer_types");
  if (list == nullptr) return std::nullopt;
  if (!list->is_array() || list->size() != static_cast<size_t>(layers))
    throw Error(ErrorKind::kFormat, "{}: layer_types has {} entries, expected one for each of {}",
                fields.where(), list->is_array() ? list->size() : 0, layers);
  std::vector<bool> local;
  for (const Json& type : *list) {
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    const bool in_window = name == "sliding_attention" || name == "chunked_attention";
    if (!in_window && name != "full_attention")
      throw Error(ErrorKind::kUnsupported,
                  "{}: layer_types has '{}', expected sliding_attention, chunked_attention or "
                  "full_attention",
                  fields.where(), printable(name));
    local.push_back(in_window);
  }
  return local;
}

// no_rope_layers has a 1 for each layer with RoPE, a 0 for each without.
void read_unrotated(const JsonFields& fields, TransformerConfig& c) {
  if (fields.text_or("position_embedding_type", "rope") == "nope")
    c.unrotated.assign(static_cast<size_t>(c.layers), true);
  const Json* list = fields.find("no_rope_layers");
  if (list != nullptr && !list->empty()) {
    if (!list->is_array() || list->size() < static_cast<size_t>(c.layers))
      throw Error(ErrorKind::kFormat,
                  "{}: no_rope_layers has {} entries, expected one for each of {}", fields.where(),
                  list->is_array() ? list->size() : 0, c.layers);
    for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i) {
      const Json& item = (*list)[i];
      c.unrotated.push_back(item == 0 || item == false);
    }
  } else if (fields.has("no_rope_layer_interval")) {
    c.unrotated =
        local_pattern(c.layers, static_cast<int32_t>(fields.size("no_rope_layer_interval")));
    c.unrotated.flip();
  }
}

void read_window(const JsonFields& fields, WindowRule rule, TransformerConfig& c) {
  const bool optional = rule == WindowRule::kFrom || rule == WindowRule::kUnrotated;
  c.chunked = rule == WindowRule::kChunked;
  const char* window = c.chunked                      ? "attention_chunk_size"
                       : rule == WindowRule::kLeading ? "local_attention"
                                                      : "sliding_window";
  if (rule == WindowRule::kNone || fields.find(window) == nullptr ||
      (optional && !fields.flag_or("use_sliding_window", false)))
    return;
  c.window = static_cast<int32_t>(fields.size(window));
  if (auto listed = listed_layers(fields, c.layers)) {
    c.local = std::move(*listed);
  } else if (rule == WindowRule::kLeading) {
    const int64_t period = fields.size("global_attn_every_n_layers");
    for (int32_t i = 0; i < c.layers; ++i) c.local.push_back(i % period != 0);
  } else if (rule == WindowRule::kPattern) {
    const char* key = fields.has("_sliding_window_pattern") ? "_sliding_window_pattern"
                                                            : "sliding_window_pattern";
    c.local = local_pattern(c.layers, static_cast<int32_t>(fields.size(key)));
  } else if (rule == WindowRule::kUnrotated || rule == WindowRule::kChunked) {
    c.local = c.unrotated;
    if (c.chunked) c.local.flip();
  } else {
    const int64_t first = rule == WindowRule::kFrom ? fields.size_or_zero("max_window_layers") : 0;
    for (int32_t i = 0; i < c.layers; ++i) c.local.push_back(i >= first);
  }
}

// Llama 4: what its head norms and the queries of layers without RoPE are.
void read_unrotated_temperature(const JsonFields& fields, TransformerConfig& c) {
  const Json* tuning = fields.find("attn_temperature_tuning");
  if (tuning == nullptr) return;
  if (fields.flag_or("use_qk_norm", false)) c.head_norm = HeadNorm::kUnweighted;
  if (*tuning == false || *tuning == 0) return;
  c.unrotated_period = static_cast<int32_t>(fields.size("floor_scale"));
  c.unrotated_temperature = fields.number("attn_scale");
}

// Factors that some families have, and what they do to their attention.
void read_scales(const JsonFields& fields, TransformerConfig& c) {
  const double plain = fields.flag_or("scale_attn_weights", true)
                           ? 1 / std::sqrt(fields.number_or("query_pre_attn_scalar", c.head_dim))
                           : 1;
  c.attention_scale = static_cast<float>(fields.number_or("attention_multiplier", plain));
  c.embedding_scale = static_cast<float>(fields.number_or("embedding_multiplier", 1));
  c.residual_scale = static_cast<float>(fields.number_or("residual_multiplier", 1));
  c.logit_scale = static_cast<float>(fields.number_or("logit_scale", 1) /
                                     fields.number_or("logits_scaling", 1));
  if (fields.has("scale_depth"))
    c.residual_scale =
        static_cast<float>(fields.number("scale_depth") / std::sqrt(static_cast<double>(c.layers)));
  if (fields.has("dim_model_base"))
    c.logit_scale =
        static_cast<float>(fields.number("dim_model_base") / static_cast<double>(c.dim));
  c.attention_softcap = static_cast<float>(fields.number_or("attn_logit_softcapping", 0));
  c.logit_softcap = static_cast<float>(fields.number_or("final_logit_softcapping", 0));
  if (fields.has("clip_qkv"))
    throw Error(ErrorKind::kUnsupported, "{}: clip_qkv is given", fields.where());
  if (fields.flag_or("scale_attn_by_inverse_layer_idx", false))
    throw Error(ErrorKind::kUnsupported, "{}: scale_attn_by_inverse_layer_idx is true",
                fields.where());
}

// Compressed attention; RoPE is that of the dimensions that it turns.
void read_latent(const JsonFields& fields, const FolderType& type, TransformerConfig& c) {
  LatentConfig& l = c.latent;
  l.rank = static_cast<int32_t>(fields.size_or_zero("kv_lora_rank"));
  if (l.rank == 0) return;
  l.query_rank = static_cast<int32_t>(fields.size_or_zero("q_lora_rank"));
  l.plain = static_cast<int32_t>(fields.size("qk_nope_head_dim"));
  l.turned = static_cast<int32_t>(fields.size("qk_rope_head_dim"));
  l.value = static_cast<int32_t>(fields.size("v_head_dim"));
  l.yarn_magnitude = read_yarn_magnitude(fields, type);
  c.rope_interleaved = fields.flag_or("rope_interleave", true);
  c.head_dim = l.plain + l.turned;
  c.kv_heads = 1;
}

// The first of `keys` that the file itself has, else the first with a default; 0: none.
int64_t size_of(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (fields.given(key)) return fields.size_or_zero(key);
  for (const char* key : keys)
    if (fields.has(key)) return fields.size_or_zero(key);
  return 0;
}

void read_experts(const JsonFields& fields, TransformerConfig& c) {
  ExpertConfig& e = c.experts;
  if (!fields.flag_or("enable_moe_block", true)) return;
  e.count = static_cast<int32_t>(
      size_of(fields, {"num_local_experts", "num_experts", "n_routed_experts"}));
  const int64_t shared = size_of(fields, {"shared_intermediate_size"});
  if (e.count == 0 && shared > 0) c.hidden = shared;
  if (e.count == 0) return;
  e.hidden = size_of(fields, {"moe_intermediate_size"});
  if (e.hidden == 0) e.hidden = c.hidden;
  e.shared_hidden = shared > 0 ? shared : size_of(fields, {"shared_expert_intermediate_size"});
  if (const int64_t parts = fields.size_or_zero("n_shared_experts"); parts > 0)
    e.shared_hidden = parts * e.hidden;
  if (fields.has("intermediate_size_mlp")) {
    e.hidden = e.shared_hidden = c.hidden;
    c.hidden = fields.size("intermediate_size_mlp");
  }
  e.route.used = static_cast<int32_t>(fields.size("num_experts_per_tok"));
  e.route.normalise = fields.flag_or("norm_topk_prob", false);
  e.route.scale = static_cast<float>(fields.number_or("routed_scaling_factor", 1));
  e.route.sigmoid = fields.text_or("scoring_func", "softmax") == "sigmoid";
  if (fields.text_or("topk_method", "greedy") != "greedy" && fields.has("n_group")) {
    e.route.groups = static_cast<int32_t>(fields.size("n_group"));
    e.route.groups_used = static_cast<int32_t>(fields.size("topk_group"));
    if (e.route.groups > 1) e.route.group_best = e.route.sigmoid ? 2 : 1;
  }
  // Others have such a key for training only. Noise of 0 lets only equals share.
  if (c.architecture == "phimoe")
    e.route.jitter = std::max(static_cast<float>(fields.number("router_jitter_noise")),
                              std::numeric_limits<float>::min());
  e.moe.limit = static_cast<float>(fields.number_or("swiglu_limit", 0));
  e.moe.alpha = static_cast<float>(fields.number_or("swiglu_alpha", 1));
  check_experts(e, {fields.where(), fields.name("num_experts_per_tok"), fields.name("n_group"),
                    fields.name("topk_group")});
}

// What the layers have learned of xIELU. Only the alphas must be there.
void read_xielu(const ModelFile& file, TransformerConfig& c) {
  for (int32_t layer = 0; c.activation == Activation::kXielu && layer < c.layers; ++layer) {
    XieluNumbers numbers;
    for (const XieluField& field : kXieluFields) {
      const std::string name = fmt::format("blk.{}.{}", layer, field.tensor);
      const bool fixed = numbers.*field.member != 0;
      if (fixed && file.find(name) == nullptr) continue;
      const TensorView& tensor = file.at(name);
      if (tensor.elements() != 1 || !info(tensor.dtype).decodable)
        throw Error(ErrorKind::kFormat, "{}: tensor {} has {} elements of {}, expected one number",
                    file.path, name, tensor.elements(), info(tensor.dtype).name);
      std::vector<std::byte> buffer;
      decode(tensor.dtype, tensor.read(buffer), {&(numbers.*field.member), 1});
    }
    c.xielu.push_back(numbers);
  }
}

// What a family can do, and this program cannot: the value that a key must have.
struct RequiredRow {
  std::string_view type;
  const char* key;
  bool value;
};
constexpr RequiredRow kRequired[] = {{"xlstm", "add_out_norm", true},
                                     {"opt", "do_layer_norm_before", true},
                                     {"opt", "_remove_final_layer_norm", false},
                                     {"opt", "layer_norm_elementwise_affine", true},
                                     {"falcon", "alibi", false},
                                     {"bloom", "apply_residual_connection_post_layernorm", false},
                                     {"mpt", "alibi", true},
                                     {"mpt", "qk_ln", false},
                                     {"mpt", "prefix_lm", false}};

void refuse_others(const JsonFields& fields, const FolderType& type, const TransformerConfig& c) {
  for (const RequiredRow& row : kRequired)
    if (row.type == type.type && fields.flag_or(row.key, row.value) != row.value)
      throw Error(ErrorKind::kUnsupported, "{}: {} is {}, expected {}", fields.where(), row.key,
                  !row.value, row.value);
  if (const int64_t narrow = fields.size_or_zero("word_embed_proj_dim");
      narrow > 0 && narrow != c.dim)
    throw Error(ErrorKind::kUnsupported, "{}: word_embed_proj_dim is {}, expected hidden_size, {}",
                fields.where(), narrow, c.dim);
}

// What encoders have otherwise. Their windows are given as a whole; a layer sees half of it to each
// side.
void read_encoder(const JsonFields& fields, const ModelFile& file, const FolderType& type,
                  TransformerConfig& c) {
  // A text says whether images or all of the input see both sides.
  constexpr const char* kBoth = "use_bidirectional_attention";
  const Json* both = fields.find(kBoth);
  const bool is_text = both != nullptr && both->is_string();
  if (is_text && fields.text_or(kBoth, "") != "vision")
    throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected vision", fields.where(), kBoth,
                printable(fields.text_or(kBoth, "")));
  if (!is_text && fields.flag_or(kBoth, false)) c.mask = Mask::kFull;
  if (c.mask == Mask::kCausal) return;
  c.window /= 2;
  c.token_types = static_cast<int32_t>(rows_of(file, "token_types.weight"));
  if (const int64_t rows = rows_of(file, "position_embd.weight"); rows > 0)
    c.context = static_cast<int32_t>(rows);
  constexpr const char* kKind = "position_embedding_type";
  const std::string kind = fields.text_or(kKind, "absolute");
  if (type.architecture == "bert" && kind != "absolute")
    throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected absolute", fields.where(), kKind,
                printable(kind));
}

bool read_tied(const JsonFields& fields, const ModelFile& file) {
  if (fields.given("tie_word_embeddings")) return fields.flag_or("tie_word_embeddings", false);
  const auto outer = file.config->find("tie_word_embeddings");
  if (outer != file.config->end() && outer->is_boolean() && outer->get<bool>()) return true;
  return file.find("output.weight") == nullptr || fields.flag_or("tie_word_embeddings", false);
}

}  // namespace

const Json& text_config(const Json& config) {
  for (const char* key : {"text_config", "llm_config"}) {
    const auto nested = config.find(key);
    if (nested != config.end() && nested->is_object()) return *nested;
  }
  return config;
}

const FolderType* find_folder_type(const ModelFile& file) {
  std::string found;
  return find_type(file, found);
}

std::string_view folder_architecture(const ModelFile& file, std::string& found) {
  const FolderType* type = find_type(file, found);
  return type == nullptr ? std::string_view() : type->architecture;
}

FolderLayers folder_layers(const ModelFile& file) {
  const Described text = described(file);
  const JsonFields fields = fields_of(file, text, nullptr);
  return {fields.size_or_zero("num_hidden_layers"),
          fields.size_or_zero("num_nextn_predict_layers")};
}

RopeFactors folder_rope_factors(const ModelFile& file) {
  const FolderType* type = find_folder_type(file);
  if (type == nullptr || find_architecture(type->architecture).positions != Positions::kRope)
    return {};
  const Described text = described(file);
  const RopeSets sets = rope_sets(fields_of(file, text, type), *type);
  if (!has_rope_factors(sets)) return {};
  return read_rope_factors(sets, read_folder_config(file));
}

Json folder_rope_parameters(const ModelFile& file, const FolderType& type) {
  const Described text = described(file);
  RopeSets sets = rope_sets(fields_of(file, text, &type), type);
  if (type.local_rope == LocalRope::kShared) return std::move(sets.global);
  return {{"full_attention", std::move(sets.global)}, {"sliding_attention", std::move(sets.local)}};
}

TransformerConfig read_folder_config(const ModelFile& file) {
  std::string found;
  const FolderType* type = find_type(file, found);
  if (type == nullptr) {
    std::string known;
    for (const FolderType& row : folder_types())
      known += (known.empty() ? "" : ", ") + std::string(row.type);
    throw Error(ErrorKind::kUnsupported, "{}: model_type '{}' is not known; known are: {}",
                file.path, printable(found), known);
  }
  const Architecture& architecture = find_architecture(type->architecture);
  const Described text = described(file);
  const JsonFields fields = fields_of(file, text, type);
  TransformerConfig c;
  c.architecture = type->architecture;
  read_sizes(fields, file, c);
  c.norm_eps = static_cast<float>(fields.number("rms_norm_eps"));
  read_latent(fields, *type, c);
  c.tied = read_tied(fields, file);
  refuse_others(fields, *type, c);
  c.activation = read_activation(fields, type->architecture);
  read_xielu(file, c);
  c.parallel = fields.flag_or("use_parallel_residual", false);
  read_scales(fields, c);
  read_unrotated(fields, c);
  read_unrotated_temperature(fields, c);
  read_experts(fields, c);
  read_recurrent(fields, architecture.mixer, c);
  if (architecture.encoder != nullptr) read_source(fields, c);
  read_window(fields, type->window, c);
  if (architecture.layer_sizes) read_layer_sizes(fields, file, c);
  c.positions = architecture.positions;
  if (c.positions == Positions::kAlibi)
    c.alibi = static_cast<float>(fields.number_or("alibi_bias_max", 0));
  if (c.positions == Positions::kRope) read_rope(fields, *type, c);
  architecture.complete(c);
  read_encoder(fields, file, *type, c);
  return c;
}

}  // namespace veery
