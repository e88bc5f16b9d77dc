// entry.h: the graphs of a model: next-token prediction, MTP drafts, transcription, embeddings,
// scores of text pairs, inspection.
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

/// A graph of a model with named results.
struct Entry {
  std::string name;  ///< "decode", "draft", "transcribe", "embed", "score" or "inspect"
  Graph graph;
  std::map<std::string, Value> roots;

  /// Returns a result. Throws kBug, naming entry and root, if it does not exist.
  Value root(const std::string& root_name) const;
  /// Returns all results whose names begin with `prefix`.
  std::vector<Value> roots_of(const std::string& prefix) const;
};

/// A dense layer after pooling: tensors "dense.INDEX.weight" [out, in] and optionally
/// "dense.INDEX.bias".
struct DenseLayer {
  int64_t out = 0;
  Activation activation = Activation::kNone;
};

/// How the hidden states of a text become its embedding.
struct EmbeddingConfig {
  /// Absent: no pooling, one embedding per token (late interaction, Khattab and Zaharia,
  /// arXiv:2004.12832).
  std::optional<Pooling> pooling = Pooling::kMean;
  std::vector<DenseLayer> dense;
  /// Number of leading columns to keep (Matryoshka embeddings, Kusupati et al., arXiv:2205.13147);
  /// 0: all.
  int64_t dimensions = 0;
  bool normalize = true;  ///< to unit length
};

/// The scoring head for a pair of texts: tensors "cls.weight" [dim, dim] with `activation`
/// (optional), "cls.norm.weight" (optional) and "cls.output.weight" [labels, dim].
struct ScoreConfig {
  Pooling pooling = Pooling::kFirst;
  Activation activation = Activation::kTanh;
  /// There is no scoring head: the scores are next-token logits [sequences, vocab].
  bool logits = false;
};

/// Number of tokens in the root "top".
inline constexpr int32_t kTopLogits = 128;
/// "decode": roots "logits" [outputs, vocab], "best" [outputs, 1] (argmax) and "top" (the most
/// probable tokens, op top_k). With an MTP layer also "rows" [rows, dim], the hidden states of all
/// rows after the final norm. Throws kUnsupported for an encoder.
Entry decode_entry(const ModelFile& file, const TransformerConfig& config);

/// Returns whether the model has a multi-token prediction (MTP) layer of a supported kind: those of
/// Qwen3-Next and Qwen 3.5.
bool has_draft_head(const ModelFile& file, const TransformerConfig& config);

/// "draft": the MTP layer, with roots "best" [outputs, 1] and "hidden" [outputs, dim]. Input
/// "features" [rows, dim]: for each token, the row of "rows" or "hidden" of the preceding position.
/// Throws kUnsupported unless has_draft_head().
Entry draft_entry(const ModelFile& file, const TransformerConfig& config);

/// "transcribe": the roots of "decode"; "hidden" [rows, dim], the encoder's output; "source.0" ...
/// "source.N", which write it to the cross-attention cache; and "blk.I.cross_attn.q" [rows, dim]
/// for each layer I, the cross-attention queries. Throws kUnsupported for a model without an audio
/// encoder.
Entry transcribe_entry(const ModelFile& file, const TransformerConfig& config);

/// Returns "transcribe" for models with cross-attention, otherwise "decode": the graph of any model
/// that generates text.
Entry any_decode_entry(const ModelFile& file, const TransformerConfig& config);

/// "embed": root "embedding" [sequences, columns], or [rows, columns] without pooling. Throws
/// kInput, naming both numbers, if `dimensions` exceeds the size of the embedding.
Entry embed_entry(const ModelFile& file, const TransformerConfig& config,
                  const EmbeddingConfig& embedding);

/// "score": root "score" [sequences, labels]. Throws kUnsupported, naming the tensor, for a model
/// without a scoring head.
Entry score_entry(const ModelFile& file, const TransformerConfig& config, const ScoreConfig& score);

/// "inspect": all named values of all rows, without caches: "embedding", "blk.0.attn.q",
/// "blk.0.attn.k", "blk.0.out", "hidden" (after the final norm) and, for decoders with `logits`,
/// "logits". Throws kUnsupported for a decoder with cross-attention.
Entry inspect_entry(const ModelFile& file, const TransformerConfig& config, bool logits);

}  // namespace veery
