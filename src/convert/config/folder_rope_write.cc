#include "convert/config/folder_rope_write.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include "base/error.h"
#include "import/folder/folder_rope.h"

namespace veery {
namespace {

constexpr const char* kGlobal = "full_attention";
constexpr const char* kLocal = "sliding_attention";

std::vector<float> values_of(const ModelFile& file, const char* name) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr) return {};
  std::vector<std::byte> buffer;
  std::vector<float> values(static_cast<size_t>(tensor->elements()));
  decode(tensor->dtype, tensor->read(buffer), values);
  return values;
}

// Returns the divisor of the frequency of pair i in llama3's scaling.
double llama3_divisor(const AnglesAttr& rope, size_t i) {
  const double wave =
      2 * std::numbers::pi * std::pow(rope.theta, 2 * static_cast<double>(i) / rope.dims);
  const double turns = rope.original_context / wave;
  if (turns > rope.high_freq_factor) return 1;
  if (turns < rope.low_freq_factor) return rope.factor;
  const double blend =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1 / ((1 - blend) / rope.factor + blend);
}

// Finds parameters of llama3's scaling that yield these divisors. The frequency factors are 1 and 4
// in all models, and the original context is a power of two.
std::optional<AnglesAttr> find_llama3(const AnglesAttr& rope, const std::vector<float>& divisors) {
  AnglesAttr found = rope;
  found.scaling = RopeScaling::kLlama3;
  found.low_freq_factor = 1;
  found.high_freq_factor = 4;
  found.factor = std::ranges::max(divisors);
  for (found.original_context = 8; found.original_context <= 1 << 22; found.original_context *= 2) {
    bool same = true;
    for (size_t i = 0; i < divisors.size() && same; ++i)
      same = std::abs(llama3_divisor(found, i) - divisors[i]) < 1e-4 * divisors[i];
    if (same) return found;
  }
  return std::nullopt;
}

// Returns a fraction such that head_dim * fraction truncates to `dims`.
double rotary_part(int32_t dims, int32_t head_dim) {
  double part = static_cast<double>(dims) / head_dim;
  while (static_cast<int32_t>(head_dim * part) < dims) part = std::nextafter(part, 2);
  return part;
}

void add_yarn(const AnglesAttr& rope, Json& set) {
  set["beta_fast"] = rope.beta_fast;
  set["beta_slow"] = rope.beta_slow;
  if (!rope.truncate) set["truncate"] = false;
  const double implied = yarn_magnitude(rope.factor, 1);
  if (rope.temperature > 0) set["llama_4_scaling_beta"] = rope.temperature;
  if (std::abs(rope.attention_factor - implied) <= 1e-6) return;
  set["attention_factor"] = rope.attention_factor;
  // For programs that do not know attention_factor.
  if (std::abs(rope.attention_factor - 1) <= 1e-6) set["mscale"] = set["mscale_all_dim"] = 1.0;
}

Json set_of(const AnglesAttr& rope, int32_t head_dim) {
  Json set = {{"rope_theta", shortest(static_cast<float>(rope.theta))}, {"rope_type", "default"}};
  if (rope.dims != head_dim) set["partial_rotary_factor"] = rotary_part(rope.dims, head_dim);
  if (rope.scaling == RopeScaling::kNone) return set;
  set["factor"] = shortest(static_cast<float>(rope.factor));
  if (rope.scaling == RopeScaling::kLinear) {
    set["rope_type"] = "linear";
    return set;
  }
  set["original_max_position_embeddings"] = static_cast<int64_t>(rope.original_context);
  if (rope.scaling == RopeScaling::kLlama3) {
    set["rope_type"] = "llama3";
    set["low_freq_factor"] = rope.low_freq_factor;
    set["high_freq_factor"] = rope.high_freq_factor;
  } else {
    set["rope_type"] = "yarn";
    add_yarn(rope, set);
  }
  return set;
}

Json longrope(const AnglesAttr& rope, int32_t head_dim, const std::vector<float>& shorter,
              const std::vector<float>& longer, int64_t original, int64_t context) {
  Json set = set_of(rope, head_dim);
  set["rope_type"] = "longrope";
  for (const auto& [key, values] : {std::pair("short_factor", &shorter), {"long_factor", &longer}})
    for (const float value : *values) set[key].push_back(shortest(value));
  set["original_max_position_embeddings"] = original;
  const double factor = static_cast<double>(context) / static_cast<double>(original);
  const double implied =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
  if (std::abs(rope.attention_factor - implied) > 1e-6)
    set["attention_factor"] = rope.attention_factor;
  return set;
}

// Returns the fraction of rotating pairs if `divisors` stop all other pairs.
std::optional<double> turning_part(const std::vector<float>& divisors, int32_t dims) {
  const auto turned = std::ranges::find(divisors, kStillDivisor) - divisors.begin();
  const double part = rotary_part(static_cast<int32_t>(2 * turned), dims);
  if (divisors != proportional_divisors(dims, part)) return std::nullopt;
  return part;
}

Json global_set(const ModelFile& file, const TransformerConfig& c, const FolderType& type) {
  if (const std::vector<float> freqs = values_of(file, "rope_freqs.weight"); !freqs.empty()) {
    if (const auto part = turning_part(freqs, c.positions.rope.dims);
        part && type.architecture == "gemma4") {
      Json set = set_of(c.positions.rope, c.attention.head_dim);
      set["rope_type"] = "proportional";
      set["partial_rotary_factor"] = *part;
      return set;
    }
    if (const auto found = find_llama3(c.positions.rope, freqs))
      return set_of(*found, c.attention.head_dim);
    return longrope(c.positions.rope, c.attention.head_dim, freqs, freqs, c.context, c.context);
  }
  const std::vector<float> shorter = values_of(file, "rope_factors_short.weight");
  const std::vector<float> longer = values_of(file, "rope_factors_long.weight");
  if (shorter.empty() || longer.empty()) return set_of(c.positions.rope, c.attention.head_dim);
  return longrope(c.positions.rope, c.attention.head_dim, shorter, longer,
                  static_cast<int64_t>(c.positions.rope.original_context), c.context);
}

// Returns whether config.json of a type implies a scaling when it states none.
bool says_scaling(const FolderType& type) {
  return parse_json(type.defaults, "defaults").contains("rope_parameters");
}

// Returns whether longrope's factor equals the ratio of the two contexts.
bool is_implied_factor(const Json& config, const Json& set) {
  const auto number = [](const Json& object, const char* key) {
    return object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0;
  };
  const double factor = number(set, "factor");
  return factor * number(config, "original_max_position_embeddings") ==
         number(config, "max_position_embeddings");
}

}  // namespace

double shortest(float value) { return std::stod(fmt::format("{}", value)); }

Json rope_parameters(const ModelFile& file, const TransformerConfig& c, const FolderType& type) {
  const bool parts =
      std::string_view(type.defaults).find("partial_rotary_factor") != std::string_view::npos;
  if (file.container == Container::kGguf && c.latent.rank == 0 &&
      c.positions.rope.dims != c.attention.head_dim && !parts)
    throw Error(ErrorKind::kUnsupported,
                "{}: config.json of {} cannot represent RoPE over {} of {} dimensions", file.path,
                type.type, c.positions.rope.dims, c.attention.head_dim);
  Json global = global_set(file, c, type);
  if (type.local_rope == LocalRope::kShared) {
    if (c.attention.window > 0 && !c.attention.local.empty() &&
        !(c.positions.local_rope == c.positions.rope))
      throw Error(ErrorKind::kUnsupported,
                  "{}: config.json of {} cannot represent different RoPE of local layers",
                  file.path, type.type);
    return global;
  }
  const int32_t local =
      c.attention.local_head_dim > 0 ? c.attention.local_head_dim : c.attention.head_dim;
  return {{kGlobal, std::move(global)}, {kLocal, set_of(c.positions.local_rope, local)}};
}

void add_old_rope_keys(Json& config, const FolderType& type) {
  const auto found = config.find("rope_parameters");
  if (found == config.end() || !found->is_object()) return;
  const bool nested = found->contains(kGlobal);
  Json set = nested ? (*found)[kGlobal] : *found;
  if (nested && found->contains(kLocal) && type.local_rope == LocalRope::kOwn)
    config["rope_local_base_freq"] = (*found)[kLocal].value("rope_theta", 10000.0);
  const double theta = set.value("rope_theta", 10000.0);
  config["rope_theta"] = theta;
  set.erase("rope_theta");
  if (set.contains("partial_rotary_factor"))
    config["partial_rotary_factor"] = set["partial_rotary_factor"];
  if (type.type == "gpt_neox") {
    config["rotary_emb_base"] = theta;
    config["rotary_pct"] = config.value("partial_rotary_factor", 0.25);
  }
  const std::string kind = set.value("rope_type", "default");
  config["rope_scaling"] = nullptr;
  // Some families imply a scaling when none is stated.
  if (kind == "default" && says_scaling(type)) config["rope_scaling"] = {{"rope_type", kind}};
  if (kind == "default") return;
  if (type.type == "phi3" && set.contains("original_max_position_embeddings"))
    config["original_max_position_embeddings"] = set["original_max_position_embeddings"];
  // Older versions of transformers reject additional keys.
  if (type.type == "phi3" && kind == "longrope") {
    if (is_implied_factor(config, set)) set.erase("factor");
    for (const char* key :
         {"rope_type", "original_max_position_embeddings", "partial_rotary_factor"})
      set.erase(key);
  }
  set["type"] = kind;
  config["rope_scaling"] = std::move(set);
}

}  // namespace veery
