// Tests of recorded logits: file formats, and defects of a model that they reveal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "support/write_model.h"
#include "verify/diagnose.h"
#include "verify/reference.h"
#include "verify/verify.h"

namespace veery {
namespace {

using test::TemporaryFolder;
using test::TinyModel;

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

/// A modifiable checkpoint of tests/fixtures/tiny.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& name)
      : config(test::read_fixture("tiny/" + name + "/config.json")),
        file_(open_safetensors(folder_of(name) + "/model.safetensors")),
        tensors(file_.tensors) {}

  Json config;

 private:
  SafetensorsFile file_;
  std::deque<std::vector<std::byte>> bytes_;

 public:
  std::vector<StoredTensor> tensors;

  int64_t number(const char* key) const { return config[key].get<int64_t>(); }
  /// Calls change(tensor, bytes) for tensors whose names end in `end`.
  void change(const std::string& end,
              const std::function<void(StoredTensor&, std::vector<std::byte>&)>& change) {
    for (StoredTensor& tensor : tensors) {
      if (!tensor.name.ends_with(end)) continue;
      auto& bytes = bytes_.emplace_back(tensor.data.begin(), tensor.data.end());
      change(tensor, bytes);
      tensor.data = bytes;
    }
  }
  /// Permutes rows of heads from split to interleaved pairs.
  void permute(const std::string& end, int64_t heads) {
    change(end, [&](StoredTensor& tensor, std::vector<std::byte>& bytes) {
      const int64_t rows = tensor.shape[0];
      const size_t row = bytes.size() / static_cast<size_t>(rows);
      const int64_t head = rows / heads;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = r % head;
        const int64_t to = r - i + i % (head / 2) * 2 + i / (head / 2);
        std::copy_n(tensor.data.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(r) * row), row,
                    bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(to) * row));
      }
    });
  }
  void transpose(const std::string& end) {
    change(end, [](StoredTensor& tensor, std::vector<std::byte>& bytes) {
      const auto size = static_cast<size_t>(tensor.shape[0]);
      ASSERT_EQ(tensor.shape[0], tensor.shape[1]);
      const size_t each = bytes.size() / size / size;
      for (size_t r = 0; r < size; ++r)
        for (size_t c = 0; c < size; ++c)
          std::copy_n(tensor.data.begin() + static_cast<ptrdiff_t>((r * size + c) * each), each,
                      bytes.begin() + static_cast<ptrdiff_t>((c * size + r) * each));
    });
  }
  /// Adds `addend` to an f32 or bf16 tensor.
  void add(const std::string& end, float addend) {
    change(end, [&](StoredTensor& tensor, std::vector<std::byte>& bytes) {
      std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
      decode(*to_dtype(tensor.type), bytes, values);
      for (float& value : values) value += addend;
      bytes.resize(values.size() * sizeof(float));
      std::memcpy(bytes.data(), values.data(), bytes.size());
      tensor.type = StoredType::kF32;
    });
  }
  void exchange(const std::string& one, const std::string& other) {
    for (StoredTensor& tensor : tensors)
      for (const auto& [from, to] : {std::pair{one, other}, std::pair{other, one}})
        if (const size_t at = tensor.name.find(from); at != std::string::npos) {
          tensor.name.replace(at, from.size(), to);
          break;
        }
  }
  void write(const TemporaryFolder& folder) const {
    folder.write("config.json", dump_json(config));
    test::write_safetensors(folder.file("model.safetensors"), tensors, {{"format", "pt"}});
  }
};

struct Defect {
  const char* name;
  const char* model;
  std::function<void(Checkpoint&)> spoil;
  std::vector<std::string> words;  ///< words that the hint must contain
};

Defect with_value(const char* name, const char* model, const char* key, Json value,
                  std::vector<std::string> words) {
  return {name, model, [=](Checkpoint& c) { c.config[key] = value; }, std::move(words)};
}

std::vector<Defect> defects() {
  const auto permute_both = [](Checkpoint& c) {
    c.permute("q_proj.weight", c.number("num_attention_heads"));
    c.permute("k_proj.weight", c.number("num_key_value_heads"));
  };
  const auto turn_pattern = [](Checkpoint& c) {
    c.config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  };
  return {
      {"PermutedRows", "llama-llama3", permute_both, {"wrong RoPE pairing", "interleaved"}},
      {"PermutedRowsBeforeHeadNorms",
       "qwen3",
       permute_both,
       {"wrong RoPE pairing", "Q and K are permuted"}},
      {"PermutedKeys",
       "qwen3",
       [](Checkpoint& c) { c.permute("k_proj.weight", c.number("num_key_value_heads")); },
       {"wrong RoPE pairing", "rows of K"}},
      {"PermutedKeysOfOneLayer",
       "qwen3",
       [](Checkpoint& c) {
         c.permute("layers.1.self_attn.k_proj.weight", c.number("num_key_value_heads"));
       },
       {"wrong RoPE pairing in one layer", "rows of K of layer 1"}},
      {"PermutedQueriesOfOneLayer",
       "qwen3",
       [](Checkpoint& c) {
         c.permute("layers.0.self_attn.q_proj.weight", c.number("num_attention_heads"));
       },
       {"wrong RoPE pairing in one layer", "rows of Q of layer 0"}},
      {"ExchangedLayers",
       "qwen3",
       [](Checkpoint& c) { c.exchange("layers.0.", "layers.1."); },
       {"swapped layers", "layers 0 and 1"}},
      {"Base",
       "qwen3",
       [](Checkpoint& c) { c.config["rope_parameters"]["rope_theta"] = 3e4; },
       {"wrong RoPE base", "1000000", "30000"}},
      with_value("NoLinearScaling", "llama-linear", "rope_scaling", nullptr,
                 {"RoPE scaling", "linearly by 4"}),
      with_value("NoSoftCapOfScores", "gemma2", "attn_logit_softcapping", nullptr,
                 {"missing soft cap", "attention scores"}),
      with_value("NoSoftCapOfLogits", "gemma2", "final_logit_softcapping", nullptr,
                 {"missing soft cap", "soft cap of logits"}),
      with_value("NoSoftCapOfGemma4", "gemma4", "final_logit_softcapping", nullptr,
                 {"missing soft cap", "soft cap of logits"}),
      {"BaseOfLayersThatSeeEverything",
       "gemma4-published",
       [](Checkpoint& c) {
         c.config["text_config"]["rope_parameters"]["full_attention"]["rope_theta"] = 1e4;
       },
       {"wrong RoPE base in layers with full attention", "1000000"}},
      with_value("NoWindow", "mistral", "sliding_window", nullptr, {"missing window", "of 6"}),
      {"WindowOfAnotherSize",
       "gemma3",
       [](Checkpoint& c) { c.config["sliding_window"] = c.number("sliding_window") + 1; },
       {"wrong window size"}},
      {"PatternOfWindows", "gemma2", turn_pattern, {"wrong window pattern"}},
      with_value("Activation", "qwen3", "hidden_act", "gelu", {"wrong activation", "SiLU"}),
      with_value("FewerExperts", "qwen3moe", "num_experts_per_tok", 1, {"wrong number of experts"}),
      {"NormsWithTheOneTwice",
       "gemma",
       [](Checkpoint& c) { c.add("norm.weight", 1); },
       {"(1 + w) twice", "subtracted from"}},
      {"FinalNormWithoutTheOne",
       "gemma",
       [](Checkpoint& c) { c.add("model.norm.weight", -1); },
       {"without the 1 of (1 + w)", "output_norm"}},
      {"TransposedOutput",
       "llama-linear",
       [](Checkpoint& c) { c.transpose("o_proj.weight"); },
       {"wrongly transposed matrix", "attn_output.weight"}},
      {"GateAndUp",
       "qwen3",
       [](Checkpoint& c) { c.exchange("gate_proj", "up_proj"); },
       {"swapped", "ffn_gate", "ffn_up"}},
  };
}

class CorruptedModel : public ::testing::TestWithParam<Defect> {};

TEST_P(CorruptedModel, ReferenceNamesTheDefect) {
  Checkpoint checkpoint(GetParam().model);
  GetParam().spoil(checkpoint);
  const TemporaryFolder folder;
  checkpoint.write(folder);
  const Report report = verify(
      folder.path(), {.threads = 1, .reference = folder_of(GetParam().model) + "/reference.json"});
  const auto check = std::ranges::find(report.checks(), "reference", &Check::name);
  ASSERT_NE(check, report.checks().end());
  EXPECT_EQ(check->state, CheckState::kFail) << check->found;
  EXPECT_NE(check->hint.find("is matched"), std::string::npos) << check->hint;
  for (const std::string& word : GetParam().words)
    EXPECT_NE(check->hint.find(word), std::string::npos) << word << " is not in: " << check->hint;
}

INSTANTIATE_TEST_SUITE_P(Defects, CorruptedModel, ::testing::ValuesIn(defects()),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(VerifyReference, SoundModelsMatchTheirReferences) {
  for (const char* name : {"gemma3", "gemma4", "gemma4-moe", "gemma4-published", "phi3-longrope",
                           "gpt-neox", "gpt-oss"}) {
    const Report report =
        verify(folder_of(name), {.threads = 1, .reference = folder_of(name) + "/reference.json"});
    for (const Check& check : report.checks())
      EXPECT_TRUE(check.state == CheckState::kOk || check.state == CheckState::kSkipped ||
                  check.name == "tokenizer")
          << name << " " << check.name << ": " << check.found;
  }
}

TEST(VerifyReference, RecordMatchesOnlyTheRecordedModel) {
  const TinyModel tiny;
  const TemporaryFolder folder;
  const std::string path = folder.file("reference.json");
  EXPECT_TRUE(verify(tiny.path(), {.threads = 1, .record = path}).sound());
  const Report again = verify(tiny.path(), {.threads = 1, .reference = path});
  EXPECT_TRUE(again.sound());
  const auto check = std::ranges::find(again.checks(), "greedy text", &Check::name);
  ASSERT_NE(check, again.checks().end());
  EXPECT_EQ(check->state, CheckState::kOk);
  const Report other = verify(folder_of("qwen3"), {.threads = 1, .reference = path});
  EXPECT_FALSE(other.sound());
}

// Records the logits of `run` as if they were those of `ids`, aligned at the end.
std::vector<ReferenceSet> recorded(const TinyModel& tiny, std::vector<int32_t> run,
                                   std::vector<int32_t> ids) {
  Model model(tiny.path(), {.threads = 1, .exact = true});
  test::OneSequence session(model);
  ReferenceText text{ids, {}, {}};
  const auto shift = static_cast<int32_t>(std::ssize(run) - std::ssize(ids));
  session.feed_all(run, [&](int32_t position, std::span<const float> logits) {
    if (position < shift) return;
    ReferenceRow row{.position = position - shift};
    for (int32_t id = 0; id < std::ssize(logits); ++id)
      row.values.emplace_back(id, logits[static_cast<size_t>(id)]);
    text.rows.push_back(std::move(row));
  });
  return {{"", {text}}};
}

std::string defect(const TinyModel& tiny, std::span<const ReferenceSet> sets) {
  const Model model(tiny.path(), {.threads = 1, .exact = true});
  const Diagnosis diagnosis = diagnose(model, sets, 1e-4);
  if (!diagnosis.explained || diagnosis.changes.size() != 1) return "";
  return diagnosis.changes[0].defect;
}

TEST(VerifyReference, DetectsMissingAndDoubleBos) {
  const TinyModel tiny;
  constexpr int32_t kBos = TinyModel::kBos;
  EXPECT_EQ(defect(tiny, recorded(tiny, {kBos, 5, 80, 7, 9}, {5, 80, 7, 9})), "missing BOS");
  EXPECT_EQ(defect(tiny, recorded(tiny, {kBos, kBos, 5, 80, 7}, {kBos, 5, 80, 7})), "double BOS");
}

TEST(VerifyReference, FindsNumbersOutsideTheTables) {
  const TinyModel tiny;
  Model model(tiny.path(), {.threads = 1, .exact = true});
  Model other(model, [](ModelFile&, TransformerConfig& c) { c.attention.scale = 0.1234F; });
  test::OneSequence session(other);
  const std::vector<int32_t> ids{9, 200, 3, 77, 31, 6};
  ReferenceText text{ids, {}, {}};
  session.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
    text.rows.push_back({.position = position, .values = {{5, logits[5]}, {200, logits[200]}}});
  });
  const std::vector<ReferenceSet> sets{{"", {text}}};
  const Diagnosis diagnosis = diagnose(model, sets, 1e-4);
  ASSERT_TRUE(diagnosis.explained) << diagnosis.after;
  EXPECT_EQ(diagnosis.changes[0].defect, "wrong attention scale");
  EXPECT_NEAR(diagnosis.changes[0].value, 0.1234, 1e-3);
}

std::vector<ReferenceSet> parsed(std::string_view text) {
  return parse_reference(std::as_bytes(std::span(text)), "r.json");
}

TEST(VerifyReference, ReadsAllJsonFormats) {
  const auto sets = parsed(
      R"({"f32": {"cases": [{"input_ids": [4, 5], "first8": [[1.5, 2]], "lse": [3, 4],
          "argmax": [7, 8], "greedy": [6]}]},
          "cases": [{"ids": [1], "top5": [[9, 0.5]], "lse": 2},
                    {"ids": [1, 2], "positions": [{"position": 0, "logsumexp": 1,
                     "top_logprobs": [[3, -0.5]]}], "greedy": {"ids": [4]}}]})");
  ASSERT_EQ(sets.size(), 2U);
  const ReferenceText& top = sets[0].texts[0];
  EXPECT_EQ(top.rows[0].values[0], std::pair(9, 0.5F));
  EXPECT_EQ(top.rows[0].logsumexp, 2.0F);
  EXPECT_TRUE(sets[0].texts[1].rows[0].logprobs);
  EXPECT_EQ(sets[0].texts[1].greedy, std::vector<int32_t>{4});
  const ReferenceText& first = sets[1].texts[0];
  EXPECT_EQ(sets[1].name, "f32");
  ASSERT_EQ(first.rows.size(), 2U);
  // A single row of logits for two ids belongs to the last id.
  EXPECT_TRUE(first.rows[0].values.empty());
  EXPECT_EQ(first.rows[1].values[1], std::pair(1, 2.0F));
  EXPECT_EQ(first.rows[1].best, 8);
}

TEST(VerifyReference, ReadsSafetensors) {
  const TemporaryFolder folder;
  const int64_t ids[] = {3, 4, 5};
  const float logits[] = {1, 2, 3, 4};
  const StoredTensor tensors[] = {
      {"a.input_ids", StoredType::kI64, {3}, std::as_bytes(std::span(ids))},
      {"a.logits", StoredType::kF32, {2, 2}, std::as_bytes(std::span(logits))}};
  test::write_safetensors(folder.file("r.safetensors"), tensors);
  const auto sets = read_reference(folder.file("r.safetensors"));
  const ReferenceText& text = sets.at(0).texts.at(0);
  EXPECT_EQ(text.ids, (std::vector<int32_t>{3, 4, 5}));
  ASSERT_EQ(text.rows.size(), 2U);
  EXPECT_EQ(text.rows[0].position, 1);
  EXPECT_EQ(text.rows[1].values[0], std::pair(0, 3.0F));
}

TEST(VerifyReference, RejectsInvalidReferencesWithTheReason) {
  for (const auto& [text, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "r.json"},
           {"[1]", "cases"},
           {R"({"cases": [{"input_ids": []}]})", "ids"},
           {R"({"cases": [{"input_ids": [-1], "lse": 1}]})", "token id"},
           {R"({"cases": [{"input_ids": [1], "first8": [[1], [2]]}]})", "2 rows for 1"},
           {R"({"cases": [{"input_ids": [1], "lse": [1, 2]}]})", "2 items for 1"},
           {R"({"cases": [{"input_ids": [1], "positions": [{"position": 1}]}]})", "position 1"},
           {R"({"cases": [{"input_ids": [1], "top5": [[1]]}]})", "[id, value]"},
           {R"({"cases": [{"input_ids": [1]}]})", "neither"}}) {
    try {
      parsed(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace veery
