#include "text/vocabulary_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

// Appends `text`, converting space marks (U+2581) to spaces.
void append_with_spaces(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, at), text.size());
    out += text.substr(at, mark - at);
    if (mark < text.size()) out.push_back(' ');
    at = mark + kSpaceMark.size();
  }
}

// Converts single space marks to spaces. A run of marks is a token of its own (Gemma's
// tokenizer.json).
void append_lone_marks_as_spaces(std::string_view text, std::string& out) {
  const auto mark_at = [&](size_t at) { return text.substr(at, 3) == kSpaceMark; };
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, at), text.size());
    out += text.substr(at, mark - at);
    size_t end = mark;
    while (end < text.size() && mark_at(end)) end += kSpaceMark.size();
    if (end == mark + kSpaceMark.size())
      out.push_back(' ');
    else
      out += text.substr(mark, end - mark);
    at = end;
  }
}

}  // namespace

bool strips_after_special(const Metadata& metadata) {
  std::string name = metadata.text("general.name").value_or("");
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

VocabularyTokenizer::VocabularyTokenizer(const Metadata& metadata, Vocabulary vocabulary,
                                         const SpecialDefaults& defaults, bool spaces_are_marks)
    : vocabulary_(std::move(vocabulary)),
      spaces_are_marks_(spaces_are_marks),
      matcher_(
          (special_ = resolve_special(metadata, defaults, vocabulary_), vocabulary_),
          {.strip_after = strips_after_special(metadata), .spaces_are_marks = spaces_are_marks}) {
  size_ = vocabulary_.size();
  for (int32_t id = 0; id < size_; ++id) {
    const TokenType type = vocabulary_.type(id);
    const std::string_view text = vocabulary_.bytes(id);
    const bool control = type == TokenType::kControl || type == TokenType::kUnknown ||
                         (type == TokenType::kUserDefined && is_control_name(text));
    if (control && !text.empty()) controls_.emplace_back(text);
  }
  std::vector<int32_t> between = separator_of(metadata, special_.eos, false);
  std::erase_if(between, [&](int32_t id) { return id >= size_; });
  const auto one = [](bool wanted, int32_t id) {
    return wanted && id >= 0 ? std::vector{id} : std::vector<int32_t>();
  };
  template_ = SequenceTemplate::around(one(special_.add_bos, special_.bos),
                                       one(special_.add_eos, special_.eos), between, 0);
}

std::vector<int32_t> VocabularyTokenizer::encode_alone(std::string_view text,
                                                       const EncodeOptions& options) const {
  if (text.size() > UINT32_MAX)
    throw Error(ErrorKind::kLimit, "text to encode has {} bytes, at most {} are supported",
                text.size(), UINT32_MAX);
  std::string spaced;
  if (spaces_are_marks_ && matcher_.has_space_runs() &&
      text.find(kSpaceMark) != std::string_view::npos) {
    append_lone_marks_as_spaces(text, spaced);
    text = spaced;
  }
  std::vector<int32_t> out;
  bool starts = true;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = matcher_.next(text, at, options.parse_special);
    const size_t plain_end = match.id < 0 ? text.size() : match.begin;
    if (plain_end > at) {
      LostBytes lost;
      std::string_view plain = text.substr(at, plain_end - at);
      std::string unguarded;
      if (!options.guard.empty() && plain.find(options.guard) != std::string_view::npos)
        plain = unguarded = without_guard(plain, options.guard);
      if (!plain.empty()) encode_plain(plain, starts, out, lost);
      if (options.lost != nullptr && lost.count > 0)
        options.lost->add(lost.count, spaced.empty() ? at + lost.first : 0);
      starts = false;
    }
    if (match.id < 0) break;
    out.push_back(match.id);
    starts = true;
    at = match.end;
  }
  return out;
}

int VocabularyTokenizer::byte_of(int32_t id) const {
  if (vocabulary_.type(id) != TokenType::kByte) return -1;
  const std::string_view text = vocabulary_.bytes(id);
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return error == std::errc() && end == text.data() + 5 ? value : -1;
}

void VocabularyTokenizer::append_piece(int32_t id, bool show_special, std::string& out) const {
  if (id < 0 || id >= size_)
    throw Error(ErrorKind::kInput, "token {} is outside the vocabulary of {} tokens", id, size_);
  const TokenType type = vocabulary_.type(id);
  const std::string_view text = vocabulary_.bytes(id);
  if (type == TokenType::kControl || type == TokenType::kUnknown) {
    if (show_special) out += text;
    return;
  }
  if (const int byte = byte_of(id); byte >= 0) {
    out.push_back(static_cast<char>(byte));
    return;
  }
  if (!spaces_are_marks_) {
    out += text;
    return;
  }
  append_with_spaces(text, out);
}

std::string VocabularyTokenizer::piece(int32_t id, bool special) const {
  std::string out;
  append_piece(id, special, out);
  return out;
}

std::string VocabularyTokenizer::decode(const std::vector<int32_t>& ids, bool special) const {
  std::string out;
  for (const int32_t id : ids) append_piece(id, special, out);
  if (adds_space_ && !out.empty() && out[0] == ' ') out.erase(0, 1);
  return out;
}

std::optional<int32_t> VocabularyTokenizer::find(std::string_view token) const {
  const int32_t id = vocabulary_.find_written(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::string VocabularyTokenizer::token(int32_t id) const {
  if (id < 0 || id >= size_)
    throw Error(ErrorKind::kInput, "token {} is outside the vocabulary of {} tokens", id, size_);
  return vocabulary_.written(id);
}

}  // namespace veery
