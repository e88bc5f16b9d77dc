// Reads settings of config.json that differ between layers: head size, key head count, feed-forward
// width.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/folder_config.h"

namespace veery {
namespace {

struct HeadSizes {
  int64_t head_dim = 0, kv_heads = 0;
  bool operator==(const HeadSizes&) const = default;
};

constexpr const char* kPerLayer = "per_layer_config";

// Parses a key of per_layer_config as a layer number; JSON keys are strings.
size_t layer_of(const JsonFields& fields, const std::string& key, const TransformerConfig& c) {
  size_t layer = 0;
  const char* const end = key.data() + key.size();
  const auto [at, error] = std::from_chars(key.data(), end, layer);
  if (error != std::errc() || at != end || layer >= static_cast<size_t>(c.layers))
    throw Error(ErrorKind::kFormat, "{}: {} has the key '{}', expected a layer below {}",
                fields.where(), kPerLayer, printable(key), c.layers);
  return layer;
}

// Applies the settings of per_layer_config to single layers.
void read_single_layers(const JsonFields& fields, const TransformerConfig& c,
                        std::vector<HeadSizes>& sizes) {
  const Json* all = fields.find(kPerLayer);
  if (!all->is_object())
    throw Error(ErrorKind::kFormat, "{}: {} is a JSON {}, expected an object", fields.where(),
                kPerLayer, all->type_name());
  for (const auto& [key, own] : all->items()) {
    HeadSizes& layer = sizes[layer_of(fields, key, c)];
    const std::string where = fmt::format("{}: {}: {}", fields.where(), kPerLayer, key);
    if (!own.is_object())
      throw Error(ErrorKind::kFormat, "{} is a JSON {}, expected an object", where,
                  own.type_name());
    const JsonFields numbers(own, Json::object(), where);
    for (const auto& [name, value] : own.items())
      if (name != "head_dim" && name != "num_key_value_heads")
        throw Error(ErrorKind::kUnsupported, "{} has {}, expected head_dim and num_key_value_heads",
                    where, printable(name));
    if (numbers.has("head_dim")) layer.head_dim = numbers.size("head_dim");
    if (numbers.has("num_key_value_heads")) layer.kv_heads = numbers.size("num_key_value_heads");
  }
}

// Applies the keys for all layers without a window; missing ones are derived from the weights.
void read_global_layers(const JsonFields& fields, const ModelFile& file, const TransformerConfig& c,
                        std::vector<HeadSizes>& sizes) {
  for (int32_t i = 0; i < c.layers; ++i) {
    if (c.is_local(i)) continue;
    HeadSizes& layer = sizes[static_cast<size_t>(i)];
    const TensorView* queries = file.find(fmt::format("blk.{}.attn_q.weight", i));
    const int64_t rows = queries == nullptr || queries->shape.size() != 2 ? 0 : queries->shape[0];
    layer.head_dim = !fields.given("global_head_dim") && rows >= c.attention.heads
                         ? rows / c.attention.heads
                         : fields.size("global_head_dim");
    const bool own_heads =
        fields.flag_or("attention_k_eq_v", false) || c.architecture == "embedding-gemma2";
    if (own_heads && fields.has("num_global_key_value_heads"))
      layer.kv_heads = fields.size("num_global_key_value_heads");
  }
}

// Returns the common sizes of all layers with or without a window; `fallback` if there are no such
// layers.
HeadSizes common(const JsonFields& fields, const TransformerConfig& c, bool local,
                 const std::vector<HeadSizes>& sizes, const HeadSizes& fallback) {
  const HeadSizes* found = nullptr;
  for (int32_t i = 0; i < c.layers; ++i) {
    if (c.is_local(i) != local) continue;
    const HeadSizes& own = sizes[static_cast<size_t>(i)];
    if (c.attention.heads % own.kv_heads != 0)
      throw Error(ErrorKind::kFormat, "{}: {} heads do not divide among {} key heads of layer {}",
                  fields.where(), c.attention.heads, own.kv_heads, i);
    if (found != nullptr && own != *found)
      throw Error(ErrorKind::kUnsupported,
                  "{}: layer {} has {} key heads of {} dimensions, expected {} of {}, as in "
                  "previous layers {}",
                  fields.where(), i, own.kv_heads, own.head_dim, found->kv_heads, found->head_dim,
                  local ? "with a window" : "with full attention");
    found = &own;
  }
  return found == nullptr ? fallback : *found;
}

}  // namespace

void read_layer_sizes(const JsonFields& fields, const ModelFile& file, TransformerConfig& c) {
  if (c.attention.window > 0)
    c.attention.local.back() = false;  // as in transformers, regardless of layer_types
  const int64_t shared = fields.size_or_zero("num_kv_shared_layers");
  if (shared >= c.layers)
    throw Error(ErrorKind::kFormat, "{}: num_kv_shared_layers is {}, expected less than {}, all",
                fields.where(), shared, c.layers);
  c.attention.shared_kv_layers = static_cast<int32_t>(shared);
  check_shared_kv(c, fields.where());
  if (shared > 0 && fields.flag_or("use_double_wide_mlp", false))
    c.feed_forward.shared_kv_hidden = 2 * c.feed_forward.hidden;
  c.input.layer_input = fields.size_or_zero("hidden_size_per_layer_input");
  find_layer_input_rows(file, c);
  c.attention.values_are_keys = fields.flag_or("attention_k_eq_v", false);
  const HeadSizes usual{c.attention.head_dim, c.attention.kv_heads};
  std::vector<HeadSizes> sizes(static_cast<size_t>(c.layers), usual);
  if (fields.has(kPerLayer))
    read_single_layers(fields, c, sizes);
  else
    read_global_layers(fields, file, c, sizes);
  const HeadSizes global = common(fields, c, false, sizes, usual);
  const HeadSizes local = common(fields, c, true, sizes, global);
  c.attention.head_dim = static_cast<int32_t>(global.head_dim);
  c.attention.kv_heads = static_cast<int32_t>(global.kv_heads);
  if (local.head_dim != global.head_dim)
    c.attention.local_head_dim = static_cast<int32_t>(local.head_dim);
  if (local.kv_heads != global.kv_heads)
    c.attention.local_kv_heads = static_cast<int32_t>(local.kv_heads);
}

}  // namespace veery
