// weight_rules.cc: for each architecture, the weights that shared layers read only if its row lists
// them.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "model/weights.h"

namespace veery {
namespace {

WeightNames operator+(WeightNames names, const WeightNames& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

std::vector<WeightRules> make_rules() {
  // Attention.
  const WeightNames kQkvBias = {"attn_q.bias", "attn_k.bias", "attn_v.bias"};
  const WeightNames kAttentionBias = kQkvBias + WeightNames{"attn_output.bias"};
  const WeightNames kHeadNorms = {"attn_q_norm", "attn_k_norm"};
  // Feed-forward layers.
  const WeightNames kFfnBias = {"ffn_up.bias", "ffn_down.bias"};
  const WeightNames kGatedBias = kFfnBias + WeightNames{"ffn_gate.bias"};
  const WeightNames kBiases = kAttentionBias + kGatedBias;
  // Mixtures of experts. Layers without a router are dense.
  const WeightNames kRouter = {"ffn_gate_inp"};
  const WeightNames kCorrection = {"exp_probs_b.bias"};
  const WeightNames kShared = {"ffn_up_shexp", "ffn_down_shexp"};
  const WeightNames kGatedShared = kShared + WeightNames{"ffn_gate_inp_shexp"};
  const WeightNames kExpertBias = {"ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"};
  const WeightNames kSharedBias = {"ffn_gate_shexp.bias", "ffn_up_shexp.bias",
                                   "ffn_down_shexp.bias"};
  // Heads.
  const WeightNames kHeadBias = {"output.bias"};
  // Norms.
  const WeightNames kNormBias = {"attn_norm.bias", "ffn_norm.bias", "output_norm.bias"};
  const WeightNames kEmbeddingNorm = {"token_embd_norm"};
  const WeightNames kEmbeddingNormBias = {"token_embd_norm.bias"};
  const WeightNames kPostNormBias = {"attn_output_norm.bias", "layer_output_norm.bias"};
  // Recurrent layers. Mamba: the projection of the input is stored in parts.
  const WeightNames kSteps = {"ssm_dt.bias"};
  const WeightNames kMamba2Bias = {"ssm_conv1d.bias", "ssm_gate.bias", "ssm_xbc.bias",
                                   "ssm_out.bias"};
  const WeightNames kMamba1Bias = {"ssm_conv1d.bias", "ssm_gate.bias", "ssm_value.bias",
                                   "ssm_out.bias"};
  const WeightNames kScanNorm = {"ssm_norm"};
  const WeightNames kDelta = WeightNames{"ssm_alpha.bias", "attn_gate"} + kHeadNorms;
  const WeightNames kMtp = {"nextn.shared_head_norm"};
  const WeightNames kShortConvBias = {"shortconv.in_proj.bias", "shortconv.conv.bias",
                                      "shortconv.out_proj.bias"};
  const WeightNames kMlstmGates = {"mlstm_igate.bias", "mlstm_fgate.bias"};
  // Multi-head latent attention.
  const WeightNames kLatentBias = {"attn_q_a.bias", "attn_kv_a_mqa.bias", "attn_output.bias"};

  return {
      // Llama and models that differ only in parts.
      {"llama", kRouter, kBiases + kShared},
      {"mistral", kRouter, kBiases},
      {"mistral3", kRouter, kBiases},
      {"chatglm", {}, kBiases},
      {"exaone", {}, kBiases},
      {"internlm2", {}, kBiases},
      {"minicpm", kRouter, kBiases},
      {"helium", {}, kBiases},
      {"smollm3", {}, kBiases},
      {"granite", {}, kBiases},
      {"granitemoe", kRouter, kBiases + kShared},
      {"granite_swa", kRouter, kBiases + kShared + WeightNames{"attn_sinks"}},
      {"seed_oss", {}, kBiases},
      {"olmo", {}, kAttentionBias},
      {"arcee", {}, kAttentionBias + kFfnBias},
      {"bitnet", {"attn_sub_norm", "ffn_sub_norm"}},
      {"bitnet-b1.58", {"attn_sub_norm", "ffn_sub_norm"}},
      {"hunyuan-dense", kHeadNorms, kAttentionBias},
      {"hunyuan-moe", kHeadNorms + kRouter + kShared, kAttentionBias},
      {"ernie4_5", {}, kBiases},
      {"ernie4_5-moe", {}, kBiases + kShared + kCorrection + kExpertBias + kSharedBias, kRouter},
      {"llama4", kShared, kAttentionBias, kRouter},
      // Qwen and models with its layers.
      {"qwen2", {}, kHeadBias, {}, kQkvBias},
      {"qwen2vl", kQkvBias, kHeadBias},
      {"qwen2moe", kQkvBias + kGatedShared, {}, kRouter},
      {"qwen3", kHeadNorms},
      {"qwen3vl", kHeadNorms},
      {"qwen3moe", kHeadNorms, {}, kRouter},
      {"qwen3vlmoe", kHeadNorms, {}, kRouter},
      {"qwen3next", kDelta + kGatedShared, kMtp, kRouter},
      {"qwen35", kDelta, kMtp},
      {"qwen35moe", kDelta + kGatedShared, kMtp, kRouter},
      {"minimax-m2", kHeadNorms + kRouter + kCorrection},
      {"dots1", kHeadNorms + kShared, kAttentionBias + kCorrection, kRouter},
      {"bailingmoe2", kHeadNorms + kShared, kAttentionBias + kCorrection, kRouter},
      {"glm4moe", kShared, kHeadNorms + kAttentionBias + kCorrection, kRouter},
      {"exaone-moe", kHeadNorms + kShared, kCorrection, kRouter},
      {"gpt-oss",
       kAttentionBias + kRouter + kExpertBias + WeightNames{"attn_sinks", "ffn_gate_inp.bias"}},
      // Multi-head latent attention.
      {"deepseek2", kShared, kLatentBias + kCorrection, kRouter},
      {"deepseek32", kShared, kLatentBias + kCorrection, kRouter},
      {"glm-dsa", kShared, kLatentBias + kCorrection, kRouter},
      {"mistral4", kShared, kLatentBias + kCorrection, kRouter},
      {"kimi-linear", kShared + WeightNames{"ssm_f_b.bias"},
       kCorrection + WeightNames{"ssm_g_b.bias"}, kRouter},
      // Norms before and after each part.
      {"gemma", {}, kAttentionBias},
      {"gemma2", {}, kAttentionBias},
      {"gemma3", kHeadNorms, kAttentionBias},
      {"gemma-embedding", kHeadNorms, kAttentionBias},
      {"gemma4"},
      {"embedding-gemma2"},
      {"glm4", {}, kAttentionBias},
      {"olmo2", kHeadNorms, kAttentionBias},
      {"olmoe", kHeadNorms + kRouter, kAttentionBias},
      {"exaone4", kHeadNorms},
      {"afmoe", kHeadNorms + kShared + WeightNames{"attn_gate"}, kCorrection, kRouter},
      // Layer norms.
      {"command-r", {}, kHeadNorms + kAttentionBias},
      {"cohere2", {}, kAttentionBias},
      {"cohere2moe", {}, kAttentionBias + kShared + kCorrection, kRouter},
      {"phi3"},
      {"phimoe", kNormBias + kRouter, kAttentionBias + kHeadBias},
      {"stablelm", kNormBias, kHeadNorms + kQkvBias},
      {"nemotron", kNormBias, kAttentionBias + kFfnBias},
      {"apertus", kHeadNorms, kAttentionBias + kFfnBias},
      {"gpt2", kNormBias + kAttentionBias + kFfnBias},
      {"gptneox", kNormBias + kAttentionBias + kFfnBias},
      {"gptj", kNormBias + kFfnBias + kHeadBias},
      {"phi2", kNormBias + kAttentionBias + kFfnBias + kHeadBias,
       kHeadNorms + WeightNames{"attn_q_norm.bias", "attn_k_norm.bias"}},
      {"starcoder2", kNormBias, kAttentionBias + kFfnBias},
      {"opt", {}, kNormBias + kAttentionBias + kFfnBias},
      {"falcon", kNormBias + WeightNames{"attn_norm_2.bias"},
       WeightNames{"attn_norm_2"} + kAttentionBias + kFfnBias},
      {"bloom", kEmbeddingNorm + kEmbeddingNormBias + kNormBias + kAttentionBias + kFfnBias},
      {"mpt", {}, kNormBias + kAttentionBias + kFfnBias},
      {"whisper",
       kNormBias + kFfnBias +
           WeightNames{"attn_q.bias", "attn_v.bias", "attn_output.bias", "cross_attn_norm.bias",
                       "cross_attn_q.bias", "cross_attn_v.bias", "cross_attn_output.bias",
                       "enc.conv1.bias", "enc.conv2.bias", "enc.output_norm.bias"}},
      // Recurrent layers.
      {"mamba2", kSteps + kScanNorm, kMamba2Bias},
      {"bamba", kSteps + kScanNorm + kRouter, kBiases + kMamba2Bias + kShared},
      {"granitehybrid", kSteps + kScanNorm + kRouter, kBiases + kMamba2Bias + kShared},
      {"nemotron_h", kSteps + kScanNorm + kShared,
       kAttentionBias + kFfnBias + kMamba2Bias + kCorrection, kRouter},
      {"nemotron_h_moe", kSteps + kScanNorm + kShared,
       kAttentionBias + kFfnBias + kMamba2Bias + kCorrection, kRouter},
      {"falcon-h1", kSteps, kBiases + kMamba2Bias + kScanNorm},
      {"jamba", kSteps, kMamba1Bias, kRouter},
      {"lfm2", kHeadNorms, kShortConvBias},
      {"lfm2moe", kHeadNorms, kShortConvBias + kCorrection, kRouter},
      {"lfm3", kHeadNorms + WeightNames{"attn_gate"}, kShortConvBias},
      {"xlstm", kMlstmGates,
       kNormBias + kGatedBias +
           WeightNames{"mlstm_q.bias", "mlstm_k.bias", "mlstm_v.bias", "mlstm_ogate.bias",
                       "mlstm_out.bias", "mlstm_norm.bias"}},
      {"xlstm-lm", kMlstmGates,
       kNormBias + kGatedBias + WeightNames{"cell_conv1d.bias", "mlstm_up.bias", "mlstm_out.bias"}},
      {"rwkv7",
       kEmbeddingNorm + WeightNames{"time_mix_w2.bias", "time_mix_a2.bias", "time_mix_v2.bias"},
       kNormBias + kEmbeddingNormBias},
      // Encoders.
      {"bert", kEmbeddingNorm + kEmbeddingNormBias + kPostNormBias + kAttentionBias + kFfnBias},
      {"xlm-roberta",
       kEmbeddingNorm + kEmbeddingNormBias + kPostNormBias + kAttentionBias + kFfnBias},
      {"nomic-bert", kEmbeddingNorm + kEmbeddingNormBias + kPostNormBias, kBiases},
      {"jina-bert-v2", kEmbeddingNorm + kEmbeddingNormBias + kPostNormBias + kAttentionBias,
       kGatedBias},
      {"modern-bert", kEmbeddingNorm + WeightNames{"output_norm"},
       kEmbeddingNormBias + kNormBias + kBiases},
  };
}

}  // namespace

const WeightRules& weight_rules(std::string_view architecture) {
  static const std::vector<WeightRules> rules = make_rules();
  const auto found = std::ranges::find(rules, architecture, &WeightRules::architecture);
  VEERY_CHECK(found != rules.end());
  return *found;
}

}  // namespace veery
