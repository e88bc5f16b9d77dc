// Tests that out-of-range numbers in configurations are named when they are read, and that numbers
// of real models are accepted.
#include "model/number_ranges.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "import/folder/folder_config.h"
#include "import/read_config.h"
#include "model/config.h"

namespace veery {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  const char* architecture;  ///< in GGUF, or the model_type of a folder
  const char* key;
  std::vector<double> right, wrong;
  std::vector<std::pair<const char*, MetaValue>> beside = {};  ///< GGUF: additional keys
};

// Sizes are stored as integers.
bool is_size(const Case& c) { return std::string_view(c.key).ends_with("_count"); }

ModelFile gguf_with(const Case& c, double value) {
  ModelFile file;
  file.tensors.push_back({"token_embd.weight", DType::kF32, {61, 32}, {}});
  const std::string prefix = c.architecture + std::string(".");
  file.metadata.set("general.architecture", std::string(c.architecture));
  for (const auto& [key, size] :
       std::initializer_list<std::pair<const char*, uint64_t>>{{"block_count", 2},
                                                               {"context_length", 64},
                                                               {"embedding_length", 32},
                                                               {"feed_forward_length", 48},
                                                               {"attention.head_count", 2}})
    file.metadata.set(prefix + key, size);
  file.metadata.set(prefix + "attention.layer_norm_rms_epsilon", 1e-5);
  for (const auto& [key, other] : c.beside) file.metadata.set(prefix + key, other);
  if (is_size(c))
    file.metadata.set(prefix + c.key, static_cast<int64_t>(value));
  else
    file.metadata.set(prefix + c.key, value);
  return file;
}

void expect_named(const ModelFile& file, const Case& c, double value) {
  SCOPED_TRACE(fmt::format("{}: {} {}", c.architecture, c.key, value));
  try {
    read_config(file);
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kFormat) << message;
    EXPECT_NE(message.find(std::string(c.key) + " is "), std::string::npos) << message;
    EXPECT_NE(message.find(", expected "), std::string::npos) << message;
  }
}

const std::vector<std::pair<const char*, MetaValue>> kLinear = {
    {"rope.scaling.type", std::string("linear")}};
const std::vector<std::pair<const char*, MetaValue>> kYarn = {
    {"rope.scaling.type", std::string("yarn")}, {"rope.scaling.factor", 4.0}};
const std::vector<std::pair<const char*, MetaValue>> kMixture = {
    {"expert_count", uint64_t{8}}, {"expert_used_count", uint64_t{2}}};

TEST(NumbersOfGguf, FactorWithoutTypeIsLinear) {
  for (const char* key : {"rope.scale_linear", "rope.scaling.factor"}) {
    const TransformerConfig c = read_config(gguf_with({"llama", key, {}, {}}, 4));
    EXPECT_EQ(c.positions.rope.scaling, RopeScaling::kLinear) << key;
    EXPECT_EQ(c.positions.rope.factor, 4) << key;
    const TransformerConfig same = read_config(gguf_with({"llama", key, {}, {}}, 1));
    EXPECT_EQ(same.positions.rope.scaling, RopeScaling::kNone) << key;
  }
  const Case both{"llama", "rope.scale_linear", {}, {}, {{"rope.scaling.factor", 8.0}}};
  EXPECT_EQ(read_config(gguf_with(both, 4)).positions.rope.factor, 8);
}

TEST(NumbersOfGguf, ErrorsNameNumbersOutOfRange) {
  const double tiny = 1e-45, huge = 3e38;
  const std::vector<Case> cases{
      {"llama", "attention.layer_norm_rms_epsilon", {1e-5, 1e-12, 1e-8}, {-1, 2, huge}},
      {"gpt2", "attention.layer_norm_epsilon", {1e-5}, {-1e-5, huge}},
      {"llama", "rope.freq_base", {1e4, 5e5, 2804339835.0}, {0, -1e4, tiny, 0.5, huge}},
      {"gemma3", "rope.freq_base_swa", {1e4}, {0, -1, huge}},
      {"llama", "rope.scaling.factor", {2, 4, 32}, {0, -1, tiny, huge}, kLinear},
      {"llama", "rope.scaling.factor", {1, 40}, {0, -1}, kYarn},
      {"llama", "rope.scale_linear", {1, 4}, {0, -1, tiny, huge}},
      {"llama", "rope.scaling.original_context_length", {32, 4096}, {0, -8, 1e9}, kYarn},
      {"llama", "rope.scaling.attn_factor", {1, 0.88, 1.19}, {0, -1, huge, tiny}, kYarn},
      {"phi3", "rope.scaling.attn_factor", {1.190238}, {0, -1, huge}},
      {"llama", "rope.scaling.yarn_attn_factor", {1}, {0, -1}, kYarn},
      {"llama", "rope.scaling.yarn_beta_fast", {32}, {0, -1, huge, 0.5}, kYarn},
      {"llama", "rope.scaling.yarn_beta_slow", {1}, {0, -1}, kYarn},
      {"llama", "rope.scaling.yarn_log_multiplier", {0, 0.1, 0.0707}, {-1, huge}, kYarn},
      {"llama", "attention.temperature_scale", {0, 0.1}, {-0.1, huge}, kYarn},
      {"llama", "attention.scale", {0.0078125, 0.125}, {0, -1, huge}},
      {"llama", "embedding_scale", {12, 1}, {0, -12, huge}},
      {"granite", "residual_scale", {0.22, 0.246}, {0, -0.2, huge}},
      {"granite", "logit_scale", {8, 16, 6}, {0, -8, tiny}},
      {"command-r", "logit_scale", {0.0625}, {0, -1, huge}},
      {"minicpm", "logit_scale", {9}, {0, -1}},
      {"gemma2", "attn_logit_softcapping", {0, 50}, {-50, 1e-9, huge}},
      {"gemma2", "final_logit_softcapping", {0, 30}, {-30, huge}},
      {"mpt", "attention.max_alibi_bias", {8}, {-8, huge}},
      {"llama", "block_count", {1, 126}, {0, -1, 1e5}},
      {"llama", "expert_count", {0, 8}, {-1, 9e5}, {{"expert_used_count", uint64_t{2}}}},
      {"llama", "expert_used_count", {1, 8}, {0, 9, -1}, {{"expert_count", uint64_t{8}}}},
      {"llama", "expert_weights_scale", {0, 2.5}, {-1, huge}, kMixture},
      {"phimoe", "expert_jitter", {0.01}, {-0.01, 2}, kMixture},
  };
  for (const Case& c : cases) {
    for (const double value : c.right) {
      SCOPED_TRACE(fmt::format("{}: {} {}", c.architecture, c.key, value));
      EXPECT_NO_THROW(read_config(gguf_with(c, value)));
    }
    for (const double value : c.wrong) expect_named(gguf_with(c, value), c, value);
    if (!is_size(c))
      for (const double value : {kNaN, kInfinity, -kInfinity})
        expect_named(gguf_with(c, value), c, value);
  }
}

// MPT models with learned positions have 0.
TEST(NumbersOfGguf, MptWithoutAlibiIsRefused) {
  try {
    read_config(gguf_with({"mpt", "attention.max_alibi_bias", {}, {}}, 0));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("mpt.attention.max_alibi_bias is 0"),
              std::string::npos)
        << error.what();
  }
}

TEST(NumbersOfGguf, ExpertWeightsOfMiniCpmAreNormalised) {
  const Case experts{"minicpm", "expert_weights_scale", {}, {}, kMixture};
  EXPECT_TRUE(read_config(gguf_with(experts, 1)).experts.route.normalise);
  Case other = experts;
  other.beside.push_back({"expert_weights_norm", false});
  EXPECT_FALSE(read_config(gguf_with(other, 1)).experts.route.normalise);
}

TEST(NumbersOfGguf, ErrorsNameInvalidExpertGroups) {
  Case c{"deepseek2", "expert_group_used_count", {}, {}, kMixture};
  c.beside.emplace_back("expert_group_count", uint64_t{4});
  for (const auto& [key, size] : {std::pair("attention.kv_lora_rank", 16),
                                  {"rope.dimension_count", 8},
                                  {"attention.key_length", 16},
                                  {"attention.value_length", 16}})
    c.beside.emplace_back(key, static_cast<uint64_t>(size));
  ModelFile file = gguf_with(c, 2);
  const auto set = [&](const char* key, uint64_t value) {
    file.metadata.set(std::string("deepseek2.") + key, value);
  };
  set("expert_group_used_count", 2);
  EXPECT_NO_THROW(read_config(file));
  set("expert_group_used_count", 5);
  expect_named(file, {"deepseek2", "expert_group_used_count", {}, {}}, 5);
  set("expert_group_used_count", 2);
  set("expert_group_count", 3);
  expect_named(file, {"deepseek2", "expert_group_count", {}, {}}, 3);
}

// Returns a folder; `more` is a part of config.json.
ModelFile folder_with(const std::string& type, const std::string& more) {
  ModelFile file;
  file.path = "folder";
  file.container = Container::kFolder;
  file.tensors.push_back({"token_embd.weight", DType::kF32, {61, 32}, {}});
  Json config = parse_json(R"({"hidden_size":32,"intermediate_size":44,"num_hidden_layers":6,)"
                           R"("num_attention_heads":4,"num_key_value_heads":4,)"
                           R"("max_position_embeddings":128,"rms_norm_eps":1e-6})",
                           "config");
  config.update(parse_json("{" + more + "}", "config"));
  config["model_type"] = type;
  file.config = std::make_shared<Json>(std::move(config));
  return file;
}

struct FolderCase {
  const char* type;
  const char* key;
  const char* before;  ///< JSON text before the value
  std::vector<const char*> right, wrong;
  const char* after = "";
};

TEST(NumbersOfFolders, ErrorsNameNumbersOutOfRange) {
  const char* yarn = R"("rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":32,"KEY":)";
  const char* llama3 = R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)"
                       R"("high_freq_factor":4,"original_max_position_embeddings":32,"KEY":)";
  const char* linear = R"("rope_scaling":{"type":"linear","KEY":)";
  const char* plain = R"("KEY":)";
  const char* granite = "granite";
  const std::vector<FolderCase> cases{
      {"llama", "rms_norm_eps", plain, {"1e-5", "1e-12"}, {"-1", "2", "1e300", "null", "\"x\""}},
      {"gpt_neox", "layer_norm_eps", R"("rms_norm_eps":0.1,"KEY":)", {"1e-5"}, {}},
      {"llama", "rope_theta", plain, {"500000.0", "1e4"}, {"0", "-1", "1e-45", "1e300", "null"}},
      {"gpt_neox", "rotary_emb_base", plain, {"10000"}, {"0", "-1"}},
      {"gemma3_text", "rope_local_base_freq", plain, {"10000"}, {"0", "-1"}},
      {"llama", "factor", linear, {"2", "8.0"}, {"0", "-1", "1e-45", "1e38", "null", "[]"}, "}"},
      {"llama", "factor", yarn, {"4", "null"}, {"0", "-1", "1e38"}, "}"},
      {"llama", "beta_fast", yarn, {"32", "1"}, {"0", "-1", "0.5", "1e9"}, "}"},
      {"llama", "beta_slow", yarn, {"1"}, {"0", "-1"}, "}"},
      {"llama", "attention_factor", yarn, {"1", "1.34"}, {"0", "-1", "3e38"}, "}"},
      {"llama", "mscale", yarn, {"0.707", "0", "1.0"}, {"-1", "1e9"}, "}"},
      {"llama", "mscale_all_dim", yarn, {"0.707", "0"}, {"-1", "1e9"}, "}"},
      {"llama",
       "original_max_position_embeddings",
       yarn,
       {"16", "4096"},
       {"0", "-4096", "1e30"},
       "}"},
      {"llama", "low_freq_factor", llama3, {"1", "1.0"}, {"0", "-1"}, "}"},
      {"llama", "high_freq_factor", llama3, {"4"}, {"0", "-1", "1e30"}, "}"},
      {"llama", "num_hidden_layers", plain, {"1", "126"}, {"0", "-1", "100000", "1.5"}},
      {"llama", "head_dim", plain, {"8", "16"}, {"0", "-8"}},
      {"glm", "partial_rotary_factor", plain, {"0.5", "1"}, {"-0.5", "1.5"}},
      {"mistral", "sliding_window", plain, {"4096", "null"}, {"-1", "1e30", "0.5"}},
      {granite, "embedding_multiplier", plain, {"12.0"}, {"0", "-12", "1e30"}},
      {granite, "residual_multiplier", plain, {"0.22"}, {"0", "-0.22"}},
      {granite, "attention_multiplier", plain, {"0.0078125", "0.015625"}, {"0", "-1", "1e30"}},
      {granite, "logits_scaling", plain, {"8.0", "16"}, {"0", "-8", "1e-30"}},
      {"cohere", "logit_scale", plain, {"0.0625", "0.8333"}, {"0", "-1", "1e30"}},
      {"gemma2", "query_pre_attn_scalar", plain, {"256", "144"}, {"0", "-256"}},
      {"gemma2", "attn_logit_softcapping", plain, {"50.0", "null", "0"}, {"-50", "1e30"}},
      {"gemma2", "final_logit_softcapping", plain, {"30.0", "null", "0"}, {"-30"}},
      {"minicpm", "scale_emb", plain, {"12"}, {"0", "-12"}},
      {"minicpm", "scale_depth", plain, {"1.4"}, {"0", "-1.4"}},
      {"minicpm", "dim_model_base", plain, {"256"}, {"0", "-256"}},
      {"mpt", "alibi_bias_max", R"("attn_config":{"KEY":)", {"8"}, {"0", "-8"}, "}"},
      {"mixtral", "num_local_experts", plain, {"8"}, {"-1", "1e6"}},
      {"mixtral", "num_experts_per_tok", plain, {"1", "8"}, {"0", "9"}},
      {"deepseek_v3", "n_group", plain, {"8", "4"}, {"0", "7", "300"}},
      {"deepseek_v3", "topk_group", plain, {"4"}, {"0", "9"}},
      {"deepseek_v3", "routed_scaling_factor", plain, {"2.5", "16.0", "1.0"}, {"0", "-1"}},
      {"gpt_oss", "swiglu_limit", plain, {"7.0"}, {"-7", "1e30"}},
      {"phimoe", "router_jitter_noise", plain, {"0.01", "0.0"}, {"-1", "2"}},
  };
  for (const FolderCase& c : cases) {
    const auto file = [&](const char* value) {
      std::string text = c.before;
      text.replace(text.find("KEY"), 3, c.key);
      return folder_with(c.type, text + value + c.after);
    };
    for (const char* value : c.right) {
      SCOPED_TRACE(fmt::format("{}: {} {}", c.type, c.key, value));
      EXPECT_NO_THROW(read_config(file(value)));
    }
    for (const char* value : c.wrong) {
      SCOPED_TRACE(fmt::format("{}: {} {}", c.type, c.key, value));
      try {
        read_config(file(value));
        ADD_FAILURE() << "it was accepted";
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::kFormat) << message;
        EXPECT_NE(message.find(c.key), std::string::npos) << message;
        EXPECT_NE(message.find("folder/config.json"), std::string::npos) << message;
      }
    }
  }
}

TEST(NumbersOfFolders, ErrorsNameLongropeDivisorsWithTheirIndex) {
  const auto factors = [](const std::string& longer) {
    return folder_rope_factors(folder_with(
        "phi3", R"("rope_scaling":{"type":"longrope","short_factor":[1,1,1,1],"long_factor":)" +
                    longer + "}"));
  };
  EXPECT_EQ(factors("[1,2,3,64.5]").longer, (std::vector<float>{1, 2, 3, 64.5F}));
  for (const char* wrong : {"[1,2,0,4]", "[1,2,-3,4]", "[1,2,1e30,4]", "[1,2,1e-30,4]",
                            "[1,2,\"x\",4]", "[1,2,null,4]"})
    try {
      factors(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("long_factor[2] is "), std::string::npos)
          << error.what();
    }
}

TEST(NumberRange, DescribesItself) {
  EXPECT_EQ((NumberRange{0, 1}.text()), "0 to 1");
  EXPECT_EQ((NumberRange{0.01, 1e6, true}.text()), "0, or 0.01 to 1000000");
  EXPECT_EQ(range_of_number("no such key").text(), "a finite number");
  EXPECT_EQ(number_digits(static_cast<double>(0.1F)), "0.1");
  EXPECT_EQ(number_digits(0.1), "0.1");
}

}  // namespace
}  // namespace veery
