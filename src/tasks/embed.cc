#include "tasks/embed.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/characters.h"

namespace veery {
namespace {

constexpr int64_t kRunTokens = Embedder::kRunTokens;

// The prompt on the model card of Qwen3-Reranker.
constexpr std::string_view kSystem =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
constexpr std::string_view kAnswer = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr std::string_view kInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

LoadOptions with_entry(LoadOptions load,
                       std::function<Entry(ModelFile&, const TransformerConfig&)> entry) {
  load.entry = std::move(entry);
  return load;
}

int32_t most_tokens(int32_t wanted, const SentenceConfig& files, const Model& model) {
  const int32_t context = model.options().context;
  if (wanted > context)
    throw Error(ErrorKind::kInput, "max_tokens is {}, expected at most {}", wanted, context);
  if (wanted > 0) return wanted;
  return files.max_length > 0 ? static_cast<int32_t>(std::min<int64_t>(files.max_length, context))
                              : context;
}

// Returns the text of a prompt of the files, by default of their default prompt.
std::string find_prompt(const SentenceConfig& config, const std::string& name) {
  const std::string& wanted = name.empty() ? config.default_prompt : name;
  if (wanted.empty()) return {};
  const auto found = config.prompts.find(wanted);
  if (found != config.prompts.end()) return found->second;
  std::string known;
  for (const auto& [other, text] : config.prompts)
    known += (known.empty() ? "" : ", ") + printable(other);
  throw Error(ErrorKind::kInput, "unknown prompt '{}', {}", printable(wanted),
              known.empty() ? "the model has no prompts" : "expected one of " + known);
}

std::string prepared(const SentenceConfig& config, std::string_view prompt, std::string_view text) {
  std::string whole(prompt);
  whole += text;
  return config.lower_case ? lower_case(whole) : whole;
}

/// Calls run(first, last) for consecutive texts with at most kRunTokens tokens, or a single text.
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

// Encodes texts on all threads.
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

Entry text_entry(ModelFile& file, const TransformerConfig& config) {
  if (config.attention.mask == Mask::kCausal) return any_decode_entry(file, config);
  const bool scores = makes_scores(file, config);
  const SentenceSetup setup = read_sentence_setup(file, config);
  // Keeps the files mapped: the weights are loaded after this call.
  file.mappings.insert(file.mappings.end(), setup.files.mappings.begin(),
                       setup.files.mappings.end());
  return scores ? score_entry(file, config, setup.score)
                : embed_entry(file, config, setup.embedding);
}

Embedder::Embedder(const std::string& path, const LoadOptions& load, const EmbedOptions& options)
    : options_(options),
      setup_(std::make_shared<SentenceSetup>()),
      model_(path, with_entry(load,
                              [setup = setup_, options](ModelFile& file,
                                                        const TransformerConfig& transformer) {
                                *setup = read_sentence_setup(file, transformer);
                                EmbeddingConfig& embedding = setup->embedding;
                                if (!options.pooling && setup->files.is_ranker &&
                                    file.container == Container::kFolder)
                                  throw Error(ErrorKind::kUnsupported,
                                              "{}: modules.json has no Pooling module: the "
                                              "model scores pairs (use 'veery rerank')",
                                              file.path);
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
                          const bool decoder = transformer.attention.mask == Mask::kCausal;
                          if (decoder && !setup->yes_no && makes_scores(file, transformer))
                            throw Error(ErrorKind::kUnsupported,
                                        "{}: a {} model with a classification head: the prompt "
                                        "format is known for Qwen3-Reranker only",
                                        file.path, transformer.architecture);
                          return score_entry(file, transformer, setup->score);
                        })),
      encoder_(model_, "score"),
      columns_(find_columns(model_.entry().graph.shape(model_.entry().root("score")).cols())) {
  set_instruction(options.instruction);
  if (setup_->yes_no) form_ = make_form();
  options_.max_tokens = most_tokens(options.max_tokens, setup_->files, model_);
}

void Reranker::set_instruction(std::string instruction) {
  if (!instruction.empty() && !setup_->yes_no)
    throw Error(ErrorKind::kInput, "{}: a cross-encoder accepts no instruction", model_.path());
  options_.instruction = std::move(instruction);
}

int64_t Reranker::token(const char* word) const {
  if (const auto id = model_.tokenizer().find(word)) return *id;
  throw Error(ErrorKind::kUnsupported,
              "{}: the vocabulary has no token '{}', expected the vocabulary of Qwen3-Reranker",
              model_.path(), word);
}

Reranker::Columns Reranker::find_columns(int64_t labels) const {
  const SentenceConfig& files = setup_->files;
  if (setup_->score.logits) {
    const Columns ids =
        files.yes < 0 ? Columns{token("yes"), token("no")} : Columns{files.yes, files.no};
    if (ids.yes >= labels || ids.no >= labels)
      throw Error(ErrorKind::kFormat,
                  "{}: found the tokens {} and {} to compare, expected ids below {}", model_.path(),
                  ids.yes, ids.no, labels);
    return ids;
  }
  if (setup_->yes_no && labels == 2) {
    const bool swapped = files.labels.size() == 2 && files.labels[1] == "yes";
    return swapped ? Columns{1, 0} : Columns{0, 1};
  }
  if (labels != 1)
    throw Error(ErrorKind::kUnsupported, "{}: the head has {} labels, expected 1", model_.path(),
                labels);
  return {0, -1};
}

Reranker::PromptForm Reranker::make_form() const {
  for (const char* word : {"<|im_start|>", "<|im_end|>"}) token(word);
  const EncodeOptions plain{.add_special = false};
  return {model_.tokenizer().encode(kSystem, plain), model_.tokenizer().encode(kAnswer, plain)};
}

Encoding Reranker::encode(std::string_view query, std::string_view document) const {
  const auto most = static_cast<size_t>(options_.max_tokens);
  if (!setup_->yes_no) return model_.tokenizer().encode_pair(query, document, {.max_tokens = most});
  const size_t around = form_.before.size() + form_.after.size();
  if (most <= around)
    throw Error(ErrorKind::kInput,
                "max_tokens is {}, expected more than the {} tokens of the prompt", most, around);
  const std::string_view instruction =
      options_.instruction.empty() ? kInstruction : std::string_view(options_.instruction);
  // A document must not be able to end the turn of the user.
  Encoding text = model_.tokenizer().encode_text(
      fmt::format("<Instruct>: {}\n<Query>: {}\n<Document>: {}", instruction, query, document),
      {.add_special = false, .parse_special = false, .max_tokens = most - around});
  text.ids.insert(text.ids.begin(), form_.before.begin(), form_.before.end());
  text.ids.insert(text.ids.end(), form_.after.begin(), form_.after.end());
  text.types.clear();
  return text;
}

std::vector<PairScore> Reranker::score(std::string_view query,
                                       std::span<const std::string> documents,
                                       const TextProgress& progress) {
  const std::string first_text = prepared(setup_->files, "", query);
  const auto encodings = encode_all(model_.pool(), documents.size(), [&](size_t i) {
    return encode(first_text, prepared(setup_->files, "", documents[i]));
  });
  std::vector<PairScore> results(documents.size());
  in_runs(encodings, [&](size_t first, size_t last) {
    encoder_.run(sequences(std::span(encodings).subspan(first, last - first)));
    for (size_t i = first; i < last; ++i) {
      const std::span<const float> row = encoder_.row(static_cast<int64_t>(i - first));
      float value = row[static_cast<size_t>(columns_.yes)];
      if (columns_.no >= 0) value -= row[static_cast<size_t>(columns_.no)];
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
