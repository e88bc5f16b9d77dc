// JSON schemas as grammars: accepted values of each keyword, combinations, and unsupported schemas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/byte_grammar.h"

namespace veery {
namespace {

struct Case {
  const char* schema;
  std::vector<const char*> takes, refuses;
};

class SchemaGrammar : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
    grammars_.emplace();
  }
  void expect(std::initializer_list<Case> cases) {
    for (const Case& one : cases) {
      const auto grammar = grammars_->schema(one.schema);
      for (const char* text : one.takes)
        EXPECT_TRUE(test::takes(grammar, text)) << one.schema << " should take " << text;
      for (const char* text : one.refuses)
        EXPECT_FALSE(test::takes(grammar, text)) << one.schema << " should not take " << text;
    }
  }
  void expect_refused(const char* schema, const std::string& part) {
    try {
      grammars_->schema(schema);
      ADD_FAILURE() << schema << " should be refused";
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kBug);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << schema << ": " << error.what();
    }
  }
  std::optional<test::ByteGrammars> grammars_;
};

TEST_F(SchemaGrammar, CombinedKeywordsAreIntersected) {
  expect({
      {R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})",
       {"3", "5"},
       {"2", "6", "\"3\""}},
      {R"({"type": "string", "anyOf": [{"minLength": 2}, {"type": "integer"}]})",
       {"\"ab\""},
       {"\"a\"", "3"}},
      {R"({"$ref": "#/$defs/a", "minimum": 2, "$defs": {"a": {"type": "integer"}}})",
       {"2"},
       {"1", "2.5"}},
      {R"({"enum": ["a", "bb", 3, null], "type": "string", "minLength": 2})",
       {"\"bb\""},
       {"\"a\"", "3", "null"}},
      {R"({"const": {"a": [1, "x"]}})",
       {R"({"a": [1, "x"]})"},
       {R"({"a": [1]})", R"({"a": [1, "x", 2]})"}},
      {R"({"type": "string", "pattern": "^[ab]*$", "minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"aaa\""},
       {"\"a\"", "\"aaaa\"", "\"ac\""}},
      {R"({"type": "string", "format": "date", "pattern": "^2024"})",
       {"\"2024-02-29\""},
       {"\"2023-01-01\"", "\"2024-02-30\""}},
      {R"({"type": "string", "format": "ipv4", "maxLength": 7})",
       {"\"1.2.3.4\""},
       {"\"10.2.3.4\""}},
      {R"({"properties": {"a": {"type": "integer"}}, "allOf": [{"properties": {"a": {"minimum": 2}}, "required": ["a"]}], "type": "object"})",
       {R"({"a": 2})"},
       {R"({"a": 1})", "{}", R"({"a": 2.5})"}},
  });
}

TEST_F(SchemaGrammar, AlternativesAreExact) {
  expect({
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}]})",
       {"1", "2.5"},
       {"2", "1.5"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1})"},
       {"{}", R"({"a": 1, "b": 1})"}},
      {R"({"not": {"type": ["string", "object", "array"]}})",
       {"1", "null", "true"},
       {"\"\"", "{}", "[]"}},
      {R"({"type": "string", "not": {"enum": ["a", "b"]}})",
       {"\"c\"", "\"ab\"", "\"\""},
       {"\"a\"", "\"b\""}},
      {R"({"type": "object", "properties": {"k": {"enum": ["a", "b"]}, "v": {"type": ["integer", "string"]}}, "required": ["k", "v"],
           "if": {"properties": {"k": {"const": "a"}}}, "then": {"properties": {"v": {"type": "integer"}}}, "else": {"properties": {"v": {"type": "string"}}}})",
       {R"({"k": "a", "v": 1})", R"({"k": "b", "v": ""})"},
       {R"({"k": "a", "v": ""})", R"({"k": "b", "v": 1})"}},
  });
}

TEST_F(SchemaGrammar, PatternsMatchTheStringNotItsJson) {
  expect({
      {R"({"type": "string", "pattern": "^\"x\"$"})", {R"("\"x\"")"}, {R"(""x"")", R"("x")"}},
      {R"({"type": "string", "pattern": "^\\\\n\\n$"})", {R"("\\n\n")"}, {R"("\n\n")"}},
      {R"({"type": "string", "pattern": "^[\\u0000-\\u001f]$"})",
       {R"("\u0001")", R"("\u001F")", R"("\t")"},
       {"\"\x01\"", R"("a")"}},
      {R"({"type": "string", "pattern": "^(?!ab)[a-c]{2}$"})", {"\"ac\"", "\"bb\""}, {"\"ab\""}},
      {R"({"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z]).{2,3}$"})",
       {"\"a1\"", "\"1bb\""},
       {"\"aa\"", "\"12\""}},
      {R"({"type": "string", "pattern": "b"})", {"\"abc\"", "\"b\""}, {"\"ac\""}},
      {R"({"type": "string", "pattern": "^é.$"})",
       {"\"éa\"", "\"é€\"", "\"é😀\""},
       {"\"é\"", "\"é\xF0\x9F\""}},
      {R"({"type": "string", "maxLength": 1})",
       {"\"é\"", R"("\n")", R"("\ud83d\ude00")"},
       {"\"ab\"", R"("\ud83d")"}},
  });
}

TEST_F(SchemaGrammar, LongStringsAreCounted) {
  const auto text = [](int64_t size) {
    return "\"" + std::string(static_cast<size_t>(size), 'x') + "\"";
  };
  for (const auto& [least, most] :
       {std::pair{0, 5}, {7, 70}, {64, 64}, {130, 131}, {0, 191}, {3, 192}, {1, 255}, {200, 700}}) {
    const auto grammar = grammars_->schema(
        fmt::format(R"({{"type": "string", "minLength": {}, "maxLength": {}}})", least, most));
    for (const int size : {least, (least + most) / 2, most})
      EXPECT_TRUE(test::takes(grammar, text(size))) << least << " " << most << " " << size;
    if (least > 0) {
      EXPECT_FALSE(test::takes(grammar, text(least - 1))) << least << " " << most;
    }
    EXPECT_FALSE(test::takes(grammar, text(most + 1))) << least << " " << most;
  }
  EXPECT_TRUE(
      test::takes(grammars_->schema(R"({"type": "string", "maxLength": 100000})"), text(3000)));
  EXPECT_TRUE(test::takes(
      grammars_->schema(R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 9000})"),
      text(3000)));
}

TEST_F(SchemaGrammar, NumbersAreExact) {
  expect({
      {R"({"type": "number", "minimum": 1e-7, "maximum": 2e-7})",
       {"0.0000001", "0.00000015", "0.0000002"},
       {"0", "0.0000003", "0.00000009"}},
      {R"({"const": 18446744073709551615})",
       {"18446744073709551615"},
       {"18446744073709551616", "1.8446744073709552e19"}},
      {R"({"type": "integer", "minimum": 0.5, "maximum": 3.5})",
       {"1", "2", "3"},
       {"0", "4", "1.0"}},
      {R"({"type": "integer", "exclusiveMinimum": -12, "exclusiveMaximum": 103})",
       {"-11", "0", "7", "99", "100", "102"},
       {"-12", "103", "-0", "00", "999"}},
      {R"({"type": "number", "exclusiveMinimum": -1.5, "maximum": 0})",
       {"-1.4", "-1", "0", "-0.25", "-1.0"},
       {"-1.5", "0.1", "-2"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "700"}, {"1", "15", "7.0"}},
      {R"({"type": "number", "multipleOf": 0.25})", {"0.25", "1.5", "-3", "2.0"}, {"0.3", "0.125"}},
      {R"({"type": "integer", "minimum": 5, "maximum": 9, "exclusiveMaximum": true})",
       {"5", "8"},
       {"9", "4"}},
      {R"({"type": "number"})", {"1e5", "-2.50", "3E-7"}, {"01", ".5", "1e"}},
  });
}

TEST_F(SchemaGrammar, ObjectsCountDistinctMembers) {
  expect({
      {R"({"type": "object", "required": ["x"], "properties": {"a": {"type": "null"}}})",
       {R"({"x": 1})", R"({"a": null, "x": [2]})"},
       {"{}", R"({"a": null})", R"({"a": 1, "x": 1})"}},
      {R"({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}})",
       {R"({"a": 1, "b": 2})", R"({"k1": 1, "k2": 2, "x": 3})"},
       {"{}", R"({"a": 1})", R"({"a": 1, "a": 2})"}},
      {R"({"type": "object", "maxProperties": 1, "properties": {"a": {"const": 1}, "b": {"const": 2}}})",
       {"{}", R"({"a": 1})", R"({"b": 2})"},
       {R"({"a": 1, "b": 2})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"type": "string"}})",
       {R"({"a": 1, "b": ""})"},
       {R"({"a": ""})", R"({"b": "", "a": ""})", R"({"b": 1})"}},
      {R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 3}}, "additionalProperties": false})",
       {R"({"x": 1})", R"({"xy": 3})", R"({"y": "a"})"},
       {R"({"xy": 2})", R"({"x": ""})", R"({"z": 1})"}},
      {R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}})",
       {"{}", R"({"a": null, "b": null})"},
       {R"({"c": null})", R"({"a": null, "a": null})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "dependentRequired": {"a": ["b"]}})",
       {"{}", R"({"b": 2})", R"({"a": 1, "b": 2})"},
       {R"({"a": 1})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}, "b": false}})",
       {"{}", R"({"a": 1})"},
       {R"({"b": 1})"}},
  });
}

TEST_F(SchemaGrammar, ArraysCountTheirItems) {
  expect({
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true, false]"},
       {"[]", "[true, true, true]", "[1]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": false})",
       {"[]", "[1]", "[1, 2]"},
       {"[2]", "[1, 2, 3]"}},
      {R"({"items": [{"const": 1}], "additionalItems": {"const": 5}, "type": "array", "minItems": 2})",
       {"[1, 5]", "[1, 5, 5]"},
       {"[1]", "[1, 1]"}},
      {R"({"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"const": 2}, "maxContains": 1})",
       {"[2]", "[1, 2, 3]"},
       {"[]", "[1]", "[2, 2]"}},
      {R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 2})",
       {R"(["b", "a"])", R"(["a", "b", "c"])"},
       {R"(["a"])", R"(["a", "a"])"}},
      {R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[7]"}, {"[1, 2]"}},
  });
}

TEST_F(SchemaGrammar, ReferencesAreFollowed) {
  expect({
      {R"({"$ref": "#/anyOf/1", "anyOf": [{"type": "string"}, {"type": "integer"}]})",
       {"3"},
       {"\"a\""}},
      {R"({"$ref": "#/$defs/a~1b%25c~0", "$defs": {"a/b%c~": {"const": 1}}})", {"1"}, {"2"}},
      {R"({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "const": 1}}})", {"1"}, {"2"}},
      {R"({"$id": "http://x.org/a/root", "$ref": "other", "$defs": {"x": {"$id": "other", "const": 1}}})",
       {"1"},
       {"2"}},
      {R"({"id": "thing", "definitions": {"x": {"const": 1}}, "$ref": "#/definitions/x"})",
       {"1"},
       {"2"}},
      {R"({"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"]})",
       {R"({"next": {"v": 1}, "v": 2})"},
       {R"({"next": {}, "v": 2})"}},
  });
  expect_refused(R"({"$ref": "https://example.org/x"})", "another document");
  expect_refused(R"({"properties": {"a": {"$ref": "#/nowhere"}}})", "$.properties.a.$ref");
  expect_refused(R"({"$ref": "#"})", "itself");
}

TEST_F(SchemaGrammar, AnnotationsDoNotRestrict) {
  expect(
      {{R"({"type": "integer", "x-a": 1, "example": "x", "examples": [], "nullable": true, "contentEncoding": "base64",
               "format": "int32", "deprecated": true, "default": "x", "unknown": {"type": "string"}})",
        {"5"},
        {"\"x\""}}});
}

TEST_F(SchemaGrammar, ErrorsNameTheLocationOfSchemasWithoutAValue) {
  expect_refused(R"({"allOf": [{"type": "string"}, {"type": "integer"}]})", "$ has no value");
  expect_refused(
      R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"]})",
      "$.properties.a has no value");
  expect_refused(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
                 "has no value");
  expect_refused(R"({"type": "array", "minItems": 1, "items": {"$ref": "#"}})", "has no value");
  expect_refused(R"({"type": "string", "pattern": "^a$", "minLength": 2})", "has no value");
  expect_refused("false", "has no value");
  expect_refused(R"({"type": "array", "minItems": 2000000, "items": {"type": "null"}})",
                 "characters");
}

TEST_F(SchemaGrammar, ErrorsNameUnsupportedKeywords) {
  expect_refused(R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true})",
                 "uniqueItems");
  expect_refused(R"({"type": "number", "multipleOf": 0.01})", "$.multipleOf");
  expect_refused(R"({"type": "string", "pattern": "(a)\\1"})", "back reference");
  expect_refused(R"({"type": "string", "pattern": "(?<=a)b"})", "look-behind");
  expect_refused(R"({"type": "string", "pattern": "\\bword"})", "word boundary");
  expect_refused(R"({"type": "string", "pattern": "("})", "$.pattern");
  expect_refused(R"({"type": "string", "pattern": "^(a|b)*a(a|b){14}$"})", "states");
  expect_refused(R"({"type": "strin"})", "strin");
  expect_refused(R"({"properties": {"a": 5}})", "$.properties.a");
  expect_refused("7", "$ is a JSON");
}

TEST_F(SchemaGrammar, FormatsFollowTheirStandards) {
  const auto format = [](const char* name) {
    return fmt::format(R"({{"type": "string", "format": "{}"}})", name);
  };
  const auto check = [&](const char* name, std::vector<std::string> good,
                         std::vector<std::string> bad) {
    const auto grammar = grammars_->schema(format(name));
    for (const std::string& text : good)
      EXPECT_TRUE(test::takes(grammar, "\"" + text + "\"")) << name << " " << text;
    for (const std::string& text : bad)
      EXPECT_FALSE(test::takes(grammar, "\"" + text + "\"")) << name << " " << text;
  };
  check("date", {"2000-02-29", "1999-12-31"},
        {"1900-02-29", "2001-02-29", "2001-13-01", "0000-01-01"});
  check("date-time", {"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.6+01:00"},
        {"2024-01-02 03:04:05Z", "2024-01-02T24:00:00Z"});
  check("ipv6", {"::", "::1", "1:2:3:4:5:6:7:8", "1::8", "::1.2.3.4", "1:2::3"},
        {"1:2:3:4:5:6:7", "1::2::3", ":1", "12345::"});
  check("email", {"a.b@c.de"}, {"a@", "@b.c", "a..b@c.de"});
  check("uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"});
  check("uri", {"http://a.b/c?d=e#f", "urn:x:y"}, {"a/b", "http://a b"});
  check("duration", {"P1D", "PT5M", "P1Y2M3DT4H5M6S", "P2W"}, {"P", "PT", "1D"});
  check("hostname", {"a.b-c.org"}, {"-a.org", "a..b"});
}

}  // namespace
}  // namespace veery
