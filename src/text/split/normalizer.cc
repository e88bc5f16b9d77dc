#include "text/split/normalizer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/base64.h"
#include "text/common/byte_alphabet.h"
#include "text/common/characters.h"
#include "text/common/charsmap.h"
#include "text/common/json_fields.h"

namespace veery {
namespace {

Normalizer::Step in_form(NormalForm form) {
  return [form](std::string& text, auto, auto&) { text = normal_form(text, form); };
}

// Returns a step that calls `append` for each character.
template <typename Append>
Normalizer::Step each_character(Append append) {
  return [append](std::string& text, auto, auto&) {
    std::string out;
    out.reserve(text.size());
    for_each_character(text, [&](char32_t c, std::string_view bytes) { append(out, c, bytes); });
    text = std::move(out);
  };
}

void lowercase(std::string& out, char32_t c, std::string_view bytes) {
  if (c == kReplacementCharacter)
    out += bytes;  // may be a malformed byte
  else
    append_lower(out, c);
}

void strip(std::string& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const CodePoint point = next_code_point(std::string_view(text).substr(begin));
    if (!is_white_space(point.value)) break;
    begin += static_cast<size_t>(point.length);
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(next_code_point(std::string_view(text).substr(at)).value)) break;
    end = at;
  }
  text = text.substr(begin, end - begin);
}

Normalizer::Step replace_pattern(Regex pattern, std::string with) {
  const auto shared = std::make_shared<Regex>(std::move(pattern));
  return [shared, with](std::string& text, std::string_view name, const Growth& growth) {
    std::string substitute;
    if (needs_substitutes(text)) substitute = with_substitutes(text);
    RegexScratch scratch;
    std::string out;
    size_t done = 0;
    shared->for_each_match(substitute.empty() ? text : substitute, scratch,
                           [&](const Regex::Match& match) {
                             out.append(text, done, match.begin - done);
                             out += with;
                             done = match.end;
                             growth.check(name, out.size());
                           });
    out.append(text, done);
    text = std::move(out);
  };
}

// SentencePiece's rules for machine translation ("nmt"): removes controls and converts unusual
// spaces to ' '.
void clean_for_translation(std::string& out, char32_t c, std::string_view bytes) {
  const bool gone = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                    c == 0x7F || c == 0x8F || c == 0x9F;
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (space)
    out += ' ';
  else if (!gone)
    out += bytes;
}

Normalizer::Step compiled_map(const Json& json) {
  const auto bytes = decode_base64(json_text(json, "precompiled_charsmap"));
  if (!bytes) throw Error(ErrorKind::kFormat, "\"precompiled_charsmap\" is not base64");
  if (bytes->empty()) return [](std::string&, auto, auto&) {};
  const auto map = std::make_shared<Charsmap>(*bytes);
  return [map](std::string& text, std::string_view name, const Growth& growth) {
    text = map->by_graphemes(text, name, growth);
  };
}

}  // namespace

Normalizer::Step replace_text(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string& text, std::string_view name,
                                                      const Growth& growth) {
    size_t at = from.empty() ? text.npos : text.find(from);
    if (at == text.npos) return;
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    size_t done = 0;
    for (; at != text.npos; at = text.find(from, done)) {
      out.append(text, done, at - done);
      out += to;
      growth.check(name, out.size());
      done = at + from.size();
    }
    out.append(text, done);
    text = std::move(out);
  };
}

Normalizer::Step bert_cleaning(const BertCleaning& options) {
  return [options](std::string& text, auto, auto&) {
    std::string out;
    out.reserve(text.size());
    for_each_character(text, [&](char32_t c, std::string_view bytes) {
      const bool space = is_white_space(c);
      const bool kept = c == '\t' || c == '\n' || c == '\r';
      const bool gone = c == 0 || c == kReplacementCharacter || (is_other(c) && !kept);
      if (options.clean_text && gone) return;
      const bool alone = options.ideographs && is_cjk_ideograph(c);
      if (alone) out += ' ';
      out += options.clean_text && space ? std::string_view(" ") : bytes;
      if (alone) out += ' ';
    });
    if (options.strip_accents) {
      const std::string apart = normal_form(out, NormalForm::kNfd);
      out.clear();
      for_each_character(apart, [&](char32_t c, std::string_view bytes) {
        if (!is_nonspacing_mark(c)) out += bytes;
      });
    }
    text.clear();
    if (!options.lowercase) {
      text = std::move(out);
      return;
    }
    for_each_character(
        out, [&](char32_t c, std::string_view bytes) { veery::lowercase(text, c, bytes); });
  };
}

Normalizer::Normalizer(const Json& json, std::string_view kind, size_t number)
    : kind_(kind), number_(number) {
  if (!json.is_null()) read(json);
}

void Normalizer::read(const Json& json) {
  const std::string type = json_text(json, "type");
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "normalizers")) read(part);
  } else if (type == "NFC") {
    add(type, in_form(NormalForm::kNfc));
  } else if (type == "NFD") {
    add(type, in_form(NormalForm::kNfd));
  } else if (type == "NFKC") {
    add(type, in_form(NormalForm::kNfkc));
  } else if (type == "NFKD") {
    add(type, in_form(NormalForm::kNfkd));
  } else if (type == "Lowercase") {
    add(type, each_character(lowercase));
  } else if (type == "StripAccents") {
    add(type, each_character([](std::string& out, char32_t c, std::string_view bytes) {
          if (!is_mark(c)) out += bytes;
        }));
  } else if (type == "Nmt") {
    add(type, each_character(clean_for_translation));
  } else if (type == "ByteLevel") {
    add(type, [](std::string& text, auto, auto&) { text = to_alphabet(text); });
  } else if (type == "Precompiled") {
    add(type, compiled_map(json));
  } else if (type == "Strip") {
    const bool left = json_bool(json, "strip_left", true);
    const bool right = json_bool(json, "strip_right", true);
    add(type, [=](std::string& text, auto, auto&) { strip(text, left, right); });
  } else if (type == "Prepend") {
    add(type, [prefix = json_text(json, "prepend")](std::string& text, auto, auto&) {
      if (!text.empty()) text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    const auto plain = json_plain_pattern(json, "pattern");
    const std::string content = json_text(json, "content");
    add(type, plain && !plain->empty() ? replace_text(*plain, content)
                                       : replace_pattern(json_pattern(json, "pattern"), content));
  } else if (type == "BertNormalizer") {
    const bool lower = json_bool(json, "lowercase", true);
    add(type, bert_cleaning({.clean_text = json_bool(json, "clean_text", true),
                             .ideographs = json_bool(json, "handle_chinese_chars", true),
                             .strip_accents = json_bool(json, "strip_accents").value_or(lower),
                             .lowercase = lower}));
  } else {
    throw Error(ErrorKind::kUnsupported, "unknown normalizer type \"{}\"", printable(type));
  }
}

void Normalizer::add(std::string_view type, Step step) {
  if (steps_.size() == kMostSteps)
    throw Error(ErrorKind::kLimit, "a sequence of more than {} normalizers", kMostSteps);
  std::string name = fmt::format("{} {} (\"{}\")", kind_, number_ + steps_.size(), type);
  steps_.push_back({std::move(name), std::move(step)});
}

std::string Normalizer::operator()(std::string_view text, Growth& growth) const {
  std::string out(text);
  for (const Named& step : steps_) {
    step.run(out, step.name, growth);
    growth.check(step.name, out.size());
  }
  growth.add(kind_, out.size());
  return out;
}

}  // namespace veery
