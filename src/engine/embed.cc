#include "engine/embed.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/characters.h"

namespace veery {
namespace {

// Tokens of one run: enough that weights are read seldom, few enough that what is between two
// layers stays in the caches.
constexpr int64_t kRunTokens = 512;

LoadOptions with_entry(LoadOptions load,
                       std::function<Entry(ModelFile&, const TransformerConfig&)> entry) {
  load.entry = std::move(entry);
  return load;
}

int32_t most_tokens(int32_t wanted, const SentenceConfig& files, const Model& model) {
  const int32_t context = model.options().context;
  if (wanted > context)
    throw Error(ErrorKind::kInput, "{} tokens of a text are asked for, the model takes {}", wanted,
                context);
  if (wanted > 0) return wanted;
  return files.max_length > 0 ? static_cast<int32_t>(std::min<int64_t>(files.max_length, context))
                              : context;
}

// The text of a prompt of the files.
std::string find_prompt(const SentenceConfig& config, const std::string& name) {
  const std::string& wanted = name.empty() ? config.default_prompt : name;
  if (wanted.empty()) return {};
  const auto found = config.prompts.find(wanted);
  if (found != config.prompts.end()) return found->second;
  std::string known;
  for (const auto& [other, text] : config.prompts)
    known += (known.empty() ? "" : ", ") + printable(other);
  throw Error(ErrorKind::kInput, "there is no prompt '{}', {}", printable(wanted),
              known.empty() ? "the model has none" : "expected one of " + known);
}

std::string prepared(const SentenceConfig& config, std::string_view prompt, std::string_view text) {
  std::string whole(prompt);
  whole += text;
  return config.lower_case ? lower_case(whole) : whole;
}

/// Calls done(first, last) for runs of texts whose tokens together are about kRunTokens.
template <typename Run>
void in_runs(const std::vector<Encoding>& encodings, const Run& run) {
  for (size_t first = 0, last = 0; first < encodings.size(); first = last) {
    int64_t tokens = 0;
    while (last < encodings.size() &&
           (last == first || tokens + std::ssize(encodings[last].ids) <= kRunTokens))
      tokens += std::ssize(encodings[last++].ids);
    run(first, last);
  }
}

std::vector<TokenSequence> sequences(std::span<const Encoding> encodings) {
  std::vector<TokenSequence> all;
  for (const Encoding& encoding : encodings) all.push_back({encoding.ids, encoding.types});
  return all;
}

// Texts become tokens on all threads.
template <typename Encode>
std::vector<Encoding> encode_all(ThreadPool& pool, size_t count, const Encode& encode) {
  std::vector<Encoding> encodings(count);
  pool.parallel_for(static_cast<int64_t>(count), 16, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      encodings[static_cast<size_t>(i)] = encode(static_cast<size_t>(i));
  });
  return encodings;
}

}  // namespace

Embedder::Embedder(const std::string& path, const LoadOptions& load, const EmbedOptions& options)
    : options_(options),
      setup_(std::make_shared<SentenceSetup>()),
      model_(path, with_entry(load,
                              [setup = setup_, options](ModelFile& file,
                                                        const TransformerConfig& transformer) {
                                *setup = read_sentence_setup(file, transformer);
                                EmbeddingConfig& embedding = setup->embedding;
                                if (options.pooling)
                                  embedding.pooling = pooling_of(*options.pooling);
                                if (options.normalize) embedding.normalize = *options.normalize;
                                embedding.dimensions = options.dimensions;
                                return embed_entry(file, transformer, embedding);
                              })),
      encoder_(model_, "embedding"),
      prompt_(find_prompt(setup_->files, options.prompt_name)),
      max_tokens_(most_tokens(options.max_tokens, setup_->files, model_)),
      columns_(model_.entry().graph.shape(model_.entry().root("embedding")).cols()) {}

std::vector<TextEmbedding> Embedder::embed(std::span<const std::string> texts,
                                           const TextProgress& progress) {
  const EncodeOptions options{.max_tokens = static_cast<size_t>(max_tokens_)};
  const auto encodings = encode_all(model_.pool(), texts.size(), [&](size_t i) {
    return model_.tokenizer().encode_text(prepared(setup_->files, prompt_, texts[i]), options);
  });
  std::vector<TextEmbedding> results(texts.size());
  const bool each_token = !setup_->embedding.pooling;
  in_runs(encodings, [&](size_t first, size_t last) {
    encoder_.run(sequences(std::span(encodings).subspan(first, last - first)));
    int64_t row = 0;
    for (size_t i = first; i < last; ++i) {
      TextEmbedding& result = results[i];
      result.tokens = static_cast<int32_t>(encodings[i].ids.size());
      result.cut = static_cast<int32_t>(encodings[i].cut);
      if (each_token) result.rows = result.tokens;
      for (const int64_t end = row + result.rows; row < end; ++row) {
        const std::span<const float> values = encoder_.row(row);
        result.values.insert(result.values.end(), values.begin(), values.end());
      }
    }
    if (progress) progress(last, texts.size());
  });
  return results;
}

Reranker::Reranker(const std::string& path, const LoadOptions& load, const RerankOptions& options)
    : options_(options),
      setup_(std::make_shared<SentenceSetup>()),
      model_(path,
             with_entry(load,
                        [setup = setup_](ModelFile& file, const TransformerConfig& transformer) {
                          *setup = read_sentence_setup(file, transformer);
                          return score_entry(file, transformer, setup->score);
                        })),
      encoder_(model_, "score") {
  const int64_t labels = model_.entry().graph.shape(model_.entry().root("score")).cols();
  if (labels != 1)
    throw Error(ErrorKind::kUnsupported, "{}: the head gives {} labels, a score is one", path,
                labels);
  options_.max_tokens = most_tokens(options.max_tokens, setup_->files, model_);
}

std::vector<PairScore> Reranker::score(std::string_view query,
                                       std::span<const std::string> documents,
                                       const TextProgress& progress) {
  const EncodeOptions options{.max_tokens = static_cast<size_t>(options_.max_tokens)};
  const std::string first_text = prepared(setup_->files, "", query);
  const auto encodings = encode_all(model_.pool(), documents.size(), [&](size_t i) {
    return model_.tokenizer().encode_pair(first_text, prepared(setup_->files, "", documents[i]),
                                          options);
  });
  std::vector<PairScore> results(documents.size());
  in_runs(encodings, [&](size_t first, size_t last) {
    encoder_.run(sequences(std::span(encodings).subspan(first, last - first)));
    for (size_t i = first; i < last; ++i) {
      const float value = encoder_.row(static_cast<int64_t>(i - first))[0];
      const bool squash = setup_->sigmoid && !options_.raw;
      results[i] = {squash ? 1 / (1 + std::exp(-value)) : value,
                    static_cast<int32_t>(encodings[i].ids.size()),
                    static_cast<int32_t>(encodings[i].cut)};
    }
    if (progress) progress(last, documents.size());
  });
  return results;
}

}  // namespace veery
