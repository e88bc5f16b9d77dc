// inspect_files.h: writes the files of `veery inspect`: arrays, pictures and their index.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "file/output/pending_folder.h"
#include "tasks/inspect/inspect.h"

namespace veery::cli {

/// The text that was inspected.
struct InspectedText {
  std::vector<int32_t> ids;
  std::vector<std::string> tokens;  ///< shown_token() of each id
};

/// Returns the lens of a layer as JSON: [positions][top] of {"id", "token", "probability"}.
Json lens_json(const LayerInspection& layer, const InspectedText& text, const Tokenizer& tokenizer);
/// Returns the properties of a layer as JSON, without values.
Json layer_json(const LayerInspection& layer);
/// Returns the text of a token with control characters escaped; "" for an id without a token.
std::string shown_token(const Tokenizer& tokenizer, int32_t id);

/// A new folder, which gets its name in commit(). Throws as PendingFolder does.
class InspectFolder {
 public:
  InspectFolder(const std::string& path, const InspectedText& text);

  /// Writes the files of one layer and adds them to the index.
  void add(const LayerInspection& layer, int32_t top);
  /// Writes embedding, final hidden states and index, and names the folder. `model`: its path.
  void commit(const Inspection& rest, const std::string& model);

 private:
  template <typename T>
  void write(Json& files, const std::string& scope, const char* name,
             const std::vector<int64_t>& shape, const std::vector<std::string>& axes,
             const std::vector<T>& values);

  PendingFolder folder_;
  const InspectedText& text_;
  Json layers_ = Json::array();
};

}  // namespace veery::cli
