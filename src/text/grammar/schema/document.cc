#include "text/grammar/schema/document.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace veery::schema {
namespace {

constexpr size_t kMostNodes = 20000;
constexpr int kMostDepth = 100;
// Limit of the bytes of names, values and patterns, which take long to compile.
constexpr int64_t kMostLetters = 1 << 18;

// How the value of a keyword contains subschemas.
enum class Holds { kSchema, kSchemas, kNamed, kSchemaOrList };
constexpr std::pair<std::string_view, Holds> kHolders[] = {
    {"additionalItems", Holds::kSchema},
    {"additionalProperties", Holds::kSchema},
    {"allOf", Holds::kSchemas},
    {"anyOf", Holds::kSchemas},
    {"contains", Holds::kSchema},
    {"definitions", Holds::kNamed},
    {"$defs", Holds::kNamed},
    {"dependencies", Holds::kNamed},
    {"dependentSchemas", Holds::kNamed},
    {"else", Holds::kSchema},
    {"if", Holds::kSchema},
    {"items", Holds::kSchemaOrList},
    {"not", Holds::kSchema},
    {"oneOf", Holds::kSchemas},
    {"patternProperties", Holds::kNamed},
    {"prefixItems", Holds::kSchemas},
    {"properties", Holds::kNamed},
    {"propertyNames", Holds::kSchema},
    {"then", Holds::kSchema},
    {"unevaluatedItems", Holds::kSchema},
    {"unevaluatedProperties", Holds::kSchema},
};

std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string pointer_step(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escaped = part[i] == '~' && i + 1 < part.size();
    text += !escaped ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return text;
}

// Resolves a reference without its fragment (RFC 3986, section 5.2).
std::string resolved(const std::string& base, std::string_view reference) {
  const auto scheme_end = [](std::string_view uri) {
    const size_t colon = uri.find(':');
    return colon == std::string_view::npos || uri.find_first_of("/?") < colon ? size_t{0}
                                                                              : colon + 1;
  };
  if (reference.empty()) return base;
  if (scheme_end(reference) > 0) return std::string(reference);
  const size_t scheme = scheme_end(base);
  size_t path = scheme;
  if (std::string_view(base).substr(scheme).starts_with("//"))
    path = std::min(base.find('/', scheme + 2), base.size());
  if (reference.starts_with("//")) return base.substr(0, scheme) + std::string(reference);
  std::string joined;
  if (reference.starts_with('/'))
    joined = reference;
  else if (const size_t slash = base.rfind('/'); slash != std::string::npos && slash >= path)
    joined = base.substr(path, slash + 1 - path) + std::string(reference);
  else
    joined = (path > scheme ? "/" : "") + std::string(reference);
  // Removes dot segments.
  for (size_t at = 0; (at = joined.find("/./", at)) != std::string::npos;) joined.erase(at, 2);
  for (size_t at = 0; (at = joined.find("/../", at)) != std::string::npos;) {
    const size_t before = at == 0 ? 0 : joined.rfind('/', at - 1);
    joined.erase(before == std::string::npos ? 0 : before, at + 3 - before);
    at = before == std::string::npos ? 0 : before;
  }
  return base.substr(0, path) + joined;
}

std::string_view without_fragment(std::string_view uri) { return uri.substr(0, uri.find('#')); }

const std::string* text_member(const Json& node, std::string_view key) {
  const Json* found = node.member(key);
  return found != nullptr && found->is_string() ? &found->string() : nullptr;
}

}  // namespace

Document::Document(const Json& root) : root_(root) {
  const std::string* dialect = root.is_object() ? text_member(root, "$schema") : nullptr;
  old_identifiers_ = dialect == nullptr || dialect->find("draft-04") != std::string::npos ||
                     dialect->find("draft-03") != std::string::npos ||
                     dialect->find("json-schema.org/schema") != std::string::npos;
  resources_.emplace("", &root);
  index(root, "", nullptr, "$", 0);
}

std::string Document::place(const Json& node) const {
  std::string text;
  for (const Json* at = &node; at != nullptr;) {
    const auto found = nodes_.find(at);
    if (found == nodes_.end()) break;
    text.insert(0, found->second.step);
    at = found->second.parent;
    if (text.size() > 400) return "..." + text;
  }
  return text.empty() ? "$" : text;
}

void Document::count_letters(const Json& value, const Json& node) {
  letters_ += value.is_string() ? std::ssize(value.string()) : 1;
  if (value.is_array() || value.is_object())
    for (const Json& item : value) count_letters(item, node);
  if (letters_ > kMostLetters)
    throw Error(ErrorKind::kLimit,
                "schema: {}: names, values and patterns exceed {} bytes in total", place(node),
                kMostLetters);
}

void Document::index(const Json& node, const std::string& base, const Json* parent,
                     std::string step, int depth) {
  if (nodes_.size() >= kMostNodes)
    throw Error(ErrorKind::kLimit, "schema: more than {} subschemas", kMostNodes);
  if (!nodes_.try_emplace(&node, Node{base, parent, std::move(step)}).second) return;
  if (depth > kMostDepth)
    throw Error(ErrorKind::kLimit, "schema: {} is nested more than {} levels deep", place(node),
                kMostDepth);
  if (node.is_boolean()) return;
  if (!node.is_object())
    throw Error(ErrorKind::kInput, "schema: {} is a JSON {}, expected an object or a boolean",
                place(node), node.type_name());
  std::string own = base;
  const std::string* id = text_member(node, "$id");
  if (id == nullptr && old_identifiers_) id = text_member(node, "id");
  if (id != nullptr) {
    own = resolved(base, without_fragment(*id));
    const size_t fragment = id->find('#');
    if (own != base || parent == nullptr) resources_.try_emplace(own, &node);
    if (fragment != std::string::npos && fragment + 1 < id->size())
      resources_.try_emplace(own + id->substr(fragment), &node);
    nodes_[&node].base = own;
  }
  if (const std::string* anchor = text_member(node, "$anchor"))
    resources_.try_emplace(own + "#" + *anchor, &node);
  if (const std::string* anchor = text_member(node, "$dynamicAnchor")) {
    resources_.try_emplace(own + "#" + *anchor, &node);
    ++dynamic_anchors_[*anchor];
  }
  index_members(node, own, depth);
}

void Document::index_members(const Json& node, const std::string& base, int depth) {
  for (const auto& [key, value] : node.items()) {
    const std::string step = "." + printable(key, 60);
    const auto* holder =
        std::ranges::find(kHolders, key, [](const auto& pair) { return pair.first; });
    if (holder == std::end(kHolders)) {
      if (key == "enum" || key == "const" || key == "pattern" || key == "required")
        count_letters(value, node);
      continue;
    }
    const Holds holds = holder->second == Holds::kSchemaOrList
                            ? (value.is_array() ? Holds::kSchemas : Holds::kSchema)
                            : holder->second;
    if (holds == Holds::kSchema) {
      index(value, base, &node, step, depth + 1);
    } else if (holds == Holds::kSchemas) {
      if (!value.is_array())
        throw Error(ErrorKind::kInput, "schema: {}{} is a JSON {}, expected a list", place(node),
                    step, value.type_name());
      size_t i = 0;
      for (const Json& item : value)
        index(item, base, &node, step + "[" + std::to_string(i++) + "]", depth + 1);
    } else {
      if (!value.is_object())
        throw Error(ErrorKind::kInput, "schema: {}{} is a JSON {}, expected an object", place(node),
                    step, value.type_name());
      for (const auto& [name, item] : value.items()) {
        letters_ += std::ssize(name);
        if (key == "dependencies" && item.is_array()) continue;
        index(item, base, &node, step + "." + printable(name, 60), depth + 1);
      }
      count_letters(Json(), node);
    }
  }
}

const Json* Document::follow(const Json& from, std::string_view pointer) {
  const Json* node = &from;
  std::string base = nodes_[&from].base, step;
  const Json* parent = &from;
  while (!pointer.empty()) {
    if (!pointer.starts_with('/')) return nullptr;
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string key = pointer_step(pointer.substr(0, end));
    pointer.remove_prefix(end);
    step += "." + printable(key, 60);
    if (node->is_array()) {
      const bool number = !key.empty() && key.size() < 7 &&
                          std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; });
      if (!number || std::stoul(key) >= node->size()) return nullptr;
      node = &node->at(std::stoul(key));
    } else {
      node = node->is_object() ? node->member(key) : nullptr;
    }
    if (node == nullptr) return nullptr;
    if (const auto known = nodes_.find(node); known != nodes_.end())
      base = known->second.base, parent = node, step.clear();
  }
  index(*node, base, parent == node ? nullptr : parent, step, 0);  // the location is below an
                                                                   // unknown keyword
  return node;
}

const Json& Document::target(const Json& node, std::string_view keyword) {
  const Json& value = *node.member(keyword);
  if (!value.is_string())
    throw Error(ErrorKind::kInput, "schema: {}.{} is a JSON {}, expected a string", place(node),
                keyword, value.type_name());
  const std::string& reference = value.string();
  const std::string uri = resolved(nodes_[&node].base, without_fragment(reference));
  const size_t hash = reference.find('#');
  const std::string fragment =
      hash == std::string::npos ? "" : percent_decoded(reference.substr(hash + 1));
  const auto missing = [&](ErrorKind kind, const char* why) {
    return Error(kind, "schema: {}.{} '{}' {}", place(node), keyword, printable(reference, 100),
                 why);
  };
  const auto resource = resources_.find(uri);
  if (resource == resources_.end())
    throw missing(ErrorKind::kUnsupported, "refers to another document, which is not supported");
  if (keyword == "$dynamicRef" && !fragment.empty())
    if (const auto found = dynamic_anchors_.find(fragment);
        found != dynamic_anchors_.end() && found->second > 1)
      throw missing(ErrorKind::kUnsupported, "has several $dynamicAnchor, which is not supported");
  if (fragment.empty() || fragment.starts_with('/')) {
    const Json* found = follow(*resource->second, fragment);
    if (found == nullptr) throw missing(ErrorKind::kInput, "does not exist in this schema");
    return *found;
  }
  const auto anchor = resources_.find(uri + "#" + fragment);
  if (anchor == resources_.end()) throw missing(ErrorKind::kInput, "does not exist in this schema");
  return *anchor->second;
}

}  // namespace veery::schema
