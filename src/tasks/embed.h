// embed.h: embeddings of texts, and scores of documents for a query (reranking).
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/folder/sentence_config.h"
#include "tasks/encoder.h"

namespace veery {

/// Called with the texts done and the number of texts.
using TextProgress = std::function<void(size_t, size_t)>;

/// Overrides of the model's files.
struct EmbedOptions {
  std::optional<PoolingKind> pooling;
  int64_t dimensions = 0;         ///< keep only the first ones (Matryoshka); 0: all
  std::optional<bool> normalize;  ///< to length 1; absent: as the files say, else true
  int32_t max_tokens = 0;         ///< of a text, with special tokens; 0: limit of the model
  /// Name of the prompt in the files that prefixes each text; empty: their default.
  std::string prompt_name;
};

/// Values [rows, columns]: one row, or with PoolingKind::kNone one per token.
struct TextEmbedding {
  std::vector<float> values;
  int64_t rows = 1;
  int32_t tokens = 0;  ///< evaluated
  int32_t cut = 0;     ///< cut off at the limit
};

/// Returns the entry of a model for texts: any_decode_entry() of a decoder; of an encoder the entry
/// "score" if it has a classification head, else "embed", each with one root.
Entry text_entry(ModelFile& file, const TransformerConfig& config);

/// Embeds texts in batches without padding. The result of a text does not depend on the others.
class Embedder {
 public:
  /// Tokens of a batch: enough to amortise reading the weights, few enough that activations between
  /// two layers stay in the CPU caches.
  static constexpr int32_t kRunTokens = 512;

  /// Throws as Model does, and kInput naming an unknown prompt or invalid pooling or dimensions.
  Embedder(const std::string& path, const LoadOptions& load, const EmbedOptions& options = {});

  std::vector<TextEmbedding> embed(std::span<const std::string> texts,
                                   const TextProgress& progress = {});
  int64_t columns() const { return columns_; }
  const Model& model() const { return model_; }
  /// Allocates the memory of the largest batch.
  void reserve() { encoder_.reserve(std::max(Embedder::kRunTokens, max_tokens_)); }
  ActivationBytes activation_bytes() const { return encoder_.activation_bytes(); }

 private:
  EmbedOptions options_;
  std::shared_ptr<SentenceSetup> setup_;
  Model model_;
  Encoder encoder_;
  std::string prompt_;
  int32_t max_tokens_ = 0;
  int64_t columns_ = 0;
};

struct RerankOptions {
  int32_t max_tokens = 0;  ///< of query and document together; 0: limit of the model
  bool raw = false;        ///< skip the sigmoid that the files demand
  /// Instruction in the prompt of a decoder; empty: retrieval, as on the model card of
  /// Qwen3-Reranker. Cross-encoders accept none.
  std::string instruction;
};

struct PairScore {
  float score = 0;
  int32_t tokens = 0, cut = 0;  ///< as in TextEmbedding
};

/// Scores documents for a query. The model is a cross-encoder, which reads query and document as
/// one sequence, or a decoder (Qwen3-Reranker, arXiv:2506.05176). The score of a decoder is the
/// probability of the next token "yes" against "no", or the single label of its classification
/// head; special tokens in the texts are plain text then.
class Reranker {
 public:
  /// Throws as Model does; kUnsupported naming what is missing if the model has no classification
  /// head, or one with several labels; kInput for an instruction if the model accepts none.
  Reranker(const std::string& path, const LoadOptions& load, const RerankOptions& options = {});

  std::vector<PairScore> score(std::string_view query, std::span<const std::string> documents,
                               const TextProgress& progress = {});
  /// Replaces RerankOptions::instruction. Throws kInput if the model accepts none.
  void set_instruction(std::string instruction);
  const Model& model() const { return model_; }
  /// Allocates the memory of the largest batch.
  void reserve() { encoder_.reserve(std::max(Embedder::kRunTokens, options_.max_tokens)); }
  ActivationBytes activation_bytes() const { return encoder_.activation_bytes(); }

 private:
  /// Columns of the head: the score is value[yes] - value[no], or value[yes] if `no` is -1.
  struct Columns {
    int64_t yes, no;
  };
  /// Tokens around query and document in the prompt of a decoder.
  struct PromptForm {
    std::vector<int32_t> before, after;
  };
  Columns find_columns(int64_t labels) const;
  int64_t token(const char* word) const;
  PromptForm make_form() const;
  Encoding encode(std::string_view query, std::string_view document) const;

  RerankOptions options_;
  std::shared_ptr<SentenceSetup> setup_;
  Model model_;
  Encoder encoder_;
  Columns columns_;
  PromptForm form_;
};

}  // namespace veery
