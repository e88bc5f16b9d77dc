#include "serve/rules/field_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace veery::serve {
namespace {

constexpr std::string_view kItems = "[]";
constexpr size_t kMostUnknown = 20;

bool asks_nothing(const Json& value, const FieldRule& rule) {
  if (value.is_null()) return true;
  if (value.is_string() && value.string().empty()) return true;
  if ((value.is_array() || value.is_object()) && value.empty()) return true;
  const Json neutral = parse_json("[" + std::string(rule.neutral) + "]", "neutral values");
  return std::ranges::any_of(neutral, [&](const Json& one) { return one == value; });
}

std::string first_index(const std::string& path) {
  const size_t end = path.find(']');
  return end == std::string::npos ? path : path.substr(0, end + 1);
}

}  // namespace

/// One pass over a body.
class FieldRules::Walk {
 public:
  explicit Walk(Report& report) : report_(report) {}

  void object(const Node& node, const Json& value, const std::string& name,
              const std::string& path) {
    for (const auto& [key, member] : value.items()) {
      if (report_.refusal) return;
      const std::string dot = name.empty() ? "" : ".";
      const auto found = node.members.find(key);
      if (found == node.members.end())
        unknown(name + dot + key);
      else
        field(*found->second, member, name + dot + key, path + dot + key);
    }
  }

 private:
  void field(const Node& node, const Json& value, const std::string& name,
             const std::string& path) {
    const FieldRule* rule = node.rule;
    if (rule != nullptr && rule->use == FieldUse::kIgnored) return;
    if (rule != nullptr && rule->use == FieldUse::kRefused && !asks_nothing(value, *rule)) {
      report_.refusal = {path, first_index(path), rule->reason};
      return;
    }
    if (node.members.empty()) return;
    if (value.is_object()) return object(node, value, name, path);
    const auto items = node.members.find(kItems);
    if (!value.is_array() || items == node.members.end()) return;
    for (size_t i = 0; i < value.size() && !report_.refusal; ++i)
      if (value[i].is_object())
        object(*items->second, value[i], name + std::string(kItems),
               fmt::format("{}[{}]", path, i));
  }
  void unknown(std::string name) {
    std::vector<std::string>& all = report_.unknown;
    if (all.size() < kMostUnknown && std::ranges::find(all, name) == all.end())
      all.push_back(std::move(name));
  }

  Report& report_;
};

FieldRules::FieldRules(std::string_view endpoint, std::initializer_list<Group> groups)
    : endpoint_(endpoint) {
  for (const Group& group : groups)
    for (const FieldRule& rule : group.rules) add(group.prefix + std::string(rule.name), rule);
}

void FieldRules::add(std::string_view name, const FieldRule& rule) {
  Node* node = &root_;
  const auto enter = [&](std::string_view key) {
    std::unique_ptr<Node>& next = node->members[std::string(key)];
    if (!next) next = std::make_unique<Node>();
    node = next.get();
  };
  for (size_t at = 0; at < name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    std::string_view key = name.substr(at, dot - at);
    const bool items = key.ends_with(kItems);
    if (items) key.remove_suffix(kItems.size());
    enter(key);
    if (items) enter(kItems);
    at = dot + 1;
  }
  node->rule = &rule;
}

void FieldRules::list(const Node& node, const std::string& name, std::vector<Entry>& out) {
  if (node.rule != nullptr) out.push_back({name, node.rule});
  for (const auto& [key, member] : node.members) {
    const bool joined = name.empty() || key == kItems;
    list(*member, joined ? name + key : name + "." + key, out);
  }
}

std::vector<FieldRules::Entry> FieldRules::entries() const {
  std::vector<Entry> all;
  list(root_, {}, all);
  return all;
}

FieldRules::Report FieldRules::check(const Json& body) const {
  Report report;
  Walk(report).object(root_, body, {}, {});
  return report;
}

}  // namespace veery::serve
