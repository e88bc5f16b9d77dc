#include "import/folder/recurrent_config.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

using Keys = std::initializer_list<const char*>;

// Returns the first of the keys that exists, else the first one, for the error message.
const char* key_of(const JsonFields& fields, Keys keys) {
  const auto found = std::ranges::find_if(keys, [&](const char* key) { return fields.has(key); });
  return found == keys.end() ? *keys.begin() : *found;
}
int32_t size_of(const JsonFields& fields, Keys keys) {
  return static_cast<int32_t>(fields.size(key_of(fields, keys)));
}

// The names of layer kinds in config.json: one for recurrent layers, several for other layers.
struct LayerNames {
  std::string_view recurrent, others[4];
};
std::vector<bool> named_layers(const JsonFields& fields, const char* key, int32_t layers,
                               const LayerNames& names) {
  const Json& list = *fields.find(key);
  if (!list.is_array() || list.size() != static_cast<size_t>(layers))
    throw Error(ErrorKind::kFormat, "{}: {} has {} entries, expected one for each of {}",
                fields.where(), key, list.is_array() ? list.size() : 0, layers);
  std::vector<bool> flags;
  for (const Json& type : list) {
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    const bool known =
        name == names.recurrent || std::ranges::find(names.others, name) != std::end(names.others);
    if (!known || name.empty())
      throw Error(ErrorKind::kUnsupported, "{}: {} has '{}', expected {} or {}", fields.where(),
                  key, printable(name), names.recurrent, names.others[0]);
    flags.push_back(name == names.recurrent);
  }
  return flags;
}

// Returns flags that are true for all layers except the listed ones.
std::vector<bool> unlisted_layers(const JsonFields& fields, const char* key, int32_t layers) {
  const Json& list = *fields.find(key);
  std::vector<bool> flags(static_cast<size_t>(layers), true);
  for (const Json& item : list.is_array() ? list : Json::array({list})) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() >= static_cast<uint64_t>(layers))
      throw Error(ErrorKind::kFormat, "{}: {} has {}, expected the number of a layer below {}",
                  fields.where(), key, dump_json(item), layers);
    flags[item.get<size_t>()] = false;
  }
  return flags;
}

void check_heads(const JsonFields& fields, const RecurrentConfig& r, Keys heads, Keys groups) {
  if (r.heads % r.key_heads != 0)
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected a multiple of {}, {}", fields.where(),
                fields.name(key_of(fields, heads)), r.heads, fields.name(key_of(fields, groups)),
                r.key_heads);
}

void read_delta(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  if (fields.has("layer_types"))
    r.layers = named_layers(fields, "layer_types", c.layers,
                            {"linear_attention", {"full_attention", "full_attention"}});
  else
    r.layers =
        local_pattern(c.layers, static_cast<int32_t>(fields.size("full_attention_interval")));
  r.conv_width = size_of(fields, {"linear_conv_kernel_dim"});
  r.key_size = size_of(fields, {"linear_key_head_dim"});
  r.value_size = size_of(fields, {"linear_value_head_dim"});
  r.key_heads = size_of(fields, {"linear_num_key_heads"});
  r.heads = size_of(fields, {"linear_num_value_heads"});
  check_heads(fields, r, {"linear_num_value_heads"}, {"linear_num_key_heads"});
}

// Reads a bound of the step size, a number or transformers' notation of infinity.
float limit_of(const JsonFields& fields, const Json& item) {
  if (item.is_number()) return item.get<float>();
  const auto marked = item.is_object() ? item.find("__float__") : item.end();
  if (marked != item.end() && *marked == "Infinity") return std::numeric_limits<float>::infinity();
  throw Error(ErrorKind::kFormat, "{}: time_step_limit has {}, expected a number", fields.where(),
              dump_json(item));
}

// Reads which layers are Mamba layers. Returns true if none is.
bool read_mamba_layers(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  for (const char* list : {"layer_types", "layers_block_type"}) {
    if (!fields.has(list)) continue;
    const Json& names = *fields.find(list);
    if (c.architecture == "nemotron_h") {
      r.layers = named_layers(fields, list, c.layers, {"mamba", {"attention", "mlp", "moe"}});
      for (const Json& name : names) c.feed_forward.alone.push_back(name == "mlp" || name == "moe");
      if (std::ranges::count(r.layers, true) == 0) r.mixer = Mixer::kNone;
      return r.mixer == Mixer::kNone;
    }
    const bool newer = names.is_array() && std::ranges::any_of(names, [](const Json& name) {
                         return name == "linear_attention";
                       });
    r.layers =
        named_layers(fields, list, c.layers,
                     {newer ? "linear_attention" : "mamba", {"attention", "full_attention"}});
    if (std::ranges::count(r.layers, true) == 0) r.mixer = Mixer::kNone;
    return r.mixer == Mixer::kNone;
  }
  if (fields.has("attn_layer_indices"))
    r.layers = unlisted_layers(fields, "attn_layer_indices", c.layers);
  return false;
}

// Mamba 1: derives the sizes from the width. Every attn_layer_period-th layer, from
// attn_layer_offset on, is an attention layer.
void read_mamba1(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  const int64_t period = fields.size("attn_layer_period");
  const int64_t offset = fields.size_or_zero("attn_layer_offset");
  if (offset >= period)
    throw Error(ErrorKind::kFormat, "{}: attn_layer_offset is {}, expected less than {}, {}",
                fields.where(), offset, fields.name("attn_layer_period"), period);
  for (int32_t i = 0; i < c.layers; ++i) r.layers.push_back(i % period != offset);
  if (std::ranges::count(r.layers, true) == 0) {
    r.mixer = Mixer::kNone;
    return;
  }
  r.heads = r.key_heads = 1;
  r.conv_width = size_of(fields, {"mamba_d_conv"});
  r.key_size = size_of(fields, {"mamba_d_state"});
  const int64_t inner = fields.size("mamba_expand") * c.dim;
  if (inner > kMaxSize)
    throw Error(ErrorKind::kFormat, "{}: mamba_expand makes {} columns, expected up to {}",
                fields.where(), inner, kMaxSize);
  r.value_size = static_cast<int32_t>(inner);
  const Json* rank = fields.find("mamba_dt_rank");
  constexpr int64_t kWidthOfRank = 16;
  r.rank = rank != nullptr && *rank == "auto"
               ? static_cast<int32_t>((c.dim + kWidthOfRank - 1) / kWidthOfRank)
               : size_of(fields, {"mamba_dt_rank"});
}

void read_mamba2(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  if (read_mamba_layers(fields, c)) return;
  r.conv_width = size_of(fields, {"mamba_d_conv", "conv_kernel"});
  r.heads = size_of(fields, {"mamba_n_heads", "mamba_num_heads", "num_heads"});
  r.value_size = size_of(fields, {"mamba_d_head", "mamba_head_dim", "head_dim"});
  r.key_heads = size_of(fields, {"mamba_n_groups", "n_groups"});
  r.key_size = size_of(fields, {"mamba_d_state", "ssm_state_size", "state_size"});
  r.groups = r.key_heads;
  r.norm_first =
      fields.flag_or("mamba_rms_norm", false) && fields.flag_or("mamba_norm_before_gate", false);
  check_heads(fields, r, {"mamba_n_heads", "mamba_num_heads", "num_heads"},
              {"mamba_n_groups", "n_groups"});
  if (const Json* limits = fields.find("time_step_limit")) {
    if (!limits->is_array() || limits->size() != 2)
      throw Error(ErrorKind::kFormat, "{}: time_step_limit is {}, expected two numbers",
                  fields.where(), dump_json(*limits));
    r.least_step = limit_of(fields, (*limits)[0]);
    r.most_step = limit_of(fields, (*limits)[1]);
  }
}

// Returns item `at` of a list of factors; 1 if there is no list.
float listed_factor(const JsonFields& fields, const char* key, size_t count, size_t at) {
  const Json* list = fields.find(key);
  if (list == nullptr) return 1;
  const bool fits = list->is_array() && list->size() == count &&
                    std::ranges::all_of(*list, [](const Json& item) { return item.is_number(); });
  const double value = fits ? (*list)[at].get<double>() : 0;
  if (!fits || !range_of_number("key_multiplier").holds(value))
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected {} numbers, {}", fields.where(), key,
                dump_json(*list), count, range_of_number("key_multiplier").text());
  return static_cast<float>(value);
}

// Published files of Kimi Linear have an object with 1-based layer numbers, newer ones the same
// keys as Qwen.
void read_kda(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  constexpr const char* kNested = "linear_attn_config";
  if (!fields.has(kNested)) {
    r.layers = named_layers(fields, "layer_types", c.layers,
                            {"linear_attention", {"full_attention", "full_attention"}});
    r.heads = size_of(fields, {"linear_num_heads"});
    r.key_size = size_of(fields, {"linear_head_dim"});
    r.conv_width = size_of(fields, {"linear_conv_kernel_dim"});
  } else {
    const JsonFields nested(*fields.find(kNested), Json::object(), fields.where() + ": " + kNested);
    const Json* list = nested.find("kda_layers");
    if (list == nullptr || !list->is_array())
      throw Error(ErrorKind::kFormat, "{}: kda_layers is not a list", nested.where());
    r.layers.assign(static_cast<size_t>(c.layers), false);
    for (const Json& item : *list) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() < 1 ||
          item.get<uint64_t>() > static_cast<uint64_t>(c.layers))
        throw Error(ErrorKind::kFormat,
                    "{}: kda_layers has {}, expected the number of a layer, 1 to {}",
                    nested.where(), dump_json(item), c.layers);
      r.layers[item.get<size_t>() - 1] = true;
    }
    r.heads = size_of(nested, {"num_heads"});
    r.key_size = size_of(nested, {"head_dim"});
    r.conv_width = size_of(nested, {"short_conv_kernel_size"});
  }
  r.key_heads = r.heads;
  r.value_size = r.key_size;
}

// xLSTM states its sizes as factors of the width.
void read_mlstm(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  const auto part = [&](const char* factor) {
    return static_cast<int64_t>(static_cast<double>(c.dim) * fields.number(factor));
  };
  r.heads = r.key_heads = size_of(fields, {"num_heads"});
  const int64_t keys = part("qk_dim_factor"), values = part("v_dim_factor");
  if (keys < 1 || values < 1 || keys % r.heads != 0 || values % r.heads != 0)
    throw Error(
        ErrorKind::kFormat,
        "{}: num_heads is {}, expected a divisor of the {} columns of queries and the {} of "
        "values",
        fields.where(), r.heads, keys, values);
  r.key_size = static_cast<int32_t>(keys / r.heads);
  r.value_size = static_cast<int32_t>(values / r.heads);
  r.gate_softcap = static_cast<float>(fields.number_or("gate_soft_cap", 0));
  r.divisor_eps = static_cast<float>(fields.number("eps"));
  const int64_t multiple = fields.size("ffn_round_up_to_multiple_of");
  const double hidden = static_cast<double>(c.dim) * fields.number("ffn_proj_factor");
  c.feed_forward.hidden = static_cast<int64_t>((hidden + static_cast<double>(multiple) - 1) /
                                               static_cast<double>(multiple)) *
                          multiple;
}

// RWKV-7: the heads cover the whole width. Hybrid models with attention layers, or with a different
// value width, are not supported.
void read_rwkv7(const JsonFields& fields, TransformerConfig& c) {
  RecurrentConfig& r = c.recurrent;
  r.key_size = r.value_size = size_of(fields, {"head_dim"});
  if (c.dim % r.key_size != 0)
    throw Error(ErrorKind::kFormat, "{}: head_dim is {}, expected a divisor of {}, {}",
                fields.where(), r.key_size, fields.name("hidden_size"), c.dim);
  r.heads = r.key_heads = static_cast<int32_t>(c.dim / r.key_size);
  if (fields.has("attn"))
    throw Error(ErrorKind::kUnsupported,
                "{}: attn is given, expected a model without attention layers", fields.where());
  const Json* values = fields.find("value_dim");
  if (values == nullptr) return;
  for (const Json& item : values->is_array() ? *values : Json::array({*values}))
    if (item != c.dim)
      throw Error(ErrorKind::kUnsupported, "{}: value_dim has {}, expected {}, {}", fields.where(),
                  dump_json(item), fields.name("hidden_size"), c.dim);
}

void read_short_conv(const JsonFields& fields, TransformerConfig& c) {
  if (fields.has("layer_types"))
    c.recurrent.layers = named_layers(fields, "layer_types", c.layers,
                                      {"conv", {"full_attention", "sliding_attention"}});
  else
    c.recurrent.layers = unlisted_layers(fields, "full_attn_idxs", c.layers);
  c.recurrent.conv_width = size_of(fields, {"conv_L_cache"});
}

}  // namespace

void read_multipliers(const JsonFields& fields, TransformerConfig& c) {
  Multipliers& m = c.multipliers;
  const auto factor = [&](const char* key) { return static_cast<float>(fields.number_or(key, 1)); };
  m.attention_in = factor("attention_in_multiplier");
  m.attention_out = factor("attention_out_multiplier");
  m.keys = factor("key_multiplier");
  m.recurrent_in = factor("ssm_in_multiplier");
  m.recurrent_out = factor("ssm_out_multiplier");
  m.recurrent_gate = listed_factor(fields, "ssm_multipliers", 5, 0);
  for (size_t i = 0; i < m.channels.size(); ++i)
    m.channels[i] = listed_factor(fields, "ssm_multipliers", m.channels.size() + 1, i + 1);
  m.gate = listed_factor(fields, "mlp_multipliers", 2, 0);
  m.down = listed_factor(fields, "mlp_multipliers", 2, 1);
}

void read_recurrent(const JsonFields& fields, Mixer mixer, TransformerConfig& c) {
  c.recurrent.mixer = mixer;
  switch (mixer) {
    case Mixer::kNone: return;
    case Mixer::kDelta: return read_delta(fields, c);
    case Mixer::kMamba1: return read_mamba1(fields, c);
    case Mixer::kMamba2: return read_mamba2(fields, c);
    case Mixer::kKda: return read_kda(fields, c);
    case Mixer::kMlstm: return read_mlstm(fields, c);
    case Mixer::kRwkv7: return read_rwkv7(fields, c);
    case Mixer::kXlstmBlocks: return;  // all its settings are sizes of tensors
    case Mixer::kShortConv: return read_short_conv(fields, c);
  }
}

}  // namespace veery
