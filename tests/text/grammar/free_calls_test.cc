// Answers of text with optional tool calls. Bytes are sampled uniformly, like at infinite
// temperature, and an independent validator checks what the answer parser reads.
#include <gtest/gtest.h>

#include "support/byte_grammar.h"
#include "support/schema_validator.h"
#include "text/answer/answer_parser.h"
#include "text/grammar/answer_rules.h"

namespace veery {
namespace {

constexpr const char* kAdd = R"({"type":"object","properties":{
  "count":{"type":"integer","minimum":-5,"maximum":99},
  "text":{"type":"string","minLength":1,"maxLength":6},
  "mode":{"enum":["on","off","auto"]},
  "any":{"type":["string","number","null"],"maxLength":4,"maximum":7},
  "list":{"type":"array","items":{"type":"string","maxLength":3},"maxItems":2},
  "flag":{"type":"boolean"}},
  "required":["count","text"],"additionalProperties":false})";
constexpr const char* kOpen =
    R"({"type":"object","additionalProperties":{"type":"string","pattern":"^[a-c]+$"}})";

const MemberMarks kGlm{.key = "<arg_key>",
                       .text = "</arg_key>\n<arg_value>",
                       .json = "</arg_key>\n<arg_value>",
                       .end = "</arg_value>\n",
                       .stops = {"</arg_value>", "</tool_call>"}};
const MemberMarks kFunction{.key = ">\n<parameter=",
                            .text = ">\n",
                            .json = ">\n",
                            .end = "\n</parameter",
                            .stops = {"\n<parameter=", "</parameter>", "\n</function>"}};
const MemberMarks kSeed{.key = "<parameter=",
                        .text = ">",
                        .json = ">",
                        .end = "</parameter>\n",
                        .stops = {"\n<parameter=", "</parameter>", "\n</function>"},
                        .drops_first_break = true,
                        .drops_last_break = true};
const MemberMarks kTyped{.key = "<｜DSML｜parameter name=\"",
                         .text = "\" string=\"true\">",
                         .json = "\" string=\"false\">",
                         .end = "</｜DSML｜parameter>\n",
                         .stops = {"</｜DSML｜parameter>"}};

struct Case {
  const char* name;
  const char* format;
  CallForm form;
  const char* begun;  ///< text that begins a call
};

const Case kCases[] = {
    {"hermes",
     "think,tool_call",
     {"<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>",
      "}\n</tool_call>\n<tool_call>\n{\"name\": \""},
     "Text {\"name\": 1} <tool <tool_call>"},
    {"mistral",
     "mistral",
     {"[TOOL_CALLS][{\"name\": \"", "\", \"arguments\": ", ", \"id\": \"\x01\"}]",
      ", \"id\": \"\x01\"}, {\"name\": \""},
     "I will. [TOOL_CALLS]"},
    {"llama3", "llama3", {"{\"name\": \"", "\", \"parameters\": ", "}", ""}, "\n{\"name\""},
    {"llama3_code",
     "llama3",
     {"{\"name\": \"", "\", \"parameters\": ", "}", ""},
     "<<|python_tag|>"},
    {"glm",
     "think,tool_call,glm",
     {"\n<tool_call>", "\n", "</tool_call>", "", kGlm},
     "Hm. <tool_call>"},
    {"qwen3_coder",
     "tool_call,function",
     {"\n<tool_call>\n<function=", "", ">\n</function>\n</tool_call>", "", kFunction},
     "Now: <tool_call>"},
    {"qwen3_coder_bare",
     "tool_call,function",
     {"\n<tool_call>\n<function=", "", ">\n</function>\n</tool_call>", "", kFunction},
     "Now: <function="},
    {"seed",
     "tool_call_seed,function",
     {"\n<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "", kSeed},
     "<seed:tool_call>"},
    {"dsml",
     "dsml",
     {"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"", "\">\n",
      "</｜DSML｜invoke>\n</｜DSML｜function_calls>", "", kTyped},
     "So: <｜DSML｜function_calls>"},
    {"deepseek",
     "deepseek_plain,deepseek",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "<｜tool▁call▁end｜><｜tool▁call▁begin｜>"},
     "So <｜tool▁call▁begin｜>"},
    {"harmony",
     "harmony",
     {" to=functions.", "<|channel|>commentary json<|message|>", "", ""},
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions."},
    {"harmony_first",
     "harmony",
     {" to=functions.", "<|channel|>commentary json<|message|>", "", ""},
     " to=functions."},
};

class FreeCalls : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  }
};

Json tools_of(const std::vector<CallableTool>& tools) {
  Json list = Json::array();
  for (const CallableTool& tool : tools)
    list.push_back({{"type", "function"},
                    {"function", {{"name", tool.name}, {"parameters", tool.parameters}}}});
  return list;
}

TEST_P(FreeCalls, FollowTheSchemasOfStrictTools) {
  const Case& given = GetParam();
  const AnswerFormat format = AnswerFormat::named(given.format);
  ASSERT_TRUE(marks_calls(given.form, format));
  const std::vector<CallableTool> tools{{"add", parse_json(kAdd, "add")},
                                        {"open", parse_json(kOpen, "open")},
                                        {"loose", parse_json(kAdd, "loose"), false}};
  test::ByteGrammars grammars;
  const AnswerMode start = AnswerParser(format).mode();
  const auto grammar = grammars.compiler().free_calls(given.form, tools, format, start);
  const test::SchemaValidator add(tools[0].parameters), open(tools[1].parameters);
  Random random(7);
  std::map<std::string, int> called;
  for (int walk = 0; walk < 60; ++walk) {
    bool stuck = false;
    const auto text = test::random_text(grammar, random, stuck, 1500, given.begun);
    ASSERT_FALSE(stuck);
    if (!text) continue;  // the answer did not end
    AnswerParser parser(format, {.tools = tools_of(tools), .prompt = {}, .prefill = {}});
    parser.push(*text);
    parser.finish();
    ASSERT_FALSE(parser.answer().calls.empty()) << *text;
    for (const ToolCall& call : parser.answer().calls) {
      ASSERT_TRUE(call.valid) << call.name << call.arguments << "\n" << *text;
      const Json arguments = parse_json(call.arguments, "arguments");
      if (call.name == "add") {
        ASSERT_TRUE(add.valid(arguments)) << call.arguments << "\n" << *text;
      } else if (call.name == "open") {
        ASSERT_TRUE(open.valid(arguments)) << call.arguments << "\n" << *text;
      } else {
        ASSERT_EQ(call.name, "loose") << *text;
      }
      ++called[call.name];
    }
  }
  EXPECT_GT(called["add"], 3);
  EXPECT_GT(called["open"], 3);
  EXPECT_GT(called["loose"], 3);
}

TEST_P(FreeCalls, AllowAnyText) {
  const Case& given = GetParam();
  const AnswerFormat format = AnswerFormat::named(given.format);
  const std::vector<CallableTool> tools{{"add", parse_json(kAdd, "add")}};
  test::ByteGrammars grammars;
  const std::string head =
      std::string(given.format) == "harmony" ? "<|channel|>final<|message|>" : "";
  const AnswerMode start = AnswerParser(format).mode();
  const auto grammar = grammars.compiler().free_calls(given.form, tools, format, start);
  for (const char* text : {"", "Plain.", "a < b, <b>x</b> and {\"name\": \"add\"}",
                           "Umlaut ü, \xff", "  <tool_cal", "\n\n# Title\n- [ ] x"})
    EXPECT_TRUE(test::takes(grammar, head + text)) << given.name << ": " << text;
  for (const char* name : {"<tool_call>x", "[TOOL_CALLS]x", "<|python_tag|>x"}) {
    const std::string text(name);
    const std::string mark = text.substr(0, text.size() - 1);
    bool known = false;
    for (const AnswerFeature* feature : format.features())
      for (const AnswerMark& m : feature->marks) known = known || m.text == mark;
    EXPECT_EQ(test::takes(grammar, head + "Well " + text), !known) << given.name << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FreeCalls, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(FreeCallRules, AnswersMayBeginWithJsonThatIsNotACall) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  const std::vector<CallableTool> tools{{"add", parse_json(kAdd, "add")}};
  const AnswerFormat format = AnswerFormat::named("llama3");
  test::ByteGrammars grammars;
  const CallForm form{"{\"name\": \"", "\", \"parameters\": ", "}", ""};
  const auto grammar = grammars.compiler().free_calls(form, tools, format, AnswerMode::kStart);
  for (const char* text : {R"({"names": ["a"]} and text)", "{}", "{ x }", R"( {"": 1})",
                           R"({"name": "add", "parameters": {"count": 1, "text": "a"}})"})
    EXPECT_TRUE(test::takes(grammar, text)) << text;
  for (const char* text :
       {R"({"name": "sub"})", R"({"parameters": {}, "name": "add"})", R"({"na\u006de": "add"})",
        R"( {"type": "function"})",
        R"({"name": "add", "parameters": {"count": 1, "text": "a"}} {"name": "add"})"})
    EXPECT_FALSE(test::takes(grammar, text)) << text;
}

TEST(FreeCallRules, RejectsNamesAndTextsThatContainMarks) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  test::ByteGrammars grammars;
  const CallForm form{"<tool_call>", "\n", "</tool_call>", "", kGlm};
  for (const char* schema :
       {R"({"properties": {"a<b": {"type": "string"}}})",
        R"({"properties": {"a": {"const": "</arg_value>"}}, "required": ["a"]})"}) {
    const std::vector<CallableTool> tools{{"f", parse_json(schema, "f")}};
    try {
      grammars.compiler().calls(form, tools, false);
      ADD_FAILURE() << schema;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("calls of this model cannot hold"),
                std::string::npos)
          << error.what();
    }
  }
  // JSON strings write `<` as an escape; long texts do not contain it.
  const std::vector<CallableTool> tools{
      {"f", parse_json(R"({"properties": {"a": {"type": "array", "items": {"const": "<i>"}},
                                          "b": {"type": "string", "maxLength": 5000}}})",
                       "f")}};
  const auto grammar = grammars.compiler().calls(form, tools, false);
  const auto call = [](const char* name, const char* value) {
    return fmt::format(
        "<tool_call>f\n<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>", name,
        value);
  };
  EXPECT_TRUE(test::takes(grammar, call("a", R"(["\u003ci>"])")));
  EXPECT_FALSE(test::takes(grammar, call("a", R"(["<i>"])")));
  EXPECT_TRUE(test::takes(grammar, call("b", "text\n> x")));
}

}  // namespace
}  // namespace veery
