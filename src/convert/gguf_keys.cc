#include "convert/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "import/read_config.h"
#include "model/arch/registry.h"

namespace veery {
namespace {

using Config = TransformerConfig;
using KeyValue = std::optional<MetaValue>;

KeyValue size(int64_t value) { return KeyValue(std::in_place, value); }
KeyValue positive(int64_t value) { return value > 0 ? size(value) : KeyValue(); }
// Readers expect 32-bit floats.
KeyValue number(double value) { return KeyValue(std::in_place, double{static_cast<float>(value)}); }
KeyValue unless(double value, double usual) { return value == usual ? KeyValue() : number(value); }
KeyValue flags(const std::vector<bool>& values) {
  return KeyValue(std::in_place, std::vector<int64_t>(values.begin(), values.end()));
}

// Returns one number for all layers, or one per layer if they differ.
template <typename OfLayer>
KeyValue of_layers(const Config& c, const OfLayer& of_layer) {
  std::vector<int64_t> values;
  for (int32_t layer = 0; layer < c.layers; ++layer) values.push_back(of_layer(layer));
  if (std::ranges::count(values, values[0]) == std::ssize(values)) return size(values[0]);
  return KeyValue(std::in_place, std::move(values));
}
// llama.cpp requires these keys for architectures whose layers can differ in size.
KeyValue if_sized(const Config& c, int64_t value) {
  return find_architecture(c.architecture).layer_sizes ? size(value) : KeyValue();
}
int64_t local_head_dim(const Config& c) {
  return c.attention.local_head_dim > 0 ? c.attention.local_head_dim : c.attention.head_dim;
}

bool is_scaled(const Config& c) { return c.positions.rope.scaling != RopeScaling::kNone; }

// Returns the factor of YaRN's magnitude beyond the one implied by its scaling factor.
double extra_magnitude(const Config& c) {
  const bool yarn = c.positions.rope.scaling == RopeScaling::kYarn && c.latent.yarn_magnitude == 1;
  return c.positions.rope.attention_factor /
         (yarn ? yarn_magnitude(c.positions.rope.factor, 1) : 1);
}

// Compares with the precision of a 32-bit float.
bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(a); }

bool same_angles(const AnglesAttr& a, const AnglesAttr& b) {
  return a.dims == b.dims && a.scaling == b.scaling && a.truncate == b.truncate &&
         near(a.theta, b.theta) && near(a.factor, b.factor) && near(a.beta_fast, b.beta_fast) &&
         near(a.beta_slow, b.beta_slow) && near(a.attention_factor, b.attention_factor) &&
         near(a.original_context, b.original_context) && near(a.temperature, b.temperature);
}

// Returns the size of a cached value, and of a cached key without its rotated part.
int64_t cached(const Config& c) { return c.latent.rank > 0 ? c.latent.rank : c.attention.head_dim; }

// Recurrent layers have 0 key heads, unless another key lists the recurrent layers.
int64_t key_heads(const Config& c, int32_t layer) {
  const bool marked = c.recurrent.mixer != Mixer::kDelta && !c.recurrent.layers.empty();
  return (marked && c.is_recurrent(layer)) || !c.mixes(layer) ? 0 : c.kv_heads_of(layer);
}
// For layers with llama.cpp's keys of selective state space models.
KeyValue if_ssm(const Config& c, int64_t value) {
  const Mixer mixer = c.recurrent.mixer;
  return mixer == Mixer::kDelta || mixer == Mixer::kMamba1 || mixer == Mixer::kMamba2 ? size(value)
                                                                                      : KeyValue();
}
template <Mixer mixer>
bool has(const Config& c) {
  return c.recurrent.mixer == mixer;
}
// Returns N if all layers except every N-th are recurrent; 0 if there is no such N.
int64_t attention_interval(const Config& c) {
  for (int32_t every = 1; every <= c.layers; ++every)
    if (local_pattern(c.layers, every) == c.recurrent.layers) return every;
  return 0;
}

struct KeyRow {
  const char* key;
  KeyValue (*value)(const Config&);
};
// Keys that are written whenever they apply.
constexpr KeyRow kKeys[] = {
    {"vocab_size", [](const Config& c) { return size(c.vocab); }},
    {"context_length", [](const Config& c) { return size(c.context); }},
    {"embedding_length", [](const Config& c) { return size(c.dim); }},
    {"block_count", [](const Config& c) { return size(c.layers); }},
    {"feed_forward_length",
     [](const Config& c) {
       return of_layers(c, [&](int32_t i) { return c.feeds(i) ? c.hidden_of(i) : 0; });
     }},
    {"attention.head_count",
     [](const Config& c) { return size(has<Mixer::kRwkv7>(c) ? 0 : c.attention.heads); }},
    {"attention.head_count_kv",
     [](const Config& c) { return of_layers(c, [&](int32_t i) { return key_heads(c, i); }); }},
    {"attention.key_length", [](const Config& c) { return size(cached(c) + c.latent.turned); }},
    {"attention.value_length", [](const Config& c) { return size(cached(c)); }},
    {"attention.key_length_swa", [](const Config& c) { return if_sized(c, local_head_dim(c)); }},
    {"attention.value_length_swa", [](const Config& c) { return if_sized(c, local_head_dim(c)); }},
    {"attention.sliding_window_pattern",
     [](const Config& c) {
       const bool sized = find_architecture(c.architecture).layer_sizes;
       return sized && c.attention.window > 0 ? flags(c.attention.local) : KeyValue();
     }},
    {"attention.shared_kv_layers",
     [](const Config& c) { return if_sized(c, c.attention.shared_kv_layers); }},
    {"embedding_length_per_layer_input",
     [](const Config& c) { return if_sized(c, c.input.layer_input); }},
    {"attention.key_length_mla",
     [](const Config& c) { return positive(c.latent.plain + c.latent.turned); }},
    {"attention.value_length_mla", [](const Config& c) { return positive(c.latent.value); }},
    {"attention.kv_lora_rank", [](const Config& c) { return positive(c.latent.rank); }},
    {"attention.q_lora_rank", [](const Config& c) { return positive(c.latent.query_rank); }},
    {"attention.indexer.head_count", [](const Config& c) { return positive(c.index.heads); }},
    {"attention.indexer.key_length", [](const Config& c) { return positive(c.index.head_dim); }},
    {"attention.indexer.top_k", [](const Config& c) { return positive(c.index.used); }},
    {"attention.indexer.types",
     [](const Config& c) {
       const bool all = std::ranges::count(c.index.layers, false) == 0;
       return all ? KeyValue() : flags(c.index.layers);
     }},
    {"attention.layer_norm_rms_epsilon",
     [](const Config& c) { return c.norms.kind == Norm::kRms ? number(c.norms.eps) : KeyValue(); }},
    {"attention.layer_norm_epsilon",
     [](const Config& c) {  // llama.cpp requires it for Nemotron-H
       const bool asked = c.architecture.starts_with("nemotron_h");
       return c.norms.kind != Norm::kRms || asked ? number(c.norms.eps) : KeyValue();
     }},
    // Layers of encoders attend to half of the window on each side.
    {"attention.sliding_window",
     [](const Config& c) {
       return positive(c.attention.mask == Mask::kCausal ? c.attention.window
                                                         : int64_t{2} * c.attention.window);
     }},
    {"attention.temperature_scale",
     [](const Config& c) {
       return unless(c.positions.unrotated_period > 0 ? c.positions.unrotated_temperature
                                                      : c.positions.rope.temperature,
                     0);
     }},
    {"attention.temperature_length",
     [](const Config& c) {
       const bool latent = c.latent.rank > 0 && c.positions.rope.temperature != 0;
       return positive(latent ? static_cast<int64_t>(c.positions.rope.original_context)
                              : c.positions.unrotated_period);
     }},
    {"encoder.block_count", [](const Config& c) { return positive(c.source.layers); }},
    {"encoder.attention.head_count", [](const Config& c) { return positive(c.source.heads); }},
    {"encoder.feed_forward_length", [](const Config& c) { return positive(c.source.hidden); }},
    {"encoder.context_length", [](const Config& c) { return positive(c.source.positions); }},
    {"encoder.num_mel_bins", [](const Config& c) { return positive(c.source.bands); }},
    {"rope.dimension_count",
     [](const Config& c) { return positive(std::max(c.positions.rope.dims, c.latent.turned)); }},
    {"rope.dimension_count_swa",
     [](const Config& c) { return if_sized(c, c.positions.local_rope.dims); }},
    {"rope.freq_base_swa",
     [](const Config& c) {
       const bool sized = find_architecture(c.architecture).layer_sizes;
       return sized ? number(c.positions.local_rope.theta) : KeyValue();
     }},
    {"rope.freq_base",
     [](const Config& c) {
       return c.positions.rope.dims > 0 ? number(c.positions.rope.theta) : KeyValue();
     }},
    {"rope.scaling.type",
     [](const Config& c) {
       const bool yarn = c.positions.rope.scaling == RopeScaling::kYarn;
       return is_scaled(c) ? KeyValue(std::string(yarn ? "yarn" : "linear")) : KeyValue();
     }},
    {"rope.scaling.factor",
     [](const Config& c) { return is_scaled(c) ? number(c.positions.rope.factor) : KeyValue(); }},
    {"rope.scaling.original_context_length",
     [](const Config& c) {
       const double context = c.positions.rope.original_context;
       return is_scaled(c) || context != AnglesAttr{}.original_context
                  ? size(static_cast<int64_t>(context))
                  : KeyValue();
     }},
    {"rope.scaling.attn_factor", [](const Config& c) { return unless(extra_magnitude(c), 1); }},
    {"rope.scaling.yarn_beta_fast",
     [](const Config& c) { return unless(c.positions.rope.beta_fast, AnglesAttr{}.beta_fast); }},
    {"rope.scaling.yarn_beta_slow",
     [](const Config& c) { return unless(c.positions.rope.beta_slow, AnglesAttr{}.beta_slow); }},
    {"rope.scaling.finetuned",
     [](const Config& c) {
       const bool granite = c.architecture.starts_with("granite");
       return granite && !c.is_rotated(0) ? KeyValue(false) : KeyValue();
     }},
    {"rope.scaling.yarn_log_multiplier",
     [](const Config& c) {
       const double magnitude = c.latent.yarn_magnitude;
       return magnitude == 1 ? KeyValue()
                             : number((magnitude - 1) / std::log(c.positions.rope.factor));
     }},
    {"logit_scale",
     [](const Config& c) {
       const bool divides = c.architecture.starts_with("granite") || c.architecture == "minicpm";
       return divides ? number(1 / double{c.output.scale}) : unless(c.output.scale, 1);
     }},
    {"attn_logit_softcapping", [](const Config& c) { return unless(c.attention.softcap, 0); }},
    {"final_logit_softcapping", [](const Config& c) { return unless(c.output.softcap, 0); }},
    {"use_parallel_residual",
     [](const Config& c) {
       const bool either = c.architecture == "gptneox" || c.architecture == "stablelm";
       return either ? KeyValue(c.residual.parallel) : KeyValue();
     }},
    {"attention.max_alibi_bias",
     [](const Config& c) {
       return c.architecture == "mpt" ? number(c.positions.alibi) : KeyValue();
     }},
    {"expert_count", [](const Config& c) { return positive(c.experts.count); }},
    {"expert_used_count",
     [](const Config& c) { return c.experts.count > 0 ? size(c.experts.route.used) : KeyValue(); }},
    {"expert_feed_forward_length",
     [](const Config& c) { return c.experts.count > 0 ? size(c.experts.hidden) : KeyValue(); }},
    {"moe_latent_size", [](const Config& c) { return positive(c.experts.latent); }},
    {"expert_shared_count",
     [](const Config& c) {
       const ExpertConfig& e = c.experts;
       return e.count > 0 ? positive(e.shared_hidden / e.hidden) : KeyValue();
     }},
    // An absent key has a different meaning in each architecture.
    {"expert_gating_func",
     [](const Config& c) {
       return c.experts.count > 0 ? size(c.experts.route.sigmoid ? 2 : 1) : KeyValue();
     }},
    {"expert_weights_norm",
     [](const Config& c) {
       return c.experts.count > 0 ? KeyValue(c.experts.route.normalise) : KeyValue();
     }},
    {"expert_group_count",
     [](const Config& c) {
       return c.experts.route.groups > 1 ? size(c.experts.route.groups) : KeyValue();
     }},
    {"expert_group_used_count",
     [](const Config& c) {
       return c.experts.route.groups > 1 ? size(c.experts.route.groups_used) : KeyValue();
     }},
    {"expert_shared_feed_forward_length",
     [](const Config& c) {  // llama.cpp reads it as the width of one expert for Ling 2.0
       const ExpertConfig& e = c.experts;
       const bool single = c.architecture == "bailingmoe2" && e.shared_hidden > 0;
       return positive(single ? e.hidden : e.shared_hidden);
     }},
    {"attention.recurrent_layers",
     [](const Config& c) {
       return has<Mixer::kDelta>(c) ? flags(c.recurrent.layers) : KeyValue();
     }},
    {"full_attention_interval",
     [](const Config& c) {
       return has<Mixer::kDelta>(c) ? positive(attention_interval(c)) : KeyValue();
     }},
    // For text positions, all sections of RoPE rotate alike.
    {"rope.dimension_sections",
     [](const Config& c) {
       if (!has<Mixer::kDelta>(c) || c.architecture == "qwen3next") return KeyValue();
       const int64_t pairs = c.positions.rope.dims / 2;
       return KeyValue(std::in_place,
                       std::vector<int64_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
     }},
    {"ssm.conv_kernel",
     [](const Config& c) {
       const bool kda = has<Mixer::kKda>(c);
       return kda ? size(c.recurrent.conv_width) : if_ssm(c, c.recurrent.conv_width);
     }},
    {"ssm.state_size", [](const Config& c) { return if_ssm(c, c.recurrent.key_size); }},
    {"ssm.group_count",
     [](const Config& c) {
       return has<Mixer::kMamba1>(c) ? KeyValue() : if_ssm(c, c.recurrent.key_heads);
     }},
    {"ssm.time_step_rank",
     [](const Config& c) {
       return if_ssm(c, has<Mixer::kMamba1>(c) ? c.recurrent.rank : c.recurrent.heads);
     }},
    {"ssm.inner_size", [](const Config& c) { return if_ssm(c, c.recurrent.values()); }},
    {"kda.head_dim",
     [](const Config& c) { return has<Mixer::kKda>(c) ? size(c.recurrent.key_size) : KeyValue(); }},
    // Not a key of llama.cpp, which uses the number of attention heads.
    {"kda.head_count",
     [](const Config& c) {
       const bool own = has<Mixer::kKda>(c) && c.recurrent.heads != c.attention.heads;
       return own ? size(c.recurrent.heads) : KeyValue();
     }},
    {"shortconv.l_cache",
     [](const Config& c) {
       return has<Mixer::kShortConv>(c) ? size(c.recurrent.conv_width) : KeyValue();
     }},
    {"wkv.head_size",
     [](const Config& c) {
       return has<Mixer::kRwkv7>(c) ? size(c.recurrent.key_size) : KeyValue();
     }},
    {"attention.decay_lora_rank",
     [](const Config& c) { return positive(c.recurrent.ranks.decay); }},
    {"attention.iclr_lora_rank", [](const Config& c) { return positive(c.recurrent.ranks.step); }},
    {"attention.value_residual_mix_lora_rank",
     [](const Config& c) { return positive(c.recurrent.ranks.value); }},
    {"attention.gate_lora_rank", [](const Config& c) { return positive(c.recurrent.ranks.gate); }},
    // Not keys of llama.cpp, which does not support such models.
    {"mlstm.head_count",
     [](const Config& c) { return has<Mixer::kMlstm>(c) ? size(c.recurrent.heads) : KeyValue(); }},
    {"mlstm.key_length",
     [](const Config& c) {
       return has<Mixer::kMlstm>(c) ? size(c.recurrent.key_size) : KeyValue();
     }},
    {"mlstm.value_length",
     [](const Config& c) {
       return has<Mixer::kMlstm>(c) ? size(c.recurrent.value_size) : KeyValue();
     }},
    {"mlstm.gate_softcapping", [](const Config& c) { return unless(c.recurrent.gate_softcap, 0); }},
    {"mlstm.divisor_epsilon",
     [](const Config& c) {
       return has<Mixer::kMlstm>(c) ? number(c.recurrent.divisor_eps) : KeyValue();
     }},
};

// A property that must survive reading; `key` is written if the property would otherwise be read
// differently.
struct FieldRow {
  const char* what;
  bool (*equal)(const Config& a, const Config& b);
  const char* key = nullptr;
  KeyValue (*value)(const Config&) = nullptr;
};
// Compares a member, given by the pointers that lead to it.
template <auto... Path>
bool same(const Config& a, const Config& b) {
  return (a.*....*Path) == (b.*....*Path);
}
template <auto Member>
bool same_route(const Config& a, const Config& b) {
  return a.experts.count == 0 || a.experts.route.*Member == b.experts.route.*Member;
}
// Ignores the order of value heads, which files may change.
bool same_recurrent(const Config& a, const Config& b) {
  const RecurrentConfig& r = a.recurrent;
  const RecurrentConfig& s = b.recurrent;
  if (r.mixer != s.mixer) return false;
  for (int32_t layer = 0; layer < a.layers; ++layer)
    if (a.is_recurrent(layer) != b.is_recurrent(layer)) return false;
  return r.mixer == Mixer::kNone ||
         (r.heads == s.heads && r.key_heads == s.key_heads && r.key_size == s.key_size &&
          r.value_size == s.value_size && r.conv_width == s.conv_width && r.groups == s.groups &&
          r.rank == s.rank && r.ranks == s.ranks && near(r.gate_softcap, s.gate_softcap) &&
          near(r.divisor_eps, s.divisor_eps));
}
constexpr FieldRow kFields[] = {
    {"the layers with a window",
     [](const Config& a, const Config& b) {
       for (int32_t layer = 0; layer < a.layers; ++layer)
         if (a.is_local(layer) != b.is_local(layer)) return false;
       return true;
     },
     "attention.sliding_window_pattern", [](const Config& c) { return flags(c.attention.local); }},
    {"the layers without RoPE",
     [](const Config& a, const Config& b) {
       for (int32_t layer = 0; layer < a.layers; ++layer)
         if (a.is_rotated(layer) != b.is_rotated(layer)) return false;
       return true;
     },
     "attention.rope_pattern",
     [](const Config& c) {
       std::vector<bool> rotated(static_cast<size_t>(c.layers));
       for (int32_t layer = 0; layer < c.layers; ++layer)
         rotated[static_cast<size_t>(layer)] = c.is_rotated(layer);
       return flags(rotated);
     }},
    {"per-layer sizes",
     [](const Config& a, const Config& b) {
       for (int32_t layer = 0; layer < a.layers; ++layer)
         if (a.head_dim_of(layer) != b.head_dim_of(layer) ||
             a.kv_heads_of(layer) != b.kv_heads_of(layer) ||
             a.hidden_of(layer) != b.hidden_of(layer) || a.keys_of(layer) != b.keys_of(layer))
           return false;
       return true;
     }},
    {"values that equal keys", same<&Config::attention, &AttentionConfig::values_are_keys>},
    {"per-layer token inputs", same<&Config::input, &InputConfig::layer_input>},
    {"the attention scale", same<&Config::attention, &AttentionConfig::scale>, "attention.scale",
     [](const Config& c) { return number(c.attention.scale); }},
    {"the scale of the embedding", same<&Config::input, &InputConfig::scale>, "embedding_scale",
     [](const Config& c) { return number(c.input.scale); }},
    {"the scale of logits",
     [](const Config& a, const Config& b) { return near(a.output.scale, b.output.scale); }},
    {"sigmoid expert scores", same_route<&RouteAttr::sigmoid>},
    {"normalised expert weights", same_route<&RouteAttr::normalise>},
    // Not a key of llama.cpp, which always truncates.
    {"YaRN's ramp",
     [](const Config& a, const Config& b) {
       return a.positions.rope.truncate == b.positions.rope.truncate;
     },
     "rope.scaling.yarn_truncate",
     [](const Config& c) { return KeyValue(c.positions.rope.truncate); }},
    // Not a key of llama.cpp.
    {"the jitter of expert scores", same_route<&RouteAttr::jitter>, "expert_jitter",
     [](const Config& c) { return number(c.experts.route.jitter); }},
    {"the scale of expert weights", same_route<&RouteAttr::scale>, "expert_weights_scale",
     [](const Config& c) { return number(c.experts.route.scale); }},
    // Not a key of llama.cpp, which averages the outputs of shared and selected experts.
    {"the scale of the expert output",
     [](const Config& a, const Config& b) { return a.experts.scale == b.experts.scale; },
     "expert_sum_scale", [](const Config& c) { return number(c.experts.scale); }},
    // Not a key of llama.cpp.
    {"per-layer RoPE bases", same<&Config::positions, &PositionConfig::thetas>,
     "rope.freq_base_layers",
     [](const Config& c) {
       std::vector<double> rounded;
       for (const double theta : c.positions.thetas)
         rounded.push_back(double{static_cast<float>(theta)});
       return KeyValue(std::in_place, std::move(rounded));
     }},
    {"RoPE of layers with a window",
     [](const Config& a, const Config& b) {
       const bool unused = a.attention.window == 0 ||
                           std::ranges::find(a.attention.local, true) == a.attention.local.end();
       return unused || same_angles(a.positions.local_rope, b.positions.local_rope);
     },
     "rope.freq_base_swa", [](const Config& c) { return number(c.positions.local_rope.theta); }},
    {"RoPE", [](const Config& a,
                const Config& b) { return same_angles(a.positions.rope, b.positions.rope); }},
    {"the activation", same<&Config::feed_forward, &FeedForwardConfig::activation>,
     "hidden_activation",
     [](const Config& c) {
       return KeyValue(
           std::string(c.feed_forward.activation == Activation::kSilu ? "silu" : "gelu"));
     }},
    {"the feed-forward part", same<&Config::feed_forward, &FeedForwardConfig::gated>},
    {"the kind of norm", same<&Config::norms, &NormConfig::kind>},
    {"the epsilon of norms", same<&Config::norms, &NormConfig::eps>},
    {"norms of heads", same<&Config::norms, &NormConfig::qk>},
    {"the place of norms of heads", same<&Config::norms, &NormConfig::qk_after_rope>},
    {"the residual stream", same<&Config::residual, &ResidualConfig::parallel>,
     "use_parallel_residual", [](const Config& c) { return KeyValue(c.residual.parallel); }},
    {"the residual scale", same<&Config::residual, &ResidualConfig::scale>, "residual_scale",
     [](const Config& c) { return number(c.residual.scale); }},
    {"the soft cap of attention scores", same<&Config::attention, &AttentionConfig::softcap>},
    {"the soft cap of logits", same<&Config::output, &OutputConfig::softcap>},
    {"the kind of position encoding", same<&Config::positions, &PositionConfig::kind>},
    {"the ALiBi slopes", same<&Config::positions, &PositionConfig::alibi>},
    {"the activation parameters", same<&Config::feed_forward, &FeedForwardConfig::xielu>},
    {"groups of experts",
     [](const Config& a, const Config& b) {
       return same_route<&RouteAttr::groups>(a, b) && same_route<&RouteAttr::groups_used>(a, b) &&
              same_route<&RouteAttr::group_best>(a, b);
     }},
    {"the latent attention (MLA)",
     [](const Config& a, const Config& b) {
       const LatentConfig& l = a.latent;
       const LatentConfig& m = b.latent;
       return l.rank == m.rank && l.query_rank == m.query_rank && l.plain == m.plain &&
              l.turned == m.turned && l.value == m.value &&
              near(l.yarn_magnitude, m.yarn_magnitude);
     }},
    {"the sparse attention index", same<&Config::index>},
    // Not a key of llama.cpp, which uses that of the other norms.
    {"the epsilon of latent norms",
     [](const Config& a, const Config& b) {
       return a.latent.rank == 0 || near(a.latent.norm_eps, b.latent.norm_eps);
     },
     "attention.latent_rms_epsilon", [](const Config& c) { return number(c.latent.norm_eps); }},
    {"recurrent layers", same_recurrent},
    {"layers of one part", same<&Config::feed_forward, &FeedForwardConfig::alone>},
    {"norms before gates",
     [](const Config& a, const Config& b) {
       return a.recurrent.norm_first == b.recurrent.norm_first;
     }},
    {"the latent input of experts",
     [](const Config& a, const Config& b) { return a.experts.latent == b.experts.latent; }},
    {"the layer multipliers", same<&Config::multipliers>},
    // Not keys of llama.cpp, which does not bound the step size.
    {"the minimum step of recurrent layers",
     [](const Config& a, const Config& b) {
       return near(a.recurrent.least_step, b.recurrent.least_step);
     },
     "ssm.time_step_floor", [](const Config& c) { return number(c.recurrent.least_step); }},
    {"the maximum step of recurrent layers",
     [](const Config& a, const Config& b) {
       return a.recurrent.most_step == b.recurrent.most_step ||
              near(a.recurrent.most_step, b.recurrent.most_step);
     },
     "ssm.time_step_ceiling", [](const Config& c) { return number(c.recurrent.most_step); }},
    {"chunks", same<&Config::attention, &AttentionConfig::chunked>},
    {"the output projection of an encoder", same<&Config::output, &OutputConfig::projected>},
    {"the temperature of layers without RoPE",
     [](const Config& a, const Config& b) {
       return a.positions.unrotated_period == b.positions.unrotated_period &&
              near(a.positions.unrotated_temperature, b.positions.unrotated_temperature);
     }},
    {"the activation limit of experts",
     [](const Config& a, const Config& b) {
       return a.experts.moe.limit == b.experts.moe.limit &&
              a.experts.moe.alpha == b.experts.moe.alpha;
     }},
};

// Returns `c` as GGUF represents it: with GGUF's names of architectures, with Llama 3's RoPE
// scaling as divisors, and without a RoPE factor if there is no scaling.
Config in_gguf(Config c) {
  c.architecture = gguf_architecture(c.architecture);
  if (c.architecture == "nemotron_h" && c.experts.count > 0) c.architecture = "nemotron_h_moe";
  if (c.architecture == "gemma3" && c.attention.mask != Mask::kCausal)
    c.architecture = "gemma-embedding";
  if (find_architecture(c.architecture)
          .parallel_mixers) {  // multipliers are folded into the weights
    c.multipliers = {};
    c.input.scale = c.output.scale = 1;
  }
  for (AnglesAttr* rope : {&c.positions.rope, &c.positions.local_rope}) {
    if (rope->scaling == RopeScaling::kLlama3) *rope = {.dims = rope->dims, .theta = rope->theta};
    if (rope->scaling == RopeScaling::kNone) rope->factor = 1;
  }
  return c;
}

bool is_dense(const ModelFile& file, int64_t layer) {
  return file.find(fmt::format("blk.{}.ffn_up.weight", layer)) != nullptr;
}

// Returns the number of dense layers before the first mixture of experts.
int64_t dense_layers(const ModelFile& file) {
  int64_t layer = 0;
  while (is_dense(file, layer)) ++layer;
  return layer;
}

// Returns the distance from the first mixture of experts to the next.
int64_t mixture_step(const ModelFile& file, const Config& c) {
  const int64_t first = dense_layers(file);
  int64_t next = first + 1;
  while (next < c.layers && is_dense(file, next)) ++next;
  return next < c.layers ? next - first : first + 1;
}

}  // namespace

std::string_view gguf_architecture(std::string_view architecture) {
  const Architecture& row = find_architecture(architecture);
  return row.gguf_name.empty() ? row.name : row.gguf_name;
}

std::vector<float> llama3_divisors(const AnglesAttr& rope) {
  std::vector<float> divisors;
  if (rope.scaling != RopeScaling::kLlama3) return divisors;
  for (int32_t i = 0; i < rope.dims / 2; ++i) {
    const double plain = std::pow(rope.theta, -2.0 * i / rope.dims);
    const double turns = rope.original_context * plain / (2 * std::numbers::pi);
    const double share =
        (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    const double kept = std::clamp(share, 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / (kept + (1 - kept) / rope.factor)));
  }
  return divisors;
}

Metadata gguf_keys(const TransformerConfig& folder_config, const ModelFile& file) {
  const Config c = in_gguf(folder_config);
  const std::string prefix = c.architecture + ".";
  ModelFile written;
  written.path = file.path;
  for (const TensorView& tensor : file.tensors)
    written.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  written.metadata.set("general.architecture", c.architecture);
  for (const KeyRow& row : kKeys)
    if (KeyValue value = row.value(c)) written.metadata.set(prefix + row.key, std::move(*value));
  if (c.experts.count > 0 && !find_architecture(c.architecture).layer_sizes)
    written.metadata.set(prefix + "leading_dense_block_count", dense_layers(file));
  if (c.architecture == "llama4" || c.architecture == "ernie4_5-moe")
    written.metadata.set(prefix + "interleave_moe_layer_step", mixture_step(file, c));
  for (const XieluField& field : kXieluFields) {
    std::vector<double> values;
    for (const XieluNumbers& layer : c.feed_forward.xielu) values.push_back(layer.*field.member);
    if (!values.empty()) written.metadata.set(field.gguf_key, std::move(values));
  }
  for (const FieldRow& row : kFields) {
    if (row.equal(c, read_config(written))) continue;
    if (row.key != nullptr) written.metadata.set(prefix + row.key, *row.value(c));
    if (row.key == nullptr || !row.equal(c, read_config(written)))
      throw Error(ErrorKind::kUnsupported, "{}: GGUF cannot represent {} of this {} model",
                  file.path, row.what, folder_config.architecture);
  }
  return std::move(written.metadata);
}

}  // namespace veery
