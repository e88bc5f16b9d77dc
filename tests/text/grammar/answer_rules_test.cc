// Grammars of calls: errors name the tool whose arguments exceed a limit.
#include "text/grammar/answer_rules.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace veery {
namespace {

const MemberMarks kMarks{.key = "<key>",
                         .text = "</key><value>",
                         .json = "</key><value>",
                         .end = "</value>",
                         .stops = {"</value>"}};

Json nested_arrays(int depth) {
  Json schema = {{"type", "integer"}};
  for (int i = 0; i < depth; ++i) schema = {{"type", "array"}, {"items", std::move(schema)}};
  return {{"type", "object"}, {"properties", {{"a", std::move(schema)}}}};
}

void expect_limit(const CallForm& form, const std::vector<CallableTool>& tools,
                  const std::string& prefix) {
  try {
    call_rules(form, tools, /*several=*/false);
    ADD_FAILURE() << "expected an error: " << prefix;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
    EXPECT_TRUE(std::string(error.what()).starts_with(prefix)) << error.what();
  }
}

TEST(CallRules, LimitsNameTheToolThatExceedsThem) {
  const std::vector<CallableTool> tools{{"first", nullptr}, {"second", nested_arrays(2000)}};
  for (const MemberMarks& marks : {MemberMarks(), kMarks})
    expect_limit({"<call>", "\n", "</call>", "", marks}, tools, "tools: 'second': ");
}

TEST(CallRules, LimitsOfMarksNameATool) {
  MemberMarks marks = kMarks;
  marks.stops.emplace_back(50'000, 'x');
  expect_limit({"<call>", "\n", "</call>", "", marks}, {{"first", nullptr}, {"second", nullptr}},
               "tools: 'first': ");
}

}  // namespace
}  // namespace veery
