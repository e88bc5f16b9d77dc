#include "text/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/json_reader.h"

namespace veery {
namespace {

struct Scored {
  std::string_view token;
  double score;
};

// The `model`, with views into the reader.
struct ModelText {
  std::string type, unknown, prefix, suffix;
  bool has_prefix = false, has_merges = false;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  int64_t longest_word = 100, unknown_id = -1;
  std::vector<std::pair<std::string_view, int64_t>> vocab;
  std::vector<Scored> scored;
  bool has_vocab = false, has_scores = false;
  std::vector<MergeText> merges;
};

std::string text_or_null(JsonReader& reader) {
  if (reader.peek() != JsonReader::Kind::kNull) return std::string(reader.string());
  reader.null();
  return {};
}

bool bool_or_null(JsonReader& reader) {
  if (reader.peek() != JsonReader::Kind::kNull) return reader.boolean();
  reader.null();
  return false;
}

int64_t integer_or_null(JsonReader& reader, int64_t otherwise) {
  if (reader.peek() != JsonReader::Kind::kNull) return reader.integer();
  reader.null();
  return otherwise;
}

void read_vocab(JsonReader& reader, ModelText& model) {
  if (reader.peek() == JsonReader::Kind::kObject) {
    model.has_vocab = true;
    reader.begin_object();
    for (std::string_view token; reader.next_key(token);)
      model.vocab.emplace_back(token, reader.integer());
    return;
  }
  model.has_scores = true;
  reader.begin_array();
  while (reader.next_item()) {
    reader.begin_array();
    if (!reader.next_item()) reader.fail("a token and its score");
    const std::string_view token = reader.string();
    if (!reader.next_item()) reader.fail("the score of a token");
    model.scored.push_back({token, reader.number()});
    if (reader.next_item()) reader.fail("the end of a token and its score");
  }
}

void read_merges(JsonReader& reader, ModelText& model) {
  model.has_merges = true;
  reader.begin_array();
  while (reader.next_item()) {
    if (reader.peek() == JsonReader::Kind::kString) {
      const std::string_view line = reader.string();
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      if (space == std::string_view::npos) reader.fail("a merge of two tokens");
      model.merges.push_back({line.substr(0, space), line.substr(space + 1)});
      continue;
    }
    reader.begin_array();
    if (!reader.next_item()) reader.fail("a merge of two tokens");
    const std::string_view left = reader.string();
    if (!reader.next_item()) reader.fail("a merge of two tokens");
    model.merges.push_back({left, reader.string()});
    if (reader.next_item()) reader.fail("the end of a merge");
  }
}

void read_model(JsonReader& reader, ModelText& model) {
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    if (key == "type") {
      model.type = reader.string();
    } else if (key == "vocab") {
      read_vocab(reader, model);
    } else if (key == "merges") {
      read_merges(reader, model);
    } else if (key == "unk_token") {
      model.unknown = text_or_null(reader);
    } else if (key == "unk_id") {
      model.unknown_id = integer_or_null(reader, -1);
    } else if (key == "continuing_subword_prefix") {
      model.prefix = text_or_null(reader);
      model.has_prefix = true;
    } else if (key == "end_of_word_suffix") {
      model.suffix = text_or_null(reader);
    } else if (key == "fuse_unk") {
      model.fuse_unknown = bool_or_null(reader);
    } else if (key == "byte_fallback") {
      model.byte_fallback = bool_or_null(reader);
    } else if (key == "ignore_merges") {
      model.ignore_merges = bool_or_null(reader);
    } else if (key == "max_input_chars_per_word") {
      model.longest_word = integer_or_null(reader, 100);
    } else {
      reader.skip();
    }
  }
  // Old files do not say their type.
  if (model.type.empty())
    model.type = model.has_merges   ? "BPE"
                 : model.has_scores ? "Unigram"
                 : model.has_prefix ? "WordPiece"
                                    : "WordLevel";
}

AddedToken read_added_token(JsonReader& reader) {
  AddedToken token;
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    if (key == "content")
      token.content = reader.string();
    else if (key == "lstrip")
      token.lstrip = bool_or_null(reader);
    else if (key == "rstrip")
      token.rstrip = bool_or_null(reader);
    else if (key == "single_word")
      token.single_word = bool_or_null(reader);
    else if (key == "normalized")
      token.normalized = bool_or_null(reader);
    else if (key == "special")
      token.special = bool_or_null(reader);
    else
      reader.skip();
  }
  return token;
}

// Runs `make` so that errors name the file and the part of it.
template <typename Make>
auto in_part(const std::string& what, const char* part, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.kind(), "{}: {}: {}", what, part, error.what());
  }
}

std::vector<std::string_view> by_id(const ModelText& model) {
  int64_t largest = -1;
  for (const auto& [token, id] : model.vocab) {
    if (id < 0)
      throw Error(ErrorKind::kFormat, "vocab: token \"{}\" has the id {}", valid_utf8(token), id);
    largest = std::max(largest, id);
  }
  const auto most = static_cast<int64_t>(model.vocab.size()) * 8 + 65536;
  if (largest >= most)
    throw Error(ErrorKind::kLimit, "vocab: {} tokens have ids up to {}, at most {} is possible",
                model.vocab.size(), largest, most - 1);
  std::vector<std::string_view> tokens(static_cast<size_t>(largest + 1));
  for (const auto& [token, id] : model.vocab) tokens[static_cast<size_t>(id)] = token;
  return tokens;
}

UnigramModel make_unigram(const ModelText& model, std::shared_ptr<const Vocabulary>& vocabulary) {
  if (!model.has_scores) throw Error(ErrorKind::kFormat, "\"vocab\" is not a list of scores");
  std::vector<std::string_view> tokens;
  std::vector<double> scores;
  for (const Scored& item : model.scored) {
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

WordModel make_model(const ModelText& model, bool bytes,
                     std::shared_ptr<const Vocabulary>& vocabulary) {
  if (model.type == "Unigram") return make_unigram(model, vocabulary);
  if (!model.has_vocab)
    throw Error(ErrorKind::kFormat, "\"vocab\" is missing or no object of tokens and ids");
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
  throw Error(ErrorKind::kUnsupported, "type \"{}\" is not known", model.type);
}

// Ids as the defining library gives them: those of the model, else the next free ones in order,
// whatever the file says.
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
  for (const AddedToken& token : tokens)
    texts.push_back(token.normalized ? pipeline.normalizer(token.content) : token.content);
  return {std::move(tokens), texts};
}

}  // namespace

Pipeline read_tokenizer_json(std::string_view text, const std::string& what) {
  JsonReader reader(text, what);
  ModelText model;
  bool has_model = false;
  std::vector<AddedToken> added;
  std::map<std::string_view, Json> parts;
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    if (key == "model") {
      read_model(reader, model);
      has_model = true;
    } else if (key == "added_tokens" && reader.peek() == JsonReader::Kind::kArray) {
      reader.begin_array();
      while (reader.next_item()) added.push_back(read_added_token(reader));
    } else if (key == "normalizer" || key == "pre_tokenizer" || key == "post_processor" ||
               key == "decoder" || key == "truncation") {
      parts[key] = parse_json(reader.raw(), what + ": " + std::string(key));
    } else {
      reader.skip();
    }
  }
  reader.finish();
  if (!has_model) throw Error(ErrorKind::kFormat, "{}: \"model\" is missing", what);
  Normalizer normalizer =
      in_part(what, "normalizer", [&] { return Normalizer(parts["normalizer"]); });
  Splitter splitter =
      in_part(what, "pre_tokenizer", [&] { return Splitter(parts["pre_tokenizer"]); });
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
      .post =
          in_part(what, "post_processor", [&] { return PostProcessor(parts["post_processor"]); }),
      .decoder = in_part(what, "decoder", [&] { return TokenDecoder(parts["decoder"]); }),
      .truncation =
          in_part(what, "truncation", [&] { return Truncation::read(parts["truncation"]); })};
  const size_t count = model.has_scores ? model.scored.size() : model.vocab.size();
  pipeline.added = place_added_tokens(added, static_cast<int64_t>(count), pipeline);
  return pipeline;
}

std::optional<int32_t> find_token(const Pipeline& pipeline, std::string_view text) {
  for (const AddedToken& token : pipeline.added.tokens())
    if (token.content == text) return token.id;
  const int32_t id = pipeline.vocabulary->find_written(text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

TokenRoles roles_of(const Pipeline& pipeline) {
  TokenRoles roles;
  const std::vector<int32_t>& before = pipeline.post.before();
  const std::vector<int32_t>& after = pipeline.post.after();
  if (!before.empty()) {
    roles.ids.set("tokenizer.ggml.bos_token_id", int64_t{before[0]});
    roles.ids.set("tokenizer.ggml.add_bos_token", true);
  }
  if (!after.empty()) {
    roles.ids.set("tokenizer.ggml.eos_token_id", int64_t{after.back()});
    roles.ids.set("tokenizer.ggml.add_eos_token", true);
  }
  return roles;
}

}  // namespace veery
