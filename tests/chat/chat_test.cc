#include "chat/chat.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/reasoning.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}{% if tools is none %}.{% endif %}";

TEST(Chat, RendersTheConversationAndForgetsIt) {
  const TinyModel file(kTemplate);
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "be brief", false);
  chat.add_user("hi");
  EXPECT_EQ(chat.text(), "<s>[system]be brief[user]hi[assistant].");
  chat.add_assistant("yes");
  chat.add_user("why");
  EXPECT_EQ(chat.text(), "<s>[system]be brief[user]hi[assistant]yes[user]why[assistant].");
  chat.drop_last();
  EXPECT_EQ(chat.messages().size(), 3U);
  chat.reset();
  EXPECT_EQ(chat.text(), "<s>[system]be brief[assistant].");
}

TEST(Chat, TurnsAreDroppedWhole) {
  const TinyModel file(kTemplate);
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "S", false);
  EXPECT_FALSE(chat.drop_last_turn());
  EXPECT_FALSE(chat.drop_answer());
  for (const char* text : {"a", "b", "c"}) {
    chat.add_user(text);
    chat.add_assistant(std::string(text) + "!");
    chat.add_tool_result("f", "1", "r");
    chat.add_assistant("done");
  }
  EXPECT_EQ(chat.turns(), 3U);
  Chat copy(chat);
  EXPECT_TRUE(copy.drop_answer());
  EXPECT_EQ(copy.messages().back()["role"], "tool");
  EXPECT_TRUE(copy.drop_answer());  // nothing follows it
  EXPECT_EQ(copy.messages().size(), 12U);
  EXPECT_TRUE(copy.drop_last_turn());
  EXPECT_EQ(copy.messages().size(), 9U);
  chat.drop_first_turns(2);
  ASSERT_EQ(chat.messages().size(), 5U);
  EXPECT_EQ(chat.messages()[0]["content"], "S");
  EXPECT_EQ(chat.messages()[1]["content"], "c");
  EXPECT_EQ(chat.turns(), 1U);
}

TEST(Chat, TheFewestTurnsAreDroppedForAPromptThatFits) {
  const TinyModel file(kTemplate);
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "S", false);
  for (int i = 0; i < 6; ++i) {
    chat.add_user(std::string(static_cast<size_t>(i) + 1, 'a'));
    chat.add_assistant("b");
  }
  for (const size_t most : {1000, 200, 150, 100, 80, 60, 5}) {
    Chat shorter(chat);
    const size_t dropped = shorter.drop_turns_beyond(most);
    EXPECT_EQ(shorter.turns() + dropped, 6U);
    EXPECT_EQ(shorter.messages()[0]["content"], "S");
    if (shorter.turns() > 1) {
      EXPECT_LE(shorter.prompt().size(), most);
    }
    if (dropped == 0) continue;
    Chat longer(chat);
    longer.drop_first_turns(dropped - 1);
    EXPECT_GT(longer.prompt().size(), most);
  }
}

TEST(Chat, TheSystemMessageIsReplacedAndLoaded) {
  const TinyModel file(kTemplate);
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "old", false);
  chat.add_user("a");
  chat.set_system("new");
  EXPECT_EQ(chat.text(), "<s>[system]new[user]a[assistant].");
  chat.set_system("");
  EXPECT_EQ(chat.text(), "<s>[user]a[assistant].");
  chat.set_messages(parse_json(R"([{"role": "system", "content": "mine"}])", "x"), "x");
  EXPECT_EQ(chat.system(), "mine");
  chat.reset();
  EXPECT_EQ(chat.text(), "<s>[system]mine[assistant].");
}

TEST(Chat, VariablesReachTheTemplate) {
  const TinyModel file("{{ enable_thinking }}|{{ thinking }}|{{ reasoning_effort }}|{{ x }}");
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "", false);
  Json variables = {{"x", Json::array({1})}};
  set_reasoning_effort(variables, "low");
  chat.set_variables(variables);
  EXPECT_EQ(chat.text(), "||low|[1]");
  set_reasoning_effort(variables, "none");
  chat.set_variables(variables);
  EXPECT_EQ(chat.text(), "False|False|none|[1]");
  set_thinking(variables, true);
  chat.set_variables(variables);
  EXPECT_EQ(chat.text(), "True|True|none|[1]");
}

TEST(Chat, CallsWithoutAResultAreOpen) {
  ParsedAnswer answer;
  answer.calls.resize(2);
  answer.calls[0].name = "f";
  answer.calls[1] = {.id = "mine", .name = "g"};
  Json messages = parse_json(R"([{"role": "assistant", "tool_calls": [{"id": "call_1"}]}])", "x");
  give_call_ids(answer, messages);
  EXPECT_EQ(answer.calls[0].id, "call_2");
  EXPECT_EQ(answer.calls[1].id, "mine");
  messages.push_back(to_message(answer));
  ASSERT_EQ(open_calls(messages).size(), 2U);
  EXPECT_EQ(open_calls(messages)[0].name, "f");
  messages.push_back({{"role", "tool"}, {"content", "r"}});
  ASSERT_EQ(open_calls(messages).size(), 1U);
  EXPECT_EQ(open_calls(messages)[0].id, "mine");
  messages.push_back({{"role", "user"}, {"content", "r"}});
  EXPECT_TRUE(open_calls(messages).empty());
  EXPECT_TRUE(open_calls(Json::array()).empty());
}

TEST(Tools, AreFunctionsWithNames) {
  check_tools(parse_json(R"([{"type": "function", "function": {"name": "f"}}])", "x"), "x");
  for (const auto& [text, part] :
       {std::pair("{}", "t is a JSON object, expected an array"), std::pair("[5]", "t[0] has no"),
        std::pair(R"([{"function": {"name": 5}}])", "t[0] has no function with a name")}) {
    try {
      check_tools(parse_json(text, "x"), "t");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(Messages, AreObjectsWithARole) {
  check_messages(
      parse_json(R"([{"role": "user", "content": "hi"}, {"role": "assistant"}])", "test"), "x");
  check_messages(Json::array(), "x");
  for (const auto& [text, part] : {std::pair(R"({"role": "user"})", "m.json: found a JSON object"),
                                   std::pair("null", "found a JSON null"),
                                   std::pair(R"([{"role": "user"}, "hi"])", "message 1 is a JSON"),
                                   std::pair("[{}]", "message 0 has no role"),
                                   std::pair(R"([{"role": null}])", "is a JSON null"),
                                   std::pair(R"([{"role": ""}])", "is empty")}) {
    try {
      check_messages(parse_json(text, "test"), "m.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

constexpr const char* kToolTemplate =
    "{% if tools %}<tool_call>{{ tools[0].function.name }}{% endif %}{% for m in messages %}[{{ "
    "m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls %}{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>{% endif %}";

TEST(Chat, ToolsCallsResultsAndReasoningReachTheTemplate) {
  const TinyModel file(kToolTemplate);
  const Model model(file.path(), {.threads = 1});
  EXPECT_EQ(model.answer_format().name(), "think,tool_call");
  Chat chat(model, "", false);
  chat.set_tools(parse_json(R"([{"type": "function", "function": {"name": "f"}}])", "test"));
  chat.add_user("hi");
  EXPECT_EQ(chat.text(), "<tool_call>f[user]hi[assistant]<think>");
  AnswerParser parser = chat.parser();  // the prompt opens the reasoning
  parser.push(R"(Hm.</think><tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)");
  parser.finish();
  EXPECT_EQ(parser.answer().reasoning, "Hm.");
  chat.add_assistant(parser.answer());
  chat.add_tool_result("f", "7", "two");
  EXPECT_EQ(chat.text(), R"(<tool_call>f[user]hi[assistant]<think>Hm.</think>f{"a": 1}[tool]two7)"
                         "[assistant]<think>");
}

TEST(Chat, WithoutATemplateAnAnswerIsContent) {
  const TinyModel file("");
  const Model model(file.path(), {.threads = 1});
  Chat chat(model, "", false);
  AnswerParser parser = chat.parser();
  parser.push("<think>x</think>");
  parser.finish();
  EXPECT_EQ(parser.answer().content, "<think>x</think>");
}

TEST(Chat, PromptHasOneBosWhetherTheTemplateWritesItOrNot) {
  for (const char* source : {kTemplate, "{{ messages[0].content }}"}) {
    const TinyModel file(source);
    const Model model(file.path(), {.threads = 1});
    Chat chat(model, "", false);
    chat.add_user("hi");
    const auto prompt = chat.prompt();
    ASSERT_GE(prompt.size(), 2U);
    EXPECT_EQ(prompt[0], TinyModel::kBos);
    EXPECT_NE(prompt[1], TinyModel::kBos);
  }
}

TEST(Chat, IsRawWithoutATemplateOrOnDemand) {
  const TinyModel bare("", false), with(kTemplate, false);
  const Model first(bare.path(), {.threads = 1}), second(with.path(), {.threads = 1});
  for (const Model* model : {&first, &second}) {
    Chat chat(*model, "", true);
    chat.add_user("one ");
    chat.add_assistant("two ");
    chat.add_user("three");
    EXPECT_TRUE(chat.raw());
    EXPECT_EQ(chat.text(), "one two three");
  }
  EXPECT_TRUE(Chat(first, "", false).raw());
  EXPECT_FALSE(Chat(second, "", false).raw());
}

TEST(TemplateVariables, MatchTransformersAndCanBeReplaced) {
  const Json variables = template_variables({{"bos_token", "<s>"}}, Json::array(), false,
                                            {{"bos_token", "B"}, {"x", 1}});
  EXPECT_EQ(dump_json(variables), R"({"messages":[],"tools":null,"documents":null,)"
                                  R"("add_generation_prompt":false,"bos_token":"B","x":1})");
}

TEST(TemplateVariables, NullFieldsOfMessagesAreDropped) {
  const Json message = {{"role", "assistant"}, {"content", nullptr}, {"name", "n"}};
  const Json variables = template_variables({}, Json::array({message}), false);
  EXPECT_EQ(dump_json(variables["messages"]), R"([{"role":"assistant","name":"n"}])");
}

}  // namespace
}  // namespace veery
