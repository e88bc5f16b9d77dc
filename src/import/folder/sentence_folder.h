// sentence_folder.h: reads pooling and scoring settings from sentence-transformers folders and from
// GGUF files of encoders.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "file/model_file.h"

namespace veery {

enum class PoolingKind : uint8_t { kCls, kMean, kLast, kMax, kMeanSqrtLen, kWeightedMean, kNone };
enum class DenseActivation : uint8_t { kIdentity, kTanh };
enum class Similarity : uint8_t { kCosine, kDot, kEuclidean, kManhattan };

/// A dense layer after pooling: activation(x weight^T + bias).
struct SentenceDense {
  int64_t in = 0, out = 0;
  DenseActivation activation = DenseActivation::kTanh;
  bool has_bias = true;
  TensorView weight;               ///< (out, in)
  std::optional<TensorView> bias;  ///< (out)
};

struct SentenceConfig {
  bool given = false;  ///< the files contain such settings; otherwise all members are defaults
  PoolingKind pooling = PoolingKind::kMean;
  bool is_ranker = false;                      ///< the output is a score, not an embedding
  int64_t pooled_width = 0;                    ///< width of the pooled vector; 0: not stated
  bool include_prompt = true;                  ///< tokens of the prompt are pooled too
  std::vector<SentenceDense> dense;            ///< in order of application, after pooling
  bool normalize = false;                      ///< to length 1, as the last step
  int64_t max_length = 0;                      ///< in tokens, including special ones; 0: not stated
  bool lower_case = false;                     ///< texts are lower-cased before tokenisation
  std::map<std::string, std::string> prompts;  ///< by name
  std::string default_prompt;                  ///< a name in `prompts`; empty: none
  Similarity similarity = Similarity::kCosine;
  int64_t yes = -1, no = -1;        ///< LogitScore: the token ids to compare; -1: not stated
  std::vector<std::string> labels;  ///< labels of a GGUF file's score head, if stated
  std::string transformer;          ///< subfolder with the model; empty: the folder itself
  std::vector<std::shared_ptr<MappedFile>> mappings;  ///< keep the data of the tensors alive
};

/// An entry of modules.json.
struct SentenceModule {
  enum class Kind : uint8_t { kTransformer, kPooling, kDense, kNormalize, kDropout, kLogitScore };
  Kind kind;
  std::string path;  ///< a name in the folder; empty: the folder itself
};

/// Parse the individual files from untrusted JSON; `where` names the file in messages. Throw
/// kFormat, or kUnsupported naming the unsupported setting.
std::vector<SentenceModule> parse_sentence_modules(const Json& json, const std::string& where);
void parse_logit_score(const Json& json, const std::string& where, SentenceConfig& config);
void parse_pooling(const Json& json, const std::string& where, SentenceConfig& config);
SentenceDense parse_dense(const Json& json, const std::string& where);
void parse_sentence_settings(const Json& json, const std::string& where, SentenceConfig& config);

/// Reads modules.json and everything that it names, sentence_bert_config.json and
/// config_sentence_transformers.json. Missing files leave the defaults. The subfolder of a module
/// must be a single name and not a link. Throws as above, and kNotFound if the files of a module
/// are missing.
SentenceConfig read_sentence_folder(const std::string& folder);

/// Reads the same settings from a GGUF file: ARCH.pooling_type, ARCH.dense_2_feat_in and similar
/// keys, and dense_2.weight, dense_3.weight. Vectors are normalised, as other programs do for these
/// files.
SentenceConfig read_gguf_sentence(const ModelFile& file);

/// Conversion of a cross-encoder's logits to scores.
struct ScoreLabels {
  int64_t labels = 2;    ///< transformers' default
  bool sigmoid = false;  ///< otherwise scores are the logits
};

/// Parses config.json: num_labels or id2label, and sentence-transformers' additions.
ScoreLabels parse_score_config(const Json& json, const std::string& where);

}  // namespace veery
