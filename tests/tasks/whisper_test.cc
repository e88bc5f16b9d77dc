// Whisper: tiny random checkpoints (tools/oracle/make_whisper.py) against transformers.
#include <cmath>
#include <deque>

#include "base/error.h"
#include "convert/as_gguf.h"
#include "engine/session.h"
#include "file/gguf/gguf.h"
#include "import/ggml_speech.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "support/ggml_speech.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"
#include "tasks/speech/speech_tokens.h"

namespace veery {
namespace {

constexpr const char* kCheckpoints[] = {"a", "b"};

std::string folder_of(const std::string& name) { return test::fixture_path("whisper/" + name); }
Json reference_of(const std::string& name) {
  return test::read_fixture("whisper/" + name + "/reference.json");
}

LoadOptions speech(int threads = 1) {
  return {.threads = threads,
          .exact = true,
          .entry = [](ModelFile& file, const TransformerConfig& config) {
            return transcribe_entry(file, config);
          }};
}

// The sizes of the script.
std::vector<float> features_of(const Model& model) {
  const SourceConfig& source = model.config().source;
  std::vector<float> features(static_cast<size_t>(2 * source.positions * source.bands));
  for (size_t i = 0; i < features.size(); ++i)
    features[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return features;
}

double relative_error(std::span<const float> got, std::span<const double> expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return got.size() == expected.size() ? worst / largest : 1;
}

// Computes derived tensors before writing, since a GGUF file needs their bytes.
void write(const std::string& path, const ModelFile& file) {
  std::vector<TensorView> tensors = file.tensors;
  std::deque<std::vector<std::byte>> buffers;
  for (TensorView& tensor : tensors) {
    tensor.data = tensor.read(buffers.emplace_back());
    tensor.source = nullptr;
  }
  test::write_gguf(path, file.metadata, tensors);
}

// Returns the logits of all tokens, evaluated `piece` at a time.
std::vector<float> logits_of(Session& runner, int32_t sequence, std::span<const int32_t> tokens,
                             size_t piece) {
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const auto ids = tokens.subspan(at, std::min(piece, tokens.size() - at));
    const RunPart part{sequence, ids, static_cast<int32_t>(ids.size())};
    runner.run(std::span(&part, 1));
    for (int32_t i = 0; i < part.outputs; ++i) {
      const auto row = runner.logits(i);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

TEST(Whisper, EncoderAndDecoderMatchTransformers) {
  for (const std::string name : kCheckpoints) {
    const Json reference = reference_of(name);
    Model model(folder_of(name), speech());
    Session runner(model);
    const int32_t sequence = runner.open();
    runner.encode(sequence, features_of(model));
    std::vector<float> hidden;
    for (int64_t r = 0; r < model.config().source.positions; ++r) {
      const auto row = runner.encoded(r);
      hidden.insert(hidden.end(), row.begin(), row.end());
    }
    EXPECT_LT(relative_error(hidden, reference["hidden"].get<std::vector<double>>()), 2e-4) << name;
    const auto tokens = reference["tokens"].get<std::vector<int32_t>>();
    const std::vector<float> logits = logits_of(runner, sequence, tokens, tokens.size());
    EXPECT_LT(relative_error(logits, reference["logits"].get<std::vector<double>>()), 2e-4) << name;
  }
}

TEST(Whisper, LogitsDoNotDependOnPiecesOrThreads) {
  for (const std::string name : kCheckpoints) {
    const auto tokens = reference_of(name)["tokens"].get<std::vector<int32_t>>();
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      Model model(folder_of(name), speech(threads));
      Session runner(model);
      const int32_t sequence = runner.open();
      runner.encode(sequence, features_of(model));
      for (const size_t piece : {size_t{1}, size_t{5}, tokens.size()}) {
        runner.rewind(sequence, 0);
        const std::vector<float> logits = logits_of(runner, sequence, tokens, piece);
        if (first.empty()) first = logits;
        EXPECT_EQ(logits, first) << name << " " << threads << " " << piece;
      }
    }
  }
}

TEST(Whisper, ForksShareTheEncodedSoundUntilTheLastIsClosed) {
  Model model(folder_of("b"), speech());
  Session runner(model, {.sequences = 3});
  const auto tokens = reference_of("b")["tokens"].get<std::vector<int32_t>>();
  const int32_t one = runner.open(), other = runner.open();
  std::vector<float> sound = features_of(model);
  runner.encode(one, sound);
  const std::vector<float> expected = logits_of(runner, one, tokens, 4);
  runner.rewind(one, 0);
  const int32_t fork = runner.fork(one, 0);
  for (float& x : sound) x = 0.5F - x;
  runner.encode(other, sound);
  EXPECT_NE(logits_of(runner, other, tokens, 4), expected);
  runner.encode(one, sound);
  EXPECT_EQ(logits_of(runner, fork, tokens, 4), expected);
  EXPECT_NE(logits_of(runner, one, tokens, 4), expected);
  for (int i = 0; i < 5; ++i) {
    runner.close(fork);
    EXPECT_EQ(runner.open(), fork);
    runner.encode(fork, sound);
  }
}

TEST(Whisper, ASequenceWithoutSoundIsAnError) {
  Model model(folder_of("b"), speech());
  Session runner(model);
  const int32_t id = 5;
  const RunPart part{runner.open(), std::span(&id, 1), 1};
  EXPECT_THROW(runner.run(std::span(&part, 1)), Error);
  EXPECT_THROW(runner.encode(part.sequence, std::vector<float>(7)), Error);
  EXPECT_THROW(Model(folder_of("b")), Error);  // it has no text entry
}

// A vocabulary for two languages: text has the ids that special and time tokens leave.
std::vector<std::string> some_tokens(const TransformerConfig& c) {
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < c.vocab - (c.source.positions + 1) - 10; ++i)
    tokens.push_back(i < 95 ? std::string(1, static_cast<char>(' ' + i)) : fmt::format("a{}", i));
  return tokens;
}

TEST(Whisper, AFileOfWhisperCppGivesTheSame) {
  const test::TemporaryFolder folder;
  const Json reference = reference_of("a");
  const TransformerConfig config = read_config(open_model(folder_of("a")));
  std::string bytes = test::ggml_speech(folder_of("a"), config, some_tokens(config));
  folder.write("a.bin", bytes);
  const auto tokens = reference["tokens"].get<std::vector<int32_t>>();
  std::vector<float> logits[2];
  for (const bool bin : {false, true}) {
    Model model(bin ? folder.file("a.bin") : folder_of("a"), speech());
    Session runner(model);
    const int32_t sequence = runner.open();
    runner.encode(sequence, features_of(model));
    logits[bin ? 1 : 0] = logits_of(runner, sequence, tokens, tokens.size());
    if (bin) {
      const SpeechKeys keys = read_speech_keys(open_model(folder.file("a.bin")), model.config());
      const SpeechTokens t = find_speech_tokens(model.tokenizer(), keys, model.config());
      ASSERT_EQ(keys.alignment_heads.size(), 4U);  // of the second of two layers
      EXPECT_EQ(keys.alignment_heads[0], std::pair(1, 0));
      EXPECT_EQ(t.first_time, model.config().vocab - 38);
      EXPECT_EQ(t.languages.size(), 2U);
      EXPECT_EQ(model.tokenizer().decode({33, 34}), "AB");
    }
  }
  EXPECT_EQ(logits[0], logits[1]);
  for (size_t size = 0; size < bytes.size(); size += 997)
    EXPECT_THROW(parse_ggml_speech(std::as_bytes(std::span(bytes.data(), size)), "cut"), Error);
  bytes[4] = 0, bytes[5] = 1, bytes[6] = 0;  // another number of tokens
  EXPECT_THROW(parse_ggml_speech(std::as_bytes(std::span(bytes)), "vocab"), Error);
}

TEST(Whisper, GgufGivesTheSame) {
  const test::TemporaryFolder folder;
  for (const std::string name : kCheckpoints) {
    const ModelFile file = open_as_gguf(folder_of(name));
    const std::string path = folder.file(name + ".gguf");
    write(path, file);
    const auto tokens = reference_of(name)["tokens"].get<std::vector<int32_t>>();
    std::vector<float> logits[2];
    for (const bool gguf : {false, true}) {
      Model model(gguf ? path : folder_of(name), speech());
      Session runner(model);
      const int32_t sequence = runner.open();
      runner.encode(sequence, features_of(model));
      logits[gguf ? 1 : 0] = logits_of(runner, sequence, tokens, tokens.size());
    }
    EXPECT_EQ(logits[0], logits[1]) << name;
  }
}

}  // namespace
}  // namespace veery
