#include "engine/chat/chat.h"

#include <gtest/gtest.h>

#include "base/error.h"
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
  AnswerParser parser = chat.parser();  // the prompt has opened the reasoning
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

TEST(TemplateVariables, AreThoseOfTransformersAndCanBeReplaced) {
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
