#include "text/format/sentencepiece_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/characters.h"
#include "text/common/charsmap.h"
#include "text/special_tokens.h"

namespace veery {
namespace {

// Iterates over the fields of a protobuf message
// (https://protobuf.dev/programming-guides/encoding).
class ProtoReader {
 public:
  ProtoReader(std::string_view message, const std::string& what) : rest_(message), what_(what) {}

  // Reads the next field into `field` and `number` or `bytes`; returns false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = key >> 3;
    switch (key & 7) {
      case 0: number = varint(); return true;
      case 1: bytes = take(8); return true;
      case 2: bytes = take(varint()); return true;
      case 5: bytes = take(4); return true;
      default: fail("a field of a known kind");
    }
  }
  float real() const {
    float value = 0;
    if (bytes.size() == 4) std::memcpy(&value, bytes.data(), 4);
    return value;
  }

  uint64_t field = 0, number = 0;
  std::string_view bytes;

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of at most 10 bytes");
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) fail("more bytes");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[noreturn]] void fail(const char* expected) const {
    throw Error(ErrorKind::kFormat,
                "{}: {} bytes before the end of a SentencePiece message: expected {}", what_,
                rest_.size(), expected);
  }

  std::string_view rest_;
  const std::string& what_;
};

void read_piece(ProtoReader piece, SentencePieceModel& model) {
  std::string text;
  double score = 0;
  auto type = TokenType::kNormal;
  while (piece.next()) {
    if (piece.field == 1) text = piece.bytes;
    if (piece.field == 2) score = piece.real();
    if (piece.field == 3 && piece.number <= static_cast<uint64_t>(TokenType::kByte))
      type = static_cast<TokenType>(piece.number);
  }
  model.tokens.push_back(std::move(text));
  model.scores.push_back(score);
  model.types.push_back(type);
}

void read_trainer(ProtoReader spec, SentencePieceModel& model, const std::string& what) {
  while (spec.next()) {
    const auto id = static_cast<int32_t>(static_cast<int64_t>(spec.number));
    switch (spec.field) {
      case 3:
        if (spec.number != 1 && spec.number != 2)
          throw Error(ErrorKind::kUnsupported,
                      "{}: SentencePiece model of type {}, expected 1 (unigram) or 2 (BPE)", what,
                      spec.number);
        model.kind = static_cast<SentencePieceModel::Kind>(spec.number);
        break;
      case 40: model.unknown = id; break;
      case 41: model.bos = id; break;
      case 42: model.eos = id; break;
      case 43: model.pad = id; break;
      default: break;
    }
  }
}

void read_normalizer(ProtoReader spec, SentencePieceModel& model) {
  while (spec.next()) {
    if (spec.field == 2) model.charsmap = spec.bytes;
    if (spec.field == 3) model.add_prefix = spec.number != 0;
    if (spec.field == 4) model.remove_extra = spec.number != 0;
  }
}

// Collapses runs of spaces into one and strips those at the ends.
void collapse_spaces(std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  if (!out.empty() && out.back() == ' ') out.pop_back();
  text = std::move(out);
}

Normalizer make_normalizer(const SentencePieceModel& model) {
  Normalizer normalizer;
  if (!model.charsmap.empty()) {
    const auto map = std::make_shared<Charsmap>(model.charsmap);
    normalizer.add("character map",
                   [map](std::string& text, std::string_view name, const Growth& growth) {
                     text = map->by_longest(text, name, growth);
                   });
  }
  if (model.remove_extra)
    normalizer.add("spaces", [](std::string& text, auto, auto&) { collapse_spaces(text); });
  return normalizer;
}

// Adds a space before the text and splits words at spaces.
Splitter make_splitter(const SentencePieceModel& model) {
  Splitter splitter;
  if (model.add_prefix)
    splitter.add([](const Piece& piece, Splitter::Context&, const PieceSink& sink) {
      if (!piece.first) return sink(piece);
      const std::string spaced = " " + std::string(piece.text);
      sink({spaced, true});
    });
  splitter.add(mark_spaces(std::string(kSpaceMark), PrependScheme::kNever, true));
  return splitter;
}

TokenDecoder make_decoder() {
  return TokenDecoder(parse_json(
      R"({"type":"Sequence","decoders":[)"
      R"({"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},)"
      R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
      "decoder"));
}

bool is_found_whole(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

AddedToken whole_token(std::string_view text, int32_t id, TokenType type) {
  return {.content = std::string(text), .id = id, .special = type != TokenType::kUserDefined};
}

AddedTokens added_of(std::vector<AddedToken> tokens) {
  std::vector<std::string> texts;
  for (const AddedToken& token : tokens) texts.push_back(token.content);
  return {std::move(tokens), texts};
}

}  // namespace

PostProcessor special_around(const Metadata& metadata, int64_t bos, int64_t eos, PairForm form) {
  const auto one = [](bool wanted, int64_t id) {
    return wanted && id >= 0 && id <= INT32_MAX ? std::vector<int32_t>{static_cast<int32_t>(id)}
                                                : std::vector<int32_t>();
  };
  const auto before = one(metadata.boolean("tokenizer.ggml.add_bos_token").value_or(bos >= 0), bos);
  const auto after = one(metadata.boolean("tokenizer.ggml.add_eos_token").value_or(eos >= 0), eos);
  if (form == PairForm::kSegments)
    return PostProcessor(SequenceTemplate::around(before, after, {}, 1));
  const auto between = separator_of(metadata, eos, !before.empty() && !after.empty());
  return PostProcessor(SequenceTemplate::around(before, after, between, 0));
}

void SentencePieceModel::add(const AddedToken& token) {
  const auto at = static_cast<size_t>(token.id);
  if (token.id < 0 || at > tokens.size() * 8 + 65536)
    throw Error(ErrorKind::kLimit,
                "token \"{}\" has the id {}, far outside the vocabulary of {} tokens",
                printable(token.content), token.id, tokens.size());
  if (at >= tokens.size()) {
    tokens.resize(at + 1);
    scores.resize(at + 1);
    types.resize(at + 1, TokenType::kUnused);
  }
  tokens[at] = token.content;
  if (types[at] != TokenType::kUnknown)
    types[at] = token.special ? TokenType::kControl : TokenType::kUserDefined;
}

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& what) {
  SentencePieceModel model;
  ProtoReader reader(bytes, what);
  while (reader.next()) {
    if (reader.field == 1) read_piece({reader.bytes, what}, model);
    if (reader.field == 2) read_trainer({reader.bytes, what}, model, what);
    if (reader.field == 3) read_normalizer({reader.bytes, what}, model);
  }
  if (model.tokens.empty())
    throw Error(ErrorKind::kFormat, "{}: the SentencePiece model has no tokens", what);
  const auto size = static_cast<int32_t>(model.tokens.size());
  for (int32_t* id : {&model.unknown, &model.bos, &model.eos, &model.pad})
    if (*id < 0 || *id >= size) *id = -1;
  return model;
}

SentencePieceModel read_sentencepiece(const Metadata& metadata) {
  const Vocabulary vocabulary(metadata, false);
  if (!vocabulary.has_scores())
    throw Error(ErrorKind::kFormat,
                "tokenizer.ggml.scores is missing; tokenizer.ggml.model \"t5\" needs it");
  SentencePieceModel model;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    model.tokens.emplace_back(vocabulary.bytes(id));
    model.scores.push_back(vocabulary.score(id));
    model.types.push_back(vocabulary.type(id));
    if (vocabulary.type(id) == TokenType::kUnknown) model.unknown = id;
  }
  if (metadata.find("tokenizer.ggml.precompiled_charsmap"))
    for (const int64_t byte : *metadata.integers("tokenizer.ggml.precompiled_charsmap"))
      model.charsmap.push_back(static_cast<char>(byte));
  model.add_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  model.remove_extra = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(true);
  const int32_t size = vocabulary.size();
  const auto id_of = [&](const char* key, int64_t otherwise) {
    const int64_t id = metadata.integer(key).value_or(otherwise);
    return id >= 0 && id < size ? static_cast<int32_t>(id) : -1;
  };
  model.unknown = id_of("tokenizer.ggml.unknown_token_id", model.unknown);
  model.bos = id_of("tokenizer.ggml.bos_token_id", -1);
  model.eos = id_of("tokenizer.ggml.eos_token_id", 1);
  return model;
}

std::vector<double> unigram_scores(const SentencePieceModel& model) {
  double worst = 0;
  for (size_t i = 0; i < model.scores.size(); ++i)
    if (model.types[i] == TokenType::kNormal) worst = std::min(worst, model.scores[i]);
  std::vector<double> scores = model.scores;
  for (size_t i = 0; i < scores.size(); ++i)
    if (model.types[i] != TokenType::kNormal) scores[i] = worst;
  return scores;
}

Pipeline unigram_pipeline(const SentencePieceModel& model) {
  std::vector<std::string_view> texts(model.tokens.begin(), model.tokens.end());
  std::vector<AddedToken> added;
  bool byte_fallback = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    byte_fallback |= model.types[i] == TokenType::kByte;
    if (!is_found_whole(model.types[i])) continue;
    added.push_back(whole_token(texts[i], static_cast<int32_t>(i), model.types[i]));
    texts[i] = {};  // only matched whole, never composed of characters
  }
  const auto vocabulary =
      std::make_shared<const Vocabulary>(texts, std::vector<TokenType>(), false);
  return {.vocabulary = vocabulary,
          .model = UnigramModel(vocabulary, unigram_scores(model), model.unknown, byte_fallback),
          .added = added_of(std::move(added)),
          .normalizer = make_normalizer(model),
          .splitter = make_splitter(model),
          .post = {},
          .decoder = make_decoder(),
          .keeps_end = false};
}

Metadata sentencepiece_metadata(const SentencePieceModel& model) {
  Metadata metadata;
  metadata.set("tokenizer.ggml.tokens",
               std::vector<std::string_view>(model.tokens.begin(), model.tokens.end()));
  metadata.set("tokenizer.ggml.scores", model.scores);
  std::vector<int64_t> types;
  for (const TokenType type : model.types) types.push_back(static_cast<int64_t>(type));
  metadata.set("tokenizer.ggml.token_type", std::move(types));
  metadata.set("tokenizer.ggml.add_space_prefix", model.add_prefix);
  metadata.set("tokenizer.ggml.remove_extra_whitespaces", model.remove_extra);
  if (!model.charsmap.empty())
    metadata.set("tokenizer.ggml.precompiled_charsmap",
                 std::vector<int64_t>(model.charsmap.begin(), model.charsmap.end()));
  metadata.set("tokenizer.ggml.unknown_token_id", int64_t{model.unknown});
  metadata.set("tokenizer.ggml.bos_token_id", int64_t{model.bos});
  metadata.set("tokenizer.ggml.eos_token_id", int64_t{model.eos});
  metadata.set("tokenizer.ggml.padding_token_id", int64_t{model.pad});
  return metadata;
}

Pipeline word_piece_pipeline(const Metadata& metadata) {
  const Vocabulary written(metadata, false);
  std::vector<std::string_view> texts;
  std::vector<AddedToken> added;
  for (int32_t id = 0; id < written.size(); ++id) {
    const bool whole = is_found_whole(written.type(id));
    texts.push_back(whole ? std::string_view() : written.bytes(id));
    if (whole) added.push_back(whole_token(written.bytes(id), id, written.type(id)));
  }
  const int64_t unknown = metadata.integer("tokenizer.ggml.unknown_token_id").value_or(100);
  if (unknown < 0 || unknown >= written.size())
    throw Error(ErrorKind::kFormat,
                "tokenizer.ggml.unknown_token_id is {}, outside the vocabulary of {} tokens",
                unknown, written.size());
  const auto bos = metadata.integer("tokenizer.ggml.cls_token_id")
                       .value_or(metadata.integer("tokenizer.ggml.bos_token_id").value_or(101));
  const auto eos = metadata.integer("tokenizer.ggml.seperator_token_id")
                       .value_or(metadata.integer("tokenizer.ggml.eos_token_id").value_or(102));
  texts[static_cast<size_t>(unknown)] = written.bytes(static_cast<int32_t>(unknown));
  const auto vocabulary =
      std::make_shared<const Vocabulary>(texts, std::vector<TokenType>(), false);
  Normalizer normalizer;
  normalizer.add("BertNormalizer", bert_cleaning({}));
  Splitter splitter(parse_json(R"({"type":"BertPreTokenizer"})", "splitter"));
  splitter.add([](const Piece& piece, Splitter::Context&, const PieceSink& sink) {
    const std::string marked = std::string(kSpaceMark) + std::string(piece.text);
    sink({marked, piece.first});
  });
  return {.vocabulary = vocabulary,
          .model = WordPieceModel(
              vocabulary, {.unknown = std::string(written.bytes(static_cast<int32_t>(unknown))),
                           .prefix = "",
                           .longest_word = 101}),  // including the mark
          .added = added_of(std::move(added)),
          .normalizer = std::move(normalizer),
          .splitter = std::move(splitter),
          .post = special_around(metadata, bos, eos, PairForm::kSegments),
          .decoder = make_decoder(),
          .keeps_end = false};
}

}  // namespace veery
