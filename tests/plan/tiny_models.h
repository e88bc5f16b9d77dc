// tiny_models.h: a tiny configuration of every architecture, with all parts that its models may
// have.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "file/model_file.h"
#include "model/arch/registry.h"

namespace veery::test {

inline constexpr int kTinyTokens = 11;

/// Returns whether models of the architecture may have a part (WeightRules).
inline bool may_have(const WeightRules& rules, std::string_view part) {
  for (const WeightNames* names :
       {&rules.required, &rules.optional, &rules.by_layer, &rules.together})
    if (std::ranges::find(*names, part) != names->end()) return true;
  return false;
}

/// Sets the recurrent layers of families that have them; in hybrids every other layer is attention.
inline void set_recurrent(TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  const std::string& name = c.architecture;
  r = {.heads = 4, .key_heads = 2, .key_size = 5, .value_size = 3, .conv_width = 3};
  r.mixer = find_architecture(name).mixer;
  const bool hybrid = name != "mamba2" && name != "falcon-h1";
  if (hybrid) r.layers = {true, false};
  switch (r.mixer) {
    case Mixer::kNone: r = {}; break;
    case Mixer::kMamba1: r.heads = 3, r.key_heads = 1, r.value_size = 4, r.rank = 2; break;
    case Mixer::kMamba2: r.groups = r.key_heads; break;
    case Mixer::kMlstm:
      r.key_heads = 4, r.value_size = 18, r.gate_softcap = 15, r.layers = {};
      break;
    case Mixer::kKda: r.heads = 2; break;
    case Mixer::kRwkv7:
      r.heads = r.key_heads = 3, r.key_size = r.value_size = 4, r.layers = {};
      r.ranks = {.decay = 4, .step = 3, .value = 2, .gate = 5};
      break;
    case Mixer::kXlstmBlocks:
      r.heads = r.key_heads = 3, r.key_size = r.value_size = 4, r.layers = {};
      r.blocks = {.cell_heads = 3, .cell_conv_width = 3, .part = 3, .cells = {true, false}};
      break;
    default: break;
  }
  if (name == "mamba2") c.layers = 3;
  if (c.architecture.starts_with("nemotron_h")) {
    c.layers = 3;
    r.layers = {true, false, false};
    c.feed_forward.alone = {false, false, true};
  }
}

inline void set_experts(TransformerConfig& c) {
  const WeightRules& rules = weight_rules(c.architecture);
  const std::string& name = c.architecture;
  const bool dense = name == "llama" || name == "minicpm" || !may_have(rules, "ffn_gate_inp");
  if (dense && name != "gemma4") return;
  ExpertConfig& e = c.experts;
  e.count = 6;
  e.hidden = 7;
  if (may_have(rules, "ffn_up_shexp")) e.shared_hidden = 8;
  e.route.used = 2;
  e.route.sigmoid = may_have(rules, "exp_probs_b.bias");
  e.route.normalise = e.route.sigmoid;
  if (name == "deepseek2" || name == "deepseek32" || name == "mistral4")
    e.route.groups = 3, e.route.groups_used = 2, e.route.group_best = 2, e.route.scale = 1.5F;
  if (name == "phimoe") e.route.jitter = 0.3F;
  if (name == "nemotron_h_moe") e.latent = 5;
  if (name == "cohere2moe") e.scale = 0.5F;
}

/// Latent attention, with sparse attention if the family has it.
inline void set_latent(TransformerConfig& c) {
  const std::string& name = c.architecture;
  c.latent = {.rank = 5, .query_rank = 4, .plain = 3, .turned = 2, .value = 3};
  if (c.positions.kind == Positions::kRope) c.positions.rope.dims = 2;
  if (name == "mistral4")
    c.positions.rope.temperature = 0.3, c.positions.rope.original_context = 4,
    c.long_context = true;
  if (name == "deepseek32" || name == "glm-dsa") {
    c.index = {.used = 3, .heads = 2, .head_dim = 4, .layers = {true, false}};
    c.sparse = true;
  }
}

inline void set_windows(TransformerConfig& c) {
  const std::string& name = c.architecture;
  if (find_architecture(name).gguf_global_period == 0 && name != "gemma4" &&
      name != "embedding-gemma2" && name != "granite_swa")
    return;
  c.attention.window = 4;
  c.attention.local = local_pattern(c.layers, 2);
  c.positions.local_rope.theta = 50;
  if (name != "llama4") return;
  c.attention.chunked = true;
  c.norms.qk = QkNorm::kUnweighted;
  c.positions.local_rope = c.positions.rope;
  c.positions.unrotated = {false, true};
  c.positions.unrotated_period = 3;
  c.positions.unrotated_temperature = 0.1;
}

inline void set_gemma4(TransformerConfig& c) {
  c.layers = 4;
  c.attention.local = local_pattern(c.layers, 2);
  c.attention.local_head_dim = 4;
  c.attention.local_kv_heads = 3;
  c.positions.local_rope = {.dims = 4, .theta = 50};
  c.attention.shared_kv_layers = 2;
  c.feed_forward.shared_kv_hidden = 28;
  c.input.layer_input = 5;
  if (c.architecture == "gemma4")
    c.input.layer_input_rows = c.vocab;
  else
    c.output.projected = 9;
}

inline TransformerConfig tiny(const std::string& name) {
  const Architecture& row = find_architecture(name);
  TransformerConfig c = initial_config(row);
  c.vocab = 23;
  c.dim = 12;
  c.feed_forward.hidden = 20;
  c.layers = 2;
  c.attention.heads = 3;
  c.attention.kv_heads = 1;
  c.attention.head_dim = 6;
  c.norms.eps = 1e-5F;
  c.positions.rope = {.dims = 6, .theta = 100};
  c.attention.scale = 1 / std::sqrt(6.0F);
  c.output.tied = true;
  c.positions.local_rope = c.positions.rope;
  c.context = kTinyTokens;
  if (c.positions.kind != Positions::kRope) c.positions.rope = c.positions.local_rope = {};
  if (row.gguf_interleaved_rope) c.positions.interleaved = true;
  if (row.scaled_residuals) c.residual.scale = 0.7F, c.output.scale = 1.3F;
  if (name == "gptneox" || name == "falcon" || name == "stablelm") c.residual.parallel = true;
  if (name == "mpt") c.positions.alibi = 8;
  if (name == "mistral3")
    c.positions.rope.temperature = 0.3, c.positions.rope.original_context = 4,
    c.long_context = true;
  if (name == "apertus")
    c.feed_forward.activation = Activation::kXielu,
    c.feed_forward.xielu = {{0.2F, -0.5F, 0.5F, -1e-6F}, {-1, 0.7F, 0.4F}};
  set_recurrent(c);
  set_windows(c);
  if (may_have(weight_rules(name), "attn_kv_a_mqa.bias") || name == "kimi-linear") set_latent(c);
  set_experts(c);
  if (row.complete != nullptr) row.complete(c);
  if (row.layer_sizes) set_gemma4(c);
  return c;
}

/// Returns a file that has the names of all parts, in every layer. Only the first layer has no
/// router, if some layers may be dense.
inline ModelFile file_of_parts(const TransformerConfig& c) {
  ModelFile file;
  const WeightRules& rules = weight_rules(c.architecture);
  const auto add = [&](const std::string& name) { file.tensors.push_back({.name = name}); };
  for (const WeightNames* names :
       {&rules.required, &rules.optional, &rules.by_layer, &rules.together})
    for (const std::string_view part : *names) {
      const std::string tensor = std::string(part) + (part.ends_with(".bias") ? "" : ".weight");
      const bool may_be_dense = names == &rules.by_layer && part == "ffn_gate_inp";
      add(tensor);
      for (int32_t layer = may_be_dense ? 1 : 0; layer < c.layers; ++layer)
        add("blk." + std::to_string(layer) + "." + tensor);
    }
  // Local layers have no divisors of RoPE.
  for (int32_t layer = 0; layer < c.layers; ++layer)
    if (!c.is_local(layer) && c.is_rotated(layer)) return add("rope_freqs.weight"), file;
  return file;
}

}  // namespace veery::test
