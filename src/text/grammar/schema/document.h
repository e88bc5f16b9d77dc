// document.h: a JSON schema document: locations, base URIs and references.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace veery::schema {

/// Index of the subschemas of a document. The document must outlive it.
class Document {
 public:
  /// Throws kInput for an invalid schema and kLimit for one that is too large; the message names
  /// the location.
  explicit Document(const Json& root);

  const Json& root() const { return root_; }
  /// Returns the location of a node for messages, for example "$.properties.a".
  std::string place(const Json& node) const;
  /// Returns the subschema to which `keyword` ($ref or $dynamicRef) of `node` refers. Throws
  /// kUnsupported for a reference to another document and kInput for a location that does not
  /// exist.
  const Json& target(const Json& node, std::string_view keyword);
  /// Returns whether `id` is an identifier: the document is of draft 4 or older, or has no
  /// "$schema".
  bool old_identifiers() const { return old_identifiers_; }

 private:
  struct Node {
    std::string base;  ///< URI without fragment
    const Json* parent = nullptr;
    std::string step;  ///< path from the parent, for messages
  };
  void index(const Json& node, const std::string& base, const Json* parent, std::string step,
             int depth);
  void index_members(const Json& node, const std::string& base, int depth);
  void count_letters(const Json& value, const Json& node);
  const Json* follow(const Json& from, std::string_view pointer);

  const Json& root_;
  bool old_identifiers_ = false;
  std::unordered_map<const Json*, Node> nodes_;
  std::map<std::string, const Json*, std::less<>> resources_;  ///< by URI, with fragment
  std::map<std::string, int, std::less<>> dynamic_anchors_;    ///< declarations of each
  int64_t letters_ = 0;
};

}  // namespace veery::schema
