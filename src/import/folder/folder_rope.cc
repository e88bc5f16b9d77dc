#include "import/folder/folder_rope.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

constexpr const char* kParameters = "rope_parameters";
constexpr const char* kScaling = "rope_scaling";
constexpr const char* kGlobal = "full_attention";
constexpr const char* kLocal = "sliding_attention";

// Returns the object under `key`; nullptr if there is none.
const Json* object_of(const JsonFields& fields, const char* key) {
  const Json* found = fields.find(key);
  if (found != nullptr && !found->is_object())
    throw Error(ErrorKind::kFormat, "{}: {} (RoPE parameters) is a JSON {}, expected an object",
                fields.where(), key, found->type_name());
  return found;
}

// Returns the parameters of one type of layer; nullptr if there are none.
const Json* nested(const JsonFields& fields, const Json* parameters, const char* layers) {
  if (parameters == nullptr) return nullptr;
  const auto found = parameters->find(layers);
  if (found == parameters->end() || found->is_null()) return nullptr;
  if (!found->is_object())
    throw Error(ErrorKind::kFormat, "{}: {} of {} is a JSON {}, expected an object", fields.where(),
                layers, kParameters, found->type_name());
  return &*found;
}

std::string type_of(const Json& set) {
  const auto type = set.find("rope_type");
  return type != set.end() && type->is_string() ? type->get<std::string>() : "";
}

// Returns whether a RoPE type extends a model beyond its original context.
bool knows_original(std::string_view type) {
  return type == "llama3" || type == "yarn" || type == "longrope" || type == "su";
}

// Copies the top-level field `key` to `set` as `as`, unless `set` has one.
void take(const JsonFields& fields, const char* key, Json& set, const char* as) {
  const Json* beside = fields.find(key);
  if (beside == nullptr || set.contains(as)) return;
  fields.number(key);  // throws an error that names the top-level key
  set[as] = *beside;
}

// Completes `set`: the kind under its newer name, and values that are only stated at the top level.
// `base` is the top-level key of the base frequency.
void complete(const JsonFields& fields, const FolderType& type, const char* base, Json& set) {
  const auto kind = set.find("rope_type");
  if (kind == set.end() || kind->is_null()) set["rope_type"] = set.value("type", Json("default"));
  set.erase("type");
  const std::string name = type_of(set);
  if (type.type == "phi3" && (name == "su" || name == "yarn")) set["rope_type"] = "longrope";
  take(fields, base, set, "rope_theta");
  take(fields, "partial_rotary_factor", set, "partial_rotary_factor");
}

// Reads separate sets. Layers with a window have their own, to which rope_scaling does not apply.
RopeSets two_sets(const JsonFields& fields, const FolderType& type) {
  const Json* parameters = object_of(fields, kParameters);
  const Json* scaling = object_of(fields, kScaling);
  const Json* global = nested(fields, parameters, kGlobal);
  const Json* local = nested(fields, parameters, kLocal);
  if (scaling != nullptr && parameters != nullptr && global == nullptr)
    throw Error(ErrorKind::kFormat, "{}: found {} next to {} without {}", fields.where(), kScaling,
                kParameters, kGlobal);
  RopeSets sets{global == nullptr ? Json::object() : *global,
                local == nullptr ? Json::object() : *local,
                fields.where() + ": " + (scaling != nullptr ? kScaling : kParameters)};
  if (scaling != nullptr) sets.global.update(*scaling);
  constexpr const char* kLocalBase = "rope_local_base_freq";
  if (type.local_rope == LocalRope::kUsual && !sets.local.contains("rope_theta"))
    sets.local["rope_theta"] = *fields.usual(kLocalBase);
  complete(fields, type, "rope_theta", sets.global);
  complete(fields, type, kLocalBase, sets.local);
  return sets;
}

RopeSets one_set(const JsonFields& fields, const FolderType& type) {
  const Json* parameters = object_of(fields, kParameters);
  const Json* scaling = object_of(fields, kScaling);
  if (scaling != nullptr && scaling->empty()) scaling = nullptr;
  const Json* chosen = scaling != nullptr ? scaling : parameters;
  const Json* global = nested(fields, chosen, kGlobal);
  const Json* local = nested(fields, chosen, kLocal);
  if (global == nullptr) global = chosen;
  RopeSets sets;
  sets.where = fields.where();
  if (chosen != nullptr) sets.where += std::string(": ") + (scaling ? kScaling : kParameters);
  sets.global = global == nullptr ? Json::object() : *global;
  complete(fields, type, "rope_theta", sets.global);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (fields.has(kOriginal) && knows_original(type_of(sets.global))) {
    sets.global.erase(kOriginal);
    take(fields, kOriginal, sets.global, kOriginal);
  }
  sets.local = local == nullptr ? sets.global : *local;
  complete(fields, type, "rope_theta", sets.local);
  return sets;
}

double number_at(const JsonFields& set, const char* key) {
  if (!set.has(key)) throw Error(ErrorKind::kFormat, "{}: missing {}", set.where(), key);
  return set.number(key);
}

void read_yarn(const JsonFields& set, AnglesAttr& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.beta_fast = set.number_or("beta_fast", 32);
  rope.beta_slow = set.number_or("beta_slow", 1);
  if (rope.beta_fast < rope.beta_slow)
    throw Error(ErrorKind::kFormat, "{}: beta_fast is {}, expected at least beta_slow, {}",
                set.where(), rope.beta_fast, rope.beta_slow);
  const double weight = set.number_or("mscale", 0);
  const double all = set.number_or("mscale_all_dim", 0);
  const double implied = weight != 0 && all != 0 ? yarn_magnitude(rope.factor, weight) /
                                                       yarn_magnitude(rope.factor, all)
                                                 : yarn_magnitude(rope.factor, 1);
  rope.attention_factor = set.number_or("attention_factor", implied);
  rope.truncate = set.flag_or("truncate", true);
  rope.temperature = set.number_or("llama_4_scaling_beta", 0);
}

void read_llama3(const JsonFields& set, AnglesAttr& rope) {
  rope.scaling = RopeScaling::kLlama3;
  rope.low_freq_factor = number_at(set, "low_freq_factor");
  rope.high_freq_factor = number_at(set, "high_freq_factor");
  if (!(rope.high_freq_factor > rope.low_freq_factor))
    throw Error(ErrorKind::kFormat, "{}: high_freq_factor {} is not above low_freq_factor {}",
                set.where(), rope.high_freq_factor, rope.low_freq_factor);
}

// Reads longrope's effect on the magnitude; the divisors themselves become a tensor.
void read_longrope(const JsonFields& set, AnglesAttr& rope) {
  const double implied =
      rope.factor <= 1 ? 1 : std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_context));
  rope.attention_factor = set.number_or("attention_factor", implied);
  // Phi-3.5-MoE states the magnitude explicitly, for both sets of divisors.
  const double magnitude = set.number_or("long_mscale", rope.attention_factor);
  if (set.number_or("short_mscale", magnitude) != magnitude)
    throw Error(ErrorKind::kUnsupported, "{}: short_mscale is {}, expected long_mscale, {}",
                set.where(), set.number_or("short_mscale", magnitude), magnitude);
  rope.attention_factor = magnitude;
  for (const char* key : {"short_factor", "long_factor"})
    if (!set.has(key)) throw Error(ErrorKind::kFormat, "{}: missing {}", set.where(), key);
}

// Reads scaling; rope.theta and rope.dims must be set.
void read_scaling(const JsonFields& set, const TransformerConfig& c, AnglesAttr& rope) {
  const std::string type = set.text_or("rope_type", "default");
  // In text, all sections of mrope have the same position.
  if (type == "default" || type == "mrope") return;
  if (type == "proportional") {  // the divisors become a tensor
    rope.factor = set.number_or("factor", 1);
    if (rope.factor != 1) rope.scaling = RopeScaling::kLinear;
    return;
  }
  const bool longrope = type == "longrope" || type == "su";
  // A factor of null means the ratio of the context lengths.
  const bool implied = longrope || (type == "yarn" && set.is_null("factor"));
  if (type == "dynamic") {
    // Dynamic scaling starts beyond the trained context, which sessions never exceed.
    if (!set.has("alpha")) number_at(set, "factor");
    return;
  }
  rope.original_context = set.number_or("original_max_position_embeddings", c.context);
  constexpr std::string_view kKnown[] = {"linear", "llama3", "yarn", "longrope", "su"};
  if (std::ranges::find(kKnown, type) == std::end(kKnown))
    throw Error(
        ErrorKind::kUnsupported,
        "{}: rope_type is '{}', expected default, linear, dynamic, llama3, yarn, longrope or "
        "proportional",
        set.where(), printable(type));
  rope.factor = implied ? set.number_or("factor", c.context / rope.original_context)
                        : number_at(set, "factor");
  if (type == "linear") rope.scaling = RopeScaling::kLinear;
  if (type == "llama3") read_llama3(set, rope);
  if (type == "yarn") read_yarn(set, rope);
  if (longrope) read_longrope(set, rope);
}

// With proportional RoPE all pairs have a frequency; those beyond the rotated part have 0.
bool proportional(const JsonFields& set) {
  return set.text_or("rope_type", "default") == "proportional";
}

// Returns the number of rotated dimensions per head.
int32_t rotated_dims(const JsonFields& fields, const JsonFields& set, const TransformerConfig& c,
                     int32_t head_dim) {
  // MLA states the rotated part separately; a factor only repeats it.
  const bool latent = c.latent.rank > 0;
  const int32_t all = latent ? c.latent.turned : head_dim;
  const double part = proportional(set) || latent ? 1 : set.number_or("partial_rotary_factor", 1);
  auto dims = static_cast<int32_t>(all * part);
  if (const int64_t given = fields.size_or_zero("rotary_dim"); given > 0)
    dims = static_cast<int32_t>(std::min<int64_t>(given, all));
  if (dims < 2 || dims % 2 != 0)
    throw Error(ErrorKind::kFormat, "{}: RoPE rotates {} of {} dimensions, expected an even number",
                fields.where(), dims, head_dim);
  if (part == 1 || fields.usual("partial_rotary_factor") != nullptr) return dims;
  // Families that rotate whole heads ignore the factor, unless other settings change their angles.
  if (set.text_or("rope_type", "default") != "default")
    throw Error(ErrorKind::kUnsupported,
                "{}: partial_rotary_factor is {}, expected 1: {} rotates whole heads", set.where(),
                part, c.architecture);
  return all;
}

AnglesAttr read_set(const JsonFields& fields, const Json& json, const std::string& where,
                    const TransformerConfig& c, int32_t head_dim) {
  const JsonFields set(json, Json::object(), where);
  AnglesAttr rope;
  rope.theta = number_at(set, "rope_theta");
  rope.dims = rotated_dims(fields, set, c, head_dim);
  // HunYuan's dynamic scaling is the same at all positions.
  if (set.has("alpha")) rope.theta *= std::pow(set.number("alpha"), rope.dims / (rope.dims - 2.0));
  if (!range_of_number("rope_theta").holds(rope.theta))
    throw Error(ErrorKind::kFormat, "{}: rope_theta becomes {} with alpha, expected {}", where,
                rope.theta, range_of_number("rope_theta").text());
  read_scaling(set, c, rope);
  return rope;
}

// Reads one base per layer, 0 for layers without RoPE. If layers with full attention share one base
// and layers with a window another, only the two bases are stored.
void read_layer_thetas(const JsonFields& fields, TransformerConfig& c) {
  constexpr const char* kKey = "layer_rope_theta";
  const Json* list = fields.find(kKey);
  if (list == nullptr) return;
  if (!list->is_array() || list->size() != static_cast<size_t>(c.layers))
    throw Error(ErrorKind::kFormat, "{}: {} has {} entries, expected one for each of {}",
                fields.where(), kKey, list->is_array() ? list->size() : 0, c.layers);
  double bases[2] = {0, 0};
  bool simple = true;
  c.positions.unrotated.clear();
  for (int32_t layer = 0; layer < c.layers; ++layer) {
    const Json& item = (*list)[static_cast<size_t>(layer)];
    const double theta = item.is_number() ? item.get<double>() : -1;
    const NumberRange range = range_of_number("rope_theta");
    if (theta != 0 && !range.holds(theta))
      throw Error(ErrorKind::kFormat, "{}: {} has {}, expected 0 or {}", fields.where(), kKey,
                  dump_json(item), range.text());
    c.positions.thetas.push_back(theta);
    c.positions.unrotated.push_back(theta == 0);
    double& base = bases[c.is_local(layer) ? 1 : 0];
    simple = simple && (theta == 0 || base == 0 || base == theta);
    if (theta != 0) base = theta;
  }
  if (!simple) return;
  c.positions.thetas.clear();
  c.positions.rope.theta = bases[0] > 0   ? bases[0]
                           : bases[1] > 0 ? bases[1]
                                          : c.positions.rope.theta;
  c.positions.local_rope.theta = bases[1] > 0 ? bases[1] : c.positions.rope.theta;
}

}  // namespace

RopeSets rope_sets(const JsonFields& fields, const FolderType& type) {
  return type.local_rope == LocalRope::kShared ? one_set(fields, type) : two_sets(fields, type);
}

void read_rope(const JsonFields& fields, const FolderType& type, TransformerConfig& c) {
  const RopeSets sets = rope_sets(fields, type);
  c.positions.rope = read_set(fields, sets.global, sets.where, c, c.attention.head_dim);
  const int32_t local =
      c.attention.local_head_dim > 0 ? c.attention.local_head_dim : c.attention.head_dim;
  c.positions.local_rope = sets.local == sets.global && local == c.attention.head_dim
                               ? c.positions.rope
                               : read_set(fields, sets.local, sets.where, c, local);
  // The divisors of proportional RoPE become a tensor, which only layers with full attention use.
  if (type_of(sets.local) == "proportional")
    throw Error(ErrorKind::kUnsupported, "{}: rope_type of {} is proportional, expected default",
                sets.where, kLocal);
  read_layer_thetas(fields, c);
  if (c.positions.rope.scaling == RopeScaling::kYarn)
    c.context = static_cast<int32_t>(std::min<double>(
        std::max<double>(c.context, c.positions.rope.factor * c.positions.rope.original_context),
        kMaxSize));
}

double read_yarn_magnitude(const JsonFields& fields, const FolderType& type) {
  const RopeSets sets = rope_sets(fields, type);
  const JsonFields set(sets.global, Json::object(), sets.where);
  if (set.text_or("rope_type", "default") == "default") return 1;
  return yarn_magnitude(set.number_or("factor", 1), set.number_or("mscale_all_dim", 0));
}

bool has_rope_factors(const RopeSets& sets) {
  const std::string type = type_of(sets.global);
  return type == "longrope" || type == "su" || type == "proportional";
}

std::vector<float> proportional_divisors(int32_t dims, double part) {
  const auto pairs = static_cast<size_t>(dims / 2);
  const size_t turned = std::min(pairs, static_cast<size_t>(part * dims / 2));
  std::vector<float> divisors(pairs, kStillDivisor);
  std::fill_n(divisors.begin(), turned, 1.0F);
  return divisors;
}

RopeFactors read_rope_factors(const RopeSets& sets, const TransformerConfig& c) {
  const JsonFields set(sets.global, Json::object(), sets.where);
  if (proportional(set))
    return {
        {},
        {},
        proportional_divisors(c.positions.rope.dims, set.number_or("partial_rotary_factor", 1))};
  const auto read = [&](const char* key) {
    const auto list = sets.global.find(key);
    std::vector<float> factors;
    if (list != sets.global.end() && list->is_array())
      for (const Json& item : *list) factors.push_back(item.is_number() ? item.get<float>() : NAN);
    if (factors.size() != static_cast<size_t>(c.positions.rope.dims / 2))
      throw Error(ErrorKind::kFormat, "{}: {} has {} numbers, expected {}", sets.where, key,
                  factors.size(), c.positions.rope.dims / 2);
    for (size_t i = 0; i < factors.size(); ++i)
      check_number(sets.where, fmt::format("{}[{}]", key, i), key, factors[i]);
    return factors;
  };
  return {read("short_factor"), read("long_factor"), {}};
}

}  // namespace veery
