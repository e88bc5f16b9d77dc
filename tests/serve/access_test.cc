// API keys and their limits.
#include <gtest/gtest.h>

#include "base/error.h"
#include "serve/access/rate_limits.h"

namespace veery::serve {
namespace {

std::string failure(const std::string& text) {
  try {
    parse_api_keys(text, "keys");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ApiKeys, LinesAreKeysWithoutLimits) {
  const std::vector<ApiKey> keys = parse_api_keys("first\r\n\n \tsecond key \nthird", "keys");
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].secret, "first");
  EXPECT_EQ(keys[1].secret, "second key");
  EXPECT_EQ(keys[2].name, "key 3");
  EXPECT_EQ(keys[2].weight, 1);
  EXPECT_EQ(keys[2].tokens_per_minute, 0);
}

TEST(ApiKeys, JsonHasNamesAndLimits) {
  const std::vector<ApiKey> keys = parse_api_keys(
      R"( {"keys": [{"key": "a", "name": "Alice", "weight": 2.5, "priority": -3,
           "concurrent_requests": 4, "requests_per_minute": 60, "tokens_per_minute": 1000},
          {"key": "b"}]})",
      "keys");
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].name, "Alice");
  EXPECT_EQ(keys[0].weight, 2.5);
  EXPECT_EQ(keys[0].priority, -3);
  EXPECT_EQ(keys[0].concurrent_requests, 4);
  EXPECT_EQ(keys[0].requests_per_minute, 60);
  EXPECT_EQ(keys[0].tokens_per_minute, 1000);
  EXPECT_EQ(keys[1].name, "key 2");
}

TEST(ApiKeys, ErrorsNameTheirCause) {
  for (const auto& [text, said] : {
           std::pair{"", "the file has no key"},
           {"\n \n", "the file has no key"},
           {R"({"keys": []})", "the file has no key"},
           {R"({"keys": {}})", "only member 'keys'"},
           {R"({"keys": [], "more": 1})", "only member 'keys'"},
           {R"({"keys": ["a"]})", "keys[0]: is a JSON string"},
           {R"({"keys": [{"name": "a"}]})", "keys[0] has no member 'key'"},
           {R"({"keys": [{"key": " "}]})", "keys[0].key"},
           {R"({"keys": [{"key": 1}]})", "keys[0].key"},
           {R"({"keys": [{"key": "a", "wieght": 1}]})", "unknown member 'wieght'"},
           {R"({"keys": [{"key": "a", "weight": 0}]})", "keys[0].weight"},
           {R"({"keys": [{"key": "a", "priority": 1.5}]})", "keys[0].priority"},
           {R"({"keys": [{"key": "a", "requests_per_minute": -1}]})", "requests_per_minute"},
           {R"({"keys": [{"key": "a"}, {"key": "a"}]})", "the key of 'key 2' occurs twice"},
           {R"({"keys": [{"key": "a", "name": "x"}, {"key": "b", "name": "x"}]})",
            "two keys have the name 'x'"},
           {"{broken", "keys"},
           {R"( ["a", "b"])", "keys: is a JSON list, expected one key a line or an object"},
           {"[", "is a JSON list"},
       })
    EXPECT_NE(failure(text).find(said), std::string::npos) << text << ": " << failure(text);
}

TEST(Buckets, FillInAMinute) {
  Bucket bucket(60, 100);
  EXPECT_EQ(bucket.level(100), 60);
  bucket.take(60, 100);
  EXPECT_EQ(bucket.wait(1, 100), 1);
  EXPECT_EQ(bucket.level(110), 10);
  EXPECT_EQ(bucket.wait(60, 110), 50);
  bucket.take(40, 110);
  EXPECT_EQ(bucket.level(110), -30);
  EXPECT_EQ(bucket.level(1000), 60) << "no more than a minute's";
  EXPECT_EQ(bucket.level(900), 60) << "a clock that goes back";
}

class Limits : public ::testing::Test {
 protected:
  // Returns the seconds after which to try again; 0: the request may enter.
  double refused(int64_t index, double now) {
    try {
      limits_.enter(index, now);
      return 0;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 429);
      EXPECT_EQ(error.code, "rate_limit_exceeded");
      EXPECT_GT(error.retry_after, 0);
      return error.retry_after;
    }
  }
  RateLimits limits_{{{.name = "few", .secret = "a", .concurrent_requests = 2},
                      {.name = "slow", .secret = "b", .requests_per_minute = 2},
                      {.name = "short", .secret = "c", .tokens_per_minute = 100},
                      {.name = "free", .secret = "d"}},
                     0};
};

TEST_F(Limits, KeysAreFound) {
  EXPECT_EQ(limits_.find("a"), 0);
  EXPECT_EQ(limits_.find("d"), 3);
  for (const char* wrong : {"", "aa", "x"}) EXPECT_LT(limits_.find(wrong), 0) << wrong;
}

TEST_F(Limits, RequestsAtATimeAreCounted) {
  EXPECT_EQ(refused(0, 0), 0);
  EXPECT_EQ(refused(0, 0), 0);
  EXPECT_EQ(refused(0, 0), 1);
  limits_.leave(0, 50, 0);
  EXPECT_EQ(refused(0, 0), 0);
}

TEST_F(Limits, RequestsInAMinuteAreCounted) {
  EXPECT_EQ(refused(1, 0), 0);
  EXPECT_EQ(refused(1, 0), 0);
  EXPECT_EQ(refused(1, 0), 30);
  EXPECT_NEAR(refused(1, 29), 1, 1e-9);
  EXPECT_EQ(refused(1, 30), 0);
}

TEST_F(Limits, TokensInAMinuteAreCounted) {
  EXPECT_EQ(refused(2, 0), 0);
  limits_.leave(2, 150, 0);
  EXPECT_NEAR(refused(2, 0), 30.6, 1e-9);
  EXPECT_EQ(limits_.allowance(2, 0).tokens.left, 0);
  EXPECT_EQ(limits_.allowance(2, 0).requests.limit, 0);
  EXPECT_EQ(refused(2, 31), 0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(refused(3, 0), 0);
}

}  // namespace
}  // namespace veery::serve
