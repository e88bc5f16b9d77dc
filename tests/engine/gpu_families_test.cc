// Every family of models on the emulator of GPUs: the logits of the CPU, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/random.h"
#include "engine/runner.h"
#include "engine/session.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;
using Rows = std::vector<std::vector<float>>;

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

LoadOptions options_for(bool gpu) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = 64;
  if (gpu) options.backend = gpu::make_backend(gpu::make_emulator());
  return options;
}

// A prompt, and steps behind it: logits of each row.
Rows logits_of(const std::string& folder, const LoadOptions& options, const Ids& ids) {
  Model model(folder, options);
  Session session(model);
  Rows rows;
  const auto keep = [&](int32_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  };
  const auto steps = std::min<size_t>(2, ids.size() - 1);
  session.feed_all(std::span(ids).first(ids.size() - steps), keep);
  for (size_t i = ids.size() - steps; i < ids.size(); ++i)
    session.feed_all(std::span(ids).subspan(i, 1), keep);
  return rows;
}

Ids ids_for(const std::string&) { return random_ids(9, 3); }

class GpuFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuFamilies, LogitsHaveTheBitsOfTheCpu) {
  const std::string folder = folder_of(GetParam());
  const Ids ids = ids_for(GetParam());
  EXPECT_EQ(logits_of(folder, options_for(true), ids), logits_of(folder, options_for(false), ids));
}

std::vector<std::string> all_folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::fixture_path("tiny")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, GpuFamilies, ::testing::ValuesIn(all_folders()), test_name);

}  // namespace
}  // namespace veery
