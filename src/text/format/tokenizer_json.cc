#include "text/format/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/format/tokenizer_text.h"

namespace veery {
namespace {

// Calls `make` and prepends the file and `part` to error messages.
template <typename Make>
auto in_part(const std::string& what, const char* part, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.kind(), "{}: {}: {}", what, part, error.what());
  }
}

std::vector<std::string_view> by_id(const TokenModelText& model) {
  int64_t largest = -1;
  for (const auto& [token, id] : model.vocab) {
    if (id < 0)
      throw Error(ErrorKind::kFormat, "vocab: token \"{}\" has the id {}", printable(token), id);
    largest = std::max(largest, id);
  }
  const auto most = static_cast<int64_t>(model.vocab.size()) * 8 + 65536;
  if (largest >= most)
    throw Error(ErrorKind::kLimit, "vocab: {} tokens have ids up to {}, at most {} is permitted",
                model.vocab.size(), largest, most - 1);
  std::vector<std::string_view> tokens(static_cast<size_t>(largest + 1));
  for (const auto& [token, id] : model.vocab) tokens[static_cast<size_t>(id)] = token;
  return tokens;
}

UnigramModel make_unigram(const TokenModelText& model,
                          std::shared_ptr<const Vocabulary>& vocabulary) {
  if (!model.has_scores) throw Error(ErrorKind::kFormat, "\"vocab\" is not a list of scores");
  std::vector<std::string_view> tokens;
  std::vector<double> scores;
  for (const TokenModelText::Scored& item : model.scored) {
    tokens.push_back(item.token);
    scores.push_back(item.score);
  }
  if (model.unknown_id >= static_cast<int64_t>(tokens.size()))
    throw Error(ErrorKind::kFormat, "\"unk_id\" is {}, outside the vocabulary of {} tokens",
                model.unknown_id, tokens.size());
  vocabulary = std::make_shared<Vocabulary>(tokens, std::vector<TokenType>(), false);
  const auto unknown = static_cast<int32_t>(std::max<int64_t>(model.unknown_id, -1));
  return {vocabulary, std::move(scores), unknown, model.byte_fallback};
}

WordModel make_model(const TokenModelText& model, bool bytes,
                     std::shared_ptr<const Vocabulary>& vocabulary) {
  if (model.type == "Unigram") return make_unigram(model, vocabulary);
  if (!model.has_vocab)
    throw Error(ErrorKind::kFormat, "\"vocab\" is missing or not an object of tokens and ids");
  const bool bpe = model.type == "BPE";
  vocabulary = std::make_shared<Vocabulary>(by_id(model), std::vector<TokenType>(), bpe && bytes);
  if (bpe && !model.has_merges) throw Error(ErrorKind::kFormat, "\"merges\" is missing");
  if (bpe)
    return BpeModel(vocabulary, model.merges,
                    {.unknown = model.unknown,
                     .prefix = model.prefix,
                     .suffix = model.suffix,
                     .fuse_unknown = model.fuse_unknown,
                     .byte_fallback = model.byte_fallback,
                     .ignore_merges = model.ignore_merges});
  if (model.type == "WordPiece")
    return WordPieceModel(
        vocabulary,
        {.unknown = model.unknown,
         .prefix = model.has_prefix ? model.prefix : "##",
         .longest_word = static_cast<size_t>(std::max<int64_t>(model.longest_word, 0))});
  if (model.type == "WordLevel") return WordLevelModel(vocabulary, model.unknown);
  throw Error(ErrorKind::kUnsupported, "unknown type \"{}\"", printable(model.type));
}

// Assigns ids like the tokenizers library: the model's id if the token is in the vocabulary,
// otherwise the next free id, whatever the file says.
AddedTokens place_added_tokens(const std::vector<AddedToken>& listed, int64_t model_tokens,
                               const Pipeline& pipeline) {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, size_t> places;
  auto next = static_cast<int32_t>(model_tokens);
  for (const AddedToken& token : listed) {
    if (token.content.empty()) continue;
    const auto [place, is_new] = places.emplace(token.content, tokens.size());
    if (is_new) {
      const int32_t known = pipeline.vocabulary->find_written(token.content);
      tokens.push_back(token);
      tokens.back().id = known >= 0 ? known : next++;
    } else {
      AddedToken& earlier = tokens[place->second];
      const bool special = earlier.special || token.special;
      const int32_t id = earlier.id;
      earlier = token;
      earlier.id = id;
      earlier.special = special;
    }
  }
  std::vector<std::string> texts;
  texts.reserve(tokens.size());
  size_t bytes = 0;
  for (const AddedToken& token : tokens) bytes += token.content.size();
  Growth growth(bytes);
  for (const AddedToken& token : tokens)
    texts.push_back(token.normalized ? pipeline.normalizer(token.content, growth) : token.content);
  return {std::move(tokens), texts};
}

void add_beside(const TokensBeside& beside, std::vector<AddedToken>& added) {
  added.insert(added.end(), beside.listed.begin(), beside.listed.end());
  std::unordered_set<std::string> known;
  for (const AddedToken& token : added) known.insert(token.content);
  for (const AddedToken& token : beside.named)
    if (known.insert(token.content).second) added.push_back(token);
}

}  // namespace

Pipeline read_tokenizer_json(const JsonText& bytes, const std::string& what,
                             const TokensBeside& beside) {
  TokenizerText text(bytes, what);
  add_beside(beside, text.added);
  const TokenModelText& model = text.model;
  Normalizer normalizer = in_part(what, "normalizer", [&] { return Normalizer(text.normalizer); });
  Splitter splitter = in_part(what, "pre_tokenizer", [&] { return Splitter(text.pre_tokenizer); });
  std::shared_ptr<const Vocabulary> vocabulary;
  WordModel words = in_part(what, "model", [&] {
    return make_model(model, splitter.ends_in_bytes() && !model.byte_fallback, vocabulary);
  });
  if (splitter.ends_in_bytes() && !vocabulary->byte_level()) splitter.write_in_alphabet();
  Pipeline pipeline{
      .vocabulary = std::move(vocabulary),
      .model = std::move(words),
      .added = {},
      .normalizer = std::move(normalizer),
      .splitter = std::move(splitter),
      .post = in_part(what, "post_processor", [&] { return PostProcessor(text.post_processor); }),
      .decoder = in_part(what, "decoder", [&] { return TokenDecoder(text.decoder); }),
      .keeps_end = in_part(what, "truncation", [&] { return read_keeps_end(text.truncation); })};
  const size_t count = model.has_scores ? model.scored.size() : model.vocab.size();
  pipeline.added = in_part(what, "added_tokens", [&] {
    return place_added_tokens(text.added, static_cast<int64_t>(count), pipeline);
  });
  return pipeline;
}

std::optional<int32_t> find_token(const Pipeline& pipeline, std::string_view text) {
  for (const AddedToken& token : pipeline.added.tokens())
    if (token.content == text) return token.id;
  const int32_t id = pipeline.vocabulary->find_written(text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

Metadata roles_of(const Pipeline& pipeline) {
  Metadata roles;
  const std::vector<int32_t> before = pipeline.post.before();
  const std::vector<int32_t> after = pipeline.post.after();
  if (!before.empty()) {
    roles.set("tokenizer.ggml.bos_token_id", int64_t{before[0]});
    roles.set("tokenizer.ggml.add_bos_token", true);
  }
  if (!after.empty()) {
    roles.set("tokenizer.ggml.eos_token_id", int64_t{after.back()});
    roles.set("tokenizer.ggml.add_eos_token", true);
  }
  return roles;
}

}  // namespace veery
