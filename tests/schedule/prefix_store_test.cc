// The prefix cache on disk: a new scheduler finds conversations, and answers are the same to the
// bit, whatever the files contain.
#include "schedule/caches/prefix_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "schedule/generate.h"
#include "support/families.h"
#include "support/file_size_limit.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;
namespace fs = std::filesystem;
constexpr uint64_t kPlenty = 1 << 30;

GenerateRequest request_of(Ids prompt, int64_t tokens, float temperature = 0) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.options.max_tokens = tokens;
  request.options.ignore_eos = true;
  request.options.sampling.temperature = temperature;
  request.options.sampling.seed = 5;
  return request;
}

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

class PrefixFiles : public ::testing::TestWithParam<const char*> {
 protected:
  SchedulerOptions options(uint64_t bytes = kPlenty) const {
    return {.slots = 2, .kept = 2, .prefix_store = {folder_.file("cache"), bytes}};
  }
  /// Uses a new scheduler, as after a restart.
  Generation ask(const GenerateRequest& request, uint64_t bytes = kPlenty) {
    Scheduler scheduler(model_, options(bytes));
    return generate(scheduler, request);
  }
  Ids alone(const GenerateRequest& request) {
    Scheduler scheduler(model_, {.slots = 1, .kept = 1});
    return generate(scheduler, request).ids;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_.file("cache")))
      all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
  }

  test::LongModel files_{std::string("tiny/") + GetParam()};
  test::TemporaryFolder folder_;
  Model model_{files_.path(), {.threads = 1, .context = test::LongModel::kContext, .chunk = 64}};
};

// Returns the next prompt: prompt and answer of this turn, and more tokens.
Ids next_turn(const Ids& prompt, const Ids& answer, uint64_t seed) {
  Ids next = prompt;
  next.insert(next.end(), answer.begin(), answer.end());
  const Ids more = random_ids(6, seed);
  next.insert(next.end(), more.begin(), more.end());
  return next;
}

TEST_P(PrefixFiles, AConversationIsKnownAfterARestart) {
  Ids prompt = random_ids(570, 1);
  for (uint64_t turn = 0; turn < 3; ++turn) {
    const GenerateRequest request = request_of(prompt, 20, turn == 1 ? 0.8F : 0.0F);
    const Ids expected = alone(request);
    const Generation answer = ask(request);
    EXPECT_EQ(answer.ids, expected);
    if (turn == 0) {
      EXPECT_EQ(answer.reused_tokens, 0U);
    } else {
      EXPECT_GT(answer.reused_tokens, prompt.size() * 95 / 100) << turn;
    }
    prompt = next_turn(prompt, answer.ids, turn);
  }
  struct stat status {};
  ASSERT_EQ(::stat(folder_.file("cache").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  for (const fs::path& file : files()) {
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << file;
    EXPECT_EQ(file.extension(), ".prefix");
  }
}

// Files are damaged one after another; answers stay the same, and damaged files are replaced.
TEST_P(PrefixFiles, DamagedFilesAreNoticed) {
  const GenerateRequest first = request_of(random_ids(300, 2), 10);
  const Generation answer = ask(first);
  const GenerateRequest second = request_of(next_turn(first.prompt, answer.ids, 3), 8);
  const Ids expected = alone(second);
  const std::vector<fs::path> all = files();
  ASSERT_GE(all.size(), 1U);
  Random random(4);
  for (int round = 0; round < 12; ++round) {
    const fs::path& file = all[static_cast<size_t>(round) % all.size()];
    if (!fs::exists(file)) ask(first);
    const auto size = fs::file_size(file);
    switch (round / 2 % 4) {
      case 0: fs::resize_file(file, random.next() % size); break;
      case 1: fs::resize_file(file, size + 8); break;
      case 2: fs::resize_file(file, 0); break;
      default: {
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        const auto at = static_cast<std::streamoff>(random.next() % size);
        stream.seekg(at);
        const auto byte = static_cast<char>(stream.get() ^ 4);
        stream.seekp(at);
        stream.put(byte);
      }
    }
    EXPECT_EQ(ask(second).ids, expected) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixFiles,
                         ::testing::Values("qwen3", "gemma3", "qwen3next", "mamba2", "xlstm",
                                           "deepseek-v2", "lfm2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class OnePrefixFolder : public PrefixFiles {};
INSTANTIATE_TEST_SUITE_P(Model, OnePrefixFolder, ::testing::Values("qwen3"));

TEST_P(OnePrefixFolder, FilesKeepToTheSize) {
  ask(request_of(random_ids(600, 1), 4));
  uint64_t most = 0;
  for (const fs::path& file : files()) most += fs::file_size(file);
  for (uint64_t i = 0; i < 4; ++i) {
    const GenerateRequest request = request_of(random_ids(600, 10 + i), 4);
    const Generation answer = ask(request, most);
    uint64_t bytes = 0;
    for (const fs::path& file : files()) bytes += fs::file_size(file);
    EXPECT_LE(bytes, most);
    // The last conversation is still cached.
    const GenerateRequest next = request_of(next_turn(request.prompt, answer.ids, i), 2);
    EXPECT_GT(ask(next, 2 * most).reused_tokens, 570U);
  }
}

TEST_P(OnePrefixFolder, TwoSchedulersShareIt) {
  Model other(files_.path(), {.threads = 1, .context = test::LongModel::kContext, .chunk = 64});
  Scheduler first(model_, options());
  Scheduler second(other, options());
  Ids prompt = random_ids(400, 6);
  for (int turn = 0; turn < 4; ++turn) {
    Scheduler& scheduler = turn % 2 == 0 ? first : second;
    const GenerateRequest request = request_of(prompt, 6);
    const Generation answer = generate(scheduler, request);
    scheduler.flush_files();
    ::usleep(20000);  // a folder's time of modification is coarse
    EXPECT_EQ(answer.ids, alone(request));
    EXPECT_GE(answer.reused_tokens, turn == 0 ? 0 : prompt.size() * 95 / 100) << turn;
    prompt = next_turn(prompt, answer.ids, 7);
  }
}

TEST_P(OnePrefixFolder, AFullDiskChangesNoAnswer) {
  const test::FileSizeLimit limit(1000);
  Scheduler scheduler(model_, options());
  const GenerateRequest request = request_of(random_ids(300, 8), 6);
  EXPECT_EQ(generate(scheduler, request).ids, alone(request));
  scheduler.flush_files();
  EXPECT_TRUE(files().empty());
  const GenerateRequest again = request_of(random_ids(310, 9), 6);
  EXPECT_EQ(generate(scheduler, again).ids, alone(again));
  EXPECT_GT(scheduler.counts().disk.failed, 0);
  EXPECT_EQ(scheduler.counts().disk.written, 0);
}

// Other models, and caches of other types, use other files.
TEST_P(OnePrefixFolder, OtherCachesAreNotFound) {
  const GenerateRequest first = request_of(random_ids(300, 2), 10);
  const Generation answer = ask(first);
  const GenerateRequest next = request_of(next_turn(first.prompt, answer.ids, 3), 4);
  const auto reused = [&](const std::string& path, const LoadOptions& load) {
    Model model(path, load);
    Scheduler scheduler(model, options());
    return generate(scheduler, next).reused_tokens;
  };
  LoadOptions load{.threads = 1, .context = test::LongModel::kContext, .chunk = 64};
  test::LongModel changed(std::string("tiny/") + GetParam());
  {
    // Flip one bit in the middle of the weights.
    const std::string file = changed.path() + "/model.safetensors";
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(fs::file_size(file) / 2 + 1);
    stream.seekg(at);
    const auto byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(at);
    stream.put(byte);
  }
  EXPECT_EQ(reused(changed.path(), load), 0U);
  load.cache_values = DType::kF32;
  EXPECT_EQ(reused(files_.path(), load), 0U);
  load.cache_values.reset();
  load.exact = true;
  load.cache_keys = load.cache_values = DType::kBF16;
  EXPECT_EQ(reused(files_.path(), load), 0U);
  load.exact = false;
  EXPECT_GT(reused(files_.path(), load), 290U);
}

TEST_P(OnePrefixFolder, PathsThatAreNotFoldersAreRefusedByName) {
  const auto refusal = [](const std::string& path) {
    try {
      check_prefix_folder(path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  folder_.write("file", "x");
  EXPECT_NE(refusal(folder_.file("file")).find("file: is a"), std::string::npos);
  EXPECT_NE(refusal("/proc/veery/cache").find("/proc/veery/cache: "), std::string::npos);
  fs::create_directory(folder_.file("open"));
  fs::permissions(folder_.file("open"), fs::perms::all);
  EXPECT_NE(refusal(folder_.file("open")).find("everybody may write"), std::string::npos);
  EXPECT_EQ(refusal(folder_.file("new/folder")), "nothing");
  EXPECT_TRUE(fs::is_empty(folder_.file("new/folder")));
}

}  // namespace
}  // namespace veery
