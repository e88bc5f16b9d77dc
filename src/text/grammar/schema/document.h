// document.h: a JSON schema as a document: places, base URIs and references.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace veery::schema {

/// Indexes the subschemas of a document, which must outlive it.
class Document {
 public:
  /// Throws kInput or kLimit, naming the place, for what is no schema or is too large.
  explicit Document(const Json& root);

  const Json& root() const { return root_; }
  /// "$.properties.a", for messages.
  std::string place(const Json& node) const;
  /// The subschema that `keyword` ($ref or $dynamicRef) of `node` names. Throws kUnsupported for
  /// another document, kInput for a place that this one does not have.
  const Json& target(const Json& node, std::string_view keyword);
  /// Whether the document is of draft 4 or older, or says nothing: `id` is an identifier there.
  bool old_identifiers() const { return old_identifiers_; }

 private:
  struct Node {
    std::string base;  ///< URI without a fragment
    const Json* parent = nullptr;
    std::string step;  ///< from the parent's place
  };
  void index(const Json& node, const std::string& base, const Json* parent, std::string step,
             int depth);
  void index_members(const Json& node, const std::string& base, int depth);
  void count_letters(const Json& value, const Json& node);
  const Json* follow(const Json& from, std::string_view pointer);

  const Json& root_;
  bool old_identifiers_ = false;
  std::unordered_map<const Json*, Node> nodes_;
  std::map<std::string, const Json*, std::less<>> resources_;  ///< by URI, anchors with fragment
  std::map<std::string, int, std::less<>> dynamic_anchors_;    ///< how many there are of each
  int64_t letters_ = 0;
};

}  // namespace veery::schema
