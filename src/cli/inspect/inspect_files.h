// inspect_files.h: what `veery inspect` writes: arrays, pictures, and an index of them.
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
  std::vector<std::string> tokens;  ///< of each id, fit to be shown
};

/// Tokens of an inspection as JSON: [positions][top] of id, token and probability.
Json lens_json(const LayerInspection& layer, const InspectedText& text, const Tokenizer& tokenizer);
/// What a layer is, without values.
Json layer_json(const LayerInspection& layer);
/// The text of a token, fit to be shown; "" for an id that the tokenizer does not have.
std::string shown_token(const Tokenizer& tokenizer, int32_t id);

/// A new folder, which is there under its name only after commit(). Throws as PendingFolder does.
class InspectFolder {
 public:
  InspectFolder(const std::string& path, const InspectedText& text);

  /// Files of one layer, and what the index says of them.
  void add(const LayerInspection& layer, int32_t top);
  /// Embedding and last states, the index, and done. `model`: its path.
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
