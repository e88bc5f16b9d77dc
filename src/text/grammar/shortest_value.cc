#include "text/grammar/shortest_value.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace veery {
namespace {

constexpr int64_t kMostWork = 5'000'000;  // nodes that are looked at, some of them many times

int64_t sum(int64_t a, int64_t b) { return std::min(a + b, ShortestValue::kNever); }
int64_t times(int64_t count, int64_t each) {
  if (count <= 0) return 0;
  return each >= ShortestValue::kNever / count ? ShortestValue::kNever : count * each;
}

int64_t size_of(const Json& value) {
  return value.is_string() ? std::ssize(value.string()) + 2 : 1;
}
int64_t count_of(const Json& node, std::string_view key) {
  const auto found = node.find(key);
  return found != node.end() && found->is_integer_in(0, INT32_MAX) ? found->get<int64_t>() : 0;
}

std::string unescaped(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escaped = part[i] == '~' && i + 1 < part.size();
    text += !escaped ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return text;
}

}  // namespace

// The least solution: what is part of itself is never over at first, and each round finds what ends
// with one reference more inside of another.
int64_t ShortestValue::of(const Json& node) {
  const size_t known = targets_.size();
  const int64_t size = as_known(node);
  if (targets_.size() == known) return size;
  for (bool changed = true; changed;) {
    const size_t before = targets_.size();
    changed = false;
    for (auto& [target, least] : targets_) {  // more may be added, which does not invalidate this
      const int64_t now = as_known(*target);
      changed = changed || now < least;
      least = std::min(least, now);
    }
    changed = changed || targets_.size() > before;
  }
  return as_known(node);
}

const Json* ShortestValue::target(std::string_view reference) const {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const Json* node = &root_;
  while (reference.starts_with('/')) {
    reference.remove_prefix(1);
    const size_t end = std::min(reference.find('/'), reference.size());
    const auto found =
        node->is_object() ? node->find(unescaped(reference.substr(0, end))) : node->end();
    if (!node->is_object() || found == node->end()) return nullptr;
    node = &*found;
    reference.remove_prefix(end);
  }
  return reference.empty() ? node : nullptr;
}

// What is no place of this schema is somebody else's error.
int64_t ShortestValue::of_reference(const Json& node) {
  const Json& reference = *node.find("$ref");
  const Json* place = reference.is_string() ? target(reference.string()) : nullptr;
  if (place == nullptr) return 1;
  return targets_.try_emplace(place, kNever).first->second;
}

int64_t ShortestValue::of_object(const Json& node) {
  const auto properties = node.find("properties");
  const auto required = node.find("required");
  const auto others = node.find("additionalProperties");
  int64_t size = 2;
  if (required == node.end() || !required->is_array()) return size;
  for (const Json& name : *required) {
    const bool known = name.is_string() && properties != node.end() && properties->is_object() &&
                       properties->contains(name.string());
    const int64_t value = known                  ? as_known(*properties->find(name.string()))
                          : others != node.end() ? as_known(*others)
                                                 : 1;
    size = sum(size, sum(size_of(name) + 2, value));
  }
  return size;
}

int64_t ShortestValue::of_array(const Json& node) {
  int64_t size = 2, first = 0;
  if (const auto items = node.find("prefixItems"); items != node.end() && items->is_array())
    for (const Json& item : *items) size = sum(size, as_known(item)), ++first;
  const auto items = node.find("items");
  const int64_t others = count_of(node, "minItems") - first;
  return sum(size, times(others, items == node.end() ? 1 : as_known(*items)));
}

int64_t ShortestValue::of_type(const Json& node, std::string_view type) {
  if (type == "object") return of_object(node);
  if (type == "array") return of_array(node);
  return type == "string" ? 2 + count_of(node, "minLength") : 1;
}

int64_t ShortestValue::as_known(const Json& node) {
  if (++work_ > kMostWork)
    throw Error(ErrorKind::kLimit, "schema: its references are too entangled to be followed");
  if (!node.is_object()) return 1;
  if (node.contains("$ref")) return of_reference(node);
  if (const auto value = node.find("const"); value != node.end()) return size_of(*value);
  const auto among = [&](const Json& list, auto choose, auto of_each) {
    int64_t size = -1;
    for (const Json& item : list) {
      const int64_t each = of_each(item);
      size = size < 0 ? each : choose(size, each);
    }
    return size < 0 ? 1 : size;
  };
  const auto least = [](int64_t a, int64_t b) { return std::min(a, b); };
  const auto most = [](int64_t a, int64_t b) { return std::max(a, b); };
  const auto schema = [&](const Json& item) { return as_known(item); };
  for (const auto& [key, value] : node.items()) {
    if (!value.is_array()) continue;
    if (key == "enum") return among(value, least, size_of);
    if (key == "anyOf" || key == "oneOf") return among(value, least, schema);
    if (key == "allOf") return among(value, most, schema);
    if (key == "type")
      return among(value, least, [&](const Json& type) {
        return type.is_string() ? of_type(node, type.string()) : 1;
      });
  }
  if (const auto type = node.find("type"); type != node.end() && type->is_string())
    return of_type(node, type->string());
  // What has no type is of the one that its keywords are of.
  return node.contains("required")                                   ? of_object(node)
         : node.contains("minItems") || node.contains("prefixItems") ? of_array(node)
                                                                     : 1;
}

}  // namespace veery
