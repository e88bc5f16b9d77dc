// Costs of template operations: each is charged by the data that it touches, so that none can
// occupy a machine; and the cost of ordinary templates.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/jinja/evaluator.h"

namespace veery::jinja {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kSteps = ChatTemplate::Options().max_steps;

// Returns the steps of one rendering.
int64_t spent(const std::string& source, const Json& variables = Json::object()) {
  const Template parsed = parse(source);
  Budget budget(kSteps, size_t{256} << 20);
  const BudgetScope scope(&budget);
  Context context(budget);
  context.has_now = true;
  Evaluator evaluator(parsed, context, size_t{64} << 20);
  try {
    evaluator.render(variables);
  } catch (const Error& error) {
    const bool of_depth = std::string_view(error.what()).find("recurses") != std::string::npos;
    if (error.kind() == ErrorKind::kLimit && !of_depth) throw;
  }
  return budget.spent();
}

struct Row {
  const char* operation;
  int64_t least;  ///< minimum number of steps
};

// Checks the steps of each operation, without those of the setup.
void expect_charged(const std::string& setup, std::initializer_list<Row> rows) {
  const int64_t before = spent(setup + "{% set r = 1 %}");
  for (const auto& [operation, least] : rows) {
    SCOPED_TRACE(setup + " " + operation);
    EXPECT_GE(spent(setup + "{% set r = " + operation + " %}") - before, least);
  }
}

constexpr int64_t kBytes = 400'000;
constexpr int64_t kCopied = kBytes / 70;  ///< bytes copied, compared or searched once
constexpr int64_t kRead = kBytes / 4;     ///< bytes processed character by character

TEST(JinjaBudget, SearchingTextIsCharged) {
  expect_charged("{% set s = 'ab' * 200000 %}{% set t = 'ab' * 200000 %}",
                 {{"'zz' in s", kCopied},
                  {"'ac' in s", kRead / 2},
                  {"s.find('zz')", kCopied},
                  {"s.rfind('zz')", kCopied},
                  {"s.rindex('ba')", 1},
                  {"s.count('zz')", kCopied},
                  {"s.count('b')", kRead},
                  {"s.count('')", kCopied},
                  {"s.replace('zz', 'x')", kCopied},
                  {"s.replace('b', 'x')", kRead},
                  {"s.replace('', 'x')", kRead},
                  {"s|replace('zz', 'x')", kCopied},
                  {"s.split('zz')", kCopied},
                  {"s.split('b')", kRead},
                  {"s.rsplit('zz')", kCopied},
                  {"s.split()", kRead},
                  {"s.rsplit()", kRead},
                  {"s.splitlines()", kRead},
                  {"s.partition('zz')", kCopied},
                  {"s.rpartition('zz')", kCopied},
                  {"s.startswith(t)", kCopied},
                  {"s.endswith(t)", kCopied},
                  {"s.startswith(('a',) * 100000)", 10},
                  {"s.removeprefix(t)", kCopied},
                  {"s.removesuffix(t)", kCopied},
                  {"s == t", kCopied},
                  {"s != t", kCopied},
                  {"s < t", kCopied},
                  {"s is sameas t", kCopied},
                  {"s is eq t", kCopied},
                  {"s is in [t]", kCopied},
                  {"t in [s]", kCopied},
                  {"[s].index(t)", kCopied},
                  {"[s].count(t)", kCopied},
                  {"{}[s]", kCopied},
                  {"{}.get(s)", kCopied},
                  {"{s: 1}", kCopied},
                  {"[s, t]|unique|list", kCopied},
                  {"[s, t]|sort", kCopied},
                  {"[s, t]|max", kCopied}});
  // A search text that matches at every position except for its last byte is charged for all of
  // these comparisons.
  expect_charged("{% set s = 'a' * 40000 %}{% set p = 'a' * 1000 ~ 'b' %}",
                 {{"p in s", 1'000'000}, {"s.replace(p, '')", 1'000'000}});
}

TEST(JinjaBudget, ProcessingTextIsCharged) {
  expect_charged("{% set s = 'é ' * 133333 %}", {{"s.upper()", kRead},
                                                 {"s.lower()", kRead},
                                                 {"s.title()", kRead},
                                                 {"s.capitalize()", kRead},
                                                 {"s.swapcase()", kRead},
                                                 {"s|upper", kRead},
                                                 {"s|lower", kRead},
                                                 {"s|title", kRead},
                                                 {"s|capitalize", kRead},
                                                 {"s.istitle()", kRead},
                                                 {"s.isupper()", kRead},
                                                 {"s is lower", kRead},
                                                 {"s is upper", kRead},
                                                 {"s.isprintable()", kRead},
                                                 {"s|wordcount", kRead},
                                                 {"s|e", kRead},
                                                 {"s|forceescape", kRead},
                                                 {"s|striptags", kRead},
                                                 {"s|urlencode", kRead},
                                                 {"s|tojson", kRead},
                                                 {"s|tojson(ensure_ascii=true)", kRead},
                                                 {"[s]|string", kRead},
                                                 {"'%r' % (s,)", kRead},
                                                 {"s|indent", kRead},
                                                 {"s.expandtabs()", kRead},
                                                 {"s.format()", kRead},
                                                 {"s|list", kRead},
                                                 {"s|first", kRead},
                                                 {"s|reverse", kRead},
                                                 {"s[::-1]", kRead},
                                                 {"s[::50000]", kRead},
                                                 {"s[-1]", kCopied},
                                                 {"s[200000]", kCopied / 2},
                                                 {"s[1:-1]", kCopied},
                                                 {"s.find('x', 200000)", kCopied},
                                                 {"s.startswith('x', -5)", kCopied},
                                                 {"s|truncate(200000)", kCopied / 2},
                                                 {"s ~ 'x'", kCopied},
                                                 {"s + 'x'", kCopied},
                                                 {"s * 2", kCopied},
                                                 {"s|string ~ ''", kCopied},
                                                 {"s % ()", kCopied},
                                                 {"[s]|join", kCopied},
                                                 {"s.join(['', ''])", kCopied},
                                                 {"s|safe", kCopied},
                                                 {"strftime_now(s)", kRead}});
  expect_charged("{% set s = ' ' * 400000 %}", {{"s.strip()", kRead},
                                                {"s.rstrip()", kRead},
                                                {"s|trim", kRead},
                                                {"s.isspace()", kRead},
                                                {"s|int", kRead},
                                                {"s|float", kRead}});
  expect_charged("{% set s = '<b>' * 133333 %}", {{"s|striptags", kRead}, {"s|e", kRead}});
  expect_charged("{% set s = '%Y' * 200000 %}", {{"strftime_now(s)", 8 * 200'000}});
  expect_charged("{% set s = '%%' * 200000 %}", {{"s % ()", 200'000}});
  expect_charged("{% set s = '{{' * 200000 %}", {{"s.format()", kRead}});
  expect_charged("{% set s = '{0}' * 100000 %}", {{"s.format(1)", 400'000}});
}

constexpr int64_t kItems = 50'000;
constexpr int64_t kTouched = kItems / 4;

TEST(JinjaBudget, WorkOnElementsIsCharged) {
  expect_charged("{% set l = range(50000)|list %}{% set m = range(50000)|list %}",
                 {{"l[1:]", kTouched},
                  {"l[::-1]", kTouched},
                  {"l + m", 2 * kTouched},
                  {"l * 2", 2 * kTouched},
                  {"l == m", kItems},
                  {"l < m", kItems},
                  {"-1 in l", kTouched},
                  {"-1 is in l", kTouched},
                  {"-1 in range(50000)", kTouched},
                  {"l.index(49999)", kTouched},
                  {"l.count(1)", kTouched},
                  {"l|list", kTouched},
                  {"l|reverse", kTouched},
                  {"l|sort", kItems},
                  {"l|sort(reverse=true)", kItems},
                  {"l|unique", kItems},
                  {"l|max", kItems},
                  {"l|min", kItems},
                  {"l|sum", kItems},
                  {"l|join", kItems},
                  {"l|join(',')", kItems},
                  {"l|batch(7)", kTouched},
                  {"l|slice(7)", kTouched},
                  {"[]|slice(50000)", kItems},
                  {"[1]|batch(50000, 0)", kTouched},
                  {"l|map('string')", kItems},
                  {"l|select('odd')", kItems},
                  {"l|reject", kItems},
                  {"l|selectattr('x')", kItems},
                  {"l|groupby('x')", kTouched},
                  {"[1, 2, 3]|map('string', *l)", 3 * kTouched},
                  {"l|tojson", kItems},
                  {"l|tojson(indent=1)", kItems},
                  {"l|string", kItems},
                  {"l ~ ''", kItems},
                  {"'%s' % (l,)", kItems},
                  {"cycler(*l)", kTouched},
                  {"loop_like|default(l|list)", kTouched},
                  {"range(50000)|list", kTouched},
                  {"dict(l|batch(2))", kItems},
                  {"namespace(l|batch(2))", kItems}});
  expect_charged("{% set l = [''] * 50000 %}", {{"l|join", kTouched}, {"''.join(l)", kTouched}});
  expect_charged(
      "{% set d = dict(range(100000)|batch(2)) %}{% set e = dict(range(100000)|batch(2)) %}",
      {{"d.items()|list", kItems},
       {"d|items", kItems},
       {"d|dictsort", kItems},
       {"d|list", kTouched},
       {"d == e", kItems},
       {"-1 in d.values()", kTouched},
       {"d|tojson", kItems},
       {"d|tojson(sort_keys=true)", kItems},
       {"d|string", kItems},
       {"d|urlencode", kItems}});
}

TEST(JinjaBudget, NumbersAndWidthsAreCharged) {
  expect_charged("{% set x = 0.1 %}", {{"'%.1000000f' % x", 10'000},
                                       {"'{:.1000000f}'.format(x)", 10'000},
                                       {"'%1000000d' % 1", 100'000},
                                       {"'{:é>1000000}'.format(1)", 100'000},
                                       {"'a'.center(1000000, 'é')", 100'000},
                                       {"'a'.zfill(1000000)", 10'000},
                                       {"'a'|center(1000000)", 10'000},
                                       {"'é' * 1000000", 100'000},
                                       {"x|round(300)", 500},
                                       {"(2**126)|string", 15},
                                       {"'{:b}'.format(2**126)", 50},
                                       {"1e308 % 5e-324", 100},
                                       {"1e308 // 5e-324", 100},
                                       {"'\\n' | tojson(indent='a' * 100000)", 1000}});
}

TEST(JinjaBudget, NamesAndCallsAreCharged) {
  std::string many, parameters;
  for (int i = 0; i < 2000; ++i) {
    many += "{% set v" + std::to_string(i) + " = 1 %}";
    parameters += (i == 0 ? "a" : ",a") + std::to_string(i);
  }
  // The last of 2,000 variables is found after all the others.
  const int64_t before = spent(many);
  EXPECT_GE(spent(many + "{% set r = [v1999, v1999, v1999] %}") - before, 3 * 2000 / 20);
  const std::string macro = "{% macro f(" + parameters + ") %}{% endmacro %}";
  EXPECT_GE(spent(macro + "{{ f() }}") - spent(macro), 2 * 2000);
  EXPECT_GE(spent("{% for i in range(1000) %}{% endfor %}"), 6 * 1000);
  EXPECT_GE(spent("{% for i in range(1000) if i > 1000 %}{% endfor %}"), 8 * 1000);
  // Keys with the same hash are compared one by one.
  const std::string keys =
      "{% set d = dict([[2**100, 0]] + ((range(2000)|map('float')|batch(2)|list)"
      "+ [[2**100 + 1, 1], [2**100 + 2, 2]])) %}";
  EXPECT_GE(spent(keys + "{{ d[2**100 + 2] }}") - spent(keys), 10);
}

TEST(JinjaBudget, ErrorsNameTheLimit) {
  try {
    ChatTemplate("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")
        .render(Json::object());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_NE(std::string(error.what()).find("more than 20000000"), std::string::npos)
        << error.what();
  }
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the maximum steps of a template over the recorded conversations.
int64_t most_spent(const fs::path& folder, const Json& goldens) {
  int64_t most = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    for (const auto& [name, given] : goldens["conversations"].items()) {
      Json variables = given;
      variables["messages"] = template_messages(given["messages"]);
      most = std::max(most, spent(read(entry.path()), variables));
    }
  return most;
}

TEST(JinjaBudget, OrdinaryTemplatesStayFarBelowTheLimit) {
  const fs::path root = VEERY_SOURCE_DIR;
  const Json own = parse_json(read(root / "tests/fixtures/templates/own.json"), "test");
  EXPECT_LT(most_spent(root / "tests/fixtures/templates/own", own), kSteps / 1000);
  const fs::path published = root / "../shared/chat-templates";
  if (!fs::is_directory(published)) GTEST_SKIP() << published << " is not here";
  const int64_t most = most_spent(published, own);
  RecordProperty("most_steps", std::to_string(most));
  EXPECT_LT(most, kSteps / 200);
}

TEST(JinjaBudget, LongConversationsStayBelowTheLimit) {
  const fs::path published = fs::path(VEERY_SOURCE_DIR) / "../shared/chat-templates";
  if (!fs::is_directory(published)) GTEST_SKIP() << published << " is not here";
  Json messages = Json::array();
  const std::string text = "A paragraph of some hundred bytes, as people and models write them. ";
  for (int i = 0; i < 250; ++i) {
    messages.push_back({{"role", "user"}, {"content", text + text + text}});
    messages.push_back({{"role", "assistant"}, {"content", text + text + text + text}});
  }
  messages.push_back({{"role", "user"}, {"content", text}});
  const Json variables = {{"messages", messages}, {"add_generation_prompt", true},
                          {"bos_token", "<s>"},   {"eos_token", "</s>"},
                          {"tools", nullptr},     {"documents", nullptr}};
  for (const auto& entry : fs::directory_iterator(published)) {
    SCOPED_TRACE(entry.path().filename());
    const int64_t steps = spent(read(entry.path()), variables);
    EXPECT_LT(steps, kSteps / 3);
    RecordProperty(entry.path().stem().string(), std::to_string(steps));
  }
}

}  // namespace
}  // namespace veery::jinja
