// Folders of small random checkpoints against what transformers computes with them, and the same
// weights as GGUF. tools/oracle/make_tiny.py makes the folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "engine/session.h"
#include "file/gguf.h"
#include "file/row_sources.h"
#include "model/as_gguf.h"
#include "model/open_model.h"
#include "model/quantize.h"
#include "model/registry.h"
#include "support/models.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

constexpr const char* kFolders[] = {"llama-llama3",
                                    "llama-bias",
                                    "llama-linear",
                                    "llama-yarn",
                                    "mistral",
                                    "qwen2",
                                    "qwen2-yarn",
                                    "qwen3",
                                    "qwen3-tied",
                                    "gemma",
                                    "gemma2",
                                    "gemma3",
                                    "gemma3-pattern",
                                    "phi3",
                                    "phi3-longrope",
                                    "mistral3",
                                    "helium",
                                    "smollm3",
                                    "smollm3-interval",
                                    "granite",
                                    "olmo2",
                                    "olmo3",
                                    "cohere",
                                    "cohere2",
                                    "gpt2",
                                    "gpt-neox",
                                    "gpt-neox-serial",
                                    "starcoder2",
                                    "phi2",
                                    "mixtral",
                                    "qwen2moe",
                                    "qwen3moe",
                                    "gpt-oss",
                                    "deepseek-v2",
                                    "deepseek-v2-groups",
                                    "deepseek-v3",
                                    "llama4",
                                    "llama4-plain",
                                    "gpt-oss-mxfp4",
                                    "qwen3moe-mlx",
                                    "llama-mlx3",
                                    "llama-mlx6",
                                    "llama-mlx8",
                                    "llama-mlx8-f32",
                                    "llama-mxfp8",
                                    "llama-fp8",
                                    "llama-fp8-blocks",
                                    "deepseek-v3-fp8",
                                    "deepseek-v3-mlx",
                                    "olmoe",
                                    "granitemoe",
                                    "granitemoeshared",
                                    "granitemoehybrid",
                                    "dots1",
                                    "glm4moe",
                                    "glm",
                                    "glm4",
                                    "ernie4_5",
                                    "exaone4",
                                    "seed-oss"};

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

Json prompts_of(const std::string& name) {
  return test::read_fixture("tiny/" + name + "/reference.json")["prompts"];
}

LoadOptions options_for(bool exact) { return {.threads = 1, .exact = exact}; }

double relative_error(std::span<const float> logits, const Json& expected) {
  const auto values = expected.get<std::vector<double>>();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(logits[i] - values[i]));
    largest = std::max(largest, std::abs(values[i]));
  }
  return worst / largest;
}

int32_t best(std::span<const float> x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

class TinyFolder : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyFolder, ExactLogitsAndGreedyTokensAreTransformers) {
  for (const Json& prompt : prompts_of(GetParam())) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const auto expected = prompt["greedy"].get<std::vector<int32_t>>();
    Model model(folder_of(GetParam()), options_for(true));
    // Which divisors longrope takes depends on how long the text becomes.
    Session session(model, std::ssize(ids) + std::ssize(expected));
    const auto bests = prompt["best"].get<std::vector<int32_t>>();
    const size_t shown = prompt["logits"].size();
    session.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
      ASSERT_EQ(logits.size(), prompt["logits"][0].size());
      const auto at = static_cast<size_t>(position);
      EXPECT_EQ(best(logits), bests[at]) << at;
      if (at + shown < ids.size()) return;
      EXPECT_LT(relative_error(logits, prompt["logits"][at + shown - ids.size()]), 1e-5) << at;
    });
    std::vector<int32_t> greedy(expected.size());
    greedy[0] = best(session.logits());
    session.decode_greedy(greedy[0], std::span(greedy).subspan(1));
    EXPECT_EQ(greedy, expected);
  }
}

TEST_P(TinyFolder, OneTokenAtATimeGivesTheBitsOfAPrompt) {
  const auto ids = prompts_of(GetParam())[0]["ids"].get<std::vector<int32_t>>();
  for (const bool exact : {false, true}) {
    Model model(folder_of(GetParam()), options_for(exact));
    std::vector<std::vector<float>> rows;
    Session whole(model);
    whole.feed_all(ids, [&](int32_t, std::span<const float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    });
    Session single(model);
    for (size_t i = 0; i < ids.size(); ++i) {
      single.feed({&ids[i], 1});
      EXPECT_TRUE(std::ranges::equal(single.logits(), rows[i])) << i;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<const char*>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TinyFolder, ::testing::ValuesIn(kFolders), test_name);

// A folder written as GGUF with its tensors as they are.
void write_as_gguf(const std::string& folder, const std::string& path) {
  const ModelFile file = open_as_gguf(folder);
  const std::vector<TensorPlan> plans = keep_types(file);
  ThreadPool pool(1);
  write_quantized(file, plans, retyped_metadata(file, plans), path, pool, {});
}

std::vector<float> exact_logits(const std::string& path, std::span<const int32_t> ids,
                                int64_t positions) {
  Model model(path, options_for(true));
  Session session(model, positions);
  session.feed(ids);
  return {session.logits().begin(), session.logits().end()};
}

class TinyGguf : public ::testing::TestWithParam<const char*> {};

// To the bit where nothing is computed in another order or rounded: rows of Q and K that change
// places do the one, factors on angles the other.
TEST_P(TinyGguf, GivesTheLogitsOfTheFolder) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.gguf");
  write_as_gguf(folder_of(GetParam()), path);
  EXPECT_EQ(folder.entries(), 1);
  const ModelFile written = open_gguf(path);
  const std::string name = *written.metadata.text("general.architecture");
  const bool same_bits = !find_architecture(name).gguf_interleaved &&
                         !written.metadata.number(name + ".rope.scaling.attn_factor");
  for (const Json& prompt : prompts_of(GetParam())) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const auto positions = std::ssize(ids) + std::ssize(prompt["greedy"]);
    const std::vector<float> logits = exact_logits(path, ids, positions);
    EXPECT_LT(relative_error(logits, prompt["logits"].back()), 1e-5);
    if (!same_bits) continue;
    EXPECT_EQ(logits, exact_logits(folder_of(GetParam()), ids, positions));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyGguf, ::testing::ValuesIn(kFolders), test_name);

// What older GGUF files of DeepSeek hold: the two matrices of each head as one, the first turned
// back, and sizes of heads that are not compressed.
class OlderDeepSeek {
 public:
  explicit OlderDeepSeek(const std::string& folder) : file_(open_as_gguf(folder)) {
    const DecoderConfig c = read_config(open_model(folder));
    for (TensorView& tensor : file_.tensors) {
      const std::span<const std::byte> data = tensor.read(buffers_.emplace_back());
      tensor.data = data;
      tensor.source = nullptr;
    }
    join(c.latent, c.heads);
    const LatentConfig& l = c.latent;
    for (const auto& [key, value] :
         {std::pair("head_count_kv", c.heads), std::pair("key_length", l.plain + l.turned),
          std::pair("value_length", l.value), std::pair("key_length_mla", 0),
          std::pair("value_length_mla", 0)})
      file_.metadata.set(fmt::format("deepseek2.attention.{}", key), int64_t{value});
  }
  void write(const std::string& path) const { write_gguf(path, file_.metadata, file_.tensors); }

 private:
  void join(const LatentConfig& l, int32_t heads) {
    for (TensorView& k : file_.tensors) {
      if (!k.name.ends_with("attn_k_b.weight")) continue;
      const std::string layer = k.name.substr(0, k.name.size() - 15);
      const auto v = std::ranges::find(file_.tensors, layer + "attn_v_b.weight", &TensorView::name);
      const TensorView turned = transposed(k);
      std::vector<std::byte> from;
      const std::span<const std::byte> keys = turned.read(from);
      std::vector<std::byte>& bytes = buffers_.emplace_back();
      const auto row = byte_size(k.dtype, l.rank);
      const auto append = [&](std::span<const std::byte> all, int32_t head, int32_t rows) {
        const auto part = all.subspan(size_t(head * rows) * row, size_t(rows) * row);
        bytes.insert(bytes.end(), part.begin(), part.end());
      };
      for (int32_t head = 0; head < heads; ++head) {
        append(keys, head, l.plain);
        append(v->data, head, l.value);
      }
      k.name = layer + "attn_kv_b.weight";
      k.shape = {heads * (l.plain + l.value), l.rank};
      k.data = bytes;
    }
    std::erase_if(file_.tensors,
                  [](const TensorView& t) { return t.name.ends_with("attn_v_b.weight"); });
  }

  ModelFile file_;
  std::deque<std::vector<std::byte>> buffers_;
};

TEST(FolderModel, OlderFilesOfDeepSeekGiveTheSameBits) {
  for (const char* name : {"deepseek-v2", "deepseek-v2-groups", "deepseek-v3"}) {
    const auto ids = prompts_of(name)[0]["ids"].get<std::vector<int32_t>>();
    const test::TemporaryFolder folder;
    write_as_gguf(folder_of(name), folder.file("newer.gguf"));
    OlderDeepSeek(folder_of(name)).write(folder.file("older.gguf"));
    EXPECT_EQ(exact_logits(folder.file("newer.gguf"), ids, 0),
              exact_logits(folder.file("older.gguf"), ids, 0))
        << name;
  }
}

// Older GGUF files of mixtures have a tensor an expert.
TEST(FolderModel, ATensorAnExpertGivesTheSameBits) {
  constexpr std::string_view kEnd = "_exps.weight";
  for (const char* name : {"mixtral", "qwen3moe"}) {
    const auto ids = prompts_of(name)[0]["ids"].get<std::vector<int32_t>>();
    const test::TemporaryFolder folder;
    ModelFile file = open_as_gguf(folder_of(name));
    std::deque<std::vector<std::byte>> buffers;
    std::vector<TensorView> tensors;
    for (const TensorView& tensor : file.tensors) {
      const std::span<const std::byte> data = tensor.read(buffers.emplace_back());
      const bool experts = tensor.name.ends_with(kEnd);
      const auto count = static_cast<size_t>(experts ? tensor.shape[0] : 1);
      for (size_t e = 0; e < count; ++e) {
        TensorView& part = tensors.emplace_back(tensor);
        part.source = nullptr;
        part.data = data.subspan(e * data.size() / count, data.size() / count);
        if (!experts) continue;
        part.shape.erase(part.shape.begin());
        part.name.replace(part.name.size() - kEnd.size(), kEnd.size(),
                          fmt::format(".{}.weight", e));
      }
    }
    write_as_gguf(folder_of(name), folder.file("newer.gguf"));
    write_gguf(folder.file("older.gguf"), file.metadata, tensors);
    EXPECT_EQ(exact_logits(folder.file("newer.gguf"), ids, 0),
              exact_logits(folder.file("older.gguf"), ids, 0))
        << name;
  }
}

// Longrope: a short and a long sequence side by side give what they give alone, and a fork keeps
// what its sequence has.
TEST(FolderModel, EachSequenceHasTheDivisorsOfItsLength) {
  Model model(folder_of("phi3-longrope"), options_for(true));
  const auto ids = prompts_of("phi3-longrope")[1]["ids"].get<std::vector<int32_t>>();
  const auto alone = [&](int64_t positions) {
    Session session(model, positions);
    session.feed(ids);
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  const std::vector<float> shorter = alone(24);
  const std::vector<float> longer = alone(25);
  EXPECT_NE(shorter, longer);
  EXPECT_EQ(longer, alone(0));
  Runner runner(model, {.sequences = 3});
  const int32_t a = runner.open(24);
  const int32_t b = runner.open(25);
  const RunPart parts[] = {{a, ids, 1}, {b, ids, 1}};
  runner.run(parts);
  EXPECT_TRUE(std::ranges::equal(runner.logits(0), shorter));
  EXPECT_TRUE(std::ranges::equal(runner.logits(1), longer));
  const int32_t fork = runner.fork(b, 2);
  const RunPart rest{fork, std::span(ids).subspan(2), 1};
  runner.run({&rest, 1});
  EXPECT_TRUE(std::ranges::equal(runner.logits(0), longer));
}

TEST(FolderModel, WithoutATokenizerOnlyIdsAreTaken) {
  Model model(folder_of("qwen3"), {.threads = 1});
  EXPECT_EQ(model.tokenizer().size(), 0);
  try {
    model.tokenizer().encode("text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

}  // namespace
}  // namespace veery
