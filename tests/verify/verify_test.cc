// Tests of models with one defect each, which verify() must name, and of sound models.
#include "verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "support/tiny_model.h"
#include "support/write_model.h"

namespace veery {
namespace {

using test::TinyModel;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m.role }}: {{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|user|>assistant: {% endif %}";

std::string text_of(const Report& report) {
  std::string text;
  for (const Check& check : report.checks())
    text += fmt::format("{} {}: {} ({}; {})\n", name(check.state), check.name, check.found,
                        check.expected, check.hint);
  return text;
}

const Check* find(const Report& report, std::string_view name) {
  const auto found = std::ranges::find(report.checks(), name, &Check::name);
  return found == report.checks().end() ? nullptr : &*found;
}

TEST(Verify, SoundModelPassesAllChecks) {
  const TinyModel tiny(kTemplate, false);
  const Report report = verify(tiny.path(), {.threads = 2});
  for (const Check& check : report.checks()) {
    // The random model does not know English.
    const bool english = check.name == "plain English";
    EXPECT_EQ(check.state, english ? CheckState::kWarn : CheckState::kOk) << text_of(report);
  }
  for (const char* name : {"tensors", "finite weights", "round trip", "special tokens",
                           "single BOS", "end of turn", "turns", "token by token", "context"})
    EXPECT_NE(find(report, name), nullptr) << name;
}

struct Parts {
  Metadata metadata;
  std::vector<TensorView> tensors;
  std::deque<std::vector<float>> values;

  TensorView& at(const std::string& name) {
    return *std::ranges::find(tensors, name, &TensorView::name);
  }
  /// Returns a modifiable copy of a tensor's values.
  std::span<float> change(const std::string& name) {
    TensorView& tensor = at(name);
    auto& copy = values.emplace_back(static_cast<size_t>(tensor.elements()));
    decode(tensor.dtype, tensor.data, copy);
    tensor.data = std::as_bytes(std::span(copy));
    return copy;
  }
};

struct Defect {
  const char* name;
  std::function<void(Parts&)> spoil;
  const char* check;
  CheckState state;
  std::vector<std::string> words;
};

Defect with_template(const char* name, std::string source, const char* check, CheckState state,
                     std::vector<std::string> words) {
  return {
      name,
      [source = std::move(source)](Parts& p) { p.metadata.set("tokenizer.chat_template", source); },
      check, state, std::move(words)};
}

std::vector<Defect> of_files() {
  const auto kFail = CheckState::kFail;
  const auto kWarn = CheckState::kWarn;
  return {
      {"MissingTensor",
       [](Parts& p) { p.at("blk.1.ffn_up.weight").name = "other.weight"; },
       "tensors",
       kFail,
       {"blk.1.ffn_up.weight", "48 x 32", "other.weight"}},
      {"TransposedTensor",
       [](Parts& p) { std::ranges::reverse(p.at("blk.0.ffn_down.weight").shape); },
       "shapes",
       kFail,
       {"blk.0.ffn_down.weight", "48 x 32", "32 x 48", "transposed"}},
      {"UnknownTensor",
       [](Parts& p) {
         p.tensors.push_back(p.at("blk.0.ffn_norm.weight"));
         p.tensors.back().name = "blk.0.gain.weight";
       },
       "unused tensors",
       kWarn,
       {"blk.0.gain.weight"}},
      {"LayerTooMany",
       [](Parts& p) { p.metadata.set("llama.block_count", uint64_t{1}); },
       "layers",
       kFail,
       {"blk.1.", "llama.block_count is 1"}},
      {"BiasInOneLayer",
       [](Parts& p) {
         p.tensors.push_back(p.at("blk.0.attn_norm.weight"));
         p.tensors.back().name = "blk.0.attn_q.bias";
       },
       "optional parts",
       kFail,
       {"no tensor 'blk.1.attn_q.bias', but 'blk.0.attn_q.bias'"}},
      {"NaN",
       [](Parts& p) {
         p.change("blk.1.attn_k.weight")[5 * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
       },
       "finite weights",
       kFail,
       {"blk.1.attn_k.weight", "1 of 1024", "row 5"}},
      {"Infinity",
       [](Parts& p) { p.change("output_norm.weight")[31] = INFINITY; },
       "finite weights",
       kFail,
       {"output_norm.weight", "1 of 32", "row 0"}},
      {"EmptyMatrix",
       [](Parts& p) { std::ranges::fill(p.change("blk.0.attn_v.weight"), 0.0F); },
       "constant weights",
       kFail,
       {"blk.0.attn_v.weight"}},
      {"LargeRow",
       [](Parts& p) {
         for (float& value : p.change("blk.0.ffn_up.weight").subspan(7 * 32, 32)) value *= 5000;
       },
       "weight magnitude",
       kWarn,
       {"blk.0.ffn_up.weight", "row 7"}},
      {"HugeMatrix",
       [](Parts& p) {
         for (float& value : p.change("blk.0.ffn_up.weight")) value *= 1e5F;
       },
       "weight magnitude",
       kWarn,
       {"blk.0.ffn_up.weight"}},
      {"NormsWithoutTheOne",
       [](Parts& p) {
         for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight",
                                  "blk.1.attn_norm.weight", "blk.1.ffn_norm.weight"})
           for (size_t i = 0; float& value : p.change(name)) value = i++ % 2 == 0 ? 0.2F : -0.2F;
       },
       "norm weights",
       kWarn,
       {"1 + w", "not had"}},
      {"NormsWithTheOneTwice",
       [](Parts& p) {
         for (TensorView& tensor : p.tensors)
           if (tensor.name.ends_with("norm.weight"))
             for (float& value : p.change(tensor.name)) value += 0.9F;
       },
       "norm weights",
       kWarn,
       {"1 + w", "twice"}},
      {"AnotherVocabulary",
       [](Parts& p) { p.metadata.set("llama.vocab_size", uint64_t{300}); },
       "vocabulary",
       kWarn,
       {"259", "300"}},
      {"BaseOfRope",
       [](Parts& p) { p.metadata.set("llama.rope.freq_base", 2.0); },
       "numbers",
       kWarn,
       {"RoPE", "2"}},
      {"NoLayers",
       [](Parts& p) { p.metadata.set("llama.block_count", uint64_t{0}); },
       "configuration",
       kFail,
       {"llama.block_count"}},
      {"UnknownArchitecture",
       [](Parts& p) { p.metadata.set("general.architecture", "mammoth"); },
       "configuration",
       kFail,
       {"mammoth"}},
  };
}

std::vector<Defect> of_texts() {
  const auto kFail = CheckState::kFail;
  const auto kWarn = CheckState::kWarn;
  const std::string whole = kTemplate;
  const std::string after = whole.substr(whole.find('}') + 2);
  return {
      with_template("BosTwice", "{{ bos_token }}" + whole, "single BOS", kFail, {"twice"}),
      with_template("SyntaxError", "{% if %}", "chat template", kFail, {"line 1"}),
      with_template("MarksThatAreNoTokens", "<|begin|>" + whole, "template tokens", kWarn,
                    {"<|begin|>"}),
      with_template("NoEndOfAnAnswer",
                    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|user|>{% endfor %}"
                    "{% if add_generation_prompt %}assistant: {% endif %}",
                    "end of turn", kWarn, {"<|user|>", "EOS"}),
      with_template("AssistantLeftOut",
                    "{% for m in messages if m.role != 'assistant' %}{{ m.content }}{% endfor %}"
                    "{% if add_generation_prompt %}assistant: {% endif %}",
                    "end of turn", kFail, {"omits"}),
      with_template("NoGenerationPrompt",
                    "{% for m in messages %}{{ m.role }}{{ m.content }}</s>{% endfor %}",
                    "generation prompt", kWarn, {"nothing"}),
      with_template("PromptThatChangesTheText", "{{ add_generation_prompt }}" + after,
                    "generation prompt", kWarn, {"before"}),
      with_template("TurnsThatChange", "{{ messages | length }}" + after, "turns", kWarn,
                    {"before"}),
      {"FewerRowsThanTokens",
       [](Parts& p) {
         for (const char* name : {"token_embd.weight", "output.weight"}) {
           p.at(name).shape[0] = 100;
           p.at(name).data = p.at(name).data.first(100 * 32 * 4);
         }
       },
       "ids",
       kFail,
       {"id"}},
  };
}

class Defective : public ::testing::TestWithParam<Defect> {};

TEST_P(Defective, DefectIsNamed) {
  const TinyModel tiny(kTemplate, false);
  const ModelFile whole = open_gguf(tiny.path());
  Parts parts{whole.metadata, whole.tensors, {}};
  GetParam().spoil(parts);
  const std::string path = tiny.path() + ".bad";
  test::write_gguf(path, parts.metadata, parts.tensors);
  const Report report = verify(path, {.threads = 1});
  std::filesystem::remove(path);
  const Check* check = find(report, GetParam().check);
  ASSERT_NE(check, nullptr) << text_of(report);
  EXPECT_EQ(check->state, GetParam().state) << text_of(report);
  EXPECT_EQ(report.sound(), GetParam().state != CheckState::kFail) << text_of(report);
  const std::string said = check->found + " | " + check->expected + " | " + check->hint;
  for (const std::string& word : GetParam().words)
    EXPECT_NE(said.find(word), std::string::npos) << word << " is not in: " << said;
}

std::string test_name(const ::testing::TestParamInfo<Defect>& at) { return at.param.name; }
INSTANTIATE_TEST_SUITE_P(Files, Defective, ::testing::ValuesIn(of_files()), test_name);
INSTANTIATE_TEST_SUITE_P(Texts, Defective, ::testing::ValuesIn(of_texts()), test_name);

// Returns the report of a model that was modified after its reference was recorded.
Report report_against_record(const std::function<void(Parts&)>& spoil) {
  const TinyModel tiny(kTemplate, false);
  const std::string record = tiny.path() + ".json", path = tiny.path() + ".bad";
  EXPECT_TRUE(verify(tiny.path(), {.threads = 1, .record = record}).sound());
  const ModelFile whole = open_gguf(tiny.path());
  Parts parts{whole.metadata, whole.tensors, {}};
  spoil(parts);
  test::write_gguf(path, parts.metadata, parts.tensors);
  Report report = verify(path, {.threads = 1, .reference = record});
  std::filesystem::remove(record);
  std::filesystem::remove(path);
  return report;
}

void exchange_tokens(Parts& parts, size_t one, size_t other) {
  const auto* tokens = parts.metadata.texts("tokenizer.ggml.tokens");
  std::vector<std::string> changed(tokens->begin(), tokens->end());
  std::swap(changed[one], changed[other]);
  parts.metadata.set_texts("tokenizer.ggml.tokens", changed);
}

CheckState state_of(const Report& report, std::string_view name) {
  const Check* check = find(report, name);
  return check == nullptr ? CheckState::kSkipped : check->state;
}

TEST(VerifyRecord, UnchangedVocabularyMatchesTheRecord) {
  const Report report = report_against_record([](Parts&) {});
  EXPECT_TRUE(report.sound()) << text_of(report);
  for (const char* name : {"reference texts", "reference vocabulary", "reference ends"})
    EXPECT_EQ(state_of(report, name), CheckState::kOk) << name << "\n" << text_of(report);
}

TEST(VerifyRecord, DetectsSwappedTokens) {
  const Report letters = report_against_record([](Parts& p) { exchange_tokens(p, 'e', 't'); });
  EXPECT_EQ(state_of(letters, "reference texts"), CheckState::kFail) << text_of(letters);
  // Bytes that never occur in UTF-8: only the tokens themselves reveal the swap.
  const Report unused = report_against_record([](Parts& p) { exchange_tokens(p, 0xF8, 0xFA); });
  EXPECT_EQ(state_of(unused, "reference texts"), CheckState::kOk) << text_of(unused);
  const Check* check = find(unused, "reference vocabulary");
  ASSERT_NE(check, nullptr) << text_of(unused);
  EXPECT_EQ(check->state, CheckState::kFail);
  EXPECT_NE(check->found.find("tokens 192 to 255"), std::string::npos) << check->found;
}

TEST(VerifyRecord, DetectsADifferentEndToken) {
  const Report report = report_against_record(
      [](Parts& p) { p.metadata.set("tokenizer.ggml.eos_token_id", uint64_t{258}); });
  const Check* check = find(report, "reference ends");
  ASSERT_NE(check, nullptr) << text_of(report);
  EXPECT_EQ(check->state, CheckState::kFail) << text_of(report);
  EXPECT_NE(check->found.find("258"), std::string::npos) << check->found;
  EXPECT_NE(check->expected.find("257"), std::string::npos) << check->expected;
}

TEST(Verify, PerplexityAboveChanceIsADefect) {
  const TinyModel tiny(kTemplate, false);
  const ModelFile whole = open_gguf(tiny.path());
  Parts parts{whole.metadata, whole.tensors, {}};
  constexpr size_t kTokens = 1100, kDim = 32;
  std::vector<std::string> tokens(parts.metadata.texts("tokenizer.ggml.tokens")->begin(),
                                  parts.metadata.texts("tokenizer.ggml.tokens")->end());
  std::vector<int64_t> types = *parts.metadata.integers("tokenizer.ggml.token_type");
  while (tokens.size() < kTokens) tokens.push_back(fmt::format("<extra_{}>", tokens.size()));
  types.resize(kTokens, 3);
  parts.metadata.set_texts("tokenizer.ggml.tokens", tokens);
  parts.metadata.set("tokenizer.ggml.token_type", types);
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    const std::span<const float> known = parts.change(name);
    auto& rows = parts.values.emplace_back(kTokens * kDim);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = known[i % known.size()];
    // Only tokens that never occur in text become probable.
    if (std::string_view(name) == "output.weight")
      for (size_t i = 0; i < known.size(); ++i) rows[i] = 0;
    parts.at(name).shape[0] = kTokens;
    parts.at(name).data = std::as_bytes(std::span(rows));
  }
  const std::string path = tiny.path() + ".bad";
  test::write_gguf(path, parts.metadata, parts.tensors);
  const Report report = verify(path, {.threads = 1});
  std::filesystem::remove(path);
  const Check* check = find(report, "plain English");
  ASSERT_NE(check, nullptr) << text_of(report);
  EXPECT_EQ(check->state, CheckState::kFail) << text_of(report);
  EXPECT_NE(check->expected.find("1100, that of chance"), std::string::npos) << check->expected;
  EXPECT_FALSE(report.sound());
}

TEST(Verify, MissingFilesThrowInsteadOfReporting) {
  EXPECT_THROW(verify("/no/such/model"), Error);
  const TinyModel tiny;
  EXPECT_THROW(verify(tiny.path(), {.threads = 1, .reference = "/no/such/reference"}), Error);
}

}  // namespace
}  // namespace veery
