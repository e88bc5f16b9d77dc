#include "import/folder/index_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

[[noreturn]] void refuse_kind(const JsonFields& fields, const char* key, const Json& item) {
  throw Error(ErrorKind::kFormat, "{}: {} has {}, expected full or shared", fields.where(), key,
              printable(dump_json(item)));
}

// Parses a list of kind names, or a string of their initials.
std::vector<bool> listed(const JsonFields& fields, const char* key) {
  const Json& list = *fields.find(key);
  std::vector<bool> layers;
  if (list.is_string()) {
    for (const char letter : list.get<std::string>()) {
      if (letter != 'F' && letter != 'S') refuse_kind(fields, key, list);
      layers.push_back(letter == 'F');
    }
    return layers;
  }
  if (!list.is_array())
    throw Error(ErrorKind::kFormat, "{}: {} is a JSON {}, expected a list", fields.where(), key,
                list.type_name());
  for (const Json& item : list) {
    if (item != "full" && item != "shared") refuse_kind(fields, key, item);
    layers.push_back(item == "full");
  }
  return layers;
}

// Marks the layers before index_skip_topk_offset, and every index_topk_freq-th layer after them.
std::vector<bool> periodic(const JsonFields& fields, int32_t layers) {
  const int64_t period = std::max<int64_t>(fields.size_or_zero("index_topk_freq"), 1);
  const int64_t offset =
      fields.has("index_skip_topk_offset") ? fields.size_or_zero("index_skip_topk_offset") : 2;
  std::vector<bool> result;
  for (int64_t i = 0; i < layers; ++i)
    result.push_back(std::max<int64_t>(i - offset + 1, 0) % period == 0);
  return result;
}

}  // namespace

void read_index(const JsonFields& fields, TransformerConfig& c) {
  IndexConfig& index = c.index;
  index.used = static_cast<int32_t>(fields.size_or_zero("index_topk"));
  if (index.used == 0) return;
  index.heads = static_cast<int32_t>(fields.size("index_n_heads"));
  index.head_dim = static_cast<int32_t>(fields.size("index_head_dim"));
  index.interleaved = fields.flag_or("indexer_rope_interleave", false);
  const char* key = fields.has("indexer_types")        ? "indexer_types"
                    : fields.has("index_topk_pattern") ? "index_topk_pattern"
                                                       : "index_topk_freq";
  index.layers =
      key == std::string_view("index_topk_freq") ? periodic(fields, c.layers) : listed(fields, key);
  if (index.layers.size() < static_cast<size_t>(c.layers))
    throw Error(ErrorKind::kFormat, "{}: {} has {} entries, expected one for each of {}",
                fields.where(), key, index.layers.size(), c.layers);
  index.layers.resize(static_cast<size_t>(c.layers));
  check_index(c, fields.where(), "qk_rope_head_dim");
}

}  // namespace veery
