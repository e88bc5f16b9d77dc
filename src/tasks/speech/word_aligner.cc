#include "tasks/speech/word_aligner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "import/folder/speech_keys.h"
#include "tasks/inspect/attention_map.h"

namespace veery {
namespace {

// Tokens of a run, whose logits are all in memory.
constexpr int64_t kRunTokens = 64;

// Returns the probability of `id` among text tokens.
float text_probability(std::span<const float> logits, int32_t end, int32_t id) {
  const auto text = logits.first(static_cast<size_t>(end));
  const float largest = *std::ranges::max_element(text);
  double sum = 0;
  for (const float x : text) sum += std::exp(x - largest);
  return static_cast<float>(std::exp(text[static_cast<size_t>(id)] - largest) / sum);
}

}  // namespace

/// The tokens of the pass, and the queries and probabilities that are kept.
struct WordAligner::Pass {
  struct Layer {
    int32_t layer = 0;
    std::vector<int32_t> heads;  ///< ascending
    std::vector<float> queries;  ///< [tokens][dim]
  };

  int32_t sequence;
  std::vector<int32_t> tokens;  ///< start, <|notimestamps|>, text, <|endoftext|>
  int64_t first;                ///< index of the token before the first text token
  int64_t positions;
  std::vector<Layer> layers = {};
  std::vector<RootId> roots = {};         ///< of the layers
  std::vector<float> probabilities = {};  ///< of the text tokens
};

WordAligner::WordAligner(Session& session, const SpeechTokens& tokens, const SpeechKeys& keys)
    : session_(session), tokens_(tokens), keys_(keys) {}

void WordAligner::require_heads() const {
  if (keys_.alignment_heads.empty())
    throw Error(ErrorKind::kUnsupported,
                "{}: times of words need alignment heads, found none: expected alignment_heads in "
                "generation_config.json, {} in a GGUF file",
                session_.model().path(), kAlignmentKey);
}

// Runs some of the tokens and keeps queries and probabilities of their rows.
void WordAligner::run_piece(Pass& pass, int64_t begin, int64_t end) {
  const auto ids = std::span<const int32_t>(pass.tokens)
                       .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  const RunPart part{.sequence = pass.sequence,
                     .ids = ids,
                     .outputs = static_cast<int32_t>(ids.size()),
                     .roots = pass.roots};
  session_.run({&part, 1});
  for (int64_t i = begin; i < end; ++i) {
    for (size_t k = 0; k < pass.layers.size(); ++k) {
      const std::span<const float> row = session_.row(pass.roots[k], i - begin);
      pass.layers[k].queries.insert(pass.layers[k].queries.end(), row.begin(), row.end());
    }
    if (i >= pass.first && i + 2 < std::ssize(pass.tokens))
      pass.probabilities.push_back(
          text_probability(session_.logits(static_cast<int32_t>(i - begin)), tokens_.end,
                           pass.tokens[static_cast<size_t>(i + 1)]));
  }
}

// Returns the attention weights of all alignment heads, layer by layer.
AlignmentWeights WordAligner::weights_of(Pass& pass) const {
  const TransformerConfig& c = session_.model().config();
  const auto rows = static_cast<int32_t>(pass.tokens.size());
  AlignmentWeights weights{.heads = std::ssize(keys_.alignment_heads),
                           .tokens = rows,
                           .positions = pass.positions,
                           .values = {}};
  weights.values.resize(static_cast<size_t>(weights.heads * rows * pass.positions));
  RunBlock block(std::span<const InputSpec>(), rows);
  block.add_span(0, rows, 0, static_cast<int32_t>(pass.positions));
  const AttendAttr attend{.heads = c.attention.heads,
                          .kv_heads = c.attention.heads,
                          .scale = c.attention.scale,
                          .mask = Mask::kSource};
  const auto matrix = [&](std::vector<float>& values) {
    return Operand{.data = reinterpret_cast<std::byte*>(values.data()),
                   .stride = c.dim * int64_t{sizeof(float)},
                   .rows = std::ssize(values) / c.dim,
                   .cols = static_cast<int32_t>(c.dim),
                   .layout = Layout::kRowMajor};
  };
  float* out = weights.values.data();
  for (Pass::Layer& layer : pass.layers) {
    std::vector<float> keys = session_.source_values(
        pass.sequence, fmt::format("blk.{}.cross_attn.k_source", layer.layer), pass.positions);
    const Operand q = matrix(layer.queries), k = matrix(keys), sinks;
    attention_maps({attend, q, k, sinks, block.shape, pass.positions}, layer.heads,
                   session_.model().pool(), out);
    out += std::ssize(layer.heads) * rows * pass.positions;
  }
  return weights;
}

std::vector<SpokenWord> WordAligner::align(int32_t sequence, std::span<const int32_t> start,
                                           std::span<const int32_t> text, int64_t positions,
                                           bool characters) {
  require_heads();
  if (text.empty() || positions < 1) return {};
  Pass pass{.sequence = sequence,
            .tokens = {start.begin(), start.end()},
            .first = std::ssize(start),
            .positions = positions};
  pass.tokens.push_back(tokens_.no_times);
  pass.tokens.insert(pass.tokens.end(), text.begin(), text.end());
  pass.tokens.push_back(tokens_.end);
  std::map<int32_t, std::vector<int32_t>> heads;
  for (const auto& [layer, head] : keys_.alignment_heads) heads[layer].push_back(head);
  for (auto& [layer, of_layer] : heads) {
    std::ranges::sort(of_layer);
    pass.layers.push_back({.layer = layer, .heads = std::move(of_layer)});
    pass.roots.push_back(session_.root(fmt::format("blk.{}.cross_attn.q", layer)));
  }
  session_.rewind(sequence, 0);
  const auto count = std::ssize(pass.tokens);
  for (int64_t at = 0; at < count; at += kRunTokens)
    run_piece(pass, at, std::min(at + kRunTokens, count));
  session_.rewind(sequence, 0);
  // Row `first` predicts the first text token, the last but one the token after the text.
  const std::vector<float> scores = alignment_scores(weights_of(pass), session_.model().pool());
  const int64_t rows = std::ssize(text) + 1;
  const std::vector<int32_t> starts =
      token_starts(std::span(scores).subspan(static_cast<size_t>(pass.first * positions),
                                             static_cast<size_t>(rows * positions)),
                   rows, positions);
  std::vector<SpokenWord> words = split_words(session_.model().tokenizer(), text, characters);
  size_t token = 0;
  for (SpokenWord& word : words) {
    double sum = 0;
    for (size_t i = 0; i < word.tokens.size(); ++i) sum += pass.probabilities[token + i];
    word.probability = static_cast<float>(sum / static_cast<double>(word.tokens.size()));
    word.start = kPositionSeconds * starts[token];
    token += word.tokens.size();
    word.end = kPositionSeconds * starts[token];
  }
  return words;
}

}  // namespace veery
