// arch.h: the definitions, one file each.
#pragma once
#include "model/config.h"
#include "model/trace.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c);
/// The gates of the chosen experts add up to 1: Mixtral, Qwen 3.
void complete_mixture_gguf(DecoderConfig& c, const Metadata& metadata);

void complete_helium(DecoderConfig& c);  ///< Ernie 4.5 and GLM too
void complete_ernie_moe(DecoderConfig& c);
void complete_hunyuan(DecoderConfig& c);
void complete_minicpm_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_smollm3_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_granite_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_granitemoe_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_granitehybrid_gguf(DecoderConfig& c, const Metadata& metadata);

Array llama4(Trace& t, const DecoderConfig& c);
void complete_llama4(DecoderConfig& c);
void complete_llama4_gguf(DecoderConfig& c, const Metadata& metadata);

Array nemotron(Trace& t, const DecoderConfig& c);
void complete_nemotron(DecoderConfig& c);
void complete_arcee(DecoderConfig& c);
void complete_relu_squared_gguf(DecoderConfig& c, const Metadata& metadata);

Array apertus(Trace& t, const DecoderConfig& c);
void complete_apertus(DecoderConfig& c);
void complete_apertus_gguf(DecoderConfig& c, const Metadata& metadata);

Array opt(Trace& t, const DecoderConfig& c);
void complete_opt_gguf(DecoderConfig& c, const Metadata& metadata);

Array falcon(Trace& t, const DecoderConfig& c);
void complete_falcon_gguf(DecoderConfig& c, const Metadata& metadata);

Array bloom(Trace& t, const DecoderConfig& c);
void complete_bloom(DecoderConfig& c);
void complete_mpt_gguf(DecoderConfig& c, const Metadata& metadata);

Array qwen(Trace& t, const DecoderConfig& c);

Array deepseek(Trace& t, const DecoderConfig& c);
void complete_deepseek(DecoderConfig& c);
void complete_deepseek_gguf(DecoderConfig& c, const Metadata& metadata);

Array gpt_oss(Trace& t, const DecoderConfig& c);
void complete_gpt_oss(DecoderConfig& c);
void complete_gpt_oss_gguf(DecoderConfig& c, const Metadata& metadata);

Array gemma(Trace& t, const DecoderConfig& c);
Array gemma2(Trace& t, const DecoderConfig& c);
Array gemma3(Trace& t, const DecoderConfig& c);
void complete_gemma(DecoderConfig& c);
void complete_gemma_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_gemma2_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_gemma3_gguf(DecoderConfig& c, const Metadata& metadata);

Array phi3(Trace& t, const DecoderConfig& c);
void complete_phi3_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_phimoe(DecoderConfig& c);
void complete_phimoe_gguf(DecoderConfig& c, const Metadata& metadata);

Array olmo2(Trace& t, const DecoderConfig& c);
Array olmoe(Trace& t, const DecoderConfig& c);
void complete_exaone4(DecoderConfig& c);
void complete_olmo(DecoderConfig& c);
void complete_olmo2(DecoderConfig& c);
void complete_olmo2_gguf(DecoderConfig& c, const Metadata& metadata);

Array cohere(Trace& t, const DecoderConfig& c);
void complete_cohere(DecoderConfig& c);
void complete_cohere2(DecoderConfig& c);

Array gpt2(Trace& t, const DecoderConfig& c);
Array gptneox(Trace& t, const DecoderConfig& c);
Array stablelm(Trace& t, const DecoderConfig& c);
Array starcoder2(Trace& t, const DecoderConfig& c);
Array phi2(Trace& t, const DecoderConfig& c);
void complete_stablelm(DecoderConfig& c);
void complete_gpt(DecoderConfig& c);
void complete_gptj(DecoderConfig& c);
void complete_gpt_gguf(DecoderConfig& c, const Metadata& metadata);
void complete_gptneox_gguf(DecoderConfig& c, const Metadata& metadata);

}  // namespace veery
