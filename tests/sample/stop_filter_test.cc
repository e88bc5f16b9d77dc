#include "sample/stop_filter.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace veery {
namespace {

TEST(StopFilter, WithholdsOnlyPrefixesOfStopStrings) {
  StopFilter filter({"</end>"});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.push("x</"), "x");
  EXPECT_EQ(filter.push("en"), "");
  EXPECT_EQ(filter.push("t>"), "</ent>");
  EXPECT_EQ(filter.push("a<"), "a");
  EXPECT_EQ(filter.finish(), "<");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, EndsBeforeTheEarliestStopAndDropsTheRest) {
  StopFilter filter({"nger stop", "stop"});
  EXPECT_EQ(filter.push("a stop b longer stop"), "a ");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, FindsStopsThatOverlapThemselves) {
  StopFilter filter({"aab"});
  EXPECT_EQ(filter.push("a") + filter.push("a") + filter.push("a"), "a");
  EXPECT_EQ(filter.push("b"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, DoesNotDependOnHowTheTextIsSplit) {
  const std::vector<std::string> stops{"abab", "bb", "caca", "bcac", "cab", "ca"};
  Random random(3);
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (uint32_t n = random.next() % 16; n > 0; --n) {
      text += static_cast<char>('a' + random.next() % 3);
    }
    std::string expected = text;
    for (size_t end = 1; end <= text.size() && expected == text; ++end) {
      for (const std::string& stop : stops) {
        const std::string head = text.substr(0, end);
        if (head.ends_with(stop) && head.size() - stop.size() < expected.size())
          expected = head.substr(0, end - stop.size());
      }
    }
    StopFilter filter(stops);
    std::string out;
    for (size_t at = 0, length = 0; at < text.size(); at += length) {
      length = 1 + random.next() % 5;
      out += filter.push(text.substr(at, length));
    }
    out += filter.finish();
    EXPECT_EQ(out, expected) << text;
    EXPECT_EQ(filter.stopped(), expected != text) << text;
    EXPECT_EQ(filter.stop().empty(), !filter.stopped()) << text;
    EXPECT_EQ(text.substr(std::min(expected.size(), text.size()), filter.stop().size()),
              filter.stop())
        << text;
    stopped += filter.stopped();
  }
  EXPECT_GT(stopped, 200);
  EXPECT_LT(stopped, 1800);
}

TEST(StopFilter, RejectsAnEmptyStopString) { EXPECT_THROW(StopFilter({"a", ""}), Error); }

}  // namespace
}  // namespace veery
