// The interpreter compared with jinja2 on thousands of small templates, recorded by
// tools/oracle/template_goldens.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "text/chat_template.h"

namespace veery {
namespace {

TEST(Jinja, SnippetsMatchJinja2) {
  std::ifstream in(std::filesystem::path(VEERY_SOURCE_DIR) /
                   "tests/fixtures/templates/snippets.json");
  ASSERT_TRUE(in);
  const std::string source((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Json fixture = parse_json(source, "snippets.json");
  ASSERT_GE(fixture["cases"].size(), 1000U);
  for (const Json& golden : fixture["cases"]) {
    SCOPED_TRACE(golden["template"].get<std::string>());
    std::string text;
    std::optional<ErrorKind> kind;
    try {
      text = ChatTemplate(golden["template"].get<std::string>()).render(fixture["variables"]);
    } catch (const Error& error) {
      text = error.what();
      kind = error.kind();
    }
    if (golden.contains("text")) {
      EXPECT_FALSE(kind.has_value());
      EXPECT_EQ(text, golden["text"].get<std::string>());
    } else if (golden.contains("raises")) {
      EXPECT_EQ(kind, ErrorKind::kInput);
      EXPECT_EQ(text, golden["raises"].get<std::string>());
    } else {
      EXPECT_TRUE(kind.has_value()) << "jinja2: " << golden["fails"] << "; here: " << text;
    }
  }
}

std::string render(const char* source, const Json& variables = Json::object()) {
  return ChatTemplate(source).render(variables);
}

TEST(Jinja, JsonNumbersKeepTheirType) {
  const Json values = {{"i", 1}, {"f", 1.0}, {"big", UINT64_MAX}, {"t", true}, {"n", nullptr}};
  EXPECT_EQ(render("{{ [i, f, big, t, n] }}", values),
            "[1, 1.0, 18446744073709551615, True, None]");
  EXPECT_EQ(render("{{ [i, f, big, t, n] | tojson }}", values),
            "[1, 1.0, 18446744073709551615, true, null]");
}

TEST(Jinja, IntegerOverflowIsAnError) {
  EXPECT_EQ(render("{{ 2**126 }}"), "85070591730234615865843651857942052864");
  EXPECT_THROW(render("{{ 2**127 }}"), Error);
  EXPECT_THROW(render("{{ (2**126) * 2 }}"), Error);
  EXPECT_THROW(render("{{ (2**126) + (2**126) }}"), Error);
  EXPECT_THROW(render("{{ '9' * 50 | int }}{{ ('9' * 50) | int }}"), Error);
}

TEST(Jinja, AcceptsStringsThatAreNotUtf8) {
  const std::string bad =
      "a\xff\xc3"
      "b\xe4\xb8";
  const Json values = {{"s", bad}};
  EXPECT_NO_THROW(
      render("{{ s | upper }}{{ s | length }}{{ s[::-1] }}{{ s[1] }}{{ s | tojson }}"
             "{{ s.split('b') }}{{ s | title }}{{ s.strip() }}{{ s | list }}{{ [s] }}",
             values));
}

TEST(Jinja, ClockIsFormatted) {
  ChatTemplate::Options options;
  options.now = 1715949296;
  const ChatTemplate clock(
      "{{ strftime_now('%Y-%m-%d %H:%M:%S|%d %b %Y|%B %d, %Y|%-d|%j|%A|%%|%p') }}");
  EXPECT_EQ(clock.render(Json::object(), options),
            "2024-05-17 12:34:56|17 May 2024|May 17, 2024|17|138|Friday|%|PM");
}

TEST(Jinja, CyclesOfMacrosAndNamespacesDoNotLeak) {
  // Checked by the leak detector of the dev build.
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.self = n %}{% macro f() %}{{ f.name }}"
                   "{% endmacro %}{% set n.f = f %}{{ n.f() }}"),
            "f");
}

}  // namespace
}  // namespace veery
