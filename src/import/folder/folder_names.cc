#include "import/folder/folder_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "import/folder/whisper_names.h"

namespace veery {
namespace {

// Families that name alike.
enum Style : unsigned {
  kLlama = 1,
  kPhi = 2,
  kGpt2 = 4,
  kNeox = 8,
  kStarcoder = 16,
  kLlama4 = 32,
  kExaone = 64,
  kHunyuan = 128,
  kIntern = 256,
  kApertus = 512,
  kGptj = 1024,
  kReadOnly = 2048  // no folders are written in it
};

struct NameRow {
  std::string_view theirs, ours;
};
// `styles`: who writes the name, the first of several; all of them are read.
struct StyledRow {
  std::string_view theirs, ours;
  unsigned styles;
};
constexpr StyledRow kTop[] = {
    {"embed_tokens", "token_embd", kLlama | kPhi | kStarcoder},
    {"norm", "output_norm", kLlama | kStarcoder},
    {"lm_head", "output", kLlama | kPhi | kStarcoder | kGpt2 | kExaone | kGptj},
    {"wte", "token_embd", kGpt2 | kExaone | kGptj},
    {"wpe", "position_embd", kGpt2},
    {"ln_f", "output_norm", kGpt2 | kExaone | kGptj},
    {"embed_positions", "position_embd", kReadOnly},
    {"word_embeddings", "token_embd", kReadOnly},
    {"word_embeddings_layernorm", "token_embd_norm", kReadOnly},
    {"norm_f", "output_norm", kReadOnly},
    {"embed_in", "token_embd", kNeox},
    {"final_layer_norm", "output_norm", kNeox},
    {"embed_out", "output", kNeox},
    {"final_layernorm", "output_norm", kPhi},
    {"embed_tokens_per_layer", "per_layer_token_embd", kLlama},
    {"per_layer_model_projection", "per_layer_model_proj", kLlama},
    {"per_layer_projection_norm", "per_layer_proj_norm", kLlama},
    {"tok_embeddings", "token_embd", kIntern},
    {"embeddings.word_embeddings", "token_embd", kReadOnly},
    {"embeddings.tok_embeddings", "token_embd", kReadOnly},
    {"embeddings.position_embeddings", "position_embd", kReadOnly},
    {"embeddings.token_type_embeddings", "token_types", kReadOnly},
    {"embeddings.LayerNorm", "token_embd_norm", kReadOnly},
    {"embeddings.norm", "token_embd_norm", kReadOnly},
    {"emb_ln", "token_embd_norm", kReadOnly},
    {"final_norm", "output_norm", kReadOnly},
    {"embeddings", "token_embd", kReadOnly},
    {"embedding_norm", "output_norm", kReadOnly},
    {"out_norm", "output_norm", kReadOnly},
    {"pooler.dense", "cls", kReadOnly},
    {"classifier", "cls.output", kReadOnly},
    {"classifier.dense", "cls", kReadOnly},
    {"classifier.out_proj", "cls.output", kReadOnly},
    {"head.dense", "cls", kReadOnly},
    {"head.norm", "cls.norm", kReadOnly},
    {"output", "output", kIntern}};
constexpr StyledRow kLayer[] = {
    {"self_attn.query_layernorm", "attn_q_norm", kHunyuan},
    {"self_attn.key_layernorm", "attn_k_norm", kHunyuan},
    {"attention_layernorm", "attn_norm", kApertus},
    {"feedforward_layernorm", "ffn_norm", kApertus},
    {"input_layernorm", "attn_norm", kLlama | kPhi | kStarcoder | kNeox},
    {"self_attn.q_proj", "attn_q", kLlama | kPhi | kStarcoder},
    {"self_attn.k_proj", "attn_k", kLlama | kPhi | kStarcoder},
    {"self_attn.v_proj", "attn_v", kLlama | kPhi | kStarcoder},
    {"self_attn.o_proj", "attn_output", kLlama | kStarcoder},
    {"self_attn.q_norm", "attn_q_norm", kLlama},
    {"self_attn.k_norm", "attn_k_norm", kLlama},
    {"self_attn.sinks", "attn_sinks", kLlama},
    {"self_attn.attn_sub_norm", "attn_sub_norm", kLlama},
    {"mlp.ffn_sub_norm", "ffn_sub_norm", kLlama},
    {"mlp.act_fn.alpha_p", "xielu_alpha_p", kApertus},
    {"mlp.act_fn.alpha_n", "xielu_alpha_n", kApertus},
    {"mlp.act_fn.beta", "xielu_beta", kApertus},
    {"mlp.act_fn.eps", "xielu_eps", kApertus},
    {"self_attn.q_a_proj", "attn_q_a", kLlama},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", kLlama},
    {"self_attn.q_b_proj", "attn_q_b", kLlama},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", kLlama},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", kLlama},
    {"self_attn.kv_b_proj", "attn_kv_b", kLlama},
    {"self_attn.embed_q", "attn_k_b", kLlama},
    {"self_attn.unembed_out", "attn_v_b", kLlama},
    {"self_attn.qkv_proj", "attn_qkv", kLlama},
    {"post_self_attn_layernorm", "post_attention_norm", kLlama},
    {"post_mlp_layernorm", "post_ffw_norm", kLlama},
    {"per_layer_input_gate", "inp_gate", kLlama},
    {"per_layer_projection", "proj", kLlama},
    {"post_per_layer_input_norm", "post_norm", kLlama},
    {"layer_scalar", "layer_output_scale", kLlama},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", kLlama},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", kLlama},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", kLlama},
    {"router.proj", "ffn_gate_inp", kReadOnly},
    {"experts.gate_up_proj", "ffn_gate_up_exps", kReadOnly},
    {"experts.down_proj", "ffn_down_exps", kReadOnly},
    {"experts.switch_glu.gate_proj", "ffn_gate_exps", kReadOnly},
    {"experts.switch_glu.up_proj", "ffn_up_exps", kReadOnly},
    {"experts.switch_glu.down_proj", "ffn_down_exps", kReadOnly},
    {"shared_mlp.input_linear", "ffn_gate_up_shexp", kLlama},
    {"shared_mlp.output_linear", "ffn_down_shexp", kLlama},
    {"feed_forward.gate_proj", "ffn_gate", kLlama4},
    {"feed_forward.up_proj", "ffn_up", kLlama4},
    {"feed_forward.down_proj", "ffn_down", kLlama4},
    {"mlp.gate_proj", "ffn_gate", kLlama},
    {"mlp.up_proj", "ffn_up", kLlama},
    {"mlp.down_proj", "ffn_down", kLlama},
    {"mlp.gate_up_proj", "ffn_gate_up", kLlama},
    {"ln_1", "attn_norm", kGpt2 | kExaone | kGptj},
    {"ln_2", "ffn_norm", kGpt2 | kExaone},
    {"attn.c_attn", "attn_qkv", kGpt2},
    {"attn.c_proj", "attn_output", kGpt2},
    {"mlp.c_fc", "ffn_up", kGpt2 | kStarcoder},
    {"mlp.c_proj", "ffn_down", kGpt2 | kStarcoder | kExaone},
    {"attn.attention.q_proj", "attn_q", kExaone},
    {"attn.attention.k_proj", "attn_k", kExaone},
    {"attn.attention.v_proj", "attn_v", kExaone},
    {"attn.attention.out_proj", "attn_output", kExaone},
    {"mlp.c_fc_0", "ffn_gate", kExaone},
    {"mlp.c_fc_1", "ffn_up", kExaone},
    {"attention_norm", "attn_norm", kIntern},
    {"attention.wqkv", "attn_qkv", kIntern},
    {"attention.wo", "attn_output", kIntern},
    {"ffn_norm", "ffn_norm", kIntern},
    {"feed_forward.w1", "ffn_gate", kIntern},
    {"feed_forward.w3", "ffn_up", kIntern},
    {"feed_forward.w2", "ffn_down", kIntern},
    {"attention.query_key_value", "attn_qkv", kNeox},
    {"attention.dense", "attn_output", kNeox},
    {"self_attn.dense", "attn_output", kPhi},
    {"attn.q_proj", "attn_q", kGptj},
    {"attn.k_proj", "attn_k", kGptj},
    {"attn.v_proj", "attn_v", kGptj},
    {"attn.out_proj", "attn_output", kGptj},
    {"mlp.fc_in", "ffn_up", kGptj},
    {"mlp.fc_out", "ffn_down", kGptj},
    {"self_attn_layer_norm", "attn_norm", kReadOnly},
    {"final_layer_norm", "ffn_norm", kReadOnly},
    {"self_attn.out_proj", "attn_output", kReadOnly},
    {"fc1", "ffn_up", kReadOnly},
    {"fc2", "ffn_down", kReadOnly},
    {"attention.self.query", "attn_q", kReadOnly},
    {"attention.self.key", "attn_k", kReadOnly},
    {"attention.self.value", "attn_v", kReadOnly},
    {"attention.output.dense", "attn_output", kReadOnly},
    {"attention.output.LayerNorm", "attn_output_norm", kReadOnly},
    {"intermediate.dense", "ffn_up", kReadOnly},
    {"output.dense", "ffn_down", kReadOnly},
    {"output.LayerNorm", "layer_output_norm", kReadOnly},
    {"norm1", "attn_output_norm", kReadOnly},
    {"norm2", "layer_output_norm", kReadOnly},
    {"mlp.fc11", "ffn_up", kReadOnly},
    {"mlp.fc12", "ffn_gate", kReadOnly},
    {"attn_norm", "attn_norm", kReadOnly},
    {"attn.Wo", "attn_output", kReadOnly},
    {"mlp_norm", "ffn_norm", kReadOnly},
    {"mlp.Wi", "ffn_gate_up", kReadOnly},
    {"mlp.Wo", "ffn_down", kReadOnly},
    {"ln_mlp", "attn_norm", kReadOnly},
    {"ln_attn", "attn_norm_2", kReadOnly},
    {"self_attention.query_key_value", "attn_qkv", kReadOnly},
    {"self_attention.dense", "attn_output", kReadOnly},
    {"norm_1", "attn_norm", kReadOnly},
    {"norm_2", "ffn_norm", kReadOnly},
    {"attn.Wqkv", "attn_qkv", kReadOnly},
    {"ffn.up_proj", "ffn_up", kReadOnly},
    {"ffn.down_proj", "ffn_down", kReadOnly},
    {"mlp.dense_h_to_4h", "ffn_up", kNeox},
    {"mlp.dense_4h_to_h", "ffn_down", kNeox},
    {"mlp.fc1", "ffn_up", kPhi},
    {"mlp.fc2", "ffn_down", kPhi},
    {"norm", "attn_norm", kReadOnly},
    {"mamba.in_proj", "ssm_in", kReadOnly},
    {"mamba.conv1d", "ssm_conv1d", kReadOnly},
    {"mamba.dt", "ssm_dt_bias", kReadOnly},
    {"mamba.A_log", "ssm_a", kReadOnly},
    {"mamba.D", "ssm_d", kReadOnly},
    {"mamba.norm", "ssm_norm", kReadOnly},
    {"mamba.out_proj", "ssm_out", kReadOnly},
    {"mixer.in_proj", "ssm_in", kReadOnly},
    {"mixer.conv1d", "ssm_conv1d", kReadOnly},
    {"mixer.dt", "ssm_dt_bias", kReadOnly},
    {"mixer.A_log", "ssm_a", kReadOnly},
    {"mixer.D", "ssm_d", kReadOnly},
    {"mixer.norm", "ssm_norm", kReadOnly},
    {"mixer.out_proj", "ssm_out", kReadOnly},
    {"operator_norm", "attn_norm", kReadOnly},
    {"pre_ff_layernorm", "ffn_norm", kReadOnly},
    {"self_attn.q_conv1d", "ssm_conv1d_q", kReadOnly},
    {"self_attn.k_conv1d", "ssm_conv1d_k", kReadOnly},
    {"self_attn.v_conv1d", "ssm_conv1d_v", kReadOnly},
    {"self_attn.f_a_proj", "ssm_f_a", kReadOnly},
    {"self_attn.f_b_proj", "ssm_f_b", kReadOnly},
    {"self_attn.g_a_proj", "ssm_g_a", kReadOnly},
    {"self_attn.g_b_proj", "ssm_g_b", kReadOnly},
    {"self_attn.b_proj", "ssm_beta", kReadOnly},
    {"self_attn.A_log", "ssm_a", kReadOnly},
    {"self_attn.o_norm", "ssm_norm", kReadOnly},
    {"norm_mlstm", "attn_norm", kReadOnly},
    {"norm_ffn", "ffn_norm", kReadOnly},
    {"ffn.proj_up_gate", "ffn_gate", kReadOnly},
    {"ffn.proj_up", "ffn_up", kReadOnly},
    {"ffn.proj_down", "ffn_down", kReadOnly},
    {"ffn.proj_up_gate_z", "ffn_gate_up", kReadOnly},
    {"mlstm_layer.q", "mlstm_q", kReadOnly},
    {"mlstm_layer.k", "mlstm_k", kReadOnly},
    {"mlstm_layer.v", "mlstm_v", kReadOnly},
    {"mlstm_layer.ogate_preact", "mlstm_ogate", kReadOnly},
    {"mlstm_layer.igate_preact", "mlstm_igate", kReadOnly},
    {"mlstm_layer.fgate_preact", "mlstm_fgate", kReadOnly},
    {"mlstm_layer.qkv_opreact", "mlstm_qkvo", kReadOnly},
    {"mlstm_layer.ifgate_preact", "mlstm_gates", kReadOnly},
    {"mlstm_layer.multihead_norm", "mlstm_norm", kReadOnly},
    {"mlstm_layer.out_proj", "mlstm_out", kReadOnly},
    {"conv.in_proj", "shortconv.in_proj", kReadOnly},
    {"conv.conv", "shortconv.conv", kReadOnly},
    {"conv.out_proj", "shortconv.out_proj", kReadOnly},
    {"linear_attn.in_proj_qkvz", "ssm_in", kLlama},
    {"linear_attn.in_proj_ba", "ssm_ba", kLlama},
    {"linear_attn.in_proj_qkv", "ssm_qkv", kLlama},
    {"linear_attn.in_proj_z", "ssm_gate", kLlama},
    {"linear_attn.in_proj_a", "ssm_alpha", kLlama},
    {"linear_attn.in_proj_b", "ssm_beta", kLlama},
    {"linear_attn.dt", "ssm_alpha", kReadOnly},
    {"linear_attn.A_log", "ssm_a", kLlama},
    {"linear_attn.conv1d", "ssm_conv1d", kLlama},
    {"linear_attn.norm", "ssm_norm", kLlama},
    {"linear_attn.out_proj", "ssm_out", kLlama},
    {"self_attn.q_layernorm", "attn_q_norm", kPhi},
    {"self_attn.k_layernorm", "attn_k_norm", kPhi}};
// Mixtures of experts: what the part of a layer is called, and what is in it.
constexpr std::string_view kMixtures[] = {"mlp.", "block_sparse_moe.", "feed_forward."};
constexpr NameRow kMixture[] = {{"gate", "ffn_gate_inp"},
                                {"gate.wg", "ffn_gate_inp"},
                                {"shared_mlp.gate_proj", "ffn_gate_shexp"},
                                {"shared_mlp.up_proj", "ffn_up_shexp"},
                                {"shared_mlp.down_proj", "ffn_down_shexp"},
                                {"router", "ffn_gate_inp"},
                                {"router.layer", "ffn_gate_inp"},
                                {"gate_proj", "ffn_gate"},
                                {"up_proj", "ffn_up"},
                                {"down_proj", "ffn_down"},
                                {"shared_expert.gate_proj", "ffn_gate_shexp"},
                                {"shared_expert.up_proj", "ffn_up_shexp"},
                                {"shared_expert.down_proj", "ffn_down_shexp"},
                                {"shared_experts.gate_proj", "ffn_gate_shexp"},
                                {"shared_experts.up_proj", "ffn_up_shexp"},
                                {"shared_experts.down_proj", "ffn_down_shexp"},
                                {"shared_expert_gate", "ffn_gate_inp_shexp"},
                                {"switch_mlp.gate_proj", "ffn_gate_exps"},
                                {"switch_mlp.up_proj", "ffn_up_exps"},
                                {"switch_mlp.down_proj", "ffn_down_exps"},
                                {"experts.gate_proj", "ffn_gate_exps"},
                                {"experts.up_proj", "ffn_up_exps"},
                                {"experts.down_proj", "ffn_down_exps"},
                                {"experts.gate_up_proj", "ffn_gate_up_exps"},
                                {"input_linear", "ffn_gate_up_exps"},
                                {"output_linear", "ffn_down_exps"}};
// Of one expert: "experts.3.w1".
constexpr NameRow kExpert[] = {{"w1", "ffn_gate"},    {"w3", "ffn_up"},
                               {"w2", "ffn_down"},    {"gate_proj", "ffn_gate"},
                               {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};
// Ends of names that say neither weight nor bias.
// `mlx`: written by MLX too.
struct EndRow {
  std::string_view theirs, ours;
  bool mlx;
};
constexpr EndRow kEnds[] = {{"LayerNorm.gamma", "LayerNorm.weight", false},
                            {"LayerNorm.beta", "LayerNorm.bias", false},
                            {"experts.gate_up_proj", "experts.gate_up_proj.weight", false},
                            {"experts.down_proj", "experts.down_proj.weight", false},
                            {"experts.gate_up_proj_bias", "experts.gate_up_proj.bias", false},
                            {"experts.down_proj_bias", "experts.down_proj.bias", false},
                            {"gate.e_score_correction_bias", "exp_probs_b.bias", true},
                            {"moe_statics.e_score_correction_bias", "exp_probs_b.bias", true},
                            {"linear_attn.A_log", "linear_attn.A_log.weight", true},
                            {"linear_attn.dt_bias", "linear_attn.dt.bias", true},
                            {"mixer.A_log", "mixer.A_log.weight", true},
                            {"mamba.A_log", "mamba.A_log.weight", true},
                            {"mamba.D", "mamba.D.weight", true},
                            {"mamba.dt_bias", "mamba.dt.bias", true},
                            {"self_attn.A_log", "self_attn.A_log.weight", true},
                            {"self_attn.dt_bias", "self_attn.f_b_proj.bias", true},
                            {"mixer.D", "mixer.D.weight", true},
                            {"mixer.dt_bias", "mixer.dt.bias", true},
                            {"feed_forward.expert_bias", "feed_forward.exp_probs_b.bias", true},
                            {"self_attn.sinks", "self_attn.sinks.weight", true},
                            {"layer_scalar", "layer_scalar.weight", true},
                            {"router.scale", "router.proj.scale", true},
                            {"router.per_expert_scale", "experts.down_proj.scale", false},
                            {"router.per_expert_scale", "experts.switch_glu.down_proj.scale", true},
                            {"act_fn.alpha_p", "act_fn.alpha_p.weight", true},
                            {"act_fn.alpha_n", "act_fn.alpha_n.weight", true},
                            {"act_fn.beta", "act_fn.beta.weight", true},
                            {"act_fn.eps", "act_fn.eps.weight", true}};
// The second norm of a layer without norms behind its parts, and the norms of one with them.
constexpr NameRow kPlainNorms[] = {{"post_attention_layernorm", "ffn_norm"}};
constexpr NameRow kSandwichNorms[] = {{"post_attention_layernorm", "post_attention_norm"},
                                      {"pre_feedforward_layernorm", "ffn_norm"},
                                      {"post_feedforward_layernorm", "post_ffw_norm"}};

// What the text part is called in models that have other parts too; longer ones first.
constexpr std::string_view kPrefixes[] = {"language_model.model.",
                                          "model.language_model.",
                                          "model.text_model.",
                                          "language_model.",
                                          "model.decoder.",
                                          "backbone.",
                                          "model.",
                                          "transformer.",
                                          "gpt_neox.",
                                          "bert.encoder.",
                                          "roberta.encoder.",
                                          "bert.",
                                          "roberta.",
                                          "encoder."};
// What the list of layers is called.
constexpr std::string_view kLayerLists[] = {"layers.", "layer.", "h.", "blocks."};

// What lies beside weights and is no weight of a layer.
constexpr std::string_view kNoWeights[] = {"position_ids", "rotary_emb.inv_freq", "_scale",
                                           "_scale_inv",   "_zero_point",         "masked_bias",
                                           ".attn.bias",   ".attention.bias"};

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

// The prefix of a tensor of a layer; empty if it is none.
std::string_view layer_list(std::string_view name) {
  for (const std::string_view list : kLayerLists)
    if (name.starts_with(list)) return list;
  return {};
}

template <typename Table>
std::string_view look_up(const Table& table, std::string_view name) {
  for (const auto& row : table)
    if (row.theirs == name) return row.ours;
  return {};
}

// What a family calls it.
std::string_view look_up_ours(std::span<const StyledRow> table, unsigned style,
                              std::string_view ours) {
  for (const StyledRow& row : table)
    if (row.ours == ours && (row.styles & style) != 0) return row.theirs;
  return {};
}

std::span<const NameRow> norms_of(std::string_view architecture) {
  constexpr std::string_view kBehind[] = {"gemma2", "gemma3", "gemma4", "olmo2", "exaone4"};
  if (std::ranges::find(kBehind, architecture) != std::end(kBehind)) return kSandwichNorms;
  return kPlainNorms;
}

std::string_view layer_part(std::string_view architecture, std::string_view part) {
  const std::string_view norm = look_up(norms_of(architecture), part);
  return norm.empty() ? look_up(kLayer, part) : norm;
}

// The name of a part of a mixture, "mlp.experts.3.gate_proj": "ffn_gate.3". Empty if it is none.
std::string mixture_part(std::string_view part) {
  const auto mixture = std::ranges::find_if(
      kMixtures, [&](std::string_view prefix) { return part.starts_with(prefix); });
  if (mixture == std::end(kMixtures)) return {};
  part.remove_prefix(mixture->size());
  if (part == "exp_probs_b") return std::string(part);
  if (const std::string_view ours = look_up(kMixture, part); !ours.empty())
    return std::string(ours);
  constexpr std::string_view kExperts = "experts.";
  const size_t dot = part.rfind('.');
  if (!part.starts_with(kExperts) || dot < kExperts.size()) return {};
  const std::string_view ours = look_up(kExpert, part.substr(dot + 1));
  const std::string_view number = part.substr(kExperts.size(), dot - kExperts.size());
  const bool digits =
      !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return ours.empty() || !digits ? std::string() : fmt::format("{}.{}", ours, number);
}

// Norms that are kept head by head: "self_attn.q_layernorm.norms.3" is "attn_q_norm.3".
constexpr NameRow kHeadNorms[] = {{"self_attn.q_layernorm.norms.", "attn_q_norm."},
                                  {"self_attn.k_layernorm.norms.", "attn_k_norm."}};

std::string head_norm_part(std::string_view part) {
  for (const NameRow& row : kHeadNorms)
    if (part.starts_with(row.theirs))
      return fmt::format("{}{}", row.ours, part.substr(row.theirs.size()));
  return {};
}

std::string head_norm_name(std::string_view ours) {
  for (const NameRow& row : kHeadNorms)
    if (ours.starts_with(row.ours))
      return fmt::format("{}{}", row.theirs, ours.substr(row.ours.size()));
  return {};
}

// Who writes in another style than llama's.
struct StyleRow {
  std::string_view type;
  unsigned styles;
};
constexpr StyleRow kStyles[] = {{"phi", kPhi},
                                {"gpt2", kGpt2},
                                {"gpt_neox", kNeox},
                                {"starcoder2", kStarcoder},
                                {"llama4_text", kLlama4 | kLlama},
                                {"exaone", kExaone},
                                {"hunyuan_v1_dense", kHunyuan | kLlama},
                                {"hunyuan_v1_moe", kHunyuan | kLlama},
                                {"apertus", kApertus | kLlama},
                                {"gptj", kGptj}};

unsigned style_of(const FolderType& type) {
  const auto row = std::ranges::find(kStyles, type.type, &StyleRow::type);
  return row == std::end(kStyles) ? kLlama : row->styles;
}

// What stands before names: of tensors of the model, of its head, and what its layers are called.
struct Places {
  std::string_view model, head, layers;
};
Places places_of(unsigned style, FolderKind kind) {
  const bool mlx = kind == FolderKind::kMlx;
  if ((style & kLlama4) != 0 && mlx) return {"language_model.model.", "language_model.", "layers."};
  if (style == kGpt2) return {mlx ? "model." : "transformer.", "", "h."};
  if (style == kExaone || style == kGptj) return {"transformer.", "", "h."};
  if (style != kNeox) return {"model.", "", "layers."};
  return mlx ? Places{"model.", "model.", "h."} : Places{"gpt_neox.", "", "layers."};
}

constexpr std::array<std::string_view, 3> kProjections = {"gate_proj", "up_proj", "down_proj"};
constexpr ExpertForm kApart = ExpertForm::kApart, kLinear = ExpertForm::kLinear;
constexpr MixtureNames kMixtureNames[] = {
    {"mixtral", "block_sparse_moe.", "gate", {"w1", "w3", "w2"}, kApart, "", "switch_mlp."},
    {"qwen2_moe", "mlp.", "gate", kProjections, kApart, "shared_expert.", "switch_mlp."},
    {"qwen3_moe", "mlp.", "gate", kProjections, kApart, "", "switch_mlp."},
    {"olmoe", "mlp.", "gate", kProjections, kApart, "", "switch_mlp."},
    {"phimoe", "block_sparse_moe.", "gate", {"w1", "w3", "w2"}, kApart, "", "switch_mlp."},
    {"hunyuan_v1_moe", "mlp.", "gate.wg", kProjections, kApart, "shared_mlp.", "switch_mlp."},
    {"dots1", "mlp.", "gate", kProjections, kApart, "shared_experts.", "experts."},
    {"glm4_moe", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"deepseek_v2", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"deepseek_v3", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"kimi_k2", "mlp.", "gate", kProjections, kApart, "shared_experts.", "switch_mlp."},
    {"gpt_oss", "mlp.", "router", kProjections, ExpertForm::kAlternating, "", "experts."},
    {"llama4_text", "feed_forward.", "router", kProjections, ExpertForm::kTransposed,
     "shared_expert.", "experts."},
    {"gemma4_text", "", "router.proj", kProjections, ExpertForm::kJoint, "", "experts.switch_glu."},
    {"granitemoe", "block_sparse_moe.", "router.layer", kProjections, kLinear, "", "switch_mlp."},
    {"granitemoeshared", "block_sparse_moe.", "router.layer", kProjections, kLinear, "",
     "switch_mlp."},
    {"granitemoehybrid", "block_sparse_moe.", "router.layer", kProjections, kLinear, "",
     "switch_mlp."}};

// "ffn_gate.3" -> "mlp.experts.3.gate_proj". Empty if it is no part of a mixture.
std::string mixture_name(const MixtureNames& names, FolderKind kind, std::string_view ours) {
  constexpr std::string_view kOurs[] = {"ffn_gate", "ffn_up", "ffn_down"};
  const bool linear = names.form == ExpertForm::kLinear && kind == FolderKind::kHuggingFace;
  if (ours == "ffn_gate_inp") return fmt::format("{}{}", names.prefix, names.router);
  if (ours == "ffn_gate_up_exps")
    return fmt::format("{}{}", names.prefix, linear ? "input_linear" : "experts.gate_up_proj");
  if (ours == "ffn_down_exps" && linear) return fmt::format("{}output_linear", names.prefix);
  if (ours == "ffn_down_exps" && names.form == ExpertForm::kJoint &&
      kind == FolderKind::kHuggingFace)
    return fmt::format("{}experts.down_proj", names.prefix);
  for (size_t i = 0; i < std::size(kOurs); ++i) {
    if (!ours.starts_with(kOurs[i])) continue;
    const std::string_view rest = ours.substr(kOurs[i].size());
    if (rest == "_shexp" && !names.shared.empty())
      return fmt::format("{}{}{}", names.prefix, names.shared, kProjections[i]);
    if (rest == "_exps")
      return fmt::format("{}{}{}", names.prefix, names.mlx_stack, kProjections[i]);
    if (rest.starts_with('.'))
      return fmt::format("{}experts{}.{}", names.prefix, rest, names.experts[i]);
  }
  if (ours == "ffn_gate_inp_shexp") return fmt::format("{}shared_expert_gate", names.prefix);
  if (ours == "exp_probs_b") return fmt::format("{}exp_probs_b", names.prefix);
  return {};
}

std::string layer_name(const FolderType& type, unsigned style, FolderKind kind,
                       std::string_view ours) {
  const MixtureNames* mixture = mixture_names(type);
  if (mixture != nullptr)
    if (std::string name = mixture_name(*mixture, kind, ours); !name.empty()) return name;
  if (ours.starts_with("attn_") && ours.find("_norm.") != std::string_view::npos)
    return head_norm_name(ours);
  if (style != kGpt2 && style != kExaone && (style & kApertus) == 0)
    for (const NameRow& row : norms_of(type.architecture))
      if (row.ours == ours) return std::string(row.theirs);
  return std::string(look_up_ours(kLayer, style, ours));
}

}  // namespace

std::string our_name(std::string_view architecture, std::string_view full_name) {
  if (architecture == "whisper") return whisper_name(full_name);
  std::string with_end(without_prefix(full_name));
  for (const auto& [theirs, ours, mlx] : kEnds)
    if (with_end.ends_with(theirs))
      with_end.replace(with_end.size() - theirs.size(), theirs.size(), ours);
  std::string_view name = with_end;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view kind = name.substr(dot);
  const bool scales =
      name.ends_with("router.proj.scale") || name.ends_with("experts.down_proj.scale");
  if (kind != ".weight" && kind != ".bias" && !scales) return {};
  name = name.substr(0, dot);
  const std::string_view list = layer_list(name);
  if (list.empty()) {
    const std::string_view ours = look_up(kTop, name);
    return ours.empty() ? std::string() : fmt::format("{}{}", ours, kind);
  }
  name.remove_prefix(list.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<size_t>(end - name.data());
  if (error != std::errc() || digits >= name.size() || name[digits] != '.') return {};
  const std::string_view part = name.substr(digits + 1);
  std::string ours(layer_part(architecture, part));
  if (ours.empty()) ours = mixture_part(part);
  if (ours.empty()) ours = head_norm_part(part);
  return ours.empty() ? std::string() : fmt::format("blk.{}.{}{}", layer, ours, kind);
}

std::string folder_name(const FolderType& type, FolderKind kind, std::string_view ours) {
  const unsigned style = style_of(type);
  const Places places = places_of(style, kind);
  const size_t end = ours.rfind('.');
  if (end == std::string_view::npos) return {};
  const std::string_view ending = ours.substr(end);
  std::string_view part = ours.substr(0, end);
  if (!part.starts_with("blk.")) {
    const std::string_view theirs = look_up_ours(kTop, style, part);
    if (theirs.empty()) return {};
    return fmt::format("{}{}{}", part == "output" ? places.head : places.model, theirs, ending);
  }
  part.remove_prefix(4);
  const size_t dot = std::min(part.find('.'), part.size());
  const std::string_view layer = part.substr(0, dot);
  const std::string theirs =
      layer_name(type, style, kind, part.substr(std::min(dot + 1, part.size())));
  if (theirs.empty()) return {};
  std::string name = fmt::format("{}{}{}.{}{}", places.model, places.layers, layer, theirs, ending);
  for (const EndRow& row : kEnds)
    if ((row.mlx || kind == FolderKind::kHuggingFace) &&
        name.ends_with(fmt::format(".{}", row.ours)))
      return name.replace(name.size() - row.ours.size(), row.ours.size(), row.theirs);
  return name;
}

int64_t named_layer(std::string_view name) {
  name = without_prefix(name);
  const std::string_view list = layer_list(name);
  if (list.empty()) return -1;
  name.remove_prefix(list.size());
  int64_t layer = 0;
  std::from_chars(name.data(), name.data() + name.size(), layer);
  return std::max<int64_t>(layer, 0);
}

bool names_no_weight(std::string_view name) {
  return std::ranges::any_of(kNoWeights, [&](std::string_view end) { return name.ends_with(end); });
}

const MixtureNames* mixture_names(const FolderType& type) {
  const auto row = std::ranges::find(kMixtureNames, type.type, &MixtureNames::type);
  return row == std::end(kMixtureNames) ? nullptr : row;
}

}  // namespace veery
