// entry.h: the graphs that can be made of a model: for the next token, drafts, transcripts,
// embeddings, scores of pairs of texts, inspection.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/elementwise.h"
#include "graph/ops/rows.h"
#include "model/config.h"

namespace veery {

/// One graph of a model, and the values that can be asked for by name.
struct Entry {
  std::string name;  ///< "decode", "draft", "transcribe", "embed", "score" or "inspect"
  Graph graph;
  std::map<std::string, Value> roots;

  /// Throws kBug naming entry and root if there is none.
  Value root(const std::string& root_name) const;
  /// All roots whose names begin so.
  std::vector<Value> roots_of(const std::string& prefix) const;
};

/// One layer behind the pooled row: the tensors "dense.INDEX.weight" [out, in] and, if there is
/// one, "dense.INDEX.bias".
struct DenseLayer {
  int64_t out = 0;
  Activation activation = Activation::kNone;
};

/// What is made of the hidden states of a text.
struct EmbeddingConfig {
  /// Absent: nothing is pooled, each token has an embedding (late interaction, Khattab and Zaharia,
  /// arXiv:2004.12832).
  std::optional<Pooling> pooling = Pooling::kMean;
  std::vector<DenseLayer> dense;
  /// The first so many columns (Kusupati et al., arXiv:2205.13147); 0: all.
  int64_t dimensions = 0;
  bool normalize = true;  ///< to length 1
};

/// What scores a pair of texts: the tensors "cls.weight" [dim, dim], if there is one, with
/// `activation`, "cls.norm.weight", if there is one, and "cls.output.weight" [labels, dim].
struct ScoreConfig {
  Pooling pooling = Pooling::kFirst;
  Activation activation = Activation::kTanh;
  /// No head of its own: the scores are the logits of the next token, [sequences, vocab].
  bool logits = false;
};

/// Tokens of the root "top".
inline constexpr int32_t kTopLogits = 128;
/// "decode": roots "logits" [outputs, vocab], "best" [outputs, 1] and "top", the node whose outputs
/// are the most probable tokens (op top_k); with a draft head also "rows"
/// [rows, dim], the hidden states of all rows behind the last norm. Throws kUnsupported for an
/// encoder.
Entry decode_entry(const ModelFile& file, const TransformerConfig& config);

/// Whether a model has a layer behind the others that predicts one token further, of a kind that
/// draft_entry() knows: those of Qwen3-Next and Qwen 3.5.
bool has_draft_head(const ModelFile& file, const TransformerConfig& config);

/// "draft": of the layer that predicts one token further, roots "best" [outputs, 1] and "hidden"
/// [outputs, dim]. Input "features" [rows, dim]: of each token, the row of "rows" or "hidden" in
/// front of it. Throws kUnsupported where has_draft_head() is false.
Entry draft_entry(const ModelFile& file, const TransformerConfig& config);

/// "transcribe": those of "decode", "hidden" [rows, dim], what the encoder gives, "source.0" to
/// "source.N", which write it for the decoder, and "blk.0.cross_attn.q" to that of the last layer
/// [rows, dim], the queries that attend to it. Throws kUnsupported for a model without an encoder
/// of sound.
Entry transcribe_entry(const ModelFile& file, const TransformerConfig& config);

/// That of "transcribe" where the decoder attends to an encoder, else that of "decode": what every
/// model that writes texts can be looked at with.
Entry any_decode_entry(const ModelFile& file, const TransformerConfig& config);

/// "embed": root "embedding" [sequences, columns], or [rows, columns] without pooling. Throws
/// kInput naming both numbers if more dimensions are asked for than there are.
Entry embed_entry(const ModelFile& file, const TransformerConfig& config,
                  const EmbeddingConfig& embedding);

/// "score": root "score" [sequences, labels]. Throws kUnsupported, naming the tensor, for a model
/// without such a head.
Entry score_entry(const ModelFile& file, const TransformerConfig& config, const ScoreConfig& score);

/// "inspect": every value that the definition names, of all rows, without caches: "embedding",
/// "blk.0.attn.q", "blk.0.attn.k", "blk.0.out", "hidden" (behind the last norm) and, of a decoder
/// and with `logits`, "logits". Throws kUnsupported for a decoder that attends to an encoder.
Entry inspect_entry(const ModelFile& file, const TransformerConfig& config, bool logits);

}  // namespace veery
