// Tests of pooling and scoring settings in sentence-transformers folders and GGUF files.
#include "import/folder/sentence_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

using test::TemporaryFolder;

const std::string kModules = R"([
  {"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
  {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
  {"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.base.modules.dense.Dense"},
  {"idx":3,"name":"3","path":"3_Normalize","type":"sentence_transformers.models.Normalize"}])";
const std::string kDense = R"({"in_features":2,"out_features":3,"bias":true,
  "activation_function":"torch.nn.modules.linear.Identity"})";

void write_dense(const TemporaryFolder& folder, std::vector<int64_t> shape) {
  const std::vector<float> weight{1, 2, 3, 4, 5, 6}, bias{7, 8, 9};
  const std::vector<StoredTensor> tensors{
      {"linear.weight", StoredType::kF32, std::move(shape), std::as_bytes(std::span(weight))},
      {"linear.bias", StoredType::kF32, {3}, std::as_bytes(std::span(bias))}};
  test::write_safetensors(folder.file("2_Dense/model.safetensors"), tensors);
}

void fill(const TemporaryFolder& folder) {
  std::filesystem::create_directory(folder.file("1_Pooling"));
  std::filesystem::create_directory(folder.file("2_Dense"));
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json",
               R"({"word_embedding_dimension":2,"pooling_mode_cls_token":true,
                   "pooling_mode_mean_tokens":false,"include_prompt":false})");
  folder.write("2_Dense/config.json", kDense);
  write_dense(folder, {3, 2});
  folder.write("sentence_bert_config.json", R"({"max_seq_length":256,"do_lower_case":true})");
  folder.write("config_sentence_transformers.json",
               R"({"prompts":{"query":"q: ","none":null},"default_prompt_name":"query",
                   "similarity_fn_name":"dot"})");
}

TEST(SentenceFolder, ReadsAllFiles) {
  const TemporaryFolder folder;
  fill(folder);
  const SentenceConfig config = read_sentence_folder(folder.path());
  EXPECT_TRUE(config.given && config.normalize && config.lower_case && !config.include_prompt);
  EXPECT_EQ(config.pooling, PoolingKind::kCls);
  EXPECT_EQ(config.pooled_width, 2);
  EXPECT_EQ(config.max_length, 256);
  EXPECT_EQ(config.similarity, Similarity::kDot);
  EXPECT_EQ(config.prompts.at("query"), "q: ");
  EXPECT_EQ(config.default_prompt, "query");
  ASSERT_EQ(config.dense.size(), 1U);
  EXPECT_EQ(config.dense[0].activation, DenseActivation::kIdentity);
  std::vector<std::byte> buffer;
  const auto bytes = config.dense[0].bias->read(buffer);
  EXPECT_EQ(reinterpret_cast<const float*>(bytes.data())[2], 9.0F);
}

TEST(SentenceFolder, UsesDefaultsWithoutFiles) {
  const TemporaryFolder folder;
  const SentenceConfig config = read_sentence_folder(folder.path());
  EXPECT_FALSE(config.given || config.normalize);
  EXPECT_EQ(config.pooling, PoolingKind::kMean);
  EXPECT_EQ(config.max_length, 0);
}

TEST(SentenceFolder, RejectsInvalidFilesWithOneLineErrors) {
  const struct {
    const char* file;
    std::string text;
    std::string part;
  } kCases[] = {
      {"modules.json", "{}", "array"},
      {"modules.json", R"([{"type":"evil.Module"}])", "evil.Module"},
      {"modules.json", R"([{"type":"sentence_transformers.models.LayerNorm"}])", "LayerNorm"},
      {"modules.json", R"([{"type":"sentence_transformers.models.Pooling","path":"../x"}])",
       "../x"},
      {"modules.json", R"([{"type":"sentence_transformers.models.Pooling","path":"/x"}])", "'/x'"},
      {"modules.json",
       R"([{"type":"sentence_transformers.models.Transformer"},
           {"path":"n","type":"sentence_transformers.models.Normalize"}])",
       "0 Pooling"},
      {"1_Pooling/config.json", R"({"pooling_mode":"median"})", "median"},
      {"1_Pooling/config.json", R"({"pooling_mode":["cls","mean"]})", "2 poolings"},
      {"1_Pooling/config.json",
       R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})", "2 poolings"},
      {"1_Pooling/config.json", R"({"pooling_mode_cls_token":7})", "true or false"},
      {"1_Pooling/config.json", R"({"pooling_mode_attention":true})", "pooling_mode_attention"},
      {"1_Pooling/config.json", R"({"pooling_mode_mean_tokens":false})", "0 poolings"},
      {"1_Pooling/config.json", R"({"word_embedding_dimension":1e300})",
       "word_embedding_dimension"},
      {"1_Pooling/config.json", R"({"embedding_dimension":5})", "expects 2 inputs, found 5"},
      {"2_Dense/config.json", R"({"in_features":3,"out_features":3})", "linear.weight"},
      {"2_Dense/config.json", R"({"in_features":-1,"out_features":3})", "in_features"},
      {"2_Dense/config.json",
       R"({"in_features":2,"out_features":3,"activation_function":"torch.nn.ReLU"})", "ReLU"},
      {"2_Dense/model.safetensors", "x", "model.safetensors"},
      {"sentence_bert_config.json", R"({"max_seq_length":"long"})", "max_seq_length"},
      {"sentence_bert_config.json", R"({"max_seq_length":0})", "max_seq_length is 0"},
      {"config_sentence_transformers.json", R"({"prompts":[]})", "prompts"},
      {"config_sentence_transformers.json", R"({"default_prompt_name":"x"})",
       "expected a key of prompts"},
      {"config_sentence_transformers.json", R"({"similarity_fn_name":"maxsim"})", "maxsim"}};
  for (const auto& [file, text, part] : kCases) {
    SCOPED_TRACE(text);
    const TemporaryFolder folder;
    fill(folder);
    folder.write(file, text);
    try {
      read_sentence_folder(folder.path());
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(SentenceFolder, SingleLabelScoresDefaultToSigmoid) {
  const auto read = [](const char* text) {
    return parse_score_config(parse_json(text, "config"), "config.json");
  };
  EXPECT_TRUE(read(R"({"id2label":{"0":"x"}})").sigmoid);
  EXPECT_FALSE(read("{}").sigmoid);
  EXPECT_FALSE(read(R"({"num_labels":1,"sentence_transformers":
      {"activation_fn":"torch.nn.modules.linear.Identity"}})")
                   .sigmoid);
  EXPECT_THROW(read(R"({"id2label":{}})"), Error);
}

TEST(SentenceFolder, ReadsGgufMetadata) {
  ModelFile file;
  file.metadata.set("general.architecture", std::string("gemma-embedding"));
  file.metadata.set("gemma-embedding.pooling_type", int64_t{1});
  file.metadata.set("gemma-embedding.dense_2_feat_in", int64_t{2});
  file.tensors.push_back({"dense_2.weight", DType::kF32, {3, 2}, {}});
  const SentenceConfig config = read_gguf_sentence(file);
  EXPECT_EQ(config.pooling, PoolingKind::kMean);
  ASSERT_EQ(config.dense.size(), 1U);
  EXPECT_EQ(config.dense[0].out, 3);
  file.metadata.set("gemma-embedding.dense_2_feat_in", int64_t{5});
  EXPECT_THROW(read_gguf_sentence(file), Error);
  file.metadata.set("gemma-embedding.pooling_type", int64_t{9});
  EXPECT_THROW(read_gguf_sentence(file), Error);
}

}  // namespace
}  // namespace veery
