// Chat templates compared with recorded output of jinja2, and hostile templates.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(VEERY_SOURCE_DIR) / "tests/fixtures/templates";
constexpr int64_t kNow = 1715949296;  // 2024-05-17 12:34:56, the clock of the recorded output

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Outcome {
  std::string text;
  bool failed = false;
  ErrorKind kind = ErrorKind::kBug;
};

Outcome render(const std::string& source, const Json& variables) {
  ChatTemplate::Options options;
  options.now = kNow;
  try {
    return {ChatTemplate(source).render(variables, options), false, ErrorKind::kBug};
  } catch (const Error& error) {
    return {error.what(), true, error.kind()};
  }
}

std::string fnv1a(std::string_view text) {
  uint64_t code = 0xcbf29ce484222325;
  for (const char c : text) code = (code ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", code);
}

// Compares with recorded output: {"text"} or {"size", "hash"}, {"raises"} (a message or its hash)
// or {"fails"}.
void expect_golden(const Json& golden, const Outcome& outcome) {
  if (golden.contains("raises")) {
    EXPECT_TRUE(outcome.failed);
    EXPECT_EQ(outcome.kind, ErrorKind::kInput) << outcome.text;
    const std::string wanted = golden["raises"].string();
    EXPECT_TRUE(outcome.text == wanted || fnv1a(outcome.text) == wanted) << outcome.text;
  } else if (golden.contains("fails")) {
    EXPECT_TRUE(outcome.failed) << "jinja2: " << golden["fails"] << "; here: " << outcome.text;
  } else if (golden.contains("text")) {
    EXPECT_FALSE(outcome.failed);
    EXPECT_EQ(outcome.text, golden["text"].get<std::string>());
  } else {
    EXPECT_FALSE(outcome.failed) << outcome.text;
    EXPECT_EQ(outcome.text.size(), golden["size"].get<size_t>());
    EXPECT_EQ(fnv1a(outcome.text), golden["hash"].get<std::string>()) << outcome.text;
  }
}

// Renders each template of `folder` for the recorded conversations; returns the number of
// comparisons.
size_t expect_all(const fs::path& folder, const Json& goldens) {
  size_t count = 0;
  for (const auto& [name, results] : goldens["goldens"].items()) {
    const std::string source = read(folder / (name + ".jinja"));
    for (const auto& [conversation, golden] : results.items()) {
      SCOPED_TRACE(name + " x " + conversation);
      Json variables = goldens["conversations"][conversation];
      variables["messages"] = template_messages(variables["messages"]);
      expect_golden(golden, render(source, variables));
      ++count;
    }
  }
  return count;
}

TEST(ChatTemplate, OwnTemplatesRenderAsJinja2) {
  const Json goldens = parse_json(read(kFixtures / "own.json"), "test");
  EXPECT_GE(expect_all(kFixtures / "own", goldens), 25U * 30U);
}

TEST(ChatTemplate, PublishedTemplatesRenderAsJinja2) {
  const fs::path folder = fs::path(VEERY_SOURCE_DIR) / "../shared/chat-templates";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  const Json goldens = parse_json(read(kFixtures / "goldens.json"), "test");
  EXPECT_GE(expect_all(folder, goldens), 55U * 30U);
}

// As in transformers. Values nested below the fields of a message are unchanged.
TEST(ChatTemplate, MessagesOmitNullFieldsAndHaveAllNamesOfReasoning) {
  const auto prepared = [](const char* messages) {
    return dump_json(template_messages(parse_json(messages, "messages")));
  };
  EXPECT_EQ(prepared(R"([{"role":"assistant","content":null,"tool_calls":[{"id":null}]}])"),
            R"([{"role":"assistant","tool_calls":[{"id":null}]}])");
  EXPECT_EQ(
      prepared(R"([{"role":"a","reasoning":"r","content":"c"}])"),
      R"([{"thinking":"r","role":"a","reasoning":"r","content":"c","reasoning_content":"r"}])");
  EXPECT_EQ(prepared(R"([{"reasoning_content":"r","thinking":"t"}])"),
            R"([{"thinking":"t","reasoning_content":"r"}])");
  EXPECT_EQ(prepared(R"([{"reasoning_content":null,"thinking":""}])"),
            R"([{"thinking":"","reasoning_content":""}])");
  EXPECT_EQ(prepared(R"([[null],7,{}])"), R"([[null],7,{}])");
  EXPECT_EQ(prepared(R"({"role":null})"), R"({"role":null})");
}

TEST(ChatTemplate, RendersRepeatedlyAndAfterMove) {
  ChatTemplate first("{{ a }}{% set a = 2 %}{{ a }}");
  EXPECT_EQ(first.render({{"a", 1}}), "12");
  ChatTemplate second = std::move(first);
  EXPECT_EQ(second.render({{"a", 3}}), "32");
}

TEST(ChatTemplate, ErrorsNameTemplateLineAndCause) {
  const auto message = [](const char* source) {
    try {
      ChatTemplate(source, "mine").render(Json::object());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("a\n{{ b.c }}"), "mine:2: 'b' is undefined");
  EXPECT_EQ(message("a\n\n  {% foo %}"), "mine: line 3, column 6: unknown tag 'foo'");
  EXPECT_EQ(message("{{ raise_exception('No.') }}"), "No.");
  EXPECT_NE(message("{% include 'x' %}").find("not supported"), std::string::npos);
}

TEST(ChatTemplate, VariablesMustBeAnObject) {
  EXPECT_THROW(ChatTemplate("a").render(Json::array()), Error);
}

// CPU time in seconds, which does not depend on the load of the machine.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns the CPU time of 300,000 string look-ups: 0.04 s on most machines, much more when
// emulated.
double seconds_of_look_ups() {
  const double start = processor_seconds();
  std::map<std::string, size_t> found;
  size_t sum = 0;
  for (size_t i = 0; i < 300000; ++i) sum += found[fmt::format("number {}", i * 7919 % 5000)]++;
  EXPECT_GT(sum, 0U);
  return processor_seconds() - start;
}

// Limit in multiples of seconds_of_look_ups(). Without limits each template would take minutes,
// hours or all memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostTimes = 700;  // sanitizers slow down templates tenfold and look-ups twofold
#else
constexpr double kMostTimes = 150;
#endif

TEST(ChatTemplate, HostileTemplatesFailInTime) {
  const double most = kMostTimes * seconds_of_look_ups();
  const std::string deep = std::string(50000, '(') + "1" + std::string(50000, ')');
  std::string sum = "1";
  for (int i = 0; i < 50000; ++i) sum += "+1";
  std::string ifs;
  for (int i = 0; i < 50000; ++i) ifs += "{% if 1 %}";
  const std::string loop = "{% for i in range(100000) %}";
  const std::string nest = loop + loop + loop + "a{% endfor %}{% endfor %}{% endfor %}";
  const auto space = [&](const std::string& start, const std::string& step) {
    return "{% set n = namespace(a=" + start + ") %}" + loop + "{% set n.a = " + step +
           " %}{% endfor %}";
  };
  const std::vector<std::string> hostile = {
      nest,
      "{{ " + deep + " }}",
      "{{ " + sum + " }}",
      ifs,
      space("'x'", "n.a ~ n.a"),
      space("'x'", "n.a + n.a"),
      space("[1]", "n.a + n.a"),
      space("[]", "[n.a, n.a]"),
      space("[]", "[n.a]"),
      space("''", "n.a ~ 'abc'") + nest,
      space("'x'", "n.a.replace('x', 'xx')"),
      space("'x'", "(n.a ~ ' ')|indent(1000, true)"),
      space("{}", "{'a': n.a, 'b': n.a}"),
      "{{ 'x' * 10**12 }}",
      "{{ [1] * 10**12 }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:>1000000000}'.format(1) }}",
      "{{ 'a'.center(10**10) }}",
      "{{ 'a'|center(10**10) }}",
      "{{ 'a\nb'|indent(10**10) }}",
      "{{ range(10**15)|list }}",
      "{{ [1]|batch(10**10, 0)|list }}",
      "{{ [1]|slice(10**10)|list }}",
      "{{ 2**(10**9) }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
      "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ ('a' * 10**7)|list|length }}",
      "{% set b = 'ab' * 10**7 %}" + loop + "{% set c = b|upper|lower|title %}{% endfor %}",
      "{% set b = 'ab' * 10**7 %}" + loop + "{% if 'zz' in b %}{% endif %}{% endfor %}",
      "{% set b = range(100000)|list %}" + loop + "{% if b|sort == b %}{% endif %}{% endfor %}",
      "{% set b = 'a' * 10**6 %}" + loop + "{{ b }}{% endfor %}",
      loop + "{% set x %}" + loop + "aaaaaaaaaaaaaaaa{% endfor %}{% endset %}{% endfor %}"};
  for (size_t i = 0; i < hostile.size(); ++i) {
    SCOPED_TRACE(fmt::format("{}: {}", i, hostile[i].substr(0, 120)));
    const double start = processor_seconds();
    const Outcome outcome = render(hostile[i], Json::object());
    const double took = processor_seconds() - start;
    EXPECT_TRUE(outcome.failed) << outcome.text.substr(0, 100);
    EXPECT_LT(took, most);
    RecordProperty(fmt::format("seconds_{}", i), fmt::format("{:.3f}", took));
  }
}

}  // namespace
}  // namespace veery
