// The table of `veery plan` for a model on CPU and GPU (a fake).
#include "cli/profile/plan_table.h"

#include <gtest/gtest.h>

#include "engine/sequence_reader.h"
#include "support/fake_metal.h"
#include "support/models.h"
#include "tasks/embed.h"

namespace veery::cli {
namespace {

constexpr double kDim = 40;  ///< of tiny/llama-linear

LoadOptions options_on(metal::FakeGpu* gpu, std::optional<int32_t> layers) {
  LoadOptions options;
  options.threads = 1;
  options.entry = text_entry;
  if (gpu != nullptr) options.backends = {metal::make_fake_backend(*gpu)};
  options.backend_layers = layers;
  return options;
}

// Makes the table of a run of 3 tokens after 2 and passes it to `check`.
template <typename Check>
void with_table(metal::FakeGpu* gpu, std::optional<int32_t> layers, const Check& check) {
  Model model(test::fixture_path("tiny/llama-linear"), options_on(gpu, layers));
  ASSERT_EQ(model.config().layers, 2);
  const std::vector<int32_t> ids = {3, 17, 5, 40, 8};
  SequenceReader reader(model);
  reader.feed(std::span(ids).first(2));
  reader.feed(std::span(ids).subspan(2));
  PlanTable table(reader.plan(3), {.rows = 3, .context = 5});
  check(table, reader.plan(3));
}

// "op detail" of each row of a device.
std::vector<std::string> rows_of(const Json& table, const std::string& device) {
  std::vector<std::string> rows;
  for (const Json& row : table["table"])
    if (row["device"] == device)
      rows.push_back(
          fmt::format("{} {}", row["op"].get<std::string>(), row["detail"].get<std::string>()));
  return rows;
}

TEST(PlanTable, ShowsTheDeviceOfEachRowAndTheCrossings) {
  metal::FakeGpu gpu;
  with_table(&gpu, 1, [](const PlanTable& table, const Plan& plan) {
    ASSERT_NE(plan.front(), nullptr);
    const Json all = table.json();
    const size_t on_cpu = plan.front()->table().size(), copies = plan.crossings().size();
    ASSERT_EQ(all["table"].size(), on_cpu + copies + plan.table().size());
    ASSERT_GT(copies, 0U);
    for (size_t i = 0; i < all["table"].size(); ++i) {
      const Json& row = all["table"][i];
      EXPECT_EQ(row["index"], i);
      EXPECT_EQ(row["device"], i < on_cpu + copies ? "cpu" : "gpu") << i;
      EXPECT_EQ(row["op"] == "copy", i >= on_cpu && i < on_cpu + copies) << i;
    }
    for (const std::string& row : rows_of(all, "cpu"))
      EXPECT_EQ(row.find("blk.1"), std::string::npos) << row;
    for (const std::string& row : rows_of(all, "gpu"))
      EXPECT_EQ(row.find("blk.0"), std::string::npos) << row;
    EXPECT_NE(fmt::format("{}", fmt::join(rows_of(all, "cpu"), " ")).find("blk.0"),
              std::string::npos);
    // 3 rows of the residual stream cross over, 4 bytes per value.
    double bytes = 0;
    for (size_t i = on_cpu; i < on_cpu + copies; ++i)
      bytes = std::max(bytes, all["table"][i]["bytes"].get<double>());
    EXPECT_EQ(bytes, 3.0 * 4 * kDim);
    ASSERT_EQ(all["places"].size(), 2U);
    EXPECT_EQ(all["places"][0]["device"], "cpu");
    EXPECT_EQ(all["places"][1]["target"], all["target"]);
    EXPECT_NE(all["places"][0]["target"], all["target"]);
  });
  EXPECT_EQ(gpu.faults, "");
}

TEST(PlanTable, TimesRowsOfBothDevices) {
  metal::FakeGpu gpu;
  gpu.command_seconds = 1e-3;
  with_table(&gpu, 1, [](PlanTable& table, const Plan& plan) {
    int32_t done = 0;
    table.profile(3, [&](int32_t now, int32_t all) {
      EXPECT_EQ(now, ++done);
      EXPECT_EQ(all, 3);
    });
    EXPECT_EQ(done, 3);
    const Json all = table.json();
    double sum = 0;
    for (const Json& row : all["table"]) {
      EXPECT_EQ(row.contains("limit"), row["op"] != "copy") << row;
      EXPECT_EQ(row.contains("seconds"), row["op"] != "copy") << "copied with the inputs of a run";
      if (row["op"] == "copy") continue;
      const auto seconds = row["seconds"].get<double>();
      EXPECT_GE(seconds, row["device"] == "gpu" ? 2e-3 - 1e-9 : 0) << row;
      sum += seconds;
    }
    EXPECT_DOUBLE_EQ(all["seconds"].get<double>(), sum);
    EXPECT_GT(all["run_seconds"].get<double>(), 0);
    EXPECT_TRUE(all["limits"].contains("launch_seconds"));
    EXPECT_TRUE(all["places"][0]["limits"].contains("barrier_seconds"));
    const std::vector<std::string> lines = table.lines();
    const size_t rows = all["table"].size();
    ASSERT_EQ(lines.size(), 1 + rows + 2 * 3 + 1);
    EXPECT_TRUE(lines[0].starts_with("  row device"));
    EXPECT_TRUE(lines[1].starts_with("    0 cpu "));
    EXPECT_TRUE(lines[rows].starts_with(fmt::format("{:>5} gpu ", rows - 1)));
    EXPECT_TRUE(lines[rows + 1].starts_with(
        fmt::format("cpu: {} rows", plan.front()->table().size() + plan.crossings().size())));
    EXPECT_TRUE(lines[rows + 4].starts_with(fmt::format("gpu: {} rows", plan.table().size())));
  });
  EXPECT_EQ(gpu.faults, "");
}

TEST(PlanTable, DoubtsRatesThatRowsExceedOrThatVary) {
  EXPECT_EQ(spread_of({1, 9, 2}), 0) << "of too few";
  EXPECT_EQ(spread_of({4, 4, 4, 4, 4, 4, 4, 90}), 0) << "one that is off does not count";
  EXPECT_EQ(spread_of({1, 1, 2, 2, 3, 3, 4, 4}), 2.0 / 2.5);
  metal::FakeGpu gpu;
  gpu.command_seconds = 1e-3;
  // The rows of the fake device take a millisecond each, so they exceed no rate.
  with_table(&gpu, {}, [](PlanTable& table, const Plan&) {
    EXPECT_TRUE(table.doubts().empty()) << "nothing was measured";
    table.profile(1, [](int32_t, int32_t) {});
    for (const std::string& doubt : table.doubts())
      EXPECT_EQ(doubt.find("exceed"), std::string::npos) << doubt;
  });
}

TEST(PlanTable, OfOneDeviceHasNoPlaces) {
  metal::FakeGpu gpu;
  for (metal::FakeGpu* const on : {static_cast<metal::FakeGpu*>(nullptr), &gpu})
    with_table(on, {}, [&](const PlanTable& table, const Plan& plan) {
      const Json all = table.json();
      EXPECT_EQ(all["table"].size(), plan.table().size());
      EXPECT_FALSE(all.contains("places"));
      for (const Json& row : all["table"]) EXPECT_EQ(row["device"], on != nullptr ? "gpu" : "cpu");
      EXPECT_TRUE(table.lines()[0].starts_with("  row op "));
      EXPECT_TRUE(table.lines().back().starts_with("total: "));
    });
}

// An encoder has no KV cache on either side.
TEST(PlanTable, SupportsAnEncoderOnTwoDevices) {
  metal::FakeGpu gpu;
  gpu.command_seconds = 1e-3;
  Model model(test::fixture_path("encoders/bert-mean"), options_on(&gpu, 1));
  Encoder encoder(model, model.entry().roots.begin()->first);
  const std::vector<int32_t> ids = {3, 5, 7};
  const TokenSequence text{ids, {}};
  encoder.run({&text, 1});
  const std::vector<float> before(encoder.row(0).begin(), encoder.row(0).end());
  PlanTable table(encoder.plan(3, 1), {.rows = 3, .outputs = 3, .context = 3});
  table.profile(2, [](int32_t, int32_t) {});
  const Json all = table.json();
  EXPECT_FALSE(rows_of(all, "cpu").empty());
  EXPECT_FALSE(rows_of(all, "gpu").empty());
  for (const Json& row : all["table"]) EXPECT_NE(row["place"], "cache") << row;
  EXPECT_EQ(std::vector<float>(encoder.row(0).begin(), encoder.row(0).end()), before);
  EXPECT_EQ(gpu.faults, "");
}

}  // namespace
}  // namespace veery::cli
