#include "convert/config/folder_config_write.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/printable.h"
#include "convert/config/folder_config_writer.h"
#include "convert/config/folder_rope_write.h"
#include "import/folder/described.h"
#include "import/folder/folder_config.h"
#include "import/names/folder_names.h"

namespace veery {
namespace {

using config::dense_layers;
using config::expansion;
using config::kinds_of_layers;
using config::Writer;

// Keys that have another name in some model types: `usual` is that of most types.
struct KeyRow {
  std::string_view type;
  const char* usual;
  const char* theirs;
};
constexpr KeyRow kKeys[] = {{"gpt2", "hidden_size", "n_embd"},
                            {"gpt2", "intermediate_size", "n_inner"},
                            {"gpt2", "num_hidden_layers", "n_layer"},
                            {"gpt2", "num_attention_heads", "n_head"},
                            {"gpt2", "max_position_embeddings", "n_positions"},
                            {"gpt2", "hidden_act", "activation_function"},
                            {"gpt2", "rms_norm_eps", "layer_norm_epsilon"},
                            {"gpt_neox", "rms_norm_eps", "layer_norm_eps"},
                            {"phi", "rms_norm_eps", "layer_norm_eps"},
                            {"cohere", "rms_norm_eps", "layer_norm_eps"},
                            {"cohere2", "rms_norm_eps", "layer_norm_eps"},
                            {"starcoder2", "rms_norm_eps", "norm_epsilon"},
                            {"nemotron", "rms_norm_eps", "norm_eps"},
                            {"bailing_moe", "n_routed_experts", "num_experts"},
                            {"bailing_moe", "n_shared_experts", "num_shared_experts"},
                            {"bailing_moe", "scoring_func", "score_function"}};

// Types whose configurations are generated here; for other types the source folder's configuration
// is kept.
constexpr std::string_view kDescribed[] = {"llama",
                                           "mistral",
                                           "qwen2",
                                           "qwen3",
                                           "mixtral",
                                           "qwen2_moe",
                                           "qwen3_moe",
                                           "gpt_oss",
                                           "gemma",
                                           "gemma2",
                                           "gemma3_text",
                                           "gemma4_text",
                                           "gemma4_unified_text",
                                           "phi3",
                                           "ministral",
                                           "ministral3",
                                           "helium",
                                           "smollm3",
                                           "granite",
                                           "olmo2",
                                           "olmo3",
                                           "cohere",
                                           "cohere2",
                                           "gpt2",
                                           "gpt_neox",
                                           "starcoder2",
                                           "phi",
                                           "deepseek_v2",
                                           "deepseek_v3",
                                           "olmoe",
                                           "dots1",
                                           "bailing_moe",
                                           "glm4_moe",
                                           "glm4",
                                           "ernie4_5",
                                           "exaone4",
                                           "seed_oss",
                                           "llama4_text",
                                           "granitemoe",
                                           "granitemoeshared",
                                           "granitemoehybrid",
                                           "nemotron",
                                           "arcee"};

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return "gelu_pytorch_tanh";
    case Activation::kGeluErf: return "gelu";
    case Activation::kRelu: return "relu";
    case Activation::kReluSquared: return "relu2";
    case Activation::kXielu: return "xielu";
    default: return "silu";
  }
}

// Returns a token's id, or null.
Json token_id(const ModelFile& file, const char* role) {
  const auto id = file.metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", role));
  return id && *id >= 0 && *id < std::numeric_limits<int32_t>::max() ? Json(*id) : Json();
}

void write_sizes(Writer& w) {
  const TransformerConfig& c = w.c;
  w.out["architectures"] = Json::array({w.type.class_name});
  w.out["model_type"] = w.type.type;
  w.out["vocab_size"] = c.vocab;
  w.out["hidden_size"] = c.dim;
  w.out["intermediate_size"] = c.feed_forward.hidden;
  w.out["num_hidden_layers"] = c.layers;
  w.out["num_attention_heads"] = c.attention.heads;
  w.out["num_key_value_heads"] = c.attention.kv_heads;
  w.out["head_dim"] = c.attention.head_dim;
  w.out["max_position_embeddings"] = c.context;
  w.out["rms_norm_eps"] = shortest(c.norms.eps);
  w.out["hidden_act"] = activation_name(c.feed_forward.activation);
  w.out["tie_word_embeddings"] = c.output.tied;
  for (const char* role : {"bos", "eos"})
    w.out[fmt::format("{}_token_id", role)] = token_id(w.file, role);
  w.out["pad_token_id"] = token_id(w.file, "padding");
  if (w.type.architecture.starts_with("gemma")) w.out["hidden_activation"] = w.out["hidden_act"];
}

void write_biases(Writer& w) {
  const bool bias = w.has("blk.0.attn_q.bias") || w.has("blk.0.attn_kv_a_mqa.bias") ||
                    w.any_layer_has("attn_q.bias");
  if (w.is({"starcoder2", "ernie4_5"})) {
    w.out["use_bias"] = bias;
    return;
  }
  if (w.is({"bailing_moe"})) {
    w.out["use_qkv_bias"] = bias;
    w.out["use_bias"] = w.has("blk.0.attn_output.bias");
    return;
  }
  if (w.is({"seed_oss"})) w.out["attention_out_bias"] = w.has("blk.0.attn_output.bias");
  if (w.is({"gpt2", "phi"})) return;
  if (w.is({"llama"}) && bias && !w.has("blk.0.attn_output.bias"))
    w.refuse("a query bias without an output bias");
  if (w.is({"qwen2"}) && !bias) w.refuse("attention without biases");
  if (w.is({"qwen2"}) && w.has("output.bias")) w.refuse("an output bias");
  w.out["attention_bias"] = bias;
  if (w.is({"qwen2_moe"})) w.out["qkv_bias"] = bias;
  w.out["mlp_bias"] = w.has("blk.0.ffn_up.bias");
}

// Returns the smallest period of windows that yields `local`, preferring the default; 0 if there is
// none.
int32_t period_of(const std::vector<bool>& local, int32_t usual) {
  const auto layers = static_cast<int32_t>(local.size());
  if (usual > 0 && local_pattern(layers, usual) == local) return usual;
  for (int32_t period = 1; period <= layers + 1; ++period)
    if (local_pattern(layers, period) == local) return period;
  return 0;
}

void write_window(Writer& w) {
  const TransformerConfig& c = w.c;
  const bool windowed = c.attention.window > 0;
  if (w.type.window == WindowRule::kNone) {
    if (windowed) w.refuse("a sliding window");
    return;
  }
  const bool chunked = w.type.window == WindowRule::kChunked;
  if (windowed && c.attention.chunked != chunked)
    w.refuse("this kind of window (sliding or chunked)");
  w.out[chunked ? "attention_chunk_size" : "sliding_window"] =
      windowed ? Json(c.attention.window) : Json();
  if (w.type.window == WindowRule::kFrom || w.type.window == WindowRule::kUnrotated)
    w.out["use_sliding_window"] = windowed;
  if (!windowed) return;
  const auto seen = std::ranges::count(c.attention.local, false);
  if (w.type.window == WindowRule::kAll) {
    if (seen > 0) w.refuse("a sliding window in some layers only");
    return;
  }
  if (w.type.window == WindowRule::kFrom) w.out["max_window_layers"] = seen;
  Json types = Json::array();
  const char* in_window = chunked ? "chunked_attention" : "sliding_attention";
  for (const bool local : c.attention.local) types.push_back(local ? in_window : "full_attention");
  w.out["layer_types"] = std::move(types);
  if (w.type.window != WindowRule::kPattern) return;
  const int32_t period =
      period_of(c.attention.local, w.defaults.value("sliding_window_pattern", 0));
  if (period == 0) return;
  w.out["sliding_window_pattern"] = period;
  w.out["_sliding_window_pattern"] = period;
}

void write_unrotated(Writer& w) {
  if (w.is({"granitemoehybrid"}))
    w.out["position_embedding_type"] = w.c.is_rotated(0) ? "rope" : "nope";
  if (w.c.positions.unrotated.empty() || w.is({"cohere2", "exaone4", "granitemoehybrid"})) return;
  if (!w.is({"smollm3", "llama4_text"})) w.refuse("layers without RoPE");
  Json rotated = Json::array();
  for (const bool unrotated : w.c.positions.unrotated) rotated.push_back(unrotated ? 0 : 1);
  w.out["no_rope_layers"] = std::move(rotated);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

void write_scales(Writer& w) {
  const TransformerConfig& c = w.c;
  const auto write = [&](bool known, const char* key, double value, double usual) {
    if (known)
      w.out[key] = shortest(static_cast<float>(value));
    else if (!near(value, usual))
      w.refuse(fmt::format("a {} of {}", key, value));
  };
  const bool granite = w.type.type.starts_with("granite");
  const double scale = c.attention.scale;
  if (w.type.architecture == "gemma4") {
    if (!near(scale, 1)) w.refuse(fmt::format("an attention scale of {}", scale));
  } else if (w.is({"gemma2", "gemma3_text"})) {
    const double scalar = 1 / (scale * scale);
    const double whole = std::round(scalar);
    w.out["query_pre_attn_scalar"] =
        std::abs(scalar - whole) < 1e-4 * scalar ? Json(static_cast<int64_t>(whole)) : Json(scalar);
  } else if (c.latent.rank == 0 && (!w.is({"gpt2"}) || !near(scale, 1))) {
    write(granite, "attention_multiplier", scale, 1 / std::sqrt(1.0 * c.attention.head_dim));
  }
  if (w.is({"gpt2"})) w.out["scale_attn_weights"] = !near(scale, 1);
  const bool gemma = w.type.architecture.starts_with("gemma");
  if (!gemma) write(granite, "embedding_multiplier", c.input.scale, 1);
  write(granite, "residual_multiplier", c.residual.scale, 1);
  if (granite)
    w.out["logits_scaling"] = shortest(1 / c.output.scale);
  else
    write(w.is({"cohere", "cohere2"}), "logit_scale", c.output.scale, 1);
  const auto softcap = [&](const char* key, const float& value) {
    const bool gemma4 = w.type.architecture == "gemma4" && &value == &c.output.softcap;
    if (w.is({"gemma2", "gemma3_text"}) || gemma4)
      w.out[key] = value > 0 ? Json(shortest(value)) : Json();
    else if (value > 0)
      w.refuse(fmt::format("a {} of {}", key, value));
  };
  softcap("attn_logit_softcapping", c.attention.softcap);
  softcap("final_logit_softcapping", c.output.softcap);
}

// Writes the keys of expert layers with group-limited routing and leading dense layers.
void write_grouped_experts(Writer& w) {
  const ExpertConfig& e = w.c.experts;
  w.out["n_routed_experts"] = e.count;
  w.out["n_shared_experts"] = e.hidden > 0 ? e.shared_hidden / e.hidden : 0;
  w.out["num_experts_per_tok"] = e.route.used;
  w.out["moe_intermediate_size"] = e.hidden;
  w.out["moe_layer_freq"] = 1;
  w.out["norm_topk_prob"] = e.route.normalise;
  w.out["routed_scaling_factor"] = shortest(e.route.scale);
  w.out["scoring_func"] = e.route.sigmoid ? "sigmoid" : "softmax";
  const bool groups = e.route.groups > 1;
  w.out["topk_method"] = e.route.sigmoid ? "noaux_tc" : groups ? "group_limited_greedy" : "greedy";
  w.out["n_group"] = e.route.groups;
  w.out["topk_group"] = e.route.groups_used;
  const Json dense = dense_layers(w);
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) w.refuse("dense layers after the first mixture");
  w.out["first_k_dense_replace"] = dense.size();
}

void write_deepseek(Writer& w) {
  const LatentConfig& l = w.c.latent;
  w.out["head_dim"] = l.turned;
  w.out["num_key_value_heads"] = w.c.attention.heads;
  w.out["kv_lora_rank"] = l.rank;
  w.out["q_lora_rank"] = l.query_rank > 0 ? Json(l.query_rank) : Json();
  w.out["qk_nope_head_dim"] = l.plain;
  w.out["qk_rope_head_dim"] = l.turned;
  w.out["v_head_dim"] = l.value;
  w.out["rope_interleave"] = w.c.positions.interleaved;
  write_grouped_experts(w);
}

// With MLA, RoPE has its own dimensions, and YaRN's factor on attention scores equals that on the
// angles.
void write_latent_rope(Writer& w) {
  if (w.c.latent.rank == 0) return;
  Json& set = w.out["rope_parameters"];
  set.erase("partial_rotary_factor");
  const double magnitude = w.c.latent.yarn_magnitude;
  if (magnitude == 1 || w.c.positions.rope.scaling != RopeScaling::kYarn) return;
  const double weight = (magnitude - 1) / (0.1 * std::log(w.c.positions.rope.factor));
  set["mscale"] = set["mscale_all_dim"] = shortest(static_cast<float>(weight));
  set.erase("attention_factor");
}

void write_granite_recurrent(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  w.out["layer_types"] = kinds_of_layers(w, "linear_attention");
  w.out["mamba_n_heads"] = r.heads;
  w.out["mamba_d_head"] = r.value_size;
  w.out["mamba_d_state"] = r.key_size;
  w.out["mamba_n_groups"] = r.key_heads;
  w.out["mamba_d_conv"] = r.conv_width;
  w.out["mamba_expand"] = expansion(w);
  w.out["mamba_conv_bias"] = w.any_layer_has("ssm_conv1d.bias");
  w.out["mamba_proj_bias"] = w.any_layer_has("ssm_out.bias");
}

void write_granite_experts(Writer& w) {
  const ExpertConfig& e = w.c.experts;
  if (e.shared_hidden > 0) w.out["shared_intermediate_size"] = e.shared_hidden;
  if (!w.is({"granitemoehybrid"})) return;
  if (w.c.recurrent.mixer != Mixer::kNone) {
    write_granite_recurrent(w);
  } else {
    w.out["layer_types"] =
        std::vector<std::string>(static_cast<size_t>(w.c.layers), "full_attention");
    // No layer is of this kind, but the numbers must be consistent.
    w.out["mamba_n_heads"] = 1;
    w.out["mamba_expand"] = 2;
    w.out["mamba_d_head"] = 2 * w.c.dim;
  }
  if (e.count > 0) return;
  w.out["num_local_experts"] = w.out["num_experts_per_tok"] = 0;
  w.out["shared_intermediate_size"] = w.c.feed_forward.hidden;
}

void write_llama4_experts(Writer& w) {
  const ExpertConfig& e = w.c.experts;
  w.out["num_local_experts"] = e.count;
  w.out["num_experts_per_tok"] = e.route.used;
  w.out["intermediate_size"] = e.hidden;
  w.out["intermediate_size_mlp"] = std::max(w.c.feed_forward.hidden, e.hidden);
  Json mixtures = Json::array();
  const Json dense = dense_layers(w);
  for (int32_t layer = 0; layer < w.c.layers; ++layer)
    if (std::ranges::find(dense, Json(layer)) == dense.end()) mixtures.push_back(layer);
  w.out["interleave_moe_layer_step"] = mixtures.empty() ? 1 : mixtures[0].get<int>() + 1;
  w.out["moe_layers"] = std::move(mixtures);
  w.out["use_qk_norm"] = w.c.norms.qk == QkNorm::kUnweighted;
  w.out["attn_temperature_tuning"] = w.c.positions.unrotated_period > 0;
  if (w.c.positions.unrotated_period == 0) return;
  w.out["floor_scale"] = w.c.positions.unrotated_period;
  w.out["attn_scale"] = shortest(static_cast<float>(w.c.positions.unrotated_temperature));
}

// Writes sizes that differ between layers: with mlx-lm's keys for all layers, and with
// transformers' keys for each layer.
void write_layer_sizes(Writer& w) {
  const TransformerConfig& c = w.c;
  const ExpertConfig& e = c.experts;
  const int32_t local =
      c.attention.local_kv_heads > 0 ? c.attention.local_kv_heads : c.attention.kv_heads;
  w.out["head_dim"] =
      c.attention.local_head_dim > 0 ? c.attention.local_head_dim : c.attention.head_dim;
  w.out["num_key_value_heads"] = local;
  w.out["global_head_dim"] = c.attention.head_dim;
  w.out["num_global_key_value_heads"] =
      c.attention.kv_heads == local ? Json() : Json(c.attention.kv_heads);
  Json each = Json::object();
  for (int32_t layer = 0; layer < c.layers; ++layer)
    if (!c.is_local(layer))
      each[std::to_string(layer)] = {{"head_dim", c.attention.head_dim},
                                     {"num_key_value_heads", c.attention.kv_heads}};
  w.out["per_layer_config"] = std::move(each);
  w.out["attention_k_eq_v"] = c.attention.values_are_keys;
  w.out["num_kv_shared_layers"] = c.attention.shared_kv_layers;
  w.out["use_double_wide_mlp"] = c.feed_forward.shared_kv_hidden > 0;
  if (c.feed_forward.shared_kv_hidden > 0 &&
      c.feed_forward.shared_kv_hidden != 2 * c.feed_forward.hidden)
    w.refuse(fmt::format("feed-forward widths of both {} and {}", c.feed_forward.shared_kv_hidden,
                         c.feed_forward.hidden));
  w.out["hidden_size_per_layer_input"] = c.input.layer_input;
  w.out["vocab_size_per_layer_input"] = c.input.layer_input_rows;
  w.out["enable_moe_block"] = e.count > 0;
  if (e.count == 0) return;
  w.out["num_experts"] = e.count;
  w.out["top_k_experts"] = e.route.used;
  w.out["moe_intermediate_size"] = e.hidden;
}

void write_experts(Writer& w) {
  const ExpertConfig& e = w.c.experts;
  if (w.type.architecture == "gemma4") return write_layer_sizes(w);
  if (w.c.latent.rank > 0) return write_deepseek(w);
  const bool granite = w.type.type.starts_with("granitemoe");
  if (granite) write_granite_experts(w);
  if (e.count == 0) return;
  if (w.is({"dots1", "glm4_moe", "bailing_moe"})) return write_grouped_experts(w);
  if (w.is({"llama4_text"})) return write_llama4_experts(w);
  const bool qwen = w.is({"qwen2_moe", "qwen3_moe"}), olmoe = w.is({"olmoe"});
  w.out[qwen || olmoe ? "num_experts" : "num_local_experts"] = e.count;
  w.out["num_experts_per_tok"] = e.route.used;
  if (e.route.sigmoid || e.route.groups > 1 || e.route.scale != 1)
    w.refuse("this method of expert selection");
  if (qwen || olmoe) w.out["norm_topk_prob"] = e.route.normalise;
  if (qwen) {
    w.out["moe_intermediate_size"] = e.hidden;
    w.out["decoder_sparse_step"] = 1;
    if (e.shared_hidden > 0) w.out["shared_expert_intermediate_size"] = e.shared_hidden;
    w.out["mlp_only_layers"] = dense_layers(w);
  } else {
    w.out["intermediate_size"] = e.hidden;
    if (!olmoe && !e.route.normalise) w.refuse("expert weights that are not normalised");
  }
  if (w.is({"gpt_oss"})) {
    w.out["swiglu_limit"] = shortest(e.moe.limit);
    w.out["swiglu_alpha"] = shortest(e.moe.alpha);
  }
}

void write_rest(Writer& w) {
  if (w.is({"gpt_neox"})) w.out["use_parallel_residual"] = w.c.residual.parallel;
  const bool head_norms = w.has("blk.0.attn_q_norm.weight");
  if (w.is({"cohere", "glm4_moe", "bailing_moe"})) w.out["use_qk_norm"] = head_norms;
  if (w.is({"bailing_moe"}))
    w.out["moe_router_enable_expert_bias"] = w.any_layer_has("exp_probs_b.bias");
  if (w.is({"phi"})) w.out["qk_layernorm"] = head_norms;
  if (w.is({"gpt2"})) w.out["n_ctx"] = w.c.context;
  for (const KeyRow& row : kKeys) {
    if (row.type != w.type.type) continue;
    w.out[row.theirs] = w.out[row.usual];
    w.out.erase(row.usual);
  }
  if (!w.is({"gpt2"})) return;
  for (const char* key : {"num_key_value_heads", "head_dim"}) w.out.erase(key);
}

Json described(const ModelFile& file, const TransformerConfig& c, const FolderType& type) {
  Writer w{file, c, type};
  const bool recurrent = c.recurrent.mixer != Mixer::kNone;
  const bool gguf = file.container == Container::kGguf;
  if (gguf && recurrent) {
    write_sizes(w);
    if (config::write_recurrent(w)) {
      if (c.positions.kind == Positions::kRope)
        w.out["rope_parameters"] = rope_parameters(file, c, type);
      return std::move(w.out);
    }
  }
  // For recurrent models, folders already have a complete configuration.
  if (std::ranges::find(kDescribed, type.type) == std::end(kDescribed) || (recurrent && !gguf)) {
    if (file.container == Container::kGguf)
      throw Error(ErrorKind::kUnsupported, "{}: {} cannot be written as a folder", file.path,
                  c.architecture);
    write_sizes(w);
    for (const char* kept : {"head_dim", "num_key_value_heads", "intermediate_size"})
      w.out.erase(kept);
    w.out["rope_parameters"] = rope_parameters(file, c, type);
    return std::move(w.out);
  }
  write_sizes(w);
  write_biases(w);
  write_window(w);
  write_unrotated(w);
  write_scales(w);
  write_experts(w);
  if (c.positions.kind == Positions::kRope)
    w.out["rope_parameters"] = rope_parameters(file, c, type);
  write_latent_rope(w);
  write_rest(w);
  return std::move(w.out);
}

}  // namespace

Json folder_config(const ModelFile& file, const TransformerConfig& c, const FolderType& type,
                   std::string_view dtype) {
  Json config = described(file, c, type);
  if (file.container == Container::kFolder) {
    Json own = text_config(*file.config);
    for (const char* key : {"quantization", "quantization_config", "_name_or_path"}) own.erase(key);
    if (c.positions.kind == Positions::kRope)
      own["rope_parameters"] = folder_rope_parameters(file, type);
    for (const auto& [key, value] : config.items())
      if (!own.contains(key)) own[key] = value;
    for (const char* key : {"architectures", "model_type", "tie_word_embeddings", "vocab_size"})
      own[key] = config[key];
    config = std::move(own);
  }
  // Gemma 4 and LFM3 were published after the older keys fell out of use.
  const bool young = type.architecture == "gemma4" || type.architecture == "lfm3";
  if (c.positions.kind == Positions::kRope && !young) add_old_rope_keys(config, type);
  config["dtype"] = dtype;
  config["torch_dtype"] = dtype;
  return config;
}

}  // namespace veery
