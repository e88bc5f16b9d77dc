// The many ways in which config.json describes RoPE, against the results of transformers, which
// tools/oracle/rope_variants.py records.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "convert/as_folder.h"
#include "file/folder/folder.h"
#include "import/open_model.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

// Writes the checkpoint of a case with its configuration.
void write_folder(const Json& variant, const test::TemporaryFolder& folder) {
  const std::string base = "tiny/" + variant["base"].get<std::string>();
  Json config = test::read_fixture(base + "/config.json");
  for (const Json& key : variant["remove"]) config.erase(key.get<std::string>());
  config.update(variant["set"]);
  folder.write("config.json", dump_json(config));
  std::filesystem::create_symlink(
      std::filesystem::absolute(test::fixture_path(base + "/model.safetensors")),
      folder.file("model.safetensors"));
}

std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& ids) {
  Model model(path, {.threads = 1, .exact = true});
  test::OneSequence session(model, std::ssize(ids));
  session.feed(ids);
  return {session.logits().begin(), session.logits().end()};
}

double relative_error(std::span<const float> logits, const std::vector<double>& expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(logits[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

TEST(RopeVariants, AcceptsWhatTransformersAccepts) {
  const Json file = test::read_fixture("rope_variants.json");
  ASSERT_GT(file["cases"].size(), 100U);
  for (const Json& variant : file["cases"]) {
    SCOPED_TRACE(dump_json(variant["base"]) + " with " + dump_json(variant["set"]));
    const test::TemporaryFolder folder;
    write_folder(variant, folder);
    const auto ids = variant["ids"].get<std::vector<int32_t>>();
    if (variant.contains("error")) {
      EXPECT_THROW(logits_of(folder.path(), ids), Error) << variant["error"];
      continue;
    }
    try {
      const std::vector<float> logits = logits_of(folder.path(), ids);
      EXPECT_LT(relative_error(logits, variant["logits"].get<std::vector<double>>()), 1e-5);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// A folder is written with old and new keys; each of them alone must have the same meaning.
TEST(RopeVariants, AWrittenFolderMeansTheSame) {
  const Json file = test::read_fixture("rope_variants.json");
  for (const Json& variant : file["cases"]) {
    if (variant.contains("error")) continue;
    SCOPED_TRACE(dump_json(variant["base"]) + " with " + dump_json(variant["set"]));
    const test::TemporaryFolder folder, holder;
    write_folder(variant, folder);
    const ModelFile model = open_model(folder.path());
    ThreadPool pool(1);
    const std::string path = holder.file("written");
    write_folder(model, plan_folder(model, {}), path, pool, {});
    const auto ids = variant["ids"].get<std::vector<int32_t>>();
    EXPECT_LT(relative_error(logits_of(path, ids), variant["logits"].get<std::vector<double>>()),
              1e-5);
    Json config = read_json_file(path + "/config.json");
    EXPECT_EQ(config.erase("rope_parameters"), 1U);
    // The old keys cannot express these configurations completely.
    if (config.value("sliding_window", Json()).is_number()) continue;
    std::filesystem::remove(path + "/config.json");
    std::ofstream(path + "/config.json") << dump_json(config);
    EXPECT_LT(relative_error(logits_of(path, ids), variant["logits"].get<std::vector<double>>()),
              1e-5);
  }
}

}  // namespace
}  // namespace veery
