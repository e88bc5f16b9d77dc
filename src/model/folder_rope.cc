#include "model/folder_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "file/printable.h"

namespace veery {
namespace {

double positive(const JsonFields& fields, const char* key, double fallback) {
  const double value = fields.number_or(key, fallback);
  if (!(value > 0))
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected more than 0", fields.where(), key,
                value);
  return value;
}

void read_yarn(const JsonFields& scaling, AnglesAttr& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.beta_fast = positive(scaling, "beta_fast", 32);
  rope.beta_slow = positive(scaling, "beta_slow", 1);
  const double weight = scaling.number_or("mscale", 0);
  const double all = scaling.number_or("mscale_all_dim", 0);
  const double implied = weight != 0 && all != 0 ? yarn_magnitude(rope.factor, weight) /
                                                       yarn_magnitude(rope.factor, all)
                                                 : yarn_magnitude(rope.factor, 1);
  rope.attention_factor = scaling.number_or("attention_factor", implied);
  rope.truncate = scaling.flag_or("truncate", true);
  rope.temperature = scaling.number_or("llama_4_scaling_beta", 0);
  if (!(rope.temperature >= 0))
    throw Error(ErrorKind::kFormat, "{}: llama_4_scaling_beta is {}, expected 0 or more",
                scaling.where(), rope.temperature);
}

// The scaling in `scaling` (rope_scaling, or a set of rope_parameters); theta and dims are set.
void read_scaling(const JsonFields& fields, const JsonFields& scaling, const DecoderConfig& c,
                  AnglesAttr& rope) {
  std::string type = scaling.text_or("rope_type", "");
  if (type.empty()) type = scaling.text_or("type", "default");
  // Dynamic scaling begins beyond the trained context, which sessions never reach; the sections of
  // mrope have the same position in text.
  if (type == "default" || type == "dynamic" || type == "mrope") return;
  const double original = fields.number_or("original_max_position_embeddings", c.context);
  rope.original_context = positive(scaling, "original_max_position_embeddings", original);
  rope.factor = positive(scaling, "factor", c.context / rope.original_context);
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.low_freq_factor = positive(scaling, "low_freq_factor", 1);
    rope.high_freq_factor = positive(scaling, "high_freq_factor", 4);
    if (!(rope.high_freq_factor > rope.low_freq_factor))
      throw Error(ErrorKind::kFormat, "{}: high_freq_factor {} is not above low_freq_factor {}",
                  scaling.where(), rope.high_freq_factor, rope.low_freq_factor);
  } else if (type == "yarn") {
    read_yarn(scaling, rope);
  } else if (type == "longrope" || type == "su") {
    // The divisors are a weight; here is only what they do to the magnitude.
    const double implied =
        rope.factor <= 1 ? 1
                         : std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_context));
    rope.attention_factor = scaling.number_or("attention_factor", implied);
    // Phi-3.5-MoE says it itself, for both sets of divisors.
    const double magnitude = scaling.number_or("long_mscale", rope.attention_factor);
    if (scaling.number_or("short_mscale", magnitude) != magnitude)
      throw Error(ErrorKind::kUnsupported, "{}: short_mscale is {}, expected long_mscale, {}",
                  scaling.where(), scaling.number_or("short_mscale", magnitude), magnitude);
    rope.attention_factor = magnitude;
  } else {
    throw Error(
        ErrorKind::kUnsupported,
        "{}: rope_type is '{}', expected default, linear, dynamic, llama3, yarn or longrope",
        scaling.where(), printable(type));
  }
}

AnglesAttr read_set(const JsonFields& fields, const Json* set, const char* theta,
                    const DecoderConfig& c) {
  static const Json kNone = Json::object();
  if (set != nullptr && !set->is_object())
    throw Error(ErrorKind::kFormat, "{}: the parameters of RoPE are a JSON {}, expected an object",
                fields.where(), set->type_name());
  const JsonFields scaling(set == nullptr ? kNone : *set, Json::object(), fields.where());
  AnglesAttr rope;
  rope.theta = positive(scaling, "rope_theta", fields.number_or(theta, 10000));
  const double part =
      scaling.number_or("partial_rotary_factor", fields.number_or("partial_rotary_factor", 1));
  const int32_t turned = c.latent.rank > 0 ? c.latent.turned : c.head_dim;
  rope.dims = static_cast<int32_t>(turned * std::clamp(part, 0.0, 1.0));
  if (const int64_t given = fields.size_or_zero("rotary_dim"); given > 0)
    rope.dims = static_cast<int32_t>(std::min<int64_t>(given, turned));
  if (rope.dims < 2 || rope.dims % 2 != 0)
    throw Error(ErrorKind::kFormat, "{}: rope turns {} of {} dimensions, expected an even number",
                fields.where(), rope.dims, c.head_dim);
  // HunYuan's dynamic scaling is the same everywhere.
  if (scaling.has("alpha"))
    rope.theta *= std::pow(positive(scaling, "alpha", 1), rope.dims / (rope.dims - 2.0));
  if (!std::isfinite(rope.theta))
    throw Error(ErrorKind::kFormat, "{}: rope_theta becomes {} with alpha", fields.where(),
                rope.theta);
  read_scaling(fields, scaling, c, rope);
  return rope;
}

// The one set of parameters, or that of layers that see everything.
const Json* global_set(const JsonFields& fields) {
  const Json* parameters = fields.find("rope_parameters");
  if (parameters == nullptr) return fields.find("rope_scaling");
  if (!parameters->is_object()) return parameters;
  const auto nested = parameters->find("full_attention");
  return nested == parameters->end() || nested->is_null() ? parameters : &*nested;
}

}  // namespace

void read_rope(const JsonFields& fields, bool local_unscaled, DecoderConfig& c) {
  c.rope = read_set(fields, global_set(fields), "rope_theta", c);
  c.local_rope = c.rope;
  const Json* parameters = fields.find("rope_parameters");
  if (parameters != nullptr && parameters->is_object() && parameters->contains("sliding_attention"))
    c.local_rope = read_set(fields, &(*parameters)["sliding_attention"], "rope_local_base_freq", c);
  else if (parameters == nullptr && fields.has("rope_local_base_freq"))
    c.local_rope = read_set(fields, nullptr, "rope_local_base_freq", c);
  else if (local_unscaled)
    c.local_rope = {.dims = c.rope.dims, .theta = c.rope.theta};
  if (c.rope.scaling == RopeScaling::kYarn)
    c.context = static_cast<int32_t>(std::min<double>(
        std::max<double>(c.context, c.rope.factor * c.rope.original_context), kMaxSize));
}

double read_yarn_magnitude(const JsonFields& fields) {
  const Json* set = global_set(fields);
  if (set == nullptr || !set->is_object()) return 1;
  const JsonFields scaling(*set, Json::object(), fields.where());
  return yarn_magnitude(scaling.number_or("factor", 1), scaling.number_or("mscale_all_dim", 0));
}

bool has_rope_factors(const JsonFields& fields) {
  const Json* set = global_set(fields);
  return set != nullptr && set->is_object() && set->contains("long_factor");
}

RopeFactors read_rope_factors(const JsonFields& fields, const DecoderConfig& c) {
  const Json* set = global_set(fields);
  const auto read = [&](const char* key) {
    const auto list = set->find(key);
    std::vector<float> factors;
    if (list != set->end() && list->is_array())
      for (const Json& item : *list) factors.push_back(item.is_number() ? item.get<float>() : 0);
    const bool positive = std::ranges::all_of(
        factors, [](float factor) { return std::isfinite(factor) && factor > 0; });
    if (factors.size() != static_cast<size_t>(c.rope.dims / 2) || !positive)
      throw Error(ErrorKind::kFormat, "{}: {} has {} numbers, expected {} above 0", fields.where(),
                  key, factors.size(), c.rope.dims / 2);
    return factors;
  };
  return {read("short_factor"), read("long_factor")};
}

}  // namespace veery
