// folder_config_writer.h: config.json of transformers in the making.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery::config {

/// A configuration in the making.
struct Writer {
  const ModelFile& file;
  const TransformerConfig& c;
  const FolderType& type;
  Json defaults = parse_json(type.defaults, "defaults");
  Json out = Json::object();

  bool is(std::initializer_list<std::string_view> types) const {
    return std::ranges::find(types, type.type) != types.end();
  }
  bool has(const char* tensor) const { return file.find(tensor) != nullptr; }
  bool any_layer_has(std::string_view part) const {
    const std::string end = fmt::format(".{}", part);
    return std::ranges::any_of(file.tensors,
                               [&](const TensorView& t) { return t.name.ends_with(end); });
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kUnsupported, "{}: config.json of {} cannot say {}", file.path,
                type.type, what);
  }
};

/// Layers whose feed-forward part is no mixture.
Json dense_layers(const Writer& w);
/// layer_types: "full_attention", or `recurrent`.
Json kinds_of_layers(const Writer& w, const char* recurrent);
/// How many times as wide as a row the values of Mamba-2 are.
int64_t expansion(const Writer& w);

/// Of a GGUF file whose layers are recurrent, or some of them, behind the sizes: what only such
/// models say. False: there is nothing of that kind to say. Throws kUnsupported for a type that
/// cannot be written.
bool write_recurrent(Writer& w);

}  // namespace veery::config
