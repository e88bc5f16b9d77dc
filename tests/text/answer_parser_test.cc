// Answers of every model family: whole, split at any position, and malformed.
#include "text/answer/answer_parser.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

Json tools() {
  return parse_json(R"([{"type": "function", "function": {"name": "weather", "parameters":
    {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])",
                    "test");
}

/// Returns a compact text form of an answer for comparison.
std::string describe(const ParsedAnswer& answer) {
  std::string text;
  if (!answer.reasoning.empty()) text += "R:" + answer.reasoning + "|";
  if (!answer.content.empty()) text += "C:" + answer.content + "|";
  for (const ToolCall& call : answer.calls) {
    text += call.name + (call.id.empty() ? "" : "#" + call.id) + "(";
    text += call.valid ? dump_json(parse_json(call.arguments, "test")) : call.arguments;
    text += std::string(")") + (call.valid ? "" : " invalid") + (call.complete ? "" : " cut") + "|";
  }
  return text + (answer.broken ? "broken" : "");
}

struct Parsed {
  ParsedAnswer answer;
  std::vector<AnswerDelta> deltas;
};

Parsed parse(const AnswerFormat& format, const std::vector<std::string_view>& pieces,
             const AnswerParser::Options& options = {}) {
  AnswerParser parser(format, options);
  Parsed run;
  const auto keep = [&](const std::vector<AnswerDelta>& more) {
    run.deltas.insert(run.deltas.end(), more.begin(), more.end());
  };
  for (const std::string_view piece : pieces) keep(parser.push(piece));
  keep(parser.finish());
  run.answer = parser.answer();
  return run;
}

// Concatenates the deltas, which come in the order of the text.
ParsedAnswer joined(const Parsed& run) {
  ParsedAnswer answer;
  bool open = false;
  for (const AnswerDelta& delta : run.deltas) {
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent: answer.content += delta.text; break;
      case AnswerDelta::Kind::kReasoning: answer.reasoning += delta.text; break;
      case AnswerDelta::Kind::kCall:
        EXPECT_FALSE(open);
        EXPECT_EQ(delta.call, answer.calls.size());
        answer.calls.push_back({.name = delta.text});
        open = true;
        break;
      case AnswerDelta::Kind::kArguments:
        EXPECT_TRUE(open);
        answer.calls.at(delta.call).arguments += delta.text;
        break;
      case AnswerDelta::Kind::kCallEnd:
        EXPECT_TRUE(open);
        EXPECT_EQ(delta.call + 1, answer.calls.size());
        open = false;
    }
  }
  EXPECT_FALSE(open);
  for (size_t i = 0; i < std::min(answer.calls.size(), run.answer.calls.size()); ++i) {
    const ToolCall& whole = run.answer.calls[i];
    answer.calls[i].id = whole.id;
    answer.calls[i].complete = whole.complete;
    answer.calls[i].valid = whole.valid;
  }
  answer.broken = run.answer.broken;
  return answer;
}

// Expects the same answer for the whole text, for any split into two pieces, and byte by byte.
void expect_answer(const std::string& format_names, const std::string& text,
                   const std::string& wanted, const AnswerParser::Options& options = {}) {
  SCOPED_TRACE(format_names + ": " + text);
  const AnswerFormat format = AnswerFormat::named(format_names);
  const Parsed whole = parse(format, {text}, options);
  EXPECT_EQ(describe(whole.answer), wanted);
  EXPECT_EQ(describe(joined(whole)), wanted);
  const std::string_view view = text;
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    const Parsed cut = parse(format, {view.substr(0, at), view.substr(at)}, options);
    ASSERT_EQ(describe(cut.answer), wanted) << "cut at " << at;
    ASSERT_EQ(describe(joined(cut)), wanted) << "cut at " << at;
    bytes.push_back(view.substr(at, 1));
  }
  const Parsed single = parse(format, bytes, options);
  EXPECT_EQ(describe(single.answer), wanted);
  EXPECT_EQ(describe(joined(single)), wanted);
}

struct Sample {
  const char *format, *text, *wanted;
};

const char* const kBoth = R"(weather({"place":"Zürich","days":2})|add({"a":1,"b":[2.5,null]})|)";

// How each family writes these two calls, alone and after reasoning and a sentence.
struct AnswerOfFamily : ::testing::Test {
  const std::string both = kBoth;
  const std::string talk = "R:Hm.\nTwo.|C:Let me see.|" + both;
  const std::string args1 = R"({"place": "Zürich", "days": 2})";
  const std::string args2 = R"({"a": 1, "b": [2.5, null]})";
  const std::string first = R"({"name": "weather", "arguments": )" + args1 + "}";
  const std::string second = R"({"name": "add", "arguments": )" + args2 + "}";
  const std::string think = "<think>\nHm.\nTwo.\n</think>\n\nLet me see.\n";
};

TEST_F(AnswerOfFamily, ReadsCallsInTags) {
  expect_answer("think,tool_call",
                think + "<tool_call>\n" + first + "\n</tool_call>\n<tool_call>\n" + second +
                    "\n</tool_call>\n",
                talk);
  expect_answer("think,tool_call,function",
                think +
                    "<tool_call>\n<function=weather>\n<parameter=place>\nZürich\n</parameter>\n"
                    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                    "<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n[2.5, None]\n"
                    "</parameter>\n</function>\n</tool_call>",
                talk);
  expect_answer("think,tool_call,glm",
                think +
                    "<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Zürich</arg_value>\n"
                    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
                    "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b"
                    "</arg_key><arg_value>[2.5, null]</arg_value></tool_call>",
                talk);
  expect_answer("think_seed,tool_call_seed,function",
                "<seed:think>Hm.\nTwo.</seed:think>\nLet me see.\n\n<seed:tool_call>\n"
                "<function=weather>\n<parameter=place>Zürich</parameter>\n<parameter=days>2"
                "</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=add>\n"
                "<parameter=a>1</parameter>\n<parameter=b>[2.5, None]</parameter>\n</function>\n"
                "</seed:tool_call>",
                talk);
  expect_answer(
      "think,dsml",
      think +
          "\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n"
          "<｜DSML｜parameter name=\"place\" string=\"true\">Zürich</｜DSML｜parameter>\n"
          "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n"
          "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"add\">\n<｜DSML｜parameter name=\"a\" "
          "string=\"false\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" "
          "string=\"false\">[2.5, null]</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
          "</｜DSML｜function_calls>",
      talk);
}

TEST_F(AnswerOfFamily, ReadsNamesAndArgumentsBetweenTokens) {
  expect_answer("mistral,think_mistral",
                "[THINK]Hm.\nTwo.[/THINK]Let me see.[TOOL_CALLS]weather[ARGS]" + args1 +
                    "[TOOL_CALLS]add[ARGS]" + args2,
                talk);
  expect_answer("mistral", "[TOOL_CALLS]weather[CALL_ID]x7[ARGS]" + args1,
                R"(weather#x7({"place":"Zürich","days":2})|)");
  expect_answer("think,deepseek,deepseek_fenced",
                think +
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n"
                    "```json\n" +
                    args1 +
                    "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
                    "<｜tool▁sep｜>add\n```json\n" +
                    args2 +
                    "\n```<｜tool▁call▁end｜>"
                    "<｜tool▁calls▁end｜>",
                talk);
  expect_answer("think,deepseek,deepseek_plain",
                think + "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + args1 +
                    "<｜tool▁call▁end｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>" + args2 +
                    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                talk);
  expect_answer("think,kimi",
                think +
                    "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
                    "<|tool_call_argument_begin|>" +
                    args1 +
                    "<|tool_call_end|><|tool_call_begin|>"
                    "functions.add:1<|tool_call_argument_begin|>" +
                    args2 + "<|tool_call_end|><|tool_calls_section_end|>",
                "R:Hm.\nTwo.|C:Let me see.|weather#functions.weather:0"
                R"(({"place":"Zürich","days":2})|add#functions.add:1({"a":1,"b":[2.5,null]})|)");
}

TEST_F(AnswerOfFamily, ReadsJsonCallsAndMarkedAnswers) {
  expect_answer("mistral", "[TOOL_CALLS][" + first + ", " + second + "]", both);
  expect_answer(
      "think_cohere,cohere,cohere_response",
      "<|START_THINKING|>Hm.\nTwo.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": "
      "\"0\", \"tool_name\": \"weather\", \"parameters\": " +
          args1 +
          "},\n    "
          "{\"tool_call_id\": \"1\", \"tool_name\": \"add\", \"parameters\": " +
          args2 + "}\n]<|END_ACTION|>",
      R"(R:Hm.
Two.|weather#0({"place":"Zürich","days":2})|add#1({"a":1,"b":[2.5,null]})|)");
  expect_answer("think_cohere,cohere_response",
                "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
                "R:Hm.|C:Yes.|");
  expect_answer(
      "cohere_r",
      "Action: ```json\n[\n    {\n        \"tool_name\": \"add\",\n        \"parameters\": "
      "{\"a\": 1}\n    }\n]\n```",
      R"(add({"a":1})|)");
  expect_answer("granite", "<|tool_call|>[" + first + "," + second + "]", both);
  expect_answer("granite", "<|tool_call|>[" + first + "," + second + "]<|/tool_call|>", both);
  expect_answer("think,granite_response", "<think>Hm.</think><response>Yes.</response>",
                "R:Hm.|C:Yes.|");
  expect_answer("tool_calls",
                "Let me see.\n<tool_calls>[" + first + ", " + second + "]</tool_calls>",
                "C:Let me see.|" + both);
  expect_answer("apertus,think_apertus",
                "<|inner_prefix|>Hm.<|inner_suffix|><|tools_prefix|>[{\"weather\": " + args1 +
                    "}, {\"add\": " + args2 + "}]<|tools_suffix|>",
                "R:Hm.|" + both);
  expect_answer("gigachat", "Let me see.<|function_call|>" + first,
                R"(C:Let me see.|weather({"place":"Zürich","days":2})|)");
  expect_answer(
      "gigachat_role",
      "Let me see.<|message_sep|>\n\nfunction call<|role_sep|>\n" + first + "<|message_sep|>",
      R"(C:Let me see.|weather({"place":"Zürich","days":2})|)");
  expect_answer("firefunction", "Let me see. functools[" + first + ", " + second + "]",
                "C:Let me see.|" + both);
}

TEST(AnswerParser, ReadsCallsWrittenAsCode) {
  const std::string both = kBoth;
  const std::string code = "weather(place=\"Zürich\", days=2), add(a=1, b=[2.5, None])";
  expect_answer("lfm2", "<|tool_call_start|>[" + code + "]<|tool_call_end|>Ok.", "C:Ok.|" + both);
  expect_answer("gemma3", "Yes:\n```tool_code\nprint(weather(place='Zürich', days=2))\n```\nOk.",
                R"(C:Yes:Ok.|weather({"place":"Zürich","days":2})|)");
  expect_answer("gemma3", "```json\n{\"name\": \"add\", \"parameters\": {\"a\": 1}}\n```",
                R"(add({"a":1})|)");
  expect_answer(
      "gemma4,think_gemma",
      "<|channel>thought\nHm.\n<channel|><|tool_call>call:weather{days:2,place:<|\"|>Zü \"x\""
      "<|\"|>}<tool_call|><|tool_call>call:add{a:1,how:{digits:[1,2],exact:true}}<tool_call|>",
      R"(R:Hm.|weather({"days":2,"place":"Zü \"x\""})|)"
      R"(add({"a":1,"how":{"digits":[1,2],"exact":true}})|)");
  expect_answer("function_gemma",
                "<start_function_call>call:weather{place:<escape>Zürich<escape>,days:2}"
                "<end_function_call>",
                R"(weather({"place":"Zürich","days":2})|)");
  expect_answer("llama3", "<|python_tag|>brave_search.call(query=\"it's\")",
                R"(brave_search({"query":"it's"})|)");
  expect_answer("llama3", "<|python_tag|>import math\nmath.pi",
                R"(python({"code":"import math\nmath.pi"})|)");
  expect_answer("llama3", "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}",
                R"(add({"a":1})|)");
}

TEST(AnswerParser, ReadsLlamaCallsWithoutMarks) {
  expect_answer("llama3", R"({"name": "add", "parameters": {"a": "}"}})", R"(add({"a":"}"})|)");
  expect_answer("llama3",
                R"({"type": "function", "name": "f", "parameters": {}}; {"name": "g", )"
                R"("parameters": {"x": {}}})",
                R"(f({})|g({"x":{}})|)");
  expect_answer("llama3,function", R"(Ok. <function=add>{"a": 1}</function>)",
                R"(C:Ok.|add({"a":1})|)");
  // JSON in none of these forms is content.
  for (const char* text :
       {R"({"name": "Ann", "age": 3})", R"({"a": {"name": 1}})", R"({"name": "x"})", R"({"name": )",
        "{", "{}", R"(Say {"name": "f", "parameters": {}})"})
    expect_answer("llama3", text, "C:" + std::string(text) + "|");
  expect_answer("llama3", R"({"name": "unknown", "parameters": {}})",
                R"(C:{"name": "unknown", "parameters": {}}|)", {.tools = tools()});
}

TEST(AnswerParser, ReadsHarmony) {
  const AnswerParser::Options after = {.prompt =
                                           "<|start|>user<|message|>Hi<|end|><|start|>assistant"};
  expect_answer("harmony",
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
                "<|message|>Yes. \n<|return|>",
                "R:Hm.|C:Yes.|", after);
  expect_answer("harmony",
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
                "to=functions.add <|constrain|>json<|message|>{\"a\": 1}<|call|>",
                R"(R:Hm.|add({"a":1})|)", after);
  expect_answer("harmony", " to=functions.add<|channel|>commentary json<|message|>{\"a\": 1}",
                R"(add({"a":1})|)", after);
  expect_answer("harmony", "<|channel|>commentary<|message|>I call.<|end|>", "C:I call.|", after);
  expect_answer("harmony", "<|channel|>commentary to=python code<|message|>1 + 1<|call|>",
                "python(1 + 1) invalid|broken", after);
  expect_answer("harmony", "<|channel|>final<|message|>Yes", "C:Yes|");
  expect_answer("functionary", "all\nYes.\n>>>add\n{\"a\": 1}>>>all\nOk.",
                R"(C:Yes.Ok.|add({"a":1})|)", {.prompt = "assistant\n\n>>>"});
}

TEST(AnswerParser, ReasoningMayBeginInThePrompt) {
  const AnswerParser::Options opened = {.prompt = "user\nHi<|im_end|>assistant\n<think>\n"};
  expect_answer("think", "Hm.\n</think>\n\nYes.", "R:Hm.|C:Yes.|", opened);
  expect_answer("think", "Hm.", "R:Hm.|broken", opened);
  const AnswerParser::Options closed = {.prompt = "<think>\n\n</think>\n\n"};
  expect_answer("think", "Yes.", "C:Yes.|", closed);
  expect_answer("think", "Yes.", "C:Yes.|", {.prompt = "What is <think>? assistant:"});
  expect_answer("think_apriel", "Hm.\n[BEGIN FINAL RESPONSE]\nYes.", "R:Hm.|C:Yes.|",
                {.prompt = "<|begin_assistant|>\nHere are my reasoning steps:\n"});
}

TEST(AnswerParser, KeepsTextThatIsNotAMark) {
  for (const char* text : {"Use <think> and </think>.", "a <tool_ b", "<", " <tool_cal", "x\n\n",
                           "  indented\n", "``` and ```json\n{}\n```", "1 < 2 > 1 [x] {y}"})
    expect_answer("think,tool_call,function", text, "C:" + std::string(text) + "|");
  for (const char* text :
       {"```json\n{\"a\": [1]}\n```", "```json\n[1, 2]\n```", "```python\nx\n```"})
    expect_answer("gemma3", text, "C:" + std::string(text) + "|");
  expect_answer("none", "<think>x</think> <tool_call>{}", "C:<think>x</think> <tool_call>{}|");
}

TEST(AnswerParser, ReadsArgumentsInAnyOrder) {
  const auto expect = [](const std::string& json, const std::string& wanted) {
    expect_answer("tool_call", "<tool_call>" + json + "</tool_call>", wanted);
  };
  expect(R"({"arguments": {"a": "</tool_call>"}, "name": "add"})", R"(add({"a":"</tool_call>"})|)");
  expect(R"({"name": "add", "arguments": "{\"a\": \"\\u00fc\\n\", \"b\": 1}"})",
         R"(add({"a":"ü\n","b":1})|)");
  expect(R"({"name": "f", "arguments": "{\"a\": \"\ud83d\ude00 \u00e9\"}"})", R"(f({"a":"😀 é"})|)");
  expect(R"({"id": "7", "type": "function", "function": {"name": "add", "arguments": {}}})",
         "add#7({})|");
  expect(R"({"name": "now"})", "now({})|");
  expect(R"({"name": "now", "arguments": null})", "now({})|");
  expect(R"({"name": "f", "x": [{"y": "}"}], "arguments": {"a": {"b": []}}})",
         R"(f({"a":{"b":[]}})|)");
  expect("now", "now({})|");
}

TEST(AnswerParser, ToolSchemasDecideWhichValuesAreStrings) {
  const std::string text =
      "<tool_call><function=weather>\n<parameter=place>\n12\n</parameter>\n<parameter=days>\n12\n"
      "</parameter>\n</function></tool_call>";
  expect_answer("tool_call,function", text, R"(weather({"place":"12","days":12})|)",
                {.tools = tools()});
  expect_answer("tool_call,function", text, R"(weather({"place":12,"days":12})|)");
  // Line breaks and quotes inside a value are part of the value.
  expect_answer("tool_call,function",
                "<tool_call><function=f>\n<parameter=x>\n\na \"b\"\n<c>\n\n</parameter></function>",
                R"(f({"x":"\na \"b\"\n<c>\n"})|)");
}

TEST(AnswerParser, MalformedAnswersLoseNoText) {
  const Sample samples[] = {
      {"tool_call", "<tool_call>\nno json\n</tool_call> Ok.",
       "C:<tool_call>\nno json\n</tool_call> Ok.|broken"},
      {"tool_call", "<tool_call>{\"a\": 1}</tool_call>",
       "C:<tool_call>{\"a\": 1}</tool_call>|broken"},
      {"tool_call", "<tool_call>", "C:<tool_call>|broken"},
      {"tool_call", "<tool_call></tool_call>", "C:<tool_call></tool_call>|broken"},
      {"tool_call", "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [1, \"b",
       "add({\"a\": [1, \"b) invalid cut|broken"},
      {"tool_call", "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}</tool_call>Ok.",
       "C:Ok.|add({\"a\":1})|broken"},
      {"tool_call", "<tool_call>{\"name\": \"add\"", "add({}) cut|broken"},
      {"tool_call", "<tool_call>{\"nam", "C:<tool_call>{\"nam|broken"},
      {"tool_call", "<tool_call>{\"name\": \"add\", \"arguments\": {}}\nOk.",
       "C:Ok.|add({})|broken"},
      {"tool_call", "<tool_call><tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
       "add({})|"},
      {"think,tool_call",
       "<think>Hm. <tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
       "R:Hm.|add({})|broken"},
      {"think,tool_call", "<think>I use <tool_call> now.</think>Yes.",
       "R:I use <tool_call> now.|C:Yes.|broken"},
      {"think", "<think>Hm.", "R:Hm.|broken"},
      {"tool_call,function", "<tool_call><function=add><parameter=a>\nx y\n<parameter=b>\n2",
       "add({\"a\":\"x y\",\"b\":2}) cut|broken"},
      {"tool_call,function",
       "<tool_call><function=add>\n<parameter=a>\n1\n</function></tool_call>Ok.",
       "C:Ok.|add({\"a\":1})|broken"},
      {"tool_call,function", "<function=add", "add({}) cut|broken"},
      {"tool_call,glm", "<tool_call>add<arg_key>a</arg_key><arg_value>1</tool_call>Ok.",
       "C:Ok.|add({\"a\":1})|broken"},
      {"mistral", "[TOOL_CALLS]two words[ARGS]{}", "C:[TOOL_CALLS]two words[ARGS]{}|broken"},
      {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": \"b[TOOL_CALLS]g[ARGS]{}",
       "f({\"a\": \"b) invalid cut|g({})|broken"},
      {"kimi", "<|tool_calls_section_begin|>What?", "C:<|tool_calls_section_begin|>What?|broken"},
      {"lfm2", "<|tool_call_start|>f(1, 2<|tool_call_end|>",
       "C:<|tool_call_start|>f(1, 2<|tool_call_end|>|broken"},
      {"gemma4", "<|tool_call>call:add{a:<|\"|>b", "C:<|tool_call>call:add{a:<|\"|>b|broken"},
      {"harmony", "Plain text without any channel.", "C:Plain text without any channel.|broken"},
      {"harmony", "<|channel|>final<|message|>A<|channel|>analysis<|message|>B", "R:B|C:A|broken"},
      {"deepseek,deepseek_plain",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\"",
       "add({\"a\") invalid cut|broken"},
  };
  for (const Sample& sample : samples) expect_answer(sample.format, sample.text, sample.wanted);
}

TEST(AnswerParser, EmitsTextAsSoonAsItIsCertain) {
  AnswerParser parser(AnswerFormat::named("think,tool_call"));
  const auto push = [&](std::string_view text) {
    std::string out;
    for (const AnswerDelta& delta : parser.push(text))
      out += fmt::format("{}:{};", static_cast<int>(delta.kind), delta.text);
    return out;
  };
  EXPECT_EQ(push("Hello"), "0:Hello;");
  EXPECT_EQ(push(" you <"), "0: you;");
  EXPECT_EQ(push("tool_"), "");
  EXPECT_EQ(push("x"), "0: <tool_x;");
  EXPECT_EQ(push("<tool_call>{\"name\": \"f\", "), "");
  EXPECT_EQ(push("\"arguments\": {\"a"), "2:f;3:{\"a;");
  EXPECT_EQ(push("\": 1"), "3:\": 1;");
  EXPECT_EQ(push("}"), "3:};");
  EXPECT_EQ(push("}"), "4:;");
}

TEST(AnswerFormat, RejectsUnknownNames) {
  EXPECT_EQ(AnswerFormat::named("think,tool_call").name(), "think,tool_call");
  EXPECT_EQ(AnswerFormat::named("none").name(), "none");
  EXPECT_THROW(AnswerFormat::named("think,nonsense"), Error);
  EXPECT_TRUE(AnswerFormat::named("llama3").shows("<|python_tag|>"));
  EXPECT_TRUE(AnswerFormat::named("gemma4").shows("<|\"|>"));
  EXPECT_FALSE(AnswerFormat::named("llama3").shows("<|eot_id|>"));
}

TEST(ParsedAnswer, ConvertsToATemplateMessage) {
  const Parsed run =
      parse(AnswerFormat::named("think,tool_call"),
            {"<think>Hm.</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}"
             "</tool_call>"});
  EXPECT_EQ(dump_json(to_message(run.answer)),
            R"({"role":"assistant","content":null,"reasoning_content":"Hm.","tool_calls":[{"type":)"
            R"("function","function":{"name":"f","arguments":{"a":1}}}]})");
}

TEST(AnswerParser, ContentBeginsAfterReasoningClose) {
  int families = 0;
  for (const std::string_view name : AnswerFormat::all_names()) {
    AnswerParser parser(AnswerFormat::named(name));
    if (name.starts_with("think")) {
      parser.push(AnswerFormat::named(name).features()[0]->marks[0].text);
    } else if (name == "harmony") {
      parser.push("<|channel|>analysis<|message|>");
    } else {
      EXPECT_EQ(parser.reasoning_close(), "") << name;
      continue;
    }
    parser.push("so far");
    EXPECT_TRUE(parser.reasoning()) << name;
    const std::string close = parser.reasoning_close();
    EXPECT_NE(close, "") << name;
    parser.push(close);
    EXPECT_FALSE(parser.reasoning()) << name;
    parser.push("the answer");
    parser.finish();
    EXPECT_EQ(describe(parser.answer()), "R:so far|C:the answer|") << name;
    ++families;
  }
  EXPECT_GT(families, 5);
}

}  // namespace
}  // namespace veery
