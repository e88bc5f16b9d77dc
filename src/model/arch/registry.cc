#include "model/arch/registry.h"

#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "model/arch/arch.h"

namespace veery {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> table{
      // Llama 1 to 3 (Touvron et al., arXiv:2302.13971; Grattafiori et al., arXiv:2407.21783).
      {
          .name = "llama",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_mixture_gguf,
      },
      // Mistral (Jiang et al., arXiv:2310.06825), Ministral 3.
      {
          .name = "mistral",
          .gguf_name = "llama",
          .define = llama,
          .gguf_interleaved_rope = true,
      },
      {.name = "mistral3", .define = llama, .gguf_interleaved_rope = true},
      // SmolLM3 (Bakouch et al., 2025), Seed-OSS (ByteDance, 2025).
      {
          .name = "smollm3",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_smollm3_gguf,
      },
      {.name = "seed_oss", .define = llama},
      // Helium (Kyutai, 2025), GLM (Zhipu AI, 2024) and Ernie 4.5 (Baidu, 2025).
      {
          .name = "helium",
          .gguf_name = "llama",
          .define = llama,
          .complete = complete_helium,
      },
      {
          .name = "chatglm",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete = complete_helium,
      },
      {
          .name = "glm4",
          .define = gemma2,
          .gguf_interleaved_rope = true,
          .complete = complete_helium,
      },
      {
          .name = "ernie4_5",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete = complete_helium,
      },
      {
          .name = "ernie4_5-moe",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete = complete_ernie_moe,
      },
      // Exaone 3 (LG AI Research, 2024), InternLM 2 (Shanghai AI Lab, arXiv:2403.17297).
      {.name = "exaone", .define = llama},
      {.name = "internlm2", .define = llama, .gguf_interleaved_rope = true},
      // HunYuan (Tencent, 2025).
      {.name = "hunyuan-dense", .define = llama, .complete = complete_hunyuan},
      {
          .name = "hunyuan-moe",
          .define = llama,
          .complete = complete_hunyuan,
          .complete_gguf = complete_mixture_gguf,
      },
      // MiniCPM (Hu et al., arXiv:2404.06395), Granite 3 and 4 (IBM, 2024 and 2025), Bamba (IBM,
      // 2024).
      {
          .name = "minicpm",
          .define = granite,
          .scaled_residuals = true,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_minicpm_gguf,
      },
      {
          .name = "granite",
          .define = granite,
          .scaled_residuals = true,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_granite_gguf,
      },
      {
          .name = "granitemoe",
          .define = granite,
          .scaled_residuals = true,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_granitemoe_gguf,
      },
      {
          .name = "granite_swa",
          .define = granite,
          .scaled_residuals = true,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_granitemoe_gguf,
      },
      {
          .name = "granitehybrid",
          .define = granite_hybrid,
          .mixer = Mixer::kMamba2,
          .scaled_residuals = true,
          .gguf_interleaved_rope = true,
          .complete_gguf = complete_granitehybrid_gguf,
      },
      {
          .name = "bamba",
          .gguf_name = "granitehybrid",
          .define = granite_hybrid,
          .mixer = Mixer::kMamba2,
      },
      // Llama 4 (Meta, 2025).
      {
          .name = "llama4",
          .define = llama4,
          .gguf_interleaved_rope = true,
          .gguf_global_period = 4,
          .complete = complete_llama4,
          .complete_gguf = complete_llama4_gguf,
      },
      // Arcee AFM (2025), BitNet b1.58 (Ma et al., arXiv:2402.17764), Nemotron 4 (Parmar et al.,
      // arXiv:2402.16819), Apertus (Swiss AI Initiative, 2025).
      {
          .name = "arcee",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete = complete_arcee,
          .complete_gguf = complete_relu_squared_gguf,
      },
      {.name = "bitnet", .define = llama},
      {.name = "bitnet-b1.58", .define = llama, .complete_gguf = complete_relu_squared_gguf},
      {
          .name = "nemotron",
          .define = nemotron,
          .complete = complete_nemotron,
          .complete_gguf = complete_relu_squared_gguf,
      },
      {
          .name = "apertus",
          .define = apertus,
          .complete = complete_apertus,
          .complete_gguf = complete_apertus_gguf,
      },
      // Qwen 2, 2.5 and 3 (Qwen Team, arXiv:2407.10671, arXiv:2412.15115, arXiv:2505.09388).
      {.name = "qwen2", .define = qwen},
      {.name = "qwen2moe", .define = qwen},
      {.name = "qwen2vl", .define = qwen},
      {.name = "qwen3", .define = qwen},
      {.name = "qwen3moe", .define = qwen, .complete_gguf = complete_mixture_gguf},
      {.name = "qwen3vl", .define = qwen},
      {.name = "qwen3vlmoe", .define = qwen, .complete_gguf = complete_mixture_gguf},
      // Qwen3-Next and Qwen 3.5 (Qwen Team, 2025, 2026).
      {
          .name = "qwen3next",
          .define = qwen3_next,
          .mixer = Mixer::kDelta,
          .complete_gguf = complete_mixture_gguf,
      },
      {.name = "qwen35", .define = qwen3_next, .mixer = Mixer::kDelta},
      {
          .name = "qwen35moe",
          .define = qwen3_next,
          .mixer = Mixer::kDelta,
          .complete_gguf = complete_mixture_gguf,
      },
      // Dots 1 (rednote-hilab, 2025), Ling 2.0 (Ling Team, arXiv:2510.22115), GLM 4.5 (Zhipu AI,
      // 2025), MiniMax M2 (2025), Exaone MoE (LG AI Research, 2025).
      {.name = "dots1", .define = qwen},
      {.name = "bailingmoe2", .define = qwen},
      {.name = "glm4moe", .define = qwen},
      {
          .name = "minimax-m2",
          .define = qwen,
          .complete = complete_olmo2,
          .complete_gguf = complete_minimax_gguf,
      },
      {
          .name = "exaone-moe",
          .define = qwen,
          .gguf_global_period = 4,
          .complete = complete_exaone4,
      },
      // DeepSeek V2, V3 and V3.2 (DeepSeek-AI, arXiv:2405.04434, arXiv:2412.19437, 2025), GLM 5
      // (2026), Mistral 4 (Mistral AI, 2026), Kimi Linear (Kimi Team, arXiv:2510.26692).
      {
          .name = "deepseek2",
          .define = deepseek,
          .gguf_interleaved_rope = true,
          .complete = complete_deepseek,
          .complete_gguf = complete_deepseek_gguf,
      },
      {
          .name = "deepseek32",
          .define = deepseek,
          .gguf_interleaved_rope = true,
          .complete = complete_deepseek,
          .complete_gguf = complete_deepseek_gguf,
      },
      {
          .name = "glm-dsa",
          .define = deepseek,
          .gguf_interleaved_rope = true,
          .complete = complete_deepseek,
          .complete_gguf = complete_glm_dsa_gguf,
      },
      {
          .name = "mistral4",
          .define = deepseek,
          .gguf_interleaved_rope = true,
          .complete = complete_mistral4,
          .complete_gguf = complete_deepseek_gguf,
      },
      {
          .name = "kimi-linear",
          .define = kimi_linear,
          .positions = Positions::kNone,
          .mixer = Mixer::kKda,
          .complete = complete_deepseek,
      },
      // gpt-oss (OpenAI, 2025).
      {
          .name = "gpt-oss",
          .define = gpt_oss,
          .gguf_global_period = 2,
          .complete = complete_gpt_oss,
          .complete_gguf = complete_gpt_oss_gguf,
      },
      // Gemma 1 to 4 (Gemma Team, arXiv:2403.08295, arXiv:2408.00118, arXiv:2503.19786, 2026) and
      // EmbeddingGemma (arXiv:2509.20354).
      {
          .name = "gemma",
          .define = gemma,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma_gguf,
      },
      {
          .name = "gemma2",
          .define = gemma2,
          .gguf_global_period = 2,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma2_gguf,
      },
      {
          .name = "gemma3",
          .define = gemma3,
          .gguf_global_period = 6,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma3_gguf,
      },
      {
          .name = "gemma-embedding",
          .define = gemma3,
          .gguf_global_period = 6,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma_embedding_gguf,
      },
      {
          .name = "gemma4",
          .define = gemma4,
          .layer_sizes = true,
          .complete = complete_gemma4,
          .complete_gguf = complete_gemma4_gguf,
      },
      {
          .name = "embedding-gemma2",
          .define = gemma4,
          .layer_sizes = true,
          .complete = complete_embedding_gemma2,
      },
      // AFMoE (Arcee AI, 2025).
      {
          .name = "afmoe",
          .define = afmoe,
          .gguf_global_period = 4,
          .complete = complete_exaone4,
          .complete_gguf = complete_afmoe_gguf,
      },
      // Phi-3, Phi-3.5 and Phi-4 (Abdin et al., arXiv:2404.14219).
      {.name = "phi3", .define = phi3, .complete_gguf = complete_phi3_gguf},
      {
          .name = "phimoe",
          .define = phi3,
          .complete = complete_phimoe,
          .complete_gguf = complete_phimoe_gguf,
      },
      // OLMo, OLMoE, OLMo 2 and 3 (arXiv:2402.00838, arXiv:2409.02060, arXiv:2501.00656, 2025),
      // Exaone 4 (LG AI Research, 2025).
      {
          .name = "olmo",
          .define = llama,
          .gguf_interleaved_rope = true,
          .complete = complete_olmo,
      },
      {.name = "olmoe", .define = olmoe, .complete = complete_olmo2},
      {
          .name = "olmo2",
          .define = olmo2,
          .gguf_global_period = 4,
          .complete = complete_olmo2,
          .complete_gguf = complete_olmo2_gguf,
      },
      {
          .name = "exaone4",
          .define = olmo2,
          .gguf_global_period = 4,
          .complete = complete_exaone4,
      },
      // Cohere's Command R and Cohere 2 (2024), Cohere 2 MoE (2026).
      {
          .name = "command-r",
          .define = cohere,
          .gguf_interleaved_rope = true,
          .complete = complete_cohere,
      },
      {
          .name = "cohere2",
          .define = cohere,
          .gguf_interleaved_rope = true,
          .gguf_global_period = 4,
          .complete = complete_cohere2,
      },
      {
          .name = "cohere2moe",
          .define = cohere,
          .gguf_interleaved_rope = true,
          .gguf_global_period = 4,
          .complete = complete_cohere_moe,
          .complete_gguf = complete_cohere_moe_gguf,
      },
      // GPT-2 (Radford et al., 2019), GPT-NeoX (Black et al., arXiv:2204.06745), GPT-J (Wang and
      // Komatsuzaki, 2021), OPT (Zhang et al., arXiv:2205.01068), StarCoder 2 (arXiv:2402.19173),
      // Phi-2 (arXiv:2306.11644), StableLM (arXiv:2402.17834).
      {
          .name = "gpt2",
          .define = gpt2,
          .positions = Positions::kTable,
          .complete = complete_gpt,
          .complete_gguf = complete_gpt_gguf,
      },
      {
          .name = "gptneox",
          .define = gptneox,
          .complete = complete_gpt,
          .complete_gguf = complete_gptneox_gguf,
      },
      {
          .name = "gptj",
          .define = gptj,
          .gguf_interleaved_rope = true,
          .complete = complete_gptj,
          .complete_gguf = complete_gpt_gguf,
      },
      {
          .name = "opt",
          .define = opt,
          .positions = Positions::kTable,
          .complete = complete_gpt,
          .complete_gguf = complete_opt_gguf,
      },
      {
          .name = "starcoder2",
          .define = starcoder2,
          .complete = complete_gpt,
          .complete_gguf = complete_gpt_gguf,
      },
      {
          .name = "phi2",
          .define = phi2,
          .complete = complete_gpt,
          .complete_gguf = complete_gpt_gguf,
      },
      {.name = "stablelm", .define = stablelm, .complete = complete_stablelm},
      // Falcon (Almazrouei et al., arXiv:2311.16867); BLOOM (BigScience, 2022) and MPT (MosaicML,
      // 2023) with ALiBi.
      {
          .name = "falcon",
          .define = falcon,
          .complete = complete_gpt,
          .complete_gguf = complete_falcon_gguf,
      },
      {
          .name = "bloom",
          .define = bloom,
          .positions = Positions::kAlibi,
          .complete = complete_bloom,
          .complete_gguf = complete_gpt_gguf,
      },
      {
          .name = "mpt",
          .define = bloom,
          .positions = Positions::kAlibi,
          .complete = complete_gpt,
          .complete_gguf = complete_mpt_gguf,
      },
      // Mamba-2 (Dao and Gu, arXiv:2405.21060), Jamba (AI21 Labs, arXiv:2403.19887), Nemotron-H and
      // Nemotron 3 (NVIDIA, arXiv:2504.03624), Falcon-H1 (TII, arXiv:2507.22448).
      {
          .name = "mamba2",
          .define = mamba2,
          .positions = Positions::kNone,
          .mixer = Mixer::kMamba2,
      },
      {
          .name = "jamba",
          .define = jamba,
          .positions = Positions::kNone,
          .mixer = Mixer::kMamba1,
      },
      {
          .name = "nemotron_h",
          .define = nemotron_h,
          .positions = Positions::kNone,
          .mixer = Mixer::kMamba2,
          .complete = complete_nemotron_h,
          .complete_gguf = complete_relu_squared_gguf,
      },
      {
          .name = "nemotron_h_moe",
          .define = nemotron_h,
          .positions = Positions::kNone,
          .mixer = Mixer::kMamba2,
          .complete = complete_nemotron_h,
          .complete_gguf = complete_relu_squared_gguf,
      },
      {
          .name = "falcon-h1",
          .define = falcon_h1,
          .mixer = Mixer::kMamba2,
          .parallel_mixers = true,
      },
      // LFM2 (Liquid AI, arXiv:2511.23404) and LFM3.
      {.name = "lfm2", .define = lfm2, .mixer = Mixer::kShortConv},
      {
          .name = "lfm2moe",
          .define = lfm2,
          .mixer = Mixer::kShortConv,
          .complete = complete_lfm2_moe,
      },
      {
          .name = "lfm3",
          .define = lfm3,
          .mixer = Mixer::kShortConv,
          .complete = complete_lfm3,
      },
      // RWKV-7 (Peng et al., arXiv:2503.14456), xLSTM (Beck et al., arXiv:2405.04517,
      // arXiv:2503.13427).
      {
          .name = "rwkv7",
          .define = rwkv7,
          .positions = Positions::kNone,
          .mixer = Mixer::kRwkv7,
          .complete = complete_rwkv7,
          .complete_gguf = complete_relu_squared_gguf,
      },
      {
          .name = "xlstm",
          .define = xlstm,
          .positions = Positions::kNone,
          .mixer = Mixer::kMlstm,
          .complete = complete_xlstm,
      },
      {
          .name = "xlstm-lm",
          .define = xlstm_lm,
          .positions = Positions::kNone,
          .mixer = Mixer::kXlstmBlocks,
          .complete = complete_xlstm_lm,
      },
      // Encoders: BERT (Devlin et al., arXiv:1810.04805), XLM-R (arXiv:1911.02116), Nomic BERT
      // (arXiv:2402.01613), Jina BERT v2 (arXiv:2310.19923), ModernBERT (arXiv:2412.13663).
      {
          .name = "bert",
          .define = bert,
          .positions = Positions::kTable,
          .complete = complete_bert,
          .complete_gguf = complete_bert_gguf,
      },
      {
          .name = "xlm-roberta",
          .gguf_name = "bert",
          .define = bert,
          .positions = Positions::kTable,
          .complete = complete_bert,
          .complete_gguf = complete_bert_gguf,
      },
      {.name = "nomic-bert", .define = bert, .complete = complete_nomic_bert},
      {
          .name = "jina-bert-v2",
          .define = bert,
          .positions = Positions::kAlibi,
          .complete = complete_jina_bert,
          .complete_gguf = complete_bert_gguf,
      },
      {
          .name = "modern-bert",
          .define = modern_bert,
          .gguf_global_period = 3,
          .complete = complete_modern_bert,
          .complete_gguf = complete_modern_bert_gguf,
      },
      // Whisper (Radford et al., arXiv:2212.04356).
      {
          .name = "whisper",
          .define = whisper,
          .encoder = whisper_encoder,
          .positions = Positions::kTable,
          .complete = complete_gpt,
          .complete_gguf = complete_gptneox_gguf,
      },
  };
  return table;
}

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& row : architectures()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorKind::kUnsupported, "unknown architecture {}, expected one of: {}",
              printable(name), known);
}

void check_residual_scale(const TransformerConfig& c, const std::string& where) {
  if (c.residual.scale != 1 && !find_architecture(c.architecture).scaled_residuals)
    throw Error(ErrorKind::kUnsupported, "{}: the residual scale is {}, but {} models have none",
                where, c.residual.scale, c.architecture);
}

}  // namespace veery
