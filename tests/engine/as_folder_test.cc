// Models written as Hugging Face and MLX folders, and read again.
#include "convert/as_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "convert/as_gguf.h"
#include "convert/quantize.h"
#include "file/folder/folder.h"
#include "import/folder/described.h"
#include "import/open_model.h"
#include "support/file_size_limit.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

// All tiny folders except those of families that cannot be written.
std::vector<std::string> tiny_folders() {
  constexpr std::string_view kUnwritten[] = {
      "ernie4_5moe", "internlm2", "falcon",      "bloom",          "mpt",       "opt",
      "falcon-h1",   "xlstm-lm",  "granite-swa", "granitemoe-swa", "qwen35-mlx"};
  const auto unwritten = [&](const std::string& name) {
    return std::ranges::any_of(kUnwritten, [&](auto begin) { return name.starts_with(begin); });
  };
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test::fixture_path("tiny")))
    if (const std::string name = entry.path().filename().string(); !unwritten(name))
      names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> float_folders() {
  std::vector<std::string> names = tiny_folders();
  std::erase_if(names, [](const std::string& name) {
    const Json config = read_json_file(test::fixture_path("tiny/" + name + "/config.json"));
    return config.contains("quantization") || config.contains("quantization_config");
  });
  return names;
}

std::string folder_of(const std::string& name) { return test::fixture_path("tiny/" + name); }

std::vector<int32_t> prompt_of(const std::string& name) {
  return test::read_fixture("tiny/" + name + "/reference.json")["prompts"][0]["ids"]
      .get<std::vector<int32_t>>();
}

// Returns the part of config.json about the text model.
Json config_of(const std::string& folder) {
  const Json config = read_json_file(folder + "/config.json");
  return text_config(config);
}

// Returns the tensors, with the names of a folder that has only the text model.
ModelFile open_text(const std::string& folder) {
  constexpr std::string_view kNested = "model.language_model.";
  ModelFile file = open_folder(folder);
  for (TensorView& tensor : file.tensors)
    if (tensor.name.starts_with(kNested)) tensor.name.replace(0, kNested.size(), "model.");
  return file;
}

void convert(const std::string& in, const std::string& out, const FolderOptions& options) {
  const ModelFile file = open_model(in);
  ThreadPool pool(2);
  write_folder(file, plan_folder(file, options), out, pool, options);
}

// Returns the logits of all positions, computed with --exact.
std::vector<float> logits_of(const std::string& path, std::span<const int32_t> ids) {
  Model model(path, {.threads = 1, .exact = true});
  test::OneSequence session(model);
  std::vector<float> all;
  session.feed_all(ids, [&](int32_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return all;
}

class AsFolder : public ::testing::TestWithParam<std::string> {};
class AsFolderOfFloats : public AsFolder {};

TEST_P(AsFolder, FloatsGiveTheSameLogitsInBothForms) {
  const test::TemporaryFolder temporary;
  const std::string in = folder_of(GetParam());
  const std::vector<int32_t> ids = prompt_of(GetParam());
  const std::vector<float> expected = logits_of(in, ids);
  for (const FolderKind kind : {FolderKind::kHuggingFace, FolderKind::kMlx}) {
    const bool mlx = kind == FolderKind::kMlx;
    const std::string out = temporary.file(mlx ? "mlx" : "hf");
    FolderOptions options{.kind = kind, .dtype = DType::kF32};
    convert(in, out, options);
    EXPECT_EQ(logits_of(out, ids), expected) << mlx;
    // And back.
    options.kind = FolderKind::kHuggingFace;
    options.dtype.reset();
    convert(out, out + "-back", options);
    EXPECT_EQ(logits_of(out + "-back", ids), expected) << mlx;
  }
}

// The step sizes of Mamba-2 have two biases, their own and that of the projection; GGUF stores only
// the sum.
bool is_step_bias(std::string_view name) {
  return name.ends_with(".in_proj.bias") || name.ends_with(".dt_bias");
}
bool has_two_biases(const ModelFile& file) {
  return std::ranges::any_of(file.tensors,
                             [](const TensorView& t) { return t.name.ends_with(".in_proj.bias"); });
}

// A folder written from a folder has the same tensors.
TEST_P(AsFolderOfFloats, HasTheSameTensors) {
  const test::TemporaryFolder temporary;
  const std::string out = temporary.file("out");
  convert(folder_of(GetParam()), out, {});
  const ModelFile before = open_text(folder_of(GetParam()));
  const ModelFile after = open_folder(out);
  ASSERT_GT(after.tensors.size(), 0U);
  for (const TensorView& tensor : after.tensors) {
    const TensorView& own = before.at(tensor.name);
    EXPECT_EQ(tensor.shape, own.shape) << tensor.name;
    std::vector<std::byte> a, b;
    if (tensor.dtype != own.dtype || (has_two_biases(before) && is_step_bias(tensor.name)))
      continue;
    EXPECT_TRUE(std::ranges::equal(tensor.read(a), own.read(b))) << tensor.name;
  }
  for (const TensorView& tensor : before.tensors)
    EXPECT_TRUE(after.find(tensor.name) != nullptr || tensor.name.ends_with("lm_head.weight"))
        << tensor.name;
}

void convert_to_gguf(const std::string& in, const std::string& out) {
  const ModelFile file = open_as_gguf(in);
  const std::vector<TensorPlan> plans = keep_types(file);
  ThreadPool pool(2);
  write_quantized(file, plans, retyped_metadata(file, plans), out, pool, {});
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<std::byte> buffer;
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  decode(tensor.dtype, tensor.read(buffer), values);
  return values;
}

// Returns the model_type that a GGUF file is read as, for types that share a GGUF architecture.
std::string type_from_gguf(const std::string& type) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"helium", "llama"},
      {"gemma4_unified_text", "gemma4_text"},
      {"ministral", "mistral"},
      {"glm4_moe_lite", "deepseek_v3"}};
  for (const auto& [theirs, other] : kOthers)
    if (type == theirs) return std::string(other);
  return type;
}

constexpr const char* kSaidByBoth[] = {"vocab_size",
                                       "hidden_size",
                                       "intermediate_size",
                                       "intermediate_size_mlp",
                                       "moe_intermediate_size",
                                       "shared_intermediate_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "num_key_value_heads",
                                       "head_dim",
                                       "max_position_embeddings",
                                       "attention_bias",
                                       "use_bias",
                                       "num_experts",
                                       "num_local_experts",
                                       "n_routed_experts",
                                       "n_shared_experts",
                                       "num_experts_per_tok",
                                       "first_k_dense_replace",
                                       "norm_topk_prob",
                                       "n_group",
                                       "topk_group",
                                       "moe_layers",
                                       "no_rope_layers",
                                       "layer_types",
                                       "sliding_window",
                                       "attention_chunk_size",
                                       "partial_rotary_factor",
                                       "use_qk_norm",
                                       "top_k_experts",
                                       "global_head_dim",
                                       "num_global_key_value_heads",
                                       "attention_k_eq_v",
                                       "num_kv_shared_layers",
                                       "use_double_wide_mlp",
                                       "hidden_size_per_layer_input",
                                       "enable_moe_block"};

// GGUF files that cannot be converted to folders, and the reasons.
const std::map<std::string, std::string>& refused_from_gguf() {
  static const std::map<std::string, std::string> refused = {
      {"internlm3", "a query bias without an output bias"},
      {"glm", "chatglm cannot be written as a folder"},
      {"exaone", "exaone cannot be written as a folder"},
      {"hunyuan", "hunyuan-dense cannot be written as a folder"},
      {"minicpm", "minicpm cannot be written as a folder"},
      {"olmo", "olmo cannot be written as a folder"},
      {"hunyuanmoe", "hunyuan-moe cannot be written as a folder"},
      {"apertus", "apertus cannot be written as a folder"},
      {"apertus-f32", "apertus cannot be written as a folder"},
      {"phimoe", "phimoe cannot be written as a folder"},
      {"phimoe-longrope", "phimoe cannot be written as a folder"},
      {"bitnet", "bitnet-b1.58 cannot be written as a folder"},
      {"gptj", "gptj cannot be written as a folder"},
      {"stablelm-heads", "stablelm cannot be written as a folder"},
      {"stablelm", "stablelm cannot be written as a folder"},
      {"stablelm-parallel", "stablelm cannot be written as a folder"},
      {"afmoe", "afmoe cannot be written as a folder"},
      {"cohere2moe", "cohere2moe cannot be written as a folder"},
      {"cohere2moe-rms", "cohere2moe cannot be written as a folder"},
      {"exaone-moe", "exaone-moe cannot be written as a folder"},
      {"bamba", "granitemoehybrid cannot represent RoPE over 4 of 8"},
      {"deepseek-v32", "deepseek32 cannot be written as a folder"},
      {"deepseek-v32-sparse", "deepseek32 cannot be written as a folder"},
      {"glm5", "glm-dsa cannot be written as a folder"},
      {"glm5-sparse", "glm-dsa cannot be written as a folder"},
      {"lfm3", "cannot be written as a folder"},
      {"minimax-m2", "minimax-m2 cannot be written as a folder"},
      {"mistral4", "mistral4 cannot be written as a folder"}};
  return refused;
}

// A folder converted to GGUF and back gives the same logits; its tensors are equal if the family is
// the same.
TEST_P(AsFolderOfFloats, ComesBackFromGguf) {
  const auto& refused = refused_from_gguf();
  const test::TemporaryFolder temporary;
  const std::string in = folder_of(GetParam()), out = temporary.file("out");
  const auto known = refused.find(GetParam());
  try {
    convert_to_gguf(in, temporary.file("m.gguf"));
    convert(temporary.file("m.gguf"), out, {});
    ASSERT_EQ(known, refused.end());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    ASSERT_NE(known, refused.end()) << error.what();
    EXPECT_NE(std::string(error.what()).find(known->second), std::string::npos) << error.what();
    EXPECT_FALSE(fs::exists(out));
    return;
  }
  const Json before_config = config_of(in), after_config = config_of(out);
  const std::string type = before_config["model_type"].string();
  EXPECT_EQ(after_config["model_type"], type_from_gguf(type));
  for (const char* key : kSaidByBoth) {
    const Json said = before_config.value(key, Json());
    if (said.is_null() || said == 0 || !after_config.contains(key)) continue;
    // Keys that the model type ignores, or whose value its configuration class enlarges.
    if (type == "xlstm" && key == std::string("num_hidden_layers")) continue;
    const bool other = type == "granitemoehybrid" || type == "lfm2";
    if (other && key == std::string("intermediate_size")) continue;
    EXPECT_EQ(after_config[key], said) << key;
  }
  const std::vector<int32_t> ids = prompt_of(GetParam());
  const std::vector<float> a = logits_of(out, ids), b = logits_of(in, ids);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-4) << i;
  const bool fused = before_config.value("weight_mode", Json()) == "fused";
  if (type != type_from_gguf(type) || fused) return;
  const ModelFile before = open_text(in), after = open_folder(out);
  for (const TensorView& tensor : before.tensors) {
    if (tensor.name.ends_with("lm_head.weight") && after.find(tensor.name) == nullptr) continue;
    const TensorView& own = after.at(tensor.name);
    EXPECT_EQ(own.shape, tensor.shape) << tensor.name;
    const std::vector<float> x = values_of(own), y = values_of(tensor);
    // GGUF stores the norm weights of Gemma, Nemotron and Qwen 3.5 plus 1, which loses the last
    // bits of small numbers.
    const bool sum =
        (type.starts_with("gemma") || type == "nemotron" || type.starts_with("qwen3_")) &&
        tensor.name.ends_with("norm.weight");
    const bool rate = tensor.name.ends_with(".A_log");
    const bool steps = has_two_biases(before) && is_step_bias(tensor.name);
    for (size_t k = 0; k < y.size() && !steps; ++k)
      ASSERT_NEAR(x[k], y[k], sum || rate ? 0x1p-22 : 0) << tensor.name;
    // Some routing biases and decay parameters are never rounded.
    const auto is = [&](const char* end) { return tensor.name.ends_with(end); };
    const bool exact = is("e_score_correction_bias") || is("expert_bias") || rate || is(".D") ||
                       is(".dt_bias") || is("mamba.norm.weight") || is("mixer.norm.weight") ||
                       is("linear_attn.norm.weight");
    EXPECT_TRUE(exact || own.dtype == tensor.dtype) << tensor.name;
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& at) {
  std::string name = at.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

// Returns the message of the error of `kind` that the conversion throws.
std::string refusal(ErrorKind kind, const std::string& in, const std::string& out,
                    const FolderOptions& options) {
  try {
    convert(in, out, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << in << " was converted";
  return {};
}

TEST(AsFolderFiles, ShardsHoldNoMoreThanTheyMay) {
  const test::TemporaryFolder temporary;
  const std::string out = temporary.file("out");
  convert(folder_of("qwen3"), out, {.dtype = DType::kF32, .shard_bytes = 20000});
  const Json index = read_json_file(out + "/model.safetensors.index.json");
  EXPECT_TRUE(fs::exists(out + "/model-00005-of-00005.safetensors")) << dump_json(index);
  const std::vector<int32_t> ids = prompt_of("qwen3");
  EXPECT_EQ(logits_of(out, ids), logits_of(folder_of("qwen3"), ids));
}

TEST(AsFolderFiles, RefusedConversionsLeaveNoFiles) {
  const test::TemporaryFolder temporary;
  const std::string out = temporary.file("out");
  ModelFile file = open_model(folder_of("qwen3"));
  file.tensors.push_back(file.at("blk.0.attn_q.weight"));
  file.tensors.back().name = "blk.0.attn_magic.weight";
  EXPECT_THROW(plan_folder(file, {}), Error);
  EXPECT_NE(refusal(ErrorKind::kInput, folder_of("qwen3"), out, {.dtype = DType::kQ8_0}), "");
  EXPECT_EQ(temporary.entries(), 0U);
  fs::create_directory(out);
  EXPECT_NE(refusal(ErrorKind::kInput, folder_of("qwen3"), out, {}).find("exists"),
            std::string::npos);
  EXPECT_EQ(temporary.entries(), 1U);
}

TEST(AsFolderFiles, AFullDiskThrowsAndLeavesNothing) {
  const test::TemporaryFolder temporary;
  const std::string in = folder_of("qwen3");
  const auto size = fs::file_size(in + "/model.safetensors");
  for (const rlim_t room : {rlim_t{0}, rlim_t{100}, rlim_t{size / 2}, rlim_t{size - 1}}) {
    const test::FileSizeLimit limit(room);
    EXPECT_NE(refusal(ErrorKind::kIo, in, temporary.file("out"), {}).find("cannot be written"),
              std::string::npos);
    EXPECT_EQ(temporary.entries(), 0U);
  }
}

TEST(AsFolderFiles, CutOffWeightsAreRefusedAndLeaveNothing) {
  const test::TemporaryFolder temporary;
  const std::string in = temporary.file("in");
  fs::copy(folder_of("qwen3"), in);
  fs::permissions(in + "/model.safetensors", fs::perms::owner_all);
  fs::resize_file(in + "/model.safetensors", fs::file_size(in + "/model.safetensors") - 1);
  EXPECT_NE(refusal(ErrorKind::kFormat, in, temporary.file("out"), {}).find("model.safetensors"),
            std::string::npos);
  EXPECT_EQ(temporary.entries(), 1U);
}

TEST(AsFolderFiles, PartsOfGgufAreOneModel) {
  const test::TemporaryFolder temporary;
  const ModelFile file = open_as_gguf(folder_of("qwen3"));
  const std::vector<TensorPlan> plans = keep_types(file);
  ThreadPool pool(2);
  const auto write = [&](const std::string& path, uint64_t limit) {
    QuantizeOptions options;
    options.split_bytes = limit;
    write_quantized(file, plans, retyped_metadata(file, plans), path, pool, options);
  };
  write(temporary.file("m.gguf"), 3000);
  EXPECT_GT(temporary.entries(), 3U);
  const std::string first = fmt::format("m-00001-of-{:05}.gguf", temporary.entries());
  const std::vector<int32_t> ids = prompt_of("qwen3");
  EXPECT_EQ(logits_of(temporary.file(first), ids), logits_of(folder_of("qwen3"), ids));
  write(temporary.file("whole.gguf"), 1'000'000'000);
  EXPECT_TRUE(fs::exists(temporary.file("whole.gguf")));
  const size_t entries = temporary.entries();
  const test::FileSizeLimit limit(1000);
  EXPECT_THROW(write(temporary.file("x.gguf"), 3000), Error);
  EXPECT_EQ(temporary.entries(), entries);
}

TEST(AsFolderFiles, GgufBecomesAFolderWithTheSameLogits) {
  const test::TinyModel model;
  const test::TemporaryFolder temporary;
  const std::string out = temporary.file("out");
  convert(model.path(), out, {.dtype = DType::kF32});
  const std::vector<int32_t> ids = {1, 70, 200, 5, 9, 258, 33};
  EXPECT_EQ(logits_of(out, ids).size(), ids.size() * test::TinyModel::kVocabulary);
  const Json config = read_json_file(out + "/config.json");
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["rope_theta"], 10000.0);
  EXPECT_EQ(config["rope_parameters"]["rope_theta"], 10000.0);
  const std::vector<float> a = logits_of(out, ids), b = logits_of(model.path(), ids);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
}

// A quantised MLX folder and the f32 folder converted from it give the same logits.
TEST(AsFolderFiles, QuantisedFoldersEqualTheirDequantisedFolders) {
  const test::TinyModel model;
  const std::vector<int32_t> ids = {1, 70, 200, 5, 9, 258, 33};
  for (const MlxFormat& format :
       {mlx_format_of("affine", 3, 32), mlx_format_of("affine", 6, 32),
        mlx_format_of("mxfp4", 0, 0), mlx_format_of("mxfp8", 0, 0), mlx_format_of("nvfp4", 0, 0)}) {
    const test::TemporaryFolder temporary;
    const std::string out = temporary.file("mlx");
    MlxOptions quantize{format, {}};
    quantize.rules.push_back({"down_proj$", mlx_format_of("affine", 8, 32)});
    quantize.rules.push_back({"k_proj", std::nullopt});
    convert(model.path(), out, {FolderKind::kMlx, DType::kF32, 5'000'000'000, quantize, {}});
    const ModelFile file = open_model(out);
    EXPECT_NE(file.at("blk.1.attn_q.weight").bytes(), 0U);
    const Json config = read_json_file(out + "/config.json");
    EXPECT_EQ(config["quantization"]["bits"], format.bits);
    EXPECT_EQ(config["quantization"]["mode"], mlx_mode_name(format.mode));
    EXPECT_EQ(config["quantization"], config["quantization_config"]);
    // The 48 columns of down_proj are not a multiple of 32.
    EXPECT_FALSE(config["quantization"].contains("model.layers.0.mlp.down_proj"));
    convert(out, out + "-hf", {.dtype = DType::kF32});
    EXPECT_EQ(logits_of(out, ids), logits_of(out + "-hf", ids)) << format.bits;
  }
}

TEST(AsFolderFiles, FormatsThatMlxDoesNotHaveAreRefused) {
  for (const auto& [mode, bits, group] :
       {std::tuple("affine", 7, 64), {"affine", 4, 16}, {"mxfp4", 8, 32}, {"magic", 4, 32}})
    EXPECT_THROW(mlx_format_of(mode, bits, group), Error) << mode << bits;
}

INSTANTIATE_TEST_SUITE_P(All, AsFolder, ::testing::ValuesIn(tiny_folders()), test_name);
INSTANTIATE_TEST_SUITE_P(All, AsFolderOfFloats, ::testing::ValuesIn(float_folders()), test_name);

TEST(AsFolder, AFileThatShrinksMeanwhileLeavesNoFolder) {
  const test::TinyModel model;
  const test::TemporaryFolder folder;
  const std::string in = folder.file("in.gguf");
  fs::copy_file(model.path(), in);
  const ModelFile file = open_model(in);
  FolderOptions options;
  options.progress = [&](size_t, size_t, const std::string&) { fs::resize_file(in, 4096); };
  ThreadPool pool(2);
  EXPECT_THROW(write_folder(file, plan_folder(file, options), folder.file("out"), pool, options),
               FileChanged);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(AsFolder, GgufMetadataSurvivesTheFolder) {
  const test::TinyModel model;
  const test::TemporaryFolder folder;
  ModelFile file = open_model(model.path());
  file.metadata.set("general.name", std::string("Tiny Model"));
  file.metadata.set("general.license", std::string("apache-2.0"));
  file.metadata.set_texts("general.languages", {"en", "de"});
  file.metadata.set_texts("general.tags", {"chat"});
  file.metadata.set("general.file_type", int64_t{15});
  ThreadPool pool(2);
  write_folder(file, plan_folder(file, {}), folder.file("out"), pool, {});
  const Metadata metadata = open_as_gguf(folder.file("out")).metadata;
  EXPECT_EQ(metadata.text("general.name"), "Tiny Model");
  EXPECT_EQ(metadata.text("general.license"), "apache-2.0");
  ASSERT_NE(metadata.texts("general.languages"), nullptr);
  EXPECT_EQ(*metadata.texts("general.languages"), (std::vector<std::string_view>{"en", "de"}));
  EXPECT_EQ(*metadata.texts("general.tags"), (std::vector<std::string_view>{"chat"}));
  EXPECT_EQ(metadata.text("tokenizer.ggml.pre"), file.metadata.text("tokenizer.ggml.pre"));
  EXPECT_EQ(metadata.find("general.file_type"), nullptr);
}

// In transformers, Qwen 2 always has biases on q, k and v, and none on logits.
TEST(AsFolder, BiasesThatQwen2CannotRepresentAreRefused) {
  const auto refused = [](const ModelFile& file) -> std::string {
    try {
      plan_folder(file, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      return error.what();
    }
    return {};
  };
  const ModelFile file = open_as_gguf(folder_of("qwen2"));
  EXPECT_EQ(refused(file), "");
  ModelFile less = file;
  std::erase_if(less.tensors, [](const TensorView& t) { return t.name.ends_with(".bias"); });
  EXPECT_NE(refused(less).find("cannot represent attention without biases"), std::string::npos);
  ModelFile more = file;
  more.tensors.push_back(more.at("output_norm.weight"));
  more.tensors.back().name = "output.bias";
  EXPECT_NE(refused(more).find("cannot represent an output bias"), std::string::npos);
}

TEST(AsFolder, UnknownTensorsAreRefusedByName) {
  const test::TinyModel model;
  ModelFile file = open_model(model.path());
  TensorView strange = file.at("blk.0.attn_q.weight");
  strange.name = "blk.0.strange.weight";
  file.tensors.push_back(strange);
  try {
    plan_folder(file, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("blk.0.strange.weight"), std::string::npos);
  }
}

}  // namespace
}  // namespace veery
