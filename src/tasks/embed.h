// embed.h: embeddings of texts, and scores of how well documents answer a query.
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

/// Called with texts done and texts in all.
using TextProgress = std::function<void(size_t, size_t)>;

/// What is asked for in place of what the model's files say.
struct EmbedOptions {
  std::optional<PoolingKind> pooling;
  int64_t dimensions = 0;         ///< the first so many (Matryoshka); 0: all
  std::optional<bool> normalize;  ///< to length 1; absent: as the files say, else yes
  int32_t max_tokens = 0;         ///< of a text, special tokens included; 0: what the model takes
  /// The name of a prompt of the files that stands before each text; empty: their default.
  std::string prompt_name;
};

/// Numbers [rows, columns]: one row, or with PoolingKind::kNone one for each token.
struct TextEmbedding {
  std::vector<float> values;
  int64_t rows = 1;
  int32_t tokens = 0;  ///< that it was made of
  int32_t cut = 0;     ///< that were too many and left out
};

/// What an encoder makes of texts, as its files say: the entry "score" where they have a head for
/// scores, else "embed"; each has one root. Of a decoder any_decode_entry().
Entry text_entry(ModelFile& file, const TransformerConfig& config);

/// Texts run together, without padding; what comes out for a text does not depend on the others.
class Embedder {
 public:
  /// Tokens of one run: enough that weights are read seldom, few enough that what is between two
  /// layers stays in the caches.
  static constexpr int32_t kRunTokens = 512;

  /// Throws as Model does, and kInput naming pooling, prompt or dimensions that there are none of.
  Embedder(const std::string& path, const LoadOptions& load, const EmbedOptions& options = {});

  std::vector<TextEmbedding> embed(std::span<const std::string> texts,
                                   const TextProgress& progress = {});
  int64_t columns() const { return columns_; }
  const Model& model() const { return model_; }
  /// Takes the memory for the longest runs at once.
  void reserve() { encoder_.reserve(std::max(Embedder::kRunTokens, max_tokens_)); }
  size_t activation_bytes() const { return encoder_.activation_bytes(); }

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
  int32_t max_tokens = 0;  ///< of query and document together; 0: what the model takes
  bool raw = false;        ///< the model's own numbers, whatever its files say is made of them
  /// The instruction in the prompt of a decoder; empty: retrieval, as the card of Qwen3-Reranker
  /// has it. Cross-encoders take none.
  std::string instruction;
};

struct PairScore {
  float score = 0;
  int32_t tokens = 0, cut = 0;  ///< as in TextEmbedding
};

/// A cross-encoder: query and document are one sequence. Of a decoder (Qwen3-Reranker,
/// arXiv:2506.05176) the score is the share of "yes" beside "no" as the next token, or what its one
/// label says; special tokens in query and document are plain text there.
class Reranker {
 public:
  /// Throws as Model does, and kUnsupported naming what is missing in a model that has no head for
  /// scores, or one with several labels; kInput for an instruction that a model has no place for.
  Reranker(const std::string& path, const LoadOptions& load, const RerankOptions& options = {});

  std::vector<PairScore> score(std::string_view query, std::span<const std::string> documents,
                               const TextProgress& progress = {});
  /// In place of RerankOptions::instruction. Throws kInput for one that the model has no place for.
  void set_instruction(std::string instruction);
  const Model& model() const { return model_; }
  /// Takes the memory for the longest runs at once.
  void reserve() { encoder_.reserve(std::max(Embedder::kRunTokens, options_.max_tokens)); }
  size_t activation_bytes() const { return encoder_.activation_bytes(); }

 private:
  /// Numbers of a row of the head: the score is yes, or yes less no.
  struct Columns {
    int64_t yes, no;  ///< no -1: there is none
  };
  /// What stands around query and document where a decoder is asked.
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
