#include "model/arch/entry.h"

#include <algorithm>

#include "base/error.h"
#include "model/arch/registry.h"
#include "model/layers.h"

namespace veery {
namespace {

// Tensors that an MTP layer must have.
constexpr std::string_view kDraftParts[] = {"nextn.eh_proj", "nextn.enorm", "nextn.hnorm",
                                            "attn_norm",     "attn_q",      "attn_k",
                                            "attn_v",        "attn_output", "ffn_norm"};

/// A definition traced for one of a model's entries.
class Traced {
 public:
  Traced(const ModelFile& file, const TransformerConfig& config, TraceMode mode, const char* name)
      : entry_{.name = name, .graph = {}, .roots = {}},
        file_(file),
        trace_(entry_.graph, mode, Weights(weight_rules(config.architecture), file)),
        output_(find_architecture(config.architecture).define(trace_, config)) {}

  Trace& trace() { return trace_; }
  /// Returns the output of the last layer for all rows.
  Array last_layer() {
    const int32_t layer = trace_.layer();
    return {entry_.graph, trace_.named().at(fmt::format("blk.{}.out", layer))};
  }
  Array output() const { return output_; }
  /// Returns the number of rows of a matrix that the entry requires.
  int64_t rows(const char* name, const char* purpose) const {
    const TensorView* tensor = file_.find(name);
    if (tensor == nullptr || tensor->shape.size() != 2)
      throw Error(ErrorKind::kUnsupported, "{}: missing matrix {}, which {} needs", file_.path,
                  name, purpose);
    return tensor->shape[0];
  }
  /// Throws kFormat, naming the tensor, if the file lacks a weight of the definition, or has one
  /// that its architecture does not have.
  Entry finish(const std::map<std::string, Array>& roots) {
    trace_.check_weights();
    for (const auto& [name, array] : roots) entry_.roots[name] = array.value();
    return std::move(entry_);
  }

 private:
  Entry entry_;
  const ModelFile& file_;
  Trace trace_;
  Array output_;
};

// Returns activation(x W^T + b).
Array dense(Trace& t, const std::string& name, Array x, const DenseLayer& layer) {
  return activate(project(t, name, x, layer.out), layer.activation);
}

}  // namespace

Value Entry::root(const std::string& root_name) const {
  const auto found = roots.find(root_name);
  if (found == roots.end())
    throw Error(ErrorKind::kBug, "the entry {} has no root {}", name, root_name);
  return found->second;
}

std::vector<Value> Entry::roots_of(const std::string& prefix) const {
  std::vector<Value> found;
  for (const auto& [root_name, value] : roots)
    if (root_name.starts_with(prefix)) found.push_back(value);
  return found;
}

Entry transcribe_entry(const ModelFile& file, const TransformerConfig& config) {
  if (config.source.layers == 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: a {} model has no audio encoder, expected a Whisper model", file.path,
                config.architecture);
  Traced traced(file, config, TraceMode::kServe, "transcribe");
  std::map<std::string, Array> roots = {{"logits", traced.output()},
                                        {"best", argmax(traced.output())}};
  const std::vector<Array> written =
      find_architecture(config.architecture).encoder(traced.trace(), config);
  roots["hidden"] = written[0];
  for (size_t i = 1; i < written.size(); ++i) roots[fmt::format("source.{}", i - 1)] = written[i];
  Entry entry = traced.finish(roots);
  for (int32_t i = 0; i < config.layers; ++i) {
    const std::string query = fmt::format("blk.{}.cross_attn.q", i);
    entry.roots[query] = traced.trace().named().at(query);
  }
  return entry;
}

Entry decode_entry(const ModelFile& file, const TransformerConfig& config) {
  if (config.attention.mask != Mask::kCausal)
    throw Error(ErrorKind::kUnsupported,
                "{}: a {} model is an encoder, which gives embeddings (veery embed) or scores "
                "(veery rerank), not text",
                file.path, config.architecture);
  if (config.source.layers > 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: a {} model transcribes speech (veery transcribe) and does not generate other "
                "text",
                file.path, config.architecture);
  Traced traced(file, config, TraceMode::kServe, "decode");
  std::map<std::string, Array> roots = {{"logits", traced.output()},
                                        {"best", argmax(traced.output())},
                                        {"top", top_k(traced.output(), kTopLogits)}};
  if (has_draft_head(file, config))
    roots["rows"] = norm(traced.trace(), config, "output_norm", traced.last_layer());
  return traced.finish(roots);
}

bool has_draft_head(const ModelFile& file, const TransformerConfig& config) {
  if (config.mtp_layers == 0 || config.recurrent.mixer != Mixer::kDelta) return false;
  return std::ranges::all_of(kDraftParts, [&](std::string_view part) {
    return file.find(fmt::format("blk.{}.{}.weight", config.layers, part)) != nullptr;
  });
}

Entry draft_entry(const ModelFile& file, const TransformerConfig& config) {
  if (!has_draft_head(file, config))
    throw Error(ErrorKind::kUnsupported,
                "{}: the model has no supported multi-token prediction layer (tensors "
                "blk.{}.nextn.eh_proj ... of a qwen3next, qwen35 or qwen35moe model)",
                file.path, config.layers);
  Entry entry{.name = "draft", .graph = {}, .roots = {}};
  Trace trace(entry.graph, TraceMode::kServe, Weights(weight_rules(config.architecture), file));
  const MtpRows rows = mtp_rows(trace, config);
  trace.check_weights();
  entry.roots = {{"best", argmax(rows.logits).value()}, {"hidden", rows.hidden.value()}};
  return entry;
}

Entry any_decode_entry(const ModelFile& file, const TransformerConfig& config) {
  return config.source.layers > 0 ? transcribe_entry(file, config) : decode_entry(file, config);
}

Entry embed_entry(const ModelFile& file, const TransformerConfig& config,
                  const EmbeddingConfig& embedding) {
  Traced traced(file, config, TraceMode::kEncode, "embed");
  Array x = traced.output();
  if (embedding.pooling) x = pool(x, *embedding.pooling);
  for (size_t i = 0; i < embedding.dense.size(); ++i)
    x = dense(traced.trace(), fmt::format("dense.{}", i), x, embedding.dense[i]);
  const int64_t columns_there = x.shape().cols();
  if (embedding.dimensions > columns_there)
    throw Error(ErrorKind::kInput, "{} dimensions requested, but an embedding has {}",
                embedding.dimensions, columns_there);
  if (embedding.dimensions > 0) x = columns(x, 0, embedding.dimensions);
  if (embedding.normalize) x = l2_norm(x);
  return traced.finish({{"embedding", x}});
}

Entry score_entry(const ModelFile& file, const TransformerConfig& config,
                  const ScoreConfig& score) {
  Traced traced(file, config, TraceMode::kEncode, "score");
  Trace& t = traced.trace();
  Array x = pool(traced.output(), score.pooling);
  if (score.logits) {
    const Array head =
        t.weight(config.output.tied ? "token_embd" : "output", {config.vocab, config.dim});
    return traced.finish({{"score", linear(x, head, {}, Precision::kHigh)}});
  }
  const int64_t labels = traced.rows("cls.output.weight", "a score");
  if (t.has_weight("cls")) x = dense(t, "cls", x, {config.dim, score.activation});
  if (t.has_weight("cls.norm")) x = norm(t, config, "cls.norm", x);
  return traced.finish({{"score", project(t, "cls.output", x, labels)}});
}

Entry inspect_entry(const ModelFile& file, const TransformerConfig& config, bool logits) {
  if (config.source.layers > 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: the decoder of a {} model attends to the output of an encoder, which cannot "
                "be inspected",
                file.path, config.architecture);
  const bool head = logits && config.attention.mask == Mask::kCausal;
  Traced traced(file, config, head ? TraceMode::kTrain : TraceMode::kEncode, "inspect");
  Entry entry = traced.finish({});
  entry.roots = traced.trace().named();
  return entry;
}

}  // namespace veery
