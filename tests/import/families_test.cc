// Tests of config.json of model families of 2025 and 2026: lists, patterns, defaults of their
// classes, and errors that name the key.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "import/read_config.h"
#include "import/recurrent_tensors.h"
#include "import/xlstm_tensors.h"

namespace veery {
namespace {

ModelFile folder_with(const std::string& config) {
  ModelFile file;
  file.path = "folder";
  file.container = Container::kFolder;
  file.tensors.push_back({"token_embd.weight", DType::kF32, {61, 36}, {}});
  file.config = std::make_shared<Json>(parse_json(config, "test"));
  return file;
}

TransformerConfig read(const std::string& type, const std::string& more) {
  return read_config(folder_with(
      R"({"hidden_size":36,"intermediate_size":44,"num_attention_heads":6,"num_key_value_heads":2,)"
      R"("model_type":")" +
      type + R"(","num_hidden_layers":6)" + more + "}"));
}

std::string error_of(const std::string& type, const std::string& more) {
  try {
    read(type, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

using Flags = std::vector<bool>;

TEST(FamilyConfig, WindowsDefaultToThoseOfTheClass) {
  EXPECT_EQ(read("afmoe", R"(,"global_attn_every_n_layers":3)").attention.local,
            local_pattern(6, 3));
  EXPECT_EQ(read("granite_swa", "").attention.local, (Flags{false, true, true, true, false, true}));
  EXPECT_EQ(read("cohere2_moe", R"(,"first_k_dense_replace":1,"sliding_window_pattern":2)")
                .attention.local,
            (Flags{false, true, false, true, false, true}));
  const TransformerConfig lfm3 = read("lfm3", "");
  EXPECT_EQ(lfm3.recurrent.layers, (Flags{true, true, false, true, false, true}));
  EXPECT_EQ(lfm3.attention.local, (Flags{false, false, false, false, true, false}));
}

// Some published folders contain incomplete MTP layers.
TEST(FamilyTensors, DropsIncompleteMtpLayers) {
  ModelFile file = folder_with(
      R"({"hidden_size":36,"intermediate_size":44,"num_attention_heads":6,"head_dim":16,)"
      R"("num_key_value_heads":2,"model_type":"qwen3_5_text","num_hidden_layers":4})");
  file.tensors.push_back({"blk.3.attn_norm.weight", DType::kF32, {36}, {}});
  file.tensors.push_back({"blk.4.nextn.eh_proj.weight", DType::kF32, {36, 72}, {}});
  file.tensors.push_back({"blk.4.attn_q.weight", DType::kF32, {8, 36}, {}});
  file.tensors.push_back({"blk.5.attn_norm.weight", DType::kF32, {36}, {}});
  ASSERT_EQ(read_config(file).mtp_layers, 1);
  arrange_recurrent(file);
  EXPECT_EQ(file.find("blk.4.attn_q.weight"), nullptr);
  EXPECT_EQ(read_config(file).mtp_layers, 0);
  EXPECT_NE(file.find("blk.3.attn_norm.weight"), nullptr);
  EXPECT_NE(file.find("blk.5.attn_norm.weight"), nullptr);  // rejected later by its number
}

TEST(FamilyConfig, DenseLayersOfCohereUseRopeUnlessTheyHaveAPeriod) {
  const std::string dense = R"(,"first_k_dense_replace":2,"sliding_window_pattern":2)";
  EXPECT_EQ(read("cohere2_moe", dense).positions.unrotated,
            (Flags{false, false, false, true, false, true}));
  EXPECT_EQ(read("cohere2_moe", dense + R"(,"prefix_dense_sliding_window_pattern":2)")
                .positions.unrotated,
            (Flags{false, true, false, true, false, true}));
  EXPECT_EQ(read("cohere2_moe", R"(,"layer_norm_eps":0.5)").norms.kind, Norm::kLayer);
  EXPECT_EQ(read("cohere2_moe", R"(,"layer_norm_eps":0.5,"rms_norm_eps":0.25)").norms.kind,
            Norm::kRms);
}

TEST(FamilyConfig, PerLayerRopeBasesAreReducedToTwoIfPossible) {
  const auto bases = [](const char* list) {
    return read("granite_swa", std::string(R"(,"layer_types":["full_attention","sliding_attention",
        "sliding_attention","full_attention","sliding_attention","sliding_attention"],
        "layer_rope_theta":)") + list);
  };
  const TransformerConfig two = bases("[0,100,100,1000,100,0]");
  EXPECT_EQ(two.positions.rope.theta, 1000);
  EXPECT_EQ(two.positions.local_rope.theta, 100);
  EXPECT_TRUE(two.positions.thetas.empty());
  EXPECT_EQ(two.positions.unrotated, (Flags{true, false, false, false, false, true}));
  EXPECT_EQ(bases("[0,100,200,1000,100,100]").positions.thetas,
            (std::vector<double>{0, 100, 200, 1000, 100, 100}));
}

TEST(FamilyConfig, LayerLettersOfNemotronMatchLayerNames) {
  const std::string sizes = R"(,"mamba_num_heads":4,"mamba_head_dim":6,"n_groups":2)";
  const TransformerConfig letters =
      read("nemotron_h", sizes + R"(,"hybrid_override_pattern":"M-*EM")");
  EXPECT_EQ(letters.layers, 5);
  EXPECT_EQ(letters.recurrent.layers, (Flags{true, false, false, false, true}));
  EXPECT_EQ(letters.feed_forward.alone, (Flags{false, true, false, true, false}));
  EXPECT_EQ(letters.experts.count, 8);
  const TransformerConfig names = read(
      "nemotron_h", sizes + R"(,"layers_block_type":["linear_attention","mlp","full_attention"])");
  EXPECT_EQ(names.recurrent.layers, (Flags{true, false, false}));
  EXPECT_EQ(names.experts.count, 0);  // no layer has experts
}

TEST(FamilyConfig, LingReadsTheRotatedPartFromEitherKey) {
  const std::string sizes = R"(,"head_dim":16,"num_experts":8,"num_experts_per_tok":2)"
                            R"(,"n_group":4,"topk_group":2,"moe_intermediate_size":9)";
  EXPECT_EQ(read("bailing_moe", sizes).positions.rope.dims, 16);
  EXPECT_EQ(read("bailing_moe", sizes + R"(,"partial_rotary_factor":0.5)").positions.rope.dims, 8);
  EXPECT_EQ(read("bailing_moe_v2", sizes + R"(,"rotary_dim":4)").positions.rope.dims, 4);
  const TransformerConfig c = read(
      "bailing_moe", sizes + R"(,"num_shared_experts":2,"moe_shared_expert_intermediate_size":9)");
  EXPECT_EQ(c.architecture, "bailingmoe2");
  EXPECT_EQ(c.experts.shared_hidden, 18);
  EXPECT_EQ(c.experts.route.group_best, 2);
  EXPECT_TRUE(c.experts.route.sigmoid);
}

TEST(FamilyConfig, LayersOfGlmReuseSelectedPositions) {
  EXPECT_EQ(read("glm_moe_dsa", "").index.layers, Flags(6, true));
  EXPECT_EQ(read("glm_moe_dsa", R"(,"index_topk_freq":2)").index.layers,
            (Flags{true, true, false, true, false, true}));
  EXPECT_EQ(read("glm_moe_dsa", R"(,"index_topk_freq":4,"index_skip_topk_offset":3)").index.layers,
            (Flags{true, true, true, false, false, false}));
  EXPECT_EQ(read("glm_moe_dsa", R"(,"index_topk_pattern":"FSSFSF")").index.layers,
            (Flags{true, false, false, true, false, true}));
  EXPECT_TRUE(read("glm_moe_dsa", "").index.interleaved);
  EXPECT_FALSE(read("deepseek_v32", "").index.interleaved);
  EXPECT_EQ(read("deepseek_v32", "").index.heads, 64);
}

TEST(FamilyConfig, JambaAppliesPeriodAndOffset) {
  const TransformerConfig c = read("jamba", R"(,"attn_layer_period":3,"attn_layer_offset":1)");
  EXPECT_EQ(c.recurrent.layers, (Flags{true, false, true, true, false, true}));
  EXPECT_EQ(c.recurrent.rank, 3);  // the width / 16, rounded up
  EXPECT_EQ(c.recurrent.values(), 72);
  EXPECT_EQ(read("jamba", R"(,"num_experts":1)").experts.count, 0);
}

TEST(FamilyConfig, ErrorsNameTheKey) {
  struct Case {
    const char *type, *more, *named;
  };
  const Case cases[] = {
      {"granite_swa", R"(,"layer_rope_theta":[1,2])", "layer_rope_theta has 2 entries"},
      {"granite_swa", R"(,"layer_rope_theta":[-5,1,1,1,1,1])", "layer_rope_theta has -5"},
      {"nemotron_h", R"(,"hybrid_override_pattern":"MX")", "hybrid_override_pattern has 'X'"},
      {"nemotron_h", "", "missing hybrid_override_pattern or layers_block_type"},
      {"nemotron_h", R"(,"layers_block_type":["conv"])", "layers_block_type has 'conv'"},
      {"falcon_h1", R"(,"ssm_multipliers":[1,2])", "ssm_multipliers is [1,2], expected 5 numbers"},
      {"falcon_h1", R"(,"mlp_multipliers":[1,0])", "mlp_multipliers"},
      {"falcon_h1", R"(,"key_multiplier":0)", "key_multiplier"},
      {"jamba", R"(,"attn_layer_period":2,"attn_layer_offset":2)", "attn_layer_offset is 2"},
      {"jamba", R"(,"mamba_expand":10000000)", "mamba_expand makes"},
      {"cohere2_moe", R"(,"shared_expert_combination_strategy":"max")",
       "is 'max', expected average"},
      {"cohere2_moe", R"(,"mlp_layer_types":["dense"])", "mlp_layer_types has 1 entries"},
      {"cohere2_moe", R"(,"expert_selection_fn":"relu")", "expert_selection_fn is 'relu'"},
      {"lfm3", R"(,"layer_types":["conv"])", "layer_types has 1 entries"},
      {"bailing_moe", R"(,"norm_head":true)", "norm_head is true, expected false"},
      {"glm_moe_dsa", R"(,"index_topk_pattern":"SFFFFF")", "layer 0 has no indexer"},
      {"glm_moe_dsa", R"(,"index_topk_pattern":"FFXFFF")", "index_topk_pattern has"},
      {"glm_moe_dsa", R"(,"indexer_types":["full"])", "indexer_types has 1 entries"},
      {"glm_moe_dsa", R"(,"indexer_types":[1,2,3,4,5,6])", "indexer_types has 1, expected full"},
      {"deepseek_v32", R"(,"index_head_dim":32)",
       "qk_rope_head_dim is 64, expected at most the indexer's head size, 32"},
      {"bailing_moe", R"(,"architectures":["BailingMoeForCausalLM"])", "bailing_moe_v1"},
      {"rwkv7", R"(,"head_dim":7)", "head_dim is 7, expected a divisor of hidden_size, 36"},
      {"rwkv7", R"(,"head_dim":6,"attn":{"layers":[1]})", "attn is given"},
      {"rwkv7", R"(,"head_dim":6,"value_dim":[72])", "value_dim has 72"},
      {"rwkv7", R"(,"head_dim":6,"norm_first":false)", "norm_first is false"},
      {"rwkv7", R"(,"head_dim":6)", "time_mix_w1.weight"}};
  for (const Case& c : cases)
    EXPECT_NE(error_of(c.type, c.more).find(c.named), std::string::npos)
        << c.type << c.more << ": " << error_of(c.type, c.more);
}

// Settings of the package `xlstm` that require other code, and tensors of wrong shape.
TEST(FamilyConfig, RejectsUnsupportedXlstmSettings) {
  const auto expect = [](const std::string& more, const char* part) {
    const std::string error = error_of("xlstm_lm", more);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(R"(,"bias":true)", "bias is true, expected false");
  expect(R"(,"add_post_blocks_norm":false)", "add_post_blocks_norm is false, expected true");
  expect(R"(,"slstm_block":{"feedforward":{"act_fn":"relu"}})",
         "act_fn is \"relu\", expected gelu");
  expect(R"(,"slstm_block":{"feedforward":{},"slstm":{"function":"lstm"}})", "expected slstm");
  expect("", "blk.0.heads_q.weight");
}

TEST(XlstmTensors, ErrorsNameTensorsOfWrongShape) {
  const auto error = [](const char* name, std::vector<int64_t> shape) -> std::string {
    ModelFile file = folder_with("{}");
    file.tensors.push_back({std::string("blk.1.") + name, DType::kF32, std::move(shape), {}});
    try {
      arrange_xlstm_blocks(file);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  for (const auto& [name, shape] :
       std::initializer_list<std::pair<const char*, std::vector<int64_t>>>{
           {"slstm_r.weight", {2, 10, 12}},
           {"slstm_r.weight", {2, 0, 0}},
           {"slstm_r.weight", {96, 12}},
           {"cell_conv1d.weight", {4, 24}},
           {"heads_q.weight", {6, 4, 5}},
           {"ffn_up.weight", {7, 24}}}) {
    const std::string found = error(name, shape);
    EXPECT_NE(found.find(std::string("tensor blk.1.") + name), std::string::npos) << found;
    EXPECT_NE(found.find("expected"), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace veery
