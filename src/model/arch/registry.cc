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
          .positions = {.interleaved = true},
      },
      {.name = "chatglm", .define = llama, .positions = {.interleaved = true}},
      {.name = "glm4", .define = gemma2, .positions = {.interleaved = true}},
      {.name = "ernie4_5", .define = llama, .positions = {.interleaved = true}},
      {
          .name = "ernie4_5-moe",
          .define = llama,
          .positions = {.interleaved = true},
          .complete = complete_ernie_moe,
      },
      // Exaone 3 (LG AI Research, 2024), InternLM 2 (Shanghai AI Lab, arXiv:2403.17297).
      {.name = "exaone", .define = llama},
      {.name = "internlm2", .define = llama, .gguf_interleaved_rope = true},
      // HunYuan (Tencent, 2025).
      {.name = "hunyuan-dense", .define = llama, .norms = {.qk_after_rope = true}},
      {
          .name = "hunyuan-moe",
          .define = llama,
          .norms = {.qk_after_rope = true},
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
          .positions = {.interleaved = true},
          .gguf_global_period = 4,
          .complete = complete_llama4,
          .complete_gguf = complete_llama4_gguf,
      },
      // Arcee AFM (2025), BitNet b1.58 (Ma et al., arXiv:2402.17764), Nemotron 4 (Parmar et al.,
      // arXiv:2402.16819), Apertus (Swiss AI Initiative, 2025).
      {
          .name = "arcee",
          .define = llama,
          .feed_forward = {.gated = false, .activation = Activation::kReluSquared},
          .gguf_interleaved_rope = true,
      },
      {.name = "bitnet", .define = llama},
      {
          .name = "bitnet-b1.58",
          .define = llama,
          .feed_forward = {.activation = Activation::kReluSquared},
      },
      {
          .name = "nemotron",
          .define = nemotron,
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kReluSquared},
      },
      {
          .name = "apertus",
          .define = apertus,
          .feed_forward = {.gated = false},
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
          .norms = {.qk = QkNorm::kTogether},
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
          .positions = {.kind = Positions::kNone},
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
          .feed_forward = {.activation = Activation::kGelu},
          .complete = complete_gemma,
      },
      {
          .name = "gemma2",
          .define = gemma2,
          .feed_forward = {.activation = Activation::kGelu},
          .gguf_global_period = 2,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma2_gguf,
      },
      {
          .name = "gemma3",
          .define = gemma3,
          .feed_forward = {.activation = Activation::kGelu},
          .gguf_global_period = 6,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma3_gguf,
      },
      {
          .name = "gemma-embedding",
          .define = gemma3,
          .feed_forward = {.activation = Activation::kGelu},
          .gguf_global_period = 6,
          .complete = complete_gemma,
          .complete_gguf = complete_gemma_embedding_gguf,
      },
      {
          .name = "gemma4",
          .define = gemma4,
          .feed_forward = {.activation = Activation::kGelu},
          .layer_sizes = true,
          .complete = complete_gemma4,
          .complete_gguf = complete_gemma4_gguf,
      },
      {
          .name = "embedding-gemma2",
          .define = gemma4,
          .attention = {.mask = Mask::kFull},
          .layer_sizes = true,
          .complete = complete_gemma4,
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
          .norms = {.kind = Norm::kLayer},
          .complete_gguf = complete_phimoe_gguf,
      },
      // OLMo, OLMoE, OLMo 2 and 3 (arXiv:2402.00838, arXiv:2409.02060, arXiv:2501.00656, 2025),
      // Exaone 4 (LG AI Research, 2025).
      {
          .name = "olmo",
          .define = llama,
          .norms = {.kind = Norm::kPlainLayer},
          .gguf_interleaved_rope = true,
      },
      {.name = "olmoe", .define = olmoe, .norms = {.qk = QkNorm::kTogether}},
      {
          .name = "olmo2",
          .define = olmo2,
          .norms = {.qk = QkNorm::kTogether},
          .gguf_global_period = 4,
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
          .positions = {.interleaved = true},
          .norms = {.kind = Norm::kLayer, .qk = QkNorm::kOwn},
      },
      {
          .name = "cohere2",
          .define = cohere,
          .positions = {.interleaved = true},
          .norms = {.kind = Norm::kLayer, .qk = QkNorm::kOwn},
          .gguf_global_period = 4,
          .complete = complete_cohere2,
      },
      {
          .name = "cohere2moe",
          .define = cohere,
          .positions = {.interleaved = true},
          .gguf_global_period = 4,
          .complete_gguf = complete_cohere_moe_gguf,
      },
      // GPT-2 (Radford et al., 2019), GPT-NeoX (Black et al., arXiv:2204.06745), GPT-J (Wang and
      // Komatsuzaki, 2021), OPT (Zhang et al., arXiv:2205.01068), StarCoder 2 (arXiv:2402.19173),
      // Phi-2 (arXiv:2306.11644), StableLM (arXiv:2402.17834).
      {
          .name = "gpt2",
          .define = gpt2,
          .positions = {.kind = Positions::kTable},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGelu},
      },
      {
          .name = "gptneox",
          .define = gptneox,
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
      },
      {
          .name = "gptj",
          .define = gptj,
          .positions = {.interleaved = true},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGelu},
      },
      {
          .name = "opt",
          .define = opt,
          .positions = {.kind = Positions::kTable},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kRelu},
      },
      {
          .name = "starcoder2",
          .define = starcoder2,
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGelu},
      },
      {
          .name = "phi2",
          .define = phi2,
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGelu},
      },
      {.name = "stablelm", .define = stablelm, .norms = {.kind = Norm::kLayer, .qk = QkNorm::kOwn}},
      // Falcon (Almazrouei et al., arXiv:2311.16867); BLOOM (BigScience, 2022) and MPT (MosaicML,
      // 2023) with ALiBi.
      {
          .name = "falcon",
          .define = falcon,
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
          .complete_gguf = complete_falcon_gguf,
      },
      {
          .name = "bloom",
          .define = bloom,
          .positions = {.kind = Positions::kAlibi, .alibi = 8},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGelu},
      },
      {
          .name = "mpt",
          .define = bloom,
          .positions = {.kind = Positions::kAlibi},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
          .complete_gguf = complete_mpt_gguf,
      },
      // Mamba-2 (Dao and Gu, arXiv:2405.21060), Jamba (AI21 Labs, arXiv:2403.19887), Nemotron-H and
      // Nemotron 3 (NVIDIA, arXiv:2504.03624), Falcon-H1 (TII, arXiv:2507.22448).
      {
          .name = "mamba2",
          .define = mamba2,
          .positions = {.kind = Positions::kNone},
          .mixer = Mixer::kMamba2,
      },
      {
          .name = "jamba",
          .define = jamba,
          .positions = {.kind = Positions::kNone},
          .mixer = Mixer::kMamba1,
      },
      {
          .name = "nemotron_h",
          .define = nemotron_h,
          .positions = {.kind = Positions::kNone},
          .mixer = Mixer::kMamba2,
          .feed_forward = {.gated = false, .activation = Activation::kReluSquared},
      },
      {
          .name = "nemotron_h_moe",
          .define = nemotron_h,
          .positions = {.kind = Positions::kNone},
          .mixer = Mixer::kMamba2,
          .feed_forward = {.gated = false, .activation = Activation::kReluSquared},
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
          .attention = {.gated_heads = true},
          .mixer = Mixer::kShortConv,
      },
      // RWKV-7 (Peng et al., arXiv:2503.14456), xLSTM (Beck et al., arXiv:2405.04517,
      // arXiv:2503.13427).
      {
          .name = "rwkv7",
          .define = rwkv7,
          .positions = {.kind = Positions::kNone},
          .norms = {.kind = Norm::kLayer},
          .mixer = Mixer::kRwkv7,
          .feed_forward = {.activation = Activation::kReluSquared},
          .complete = complete_rwkv7,
      },
      {
          .name = "xlstm",
          .define = xlstm,
          .positions = {.kind = Positions::kNone},
          .mixer = Mixer::kMlstm,
          .complete = complete_xlstm,
      },
      {
          .name = "xlstm-lm",
          .define = xlstm_lm,
          .positions = {.kind = Positions::kNone},
          .norms = {.kind = Norm::kLayer},
          .mixer = Mixer::kXlstmBlocks,
          .complete = complete_xlstm_lm,
      },
      // Encoders: BERT (Devlin et al., arXiv:1810.04805), XLM-R (arXiv:1911.02116), Nomic BERT
      // (arXiv:2402.01613), Jina BERT v2 (arXiv:2310.19923), ModernBERT (arXiv:2412.13663).
      {
          .name = "bert",
          .define = bert,
          .positions = {.kind = Positions::kTable},
          .norms = {.kind = Norm::kLayer},
          .attention = {.mask = Mask::kFull},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
      },
      {
          .name = "xlm-roberta",
          .gguf_name = "bert",
          .define = bert,
          .positions = {.kind = Positions::kTable},
          .norms = {.kind = Norm::kLayer},
          .attention = {.mask = Mask::kFull},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
      },
      {
          .name = "nomic-bert",
          .define = bert,
          .norms = {.kind = Norm::kLayer},
          .attention = {.mask = Mask::kFull},
      },
      {
          .name = "jina-bert-v2",
          .define = bert,
          .positions = {.kind = Positions::kAlibi, .alibi = 8},
          .norms = {.kind = Norm::kLayer},
          .attention = {.mask = Mask::kFull},
          .feed_forward = {.activation = Activation::kGeluErf},
      },
      {
          .name = "modern-bert",
          .define = modern_bert,
          .norms = {.kind = Norm::kLayer},
          .attention = {.mask = Mask::kFull},
          .feed_forward = {.activation = Activation::kGeluErf},
          .gguf_global_period = 3,
          .complete_gguf = complete_modern_bert_gguf,
      },
      // Whisper (Radford et al., arXiv:2212.04356).
      {
          .name = "whisper",
          .define = whisper,
          .encoder = whisper_encoder,
          .positions = {.kind = Positions::kTable},
          .norms = {.kind = Norm::kLayer},
          .feed_forward = {.gated = false, .activation = Activation::kGeluErf},
      },
  };
  return table;
}

TransformerConfig initial_config(const Architecture& row) {
  TransformerConfig c;
  c.architecture = row.name;
  c.positions = row.positions;
  c.norms = row.norms;
  c.attention = row.attention;
  c.feed_forward = row.feed_forward;
  return c;
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
