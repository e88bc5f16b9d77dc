#include "model/number_ranges.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/config.h"

namespace veery {
namespace {

// Wide enough for every published model, and narrow enough that results stay finite in f32.
constexpr NumberRange kEpsilon{0, 1};
constexpr NumberRange kBase{1, 1e15};
constexpr NumberRange kFactor{1e-3, 1e6};
constexpr NumberRange kMagnitude{1e-3, 1e3};
constexpr NumberRange kWeight{0, 1e2};
constexpr NumberRange kTurns{1e-3, 1e4};
constexpr NumberRange kPositions{1, kMaxSize};
constexpr NumberRange kScale{1e-6, 1e6};
constexpr NumberRange kCap{1e-2, 1e6, true};
constexpr NumberRange kShare{0, 1};
constexpr NumberRange kLayers{1, 4096};
constexpr NumberRange kExperts{1, 1 << 16};

struct Row {
  std::string_view key;
  NumberRange range;
};

constexpr Row kNumbers[] = {
    // norms
    {"attention.layer_norm_rms_epsilon", kEpsilon},
    {"attention.layer_norm_epsilon", kEpsilon},
    {"attention.latent_rms_epsilon", kEpsilon},
    {"rms_norm_eps", kEpsilon},
    // RoPE
    {"rope.freq_base", kBase},
    {"rope.freq_base_swa", kBase},
    {"rope_theta", kBase},
    {"rope_local_base_freq", kBase},
    {"global_rope_theta", kBase},
    {"local_rope_theta", kBase},
    {"rope.scaling.factor", kFactor},
    {"rope.scale_linear", kFactor},
    {"factor", kFactor},
    {"rope.scaling.original_context_length", kPositions},
    {"original_max_position_embeddings", kPositions},
    {"partial_rotary_factor", kShare},
    {"alpha", {1e-3, std::numeric_limits<double>::max()}},
    {"rope.scaling.attn_factor", kMagnitude},
    {"rope.scaling.yarn_attn_factor", kMagnitude},
    {"attention_factor", kMagnitude},
    {"long_mscale", kMagnitude},
    {"short_mscale", kMagnitude},
    {"short_factor", kFactor},
    {"long_factor", kFactor},
    {"rope_freqs.weight", {1e-3, 1e31}},  // 1e30 marks pairs without rotation
    {"rope_factors_short.weight", kFactor},
    {"rope_factors_long.weight", kFactor},
    {"mscale", kWeight},
    {"mscale_all_dim", kWeight},
    {"rope.scaling.yarn_log_multiplier", kWeight},
    {"rope.scaling.yarn_beta_fast", kTurns},
    {"rope.scaling.yarn_beta_slow", kTurns},
    {"beta_fast", kTurns},
    {"beta_slow", kTurns},
    {"low_freq_factor", kTurns},
    {"high_freq_factor", kTurns},
    {"attention.temperature_scale", kWeight},
    {"attention.temperature_length", kPositions},
    {"llama_4_scaling_beta", kWeight},
    {"attn_scale", kWeight},
    // factors on values
    {"attention.scale", kScale},
    {"attention_multiplier", kScale},
    {"query_pre_attn_scalar", kScale},
    {"embedding_scale", kScale},
    {"embedding_multiplier", kScale},
    {"residual_scale", kScale},
    {"residual_multiplier", kScale},
    {"attention_in_multiplier", kScale},
    {"attention_out_multiplier", kScale},
    {"key_multiplier", kScale},
    {"ssm_in_multiplier", kScale},
    {"ssm_out_multiplier", kScale},
    {"scale_depth", kScale},
    {"dim_model_base", {1, kMaxSize}},
    {"logit_scale", kScale},
    {"logits_scaling", kScale},
    {"attn_logit_softcapping", kCap},
    {"final_logit_softcapping", kCap},
    {"attention.max_alibi_bias", {1e-3, 1e3}},
    {"alibi_bias_max", {1e-3, 1e3}},
    // experts
    {"expert_weights_scale", {1e-6, 1e6, true}},
    {"routed_scaling_factor", kScale},
    {"expert_jitter", kShare},
    {"expert_sum_scale", kScale},
    {"router_jitter_noise", kShare},
    {"swiglu_limit", kCap},
    {"swiglu_alpha", kMagnitude},
    // activations
    {"xielu.alpha_p", {-1e3, 1e3}},
    {"xielu.alpha_n", {-1e3, 1e3}},
    {"xielu.beta", {-1e3, 1e3}},
    {"xielu.eps", {-1, 1}},
};

// Limits the work per layer and expert before their tensors are looked up.
constexpr Row kSizes[] = {
    {"block_count", kLayers},          {"num_hidden_layers", kLayers},
    {"nextn_predict_layers", kLayers}, {"num_nextn_predict_layers", kLayers},
    {"expert_count", kExperts},        {"num_experts", kExperts},
    {"num_local_experts", kExperts},   {"n_routed_experts", kExperts},
    {"num_kv_shared_layers", kLayers}, {"attention.shared_kv_layers", kLayers},
};

NumberRange find(std::span<const Row> rows, std::string_view key, NumberRange usual) {
  const auto row = std::ranges::find(rows, key, &Row::key);
  return row == rows.end() ? usual : row->range;
}

}  // namespace

std::string NumberRange::text() const {
  constexpr double kMost = std::numeric_limits<double>::max();
  const std::string zero = or_zero ? "0, or " : "";
  if (low == -kMost && high == kMost) return "a finite number";
  // Whole numbers of moderate size are written without an exponent.
  const auto digits = [](double bound) {
    return bound >= 1 && bound <= kMaxSize ? fmt::format("{:.0f}", bound)
                                           : fmt::format("{:g}", bound);
  };
  if (high == kMost) return fmt::format("{}{} or more", zero, digits(low));
  return fmt::format("{}{} to {}", zero, digits(low), digits(high));
}

NumberRange range_of_number(std::string_view key) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return find(kNumbers, key, {-kMost, kMost});
}

NumberRange range_of_size(std::string_view key) {
  return find(kSizes, key, {1, static_cast<double>(kMaxSize)});
}

std::string number_digits(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? fmt::format("{}", narrow)
                                              : fmt::format("{}", value);
}

void check_number(std::string_view where, std::string_view name, std::string_view key,
                  double value) {
  const NumberRange range = range_of_number(key);
  if (!range.holds(value))
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected {}", where, name, number_digits(value),
                range.text());
}

std::optional<double> checked_number(const Metadata& metadata, const std::string& key) {
  const std::optional<double> value = metadata.number(key);
  if (value) check_number("metadata", key, key.substr(key.find('.') + 1), *value);
  return value;
}

}  // namespace veery
