#include "import/folder/folder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "import/folder/described.h"
#include "import/folder/expert_config.h"
#include "import/folder/folder_rope.h"
#include "import/folder/folder_types.h"
#include "import/folder/index_config.h"
#include "import/folder/json_fields.h"
#include "import/folder/recurrent_config.h"
#include "import/folder/source_config.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

// Returns the number of rows of a matrix; 0 if it does not exist.
int64_t rows_of(const ModelFile& file, std::string_view name) {
  const TensorView* tensor = file.find(name);
  return tensor == nullptr || tensor->shape.size() != 2 ? 0 : tensor->shape[0];
}

// LFM2: the width of the feed-forward part is 2/3 of the stated one, times a factor, rounded up to
// a multiple.
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
  c.feed_forward.hidden = up_rows > 0 && !fields.has("intermediate_size")
                              ? up_rows
                              : adjusted_hidden(fields, fields.size("intermediate_size"));
  c.layers = static_cast<int32_t>(fields.size("num_hidden_layers"));
  c.mtp_layers = static_cast<int32_t>(fields.size_or_zero("num_nextn_predict_layers"));
  // Folders that store the MTP layer under its own prefix may not state it in config.json.
  if (rows_of(file, fmt::format("blk.{}.nextn.eh_proj.weight", c.layers).c_str()) > 0)
    c.mtp_layers = 1;
  c.attention.heads = static_cast<int32_t>(fields.size("num_attention_heads"));
  c.context = static_cast<int32_t>(fields.size("max_position_embeddings"));
  const int64_t q_rows = rows_of(file, "blk.0.attn_q.weight");
  const int64_t k_rows = rows_of(file, "blk.0.attn_k.weight");
  int64_t head_dim = c.dim / c.attention.heads;
  if (fields.given("head_dim"))
    head_dim = fields.size("head_dim");
  else if (q_rows > 0)
    head_dim = q_rows / c.attention.heads;
  else if (fields.has("head_dim"))
    head_dim = fields.size("head_dim");
  if (head_dim < 1)
    throw Error(ErrorKind::kFormat, "{}: {} heads for a width of {}", fields.where(),
                c.attention.heads, c.dim);
  c.attention.head_dim = static_cast<int32_t>(head_dim);
  int64_t kv_heads = c.attention.heads;
  if (fields.given("num_key_value_heads"))
    kv_heads = fields.size("num_key_value_heads");
  else if (k_rows >= head_dim)
    kv_heads = k_rows / head_dim;
  else if (fields.has("num_key_value_heads"))
    kv_heads = fields.size("num_key_value_heads");
  c.attention.kv_heads = static_cast<int32_t>(kv_heads);
  if (c.attention.heads % c.attention.kv_heads != 0)
    throw Error(ErrorKind::kFormat, "{}: {} heads do not divide among {} key heads", fields.where(),
                c.attention.heads, c.attention.kv_heads);
  const TensorView& embedding = file.at("token_embd.weight");
  if (embedding.shape.size() != 2)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has {} dimensions, expected 2", file.path,
                embedding.name, embedding.shape.size());
  c.vocab = embedding.shape[0];
}

// Gemma 1 means the tanh approximation by "gelu". Later Gemmas have their own key and ignore the
// usual one.
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
  if (name == "relu2" || name == "sqrelu") return Activation::kReluSquared;
  if (name == "xielu") return Activation::kXielu;
  throw Error(
      ErrorKind::kUnsupported,
      "{}: hidden_act is '{}', expected silu, gelu, gelu_pytorch_tanh, relu, relu2 or xielu",
      fields.where(), printable(name));
}

// Returns which layers layer_types marks as local; nullopt if there is no such list.
std::optional<std::vector<bool>> listed_layers(const JsonFields& fields,
                                               const TransformerConfig& c) {
  const int32_t layers = c.layers;
  const Json* list = fields.find("layer_types");
  if (list == nullptr) return std::nullopt;
  if (!list->is_array() || list->size() != static_cast<size_t>(layers))
    throw Error(ErrorKind::kFormat, "{}: layer_types has {} entries, expected one for each of {}",
                fields.where(), list->is_array() ? list->size() : 0, layers);
  std::vector<bool> local;
  for (const Json& type : *list) {
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    const bool in_window = name == "sliding_attention" || name == "chunked_attention";
    const bool recurrent = name == "conv" && c.recurrent.mixer == Mixer::kShortConv;
    if (!in_window && !recurrent && name != "full_attention")
      throw Error(ErrorKind::kUnsupported,
                  "{}: layer_types has '{}', expected sliding_attention, chunked_attention or "
                  "full_attention",
                  fields.where(), printable(name));
    local.push_back(in_window);
  }
  return local;
}

// no_rope_layers has a 1 for each layer with RoPE and a 0 for each without.
void read_unrotated(const JsonFields& fields, TransformerConfig& c) {
  if (fields.text_or("position_embedding_type", "rope") == "nope")
    c.positions.unrotated.assign(static_cast<size_t>(c.layers), true);
  const Json* list = fields.find("no_rope_layers");
  if (list != nullptr && !list->empty()) {
    if (!list->is_array() || list->size() < static_cast<size_t>(c.layers))
      throw Error(ErrorKind::kFormat,
                  "{}: no_rope_layers has {} entries, expected one for each of {}", fields.where(),
                  list->is_array() ? list->size() : 0, c.layers);
    for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i) {
      const Json& item = (*list)[i];
      c.positions.unrotated.push_back(item == 0 || item == false);
    }
  } else if (fields.has("no_rope_layer_interval")) {
    c.positions.unrotated =
        local_pattern(c.layers, static_cast<int32_t>(fields.size("no_rope_layer_interval")));
    c.positions.unrotated.flip();
  }
}

void read_window(const JsonFields& fields, WindowRule rule, TransformerConfig& c) {
  const bool optional = rule == WindowRule::kFrom || rule == WindowRule::kUnrotated;
  c.attention.chunked = rule == WindowRule::kChunked;
  const char* window = c.attention.chunked             ? "attention_chunk_size"
                       : fields.has("local_attention") ? "local_attention"
                                                       : "sliding_window";
  if (rule == WindowRule::kNone || fields.find(window) == nullptr ||
      (optional && !fields.flag_or("use_sliding_window", false)))
    return;
  c.attention.window = static_cast<int32_t>(fields.size(window));
  if (auto listed = listed_layers(fields, c)) {
    c.attention.local = std::move(*listed);
  } else if (rule == WindowRule::kLeading) {
    const int64_t period = fields.size("global_attn_every_n_layers");
    for (int32_t i = 0; i < c.layers; ++i) c.attention.local.push_back(i % period != 0);
  } else if (rule == WindowRule::kPattern) {
    const char* key = fields.has("_sliding_window_pattern") ? "_sliding_window_pattern"
                                                            : "sliding_window_pattern";
    c.attention.local = local_pattern(c.layers, static_cast<int32_t>(fields.size(key)));
  } else if (rule == WindowRule::kUnrotated || rule == WindowRule::kChunked) {
    c.attention.local = c.positions.unrotated;
    if (c.attention.chunked) c.attention.local.flip();
  } else {
    const int64_t first = rule == WindowRule::kFrom ? fields.size_or_zero("max_window_layers") : 0;
    for (int32_t i = 0; i < c.layers; ++i) c.attention.local.push_back(i >= first);
  }
}

// Llama 4: reads the head norms and the attention temperature of layers without RoPE.
void read_unrotated_temperature(const JsonFields& fields, TransformerConfig& c) {
  const Json* tuning = fields.find("attn_temperature_tuning");
  if (tuning == nullptr) return;
  if (fields.flag_or("use_qk_norm", false)) c.norms.qk = QkNorm::kUnweighted;
  if (*tuning == false || *tuning == 0) return;
  c.positions.unrotated_period = static_cast<int32_t>(fields.size("floor_scale"));
  c.positions.unrotated_temperature = fields.number("attn_scale");
}

// Reads the scale factors of some families, and settings that affect attention scores.
void read_scales(const JsonFields& fields, TransformerConfig& c) {
  const double plain =
      fields.flag_or("scale_attn_weights", true)
          ? 1 / std::sqrt(fields.number_or("query_pre_attn_scalar", c.attention.head_dim))
          : 1;
  c.attention.scale = static_cast<float>(fields.number_or("attention_multiplier", plain));
  const bool scaled = fields.flag_or("mup_enabled", false);
  c.input.scale = static_cast<float>(
      fields.number_or("embedding_multiplier", scaled ? std::sqrt(static_cast<double>(c.dim)) : 1));
  c.residual.scale = static_cast<float>(fields.number_or("residual_multiplier", 1));
  c.output.scale = static_cast<float>(fields.number_or("logit_scale", 1) /
                                      fields.number_or("logits_scaling", 1));
  if (fields.has("scale_depth"))
    c.residual.scale =
        static_cast<float>(fields.number("scale_depth") / std::sqrt(static_cast<double>(c.layers)));
  if (fields.has("dim_model_base"))
    c.output.scale =
        static_cast<float>(fields.number("dim_model_base") / static_cast<double>(c.dim));
  c.attention.softcap = static_cast<float>(fields.number_or("attn_logit_softcapping", 0));
  c.output.softcap = static_cast<float>(fields.number_or("final_logit_softcapping", 0));
  if (fields.has("clip_qkv"))
    throw Error(ErrorKind::kUnsupported, "{}: clip_qkv is set, which is not supported",
                fields.where());
  if (fields.flag_or("scale_attn_by_inverse_layer_idx", false))
    throw Error(ErrorKind::kUnsupported,
                "{}: scale_attn_by_inverse_layer_idx is true, expected false", fields.where());
}

// Reads multi-head latent attention (MLA); RoPE applies to the rotated dimensions only.
void read_latent(const JsonFields& fields, const FolderType& type, TransformerConfig& c) {
  LatentConfig& l = c.latent;
  l.rank = static_cast<int32_t>(fields.size_or_zero("kv_lora_rank"));
  if (l.rank == 0) return;
  l.query_rank = static_cast<int32_t>(fields.size_or_zero("q_lora_rank"));
  l.plain = static_cast<int32_t>(fields.size("qk_nope_head_dim"));
  l.turned = static_cast<int32_t>(fields.size("qk_rope_head_dim"));
  l.value = static_cast<int32_t>(fields.size("v_head_dim"));
  l.yarn_magnitude = read_yarn_magnitude(fields, type);
  c.positions.interleaved = fields.flag_or("rope_interleave", true);
  c.attention.head_dim = l.plain + l.turned;
  c.attention.kv_heads = 1;
}

// Reads the learned xIELU parameters of all layers. Only the alphas are required.
void read_xielu(const ModelFile& file, TransformerConfig& c) {
  for (int32_t layer = 0; c.feed_forward.activation == Activation::kXielu && layer < c.layers;
       ++layer) {
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
    c.feed_forward.xielu.push_back(numbers);
  }
}

// The value that a key must have, because the other one is not implemented.
struct RequiredRow {
  std::string_view type;
  const char* key;
  bool value;
};
constexpr RequiredRow kRequired[] = {{"bailing_moe", "norm_head", false},
                                     {"rwkv7", "norm_first", true},
                                     {"rwkv7", "norm_bias", true},
                                     {"xlstm", "add_out_norm", true},
                                     {"xlstm_lm", "add_post_blocks_norm", true},
                                     {"xlstm_lm", "bias", false},
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

// Reads settings of encoders. A window in config.json is the total of both sides, so it is halved;
// only EmbeddingGemma 2 states the size of one side.
void read_encoder(const JsonFields& fields, const ModelFile& file, const FolderType& type,
                  TransformerConfig& c) {
  // A string states whether images or the whole input attend in both directions.
  constexpr const char* kBoth = "use_bidirectional_attention";
  const Json* both = fields.find(kBoth);
  const bool is_text = both != nullptr && both->is_string();
  if (is_text && fields.text_or(kBoth, "") != "vision")
    throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected vision", fields.where(), kBoth,
                printable(fields.text_or(kBoth, "")));
  if (!is_text && fields.flag_or(kBoth, false)) c.attention.mask = Mask::kFull;
  if (c.attention.mask == Mask::kCausal) return;
  if (type.architecture == "embedding-gemma2") {
    c.output.projected = fields.size("embedding_dim");
    c.input.layer_input_rows = 0;
  } else {
    c.attention.window /= 2;
  }
  c.input.token_types = static_cast<int32_t>(rows_of(file, "token_types.weight"));
  if (const int64_t rows = rows_of(file, "position_embd.weight"); rows > 0)
    c.context = static_cast<int32_t>(rows);
  constexpr const char* kKind = "position_embedding_type";
  const std::string kind = fields.text_or(kKind, "absolute");
  if (type.architecture == "bert" && kind != "absolute")
    throw Error(ErrorKind::kUnsupported, "{}: {} is '{}', expected absolute", fields.where(), kKind,
                printable(kind));
}

// Jina's second BERT exists in two variants; the later one also normalises queries and keys.
void check_jina(const JsonFields& fields, const ModelFile& file) {
  if (const std::string kind = fields.text_or("feed_forward_type", "geglu"); kind != "geglu")
    throw Error(ErrorKind::kUnsupported, "{}: feed_forward_type is '{}', expected geglu",
                fields.where(), printable(kind));
  for (const TensorView& tensor : file.tensors)
    for (const char* part : {".layer_norm_", ".up_gated_layer."})
      if (tensor.name.find(part) != std::string::npos)
        throw Error(
            ErrorKind::kUnsupported,
            "{}: tensor {} belongs to the variant of Jina's BERT with norms of queries and keys, "
            "expected the variant with gated_layers",
            file.path, printable(tensor.name));
}

// Returns tie_word_embeddings as stated by config.json or implied by its model type; nullopt if
// neither determines it.
std::optional<bool> says_tied(const JsonFields& fields, const ModelFile& file) {
  if (fields.given("tie_word_embeddings")) return fields.flag_or("tie_word_embeddings", false);
  const auto outer = file.config->find("tie_word_embeddings");
  if (outer != file.config->end() && outer->is_boolean() && outer->get<bool>()) return true;
  if (fields.has("tie_word_embeddings")) return fields.flag_or("tie_word_embeddings", false);
  return std::nullopt;
}

// As in transformers 5, an output head in the file takes precedence over the configuration, unless
// it only repeats the embedding, as many files do.
bool read_tied(const JsonFields& fields, const ModelFile& file) {
  const TensorView* head = file.find("output.weight");
  const std::optional<bool> said = says_tied(fields, file);
  if (head == nullptr) return !fields.given("tie_word_embeddings") || said.value_or(false);
  const TensorView* embedding = file.find("token_embd.weight");
  return said.value_or(false) && embedding != nullptr && same_tensor(*head, *embedding);
}

}  // namespace

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
  if (type == nullptr || find_architecture(type->architecture).positions.kind != Positions::kRope)
    return {};
  const Described text = described(file);
  const RopeSets sets = rope_sets(fields_of(file, text, type), *type);
  if (!has_rope_factors(sets)) return {};
  return read_rope_factors(sets, read_folder_config(file));
}

std::optional<bool> says_tied_head(const ModelFile& file) {
  const FolderType* type = find_folder_type(file);
  if (type == nullptr) return std::nullopt;
  const Described text = described(file);
  return says_tied(fields_of(file, text, type), file);
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
    throw Error(ErrorKind::kUnsupported, "{}: unknown model_type '{}', expected one of {}",
                file.path, printable(found), known);
  }
  const Architecture& architecture = find_architecture(type->architecture);
  const Described text = described(file);
  const JsonFields fields = fields_of(file, text, type);
  TransformerConfig c = initial_config(architecture);
  read_sizes(fields, file, c);
  c.norms.eps = static_cast<float>(fields.number("rms_norm_eps"));
  // Cohere 2 mixture models have either kind of norm; the name of the epsilon tells which.
  const bool rms = fields.given("rms_norm_eps") && fields.name("rms_norm_eps") == "rms_norm_eps";
  if (c.architecture == "cohere2moe" && !rms) c.norms.kind = Norm::kLayer;
  read_latent(fields, *type, c);
  c.output.tied = read_tied(fields, file);
  refuse_others(fields, *type, c);
  c.feed_forward.activation = read_activation(fields, type->architecture);
  read_xielu(file, c);
  c.residual.parallel = fields.flag_or("use_parallel_residual", false);
  read_scales(fields, c);
  read_unrotated(fields, c);
  read_unrotated_temperature(fields, c);
  read_experts(fields, c);
  read_recurrent(fields, architecture.mixer, c);
  if (architecture.parallel_mixers) read_multipliers(fields, c);
  if (architecture.mixer == Mixer::kXlstmBlocks) find_xlstm_sizes(file, c);
  if (architecture.mixer == Mixer::kRwkv7) find_rwkv7_ranks(file, c);
  if (architecture.encoder != nullptr) read_source(fields, c);
  read_window(fields, type->window, c);
  if (architecture.layer_sizes) read_layer_sizes(fields, file, c);
  if (c.positions.kind == Positions::kAlibi)
    c.positions.alibi = static_cast<float>(fields.number_or("alibi_bias_max", c.positions.alibi));
  if (c.positions.kind == Positions::kRope) read_rope(fields, *type, c);
  architecture.complete(c);
  check_residual_scale(c, fields.where());
  read_encoder(fields, file, *type, c);
  read_index(fields, c);
  if (c.architecture == "jina-bert-v2") check_jina(fields, file);
  return c;
}

}  // namespace veery
