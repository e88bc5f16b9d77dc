// The rules of request fields: the report on a body, and that docs/fields.md and the OpenAPI
// document agree with the rules.
#include "serve/rules/field_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sample/parameters.h"
#include "serve/page/page.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr FieldRule kExample[] = {
    kept("model"),
    kept("messages"),
    kept("messages[].content[].type"),
    refused("messages[].content[].image_url", "no images"),
    ignored("user", "a name"),
    ignored("metadata", "a name"),
    refused("background", "no", "false, \"never\", 0"),
    kept("stream_options"),
    kept("stream_options.include_usage"),
    kept("free"),
};

FieldRules example() { return {"/example", {{kExample}}}; }

FieldRules::Report check(const std::string& body) {
  return example().check(parse_json(body, "a body"));
}

TEST(FieldRules, AFieldWithoutARuleIsReportedOnceByItsName) {
  const auto report = check(R"({"model": 1, "odd": 1, "stream_options": {"fast": true},
                                "messages": [{"x": 1}, {"x": 2}], "free": {"any": 1}})");
  EXPECT_FALSE(report.refusal);
  EXPECT_EQ(report.unknown,
            (std::vector<std::string>{"odd", "stream_options.fast", "messages[].x"}));
}

TEST(FieldRules, AnIgnoredFieldMayHoldAnything) {
  const auto report = check(R"({"user": [[]], "metadata": {"odd": {"odd": 1}}})");
  EXPECT_FALSE(report.refusal);
  EXPECT_TRUE(report.unknown.empty());
}

TEST(FieldRules, ARefusedFieldIsNamedWithItsPlace) {
  const auto report = check(R"({"messages": [{}, {"content": [{"type": "text"},
                                {"type": "image_url", "image_url": {"url": "x"}}]}]})");
  ASSERT_TRUE(report.refusal);
  EXPECT_EQ(report.refusal->path, "messages[1].content[1].image_url");
  EXPECT_EQ(report.refusal->param, "messages[1]");
  EXPECT_EQ(report.refusal->reason, "no images");
}

TEST(FieldRules, ARefusedFieldMayAskForNothing) {
  for (const char* value : {"null", "false", "\"never\"", "0", "\"\"", "[]", "{}"})
    EXPECT_FALSE(check(fmt::format(R"({{"background": {}}})", value)).refusal) << value;
  for (const char* value : {"true", "1", "\"x\"", "[false]"})
    EXPECT_TRUE(check(fmt::format(R"({{"background": {}}})", value)).refusal) << value;
}

TEST(FieldRules, ValuesOfOtherTypesAreLeftToTheEndpoint) {
  for (const char* body : {R"({"messages": 5})", R"({"messages": [5, [], null]})",
                           R"({"messages": [{"content": "x"}]})", R"({"stream_options": []})"})
    EXPECT_FALSE(check(body).refusal) << body;
}

TEST(FieldRules, ALaterRuleReplacesAnEarlierOne) {
  constexpr FieldRule kOther[] = {refused("model", "no")};
  const FieldRules rules("/example", {{kExample}, {kOther}});
  EXPECT_TRUE(rules.check({{"model", "x"}}).refusal);
}

TEST(FieldRules, ManyUnknownNamesAreCut) {
  Json body = Json::object();
  for (int i = 0; i < 1000; ++i) body[fmt::format("odd{}", i)] = i;
  EXPECT_EQ(example().check(body).unknown.size(), 20U);
}

TEST(FieldRules, AReasonStandsBesideEachFieldThatIsNotKept) {
  for (const FieldRules* rules : all_rules())
    for (const FieldRules::Entry& entry : rules->entries()) {
      EXPECT_EQ(entry.rule->reason.empty(), entry.rule->use == FieldUse::kKept)
          << rules->endpoint() << " " << entry.name;
      EXPECT_EQ(entry.rule->reason.find('|'), std::string_view::npos) << entry.name;
      EXPECT_NO_THROW(parse_json("[" + std::string(entry.rule->neutral) + "]", "neutral"))
          << entry.name;
    }
}

// Returns the members of a schema of the OpenAPI document, including those of its parts.
void add_properties(const Json& document, const Json& schema, std::set<std::string>& names) {
  if (const Json* ref = schema.member("$ref")) {
    const std::string name = ref->string().substr(ref->string().rfind('/') + 1);
    return add_properties(document, document["components"]["schemas"][name], names);
  }
  if (const Json* all = schema.member("allOf"))
    for (const Json& part : *all) add_properties(document, part, names);
  if (const Json* members = schema.member("properties"))
    for (const auto& [name, value] : members->items()) names.insert(name);
}

TEST(FieldRules, TheOpenApiDocumentNamesKeptFieldsAlone) {
  const Json document = parse_json(kOpenApi, "the document");
  for (const FieldRules* rules : all_rules()) {
    const Json* path = document["paths"].member(rules->endpoint());
    ASSERT_NE(path, nullptr) << rules->endpoint();
    std::set<std::string> documented;
    for (const auto& [type, body] : (*path)["post"]["requestBody"]["content"].items())
      add_properties(document, body["schema"], documented);
    std::set<std::string> kept;
    for (const FieldRules::Entry& entry : rules->entries())
      if (entry.rule->use == FieldUse::kKept) kept.insert(entry.name);
    for (std::string name : documented) {
      if (name.ends_with("[]")) name.resize(name.size() - 2);
      EXPECT_TRUE(kept.contains(name)) << rules->endpoint() << ": " << name << " has no rule";
    }
    for (const std::string& name : kept) {
      if (name.find_first_of(".[") != std::string::npos) continue;
      EXPECT_TRUE(documented.contains(name) || documented.contains(name + "[]"))
          << rules->endpoint() << ": " << name << " is not documented";
    }
  }
}

const char* word_of(FieldUse use) {
  switch (use) {
    case FieldUse::kKept: return "kept";
    case FieldUse::kIgnored: return "ignored";
    case FieldUse::kRefused: return "refused";
  }
  return "";
}

constexpr size_t kGenerating = 9;  // of all_rules(): they generate text

// Rows are fields, columns are endpoints.
std::string matrix(std::span<const FieldRules* const> endpoints) {
  std::map<std::string, std::vector<std::string>> rows;
  std::string head = "| field |", line = "|---|";
  for (size_t i = 0; i < endpoints.size(); ++i) {
    head += fmt::format(" `{}` |", endpoints[i]->endpoint());
    line += "---|";
    for (const FieldRules::Entry& entry : endpoints[i]->entries()) {
      std::vector<std::string>& row = rows[entry.name];
      row.resize(endpoints.size());
      row[i] = word_of(entry.rule->use);
    }
  }
  std::string text = head + "\n" + line + "\n";
  for (const auto& [name, cells] : rows)
    text += fmt::format("| `{}` | {} |\n", name, fmt::join(cells, " | "));
  return text;
}

struct Reason {
  std::string name;
  FieldUse use;
  std::string note;
  auto operator<=>(const Reason&) const = default;
};

// Endpoints by field and reason.
std::map<Reason, std::string> reasons() {
  std::map<Reason, std::string> all;
  for (const FieldRules* rules : all_rules())
    for (const FieldRules::Entry& entry : rules->entries()) {
      if (entry.rule->use == FieldUse::kKept) continue;
      std::string note(entry.rule->reason);
      if (!entry.rule->neutral.empty())
        note += fmt::format("; accepted: `{}`", entry.rule->neutral);
      std::string& endpoints = all[{entry.name, entry.rule->use, note}];
      endpoints += fmt::format("{}`{}`", endpoints.empty() ? "" : ", ", rules->endpoint());
    }
  return all;
}

std::string page() {
  std::string text =
      "# Request fields\n\n"
      "Each field that the APIs of OpenAI, Anthropic, Ollama, vLLM and llama.cpp document, and "
      "its\n"
      "use by each endpoint. [server.md](server.md) describes the endpoints.\n\n"
      "- **kept**: the endpoint reads it. A value of a wrong type or range is refused with status\n"
      "  400, which names the field.\n"
      "- **ignored**: it cannot change the result, for the reason given.\n"
      "- **refused**: it would change the result, and veery does not support it. Status 400 with\n"
      "  code `unsupported_parameter` names the field. `null`, empty values and the values listed\n"
      "  here are accepted, because they have no effect.\n\n"
      "A field that is not listed is ignored, and its name is in the header\n"
      "`Veery-Ignored-Fields` of the reply. `[]` in a name stands for the items of a list.\n\n"
      "The rules are in `src/serve/rules`; tests hold this page, the OpenAPI document and the\n"
      "endpoints to them. `VEERY_WRITE_DOCS=1 build/release/bin/serve_test\n"
      "--gtest_filter='FieldRules.*'` writes the page.\n";
  const std::span<const FieldRules* const> all = all_rules();
  text +=
      "\n## Sampling parameters\n\n"
      "Every endpoint that generates text keeps these fields; Ollama's have them in `options`.\n"
      "Without a field, the recommendation of the model's file holds, else the default.\n\n"
      "| field | range | default | effect |\n|---|---|---|---|\n";
  for (const SamplingParameter& row : sampling_parameters())
    text += fmt::format("| `{}` | {} | {} | {} |\n", fmt::join(row.fields(), "`, `"), row.range(),
                        row.text(row.get()), row.help);
  text += "\n## Text generation\n\n";
  text += matrix(all.first(kGenerating));
  text += "\n## Other endpoints\n\n";
  text += matrix(all.subspan(kGenerating));
  text += "\n## Reasons\n\n| field | use | endpoints | reason |\n|---|---|---|---|\n";
  for (const auto& [key, endpoints] : reasons())
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n", key.name, word_of(key.use), endpoints, key.note);
  return text;
}

TEST(FieldRules, TheDocumentationListsEachField) {
  const std::string path = std::string(VEERY_SOURCE_DIR) + "/docs/fields.md";
  if (std::getenv("VEERY_WRITE_DOCS") != nullptr) std::ofstream(path) << page();
  std::ifstream file(path);
  std::stringstream found;
  found << file.rdbuf();
  EXPECT_EQ(found.str(), page()) << "write it anew, see the page";
}

}  // namespace
}  // namespace veery::serve
