// How long the shortest value of a schema is, and schemas that have none.
#include "text/grammar/shortest_value.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/grammar/grammar.h"

namespace veery {
namespace {

constexpr int64_t kNever = ShortestValue::kNever;

int64_t shortest(const char* schema) {
  const Json root = parse_json(schema, "schema");
  return ShortestValue(root).of(root);
}

TEST(ShortestValue, CountsWhatHasToBeWritten) {
  EXPECT_EQ(shortest(R"({"type": "integer"})"), 1);
  EXPECT_EQ(shortest(R"({"type": "string", "minLength": 40})"), 42);
  EXPECT_EQ(shortest(R"({"enum": ["abc", "a", "ab"]})"), 3);
  EXPECT_EQ(shortest(R"({"const": "abc"})"), 5);
  EXPECT_EQ(shortest(R"({"type": ["string", "null"], "minLength": 40})"), 1);
  EXPECT_EQ(shortest(R"({"type": "array", "minItems": 7, "items": {"const": "abc"}})"), 37);
  EXPECT_EQ(shortest(R"({"properties": {"a": {"const": "abc"}, "b": {}}, "required": ["a"]})"), 12);
  EXPECT_EQ(shortest(R"({"anyOf": [{"const": "abc"}, {"const": "a"}]})"), 3);
  EXPECT_EQ(shortest("true"), 1);
}

TEST(ShortestValue, FollowsReferences) {
  EXPECT_EQ(shortest(R"({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": "abc"}}})"), 5);
  EXPECT_EQ(shortest(R"({"anyOf": [{"$ref": "#"}, {"type": "string"}]})"), 2);
  EXPECT_EQ(shortest(R"({"type": "object", "properties": {"a": {"$ref": "#"}}})"), 2);
  EXPECT_EQ(shortest(R"({"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/a"},
                         "$defs": {"a": {"anyOf": [{"type": "array", "minItems": 1, "items":
                                                    {"$ref": "#/$defs/a"}}, {"const": "x"}]}}})"),
            8);
  EXPECT_EQ(shortest(R"({"$ref": "https://example.org/other"})"), 1) << "none of this schema";
  EXPECT_EQ(shortest(R"({"$ref": "#/nowhere"})"), 1);
}

TEST(ShortestValue, WhatIsPartOfItselfNeverEnds) {
  for (
      const char* schema :
      {R"({"$ref": "#"})", R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})",
       R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
       R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       R"({"type": "array", "minItems": 1, "items": {"$ref": "#"}})"})
    EXPECT_EQ(shortest(schema), kNever) << schema;
}

TEST(CheckSchema, RefusesWhatNoAnswerEnds) {
  const auto check = [](const char* schema) { check_schema(parse_json(schema, "schema")); };
  EXPECT_NO_THROW(check(R"({"type": "object", "properties": {"a": {"$ref": "#"}}})"));
  EXPECT_THROW(
      check(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"), Error);
  EXPECT_THROW(check(R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {
                           "a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}})"),
               Error)
      << "an answer may begin with it";
  EXPECT_THROW(check(R"({"type": "array", "minItems": 9000, "items":
                           {"type": "array", "minItems": 9000, "items": {"const": 1}}})"),
               Error);
}

}  // namespace
}  // namespace veery
