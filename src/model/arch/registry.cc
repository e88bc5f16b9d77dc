#include "model/arch/registry.h"

#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "model/arch/arch.h"

namespace veery {

const std::vector<Architecture>& architectures() {
  const auto nothing = [](TransformerConfig&) {};
  const auto nothing_gguf = [](TransformerConfig&, const Metadata&) {};
  static const std::vector<Architecture> table{
      {"llama", true, nothing, complete_mixture_gguf, llama},
      {"mistral", true, nothing, nothing_gguf, llama, Positions::kRope, 0, "llama"},
      {"qwen2", false, nothing, nothing_gguf, qwen},
      {"qwen3", false, nothing, nothing_gguf, qwen},
      {"qwen2vl", false, nothing, nothing_gguf, qwen},
      {"qwen3vl", false, nothing, nothing_gguf, qwen},
      {"qwen3vlmoe", false, nothing, complete_mixture_gguf, qwen},
      {"qwen2moe", false, nothing, nothing_gguf, qwen},
      {"qwen3moe", false, nothing, complete_mixture_gguf, qwen},
      {"qwen3next",
       false,
       nothing,
       complete_mixture_gguf,
       qwen,
       Positions::kRope,
       0,
       {},
       Mixer::kDelta},
      {"qwen35", false, nothing, nothing_gguf, qwen, Positions::kRope, 0, {}, Mixer::kDelta},
      {"qwen35moe",
       false,
       nothing,
       complete_mixture_gguf,
       qwen,
       Positions::kRope,
       0,
       {},
       Mixer::kDelta},
      {"mamba2", false, nothing, nothing_gguf, mamba2, Positions::kNone, 0, {}, Mixer::kMamba2},
      {"lfm2", false, nothing, nothing_gguf, lfm2, Positions::kRope, 0, {}, Mixer::kShortConv},
      {"lfm2moe",
       false,
       complete_lfm2_moe,
       nothing_gguf,
       lfm2,
       Positions::kRope,
       0,
       {},
       Mixer::kShortConv},
      {"kimi-linear",
       false,
       complete_deepseek,
       nothing_gguf,
       deepseek,
       Positions::kNone,
       0,
       {},
       Mixer::kKda},
      {"xlstm", false, complete_xlstm, nothing_gguf, xlstm, Positions::kNone, 0, {}, Mixer::kMlstm},
      {"deepseek2", true, complete_deepseek, complete_deepseek_gguf, deepseek},
      {"llama4", true, complete_llama4, complete_llama4_gguf, llama4, Positions::kRope, 4},
      {"olmoe", false, complete_olmo2, nothing_gguf, olmoe},
      {"granitemoe", true, nothing, complete_granitemoe_gguf, llama},
      {"granitehybrid", true, nothing, complete_granitehybrid_gguf, llama},
      {"dots1", false, nothing, nothing_gguf, qwen},
      {"glm4moe", false, nothing, nothing_gguf, qwen},
      {"gpt-oss", false, complete_gpt_oss, complete_gpt_oss_gguf, gpt_oss, Positions::kRope, 2},
      {"gemma", false, complete_gemma, complete_gemma_gguf, gemma},
      {"gemma2", false, complete_gemma, complete_gemma2_gguf, gemma2, Positions::kRope, 2},
      {"gemma3", false, complete_gemma, complete_gemma3_gguf, gemma3, Positions::kRope, 6},
      {.name = "gemma4",
       .gguf_interleaved = false,
       .complete = complete_gemma4,
       .complete_gguf = complete_gemma4_gguf,
       .define = gemma4,
       .layer_sizes = true},
      {"phi3", false, nothing, complete_phi3_gguf, phi3},
      {"mistral3", true, nothing, nothing_gguf, llama},
      {"chatglm", true, complete_helium, nothing_gguf, llama},
      {"exaone", false, nothing, nothing_gguf, llama},
      {"internlm2", true, nothing, nothing_gguf, llama},
      {"minicpm", true, nothing, complete_minicpm_gguf, llama},
      {"hunyuan-dense", false, complete_hunyuan, nothing_gguf, llama},
      {"stablelm", false, complete_stablelm, nothing_gguf, stablelm},
      {"helium", false, complete_helium, nothing_gguf, llama, Positions::kRope, 0, "llama"},
      {"smollm3", true, nothing, complete_smollm3_gguf, llama},
      {"granite", true, nothing, complete_granite_gguf, llama},
      {"olmo", true, complete_olmo, nothing_gguf, llama},
      {"olmo2", false, complete_olmo2, complete_olmo2_gguf, olmo2, Positions::kRope, 4},
      {"command-r", true, complete_cohere, nothing_gguf, cohere},
      {"cohere2", true, complete_cohere2, nothing_gguf, cohere, Positions::kRope, 4},
      {"exaone4", false, complete_exaone4, nothing_gguf, olmo2, Positions::kRope, 4},
      {"glm4", true, complete_helium, nothing_gguf, gemma2},
      {"ernie4_5", true, complete_helium, nothing_gguf, llama},
      {"ernie4_5-moe", true, complete_ernie_moe, nothing_gguf, llama},
      {"seed_oss", false, nothing, nothing_gguf, llama},
      {"hunyuan-moe", false, complete_hunyuan, complete_mixture_gguf, llama},
      {"nemotron", false, complete_nemotron, complete_relu_squared_gguf, nemotron},
      {"arcee", true, complete_arcee, complete_relu_squared_gguf, llama},
      {"apertus", false, complete_apertus, complete_apertus_gguf, apertus},
      {"phimoe", false, complete_phimoe, complete_phimoe_gguf, phi3},
      {"bitnet", false, nothing, nothing_gguf, llama},
      {"bitnet-b1.58", false, nothing, complete_relu_squared_gguf, llama},
      {"opt", false, complete_gpt, complete_opt_gguf, opt, Positions::kTable},
      {"falcon", false, complete_gpt, complete_falcon_gguf, falcon},
      {"bloom", false, complete_bloom, complete_gpt_gguf, bloom, Positions::kAlibi},
      {"mpt", false, complete_gpt, complete_mpt_gguf, bloom, Positions::kAlibi},
      {"gptj", true, complete_gptj, complete_gpt_gguf, phi2},
      {"gpt2", false, complete_gpt, complete_gpt_gguf, gpt2, Positions::kTable},
      {"gptneox", false, complete_gpt, complete_gptneox_gguf, gptneox},
      {"starcoder2", false, complete_gpt, complete_gpt_gguf, starcoder2},
      {"phi2", false, complete_gpt, complete_gpt_gguf, phi2},
      {"gemma-embedding", false, complete_gemma, complete_gemma_embedding_gguf, gemma3,
       Positions::kRope, 6},
      {"bert", false, complete_bert, complete_bert_gguf, bert, Positions::kTable},
      {"xlm-roberta", false, complete_bert, complete_bert_gguf, bert, Positions::kTable, 0, "bert"},
      {"nomic-bert", false, complete_nomic_bert, nothing_gguf, bert},
      {"jina-bert-v2", false, complete_jina_bert, complete_bert_gguf, bert, Positions::kAlibi},
      {"modern-bert", false, complete_modern_bert, complete_modern_bert_gguf, modern_bert,
       Positions::kRope, 3},
  };
  return table;
}

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& row : architectures()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorKind::kUnsupported, "architecture {} is not known; known are: {}",
              printable(name), known);
}

}  // namespace veery
