#include "text/split/splitter.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/byte_alphabet.h"
#include "text/common/characters.h"
#include "text/common/json_fields.h"
#include "text/common/script_pattern.h"
#include "text/split/pre_tokenizer.h"

namespace veery {
namespace {

// Applies a SplitBehavior to a sequence of matches and gaps. A piece that may still grow is held
// back.
class Cutter {
 public:
  Cutter(const Piece& piece, SplitBehavior behavior, const PieceSink& sink)
      : piece_(piece), behavior_(behavior), sink_(sink) {}

  void part(size_t begin, size_t end, bool match) {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!match) emit(begin, end);
        return;
      case SplitBehavior::kIsolated: emit(begin, end); return;
      case SplitBehavior::kContiguous: join(begin, end, match == previous_match_); break;
      case SplitBehavior::kMergedWithPrevious: join(begin, end, match && !previous_match_); break;
      case SplitBehavior::kMergedWithNext: join(begin, end, !match && previous_match_); break;
    }
    previous_match_ = match;
  }
  void finish() {
    if (held_) emit(held_begin_, held_end_);
  }

 private:
  void join(size_t begin, size_t end, bool to_held) {
    if (held_ && to_held) {
      held_end_ = end;
      return;
    }
    finish();
    held_ = true;
    held_begin_ = begin;
    held_end_ = end;
  }
  void emit(size_t begin, size_t end) {
    sink_({piece_.text.substr(begin, end - begin), piece_.first && begin == 0});
  }

  const Piece& piece_;
  SplitBehavior behavior_;
  const PieceSink& sink_;
  bool held_ = false, previous_match_ = false;
  size_t held_begin_ = 0, held_end_ = 0;
};

// Splits into runs of word characters and runs of other characters; drops whitespace.
void split_words(const Piece& piece, Splitter::Context&, const PieceSink& sink) {
  enum class Class { kSpace, kWord, kOther };
  Class now = Class::kSpace;
  size_t begin = 0, at = 0;
  const auto emit = [&] {
    if (now != Class::kSpace)
      sink({piece.text.substr(begin, at - begin), piece.first && begin == 0});
  };
  for_each_character(piece.text, [&](char32_t c, std::string_view bytes) {
    const Class next = is_white_space(c)      ? Class::kSpace
                       : is_word_character(c) ? Class::kWord
                                              : Class::kOther;
    if (next != now) {
      emit();
      now = next;
      begin = at;
    }
    at += bytes.size();
  });
  emit();
}

bool is_any_punctuation(char32_t c) { return is_ascii_punctuation(c) || is_punctuation(c); }

Splitter::Step add_prefix_space() {
  return [](const Piece& piece, Splitter::Context& context, const PieceSink& sink) {
    if (piece.text.empty() || piece.text[0] == ' ') return sink(piece);
    context.growth.add("the pre_tokenizer's prefix space", piece.text.size() + 1);
    const std::string spaced = " " + std::string(piece.text);
    sink({spaced, piece.first});
  };
}

Splitter::Step in_alphabet() {
  return [](const Piece& piece, Splitter::Context& context, const PieceSink& sink) {
    const std::string written = to_alphabet(piece.text);
    context.growth.add("the pre_tokenizer \"ByteLevel\"", written.size());
    sink({written, piece.first});
  };
}

Splitter::Step fixed_length(size_t length) {
  return [length](const Piece& piece, Splitter::Context&, const PieceSink& sink) {
    size_t begin = 0, at = 0, count = 0;
    const auto emit = [&] {
      sink({piece.text.substr(begin, at - begin), piece.first && begin == 0});
      begin = at;
      count = 0;
    };
    for_each_character(piece.text, [&](char32_t, std::string_view bytes) {
      at += bytes.size();
      if (++count == length) emit();
    });
    emit();
  };
}

SplitBehavior behavior_of(const Json& json, std::string_view otherwise) {
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const std::string name = json_text(json, "behavior", otherwise);
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  throw Error(ErrorKind::kUnsupported, "unknown \"behavior\": \"{}\"", printable(name));
}

Splitter::Step read_metaspace(const Json& json) {
  constexpr std::pair<std::string_view, PrependScheme> kNames[] = {
      {"never", PrependScheme::kNever},
      {"first", PrependScheme::kFirst},
      {"always", PrependScheme::kAlways}};
  const bool prefix = json_bool(json, "add_prefix_space", true);
  const std::string name = json_text(json, "prepend_scheme", prefix ? "always" : "never");
  std::string mark;
  append_utf8(mark, json_character(json, "replacement", "\u2581"));
  for (const auto& [known, scheme] : kNames)
    if (name == known) return mark_spaces(mark, scheme, json_bool(json, "split", true));
  throw Error(ErrorKind::kUnsupported, "unknown \"prepend_scheme\": \"{}\"", printable(name));
}

}  // namespace

Splitter::Step split_at(Regex pattern, SplitBehavior behavior, bool invert) {
  const auto regex = std::make_shared<Regex>(std::move(pattern));
  return [=](const Piece& piece, Splitter::Context& context, const PieceSink& sink) {
    std::string substitute;
    std::string_view text = piece.text;
    if (context.needs_substitutes && needs_substitutes(text))
      text = substitute = with_substitutes(text);
    Cutter cutter(piece, behavior, sink);
    size_t done = 0;
    regex->for_each_match(text, context.regex, [&](const Regex::Match& match) {
      if (match.begin > done) cutter.part(done, match.begin, invert);
      cutter.part(match.begin, match.end, !invert);
      done = match.end;
    });
    if (done < text.size()) cutter.part(done, text.size(), invert);
    cutter.finish();
  };
}

Splitter::Step split_at(bool (*matches)(char32_t), SplitBehavior behavior) {
  return [=](const Piece& piece, Splitter::Context&, const PieceSink& sink) {
    Cutter cutter(piece, behavior, sink);
    size_t done = 0, at = 0;
    for_each_character(piece.text, [&](char32_t c, std::string_view bytes) {
      if (matches(c)) {
        if (at > done) cutter.part(done, at, false);
        cutter.part(at, at + bytes.size(), true);
        done = at + bytes.size();
      }
      at += bytes.size();
    });
    if (done < at) cutter.part(done, at, false);
    cutter.finish();
  };
}

Splitter::Step mark_spaces(std::string mark, PrependScheme scheme, bool cut) {
  return [=](const Piece& piece, Splitter::Context& context, const PieceSink& sink) {
    std::string marked;
    marked.reserve(piece.text.size() + piece.text.size() / 2 + mark.size());
    const bool wanted =
        scheme == PrependScheme::kAlways || (scheme == PrependScheme::kFirst && piece.first);
    if (wanted && piece.text[0] != ' ' && !piece.text.starts_with(mark)) marked = mark;
    for (const char c : piece.text)
      if (c == ' ')
        marked += mark;
      else
        marked += c;
    context.growth.add("the pre_tokenizer \"Metaspace\"", marked.size());
    const std::string_view all = marked;
    size_t begin = 0;
    while (cut && begin < all.size()) {
      const size_t end = std::min(all.find(mark, begin + 1), all.size());
      sink({all.substr(begin, end - begin), piece.first && begin == 0});
      begin = end;
    }
    if (!cut) sink({all, piece.first});
  };
}

Splitter::Splitter(const Json& json) {
  if (!json.is_null()) read(json, true);
}

void Splitter::add(Step step) {
  if (steps_.size() == kMostSteps)
    throw Error(ErrorKind::kLimit, "a sequence of more than {} pre_tokenizers", kMostSteps);
  steps_.push_back(std::move(step));
}

void Splitter::read(const Json& json, bool last) {
  const std::string type = json_text(json, "type");
  if (type == "Sequence") {
    const Json& parts = json_array(json, "pretokenizers");
    for (size_t i = 0; i < parts.size(); ++i) read(parts[i], last && i + 1 == parts.size());
  } else if (type == "ByteLevel") {
    if (json_bool(json, "add_prefix_space", true)) add(add_prefix_space());
    if (json_bool(json, "use_regex", true))
      add(split_at(Regex(find_pre_tokenizer("gpt-2")->patterns[0]), SplitBehavior::kIsolated));
    ends_in_bytes_ = last;
    if (!last) add(in_alphabet());
  } else if (type == "Split") {
    const auto plain = json_plain_pattern(json, "pattern");
    if (plain && plain->empty()) return;  // never matches
    add(split_at(json_pattern(json, "pattern"), behavior_of(json, "Isolated"),
                 json_bool(json, "invert", false)));
  } else if (type == "Metaspace") {
    add(read_metaspace(json));
  } else if (type == "Whitespace") {
    add(split_words);
  } else if (type == "WhitespaceSplit") {
    add(split_at(is_white_space, SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    add(split_at(is_white_space, SplitBehavior::kRemoved));
    add(split_at(is_any_punctuation, SplitBehavior::kIsolated));
  } else if (type == "Punctuation") {
    add(split_at(is_any_punctuation, behavior_of(json, "Isolated")));
  } else if (type == "Digits") {
    const bool alone = json_bool(json, "individual_digits", false);
    add(split_at(is_number, alone ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "UnicodeScripts") {
    add(split_at(Regex(script_pattern()), SplitBehavior::kRemoved, true));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    std::string delimiter;
    append_utf8(delimiter, json_character(json, "delimiter", ""));
    add(split_at(Regex(regex_of(delimiter)), SplitBehavior::kRemoved));
  } else if (type == "FixedLength") {
    const int64_t length = json_integer(json, "length", 5);
    if (length < 1)
      throw Error(ErrorKind::kFormat, "\"length\" is {}, expected at least 1", length);
    add(fixed_length(static_cast<size_t>(length)));
  } else {
    throw Error(ErrorKind::kUnsupported, "unknown pre_tokenizer type \"{}\"", printable(type));
  }
}

void Splitter::write_in_alphabet() {
  add(in_alphabet());
  ends_in_bytes_ = false;
}

void Splitter::run(size_t step, const Piece& piece, Context& context, const PieceSink& sink) const {
  if (step == steps_.size()) return sink(piece);
  const auto next = [&](const Piece& part) { run(step + 1, part, context, sink); };
  steps_[step](piece, context, next);
}

}  // namespace veery
