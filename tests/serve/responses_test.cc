// Custom tools of the Responses API, and the limit of stored responses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "serve/api/api_error.h"
#include "serve/responses/response_tools.h"
#include "serve/responses/truncation.h"
#include "serve/store/response_store.h"

namespace veery::serve {
namespace {

std::string input_of(std::string_view arguments, Random& random) {
  CustomInput input;
  std::string text;
  for (size_t at = 0, length = 0; at < arguments.size(); at += length) {
    length = 1 + random.next() % 5;
    text += input.push(arguments.substr(at, length));
  }
  return text + input.finish();
}

TEST(CustomInput, IsTheTextHoweverTheArgumentsAreCut) {
  Random random(5);
  const std::string texts[] = {"", "*** Begin Patch\n+a \"b\" \\ c\t/\n*** End Patch",
                               "\u00e4\U0001F600 {\"input\": \"x\"}",
                               "{\"input\":", std::string("\x01\x1f", 2)};
  for (const std::string& text : texts)
    for (const std::string& arguments :
         {dump_json({{"input", text}}), dump_json({{"input", text}}, 2),
          "{ \"input\" : " + dump_json(Json(text)) + " }"})
      for (int round = 0; round < 20; ++round) EXPECT_EQ(input_of(arguments, random), text);
}

TEST(CustomInput, DecodesEscapesOfAllKinds) {
  Random random(6);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(input_of(R"({"input": "\u00e4\ud83d\ude00\n\/\u0041"})", random),
              "\u00e4\U0001F600\n/A");
    EXPECT_EQ(input_of(R"({"input": "a\ud83dxyz"})", random), "a\uFFFDxyz");
  }
}

TEST(CustomInput, ArgumentsOfAnotherFormAreTheText) {
  Random random(7);
  EXPECT_EQ(input_of("*** Begin Patch", random), "*** Begin Patch");
  EXPECT_EQ(input_of("\"a text\"", random), "a text");
  EXPECT_EQ(input_of(R"({"other": 1, "input": "x"})", random), "x");
  EXPECT_EQ(input_of(R"({"patch": "x"})", random), R"({"patch": "x"})");
  EXPECT_EQ(input_of(R"({"input": "cut of)", random), "cut of");
}

TEST(ResponseTools, NamesGoToTheModelAndBack) {
  ResponseTools tools;
  const Json list = parse_json(R"([
    {"type": "function", "name": "f", "parameters": {"type": "object"}},
    {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark",
                                                   "definition": "start: A"}},
    {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "f"}]},
    {"type": "web_search"}])",
                               "tools");
  tools.add(list, "tools", true);
  tools.add(parse_json(R"([{"type": "function", "name": "late"}])", "tools"), "more", false);
  EXPECT_EQ(tools.shown().size(), 3U);
  EXPECT_EQ(tools.callable().size(), 4U);
  EXPECT_TRUE(tools.find("patch").custom);
  EXPECT_NE(tools.shown()[1]["function"]["description"].string().find("start: A"),
            std::string::npos);
  EXPECT_EQ(tools.find("files__f").name, "f");
  EXPECT_EQ(tools.find("files__f").space, "files");
  EXPECT_EQ(tools.find("f").space, "");
  EXPECT_EQ(tools.find("unknown").name, "unknown");
  EXPECT_THROW(tools.add(parse_json(R"([{"type": "function"}])", "tools"), "tools", true),
               ApiError);
}

ResponseStore::Stored stored(int i, size_t size) {
  return {{{"id", fmt::format("resp_{}", i)},
           {"output", Json::array({{{"id", fmt::format("msg_{}", i)}}})},
           {"text", std::string(size, 'x')}},
          Json::array({{{"id", fmt::format("item_{}", i)}, {"role", "user"}}})};
}

TEST(ResponseStore, KeepsTheMostRecentlyUsedWithinItsBytes) {
  ResponseStore store;
  store.set_limit(10'000);
  for (int i = 0; i < 3; ++i) store.put(stored(i, 2500));
  EXPECT_LE(store.bytes(), 10'000U);
  EXPECT_TRUE(store.find("resp_0"));  // used again, so that 1 is evicted first
  for (int i = 3; i < 5; ++i) store.put(stored(i, 2500));
  EXPECT_TRUE(store.find("resp_0"));
  EXPECT_FALSE(store.find("resp_1"));
  EXPECT_LE(store.bytes(), 10'000U);
  store.put(stored(9, 20'000));  // larger than the limit: the others stay
  EXPECT_FALSE(store.find("resp_9"));
  EXPECT_TRUE(store.find("resp_0"));
}

TEST(ResponseStore, FindsItemsAndForgets) {
  ResponseStore store;
  store.put(stored(1, 10));
  store.put(stored(2, 10));
  EXPECT_EQ((*store.find_item("msg_1"))["id"], "msg_1");
  EXPECT_EQ((*store.find_item("item_2"))["role"], "user");
  EXPECT_FALSE(store.find_item("msg_3"));
  EXPECT_TRUE(store.erase("resp_1"));
  EXPECT_FALSE(store.erase("resp_1"));
  EXPECT_FALSE(store.find_item("msg_1"));
  store.erase("resp_2");
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, ALimitOfNothingKeepsNothing) {
  ResponseStore store;
  store.set_limit(0);
  store.put(stored(1, 10));
  EXPECT_FALSE(store.find("resp_1"));
}

// Makes messages from the first letters of their roles.
std::vector<std::vector<size_t>> droppable(std::string_view roles) {
  Json messages = Json::array();
  for (const char role : roles)
    messages.push_back({{"role", role == 's'   ? "system"
                                 : role == 'd' ? "developer"
                                 : role == 'u' ? "user"
                                 : role == 'a' ? "assistant"
                                               : "tool"}});
  return droppable_messages(messages);
}

TEST(Truncation, DropsTurnsFirstThenStepsWithTheirResults) {
  using Groups = std::vector<std::vector<size_t>>;
  EXPECT_EQ(droppable("suauau"), (Groups{{1, 2}, {3, 4}}));
  EXPECT_EQ(droppable("suattauau"), (Groups{{1, 2, 3, 4, 5}, {6, 7}}));
  // Instructions, the last message of the user and the last step stay.
  EXPECT_EQ(droppable("sudausattatat"), (Groups{{1, 3}, {6, 7, 8}, {9, 10}}));
  EXPECT_EQ(droppable("uuauu"), (Groups{{0, 1, 2}}));
  EXPECT_EQ(droppable("au"), (Groups{{0}}));
  EXPECT_EQ(droppable("atat"), (Groups{{0, 1}}));
  EXPECT_EQ(droppable("su"), Groups{});
  EXPECT_EQ(droppable(""), Groups{});
}

}  // namespace
}  // namespace veery::serve
