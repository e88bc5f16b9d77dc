// Forced tool calls: the format is derived from chat templates of several families, and constrained
// answers of random weights are calls.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/call_form.h"
#include "chat/chat.h"
#include "schedule/generate.h"
#include "support/tiny_model.h"
#include "text/answer/answer_parser.h"
#include "text/grammar/grammar.h"

namespace veery {
namespace {

std::string chat_template(const std::string& calls, const std::string& begin = "",
                          const std::string& end = "</s>") {
  return "{% for m in messages %}<|user|>{{ m.role }}\n" + begin +
         "{{ m.content }}{% if m.tool_calls %}" + calls + "{% endif %}" + end +
         "{% endfor %}{% if add_generation_prompt %}<|user|>assistant\n{% endif %}";
}

// Qwen and Hermes.
const std::string kTagged = chat_template(
    "{% for c in m.tool_calls %}{% if not loop.first %}{{ '\\n' }}{% endif "
    "%}<tool_call>\n{\"name\": \"{{ "
    "c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>"
    "{% endfor %}");
// Mistral: a list, with ids.
const std::string kList = chat_template(
    "[TOOL_CALLS] [{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{% if not loop.last %}, {% endif "
    "%}"
    "{% endfor %}]");
// Llama 3: one call, which is the whole answer.
const std::string kBare = chat_template(
    "{# <|start_header_id|> #}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at "
    "once') }}{% endif %}"
    "{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"parameters\": "
    "{{ m.tool_calls[0].function.arguments | tojson }}}");
// GLM: keys and values between marks.
const std::string kMarked = chat_template(
    "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{% for k, v in "
    "c.function.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>"
    "{% endfor %}</tool_call>{% endfor %}");

// Qwen3-Coder.
const std::string kFunction = chat_template(
    "{% for c in m.tool_calls %}\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in "
    "c.function.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n"
    "</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}");
// DeepSeek V3.2: the mark says whether a value is a string.
const std::string kTyped = chat_template(
    "<｜DSML｜function_calls>\n{% for c in m.tool_calls %}<｜DSML｜invoke name=\"{{ "
    "c.function.name "
    "}}\">\n{% for k, v in c.function.arguments.items() %}<｜DSML｜parameter name=\"{{ k }}\" "
    "string=\""
    "{{ 'true' if v is string else 'false' }}\">{{ v if v is string else v | tojson }}"
    "</｜DSML｜parameter>\n{% endfor %}</｜DSML｜invoke>\n{% endfor %}</｜DSML｜function_calls>");
// Gemma 4: code.
const std::string kCode = chat_template(
    "{% for c in m.tool_calls %}<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in "
    "c.function.arguments.items() %}{{ k }}:<|\"|>{{ v }}<|\"|>,{% endfor %}{{ '}' }}<tool_call|>"
    "{% endfor %}");

CallForm form_of(const std::string& source) {
  const test::TinyModel file(source);
  return find_call_form(Model(file.path(), {.threads = 1}));
}

TEST(CallForm, IsReadOffTheTemplate) {
  EXPECT_EQ(form_of(kTagged),
            (CallForm{.open = "<tool_call>\n{\"name\": \"",
                      .middle = "\", \"arguments\": ",
                      .close = "}\n</tool_call>",
                      .separator = "}\n</tool_call>\n<tool_call>\n{\"name\": \""}));
  EXPECT_EQ(form_of(kList), (CallForm{.open = "[TOOL_CALLS] [{\"name\": \"",
                                      .middle = "\", \"arguments\": ",
                                      .close = ", \"id\": \"\x01\"}]",
                                      .separator = ", \"id\": \"\x01\"}, {\"name\": \""}));
  EXPECT_EQ(form_of(kBare), (CallForm{.open = "{\"name\": \"",
                                      .middle = "\", \"parameters\": ",
                                      .close = "}",
                                      .separator = ""}));
}

TEST(CallForm, MayHoldArgumentsBetweenMarks) {
  EXPECT_EQ(form_of(kMarked), (CallForm{.open = "<tool_call>",
                                        .middle = "",
                                        .close = "</tool_call>",
                                        .separator = "</tool_call><tool_call>",
                                        .members = {.key = "<arg_key>",
                                                    .text = "</arg_key><arg_value>",
                                                    .json = "</arg_key><arg_value>",
                                                    .end = "</arg_value>",
                                                    .stops = {"</arg_value>", "</tool_call>"}}}));
  const CallForm function = form_of(kFunction);
  EXPECT_EQ(function.open, "<tool_call>\n<function=");
  EXPECT_EQ(function.members.text, ">\n");
  EXPECT_EQ(function.members.end + function.close, "\n</parameter>\n</function>\n</tool_call>");
  EXPECT_FALSE(function.members.drops_first_break || function.members.drops_last_break);
  const CallForm typed = form_of(kTyped);
  EXPECT_EQ(typed.members.text, "\" string=\"true\">");
  EXPECT_EQ(typed.members.json, "\" string=\"false\">");
  EXPECT_FALSE(typed.members.guesses());
}

TEST(CallForm, IsThatBehindTheReasoning) {
  const std::string calls =
      "{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"arguments\": "
      "{{ m.tool_calls[0].function.arguments | tojson }}}";
  EXPECT_EQ(form_of(chat_template(calls, "<think>\n\n</think>\n\n")).open, "{\"name\": \"");
}

TEST(CallForm, TemplatesWithoutAFormSayWhy) {
  for (const auto& [source, part] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", "the model has no chat template"},
           {chat_template(""), "does not render calls"},
           {"{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}x",
            "refuses calls"},
           {kCode, "in an unknown syntax"}}) {
    try {
      form_of(source);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

class ForcedCalls : public ::testing::TestWithParam<const std::string*> {};

TEST_P(ForcedCalls, AreCallsOfTheToolsWithArgumentsOfTheirSchemas) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  const test::TinyModel file(*GetParam(), true, 11, 1024);
  Model model(file.path(), {.threads = 1, .context = 1024});
  const CallForm form = find_call_form(model);
  const std::vector<CallableTool> tools{
      {"add", parse_json(R"({"type":"object","properties":{"a":{"type":"integer","minimum":0,
        "maximum":99},"b":{"type":"boolean"}},"required":["a","b"],"additionalProperties":false})",
                         "a schema")},
      {"say", parse_json(R"({"type":"object","properties":{"word":{"enum":["yes","no"]}},
        "required":["word"],"additionalProperties":false})",
                         "a schema")}};
  GrammarCompiler grammars(model.tokenizer(), model.config().vocab, model.answer_format());
  const auto grammar = grammars.calls(form, tools, true);
  size_t most = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Chat chat(model, "", false);
    chat.add_user("do");
    AnswerParser parser = chat.parser();
    GenerateRequest request{.prompt = chat.prompt(), .grammar = grammar};
    request.options.sampling = {.top_p = 1, .min_p = 0, .top_k = 0, .temperature = 1, .seed = seed};
    request.options.sampling.bias = {{test::TinyModel::kEos, 2}};  // so that most answers end
    request.options.marks = model.answer_format();
    request.options.max_tokens = 700;
    Scheduler scheduler(model, single_user());
    const Generation answer = generate(scheduler, request);
    parser.push(answer.text);
    parser.finish();
    const ParsedAnswer& parsed = parser.answer();
    if (answer.finish == FinishReason::kLength) continue;  // many calls
    ASSERT_FALSE(parsed.calls.empty()) << answer.text;
    EXPECT_EQ(parsed.content, "");
    for (const ToolCall& call : parsed.calls) {
      const Json arguments = parse_json(call.arguments, call.arguments);
      if (call.name == "add") {
        EXPECT_TRUE(arguments["a"].is_number() && arguments["b"].is_boolean()) << call.arguments;
      } else {
        ASSERT_EQ(call.name, "say");
        EXPECT_TRUE(arguments["word"] == "yes" || arguments["word"] == "no");
      }
    }
    most = std::max(most, parsed.calls.size());
  }
  if (form.separator.empty()) {
    EXPECT_EQ(most, 1U);
  } else {
    EXPECT_GT(most, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ForcedCalls,
                         ::testing::Values(&kTagged, &kList, &kBare, &kMarked, &kFunction, &kTyped),
                         [](const auto& test) {
                           return test.param == &kTagged     ? "Tagged"
                                  : test.param == &kList     ? "List"
                                  : test.param == &kBare     ? "Bare"
                                  : test.param == &kMarked   ? "Marked"
                                  : test.param == &kFunction ? "Function"
                                                             : "Typed";
                         });

}  // namespace
}  // namespace veery
