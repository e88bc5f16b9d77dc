// Random schemas: the grammar generates only valid values and accepts no invalid ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/byte_grammar.h"
#include "support/schema_validator.h"

namespace veery {
namespace {

// Generates nested schemas with many combinations of keywords.
class RandomSchemas {
 public:
  explicit RandomSchemas(uint64_t seed) : random_(seed) {}

  Json document() {
    Json root = schema(0);
    if (!root.is_object()) root = Json::object();
    Json definitions = Json::object();
    definitions["x"] = schema(2);
    definitions["y"] = schema(2);
    root["$defs"] = std::move(definitions);
    return root;
  }
  Json value(int depth) {
    switch (pick(depth > 2 ? 5 : 7)) {
      case 0: return nullptr;
      case 1: return pick(2) == 0;
      case 2: return static_cast<int64_t>(pick(9)) - 3;
      case 3: return static_cast<double>(2 * pick(6)) / 2 - 2.5;
      case 4: return Json(word());
      case 5: {
        Json items = Json::array();
        for (uint32_t i = pick(4); i > 0; --i) items.push_back(value(depth + 1));
        return items;
      }
      default: {
        Json members = Json::object();
        for (const char* name : {"a", "b", "c", "xa"})
          if (pick(3) == 0) members[name] = value(depth + 1);
        return members;
      }
    }
  }
  uint32_t pick(uint32_t count) { return random_.next() % count; }

 private:
  std::string word() {
    constexpr const char* kWords[] = {"", "a", "ab", "b\"", "\\", "\n", "xyz", "é"};
    return kWords[pick(std::size(kWords))];
  }
  Json list(int depth) {
    Json all = Json::array();
    for (uint32_t i = 1 + pick(3); i > 0; --i) all.push_back(schema(depth + 1));
    return all;
  }
  Json schema(int depth) {
    if (pick(12) == 0) return pick(4) != 0;
    Json schema = Json::object();
    constexpr const char* kTypes[] = {"null",   "boolean", "integer", "number",
                                      "string", "array",   "object"};
    if (pick(3) != 0) schema["type"] = kTypes[pick(std::size(kTypes))];
    for (uint32_t i = pick(4); i > 0; --i) add(schema, depth);
    return schema;
  }
  void add(Json& schema, int depth) {
    constexpr const char* kPatterns[] = {"^a",     "b$",       "^[a-c]*$", "x|\\n",
                                         "^(?!a)", "^.{1,2}$", "[\"\\\\]"};
    const auto small = [&] { return static_cast<int64_t>(pick(4)); };
    switch (pick(depth > 2 ? 10 : 24)) {
      case 0: schema["enum"] = Json::array({value(2), value(2), value(1)}); break;
      case 1: schema["const"] = value(1); break;
      case 2: schema["minimum"] = value_of_number(); break;
      case 3: schema["exclusiveMaximum"] = value_of_number(); break;
      case 4: schema["multipleOf"] = pick(2) == 0 ? Json(2) : Json(0.5); break;
      case 5: schema["minLength"] = small(); break;
      case 6: schema["maxLength"] = small(); break;
      case 7: schema["pattern"] = kPatterns[pick(std::size(kPatterns))]; break;
      case 8: schema["$ref"] = pick(2) == 0 ? "#/$defs/x" : "#/$defs/y"; break;
      case 9: schema["type"] = Json::array({"string", "integer"}); break;
      case 10: schema["allOf"] = list(depth); break;
      case 11: schema["anyOf"] = list(depth); break;
      case 12: schema["oneOf"] = list(depth); break;
      case 13: schema["not"] = this->schema(depth + 2); break;
      case 14:
        schema["if"] = this->schema(depth + 2);
        schema["then"] = this->schema(depth + 1);
        schema["else"] = this->schema(depth + 1);
        break;
      case 15: {
        Json properties = Json::object();
        for (const char* name : {"a", "b"}) properties[name] = this->schema(depth + 1);
        schema["properties"] = std::move(properties);
        break;
      }
      case 16:
        schema["required"] = pick(2) == 0 ? Json::array({"a"}) : Json::array({"b", "c"});
        break;
      case 17: schema["additionalProperties"] = this->schema(depth + 1); break;
      case 18: {
        Json patterns = Json::object();
        patterns["^x"] = this->schema(depth + 1);
        patterns["a$"] = this->schema(depth + 1);
        schema["patternProperties"] = std::move(patterns);
        break;
      }
      case 19: {
        Json names = Json::object();
        names["pattern"] = "^[a-c]";
        schema["propertyNames"] = std::move(names);
        break;
      }
      case 20: schema[pick(2) == 0 ? "minProperties" : "maxProperties"] = small(); break;
      case 21: schema[pick(2) == 0 ? "minItems" : "maxItems"] = small(); break;
      case 22: schema["items"] = this->schema(depth + 1); break;
      default:
        schema["contains"] = this->schema(depth + 1);
        if (pick(2) == 0) schema["maxContains"] = 1 + small();
    }
  }
  Json value_of_number() { return (static_cast<double>(pick(9)) - 4) / 2; }

  Random random_;
};

// Writes JSON on one line with a space after each comma and colon.
std::string written(const Json& value) {
  std::string text;
  if (value.is_array()) {
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + written(item);
    return "[" + text + "]";
  }
  if (!value.is_object()) return dump_json(value);
  for (const auto& [name, member] : value.items())
    text += (text.empty() ? "" : ", ") + dump_json(Json(name)) + ": " + written(member);
  return "{" + text + "}";
}

bool has_members(const Json& value) {
  if (value.is_object()) return !value.empty();
  return value.is_array() && std::ranges::any_of(value, has_members);
}

TEST(RandomSchemas, AreEnforcedOrRejected) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  test::ByteGrammars grammars;
  Random random(5);
  int kept = 0, values = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomSchemas schemas(seed);
    const Json schema = schemas.document();
    const std::string name = fmt::format("seed {}: {}", seed, dump_json(schema));
    const test::SchemaValidator validator(schema);
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = grammars.compiler().json_schema(schema);
    } catch (const Error& error) {
      ASSERT_NE(error.kind(), ErrorKind::kBug) << name << error.what();
      const bool empty =
          std::string_view(error.what()).find("has no value") != std::string_view::npos;
      for (int i = 0; empty && i < 40; ++i) {
        const Json value = schemas.value(0);
        ASSERT_FALSE(validator.valid(value)) << name << " has a value: " << written(value);
      }
      ++refused;
      continue;
    }
    ++kept;
    for (int walk = 0; walk < 6; ++walk) {
      bool stuck = false;
      const auto text = test::random_text(grammar, random, stuck, 600);
      ASSERT_FALSE(stuck) << name;
      if (!text) continue;
      ++values;
      ASSERT_TRUE(validator.valid(parse_json(*text, "answer"))) << name << "\n" << *text;
    }
    for (int i = 0; i < 40; ++i) {
      const Json value = schemas.value(0);
      const bool valid = validator.valid(value);
      // The grammar has one order of members and accepts only some of the valid members.
      if (valid && has_members(value)) continue;
      ASSERT_EQ(test::takes(grammar, written(value)), valid) << name << "\n" << written(value);
    }
  }
  EXPECT_GT(kept, 200);
  EXPECT_GT(values, 900);
  EXPECT_LT(refused, 200);
}

}  // namespace
}  // namespace veery
