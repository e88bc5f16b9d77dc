// Tests of tensor names and configurations of folders, valid and invalid.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "file/folder/safetensors.h"
#include "import/folder/folder_config.h"
#include "import/names/folder_names.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "model/config.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

using test::TemporaryFolder;

TEST(Names, MapsNamesWithEveryPrefixOfTheTextModel) {
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model.",
                             "model.text_model.", "language_model.", ""}) {
    const std::string p = prefix;
    EXPECT_EQ(our_name("llama", p + "embed_tokens.weight"), "token_embd.weight");
    EXPECT_EQ(our_name("llama", p + "norm.weight"), "output_norm.weight");
    EXPECT_EQ(our_name("qwen2", p + "layers.17.self_attn.q_proj.bias"), "blk.17.attn_q.bias");
    EXPECT_EQ(our_name("llama", p + "layers.0.post_attention_layernorm.weight"),
              "blk.0.ffn_norm.weight");
    EXPECT_EQ(our_name("gemma3", p + "layers.0.post_attention_layernorm.weight"),
              "blk.0.post_attention_norm.weight");
    EXPECT_EQ(our_name("gemma2", p + "layers.0.pre_feedforward_layernorm.weight"),
              "blk.0.ffn_norm.weight");
  }
  EXPECT_EQ(our_name("gpt2", "transformer.h.3.mlp.c_proj.weight"), "blk.3.ffn_down.weight");
  EXPECT_EQ(our_name("gpt2", "wpe.weight"), "position_embd.weight");
  EXPECT_EQ(our_name("gptneox", "gpt_neox.layers.0.post_attention_layernorm.bias"),
            "blk.0.ffn_norm.bias");
  EXPECT_EQ(our_name("olmo2", "model.layers.0.post_attention_layernorm.weight"),
            "blk.0.post_attention_norm.weight");
  EXPECT_EQ(our_name("gpt2", "h.0.attn.bias"), "");  // a mask
  EXPECT_EQ(our_name("llama", "lm_head.weight"), "output.weight");
  EXPECT_EQ(our_name("nemotron_h", "backbone.layers.1.mixer.switch_mlp.fc1.weight"),
            "blk.1.ffn_up_exps.weight");
  EXPECT_EQ(our_name("kimi-linear", "model.layers.0.self_attn.q_conv.conv.weight"),
            "blk.0.ssm_conv1d_q.weight");
  EXPECT_EQ(our_name("minimax-m2", "model.layers.1.block_sparse_moe.e_score_correction_bias"),
            "blk.1.exp_probs_b.bias");
  EXPECT_EQ(our_name("bailingmoe2", "model.layers.1.mlp.gate.expert_bias"),
            "blk.1.exp_probs_b.bias");
  EXPECT_EQ(our_name("bailingmoe2", "model.layers.1.mlp.gate.gate_proj.weight"),  // mlx-lm
            "blk.1.ffn_gate_inp.weight");
  EXPECT_EQ(our_name("llama", "language_model.lm_head.weight"), "output.weight");
  for (const char* name :
       {"vision_tower.layers.0.norm.weight", "model.layers.x.mlp.up_proj.weight", "model.layers.1",
        "model.layers.99999999999.mlp.up_proj.weight", "model.layers.1mlp.up_proj.weight", "norm",
        "model.layers.0.self_attn.rotary_emb.inv_freq", ""})
    EXPECT_EQ(our_name("llama", name), "") << name;
}

// Returns an opened folder with the shapes of its first layer: 6 heads of 8, 2 key heads.
ModelFile folder_with(const std::string& config, bool head_norms = false, bool bias = false) {
  ModelFile file;
  file.path = "folder";
  file.container = Container::kFolder;
  file.tensors.push_back({"token_embd.weight", DType::kF32, {61, 36}, {}});
  file.tensors.push_back({"blk.0.attn_q.weight", DType::kF32, {48, 36}, {}});
  file.tensors.push_back({"blk.0.attn_k.weight", DType::kF32, {16, 36}, {}});
  file.tensors.push_back({"model.layers.0.self_attn.q_proj.weight", DType::kF32, {48, 36}, {}});
  if (head_norms)
    file.tensors.push_back({"model.layers.0.self_attn.q_norm.weight", DType::kF32, {8}, {}});
  if (bias) file.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", DType::kF32, {48}, {}});
  file.config = std::make_shared<Json>(parse_json(config, "config"));
  return file;
}

std::string with(const std::string& more) {
  return R"({"hidden_size":36,"intermediate_size":44,"num_hidden_layers":6,)"
         R"("num_attention_heads":6,"max_position_embeddings":128,"rms_norm_eps":1e-6)" +
         (more.empty() ? more : "," + more) + "}";
}

TEST(FolderConfig, DerivesOmittedSizesFromTheWeights) {
  const TransformerConfig c = read_config(folder_with(with(R"("model_type":"llama")")));
  EXPECT_EQ(c.attention.head_dim, 8);
  EXPECT_EQ(c.attention.kv_heads, 2);
  EXPECT_EQ(c.vocab, 61);
  EXPECT_EQ(c.context, 128);
  EXPECT_TRUE(c.output.tied);
  EXPECT_FALSE(c.positions.interleaved);
  EXPECT_FLOAT_EQ(c.attention.scale, 1 / std::sqrt(8.0F));
}

TEST(FolderConfig, DistinguishesQwenVersionsByTheirWeights) {
  EXPECT_EQ(read_config(folder_with(with(""), true)).architecture, "qwen3");
  EXPECT_EQ(read_config(folder_with(with(""), false, true)).architecture, "qwen2");
  EXPECT_EQ(read_config(folder_with(with(""))).architecture, "llama");
  EXPECT_EQ(
      read_config(folder_with(with(R"("architectures":["MistralForCausalLM"])"))).architecture,
      "mistral");
}

TEST(FolderConfig, OldAndNewRopeKeysAreEquivalent) {
  const char* scaling = R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                        R"("original_max_position_embeddings":32,"rope_type":"llama3")";
  const std::string type = R"("model_type":"llama",)";
  const AnglesAttr old_keys =
      read_config(folder_with(with(type + R"("rope_theta":5e5,"rope_scaling":{)" + scaling + "}")))
          .positions.rope;
  const AnglesAttr new_keys =
      read_config(
          folder_with(with(type + R"("rope_parameters":{"rope_theta":5e5,)" + scaling + "}")))
          .positions.rope;
  EXPECT_EQ(old_keys, new_keys);
  EXPECT_EQ(old_keys.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(old_keys.theta, 5e5);
  EXPECT_EQ(old_keys.original_context, 32);
}

TEST(FolderConfig, ReadsGemmaLayerKindsInThreeNotations) {
  const std::string type = R"("model_type":"gemma3_text","sliding_window":7,)";
  const std::vector<bool> third{true, true, false, true, true, false};
  const char* listed = R"("layer_types":["sliding_attention","sliding_attention","full_attention",)"
                       R"("sliding_attention","sliding_attention","full_attention"])";
  EXPECT_EQ(read_config(folder_with(with(type + listed))).attention.local, third);
  EXPECT_EQ(read_config(folder_with(with(type + R"("sliding_window_pattern":3)"))).attention.local,
            third);
  const TransformerConfig c = read_config(folder_with(with(type + R"("rope_theta":1e6)")));
  EXPECT_EQ(c.attention.local, local_pattern(6, 6));
  EXPECT_EQ(c.positions.local_rope.theta, 1e4);
  EXPECT_EQ(c.positions.rope.theta, 1e6);
  EXPECT_FLOAT_EQ(c.input.scale, 6);
  EXPECT_FLOAT_EQ(c.attention.scale, 1.0F / 16);
}

// The first five layers have a window, the last one uses full attention.
TEST(FolderConfig, ReadsLayerSizesInThreeNotations) {
  const std::string type = R"("model_type":"gemma4_text","num_key_value_heads":2,"head_dim":8,)";
  const auto read = [&](const std::string& more) {
    ModelFile file = folder_with(with(type + more));
    file.tensors.push_back({"blk.5.attn_q.weight", DType::kF32, {72, 36}, {}});
    return read_config(file);
  };
  for (const TransformerConfig& c :
       {read(R"("per_layer_config":{"5":{"head_dim":12,"num_key_value_heads":1}})"),
        read(R"("global_head_dim":12,"num_global_key_value_heads":1,"attention_k_eq_v":true)"),
        read(R"("num_global_key_value_heads":1,"attention_k_eq_v":true)")}) {
    EXPECT_EQ(c.head_dim_of(4), 8);
    EXPECT_EQ(c.head_dim_of(5), 12);
    EXPECT_EQ(c.kv_heads_of(4), 2);
    EXPECT_EQ(c.kv_heads_of(5), 1);
    EXPECT_EQ(c.positions.rope.dims, 12);
    EXPECT_EQ(c.positions.rope.theta, 1e6);
    EXPECT_EQ(c.positions.local_rope.dims, 8);
    EXPECT_EQ(c.positions.local_rope.theta, 1e4);
    EXPECT_EQ(c.attention.scale, 1);
  }
  // Without attention_k_eq_v, num_global_key_value_heads is ignored.
  EXPECT_EQ(read(R"("num_global_key_value_heads":1)").kv_heads_of(5), 2);
  const TransformerConfig c = read(
      R"("global_head_dim":12,"num_kv_shared_layers":2,"use_double_wide_mlp":true,"layer_types":["sliding_attention",
         "full_attention","sliding_attention","full_attention","sliding_attention",
         "sliding_attention"])");
  EXPECT_EQ(c.keys_of(3), 3);
  EXPECT_EQ(c.keys_of(4), 2);
  EXPECT_EQ(c.keys_of(5), 3);  // the last layer uses full attention, regardless of the list
  EXPECT_EQ(c.hidden_of(3), 44);
  EXPECT_EQ(c.hidden_of(4), 88);
}

TEST(FolderConfig, EmptyTextConfigUsesTheDefaultsOfItsType) {
  ModelFile file = folder_with(
      R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560,
          "intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024,
          "rope_scaling":{"factor":8.0,"rope_type":"linear"}}})");
  file.tensors.resize(1);
  const TransformerConfig c = read_config(file);
  EXPECT_EQ(c.architecture, "gemma3");
  EXPECT_EQ(c.attention.heads, 8);
  EXPECT_EQ(c.attention.kv_heads, 4);
  EXPECT_EQ(c.attention.head_dim, 256);
  EXPECT_EQ(c.context, 131072);
  EXPECT_EQ(c.positions.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(c.positions.local_rope.scaling, RopeScaling::kNone);
}

TEST(FolderConfig, QwenWindowStartsAtMaxWindowLayers) {
  const std::string type = R"("model_type":"qwen2","sliding_window":9,"max_window_layers":4,)";
  const TransformerConfig off =
      read_config(folder_with(with(type + R"("use_sliding_window":false)")));
  EXPECT_EQ(off.attention.window, 0);
  const TransformerConfig on =
      read_config(folder_with(with(type + R"("use_sliding_window":true)")));
  EXPECT_EQ(on.attention.window, 9);
  EXPECT_EQ(on.attention.local, (std::vector<bool>{false, false, false, false, true, true}));
}

TEST(FolderConfig, ReadsLayersWithoutRopeFromListsAndIntervals) {
  const std::string type = R"("model_type":"smollm3",)";
  const std::vector<bool> listed{true, false, false, true, false, true};
  EXPECT_EQ(read_config(folder_with(with(type + R"("no_rope_layers":[0,1,1,0,1,0,1])")))
                .positions.unrotated,
            listed);
  EXPECT_EQ(
      read_config(folder_with(with(type + R"("no_rope_layer_interval":3)"))).positions.unrotated,
      (std::vector<bool>{false, false, true, false, false, true}));
  const TransformerConfig c = read_config(folder_with(
      with(type + R"("use_sliding_window":true,"sliding_window":5,"no_rope_layer_interval":2)")));
  EXPECT_EQ(c.attention.local, c.positions.unrotated);
  const TransformerConfig cohere = read_config(
      folder_with(with(R"("model_type":"cohere2","sliding_window":5,"sliding_window_pattern":2)")));
  EXPECT_EQ(cohere.attention.local, local_pattern(6, 2));
  EXPECT_EQ(cohere.positions.unrotated, (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_FLOAT_EQ(cohere.output.scale, 0.0625F);
}

TEST(FolderConfig, Olmo3ScalingDoesNotApplyToLocalLayers) {
  const std::string scaling = R"("rope_theta":5e5,"rope_scaling":{"rope_type":"yarn","factor":8,)"
                              R"("original_max_position_embeddings":32,"truncate":false})";
  const TransformerConfig c =
      read_config(folder_with(with(R"("model_type":"olmo3","sliding_window":7,)" + scaling)));
  EXPECT_EQ(c.positions.rope.scaling, RopeScaling::kYarn);
  EXPECT_FALSE(c.positions.rope.truncate);
  EXPECT_EQ(c.positions.local_rope, (AnglesAttr{.dims = 8, .theta = 5e5}));
  EXPECT_EQ(c.attention.local, local_pattern(6, 4));
}

TEST(FolderConfig, OldGptKeyNamesAreEquivalent) {
  const TransformerConfig c = read_config(folder_with(
      R"({"model_type":"gpt2","n_embd":36,"n_inner":44,"n_layer":3,"n_head":6,"n_positions":64,)"
      R"("activation_function":"gelu","layer_norm_epsilon":0.5})"));
  EXPECT_EQ(c.layers, 3);
  EXPECT_EQ(c.feed_forward.hidden, 44);
  EXPECT_EQ(c.context, 64);
  EXPECT_EQ(c.feed_forward.activation, Activation::kGeluErf);
  EXPECT_EQ(c.norms.eps, 0.5F);
  EXPECT_EQ(c.positions.rope.dims, 0);
  const TransformerConfig neox = read_config(
      folder_with(with(R"("model_type":"gpt_neox","rotary_pct":0.5,"rotary_emb_base":77)")));
  EXPECT_EQ(neox.positions.rope.dims, 4);
  EXPECT_EQ(neox.positions.rope.theta, 77);
  EXPECT_TRUE(neox.residual.parallel);
}

// The activations that transformers' Gemma classes derive from these keys.
TEST(FolderConfig, ReadsGemmaActivations) {
  const auto activation = [](const std::string& more) {
    return read_config(folder_with(with(R"("head_dim":8,)" + more))).feed_forward.activation;
  };
  const std::string first = R"("model_type":"gemma")", second = R"("model_type":"gemma2")",
                    third = R"("model_type":"gemma3_text")";
  for (const std::string& type : {first, second, third}) {
    EXPECT_EQ(activation(type), Activation::kGelu) << type;
    EXPECT_EQ(activation(type + R"(,"hidden_act":"gelu")"), Activation::kGelu) << type;
    EXPECT_EQ(activation(type + R"(,"hidden_activation":null)"), Activation::kGelu) << type;
    const Activation own = type == first ? Activation::kGelu : Activation::kGeluErf;
    EXPECT_EQ(activation(type + R"(,"hidden_activation":"gelu")"), own) << type;
  }
  EXPECT_EQ(activation(first + R"(,"hidden_act":"silu")"), Activation::kSilu);
  EXPECT_EQ(activation(third + R"(,"hidden_act":"silu")"), Activation::kGelu);
}

TEST(FolderConfig, FalconHeadCountsDependOnOtherKeys) {
  const auto read = [](const std::string& more) {
    ModelFile file = folder_with(with(R"("model_type":"falcon","num_kv_heads":2,)" + more));
    std::erase_if(file.tensors, [](const TensorView& t) { return t.name.starts_with("blk."); });
    return read_config(file);
  };
  EXPECT_EQ(read(R"("multi_query":true)").attention.kv_heads, 1);
  EXPECT_EQ(read(R"("multi_query":false)").attention.kv_heads, 6);
  const TransformerConfig newer = read(R"("new_decoder_architecture":true,"parallel_attn":false)");
  EXPECT_EQ(newer.attention.kv_heads, 2);
  EXPECT_TRUE(newer.residual.parallel);
  EXPECT_FALSE(read(R"("parallel_attn":false)").residual.parallel);
}

TEST(FolderConfig, AcceptsPerLayerListsOfOneRepeatedNumber) {
  const std::string hunyuan =
      R"("model_type":"hunyuan_v1_moe","num_experts":[8,8],"moe_intermediate_size":[20,20],)";
  const TransformerConfig c = read_config(folder_with(with(hunyuan + R"("moe_topk":[3,3])")));
  EXPECT_EQ(c.experts.route.used, 3);
  EXPECT_EQ(c.experts.count, 8);
  EXPECT_EQ(c.experts.hidden, 20);
  EXPECT_THROW(read_config(folder_with(with(hunyuan + R"("moe_topk":[3,2])"))), Error);
}

struct Case {
  const char* name;
  std::string more;
  std::vector<std::string> words;
  ErrorKind kind = ErrorKind::kFormat;
};

void expect_refused(std::span<const Case> cases) {
  for (const Case& c : cases) {
    try {
      read_config(folder_with(with(c.more)));
      ADD_FAILURE() << c.name << ": nothing was thrown";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), c.kind) << c.name << ": " << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << c.name;
      for (const std::string& word : c.words)
        EXPECT_NE(message.find(word), std::string::npos)
            << c.name << ": '" << word << "' in: " << message;
    }
  }
}

TEST(FolderConfig, ErrorsNameTheKeyAndTheFault) {
  const std::string llama = R"("model_type":"llama",)";
  const std::string gemma4 = R"("model_type":"gemma4_text","num_key_value_heads":2,)";
  const std::vector<Case> cases{
      {"type", R"("model_type":"mamba")", {"'mamba'", "llama"}, ErrorKind::kUnsupported},
      {"size text", llama + R"("num_key_value_heads":"two")", {"num_key_value_heads is \"two\""}},
      {"size 0", llama + R"("num_key_value_heads":0)", {"num_key_value_heads is 0"}},
      {"size -1", llama + R"("head_dim":-1)", {"head_dim is -1", "1 to 16777216"}},
      {"size 2^40", llama + R"("head_dim":1099511627776)", {"head_dim is 1099511627776"}},
      {"fraction", llama + R"("head_dim":1.5)", {"head_dim is 1.5"}},
      {"heads", llama + R"("num_key_value_heads":4)", {"6 heads do not divide among 4"}},
      {"activation",
       llama + R"("hidden_act":"tanh")",
       {"'tanh'", "relu2"},
       ErrorKind::kUnsupported},
      {"rope type",
       llama + R"("rope_scaling":{"rope_type":"spiral"})",
       {"'spiral'"},
       ErrorKind::kUnsupported},
      {"rope list", llama + R"("rope_scaling":[1])", {"RoPE", "JSON array"}},
      {"rope factor", llama + R"("rope_scaling":{"type":"linear","factor":0})", {"factor is 0"}},
      {"rope theta", llama + R"("rope_theta":-1)", {"rope_theta is -1"}},
      {"clip", R"("model_type":"olmo","clip_qkv":8.0)", {"clip_qkv"}, ErrorKind::kUnsupported},
      {"residuals",
       R"("model_type":"llama","residual_multiplier":0.5)",
       {"residual scale is 0.5", "llama"},
       ErrorKind::kUnsupported},
      {"rope alpha", llama + R"("rope_scaling":{"alpha":1e300})", {"rope_theta becomes inf"}},
      {"rope alpha -1", llama + R"("rope_scaling":{"alpha":-1})", {"alpha is -1"}},
      {"model base", R"("model_type":"minicpm","dim_model_base":0)", {"dim_model_base is 0"}},
      {"rope theta text", llama + R"("rope_theta":"x")", {"rope_theta is \"x\""}},
      {"odd rotation", llama + R"("partial_rotary_factor":0.4)", {"rotates 3 of 8"}},
      {"no rotation", llama + R"("partial_rotary_factor":0)", {"rotates 0 of 8"}},
      {"llama3 factors",
       llama + R"("rope_scaling":{"rope_type":"llama3","factor":2,"low_freq_factor":4,)"
               R"("high_freq_factor":4})",
       {"high_freq_factor 4"}},
      {"layer types",
       R"("model_type":"mistral","layer_types":["full_attention"])",
       {"layer_types has 1 entries", "6"}},
      {"layer type",
       R"("model_type":"mistral","layer_types":["a","a","a","a","a","a"])",
       {"layer_types has 'a'"},
       ErrorKind::kUnsupported},
      {"scalar", R"("model_type":"gemma2","query_pre_attn_scalar":0)", {"scalar is 0"}},
      {"factor", R"("model_type":"granite","logits_scaling":0)", {"logits_scaling is 0"}},
      {"layers without rope",
       R"("model_type":"smollm3","no_rope_layers":[1,0])",
       {"no_rope_layers has 2 entries", "6"}},
      {"inverse layers",
       R"("model_type":"gpt2","scale_attn_by_inverse_layer_idx":true)",
       {"scale_attn_by_inverse_layer_idx"},
       ErrorKind::kUnsupported},
      {"flag", R"("model_type":"qwen2","use_sliding_window":1)", {"use_sliding_window is 1"}},
      {"layer",
       gemma4 + R"("per_layer_config":{"6":{}})",
       {"per_layer_config has the key '6'", "below 6"}},
      {"no layer", gemma4 + R"("per_layer_config":{"x":{}})", {"the key 'x'"}},
      {"no layers", gemma4 + R"("per_layer_config":[1])", {"per_layer_config is a JSON array"}},
      {"sizes", gemma4 + R"("per_layer_config":{"5":1})", {"per_layer_config: 5 is a JSON number"}},
      {"size of a layer",
       gemma4 + R"("per_layer_config":{"5":{"head_dim":0}})",
       {"per_layer_config: 5: head_dim is 0"}},
      {"key heads of a layer",
       gemma4 + R"("per_layer_config":{"5":{"num_key_value_heads":4}})",
       {"6 heads do not divide among 4 key heads of layer 5"}},
      {"all share", gemma4 + R"("num_kv_shared_layers":6)", {"num_kv_shared_layers is 6"}},
      {"none to share with",
       gemma4 + R"("num_kv_shared_layers":2)",
       {"layer 5 is one of 2 layers that share keys", "none of the 4 layers",
        "has global attention"}},
  };
  expect_refused(cases);
}

TEST(FolderConfig, ErrorsNameUnsupportedSettings) {
  std::vector<Case> cases{
      {"norms after the layer",
       R"("model_type":"opt","do_layer_norm_before":false)",
       {"do_layer_norm_before is false"}},
      {"narrow embedding",
       R"("model_type":"opt","word_embed_proj_dim":12)",
       {"word_embed_proj_dim is 12", "36"}},
      {"other sizes in one layer",
       R"("model_type":"gemma4_text","num_key_value_heads":2,"head_dim":8,)"
       R"("per_layer_config":{"1":{"head_dim":12}})",
       {"layer 1 has 2 key heads of 12 dimensions, expected 2 of 8",
        "previous layers with a window"}},
      {"other numbers of one layer",
       R"("model_type":"gemma4_text","num_key_value_heads":2,"per_layer_config":{"5":{"x":1}})",
       {"per_layer_config: 5 has x"}},
      {"both sides",
       R"("model_type":"gemma4_text","num_key_value_heads":2,)"
       R"("use_bidirectional_attention":"all")",
       {"use_bidirectional_attention is 'all', expected vision"}},
      {"ALiBi of Falcon", R"("model_type":"falcon","alibi":true)", {"alibi is true"}},
      {"MPT with positions",
       R"("model_type":"mpt","attn_config":{"alibi":false})",
       {"alibi is false"}},
      {"MPT with a limit", R"("model_type":"mpt","attn_config":{"clip_qkv":6})", {"clip_qkv"}},
      {"two magnitudes",
       R"("model_type":"phimoe","rope_scaling":{"type":"longrope","short_mscale":1.1,)"
       R"("long_mscale":1.2,"short_factor":[1],"long_factor":[1]})",
       {"short_mscale is 1.1", "1.2"}},
  };
  for (Case& c : cases) c.kind = ErrorKind::kUnsupported;
  expect_refused(cases);
}

TEST(FolderConfig, LongropeRequiresOneFactorPerPair) {
  const auto factors = [](const std::string& lists) {
    const std::string scaling =
        R"("rope_scaling":{"type":"longrope","original_max_position_embeddings":32,)" + lists + "}";
    return folder_rope_factors(folder_with(with(R"("model_type":"phi3",)" + scaling)));
  };
  const RopeFactors right = factors(R"("short_factor":[1,1,1,2],"long_factor":[1,2,3,4])");
  EXPECT_EQ(right.longer, (std::vector<float>{1, 2, 3, 4}));
  for (const char* wrong :
       {R"("short_factor":[1,1,1],"long_factor":[1,2,3,4])", R"("long_factor":[1,2,3,4])",
        R"("short_factor":[1,1,1,0],"long_factor":[1,2,3,4])",
        R"("short_factor":[1,1,1,"x"],"long_factor":[1,2,3,4])"})
    EXPECT_THROW(factors(wrong), Error) << wrong;
}

// Writes a folder whose tensors have the given names and shapes and contain ones.
void write_folder(const TemporaryFolder& folder, const std::string& config,
                  const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes) {
  folder.write("config.json", config);
  const std::vector<float> ones(4096, 1);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    const int64_t count =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    tensors.push_back({name, StoredType::kF32, shape,
                       std::as_bytes(std::span(ones).first(static_cast<size_t>(count)))});
  }
  test::write_safetensors(folder.file("model.safetensors"), tensors);
}

TEST(OpenModel, SplitsJointProjections) {
  const TemporaryFolder folder;
  write_folder(folder,
               R"({"model_type":"phi3","hidden_size":24,"intermediate_size":10,
                   "num_hidden_layers":1,"num_attention_heads":6,"num_key_value_heads":2})",
               {{"model.embed_tokens.weight", {11, 24}},
                {"model.layers.0.self_attn.qkv_proj.weight", {40, 24}},
                {"model.layers.0.mlp.gate_up_proj.weight", {20, 24}}});
  const ModelFile file = open_model(folder.path());
  EXPECT_EQ(file.at("blk.0.attn_q.weight").shape, (std::vector<int64_t>{24, 24}));
  EXPECT_EQ(file.at("blk.0.attn_v.weight").shape, (std::vector<int64_t>{8, 24}));
  EXPECT_EQ(file.at("blk.0.attn_v.weight").data.size(), 8U * 24 * 4);
  EXPECT_EQ(file.at("blk.0.ffn_up.weight").shape, (std::vector<int64_t>{10, 24}));
  EXPECT_EQ(file.find("blk.0.attn_qkv.weight"), nullptr);
  EXPECT_EQ(file.metadata.text("general.architecture"), "phi3");
}

TEST(OpenModel, AddsOneToGemmaNorms) {
  const TemporaryFolder folder;
  write_folder(folder, R"({"model_type":"gemma2"})",
               {{"model.embed_tokens.weight", {3, 4}}, {"model.norm.weight", {4}}});
  const ModelFile file = open_model(folder.path());
  std::vector<std::byte> buffer;
  const std::span<const std::byte> bytes = file.at("output_norm.weight").read(buffer);
  ASSERT_EQ(bytes.size(), 16U);
  EXPECT_EQ(*reinterpret_cast<const float*>(bytes.data()), 2);
  EXPECT_EQ(file.at("token_embd.weight").source, nullptr);
}

TEST(OpenModel, RejectsUnknownLayerWeights) {
  const TemporaryFolder folder;
  write_folder(folder, R"({"model_type":"llama"})",
               {{"model.layers.0.self_attn.slopes", {4}}, {"visual.patch.weight", {4}}});
  try {
    open_model(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("self_attn.slopes"), std::string::npos);
  }
  const TemporaryFolder twice;
  write_folder(twice, R"({"model_type":"llama"})",
               {{"model.norm.weight", {4}}, {"language_model.model.norm.weight", {4}}});
  EXPECT_THROW(open_model(twice.path()), Error);
}

TEST(OpenModel, ReadsGenerationConfigAsMetadata) {
  const TemporaryFolder folder;
  write_folder(folder, R"({"model_type":"llama"})", {{"model.norm.weight", {4}}});
  folder.write("generation_config.json",
               R"({"temperature":0.6,"top_p":0.95,"top_k":20,"repetition_penalty":"x"})");
  const ModelFile file = open_model(folder.path());
  EXPECT_EQ(file.metadata.number("general.sampling.temp"), 0.6);
  EXPECT_EQ(file.metadata.number("general.sampling.top_p"), 0.95);
  EXPECT_EQ(file.metadata.integer("general.sampling.top_k"), 20);
  EXPECT_EQ(file.metadata.find("general.sampling.penalty_repeat"), nullptr);
}

TEST(Config, HeadInTheFileOverridesTiedEmbeddings) {
  const auto tied = [](const std::string& said, const std::vector<float>* head) {
    static const std::vector<float> embedding(size_t{61} * 36, 1);
    ModelFile file = folder_with(with(R"("model_type":"llama")" + said));
    file.tensors[0].data = std::as_bytes(std::span(embedding));
    if (head != nullptr)
      file.tensors.push_back(
          {"output.weight", DType::kF32, {61, 36}, std::as_bytes(std::span(*head))});
    return read_config(file).output.tied;
  };
  const std::vector<float> same(size_t{61} * 36, 1);
  std::vector<float> other = same;
  other.back() = 2;
  const std::string yes = R"(,"tie_word_embeddings":true)";
  EXPECT_TRUE(tied(yes, nullptr));
  EXPECT_TRUE(tied(yes, &same));
  EXPECT_FALSE(tied(yes, &other));
  EXPECT_FALSE(tied(R"(,"tie_word_embeddings":false)", &same));
  EXPECT_FALSE(tied("", &other));
  EXPECT_TRUE(tied("", nullptr));
}

}  // namespace
}  // namespace veery
