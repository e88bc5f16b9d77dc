// Saved sequences: a loaded sequence continues with the same bits as the saved one. Invalid files
// are refused and leave the sequence unchanged.
#include "engine/sequence_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "support/file_size_limit.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;

Ids random_ids(size_t count, uint64_t seed) {
  Random random(seed);
  Ids ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return ids;
}

std::string tiny(const std::string& name) { return test::fixture_path("tiny/" + name); }

// Returns the fixture with a longer context, so that KV caches have several pages.
std::string with_context(const test::TemporaryFolder& folder, const std::string& name) {
  const std::string path = folder.file(name);
  std::filesystem::copy(tiny(name), path, std::filesystem::copy_options::recursive);
  std::string config = test::read_text(path + "/config.json");
  const std::string key = "\"max_position_embeddings\": 128";
  config.replace(config.find(key), key.size(), "\"max_position_embeddings\": 2048");
  std::filesystem::permissions(path + "/config.json", std::filesystem::perms::owner_all);
  folder.write(name + "/config.json", config);
  return path;
}

// Saves a sequence, loads it with another model object and another session, and continues.
void goes_on_alike(const std::string& path, const LoadOptions& options, size_t count) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("session"), again = folder.file("again");
  const Ids ids = random_ids(count, 1), more = random_ids(5, 2), other = random_ids(7, 3);
  Model model(path, options);
  test::OneSequence session(model);
  const size_t middle = count / 2;
  session.feed(std::span(ids).first(middle));
  session.save();
  session.feed(std::span(ids).subspan(middle));
  session.write(ids, file);
  session.feed(more);
  const Logits expected(session.logits().begin(), session.logits().end());
  session.rewind(static_cast<int32_t>(middle));
  session.feed(other);
  const Logits expected_other(session.logits().begin(), session.logits().end());

  Model fresh(path, options);
  test::OneSequence loaded(fresh);
  loaded.feed(other);  // loading discards this
  EXPECT_EQ(loaded.read(file), ids);
  EXPECT_EQ(loaded.position(), std::ssize(ids));
  loaded.write(ids, again);
  EXPECT_EQ(test::read_text(again), test::read_text(file));
  loaded.feed(more);
  EXPECT_EQ(Logits(loaded.logits().begin(), loaded.logits().end()), expected);
  ASSERT_TRUE(loaded.can_rewind(static_cast<int32_t>(middle)));
  loaded.rewind(static_cast<int32_t>(middle));
  loaded.feed(other);
  EXPECT_EQ(Logits(loaded.logits().begin(), loaded.logits().end()), expected_other);
}

class SequenceFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(SequenceFiles, GoOnAsTheSequenceWouldHave) {
  goes_on_alike(tiny(GetParam()), {.threads = 1}, 60);
}
std::string test_name(const ::testing::TestParamInfo<const char*>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
// Attention, sliding windows, latent attention, hybrids with recurrences, and recurrences alone.
INSTANTIATE_TEST_SUITE_P(All, SequenceFiles,
                         ::testing::Values("qwen3", "gpt-oss", "deepseek-v3", "gemma4", "qwen35",
                                           "kimi-linear", "lfm2", "mamba2", "jamba", "xlstm",
                                           "xlstm-lm", "rwkv7"),
                         test_name);

TEST(SequenceFile, SeveralPagesAndWindowsThatHaveLeftSomeBehind) {
  const test::TemporaryFolder folder;
  goes_on_alike(with_context(folder, "gemma3"), {.threads = 2}, 1100);
}

// A prefix of a sequence can be saved; a snapshot provides the recurrent state.
TEST(SequenceFile, ABeginningOfASequence) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("session");
  const Ids ids = random_ids(40, 1), more = random_ids(5, 2);
  Model model(tiny("qwen35"), {.threads = 1});
  Session runner(model, {.sequences = 2, .snapshot_every = 0});
  const auto feed = [&](int32_t sequence, std::span<const int32_t> part) {
    const RunPart run{sequence, part, 1};
    runner.run({&run, 1});
    return Logits(runner.logits(0).begin(), runner.logits(0).end());
  };
  const int32_t sequence = runner.open();
  feed(sequence, std::span(ids).first(23));
  runner.save(sequence);
  feed(sequence, std::span(ids).subspan(23));
  write_sequence(runner, sequence, {{ids.begin(), ids.begin() + 30}, 23, {}}, path);
  SequenceFile file(runner, path);
  EXPECT_EQ(file.saved().ids.size(), 30U);
  const int32_t loaded = file.load();
  EXPECT_EQ(runner.position(loaded), 23);
  runner.rewind(sequence, 23);
  EXPECT_EQ(feed(loaded, more), feed(sequence, more));
}

TEST(SequenceFile, EveryTypeOfCache) {
  for (const DType keys : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (const DType values : {DType::kF16, DType::kQ8_0})
      goes_on_alike(tiny("llama-mlx8"), {.threads = 1, .cache_keys = keys, .cache_values = values},
                    40);
  goes_on_alike(tiny("qwen35"), {.threads = 1, .exact = true}, 40);
}

class DamagedSequenceFile : public ::testing::Test {
 protected:
  DamagedSequenceFile() {
    test::OneSequence session(model_);
    session.feed(ids_);
    session.save();
    session.write(ids_, path_);
    bytes_ = test::read_text(path_);
    std::memcpy(&header_, bytes_.data(), sizeof(header_));
  }
  // Returns the error of loading these bytes; the sequence must then be usable and empty.
  std::pair<ErrorKind, std::string> refused(std::string bytes) {
    folder_.write("bad", bytes);
    test::OneSequence session(model_);
    session.feed(random_ids(3, 9));
    try {
      session.read(folder_.file("bad"));
    } catch (const Error& error) {
      session.feed(random_ids(3, 9));
      return {error.kind(), std::string(error.what()).substr(folder_.path().size() + 1)};
    }
    return {ErrorKind::kBug, "nothing is wrong"};
  }
  std::pair<ErrorKind, std::string> refused(const SequenceFileHeader& header) {
    std::string bytes = bytes_;
    std::memcpy(bytes.data(), &header, sizeof(header));
    return refused(bytes);
  }
  void expect(const std::pair<ErrorKind, std::string>& found, ErrorKind kind,
              std::string_view part) {
    EXPECT_EQ(found.first, kind) << found.second;
    EXPECT_NE(found.second.find(part), std::string::npos) << found.second;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.file("session");
  Model model_{tiny("lfm2"), {.threads = 1}};
  Ids ids_ = random_ids(20, 1);
  std::string bytes_;
  SequenceFileHeader header_{};
};

TEST_F(DamagedSequenceFile, CutOffAtAnyPlace) {
  expect(refused(""), ErrorKind::kFormat, "bad: has 0 bytes, expected a saved session");
  for (const size_t size : {63UL, 64UL, 100UL, bytes_.size() / 2, bytes_.size() - 1})
    expect(refused(bytes_.substr(0, size)), ErrorKind::kFormat,
           fmt::format("bad: has {} bytes, expected", size));
  expect(refused(bytes_ + "x"), ErrorKind::kFormat, "it was cut off or added to");
}

TEST_F(DamagedSequenceFile, AnyByteThatChanged) {
  for (size_t at = 0; at < bytes_.size(); at += at < 256 ? 1 : 1009) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_NE(refused(bytes).first, ErrorKind::kBug) << at;
  }
  std::string bytes = bytes_;
  bytes[bytes.size() - 100] ^= 1;
  expect(refused(bytes), ErrorKind::kFormat, "bad: is damaged: its hash is");
}

TEST_F(DamagedSequenceFile, NumbersThatCannotBe) {
  SequenceFileHeader header = header_;
  header.version = 2;
  expect(refused(header), ErrorKind::kUnsupported, "has version 2 of saved sessions, expected 1");
  header = header_;
  header.tokens = header.positions = 0xFFFFFFFFU;
  expect(refused(header), ErrorKind::kLimit, "has 4294967295 tokens, the context holds 128");
  header = header_;
  header.snapshots = 0xFFFFFFFFU;
  expect(refused(header), ErrorKind::kFormat, "20 positions and 4294967295 snapshots");
  header = header_;
  header.note = 0xFFFFFFFFU;
  expect(refused(header), ErrorKind::kLimit, "4294967295");
  header = header_;
  header.tokens = 128;
  expect(refused(header), ErrorKind::kFormat, "bad: has ");
  header = header_;
  header.snapshots = 0;
  expect(refused(header), ErrorKind::kFormat, "for 20 tokens and 0 snapshots");
  std::string bytes = bytes_;
  bytes[sizeof(header)] = 61;
  expect(refused(bytes), ErrorKind::kFormat, "bad: has token 61, the vocabulary has 61");
  header = header_;
  header.flags |= kSequenceEncoded;
  expect(refused(header), ErrorKind::kFormat, "has the output of an encoder");
}

TEST_F(DamagedSequenceFile, OfAnotherModelOrOtherCaches) {
  const auto refused_by = [&](const std::string& name, const LoadOptions& options) {
    Model other(tiny(name), options);
    test::OneSequence session(other);
    try {
      session.read(path_);
    } catch (const Error& error) {
      return std::pair(error.kind(), std::string(error.what()));
    }
    return std::pair(ErrorKind::kBug, std::string("nothing is wrong"));
  };
  expect(refused_by("lfm2moe", {.threads = 1}), ErrorKind::kInput,
         "was saved with another model (fingerprint");
  expect(refused_by("lfm2", {.threads = 1, .cache_keys = DType::kF16}), ErrorKind::kInput,
         "was saved with keys of type bf16, this model has f16");
  expect(
      refused_by(
          "lfm2",
          {.threads = 1, .exact = true, .cache_keys = DType::kBF16, .cache_values = DType::kBF16}),
      ErrorKind::kInput, "was saved with activations in int8 or bf16, this model has f32");
  expect(refused_by("lfm2", {.threads = 1, .context = 16}), ErrorKind::kLimit,
         "has 20 tokens, the context holds 16");
  expect(refused(test::read_text(tiny("lfm2") + "/config.json")), ErrorKind::kFormat,
         "is no saved session");
}

TEST_F(DamagedSequenceFile, AFullDiskLeavesWhatWasThere) {
  test::OneSequence session(model_);
  session.feed(ids_);
  {
    const test::FileSizeLimit limit(static_cast<rlim_t>(bytes_.size() / 2));
    EXPECT_THROW(session.write(ids_, path_), Error);
  }
  EXPECT_EQ(test::read_text(path_), bytes_);
  EXPECT_EQ(folder_.entries(), 1U);
  EXPECT_THROW(session.write(std::span(ids_).first(3), path_), Error);
  EXPECT_THROW(session.write(ids_, tiny("lfm2") + "/model.safetensors"), Error);
}

TEST_F(DamagedSequenceFile, MoreSnapshotsThanThereIsMemoryForAreLeftOut) {
  Session few(model_, {.snapshots = 1});
  Session many(model_, {.snapshots = 8, .snapshot_every = 4});
  const int32_t sequence = many.open();
  for (size_t at = 0; at < 20; at += 4) {
    const RunPart part{sequence, std::span(ids_).subspan(at, 4), 1};
    many.run({&part, 1});
  }
  write_sequence(many, sequence, {ids_, 20, "a note"}, path_);
  SequenceFile file(few, path_);
  EXPECT_EQ(file.saved().note, "a note");
  const int32_t loaded = file.load();
  EXPECT_EQ(few.position(loaded), 20);
  EXPECT_EQ(few.nearest(loaded, 19), 0);
  EXPECT_EQ(few.nearest(loaded, 20), 20);
}

}  // namespace
}  // namespace veery
