#include "model/folder_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "file/printable.h"
#include "model/folder_rope.h"
#include "model/json_fields.h"
#include "model/registry.h"

namespace veery {
namespace {

// model_type and class as transformers has them, our architecture, and what transformers takes
// where the file says nothing.
struct TypeRow {
  std::string_view type, class_name, architecture;
  const char* defaults;
};
constexpr TypeRow kTypes[] = {
    {"llama", "LlamaForCausalLM", "llama",
     R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
         "rope_theta":10000})"},
    {"mistral", "MistralForCausalLM", "mistral",
     R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
         "rms_norm_eps":1e-6,"rope_theta":10000,"sliding_window":4096})"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2",
     R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":32768,
         "rms_norm_eps":1e-6,"rope_theta":10000,"sliding_window":4096,"max_window_layers":28})"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3",
     R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,
         "max_position_embeddings":32768,"rms_norm_eps":1e-6,"rope_theta":10000,
         "sliding_window":4096,"max_window_layers":28})"},
    {"gemma", "GemmaForCausalLM", "gemma",
     R"({"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
         "num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,
         "max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000,
         "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh"})"},
    {"gemma2", "Gemma2ForCausalLM", "gemma2",
     R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
         "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
         "max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000,
         "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh","query_pre_attn_scalar":256,
         "sliding_window":4096,"attn_logit_softcapping":50,"final_logit_softcapping":30})"},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3",
     R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
         "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
         "max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":1000000,
         "rope_local_base_freq":10000,"tie_word_embeddings":true,
         "hidden_act":"gelu_pytorch_tanh","query_pre_attn_scalar":256,"sliding_window":4096,
         "sliding_window_pattern":6})"},
    {"phi3", "Phi3ForCausalLM", "phi3",
     R"({"hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
         "original_max_position_embeddings":4096,"rope_theta":10000})"},
};

const Json& text_part(const Json& config) {
  for (const char* key : {"text_config", "llm_config"}) {
    const auto nested = config.find(key);
    if (nested != config.end() && nested->is_object()) return *nested;
  }
  return config;
}

bool has_tensor(const ModelFile& file, std::string_view part) {
  return std::ranges::any_of(file.tensors, [&](const TensorView& tensor) {
    return tensor.name.find(part) != std::string::npos;
  });
}

// For folders whose config.json does not say what they are.
std::string_view type_by_weights(const ModelFile& file) {
  const bool head_norms = has_tensor(file, "layers.0.self_attn.q_norm.weight");
  if (has_tensor(file, "layers.0.pre_feedforward_layernorm.weight"))
    return head_norms ? "gemma3_text" : "gemma2";
  if (head_norms) return "qwen3";
  if (has_tensor(file, "layers.0.self_attn.qkv_proj.weight")) return "phi3";
  if (has_tensor(file, "layers.0.self_attn.q_proj.bias") &&
      !has_tensor(file, "layers.0.self_attn.o_proj.bias"))
    return "qwen2";
  return has_tensor(file, "layers.0.self_attn.q_proj.weight") ? "llama" : "";
}

const TypeRow* find_type(const ModelFile& file, std::string& found) {
  const Json& text = text_part(*file.config);
  const auto named = text.find("model_type");
  if (named != text.end() && named->is_string()) {
    found = named->get<std::string>();
    const auto row = std::ranges::find(kTypes, std::string_view(found), &TypeRow::type);
    return row == std::end(kTypes) ? nullptr : row;
  }
  const auto classes = text.find("architectures");
  if (classes != text.end() && classes->is_array() && !classes->empty() &&
      classes->front().is_string()) {
    found = classes->front().get<std::string>();
    const auto row = std::ranges::find(kTypes, std::string_view(found), &TypeRow::class_name);
    return row == std::end(kTypes) ? nullptr : row;
  }
  found = type_by_weights(file);
  const auto row = std::ranges::find(kTypes, std::string_view(found), &TypeRow::type);
  return row == std::end(kTypes) ? nullptr : row;
}

// Rows of a matrix of the file; 0 if it is not there.
int64_t rows_of(const ModelFile& file, std::string_view name) {
  const TensorView* tensor = file.find(name);
  return tensor == nullptr || tensor->shape.size() != 2 ? 0 : tensor->shape[0];
}

void read_sizes(const JsonFields& fields, const ModelFile& file, DecoderConfig& c) {
  c.dim = fields.size("hidden_size");
  c.hidden = fields.size("intermediate_size");
  c.layers = static_cast<int32_t>(fields.size("num_hidden_layers"));
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

Activation read_activation(const JsonFields& fields, bool gemma) {
  std::string name = fields.text_or("hidden_activation", "");
  if (name.empty()) name = gemma ? "gelu_pytorch_tanh" : fields.text_or("hidden_act", "silu");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::kGelu;
  throw Error(ErrorKind::kUnsupported, "{}: hidden_act is '{}', expected silu or gelu_pytorch_tanh",
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
    if (name != "sliding_attention" && name != "full_attention")
      throw Error(ErrorKind::kUnsupported,
                  "{}: layer_types has '{}', expected sliding_attention or full_attention",
                  fields.where(), printable(name));
    local.push_back(name == "sliding_attention");
  }
  return local;
}

void read_window(const JsonFields& fields, std::string_view type, DecoderConfig& c) {
  const auto window = fields.find("sliding_window") == nullptr
                          ? 0
                          : static_cast<int32_t>(fields.size("sliding_window"));
  const bool qwen = type.starts_with("qwen");
  if (window == 0 || type == "llama" || type == "gemma" ||
      (qwen && !fields.flag_or("use_sliding_window", false)))
    return;
  c.window = window;
  if (auto listed = listed_layers(fields, c.layers)) {
    c.local = std::move(*listed);
  } else if (type == "gemma2") {
    c.local = local_pattern(c.layers, 2);
  } else if (type == "gemma3_text") {
    const char* key = fields.has("_sliding_window_pattern") ? "_sliding_window_pattern"
                                                            : "sliding_window_pattern";
    c.local = local_pattern(c.layers, static_cast<int32_t>(fields.size(key)));
  } else {
    const int64_t first = qwen ? fields.size_or_zero("max_window_layers") : 0;
    for (int32_t i = 0; i < c.layers; ++i) c.local.push_back(i >= first);
  }
}

bool read_tied(const JsonFields& fields, const ModelFile& file) {
  if (fields.given("tie_word_embeddings")) return fields.flag_or("tie_word_embeddings", false);
  const auto outer = file.config->find("tie_word_embeddings");
  if (outer != file.config->end() && outer->is_boolean() && outer->get<bool>()) return true;
  return file.find("output.weight") == nullptr || fields.flag_or("tie_word_embeddings", false);
}

}  // namespace

std::string_view folder_architecture(const ModelFile& file, std::string& found) {
  const TypeRow* row = find_type(file, found);
  return row == nullptr ? std::string_view() : row->architecture;
}

RopeFactors folder_rope_factors(const ModelFile& file) {
  const JsonFields fields(text_part(*file.config), Json::object(), file.path + "/config.json");
  return read_rope_factors(fields, read_folder_config(file));
}

DecoderConfig read_folder_config(const ModelFile& file) {
  std::string found;
  const TypeRow* row = find_type(file, found);
  if (row == nullptr) {
    std::string known;
    for (const TypeRow& type : kTypes)
      known += (known.empty() ? "" : ", ") + std::string(type.type);
    throw Error(ErrorKind::kUnsupported, "{}: model_type '{}' is not known; known are: {}",
                file.path, printable(found), known);
  }
  const Architecture& architecture = find_architecture(row->architecture);
  const JsonFields fields(text_part(*file.config), parse_json(row->defaults, "defaults"),
                          file.path + "/config.json");
  const bool gemma = row->architecture.starts_with("gemma");
  DecoderConfig c;
  c.architecture = row->architecture;
  read_sizes(fields, file, c);
  c.norm_eps = static_cast<float>(fields.number("rms_norm_eps"));
  c.tied = read_tied(fields, file);
  c.activation = read_activation(fields, gemma);
  c.attention_softcap = static_cast<float>(fields.number_or("attn_logit_softcapping", 0));
  c.logit_softcap = static_cast<float>(fields.number_or("final_logit_softcapping", 0));
  const double scalar = fields.number_or("query_pre_attn_scalar", c.head_dim);
  if (!(scalar > 0))
    throw Error(ErrorKind::kFormat, "{}: query_pre_attn_scalar is {}, expected more than 0",
                fields.where(), scalar);
  c.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  read_window(fields, row->type, c);
  read_rope(fields, c);
  architecture.complete(c);
  return c;
}

}  // namespace veery
