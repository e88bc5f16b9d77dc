// Sampling parameters in requests: the fields, the OpenAPI document and the web page have the names
// and ranges of the table.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "docs/generated_text.h"
#include "sample/parameters.h"
#include "serve/api/api_error.h"
#include "serve/api/fields.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

// Reads `value` as the field, and returns the message of the refusal, if there is one.
std::string refusal(const SamplingParameter& row, const std::string& field, const Json& value) {
  const Json body = {{field, value}};
  const Fields fields(body);
  try {
    fields.parameter(field.c_str(), row);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "";
}

TEST(SamplingFields, EachParameterIsAcceptedAndRangeChecked) {
  for (const SamplingParameter& row : sampling_parameters())
    for (const std::string_view name : row.fields()) {
      const std::string field(name);
      for (const double value : {row.low, row.high, row.get()})
        EXPECT_EQ(refusal(row, field, value), "") << field;
      for (const Json& value : {Json(row.low - 1), Json(row.high + 1e9), Json("1"), Json(true),
                                Json::array(), Json(1e300)}) {
        const std::string message = refusal(row, field, value);
        EXPECT_TRUE(message.starts_with(field + " is ")) << field << ": " << message;
        EXPECT_TRUE(message.ends_with(", expected " + row.expected())) << message;
      }
    }
}

TEST(SamplingFields, EachEndpointThatGeneratesTextKeepsEachParameter) {
  for (const FieldRules* rules : all_rules()) {
    const std::vector<FieldRules::Entry> entries = rules->entries();
    const auto use_of = [&](const std::string& name) -> const FieldRule* {
      for (const FieldRules::Entry& entry : entries)
        if (entry.name == name || entry.name == "options." + name) return entry.rule;
      return nullptr;
    };
    if (use_of("top_k") == nullptr) continue;  // it generates no text
    for (const SamplingParameter& row : sampling_parameters())
      for (const std::string_view field : row.fields()) {
        const FieldRule* rule = use_of(std::string(field));
        ASSERT_NE(rule, nullptr) << rules->endpoint() << " " << field;
        EXPECT_EQ(rule->use, FieldUse::kKept) << rules->endpoint() << " " << field;
      }
  }
}

std::string schema_of(const SamplingParameter& row) {
  if (row.step > 1) {
    std::vector<std::string> values;
    for (double value = row.low; value <= row.high; value += row.step)
      values.push_back(row.text(value));
    return fmt::format(R"("enum": [{}, null])", fmt::join(values, ", "));
  }
  return fmt::format(R"("type": ["{}", "null"], "minimum": {}, "maximum": {})",
                     row.whole != nullptr ? "integer" : "number", row.low, row.high);
}

TEST(SamplingFields, TheOpenApiDocumentHasTheTable) {
  std::string text = "\n";
  for (const SamplingParameter& row : sampling_parameters())
    for (const std::string_view field : row.fields())
      text += fmt::format("     \"{}\": {{{}, \"description\": \"{}\"}},\n", field, schema_of(row),
                          row.help);
  test::expect_generated("src/serve/page/openapi.json",
                         "   \"Sampling\": {\n    \"type\": \"object\",\n    \"properties\": {",
                         "     \"min_tokens\":", text);
}

TEST(SamplingFields, TheSettingsOfThePageHaveTheRangesOfTheTable) {
  const std::string page = test::read_source("src/serve/page/app/index.html");
  const std::regex input("<input id=\"([a-z_]+)\" type=\"number\" ([^>]*)>");
  int found = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), input), end; at != end; ++at) {
    const SamplingParameter* row = find_sampling_parameter((*at)[1].str());
    if (row == nullptr) continue;  // seed, max_tokens
    ++found;
    std::string range = fmt::format("min=\"{}\" ", row->low);
    if (row->high < INT32_MAX) range += fmt::format("max=\"{}\" ", row->high);
    range += row->whole != nullptr ? "step=\"1\"" : "step=\"any\"";
    EXPECT_TRUE((*at)[2].str().starts_with(range)) << (*at)[0] << "\nexpected " << range;
  }
  EXPECT_GE(found, 5);
}

}  // namespace
}  // namespace veery::serve
