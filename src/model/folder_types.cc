#include "model/folder_types.h"

#include <algorithm>

namespace veery {
namespace {

constexpr FolderType kTypes[] = {
    {"llama", "LlamaForCausalLM", "llama", WindowRule::kNone,
     R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
         "rope_theta":10000})"},
    {"mistral", "MistralForCausalLM", "mistral", WindowRule::kAll,
     R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
         "rms_norm_eps":1e-6,"rope_theta":10000,"sliding_window":4096})"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", WindowRule::kFrom,
     R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":32768,
         "rms_norm_eps":1e-6,"rope_theta":10000,"sliding_window":4096,"max_window_layers":28})"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", WindowRule::kFrom,
     R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,
         "max_position_embeddings":32768,"rms_norm_eps":1e-6,"rope_theta":10000,
         "sliding_window":4096,"max_window_layers":28})"},
    {"gemma", "GemmaForCausalLM", "gemma", WindowRule::kNone,
     R"({"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
         "num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,
         "max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000,
         "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh"})"},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", WindowRule::kPattern,
     R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
         "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
         "max_position_embeddings":8192,"rms_norm_eps":1e-6,"rope_theta":10000,
         "tie_word_embeddings":true,"hidden_act":"gelu_pytorch_tanh","query_pre_attn_scalar":256,
         "sliding_window":4096,"sliding_window_pattern":2,"attn_logit_softcapping":50,"final_logit_softcapping":30})"},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", WindowRule::kPattern,
     R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
         "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,
         "max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":1000000,
         "rope_local_base_freq":10000,"tie_word_embeddings":true,
         "hidden_act":"gelu_pytorch_tanh","query_pre_attn_scalar":256,"sliding_window":4096,
         "sliding_window_pattern":6})"},
    {"phi3", "Phi3ForCausalLM", "phi3", WindowRule::kAll,
     R"({"hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
         "original_max_position_embeddings":4096,"rope_theta":10000})"},
    {"ministral", "MinistralForCausalLM", "mistral", WindowRule::kAll,
     R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
         "rms_norm_eps":1e-6,"rope_theta":10000,"sliding_window":4096})"},
    {"ministral3", "Ministral3ForCausalLM", "mistral3", WindowRule::kAll,
     R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":34,
         "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
         "max_position_embeddings":262144,"rms_norm_eps":1e-5,"rope_theta":1000000})"},
    {"helium", "HeliumForCausalLM", "helium", WindowRule::kNone,
     R"({"hidden_size":2560,"intermediate_size":7040,"num_hidden_layers":24,
         "num_attention_heads":20,"num_key_value_heads":20,"head_dim":128,
         "max_position_embeddings":4096,"rms_norm_eps":1e-8,"rope_theta":100000})"},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", WindowRule::kUnrotated,
     R"({"hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,
         "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":32768,
         "rms_norm_eps":1e-6,"rope_theta":2000000,"tie_word_embeddings":true,
         "no_rope_layer_interval":4})"},
    {"granite", "GraniteForCausalLM", "granite", WindowRule::kNone,
     R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-6,
         "rope_theta":10000,"attention_multiplier":1})"},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", WindowRule::kNone,
     R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
         "rope_theta":10000})"},
    {"olmo3", "Olmo3ForCausalLM", "olmo2", WindowRule::kPattern,
     R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
         "rope_theta":500000,"sliding_window":4096,"sliding_window_pattern":4})",
     true},
    {"cohere", "CohereForCausalLM", "command-r", WindowRule::kNone,
     R"({"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
         "num_attention_heads":64,"max_position_embeddings":8192,"rms_norm_eps":1e-5,
         "rope_theta":500000,"logit_scale":0.0625,"tie_word_embeddings":true})"},
    {"cohere2", "Cohere2ForCausalLM", "cohere2", WindowRule::kPattern,
     R"({"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
         "num_attention_heads":64,"max_position_embeddings":8192,"rms_norm_eps":1e-5,
         "rope_theta":10000,"logit_scale":0.0625,"tie_word_embeddings":true,
         "sliding_window":4096,"sliding_window_pattern":4})"},
    {"gpt2", "GPT2LMHeadModel", "gpt2", WindowRule::kNone,
     R"({"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,
         "max_position_embeddings":1024,"rms_norm_eps":1e-5,"hidden_act":"gelu_new",
         "tie_word_embeddings":true})"},
    {"gpt_neox", "GPTNeoXForCausalLM", "gptneox", WindowRule::kNone,
     R"({"hidden_size":6144,"intermediate_size":24576,"num_hidden_layers":44,
         "num_attention_heads":64,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
         "rope_theta":10000,"partial_rotary_factor":0.25,"hidden_act":"gelu",
         "use_parallel_residual":true})"},
    {"starcoder2", "Starcoder2ForCausalLM", "starcoder2", WindowRule::kAll,
     R"({"hidden_size":3072,"intermediate_size":12288,"num_hidden_layers":30,
         "num_attention_heads":24,"num_key_value_heads":2,"max_position_embeddings":4096,
         "rms_norm_eps":1e-5,"rope_theta":10000,"hidden_act":"gelu_pytorch_tanh",
         "tie_word_embeddings":true})"},
    {"phi", "PhiForCausalLM", "phi2", WindowRule::kNone,
     R"({"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":24,
         "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5,
         "rope_theta":10000,"partial_rotary_factor":0.5,"hidden_act":"gelu_new"})"},
};

}  // namespace

std::span<const FolderType> folder_types() { return kTypes; }

const FolderType* find_folder_type(std::string_view type) {
  const auto row = std::ranges::find(kTypes, type, &FolderType::type);
  return row == std::end(kTypes) ? nullptr : row;
}

const FolderType* find_folder_class(std::string_view class_name) {
  const auto row = std::ranges::find(kTypes, class_name, &FolderType::class_name);
  return row == std::end(kTypes) ? nullptr : row;
}

}  // namespace veery
