// Assistant messages rendered by published templates are parsed back.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "text/answer/answer_parser.h"
#include "text/chat_template.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

Json tools() {
  return parse_json(R"([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters":
      {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A town"},
        "days": {"type": "integer", "description": "How many"}}}}},
    {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
      {"type": "object", "required": [], "properties": {
        "how": {"type": "object", "description": "How"}}}}}])",
                    "test");
}

Json call(const char* name, const Json& arguments, int number) {
  return {{"id", fmt::format("call{:05}", number)},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments}}}};
}
const Json kWeather = {{"place", "Zürich \"am See\""}, {"days", 2}};
const Json kAdd = {{"how", {{"exact", true}, {"digits", {1, 2.5}}}}};

class Template {
 public:
  explicit Template(const std::string& source) : template_(source) {}

  /// Renders the conversation with `message` as the answer, or up to the start of the answer if it
  /// is null. Returns "" if the template raises an error.
  std::string render(const Json& message) const {
    Json variables = {{"messages", {{{"role", "user"}, {"content", "How warm is it?"}}}},
                      {"tools", tools()},
                      {"documents", nullptr},
                      {"add_generation_prompt", message.is_null()},
                      {"bos_token", "<s>"},
                      {"eos_token", "</s>"}};
    if (!message.is_null()) variables["messages"].push_back(message);
    try {
      return template_.render(variables);
    } catch (const Error&) {
      return {};
    }
  }

 private:
  ChatTemplate template_;
};

// An answer within a rendered conversation and the text before it. The answer starts at the last
// position before the first difference where a mark may begin, and ends where the text after every
// answer begins.
struct Cut {
  std::string prompt, answer;
};
Cut cut(const std::string& prompt, const std::string& full, const std::string& plain) {
  size_t begin = static_cast<size_t>(
      std::mismatch(prompt.begin(), prompt.end(), full.begin(), full.end()).first - prompt.begin());
  while (begin > 0 && std::string_view("\n>]:").find(full[begin - 1]) == std::string_view::npos)
    --begin;
  size_t tail = static_cast<size_t>(
      std::mismatch(full.rbegin(), full.rend(), plain.rbegin(), plain.rend()).first -
      full.rbegin());
  while (tail > 0 && full[full.size() - tail] != '<') --tail;
  const std::string answer = full.substr(begin, full.size() - tail - begin);
  // One template appends an empty second answer.
  return {full.substr(0, begin), answer.substr(0, answer.find("<｜end▁of▁sentence｜>"))};
}

ParsedAnswer parse(const AnswerFormat& format, const Cut& text) {
  AnswerParser parser(format, {.tools = tools(), .prompt = text.prompt});
  parser.push(text.answer);
  parser.finish();
  return parser.answer();
}

void expect_calls(const ParsedAnswer& answer, const std::vector<Json>& wanted) {
  ASSERT_EQ(answer.calls.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(answer.calls[i].name, wanted[i]["function"]["name"].get<std::string>());
    EXPECT_TRUE(answer.calls[i].complete);
    ASSERT_TRUE(answer.calls[i].valid) << answer.calls[i].arguments;
    const Json given = wanted[i]["function"]["arguments"];
    const Json object = given.is_string() ? parse_json(given.get<std::string>(), "test") : given;
    // The template decides the order of members.
    EXPECT_EQ(parse_json(answer.calls[i].arguments, "test"), object);
  }
}

// Renders and parses calls in each form that some template requires; returns whether any was
// rendered.
bool expect_round_trip(const std::string& source) {
  const Template chat(source);
  const AnswerFormat format = AnswerFormat::of_template(source);
  const std::string prompt = chat.render(nullptr);
  const std::string plain =
      chat.render({{"role", "assistant"}, {"content", "Just text."}, {"reasoning_content", "Hm."}});
  if (!plain.empty() && plain.find("Just text.") != std::string::npos) {
    const ParsedAnswer text = parse(format, cut(prompt, plain, plain));
    EXPECT_NE((text.content + text.reasoning).find("Just text"), std::string::npos);
    EXPECT_TRUE(text.calls.empty());
  }
  bool written = false;
  for (const bool as_text : {false, true})
    for (const size_t count : {size_t{1}, size_t{2}}) {
      const auto arguments = [&](const Json& object) {
        return as_text ? Json(dump_json(object)) : object;
      };
      std::vector<Json> calls = {call("get_weather", arguments(kWeather), 1),
                                 call("add", arguments(kAdd), 2)};
      calls.resize(count);
      const std::string full =
          chat.render({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
      const Cut text = cut(prompt, full, plain);
      if (text.answer.find("get_weather") == std::string::npos) continue;
      if (count == 2 && text.answer.find("digits") == std::string::npos) continue;
      SCOPED_TRACE(fmt::format("{}: {}", format.name(), text.answer));
      if (as_text && written) continue;  // arguments were accepted as an object
      const ParsedAnswer answer = parse(format, text);
      expect_calls(answer, calls);
      EXPECT_EQ(answer.content, "");
      EXPECT_FALSE(answer.broken);
      written = true;
    }
  return written;
}

TEST(AnswerParser, ParsesWhatPublishedTemplatesRender) {
  const fs::path folder = fs::path(VEERY_SOURCE_DIR) / "../shared/chat-templates";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  int written = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream in(entry.path(), std::ios::binary);
    if (expect_round_trip({std::istreambuf_iterator<char>(in), {}})) ++written;
  }
  EXPECT_GE(written, 38);
}

TEST(AnswerFormat, IsDetectedInATemplate) {
  const std::map<std::string, std::string> wanted = {
      {"{{ '<think>' }}{{ '<tool_call>' }}", "think,tool_call"},
      {"<|start_header_id|> \"parameters\"", "llama3"},
      {"<｜tool▁call▁begin｜><｜tool▁sep｜>```json", "deepseek_fenced,deepseek"},
      {"<｜tool▁call▁begin｜><｜tool▁sep｜>", "deepseek_plain,deepseek"},
      {"[TOOL_CALLS]", "mistral"},
      {"<|channel|> <|message|>", "harmony"},
      {"{% for m in messages %}{{ m.content }}{% endfor %}", "none"},
  };
  for (const auto& [source, name] : wanted)
    EXPECT_EQ(AnswerFormat::of_template(source).name(), name) << source;
}

}  // namespace
}  // namespace veery
