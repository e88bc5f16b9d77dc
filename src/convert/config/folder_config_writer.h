// folder_config_writer.h: the state shared by functions that generate config.json.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery::config {

/// A configuration that is being generated.
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
    throw Error(ErrorKind::kUnsupported, "{}: config.json of {} cannot represent {}", file.path,
                type.type, what);
  }
};

/// Returns the numbers of layers without experts.
Json dense_layers(const Writer& w);
/// Returns layer_types, with "full_attention" or `recurrent` for each layer.
Json kinds_of_layers(const Writer& w, const char* recurrent);
/// Returns the ratio of Mamba-2's value width to the model's width.
int64_t expansion(const Writer& w);

/// Writes, after the sizes, the settings of a GGUF model with recurrent layers. Returns false if
/// there are no such settings. Throws kUnsupported for a type that cannot be written.
bool write_recurrent(Writer& w);

}  // namespace veery::config
