#include "text/format/tokenizer_text.h"

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

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

void read_vocab(JsonReader& reader, TokenModelText& model) {
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

void read_merges(JsonReader& reader, TokenModelText& model) {
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

void read_model(JsonReader& reader, TokenModelText& model) {
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
  // Old files have no type.
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

}  // namespace

TokenizerText::TokenizerText(const JsonText& text, const std::string& what) : reader_(text, what) {
  const std::pair<std::string_view, Json*> parts[] = {{"normalizer", &normalizer},
                                                      {"pre_tokenizer", &pre_tokenizer},
                                                      {"post_processor", &post_processor},
                                                      {"decoder", &decoder},
                                                      {"truncation", &truncation}};
  bool has_model = false;
  reader_.begin_object();
  for (std::string_view key; reader_.next_key(key);) {
    const auto part = std::ranges::find(parts, key, &std::pair<std::string_view, Json*>::first);
    if (key == "model") {
      read_model(reader_, model);
      has_model = true;
    } else if (key == "added_tokens" && reader_.peek() == JsonReader::Kind::kArray) {
      reader_.begin_array();
      while (reader_.next_item()) added.push_back(read_added_token(reader_));
    } else if (part != std::end(parts)) {
      *part->second = reader_.value();
    } else {
      reader_.skip();
    }
  }
  reader_.finish();
  if (!has_model) throw Error(ErrorKind::kFormat, "{}: \"model\" is missing", what);
}

}  // namespace veery
