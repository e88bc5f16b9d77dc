#include "text/pipeline/token_decoder.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/byte_alphabet.h"
#include "text/common/json_fields.h"
#include "text/common/regex.h"
#include "text/split/normalizer.h"

namespace veery {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = from.empty() ? std::string::npos : text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = std::move(out.append(text, done));
}

size_t total_bytes(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

// Removes the spaces that word splitting of English text introduced.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

void from_alphabet(std::string& token) {
  std::string bytes;
  if (append_from_alphabet(bytes, token)) token = std::move(bytes);
}

void join(std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

// Joins runs of byte tokens to text. If a run is not UTF-8, each of its bytes becomes U+FFFD.
void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (is_valid_utf8(run))
      out.push_back(run);
    else
      out.insert(out.end(), run.size(), "\uFFFD");
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = byte_of_token(token); byte >= 0) {
      run.push_back(static_cast<char>(byte));
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

// Removes `content` up to `start` times at the front and up to `stop` times at the back.
void strip(std::string& text, const std::string& content, int64_t start, int64_t stop) {
  size_t begin = 0, end = text.size();
  for (; start > 0 && text.compare(begin, content.size(), content) == 0; --start)
    begin += content.size();
  for (; stop > 0 && end >= begin + content.size() &&
         text.compare(end - content.size(), content.size(), content) == 0;
       --stop)
    end -= content.size();
  text = text.substr(begin, end - begin);
}

}  // namespace

int byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return error == std::errc() && end == text.data() + 5 ? value : -1;
}

TokenDecoder::TokenDecoder(const Json& json) {
  if (json.is_null()) return;
  read(json);
  byte_level_only_ = json_text(json, "type") == "ByteLevel";
}

void TokenDecoder::add(Step step) {
  if (steps_.size() == kMostSteps)
    throw Error(ErrorKind::kLimit, "a sequence of more than {} decoders", kMostSteps);
  steps_.push_back(std::move(step));
}

// Adds a step that processes each token independently.
void TokenDecoder::add_each(std::function<void(std::string&, bool)> one) {
  const auto all = [one](Tokens& tokens, auto&) {
    for (size_t i = 0; i < tokens.size(); ++i) one(tokens[i], i == 0);
  };
  add({all, [one](std::string& token, bool first, auto&) { one(token, first); }});
}

void TokenDecoder::read_strip(const Json& json) {
  std::string content;
  append_utf8(content, json_character(json, "content", " "));
  const int64_t start = json_integer(json, "start", 0), stop = json_integer(json, "stop", 0);
  const auto all = [=](Tokens& tokens, auto&) {
    for (std::string& token : tokens) strip(token, content, start, stop);
  };
  if (!fused_) {
    add({all, [=](std::string& token, bool, auto&) { strip(token, content, start, stop); }});
    return;
  }
  // Applies to the whole text. While streaming, only the beginning of the text is known.
  drops_space_ |= content == " " && start > 0;
  add({all, [=](std::string& token, bool first, auto&) {
         if (first) strip(token, content, start, 0);
       }});
}

void TokenDecoder::add_word_pieces(const Json& json) {
  const std::string prefix = json_text(json, "prefix", "##");
  const bool cleanup = json_bool(json, "cleanup", true);
  drops_space_ = true;
  add_each([=](std::string& token, bool first) {
    if (!first && !prefix.empty() && token.starts_with(prefix))
      token.erase(0, prefix.size());
    else if (!first && !prefix.empty())
      token.insert(0, " ");
    if (cleanup) clean_up(token);
  });
}

// The suffix marks the end of a word and becomes a space, except at the end of the text.
void TokenDecoder::add_word_ends(const Json& json) {
  const std::string suffix = json_text(json, "suffix", "</w>");
  const auto all = [=](Tokens& tokens, auto&) {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
  };
  add({all, [=](std::string& token, bool, auto&) { replace_all(token, suffix, " "); }});
}

// CTC decoding: repeated tokens are collapsed.
void TokenDecoder::add_alignment(const Json& json) {
  const std::string pad = json_text(json, "pad_token", "<pad>");
  const std::string delimiter = json_text(json, "word_delimiter_token", "|");
  const bool cleanup = json_bool(json, "cleanup", true);
  const auto one = [=](std::string& token, bool, auto&) {
    replace_all(token, pad, "");
    if (!cleanup) return;
    clean_up(token);
    replace_all(token, delimiter, " ");
  };
  const auto all = [=](Tokens& tokens, const Growth& growth) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) one(token, false, growth);
    std::erase(tokens, "");
  };
  add({all, one});
}

// {"type": "Replace"} is the only step that can lengthen tokens considerably.
void TokenDecoder::add_replacement(const Json& json) {
  const Normalizer step(json, "decoder", steps_.size());
  const auto all = [step](Tokens& tokens, Growth growth) {
    for (std::string& token : tokens) token = step(token, growth);
  };
  add({all, [step](std::string& token, bool, Growth growth) { token = step(token, growth); }});
}

void TokenDecoder::read(const Json& json) {
  const std::string type = json_text(json, "type");
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "decoders")) read(part);
  } else if (type == "ByteLevel") {
    add({[](Tokens& tokens, auto&) {
           for (std::string& token : tokens) from_alphabet(token);
           join(tokens);
           tokens[0] = valid_utf8(tokens[0]);
         },
         [](std::string& token, bool, auto&) { from_alphabet(token); }});
    fused_ = true;
  } else if (type == "ByteFallback") {
    add({[](Tokens& tokens, auto&) { join_bytes(tokens); },
         [](std::string& token, bool, auto&) {
           const int byte = byte_of_token(token);
           if (byte >= 0) token.assign(1, static_cast<char>(byte));
         }});
  } else if (type == "Fuse") {
    add({[](Tokens& tokens, auto&) { join(tokens); }, nullptr});
    fused_ = true;
  } else if (type == "Strip") {
    read_strip(json);
  } else if (type == "Replace") {
    add_replacement(json);
  } else if (type == "WordPiece") {
    add_word_pieces(json);
  } else if (type == "Metaspace") {
    std::string mark;
    append_utf8(mark, json_character(json, "replacement", "\u2581"));
    const bool prefix = json_bool(json, "add_prefix_space", true);
    const bool drop = json_text(json, "prepend_scheme", prefix ? "always" : "never") != "never";
    drops_space_ |= drop;
    add_each([=](std::string& token, bool first) {
      replace_all(token, mark, first && drop ? "" : " ");
    });
  } else if (type == "BPEDecoder") {
    add_word_ends(json);
  } else if (type == "CTC") {
    add_alignment(json);
  } else {
    throw Error(ErrorKind::kUnsupported, "unknown decoder type \"{}\"", printable(type));
  }
}

std::string TokenDecoder::decode(std::vector<std::string> tokens) const {
  const Growth growth(total_bytes(tokens));
  for (const Step& step : steps_) step.all(tokens, growth);
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (steps_.empty() && i > 0) out += ' ';
    out += tokens[i];
  }
  return out;
}

std::string TokenDecoder::piece(std::string token, bool first) const {
  if (steps_.empty()) return first ? token : " " + token;
  const Growth growth(token.size());
  for (const Step& step : steps_)
    if (step.one) step.one(token, first, growth);
  return token;
}

}  // namespace veery
