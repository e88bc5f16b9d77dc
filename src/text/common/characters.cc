#include "text/common/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace veery {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// Returns whether normalisation may change the text: text below U+0300 is in NFC, and ASCII is in
// all normal forms.
bool may_change(std::string_view text, NormalForm form) {
  const unsigned char least = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::any_of(text.begin(), text.end(),
                     [=](char c) { return static_cast<unsigned char>(c) >= least; });
}

// Sorts runs of combining marks by combining class. The library's decomposition of a whole text
// does this by exchanging neighbours, which takes quadratic time for long runs.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto rank = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if(begin, characters.end(), [&](auto c) { return rank(c) != 0; });
    const auto end = std::find_if(begin, characters.end(), [&](auto c) { return rank(c) == 0; });
    std::stable_sort(begin, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    begin = end;
  }
}

// Hugging Face's tokenizers library classifies characters by Unicode 8. The tables below list
// characters that later versions classify differently, because ids would differ otherwise.
struct Range {
  char32_t first, last;
};
template <size_t kCount>
bool within(const Range (&ranges)[kCount], char32_t c) {
  return std::ranges::any_of(ranges, [c](Range r) { return r.first <= c && c <= r.last; });
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

bool is_punctuation(char32_t c) {
  // Punctuation added after Unicode 8 (Siddham, hyphens, commas of later scripts), and two
  // characters that were punctuation in Unicode 8 only.
  constexpr Range kLater[] = {
      {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},
      {0xC84, 0xC84},     {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},
      {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x1144B, 0x1144F},
      {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
      {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
      {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45},
      {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF},
      {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F}};
  if (c == 0x166D || c == 0x111C9) return true;
  if (c > 0x60C && within(kLater, c)) return false;
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_other(char32_t c) {
  constexpr Range kLater[] = {
      {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};
  if (c > 0x88F && within(kLater, c)) return false;
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_CC && kind <= UTF8PROC_CATEGORY_CO;
}

bool is_word_character(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  const utf8proc_category_t kind = category(c);
  const bool letter = kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
  const bool joiner = c == 0x200C || c == 0x200D;
  // Circled and squared letters are alphabetic although they are symbols.
  const bool symbol = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return letter || is_mark(c) || joiner || symbol || kind == UTF8PROC_CATEGORY_ND ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC;
}

bool is_cjk_ideograph(char32_t c) {
  constexpr struct {
    char32_t first, last;
  } kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                 {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [=](const auto& block) { return c >= block.first && c <= block.last; });
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
    return;
  }
  if (c == 0x130) {  // the only character whose lower case is two characters
    out += "i\u0307";
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for_each_character(text, [&](char32_t c, std::string_view) { append_lower(lower, c); });
  return lower;
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (!may_change(text, form)) return std::string(text);
  constexpr size_t kMostOfOne = 32;  // longest decomposition of a character; Unicode has 18
  const utf8proc_option_t options = options_of(form);
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint point = next_code_point(rest);
    if (!point.valid) return std::string(text);
    rest.remove_prefix(static_cast<size_t>(point.length));
    std::array<utf8proc_int32_t, kMostOfOne> parts{};
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(point.value), parts.data(), kMostOfOne, options, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(kMostOfOne)) return std::string(text);
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(characters);
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), options);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    append_utf8(out, static_cast<char32_t>(characters[static_cast<size_t>(i)]));
  return out;
}

size_t grapheme_length(std::string_view text) {
  CodePoint point = next_code_point(text);
  auto length = static_cast<size_t>(point.length);
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const CodePoint next = next_code_point(text.substr(length));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      break;
    length += static_cast<size_t>(next.length);
    point = next;
  }
  return length;
}

}  // namespace veery
