// sentence_folder.h: what makes one vector, or one score, of a model's rows: what folders of
// sentence-transformers and GGUF files of encoders say.
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

/// activation(x weight^T + bias) of the pooled vector.
struct SentenceDense {
  int64_t in = 0, out = 0;
  DenseActivation activation = DenseActivation::kTanh;
  bool has_bias = true;
  TensorView weight;               ///< (out, in)
  std::optional<TensorView> bias;  ///< (out)
};

struct SentenceConfig {
  bool given = false;  ///< the files say how rows become a vector; else all here is a default
  PoolingKind pooling = PoolingKind::kMean;
  bool is_ranker = false;            ///< the rows become a score: nothing is pooled for a vector
  int64_t pooled_width = 0;          ///< of the vector that is pooled; 0: not said
  bool include_prompt = true;        ///< rows of the prompt are pooled too
  std::vector<SentenceDense> dense;  ///< in this order, behind pooling
  bool normalize = false;            ///< to length 1, last of all
  int64_t max_length = 0;            ///< tokens, special ones included; 0: not said
  bool lower_case = false;           ///< texts are put into lower case before the tokenizer
  std::map<std::string, std::string> prompts;  ///< by name
  std::string default_prompt;                  ///< a name in `prompts`; empty: none
  Similarity similarity = Similarity::kCosine;
  int64_t yes = -1, no = -1;  ///< LogitScore: the tokens whose logits are compared; -1: not said
  std::vector<std::string> labels;  ///< of a GGUF file's head for scores, if it says them
  std::string transformer;          ///< the subfolder with the model itself; empty: the folder
  std::vector<std::shared_ptr<MappedFile>> mappings;  ///< what the tensors look into
};

/// One entry of modules.json.
struct SentenceModule {
  enum class Kind : uint8_t { kTransformer, kPooling, kDense, kNormalize, kDropout, kLogitScore };
  Kind kind;
  std::string path;  ///< a name in the folder, or empty: the folder itself
};

/// The parts of the files, each from JSON that may be anything; `where` names it in messages. They
/// throw kFormat, or kUnsupported naming what is not done.
std::vector<SentenceModule> parse_sentence_modules(const Json& json, const std::string& where);
void parse_logit_score(const Json& json, const std::string& where, SentenceConfig& config);
void parse_pooling(const Json& json, const std::string& where, SentenceConfig& config);
SentenceDense parse_dense(const Json& json, const std::string& where);
void parse_sentence_settings(const Json& json, const std::string& where, SentenceConfig& config);

/// Reads modules.json and all that it names, sentence_bert_config.json and
/// config_sentence_transformers.json. Files that are not there leave defaults. A module's subfolder
/// is one plain name and no link. Throws as above, kNotFound for a module whose files are missing.
SentenceConfig read_sentence_folder(const std::string& folder);

/// The same from ARCH.pooling_type, ARCH.dense_2_feat_in and its like, and dense_2.weight,
/// dense_3.weight. Vectors are normalised, as all who serve these files do it.
SentenceConfig read_gguf_sentence(const ModelFile& file);

/// How a cross-encoder's logits become scores.
struct ScoreLabels {
  int64_t labels = 2;    ///< transformers' default
  bool sigmoid = false;  ///< else they stay as they are
};

/// From config.json: num_labels or id2label, and what sentence-transformers adds to it.
ScoreLabels parse_score_config(const Json& json, const std::string& where);

}  // namespace veery
