// Folders of small random checkpoints against the results of transformers, and against the same
// weights as GGUF. tools/oracle/make_tiny.py creates the folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "convert/as_gguf.h"
#include "convert/quantize.h"
#include "file/folder/row_sources.h"
#include "file/gguf/gguf.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "model/arch/registry.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

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
                                    "gemma4",
                                    "gemma4-published",
                                    "gemma4-moe",
                                    "gemma4-unified",
                                    "phi3",
                                    "phi3-longrope",
                                    "mistral3",
                                    "helium",
                                    "smollm3",
                                    "smollm3-interval",
                                    "granite",
                                    "olmo",
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
                                    "deepseek-v32",
                                    "deepseek-v32-sparse",
                                    "glm5",
                                    "glm5-sparse",
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
                                    "bailing2",
                                    "glm",
                                    "glm4",
                                    "ernie4_5",
                                    "exaone4",
                                    "seed-oss",
                                    "stablelm",
                                    "stablelm-parallel",
                                    "hunyuan",
                                    "ernie4_5moe",
                                    "internlm3",
                                    "internlm2",
                                    "exaone",
                                    "minicpm",
                                    "hunyuanmoe",
                                    "nemotron",
                                    "nemotron-f32",
                                    "arcee",
                                    "arcee-f32",
                                    "apertus",
                                    "apertus-f32",
                                    "phimoe",
                                    "phimoe-longrope",
                                    "bitnet",
                                    "opt",
                                    "falcon",
                                    "falcon-new",
                                    "falcon-serial",
                                    "gptj",
                                    "bloom",
                                    "mpt",
                                    "stablelm-heads"};
// Folders that cannot be written as GGUF.
constexpr const char* kFoldersOnly[] = {
    "qwen35",         "qwen35moe",      "qwen3next",      "mamba2",         "mamba2-limits",
    "lfm2",           "lfm2moe",        "xlstm",          "xlstm-fused",    "xlstm-lm",
    "xlstm-lm-cuda",  "kimi-linear",    "granite4h",      "granite4h-moe",  "bamba",
    "minimax-m2",     "glm4-lite",      "mistral4",       "exaone-moe",     "afmoe",
    "cohere2moe",     "cohere2moe-rms", "granite-swa",    "granitemoe-swa", "nemotron-h",
    "nemotron-h-moe", "falcon-h1",      "falcon-h1-tied", "falcon-h1-mlx",  "lfm3",
    "jamba",          "rwkv7"};

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
    // The divisors of longrope depend on the maximum length of the sequence.
    test::OneSequence session(model, std::ssize(ids) + std::ssize(expected));
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
    test::OneSequence whole(model);
    whole.feed_all(ids, [&](int32_t, std::span<const float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    });
    test::OneSequence single(model);
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
INSTANTIATE_TEST_SUITE_P(FoldersOnly, TinyFolder, ::testing::ValuesIn(kFoldersOnly), test_name);

// Writes a folder as GGUF without changing the types of its tensors.
void write_as_gguf(const std::string& folder, const std::string& path) {
  const ModelFile file = open_as_gguf(folder);
  const std::vector<TensorPlan> plans = keep_types(file);
  ThreadPool pool(1);
  write_quantized(file, plans, retyped_metadata(file, plans), path, pool, {});
}

std::vector<float> exact_logits(const std::string& path, std::span<const int32_t> ids,
                                int64_t positions) {
  Model model(path, options_for(true));
  test::OneSequence session(model, positions);
  session.feed(ids);
  return {session.logits().begin(), session.logits().end()};
}

// If sequences cannot be longer than the number of chosen positions, positions are not chosen, and
// the logits are the same.
TEST(SparseAttention, IsUsedIfSequencesMayBecomeLonger) {
  LoadOptions options = options_for(true);
  for (const char* name : {"deepseek-v32", "glm5"}) {
    const auto ids = prompts_of(name)[0]["ids"].get<std::vector<int32_t>>();
    std::vector<std::vector<float>> logits;
    for (const int context : {96, 97}) {
      options.context = context;
      Model model(folder_of(name), options);
      const auto& nodes = model.entry().graph.nodes();
      const bool chooses =
          std::ranges::any_of(nodes, [](const Node& n) { return n.op == op::kChoosePositions; });
      EXPECT_EQ(chooses, context == 97) << name;
      test::OneSequence session(model);
      session.feed(ids);
      logits.emplace_back(session.logits().begin(), session.logits().end());
    }
    EXPECT_EQ(logits[0], logits[1]) << name;
  }
}

// The chosen positions of a row do not depend on prefill chunks or threads, for any cache type.
TEST(SparseAttention, HasOneAnswerInAnyChunkOrTeam) {
  const char* const name = "deepseek-v32-sparse";
  const auto ids = prompts_of(name)[0]["ids"].get<std::vector<int32_t>>();
  for (const DType cache : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<std::vector<float>> first;
    for (const int chunk : {64, 7, 1})
      for (const int threads : {1, 3}) {
        LoadOptions options{.threads = threads};
        options.chunk = chunk;
        options.cache_keys = options.cache_values = cache;
        Model model(folder_of(name), options);
        std::vector<std::vector<float>> rows;
        test::OneSequence session(model);
        session.feed_all(ids, [&](int32_t, std::span<const float> logits) {
          rows.emplace_back(logits.begin(), logits.end());
        });
        if (first.empty()) first = rows;
        EXPECT_EQ(rows, first) << info(cache).name << " " << chunk << " " << threads;
      }
  }
}

// Logits change if a layer does not choose positions, or chooses one more.
TEST(SparseAttention, CountsForTheLogits) {
  for (const char* name : {"deepseek-v32-sparse", "glm5-sparse"}) {
    const Json prompt = prompts_of(name)[0];
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const Model model(folder_of(name), options_for(true));
    for (const int32_t more : {1, 1000}) {
      Model other(model, [&](ModelFile&, TransformerConfig& c) {
        c.index.used += more;
        c.sparse = c.is_sparse_at(128);
      });
      test::OneSequence session(other);
      session.feed(ids);
      EXPECT_GT(relative_error(session.logits(), prompt["logits"].back()), 1e-3) << name << more;
    }
  }
}

class TinyGguf : public ::testing::TestWithParam<const char*> {};

// The bits are equal, unless the conversion changes the order of sums (permuted rows of Q and K) or
// rounds a number (scale factors of RoPE).
TEST_P(TinyGguf, GivesTheLogitsOfTheFolder) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.gguf");
  write_as_gguf(folder_of(GetParam()), path);
  EXPECT_EQ(folder.entries(), 1);
  const ModelFile written = open_gguf(path);
  const std::string name = *written.metadata.text("general.architecture");
  const double theta = read_config(open_model(folder_of(GetParam()))).positions.rope.theta;
  // Sums over value heads have another order, and factors are merged into weights.
  const bool tiled = name.starts_with("qwen35") || name == "falcon-h1";
  const bool same_bits = !tiled && !find_architecture(name).gguf_interleaved_rope &&
                         !written.metadata.number(name + ".rope.scaling.attn_factor") &&
                         !written.metadata.number(name + ".attention.temperature_scale") &&
                         theta == double{static_cast<float>(theta)};
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
INSTANTIATE_TEST_SUITE_P(Recurrent, TinyGguf, ::testing::ValuesIn(kFoldersOnly), test_name);

// The format of older DeepSeek GGUF files: the two matrices of each head are stored as one, the
// first one transposed back, and head sizes are those without compression.
class OlderDeepSeek {
 public:
  explicit OlderDeepSeek(const std::string& folder) : file_(open_as_gguf(folder)) {
    const TransformerConfig c = read_config(open_model(folder));
    for (TensorView& tensor : file_.tensors) {
      const std::span<const std::byte> data = tensor.read(buffers_.emplace_back());
      tensor.data = data;
      tensor.source = nullptr;
    }
    join(c.latent, c.attention.heads);
    const LatentConfig& l = c.latent;
    for (const auto& [key, value] :
         {std::pair("head_count_kv", c.attention.heads),
          std::pair("key_length", l.plain + l.turned), std::pair("value_length", l.value),
          std::pair("key_length_mla", 0), std::pair("value_length_mla", 0)})
      file_.metadata.set(fmt::format("deepseek2.attention.{}", key), int64_t{value});
  }
  void write(const std::string& path) const {
    test::write_gguf(path, file_.metadata, file_.tensors);
  }

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

// Older GGUF files of mixtures have one tensor per expert.
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
    test::write_gguf(folder.file("older.gguf"), file.metadata, tensors);
    EXPECT_EQ(exact_logits(folder.file("newer.gguf"), ids, 0),
              exact_logits(folder.file("older.gguf"), ids, 0))
        << name;
  }
}

// Longrope: a short and a long sequence in one run have the bits that they have alone, and a fork
// inherits the divisors of its sequence.
TEST(FolderModel, EachSequenceHasTheDivisorsOfItsLength) {
  Model model(folder_of("phi3-longrope"), options_for(true));
  const auto ids = prompts_of("phi3-longrope")[1]["ids"].get<std::vector<int32_t>>();
  const auto alone = [&](int64_t positions) {
    test::OneSequence session(model, positions);
    session.feed(ids);
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  const std::vector<float> shorter = alone(24);
  const std::vector<float> longer = alone(25);
  EXPECT_NE(shorter, longer);
  EXPECT_EQ(longer, alone(0));
  Session runner(model, {.sequences = 3});
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

// The metadata keys are those that llama.cpp's converter writes.
TEST(GgufKeys, AreThoseOfOtherPrograms) {
  struct Row {
    const char* folder;
    const char* key;
    MetaValue value;
  };
  const auto real = [](double value) {
    return MetaValue(std::in_place_type<double>, double{static_cast<float>(value)});
  };
  const auto whole = [](int64_t value) { return MetaValue(std::in_place_type<int64_t>, value); };
  const Row rows[] = {
      {"glm", "general.architecture", std::string("chatglm")},
      {"glm", "chatglm.rope.dimension_count", whole(4)},
      {"deepseek-v3", "deepseek2.expert_gating_func", whole(2)},
      {"ernie4_5moe", "ernie4_5-moe.interleave_moe_layer_step", whole(1)},
      {"ernie4_5moe", "ernie4_5-moe.leading_dense_block_count", whole(1)},
      {"ernie4_5moe", "ernie4_5-moe.expert_shared_feed_forward_length", whole(20)},
      {"llama4", "llama4.interleave_moe_layer_step", whole(2)},
      {"gemma4", "gemma4.attention.shared_kv_layers", whole(3)},
      {"gemma4", "gemma4.embedding_length_per_layer_input", whole(4)},
      {"gemma4", "gemma4.attention.key_length", whole(10)},
      {"gemma4", "gemma4.attention.key_length_swa", whole(6)},
      {"gemma4", "gemma4.attention.value_length_swa", whole(6)},
      {"gemma4", "gemma4.rope.dimension_count", whole(10)},
      {"gemma4", "gemma4.rope.dimension_count_swa", whole(6)},
      {"gemma4", "gemma4.rope.freq_base_swa", real(1e4)},
      {"gemma4", "gemma4.feed_forward_length", std::vector<int64_t>{18, 18, 18, 36, 36, 36}},
      {"gemma4", "gemma4.attention.sliding_window_pattern", std::vector<int64_t>{1, 0, 1, 1, 0, 0}},
      {"gemma4", "gemma4.final_logit_softcapping", real(9)},
      {"gemma4-moe", "gemma4.attention.head_count_kv", std::vector<int64_t>{2, 2, 1}},
      {"gemma4-moe", "gemma4.expert_feed_forward_length", whole(7)},
      {"stablelm", "stablelm.use_parallel_residual", false},
      {"stablelm-parallel", "stablelm.use_parallel_residual", true},
      {"minicpm", "minicpm.embedding_scale", real(1.5)},
      {"minicpm", "minicpm.residual_scale", real(1.2 / std::sqrt(2.0))},
      {"minicpm", "minicpm.logit_scale", real(0.5)},
      {"hunyuan", "hunyuan-dense.rope.freq_base", real(1e4 * std::pow(50.0, 10.0 / 8))},
      {"internlm3", "general.architecture", std::string("llama")},
      {"nemotron", "nemotron.attention.layer_norm_epsilon", real(1e-5)},
      {"nemotron", "nemotron.rope.dimension_count", whole(4)},
      {"apertus", "xielu.beta", std::vector<double>(3, 0.5)},
      {"hunyuanmoe", "hunyuan-moe.expert_shared_feed_forward_length", whole(22)},
      {"phimoe", "phimoe.expert_used_count", whole(2)},
      {"mpt", "mpt.attention.max_alibi_bias", real(8)},
      {"falcon-new", "falcon.attention.head_count_kv", whole(2)},
  };
  for (const Row& row : rows) {
    const ModelFile file = open_as_gguf(folder_of(row.folder));
    const MetaValue* found = file.metadata.find(row.key);
    ASSERT_NE(found, nullptr) << row.key;
    EXPECT_TRUE(*found == row.value) << row.key;
  }
}

// Returns the GGUF metadata with the keys renamed to another architecture.
Metadata renamed_keys(const Metadata& metadata, const std::string& to) {
  const std::string from = *metadata.text("general.architecture") + ".";
  Metadata result;
  for (const auto& [key, value] : metadata.all())
    result.set(key.starts_with(from) ? to + "." + key.substr(from.size()) : key, value);
  result.set("general.architecture", to);
  return result;
}

// Files of other programs with equivalent keys.
TEST(GgufKeys, OfOtherProgramsGiveTheSameBits) {
  struct Row {
    const char* folder;
    const char* architecture;
    void (*change)(Metadata&);
  };
  const Row rows[] = {
      {"qwen2", "qwen2vl", [](Metadata&) {}},
      {"qwen3", "qwen3vl", [](Metadata&) {}},
      {"granitemoehybrid", "granitehybrid",
       [](Metadata& keys) {
         keys.set("granitehybrid.attention.head_count_kv", std::vector<int64_t>{2, 2});
         keys.set("granitehybrid.feed_forward_length", int64_t{14});
         keys.set("granitehybrid.expert_shared_feed_forward_length", int64_t{30});
       }},
      {"falcon-new", "falcon",  // llama.cpp's converter writes only these keys
       [](Metadata& keys) {
         Metadata fewer;
         for (const auto& [key, value] : keys.all())
           if (!key.starts_with("falcon.rope.") && !key.starts_with("falcon.attention.key") &&
               !key.starts_with("falcon.attention.value"))
             fewer.set(key, value);
         keys = std::move(fewer);
       }},
      {"deepseek-v3", "deepseek2",
       [](Metadata& keys) { keys.set("deepseek2.expert_gating_func", int64_t{0}); }},
  };
  for (const Row& row : rows) {
    const auto ids = prompts_of(row.folder)[0]["ids"].get<std::vector<int32_t>>();
    const test::TemporaryFolder folder;
    ModelFile file = open_as_gguf(folder_of(row.folder));
    Metadata keys = renamed_keys(file.metadata, row.architecture);
    row.change(keys);
    std::deque<std::vector<std::byte>> buffers;
    for (TensorView& tensor : file.tensors) {
      tensor.data = tensor.read(buffers.emplace_back());
      tensor.source = nullptr;
    }
    test::write_gguf(folder.file("ours.gguf"), file.metadata, file.tensors);
    test::write_gguf(folder.file("theirs.gguf"), keys, file.tensors);
    EXPECT_EQ(exact_logits(folder.file("ours.gguf"), ids, 0),
              exact_logits(folder.file("theirs.gguf"), ids, 0))
        << row.architecture;
  }
}

TEST(GgufKeys, SizesThatDifferFromLayerToLayerAreRefused) {
  ModelFile file = open_as_gguf(folder_of("qwen2"));
  file.metadata.set("qwen2.attention.head_count_kv", std::vector<int64_t>{1, 7});
  try {
    read_config(file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("head_count_kv"), std::string::npos);
  }
}

// Files that were written before these keys existed.
TEST(GgufKeys, OlderFilesOfMiniCpmHaveTheScalesOfTheFirstOne) {
  ModelFile file = open_as_gguf(folder_of("minicpm"));
  Metadata older;
  for (const auto& [key, value] : file.metadata.all())
    if (!key.ends_with("_scale")) older.set(key, value);
  file.metadata = std::move(older);
  const TransformerConfig c = read_config(file);
  EXPECT_EQ(c.input.scale, 12);
  EXPECT_FLOAT_EQ(c.residual.scale, 1.4F / std::sqrt(2.0F));
  EXPECT_EQ(c.output.scale, 256.0F / 32);
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
