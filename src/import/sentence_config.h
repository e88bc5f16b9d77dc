// sentence_config.h: what files say of how texts become embeddings or scores: the folders of
// sentence-transformers, and GGUF.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "model/arch/entry.h"

namespace veery {

/// How the rows of a text become one. kNone: they stay (late interaction).
enum class PoolingKind : uint8_t { kNone, kCls, kMean, kLast, kMax, kMeanSqrtLen, kWeightedMean };
/// "none", "cls", "mean", "last", "max", "mean-sqrt-len", "weighted-mean".
std::string_view name(PoolingKind kind);
/// Throws kInput naming those that there are.
PoolingKind pooling_from_name(std::string_view name);

struct SentenceConfig {
  PoolingKind pooling = PoolingKind::kMean;
  bool pooling_given = false;  ///< else it is what is usual for the architecture
  bool normalize = true;
  std::vector<DenseLayer> dense;  ///< their tensors are "dense.INDEX.weight" and ".bias"
  int32_t max_tokens = 0;         ///< of a text, special tokens included; 0: not said
  bool lower_case = false;        ///< texts are put in lower case before they become tokens
  std::map<std::string, std::string> prompts;
  std::string default_prompt;  ///< name of one of them; empty: none
  ScoreConfig score;
  bool sigmoid = false;  ///< scores are sigmoids of what the head gives
};

/// Reads modules.json and what it names, sentence_bert_config.json and
/// config_sentence_transformers.json of a folder, or the keys of GGUF, and adds the tensors of
/// dense layers to `file`. What is absent has the defaults above. Throws kFormat or kUnsupported in
/// one line that names file and key, what was found and what was expected.
SentenceConfig read_sentence_config(ModelFile& file, const TransformerConfig& config);

}  // namespace veery
