// Folders of small random checkpoints against what transformers computes with them, and the same
// weights as GGUF. tools/oracle/make_tiny.py makes the folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "engine/session.h"
#include "file/gguf.h"
#include "file/row_sources.h"
#include "model/open_model.h"
#include "model/registry.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/vocabularies.h"

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

// Writes an opened folder as GGUF as converters do: Q and K of some families permuted, joint
// projections, no keys of what the family has always.
class GgufCopy {
 public:
  GgufCopy(const std::string& name, const std::string& path, bool older = false)
      : file_(open_model(folder_of(name))) {
    const DecoderConfig c = read_config(file_);
    const bool permuted = find_architecture(c.architecture).gguf_interleaved && !c.rope_interleaved;
    for (TensorView& tensor : file_.tensors) {
      buffers_.emplace_back();
      const std::span<const std::byte> data = tensor.read(buffers_.back());
      buffers_.back().assign(data.begin(), data.end());
      if (permuted && tensor.name.find("attn_q.") != std::string::npos)
        permute(tensor, buffers_.back(), c.heads);
      if (permuted && tensor.name.find("attn_k.") != std::string::npos)
        permute(tensor, buffers_.back(), c.kv_heads);
      tensor.data = buffers_.back();
      tensor.source = nullptr;
    }
    if (c.architecture == "gpt2" || c.architecture == "gptneox")
      for (int32_t layer = 0; layer < c.layers; ++layer)
        for (const char* kind : {"weight", "bias"}) join(layer, kind);
    if (c.latent.rank > 0 && older) join_latent(c.latent, c.heads);
    VocabularyBuilder vocabulary;
    for (const char* token : {"a", "b", "c"}) vocabulary.add(token);
    Metadata metadata = vocabulary.file("gpt2").metadata;
    describe(c, metadata);
    if (c.latent.rank > 0) describe_latent(c, older, metadata);
    write_gguf(path, metadata, file_.tensors);
  }

 private:
  static void permute(const TensorView& tensor, std::vector<std::byte>& bytes, int32_t heads) {
    const std::vector<std::byte> before = bytes;
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    const size_t row = bytes.size() / rows;
    const size_t head = rows / static_cast<size_t>(heads);
    for (size_t r = 0; r < rows; ++r) {
      const size_t pair = r % head % (head / 2);
      const size_t half = r % head / (head / 2);
      std::copy_n(
          before.begin() + static_cast<ptrdiff_t>(r * row), row,
          bytes.begin() + static_cast<ptrdiff_t>((r / head * head + 2 * pair + half) * row));
    }
  }
  void join(int32_t layer, const char* kind) {
    const auto name = [&](const char* part) {
      return fmt::format("blk.{}.{}.{}", layer, part, kind);
    };
    std::vector<std::byte>& bytes = buffers_.emplace_back();
    TensorView joint = file_.at(name("attn_q"));
    joint.name = name("attn_qkv");
    joint.shape[0] = 0;
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
      const auto found = std::ranges::find(file_.tensors, name(part), &TensorView::name);
      joint.shape[0] += found->shape[0];
      bytes.insert(bytes.end(), found->data.begin(), found->data.end());
      file_.tensors.erase(found);
    }
    joint.data = bytes;
    file_.tensors.push_back(joint);
  }
  // The two matrices of each head as one, the first turned back.
  void join_latent(const LatentConfig& l, int32_t heads) {
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
  static void describe_latent(const DecoderConfig& c, bool older, Metadata& metadata) {
    const LatentConfig& l = c.latent;
    const auto set = [&](const char* key, int64_t value) {
      metadata.set(c.architecture + "." + key, uint64_t(value));
    };
    set("attention.kv_lora_rank", l.rank);
    if (l.query_rank > 0) set("attention.q_lora_rank", l.query_rank);
    set("attention.head_count_kv", older ? c.heads : 1);
    set("attention.key_length", older ? l.plain + l.turned : l.rank + l.turned);
    set("attention.value_length", older ? l.value : l.rank);
    if (!older) set("attention.key_length_mla", l.plain + l.turned);
    if (!older) set("attention.value_length_mla", l.value);
    if (l.yarn_magnitude != 1)
      metadata.set(c.architecture + ".rope.scaling.yarn_log_multiplier",
                   (l.yarn_magnitude - 1) / std::log(c.rope.factor));
  }
  static void describe(const DecoderConfig& c, Metadata& metadata) {
    const std::string prefix = c.architecture + ".";
    const auto number = [&](const char* key, double value, double usual) {
      if (value != usual) metadata.set(prefix + key, value);
    };
    metadata.set("general.architecture", c.architecture);
    metadata.set(prefix + "block_count", uint64_t(c.layers));
    metadata.set(prefix + "context_length", uint64_t(c.context));
    metadata.set(prefix + "embedding_length", uint64_t(c.dim));
    metadata.set(prefix + "feed_forward_length", uint64_t(c.hidden));
    metadata.set(prefix + "attention.head_count", uint64_t(c.heads));
    if (c.kv_heads != c.heads)
      metadata.set(prefix + "attention.head_count_kv", uint64_t(c.kv_heads));
    if (c.head_dim != c.dim / c.heads)
      for (const char* key : {"attention.key_length", "attention.value_length"})
        metadata.set(prefix + key, uint64_t(c.head_dim));
    metadata.set(prefix + (c.norm == Norm::kRms ? "attention.layer_norm_rms_epsilon"
                                                : "attention.layer_norm_epsilon"),
                 double{c.norm_eps});
    if (!c.learned_positions) {
      metadata.set(prefix + "rope.freq_base", c.rope.theta);
      metadata.set(prefix + "rope.dimension_count", uint64_t(c.rope.dims));
    }
    describe_scaling(c, metadata);
    describe_window(c, metadata);
    const bool granite = c.architecture.starts_with("granite");
    if (c.experts.count > 0) describe_experts(c.experts, prefix, metadata);
    number("attention.scale", granite ? c.attention_scale : 0, 0);
    number("embedding_scale", granite ? c.embedding_scale : 1, 1);
    number("residual_scale", c.residual_scale, 1);
    number("logit_scale", granite ? 1 / c.logit_scale : c.logit_scale, 1);
    number("attn_logit_softcapping", c.attention_softcap, 0);
    number("final_logit_softcapping", c.logit_softcap, 0);
    if (c.architecture == "gptneox") metadata.set(prefix + "use_parallel_residual", c.parallel);
  }
  static void describe_scaling(const DecoderConfig& c, Metadata& metadata) {
    const std::string prefix = c.architecture + ".rope.scaling.";
    if (c.rope.scaling == RopeScaling::kNone) return;
    const bool yarn = c.rope.scaling == RopeScaling::kYarn;
    metadata.set(prefix + "type", yarn ? "yarn" : "linear");
    metadata.set(prefix + "factor", c.rope.factor);
    if (!yarn) return;
    metadata.set(prefix + "original_context_length", uint64_t(c.rope.original_context));
    if (c.rope.temperature == 0) return;
    metadata.set(prefix + "yarn_log_multiplier", 1.0);
    metadata.set(c.architecture + ".attention.temperature_scale", c.rope.temperature);
  }
  static void describe_window(const DecoderConfig& c, Metadata& metadata) {
    const std::string key = c.architecture + ".attention.sliding_window";
    if (c.window == 0) return;
    metadata.set(key, uint64_t(c.window));
    if (c.architecture == "olmo2")
      metadata.set(key + "_pattern", std::vector<int64_t>(c.local.begin(), c.local.end()));
  }

  static void describe_experts(const ExpertConfig& e, const std::string& prefix,
                               Metadata& metadata) {
    metadata.set(prefix + "expert_count", uint64_t(e.count));
    metadata.set(prefix + "expert_used_count", uint64_t(e.route.used));
    metadata.set(prefix + "expert_feed_forward_length", uint64_t(e.hidden));
    if (e.route.scale != 1) metadata.set(prefix + "expert_weights_scale", double{e.route.scale});
    if (e.route.sigmoid) {
      metadata.set(prefix + "expert_gating_func", uint64_t{2});
      metadata.set(prefix + "expert_weights_norm", e.route.normalise);
    }
    if (e.route.groups == 1) return;
    metadata.set(prefix + "expert_group_count", uint64_t(e.route.groups));
    metadata.set(prefix + "expert_group_used_count", uint64_t(e.route.groups_used));
  }

  ModelFile file_;
  std::deque<std::vector<std::byte>> buffers_;
};

class TinyGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyGguf, GivesTheLogitsOfTheFolder) {
  const test::TemporaryFolder folder;
  const GgufCopy copy(GetParam(), folder.file("model.gguf"));
  const Json prompt = prompts_of(GetParam())[0];
  const auto ids = prompt["ids"].get<std::vector<int32_t>>();
  Model model(folder.file("model.gguf"), {.threads = 1, .exact = true});
  Session session(model);
  session.feed(ids);
  EXPECT_LT(relative_error(session.logits(), prompt["logits"].back()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, TinyGguf,
                         ::testing::Values("llama-linear", "llama-bias", "qwen2", "qwen3", "gemma",
                                           "phi3", "mistral3", "smollm3-interval", "granite",
                                           "olmo2", "olmo3", "cohere", "cohere2", "gpt2",
                                           "gpt-neox", "gpt-neox-serial", "starcoder2", "phi2",
                                           "mixtral", "qwen2moe", "qwen3moe", "gpt-oss",
                                           "deepseek-v2", "deepseek-v2-groups", "deepseek-v3",
                                           "olmoe", "granitemoe", "granitemoeshared", "glm4moe",
                                           "glm4", "ernie4_5", "exaone4", "seed-oss"),
                         test_name);

// Older files have the joint projection of keys and values.
TEST(FolderModel, OlderFilesOfDeepSeekGiveTheSameBits) {
  for (const char* name : {"deepseek-v2", "deepseek-v2-groups", "deepseek-v3"}) {
    const auto ids = prompts_of(name)[0]["ids"].get<std::vector<int32_t>>();
    std::vector<std::vector<float>> found;
    for (const bool older : {false, true}) {
      const test::TemporaryFolder folder;
      const GgufCopy copy(name, folder.file("model.gguf"), older);
      Model model(folder.file("model.gguf"), {.threads = 1});
      Session session(model);
      session.feed(ids);
      found.emplace_back(session.logits().begin(), session.logits().end());
    }
    EXPECT_EQ(found[0], found[1]) << name;
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
