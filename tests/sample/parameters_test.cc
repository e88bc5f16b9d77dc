// The table of sampling parameters: ranges, names, and the table in docs/cli.md.
#include "sample/parameters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "docs/generated_text.h"
#include "import/sampling_keys.h"

namespace veery {
namespace {

// The nearest values outside of the range that the member can hold.
std::vector<double> outside(const SamplingParameter& row) {
  std::vector<double> values;
  if (row.real != nullptr) {
    values = {row.low - 1, std::nextafter(static_cast<float>(row.high), INFINITY), INFINITY,
              std::nan("")};
  } else {
    if (row.low > INT32_MIN) values.push_back(row.low - 1);
    if (row.high < INT32_MAX) values.push_back(row.high + 1);
    if (row.step > 1) values.push_back(row.low + 1);
  }
  return values;
}

TEST(SamplingParameters, TheSamplerTakesTheWholeRangeAndNothingElse) {
  for (const SamplingParameter& row : sampling_parameters()) {
    for (const double value : {row.low, row.high, row.get()}) {
      SamplerOptions options;
      row.set(options, value);
      EXPECT_TRUE(row.accepts(value)) << row.name << " " << value;
      EXPECT_NO_THROW(Sampler{options}) << row.name << " " << value;
    }
    for (const double value : outside(row)) {
      SamplerOptions options;
      row.set(options, value);
      EXPECT_FALSE(row.accepts(value)) << row.name << " " << value;
      try {
        const Sampler sampler(options);
        ADD_FAILURE() << row.name << " may be " << value;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput);
        EXPECT_EQ(error.what(),
                  fmt::format("{} is {}, expected {}", row.name, row.text(value), row.expected()));
      }
    }
  }
}

TEST(SamplingParameters, WholeNumbersHaveNoFraction) {
  for (const SamplingParameter& row : sampling_parameters()) {
    const double value = row.get() + 0.5;
    if (value < row.high) {
      EXPECT_EQ(row.accepts(value), row.real != nullptr) << row.name;
    }
  }
}

TEST(SamplingParameters, EachRowHasOneMemberAndNamesOfItsOwn) {
  std::set<std::string> names, flags, fields, keys;
  bool advanced = false;
  for (const SamplingParameter& row : sampling_parameters()) {
    EXPECT_NE(row.real == nullptr, row.whole == nullptr) << row.name;
    EXPECT_TRUE(names.emplace(row.name).second) << row.name;
    EXPECT_TRUE(flags.insert(row.flag()).second) << row.name;
    for (const std::string_view field : row.fields())
      EXPECT_TRUE(fields.emplace(field).second) << field;
    if (!row.file_key.empty()) {
      EXPECT_TRUE(keys.emplace(row.file_key).second) << row.name;
    }
    EXPECT_LE(row.help.size(), 80U) << row.name;
    EXPECT_GE(row.advanced, advanced) << row.name << " is not advanced, after one that is";
    advanced = row.advanced;
    EXPECT_EQ(find_sampling_parameter(row.name), &row);
  }
  EXPECT_EQ(find_sampling_parameter("mirostat")->expected(), "0 or 2");
  EXPECT_EQ(find_sampling_parameter("min_p")->expected(), "a number from 0 to 1");
  EXPECT_EQ(find_sampling_parameter("top_k")->expected(), "a whole number from -1 to 2147483647");
  EXPECT_EQ(find_sampling_parameter("seed"), nullptr);
}

TEST(SamplingParameters, RecommendationsOfFoldersHaveRows) {
  for (const auto& [theirs, key] : kSamplingKeys)
    EXPECT_EQ(std::ranges::count(sampling_parameters(), key, &SamplingParameter::file_key), 1)
        << theirs;
}

TEST(SamplingParameters, TheManualOfTheCommandLineHasTheTable) {
  std::string table = "\n| flag | range | default | effect |\n|---|---|---|---|\n";
  for (const SamplingParameter& row : sampling_parameters())
    table += fmt::format("| `{}` | {} | {} | {} |\n", row.flag(), row.range(), row.text(row.get()),
                         row.help);
  test::expect_generated("docs/cli.md", "<!-- sampling parameters -->\n", "\n<!-- end -->", table);
}

}  // namespace
}  // namespace veery
