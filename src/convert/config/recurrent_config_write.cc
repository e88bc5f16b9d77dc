#include <cmath>
#include <limits>

#include "convert/config/folder_config_writer.h"
#include "convert/config/folder_rope_write.h"

namespace veery::config {

Json dense_layers(const Writer& w) {
  Json dense = Json::array();
  for (int32_t layer = 0; layer < w.c.layers; ++layer)
    if (!w.has(fmt::format("blk.{}.ffn_gate_inp.weight", layer).c_str())) dense.push_back(layer);
  return dense;
}

Json kinds_of_layers(const Writer& w, const char* recurrent) {
  Json kinds = Json::array();
  for (int32_t layer = 0; layer < w.c.layers; ++layer)
    kinds.push_back(w.c.is_recurrent(layer) ? recurrent : "full_attention");
  return kinds;
}

int64_t expansion(const Writer& w) {
  const int64_t values = w.c.recurrent.values();
  if (values % w.c.dim != 0)
    w.refuse(fmt::format("a value width of {} with a model width of {}", values, w.c.dim));
  return values / w.c.dim;
}

namespace {

// In the notation of transformers.
Json step_limits(const RecurrentConfig& r) {
  const Json most =
      std::isinf(r.most_step) ? Json{{"__float__", "Infinity"}} : Json(shortest(r.most_step));
  return {shortest(r.least_step), most};
}

void write_mamba2(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  for (const char* key : {"intermediate_size", "num_attention_heads", "num_key_value_heads",
                          "rms_norm_eps", "head_dim"})
    w.out.erase(key);
  w.out["num_heads"] = r.heads;
  w.out["head_dim"] = r.value_size;
  w.out["state_size"] = r.key_size;
  w.out["n_groups"] = r.key_heads;
  w.out["conv_kernel"] = r.conv_width;
  w.out["expand"] = expansion(w);
  w.out["layer_norm_epsilon"] = shortest(w.c.norms.eps);
  w.out["use_bias"] = w.any_layer_has("ssm_out.bias");
  w.out["use_conv_bias"] = w.any_layer_has("ssm_conv1d.bias");
  w.out["time_step_rank"] = (w.c.dim + 15) / 16;  // required but unused
  w.out["time_step_limit"] = step_limits(r);
}

void write_lfm2(Writer& w) {
  w.out.erase("head_dim");
  w.out.erase("rms_norm_eps");
  if (int64_t{w.c.attention.heads} * w.c.attention.head_dim != w.c.dim)
    w.refuse(fmt::format("{} heads of {} with a model width of {}", w.c.attention.heads,
                         w.c.attention.head_dim, w.c.dim));
  w.out["norm_eps"] = shortest(w.c.norms.eps);
  w.out["block_auto_adjust_ff_dim"] = false;
  w.out["conv_L_cache"] = w.c.recurrent.conv_width;
  w.out["conv_bias"] = w.any_layer_has("shortconv.conv.bias");
  w.out["layer_types"] = kinds_of_layers(w, "conv");
}

// Writes Qwen 3.5 and Qwen3-Next.
void write_delta(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  const ExpertConfig& e = w.c.experts;
  w.out["layer_types"] = kinds_of_layers(w, "linear_attention");
  w.out["linear_num_key_heads"] = r.key_heads;
  w.out["linear_num_value_heads"] = r.heads;
  w.out["linear_key_head_dim"] = r.key_size;
  w.out["linear_value_head_dim"] = r.value_size;
  w.out["linear_conv_kernel_dim"] = r.conv_width;
  w.out["attention_bias"] = w.any_layer_has("attn_q.bias");
  if (e.count == 0) return;
  w.out["num_experts"] = e.count;
  w.out["num_experts_per_tok"] = e.route.used;
  w.out["moe_intermediate_size"] = e.hidden;
  w.out["shared_expert_intermediate_size"] = e.shared_hidden;
  w.out["norm_topk_prob"] = e.route.normalise;
  w.out["decoder_sparse_step"] = 1;
  w.out["mlp_only_layers"] = dense_layers(w);
}

// Writes LFM2 mixtures, which start with dense layers.
void write_lfm2_moe(Writer& w) {
  const ExpertConfig& e = w.c.experts;
  write_lfm2(w);
  w.out.erase("block_auto_adjust_ff_dim");
  w.out["num_experts"] = e.count;
  w.out["num_experts_per_tok"] = e.route.used;
  w.out["moe_intermediate_size"] = e.hidden;
  w.out["norm_topk_prob"] = e.route.normalise;
  w.out["routed_scaling_factor"] = shortest(e.route.scale);
  w.out["use_expert_bias"] = w.any_layer_has("exp_probs_b.bias");
  const Json dense = dense_layers(w);
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) w.refuse("dense layers after the first mixture");
  w.out["num_dense_layers"] = dense.size();
}

// Returns a factor such that size * factor truncates to `product`.
double factor_of(int64_t product, int64_t size) {
  const auto whole = static_cast<double>(size);
  double factor = static_cast<double>(product) / whole;
  while (static_cast<int64_t>(whole * factor) < product)
    factor = std::nextafter(factor, std::numeric_limits<double>::infinity());
  return factor;
}

void write_xlstm(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  for (const char* key : {"intermediate_size", "num_attention_heads", "num_key_value_heads",
                          "head_dim", "hidden_act", "rms_norm_eps"})
    w.out.erase(key);
  w.out["embedding_dim"] = w.c.dim;
  w.out["num_blocks"] = w.c.layers;
  w.out["num_heads"] = r.heads;
  w.out["qk_dim_factor"] = factor_of(r.keys(), w.c.dim);
  w.out["v_dim_factor"] = factor_of(r.values(), w.c.dim);
  w.out["ffn_proj_factor"] = factor_of(w.c.feed_forward.hidden, w.c.dim);
  w.out["ffn_round_up_to_multiple_of"] = 1;
  w.out["eps"] = shortest(r.divisor_eps);
  w.out["norm_eps"] = shortest(w.c.norms.eps);
  w.out["gate_soft_cap"] = shortest(r.gate_softcap);
  w.out["output_logit_soft_cap"] = shortest(w.c.output.softcap);
  w.out["use_bias"] = w.any_layer_has("mlstm_q.bias");
  w.out["weight_mode"] = "single";
  w.out["add_out_norm"] = true;
}

void write_rwkv7(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "rms_norm_eps"})
    w.out.erase(key);
  w.out["head_dim"] = r.key_size;
  w.out["num_heads"] = r.heads;
  w.out["decay_low_rank_dim"] = r.ranks.decay;
  w.out["a_low_rank_dim"] = r.ranks.step;
  w.out["v_low_rank_dim"] = r.ranks.value;
  w.out["gate_low_rank_dim"] = r.ranks.gate;
  w.out["norm_eps"] = shortest(w.c.norms.eps);
  w.out["norm_first"] = w.out["norm_bias"] = true;
  w.out["hidden_act"] = "sqrelu";
  w.out["attn"] = nullptr;
  w.out["value_dim"] = std::vector<int64_t>(static_cast<size_t>(w.c.layers), w.c.dim);
}

// Writes Kimi Delta Attention with MLA.
void write_kimi(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  const ExpertConfig& e = w.c.experts;
  const LatentConfig& l = w.c.latent;
  if (e.count == 0 || !e.route.sigmoid) w.refuse("this method of expert selection");
  w.out["model_max_length"] = w.c.context;
  w.out["num_key_value_heads"] = w.c.attention.heads;
  w.out["head_dim"] = w.c.dim / w.c.attention.heads;  // required but unused
  w.out["kv_lora_rank"] = l.rank;
  w.out["q_lora_rank"] = l.query_rank > 0 ? Json(l.query_rank) : Json();
  w.out["qk_nope_head_dim"] = l.plain;
  w.out["qk_rope_head_dim"] = l.turned;
  w.out["v_head_dim"] = l.value;
  w.out["layer_types"] = kinds_of_layers(w, "linear_attention");
  w.out["linear_num_heads"] = r.heads;
  w.out["linear_head_dim"] = r.key_size;
  w.out["linear_conv_kernel_dim"] = r.conv_width;
  w.out["num_experts"] = e.count;
  w.out["num_experts_per_token"] = e.route.used;
  w.out["num_shared_experts"] = e.hidden > 0 ? e.shared_hidden / e.hidden : 0;
  w.out["moe_intermediate_size"] = e.hidden;
  w.out["moe_renormalize"] = e.route.normalise;
  w.out["routed_scaling_factor"] = shortest(e.route.scale);
  w.out["num_expert_group"] = e.route.groups;
  w.out["topk_group"] = e.route.groups_used;
  const Json dense = dense_layers(w);
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != i) w.refuse("dense layers after the first mixture");
  w.out["first_k_dense_replace"] = dense.size();
  Json kinds = Json::array();
  for (int32_t i = 0; i < w.c.layers; ++i)
    kinds.push_back(i < std::ssize(dense) ? "dense" : "sparse");
  w.out["mlp_layer_types"] = std::move(kinds);
}

// Writes layers of one part each; published files list them as letters, newer ones as names.
void write_nemotron_h(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  const ExpertConfig& e = w.c.experts;
  for (const char* key : {"rms_norm_eps", "hidden_act"}) w.out.erase(key);
  std::string letters;
  Json names = Json::array();
  for (int32_t layer = 0; layer < w.c.layers; ++layer) {
    const bool mixture = w.has(fmt::format("blk.{}.ffn_gate_inp.weight", layer).c_str());
    const bool recurrent = w.c.is_recurrent(layer), feeds = !w.c.mixes(layer);
    letters += recurrent ? 'M' : !feeds ? '*' : mixture ? 'E' : '-';
    names.push_back(recurrent ? "linear_attention"
                    : !feeds  ? "full_attention"
                    : mixture ? "moe"
                              : "mlp");
  }
  w.out["hybrid_override_pattern"] = letters;
  w.out["layers_block_type"] = std::move(names);
  w.out["layer_norm_epsilon"] = shortest(w.c.norms.eps);
  w.out["mlp_hidden_act"] = "relu2";
  w.out["mamba_num_heads"] = r.heads;
  w.out["mamba_head_dim"] = r.value_size;
  w.out["ssm_state_size"] = r.key_size;
  w.out["n_groups"] = r.key_heads;
  w.out["conv_kernel"] = r.conv_width;
  w.out["use_bias"] = w.any_layer_has("ssm_out.bias");
  w.out["use_conv_bias"] = w.any_layer_has("ssm_conv1d.bias");
  w.out["attention_bias"] = w.any_layer_has("attn_q.bias");
  w.out["mlp_bias"] = w.any_layer_has("ffn_up.bias");
  w.out["time_step_limit"] = step_limits(r);
  if (e.count == 0) return;
  w.out["n_routed_experts"] = e.count;
  w.out["n_shared_experts"] = e.shared_hidden > 0 ? 1 : 0;
  w.out["num_experts_per_tok"] = e.route.used;
  w.out["moe_intermediate_size"] = e.hidden;
  w.out["moe_shared_expert_intermediate_size"] = e.shared_hidden;
  w.out["moe_latent_size"] = e.latent > 0 ? Json(e.latent) : Json();
  w.out["norm_topk_prob"] = e.route.normalise;
  w.out["routed_scaling_factor"] = shortest(e.route.scale);
  w.out["n_group"] = e.route.groups;
  w.out["topk_group"] = e.route.groups_used;
}

// Returns the period and offset of the layers for which is() holds.
template <typename Is>
std::pair<int32_t, int32_t> period_of(const Writer& w, const Is& is, const char* what) {
  for (int32_t period = 1; period <= w.c.layers + 1; ++period)
    for (int32_t offset = 0; offset < period; ++offset) {
      bool same = true;
      for (int32_t i = 0; i < w.c.layers && same; ++i) same = is(i) == (i % period == offset);
      if (same) return {period, offset};
    }
  w.refuse(what);
  return {};
}

void write_jamba(Writer& w) {
  const RecurrentConfig& r = w.c.recurrent;
  const ExpertConfig& e = w.c.experts;
  w.out.erase("head_dim");
  if (int64_t{w.c.attention.heads} * w.c.attention.head_dim != w.c.dim)
    w.refuse(fmt::format("{} heads of {} with a model width of {}", w.c.attention.heads,
                         w.c.attention.head_dim, w.c.dim));
  const auto attends = period_of(
      w, [&](int32_t i) { return !w.c.is_recurrent(i); }, "this pattern of attention layers");
  w.out["attn_layer_period"] = attends.first;
  w.out["attn_layer_offset"] = attends.second;
  w.out["mamba_d_state"] = r.key_size;
  w.out["mamba_d_conv"] = r.conv_width;
  w.out["mamba_expand"] = expansion(w);
  w.out["mamba_dt_rank"] = r.rank;
  w.out["mamba_conv_bias"] = w.any_layer_has("ssm_conv1d.bias");
  w.out["mamba_proj_bias"] = w.any_layer_has("ssm_out.bias");
  w.out["num_experts"] = std::max(e.count, 1);
  w.out["num_experts_per_tok"] = std::max(e.route.used, 1);
  const auto mixes = period_of(
      w, [&](int32_t i) { return w.has(fmt::format("blk.{}.ffn_gate_inp.weight", i).c_str()); },
      "this pattern of expert layers");
  w.out["expert_layer_period"] = mixes.first;
  w.out["expert_layer_offset"] = mixes.second;
}

}  // namespace

bool write_recurrent(Writer& w) {
  if (w.is({"granitemoehybrid"})) return false;
  const bool delta = w.c.recurrent.mixer == Mixer::kDelta;
  constexpr std::pair<std::string_view, void (*)(Writer&)> kWriters[] = {
      {"mamba2", write_mamba2},     {"lfm2", write_lfm2},
      {"lfm2_moe", write_lfm2_moe}, {"xlstm", write_xlstm},
      {"rwkv7", write_rwkv7},       {"jamba", write_jamba},
      {"kimi_linear", write_kimi},  {"nemotron_h", write_nemotron_h}};
  const auto writer = std::ranges::find(kWriters, w.type.type, [](auto row) { return row.first; });
  if (writer == std::end(kWriters) && !delta)
    throw Error(ErrorKind::kUnsupported, "{}: {} cannot be written as a folder", w.file.path,
                w.c.architecture);
  if (delta)
    write_delta(w);
  else
    writer->second(w);
  return true;
}

}  // namespace veery::config
