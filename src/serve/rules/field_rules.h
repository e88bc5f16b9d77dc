// field_rules.h: the documented fields of requests: kept, ignored or refused.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery::serve {

enum class FieldUse : uint8_t {
  kKept,     ///< the endpoint reads it
  kIgnored,  ///< it cannot change the result
  kRefused,  ///< it would change the result, and the endpoint does not support it
};

/// One documented field of an API.
struct FieldRule {
  /// Path within the body, with "[]" for the items of a list: "stream_options.include_usage",
  /// "tools[].function.strict".
  std::string_view name;
  FieldUse use = FieldUse::kKept;
  /// Why it cannot change the result or is refused; empty for kKept.
  std::string_view reason = {};
  /// kRefused: values without an effect, which are accepted, as JSON separated by commas. null, "",
  /// [] and {} are always accepted.
  std::string_view neutral = {};
};

constexpr FieldRule kept(std::string_view name) { return {name, FieldUse::kKept}; }
constexpr FieldRule ignored(std::string_view name, std::string_view reason) {
  return {name, FieldUse::kIgnored, reason};
}
constexpr FieldRule refused(std::string_view name, std::string_view reason,
                            std::string_view neutral = {}) {
  return {name, FieldUse::kRefused, reason, neutral};
}

/// The rules of one endpoint, as a tree over the parts of their names.
class FieldRules {
 public:
  /// Rules that several endpoints share; `prefix` precedes their names ("options.").
  struct Group {
    Group(std::span<const FieldRule> all, std::string before = {})  // NOLINT: from a list of rules
        : rules(all), prefix(std::move(before)) {}
    std::span<const FieldRule> rules;
    std::string prefix;
  };
  struct Entry {
    std::string name;
    const FieldRule* rule;
  };
  /// The first refused field of a body.
  struct Refusal {
    std::string path;   ///< "messages[3].content[0].image_url"
    std::string param;  ///< `path` up to its first index: "messages[3]"
    std::string_view reason;
  };
  struct Report {
    std::optional<Refusal> refusal;
    std::vector<std::string> unknown;  ///< names without a rule, each once, at most 20
  };

  /// A later rule replaces an earlier one of the same name. The rules must outlive it.
  FieldRules(std::string_view endpoint, std::initializer_list<Group> groups);

  std::string_view endpoint() const { return endpoint_; }
  /// Returns all rules by name.
  std::vector<Entry> entries() const;
  /// Checks the members of `body`, and of those members that have rules for their own members.
  Report check(const Json& body) const;

 private:
  struct Node {
    const FieldRule* rule = nullptr;
    std::map<std::string, std::unique_ptr<Node>, std::less<>> members;  ///< "[]": of a list's items
  };
  class Walk;

  void add(std::string_view name, const FieldRule& rule);
  static void list(const Node& node, const std::string& name, std::vector<Entry>& out);

  std::string_view endpoint_;
  Node root_;
};

}  // namespace veery::serve
