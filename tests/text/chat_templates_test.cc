// Choice of the template, detection of its capabilities, and control tokens in texts.
#include "text/chat/chat_templates.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "support/vocabularies.h"
#include "text/answer/answer_parser.h"
#include "text/chat/control_guard.h"
#include "text/chat/generic_calls.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

TEST(ChatTemplates, ConversationsWithToolsUseToolUse) {
  ChatTemplateSources sources{.standard = "{{ 'standard' }}"};
  sources.set("tool_use", "{{ 'tools' }}");
  sources.set("rag", "{{ 'documents' }}");
  const ChatTemplates templates(sources, Json::object(), "test");
  EXPECT_EQ(templates.pick(false).render({{"messages", Json::array()}}), "standard");
  EXPECT_EQ(templates.pick(true).render({{"messages", Json::array()}}), "tools");
  EXPECT_EQ(chosen_templates(sources, "rag").standard, "{{ 'documents' }}");
  EXPECT_EQ(chosen_templates(sources, "{{ x }}").standard, "{{ x }}");
  EXPECT_EQ(sources.names(), "default, tool_use, rag");
  try {
    chosen_templates(sources, "other");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("default, tool_use, rag"), std::string::npos);
  }
}

TEST(ChatTemplates, ReadsGgufWithAndWithoutTheList) {
  for (const bool listed : {true, false}) {
    Metadata metadata;
    metadata.set("tokenizer.chat_template", std::string("a"));
    metadata.set("tokenizer.chat_template.tool_use", std::string("b"));
    if (listed) metadata.set_texts("tokenizer.chat_templates", {"tool_use"});
    const ChatTemplateSources sources = chat_templates_of(metadata);
    EXPECT_EQ(sources.standard, "a");
    ASSERT_NE(sources.find("tool_use"), nullptr);
    EXPECT_EQ(*sources.find("tool_use"), "b");
  }
}

ChatTemplates::Traits traits_of(const std::string& source) {
  const ChatTemplates templates({source, {}}, {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                                "test");
  return templates.traits(/*tools=*/true);
}

TEST(ChatTemplates, TraitsOfPublishedTemplates) {
  const fs::path folder = fs::path(VEERY_SOURCE_DIR) / "../shared/chat-templates";
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  // Found by reading: templates that do not render the tools passed to them.
  const std::set<std::string> without_tools = {"HuggingFaceTB-SmolLM3-3B",
                                               "MiroThinker",
                                               "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
                                               "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
                                               "deepseek-ai-DeepSeek-V3.1",
                                               "fireworks-ai-llama-3-firefunction-v2",
                                               "google-gemma-2-2b-it",
                                               "llama-cpp-deepseek-r1",
                                               "llama-cpp-rwkv-world",
                                               "microsoft-Phi-3.5-mini-instruct"};
  const std::set<std::string> nine = {"Mistral-Small-3.2-24B-Instruct-2506",
                                      "mistralai-Mistral-Nemo-Instruct-2407"};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    std::ifstream in(entry.path(), std::ios::binary);
    const ChatTemplates::Traits traits = traits_of({std::istreambuf_iterator<char>(in), {}});
    EXPECT_EQ(traits.tools, !without_tools.contains(name));
    EXPECT_EQ(traits.nine_letters, nine.contains(name));
    EXPECT_EQ(traits.text_arguments, name == "meetkai-functionary-medium-v3.2");
  }
}

TEST(ChatTemplates, DetectsTraitsByRendering) {
  const ChatTemplates::Traits none = traits_of("{% for m in messages %}{{ m.role }}{% endfor %}");
  EXPECT_FALSE(none.system || none.tools || none.calls || none.results || none.nine_letters);
  const ChatTemplates::Traits all = traits_of(
      "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name + c.function.arguments }}{% endfor %}{% endfor %}");
  EXPECT_TRUE(all.system && all.tools && all.calls && all.results && all.text_arguments);
}

TEST(ControlGuard, MarksTokensAndTheirPrefixes) {
  const ControlGuard guard({"<|end|>", "<|end_of|>", "[X]", "<s>", "!"});
  EXPECT_EQ(guard.guarded("a<|end|>b", "#"), Json("a<#|end|>b"));
  EXPECT_EQ(guard.guarded("<<s>", "#"), Json("<<#s>"));
  EXPECT_EQ(guard.guarded("x<|en", "#"), Json("x<|en#"));
  EXPECT_EQ(guard.guarded("x<|end|", "#"), Json("x<|end|#"));
  EXPECT_EQ(guard.guarded("!", "#"), Json("!"));  // a token of one character has no position inside
  EXPECT_EQ(guard.guarded({{"[X]", "[X"}}, "#"), (Json{{"[#X]", "[X#"}}));
  EXPECT_FALSE(guard.finds(Json::array({"a", 1, nullptr, "<b> "})));
  EXPECT_TRUE(guard.finds(Json::array({"a", {{"k", "<"}}})));
  EXPECT_EQ(guard.guarded("<s>[X]", "#", [](std::string_view t) { return t == "<s>"; }),
            Json("<s>[#X]"));
  const std::string mark = ControlGuard::mark_for("");
  EXPECT_NE(ControlGuard::mark_for("a" + mark), mark);
  EXPECT_EQ(without_guard("a" + mark + "b" + mark, mark), "ab");
}

TEST(GenericCalls, AreParsedByTheFormat) {
  for (const AnswerFormat& format : {AnswerFormat(), AnswerFormat::named("lfm2")}) {
    const CallForm form = generic_call_form(format);
    const Json calls =
        Json::array({{{"function", {{"name", "f"}, {"arguments", {{"a", "<b>\n"}}}}}},
                     {{"function", {{"name", "g"}, {"arguments", Json::object()}}}}});
    const Json messages = with_calls_as_text(
        Json::array({{{"role", "assistant"}, {"content", "So:"}, {"tool_calls", calls}}}), form);
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_FALSE(messages[0].contains("tool_calls"));
    AnswerParser parser(format.with(kGenericCalls));
    parser.push(messages[0]["content"].string());
    parser.finish();
    EXPECT_EQ(parser.answer().content, "So:");
    ASSERT_EQ(parser.answer().calls.size(), 2U);
    EXPECT_EQ(parse_json(parser.answer().calls[0].arguments, "test"), (Json{{"a", "<b>\n"}}));
    EXPECT_EQ(parser.answer().calls[1].name, "g");
    EXPECT_FALSE(parser.answer().broken);
  }
}

TEST(GenericCalls, ResultsAndTheNextQuestionAreOneMessage) {
  const Json messages = with_calls_as_text(Json::array({{{"role", "tool"}, {"content", "1"}},
                                                        {{"role", "tool"}, {"content", "2"}},
                                                        {{"role", "user"}, {"content", "and?"}},
                                                        {{"role", "user"}, {"content", "more"}}}),
                                           generic_call_form({}));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["role"], "user");
  EXPECT_EQ(messages[0]["content"],
            "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
            "</tool_response>\nand?");
}

}  // namespace
}  // namespace veery
