#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/grammar/grammar.h"
#include "text/grammar/shortest_value.h"

namespace veery {
namespace {

// Keywords of JSON Schema (2020-12) whose values are kept.
constexpr std::string_view kKept[] = {"type",
                                      "properties",
                                      "required",
                                      "additionalProperties",
                                      "items",
                                      "prefixItems",
                                      "minItems",
                                      "maxItems",
                                      "enum",
                                      "const",
                                      "anyOf",
                                      "oneOf",
                                      "allOf",
                                      "$ref",
                                      "$defs",
                                      "definitions",
                                      "pattern",
                                      "minLength",
                                      "maxLength",
                                      "minimum",
                                      "maximum",
                                      "exclusiveMinimum",
                                      "exclusiveMaximum",
                                      "minProperties",
                                      "maxProperties",
                                      "patternProperties",
                                      "propertyNames"};
// Those that say nothing of what is valid.
constexpr std::string_view kIgnored[] = {
    "title",   "description", "default",  "examples", "deprecated", "readOnly",     "writeOnly",
    "$schema", "$id",         "$comment", "$anchor",  "strict",     "discriminator"};
constexpr std::string_view kFormats[] = {"date", "time", "date-time", "duration", "email",
                                         "uuid", "ipv4", "ipv6",      "hostname", "uri"};
constexpr int64_t kMostNodes = 20000, kMostRepeats = 10000;
// Of names, values and patterns, which take long to compile.
constexpr int64_t kMostLetters = 1 << 16;
constexpr int64_t kLongest = 1 << 20;  // of the shortest value
// Members of an object that may be left out: each may follow each of those before it.
constexpr size_t kMostOptional = 512;

template <size_t n>
bool is_one_of(std::string_view word, const std::string_view (&list)[n]) {
  return std::ranges::find(list, word) != std::end(list);
}

class Check {
 public:
  /// `shortest`: known once all nodes were looked at; null: not yet.
  explicit Check(ShortestValue* shortest) : shortest_(shortest) {}

  void schema(const Json& node, const std::string& where, int depth = 0) {
    count(where);
    if (depth > 64) throw Error(ErrorKind::kLimit, "schema: {} is nested too deeply", where);
    if (node.is_boolean()) return;
    if (!node.is_object())
      throw Error(ErrorKind::kInput, "schema: {} is a JSON {}, expected an object", where,
                  node.type_name());
    for (const auto& [key, value] : node.items()) {
      if (is_one_of(key, kIgnored)) continue;
      const std::string place = where + "." + printable(key, 60);
      if (key == "format") {
        if (value.is_string() && !is_one_of(value.string(), kFormats))
          throw Error(ErrorKind::kUnsupported, "schema: {} '{}' cannot be kept", place,
                      printable(value.string(), 60));
        continue;
      }
      if (!is_one_of(key, kKept))
        throw Error(ErrorKind::kUnsupported, "schema: {} cannot be kept", place);
      inside(key, value, place, depth);
    }
    check_optional(node, where);
    if (shortest_ != nullptr && shortest_->of(node) > kLongest)
      throw Error(ErrorKind::kUnsupported,
                  "schema: {} has no value of at most {} characters: it is part of itself, or its "
                  "least numbers are too large",
                  where, kLongest);
  }

 private:
  void count(const std::string& where) {
    if (++nodes_ > kMostNodes)
      throw Error(ErrorKind::kLimit, "schema: {} is more than the {} parts that a schema may have",
                  where, kMostNodes);
  }
  void inside(const std::string& key, const Json& value, const std::string& place, int depth) {
    if (key == "properties" || key == "$defs" || key == "definitions" ||
        key == "patternProperties") {
      if (!value.is_object()) throw Error(ErrorKind::kInput, "schema: {} is no object", place);
      for (const auto& [name, member] : value.items()) {
        count_letters(name, place);
        schema(member, place + "." + printable(name, 60), depth + 1);
      }
    } else if (key == "items" || key == "additionalProperties" || key == "propertyNames") {
      schema(value, place, depth + 1);
    } else if (key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems") {
      if (!value.is_array()) throw Error(ErrorKind::kInput, "schema: {} is no list", place);
      for (const Json& item : value) schema(item, place, depth + 1);
    } else if (key == "enum" || key == "required") {
      if (!value.is_array()) throw Error(ErrorKind::kInput, "schema: {} is no list", place);
      for (const Json& item : value) {
        count(place);
        count_letters(item, place);
      }
    } else if (key == "const" || key == "pattern") {
      count_letters(value, place);
    } else if (key.ends_with("Items") || key.ends_with("Length") || key.ends_with("Properties")) {
      if (!value.is_integer_in(0, kMostRepeats))
        throw Error(ErrorKind::kUnsupported, "schema: {} is {}, expected 0 to {}", place,
                    printable(dump_json(value), 40), kMostRepeats);
    }
  }

  static void check_optional(const Json& node, const std::string& where) {
    const auto size = [&](const char* key) {
      const Json* found = node.member(key);
      return found != nullptr ? found->size() : 0;
    };
    if (size("properties") > size("required") + kMostOptional)
      throw Error(ErrorKind::kLimit,
                  "schema: {} has {} members that may be left out, expected at most {}", where,
                  size("properties") - size("required"), kMostOptional);
  }
  void count_letters(const Json& value, const std::string& where) {
    if (!value.is_string()) return;
    letters_ += std::ssize(value.string());
    if (letters_ > kMostLetters)
      throw Error(ErrorKind::kLimit,
                  "schema: {} is beyond the {} bytes that names, values and patterns may have",
                  where, kMostLetters);
  }

  ShortestValue* shortest_;
  int64_t nodes_ = 0, letters_ = 0;
};

}  // namespace

void check_schema(const Json& schema) {
  Check(nullptr).schema(schema, "$");
  ShortestValue shortest(schema);
  Check(&shortest).schema(schema, "$");
}

}  // namespace veery
