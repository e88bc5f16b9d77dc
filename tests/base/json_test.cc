#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>

#include "base/error.h"

namespace veery {
namespace {

TEST(Json, InitializerListsOfPairsAreObjectsAndOthersArrays) {
  EXPECT_EQ(dump_json({{"a", 1}, {"b", {1, 2}}}), R"({"a":1,"b":[1,2]})");
  EXPECT_EQ(dump_json({{"a", 1}, {2, 3}}), R"([["a",1],[2,3]])");
  EXPECT_EQ(dump_json(Json::array({{"a", 1}})), R"([["a",1]])");
  EXPECT_EQ(dump_json(Json::object({{"a", "b"}})), R"({"a":"b"})");
  EXPECT_EQ(dump_json(std::vector<int32_t>{1, 2}), "[1,2]");
  EXPECT_EQ(dump_json(std::map<std::string, double>{{"x", 0.5}}), R"({"x":0.5})");
  const float two[] = {1, 2};
  EXPECT_EQ(dump_json(std::span<const float>(two)), "[1.0,2.0]");
}

TEST(Json, MembersKeepTheirOrderAndTheLastOfEqualKeysWins) {
  EXPECT_EQ(dump_json(parse_json(R"({"z": 1, "a": 2, "z": 3})", "text")), R"({"z":3,"a":2})");
  Json value;
  value["z"] = 1;
  value["a"]["b"] = nullptr;
  EXPECT_EQ(dump_json(value), R"({"z":1,"a":{"b":null}})");
  EXPECT_EQ(value.erase("z"), 1U);
  EXPECT_EQ(value.find("z"), value.end());
  EXPECT_EQ(value.find("a").key(), "a");
}

TEST(Json, MembersHaveStableAddresses) {
  Json value;
  value["a"] = "text";
  Json& first = value["a"];
  for (int i = 0; i < 100; ++i) value["m" + std::to_string(i)] = value["a"];
  EXPECT_EQ(&first, &value["a"]);
  EXPECT_EQ(value["m99"], Json("text"));
  value["x"] = value["y"] = 1.5;
  EXPECT_EQ(value["x"], Json(1.5));
  value = {{"a", {{"b", {1, 2}}}}};
  value = value["a"];
  EXPECT_EQ(dump_json(value), R"({"b":[1,2]})");
  value = value["b"];
  value = value[1];
  EXPECT_EQ(value, Json(2));
  const Json copy = value = {{"k", 1}};
  value["k"] = 2;
  EXPECT_EQ(copy["k"], Json(1));
}

TEST(Json, NumbersKeepTheirTypeAndCompareByValue) {
  const Json numbers =
      parse_json("[0, -1, 18446744073709551615, -9223372036854775808, 1.0, 1e300]", "text");
  EXPECT_EQ(dump_json(numbers), "[0,-1,18446744073709551615,-9223372036854775808,1.0,1e+300]");
  EXPECT_EQ(numbers[2].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(numbers[3].get<int64_t>(), INT64_MIN);
  EXPECT_EQ(numbers[4], Json(1));
  EXPECT_EQ(Json(1U), Json(1));
  EXPECT_FALSE(Json(-1) == Json(UINT64_MAX));
  EXPECT_TRUE(numbers[0].is_number_unsigned());
  EXPECT_FALSE(numbers[1].is_number_unsigned());
  EXPECT_TRUE(Json(5).is_integer_in(5, 5));
  EXPECT_FALSE(Json(UINT64_MAX).is_integer_in(0, INT64_MAX));
  EXPECT_FALSE(Json(5.0).is_integer_in(0, 9));
}

TEST(Json, TypeErrorsNameExpectedAndFoundType) {
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      return error.what();
    }
    return "nothing was thrown";
  };
  const Json text = "x";
  EXPECT_EQ(message([&] { text.get<int>(); }), "expected a number, found string");
  EXPECT_EQ(message([&] { text.at("k"); }), "expected an object, found string");
  EXPECT_EQ(message([&] { Json(1).get<std::string>(); }), "expected a string, found number");
  EXPECT_EQ(message([&] { Json::array().at(0); }), "expected more than 0 items, found 0");
  EXPECT_EQ(message([&] { Json::object().at("k"); }), "missing member 'k'");
  EXPECT_EQ(message([&] { Json(300).get<int8_t>(); }),
            "expected a number from -128 to 127, found 300");
  EXPECT_EQ(message([&] { Json(1e30).get<int64_t>(); }).substr(0, 22), "expected a number from");
  EXPECT_EQ(message([&] { Json(-1).get<uint32_t>(); }),
            "expected a number from 0 to 4294967295, found -1");
}

TEST(Json, LoopsVisitItemsAndMembers) {
  Json value = parse_json(R"({"a": [1, 2], "b": 3})", "text");
  for (Json& item : value["a"]) item = item.get<int>() + 1;
  EXPECT_EQ(dump_json(value["a"]), "[2,3]");
  std::string keys;
  for (const auto& [key, item] : value.items()) keys += key + std::to_string(item.size());
  EXPECT_EQ(keys, "a2b1");
  value["a"].push_front(0);
  value["a"].erase(size_t{1});
  EXPECT_EQ(dump_json(value["a"]), "[0,3]");
  EXPECT_EQ(value.value("b", 7), 3);
  EXPECT_EQ(value.value("c", "none"), "none");
}

TEST(Json, EqualityIgnoresMemberOrder) {
  EXPECT_EQ(parse_json(R"({"a": 1, "b": [{}]})", "x"), parse_json(R"({"b": [{}], "a": 1.0})", "x"));
  EXPECT_FALSE(parse_json(R"({"a": 1})", "x") == parse_json(R"({"b": 1})", "x"));
}

TEST(Json, MaybeJsonReturnsNothingForInvalidText) {
  EXPECT_FALSE(maybe_json("{"));
  EXPECT_EQ(maybe_json("[1]"), Json::array({1}));
}

}  // namespace
}  // namespace veery
