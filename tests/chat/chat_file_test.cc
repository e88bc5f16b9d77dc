// Saved chats: round trip, exports of the web page, and errors for everything else.
#include "chat/chat_file.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/error.h"

namespace veery {
namespace {

TEST(ChatFile, ReadsItsOwnOutput) {
  const ChatFile chat{
      .model = "smollm2",
      .parameters = {{"temperature", 0.5}, {"top_k", 7}},
      .template_args = {{"enable_thinking", false}},
      .tools = parse_json(R"([{"type": "function", "function": {"name": "f"}}])", ""),
      .messages = parse_json(R"([{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "call_1",
       "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "name": "f", "content": "two", "tool_call_id": "call_1"}])",
                             "")};
  const ChatFile read = read_chat(write_chat(chat), "x");
  EXPECT_EQ(read.model, chat.model);
  EXPECT_EQ(read.parameters, chat.parameters);
  EXPECT_EQ(read.template_args, chat.template_args);
  EXPECT_EQ(read.tools, chat.tools);
  EXPECT_EQ(read.messages, chat.messages);
  EXPECT_EQ(write_chat(read), write_chat(chat));
  EXPECT_EQ(read_chat(write_chat({}), "x").messages, Json::array());
}

TEST(ChatFile, AnArrayOfMessagesIsAChat) {
  const ChatFile read =
      read_chat(R"([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])", "x");
  EXPECT_EQ(read.messages, Json::array({{{"role", "user"}, {"content", "hi"}}}));
}

constexpr const char* kPage = R"({"format": "veery-chats", "version": 1, "chats": [{"id": "c",
  "model": "m", "system": "S", "leaf": "%", "sampling": {"temperature": "0.25", "top_k": ""}, "nodes": [
  {"id": "1", "parent": "", "role": "user", "text": "a", "made": 1,
   "files": [{"name": "f.txt", "text": "F"}]},
  {"id": "2", "parent": "1", "role": "assistant", "text": "first", "made": 2},
  {"id": "3", "parent": "1", "role": "assistant", "text": "second", "thought": "hm", "made": 3},
  {"id": "4", "parent": "9", "role": "user", "text": "lost", "made": 0},
  {"id": "5", "parent": "3", "role": "assistant", "text": "", "made": 4}]}]})";

std::string page(const std::string& leaf) {
  std::string text = kPage;
  return text.replace(text.find('%'), 1, leaf);
}

TEST(ChatFile, TheVisibleBranchOfThePageIsRead) {
  const ChatFile first = read_chat(page("2"), "x");
  EXPECT_EQ(first.model, "m");
  EXPECT_EQ(first.parameters, Json({{"temperature", 0.25}}));
  ASSERT_EQ(first.messages.size(), 3U);
  EXPECT_EQ(first.messages[0]["content"], "S");
  EXPECT_EQ(first.messages[1]["content"], "File f.txt:\n```\nF\n```\n\na");
  EXPECT_EQ(first.messages[2]["content"], "first");
  const ChatFile newest = read_chat(page("none"), "x");
  ASSERT_EQ(newest.messages.size(), 3U);  // an answer without text, reasoning and calls is dropped
  EXPECT_EQ(newest.messages[2]["reasoning_content"], "hm");
}

TEST(ChatFile, ReasoningAndToolCallsOfThePageSurvive) {
  const ChatFile chat = read_chat(R"({"format": "veery-chats", "version": 1, "chats": [{"leaf": "6",
    "thinking": "off", "nodes": [
    {"id": "1", "parent": "", "role": "user", "text": "a", "made": 1},
    {"id": "2", "parent": "1", "role": "assistant", "text": "", "thought": "hm", "made": 2,
     "calls": [{"id": "x7", "name": "f", "arguments": "{\"a\": 1}"},
               {"id": "", "name": "g", "arguments": ""}]},
    {"id": "3", "parent": "2", "role": "user", "text": "two", "made": 3},
    {"id": "4", "parent": "3", "role": "assistant", "text": "", "thought": "stopped", "made": 4},
    {"id": "5", "parent": "4", "role": "user", "text": "on", "made": 5},
    {"id": "6", "parent": "5", "role": "assistant", "text": "said", "made": 6,
     "calls": [{"name": "h", "arguments": "no JSON"}]}]}]})",
                                  "x");
  EXPECT_EQ(chat.template_args, Json({{"enable_thinking", false}, {"thinking", false}}));
  ASSERT_EQ(chat.messages.size(), 6U);
  EXPECT_EQ(chat.messages[1], parse_json(R"({"role": "assistant", "content": "",
    "reasoning_content": "hm", "tool_calls": [
      {"id": "x7", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
      {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": {}}}]})",
                                         ""));
  EXPECT_EQ(chat.messages[3]["reasoning_content"], "stopped");
  EXPECT_EQ(chat.messages[5]["content"], "said");
  EXPECT_EQ(chat.messages[5]["tool_calls"][0]["id"], "call_3");
  EXPECT_EQ(chat.messages[5]["tool_calls"][0]["function"]["arguments"], "no JSON");
  const ChatFile again = read_chat(write_chat(chat), "x");
  EXPECT_EQ(again.messages, chat.messages);
  EXPECT_EQ(again.template_args, chat.template_args);
}

TEST(ChatFile, ToolsAndTheirResultsOfThePageSurvive) {
  const ChatFile chat = read_chat(R"({"format": "veery-chats", "version": 1, "chats": [{"leaf": "6",
    "tools": [{"type": "function", "function": {"name": "f"}}], "nodes": [
    {"id": "0", "parent": "", "role": "tool", "text": "of no call", "made": 0},
    {"id": "1", "parent": "0", "role": "user", "text": "a", "made": 1},
    {"id": "2", "parent": "1", "role": "assistant", "text": "", "made": 2,
     "calls": [{"name": "f", "arguments": ""}, {"id": "x", "name": "f", "arguments": ""}]},
    {"id": "3", "parent": "2", "role": "tool", "call": "x", "text": "second", "made": 3},
    {"id": "4", "parent": "3", "role": "tool", "text": "first", "made": 4},
    {"id": "5", "parent": "4", "role": "tool", "text": "too many", "made": 5},
    {"id": "6", "parent": "5", "role": "assistant", "text": "said", "made": 6}]}]})",
                                  "x");
  EXPECT_EQ(chat.tools.size(), 1U);
  ASSERT_EQ(chat.messages.size(), 5U);
  EXPECT_EQ(chat.messages[0]["role"], "user");
  for (const auto& [index, id, text] :
       {std::tuple(size_t{2}, "x", "second"), std::tuple(size_t{3}, "call_1", "first")}) {
    EXPECT_EQ(chat.messages[index]["role"], "tool");
    EXPECT_EQ(chat.messages[index]["tool_call_id"], id);
    EXPECT_EQ(chat.messages[index]["content"], text);
  }
  const ChatFile again = read_chat(write_chat(chat), "x");
  EXPECT_EQ(again.messages, chat.messages);
  EXPECT_EQ(again.tools, chat.tools);
}

TEST(ChatFile, CyclesOfThePageEndTheBranch) {
  const ChatFile read = read_chat(R"({"format": "veery-chats", "version": 1, "chats": [{"leaf": "1",
    "nodes": [{"id": "1", "parent": "2", "role": "user", "text": "a"},
              {"id": "2", "parent": "1", "role": "user", "text": "b"}]}]})",
                                  "x");
  EXPECT_EQ(read.messages.size(), 2U);
}

TEST(ChatFile, OtherFilesAreErrorsThatSayWhy) {
  for (const auto& [text, part] :
       {std::pair("{", "chat.json"), std::pair("5", "chat.json: found a JSON number"),
        std::pair("{}", "the format is missing, expected \"veery-chat\""),
        std::pair(R"({"format": 7})", "the format is 7"),
        std::pair(R"({"format": "veery-chat", "version": "1", "messages": []})", "the version is"),
        std::pair(R"({"format": "veery-chat", "version": 1, "model": 5, "messages": []})",
                  "model is a JSON number, expected a text"),
        std::pair(R"({"format": "veery-chats", "version": 1})", "with 0 chats, expected one"),
        std::pair(R"({"format": "veery-chats", "version": 1, "chats": [{"nodes": [
                     {"id": "1", "role": "root", "text": "a"}]}]})",
                  "'root', expected user, assistant or tool"),
        std::pair(R"({"format": "veery-chats", "version": 1, "chats": [{"sampling": {"a": []}}]})",
                  "sampling.a is [], expected a number")}) {
    try {
      read_chat(text, "chat.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace veery
