// arch.h: model definitions and the hyperparameters that their files do not specify.
#pragma once
#include "model/config.h"
#include "model/trace.h"

namespace veery {

Array llama(Trace& t, const TransformerConfig& c);
/// Normalises the weights of the selected experts (Mixtral, Qwen 3, MiniCPM).
void complete_mixture_gguf(TransformerConfig& c, const Metadata& metadata);

void complete_ernie_moe(TransformerConfig& c);
void complete_smollm3_gguf(TransformerConfig& c, const Metadata& metadata);

Array granite(Trace& t, const TransformerConfig& c);
Array granite_hybrid(Trace& t, const TransformerConfig& c);
void complete_granite_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_granitemoe_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_granitehybrid_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_minicpm_gguf(TransformerConfig& c, const Metadata& metadata);

Array llama4(Trace& t, const TransformerConfig& c);
void complete_llama4(TransformerConfig& c);
void complete_llama4_gguf(TransformerConfig& c, const Metadata& metadata);

Array nemotron(Trace& t, const TransformerConfig& c);

Array apertus(Trace& t, const TransformerConfig& c);
void complete_apertus_gguf(TransformerConfig& c, const Metadata& metadata);

Array mamba2(Trace& t, const TransformerConfig& c);
Array jamba(Trace& t, const TransformerConfig& c);
Array nemotron_h(Trace& t, const TransformerConfig& c);
Array falcon_h1(Trace& t, const TransformerConfig& c);

Array lfm2(Trace& t, const TransformerConfig& c);
Array lfm3(Trace& t, const TransformerConfig& c);
void complete_lfm2_moe(TransformerConfig& c);

Array rwkv7(Trace& t, const TransformerConfig& c);
void complete_rwkv7(TransformerConfig& c);

Array xlstm(Trace& t, const TransformerConfig& c);
void complete_xlstm(TransformerConfig& c);
Array xlstm_lm(Trace& t, const TransformerConfig& c);
void complete_xlstm_lm(TransformerConfig& c);

Array opt(Trace& t, const TransformerConfig& c);

Array falcon(Trace& t, const TransformerConfig& c);
void complete_falcon_gguf(TransformerConfig& c, const Metadata& metadata);

Array qwen(Trace& t, const TransformerConfig& c);
Array qwen3_next(Trace& t, const TransformerConfig& c);
void complete_minimax_gguf(TransformerConfig& c, const Metadata& metadata);

Array deepseek(Trace& t, const TransformerConfig& c);
Array kimi_linear(Trace& t, const TransformerConfig& c);
void complete_deepseek(TransformerConfig& c);
void complete_mistral4(TransformerConfig& c);
void complete_glm_dsa_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_deepseek_gguf(TransformerConfig& c, const Metadata& metadata);

Array gpt_oss(Trace& t, const TransformerConfig& c);
void complete_gpt_oss(TransformerConfig& c);
void complete_gpt_oss_gguf(TransformerConfig& c, const Metadata& metadata);

Array gemma(Trace& t, const TransformerConfig& c);
Array gemma2(Trace& t, const TransformerConfig& c);
Array gemma3(Trace& t, const TransformerConfig& c);
void complete_gemma(TransformerConfig& c);
void complete_gemma2_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_gemma3_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_gemma_embedding_gguf(TransformerConfig& c, const Metadata& metadata);

Array gemma4(Trace& t, const TransformerConfig& c);
void complete_gemma4(TransformerConfig& c);
void complete_gemma4_gguf(TransformerConfig& c, const Metadata& metadata);

Array phi3(Trace& t, const TransformerConfig& c);
void complete_phi3_gguf(TransformerConfig& c, const Metadata& metadata);
void complete_phimoe_gguf(TransformerConfig& c, const Metadata& metadata);

Array olmo2(Trace& t, const TransformerConfig& c);
Array olmoe(Trace& t, const TransformerConfig& c);
void complete_exaone4(TransformerConfig& c);
void complete_olmo2_gguf(TransformerConfig& c, const Metadata& metadata);

Array cohere(Trace& t, const TransformerConfig& c);
void complete_cohere2(TransformerConfig& c);
void complete_cohere_moe_gguf(TransformerConfig& c, const Metadata& metadata);

Array afmoe(Trace& t, const TransformerConfig& c);
void complete_afmoe_gguf(TransformerConfig& c, const Metadata& metadata);

Array bert(Trace& t, const TransformerConfig& c);
Array modern_bert(Trace& t, const TransformerConfig& c);
void complete_modern_bert_gguf(TransformerConfig& c, const Metadata& metadata);

Array whisper(Trace& t, const TransformerConfig& c);
std::vector<Array> whisper_encoder(Trace& t, const TransformerConfig& c);

Array gpt2(Trace& t, const TransformerConfig& c);
Array gptj(Trace& t, const TransformerConfig& c);
Array gptneox(Trace& t, const TransformerConfig& c);
Array stablelm(Trace& t, const TransformerConfig& c);
Array starcoder2(Trace& t, const TransformerConfig& c);
Array phi2(Trace& t, const TransformerConfig& c);
Array bloom(Trace& t, const TransformerConfig& c);
void complete_mpt_gguf(TransformerConfig& c, const Metadata& metadata);

}  // namespace veery
