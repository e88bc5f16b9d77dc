#include "text/grammar/language/pattern_syntax.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/regex.h"

namespace veery::schema {
namespace {

constexpr int kMostDepth = 100;
constexpr int32_t kMostRepeats = 100'000;

using Kind = PatternNode::Kind;

const CodeSet& digits() {
  static const CodeSet set{{'0', '9'}};
  return set;
}
const CodeSet& word_characters() {
  static const CodeSet set = normal_set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return set;
}
// Whitespace as defined by ECMA-262, sections 12.2 and 12.3.
CodeSet spaces() {
  return normal_set({{'\t', '\r'},
                     {' ', ' '},
                     {0xA0, 0xA0},
                     {0x1680, 0x1680},
                     {0x2000, 0x200A},
                     {0x2028, 0x2029},
                     {0x202F, 0x202F},
                     {0x205F, 0x205F},
                     {0x3000, 0x3000},
                     {0xFEFF, 0xFEFF}});
}
// Python's re also counts U+001C to U+001F and U+0085 as whitespace, and ECMA-262 U+FEFF. \s and \S
// match only code points on which both agree.
CodeSet agreed_spaces() { return intersect_sets(spaces(), complement_set({{0xFEFF, 0xFEFF}})); }
CodeSet agreed_no_spaces() {
  CodeSet all = spaces();
  all.push_back({0x1C, 0x1F});
  all.push_back({0x85, 0x85});
  return complement_set(normal_set(all));
}

// Returns the code points of a Unicode property, by matching \p{name} against a text of all scalar
// values.
CodeSet find_property(const std::string& name) {
  static const std::string all = [] {
    std::string text;
    for (const CodeRange& range : complement_set({}))
      for (char32_t code = range.low; code <= range.high; ++code) append_utf8(text, code);
    return text;
  }();
  const Regex regex("\\p{" + name + "}+");
  RegexScratch scratch;
  CodeSet set;
  regex.for_each_match(all, scratch, [&](const Regex::Match& match) {
    if (match.end == match.begin) return;
    const char32_t first = next_code_point(std::string_view(all).substr(match.begin)).value;
    size_t last = match.end - 1;
    while ((static_cast<unsigned char>(all[last]) & 0xC0) == 0x80) --last;
    set.push_back({first, next_code_point(std::string_view(all).substr(last)).value});
  });
  return normal_set(set);
}

CodeSet property(std::string name) {
  static std::mutex mutex;
  static std::map<std::string, CodeSet> known;
  constexpr std::pair<std::string_view, std::string_view> kLong[] = {{"Letter", "L"},
                                                                     {"Lowercase_Letter", "Ll"},
                                                                     {"Uppercase_Letter", "Lu"},
                                                                     {"Number", "N"},
                                                                     {"Decimal_Number", "Nd"},
                                                                     {"digit", "Nd"},
                                                                     {"Punctuation", "P"},
                                                                     {"punct", "P"},
                                                                     {"Symbol", "S"},
                                                                     {"Separator", "Z"},
                                                                     {"Space_Separator", "Zs"},
                                                                     {"Mark", "M"},
                                                                     {"Alphabetic", "L"},
                                                                     {"Control", "Cc"},
                                                                     {"Other", "C"},
                                                                     {"Titlecase_Letter", "Lt"}};
  if (const size_t equals = name.find('='); equals != std::string::npos) name.erase(0, equals + 1);
  for (const auto& [words, letters] : kLong)
    if (name == words) name = letters;
  const bool plain = std::ranges::all_of(
      name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; });
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  try {
    if (!plain || name.empty() || known.size() > 64) throw Error(ErrorKind::kInput, "{}", name);
    return known.emplace(name, find_property(name)).first->second;
  } catch (const Error&) {
    throw Error(ErrorKind::kUnsupported, "unknown Unicode property '{}'", printable(name, 40));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) {
    while (!pattern.empty()) {
      const CodePoint code = next_code_point(pattern);
      pattern.remove_prefix(static_cast<size_t>(code.length));
      text_.push_back(code.value);
    }
  }

  PatternNode whole() {
    PatternNode node = choice(0);
    if (at_ < text_.size()) fail("unmatched ')'");
    return node;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw Error(ErrorKind::kInput, "character {} of the pattern: {}", at_ + 1, why);
  }
  [[noreturn]] static void refuse(const char* form) {
    throw Error(ErrorKind::kUnsupported, "the pattern has {}, which is not supported", form);
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0;
  }
  bool take(char32_t code) {
    if (!more() || text_[at_] != code) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (std::u32string_view(text_).substr(at_).substr(0, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  static PatternNode of_set(CodeSet set) { return {.kind = Kind::kSet, .set = std::move(set)}; }
  static PatternNode of_code(char32_t code) { return of_set({{code, code}}); }

  PatternNode choice(int depth) {
    if (depth > kMostDepth) throw Error(ErrorKind::kLimit, "the pattern is nested too deeply");
    PatternNode node{.kind = Kind::kChoice};
    do node.items.push_back(sequence(depth));
    while (take('|'));
    return node.items.size() == 1 ? std::move(node.items.front()) : node;
  }

  PatternNode sequence(int depth) {
    PatternNode node{.kind = Kind::kSequence};
    while (more() && peek() != '|' && peek() != ')') {
      PatternNode item = repeated(term(depth));
      // Look-aheads and '^' read nothing, so '^' may move before them.
      auto place = node.items.end();
      if (item.kind == Kind::kStart)
        while (place != node.items.begin() && (place - 1)->kind == Kind::kLookAhead) --place;
      node.items.insert(place, std::move(item));
    }
    return node;
  }

  PatternNode term(int depth) {
    const char32_t code = peek();
    ++at_;
    switch (code) {
      case '^': return {.kind = Kind::kStart};
      case '$': return {.kind = Kind::kEnd};
      case '.':
        return of_set(complement_set(normal_set({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})));
      case '(': return group(depth);
      case '[': return of_set(char_class());
      case '\\': return escape();
      case '*':
      case '+':
      case '?': --at_; fail("nothing to repeat");
      default: return of_code(code);
    }
  }

  PatternNode group(int depth) {
    PatternNode node;
    if (take(U"?=") || take(U"?!")) {
      node.kind = Kind::kLookAhead;
      node.negated = text_[at_ - 1] == '!';
      node.items.push_back(choice(depth + 1));
    } else if (take(U"?<=") || take(U"?<!")) {
      refuse("a look-behind");
    } else if (take(U"?:")) {
      node = choice(depth + 1);
    } else {
      if (take(U"?<") || take(U"?P<")) {
        while (more() && peek() != '>') ++at_;
        if (!take('>')) fail("missing '>' after the name of a group");
      } else if (peek() == '?') {
        refuse("an unknown kind of group");
      }
      node = choice(depth + 1);
    }
    if (!take(')')) fail("missing ')'");
    return node;
  }

  std::optional<int32_t> number() {
    if (peek() < '0' || peek() > '9') return {};
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<int64_t>(value * 10 + (peek() - '0'), kMostRepeats + 1);
    if (value > kMostRepeats)
      throw Error(ErrorKind::kLimit, "the pattern repeats more than {} times", kMostRepeats);
    return static_cast<int32_t>(value);
  }

  // Returns false if the text is not a quantifier.
  bool quantifier(int32_t& least, int32_t& most) {
    least = 0, most = -1;
    if (take('*')) return true;
    if (take('+')) return least = 1, true;
    if (take('?')) return most = 1, true;
    const size_t begin = at_;
    if (!take('{')) return false;
    const auto low = number();
    least = low.value_or(0), most = least;
    if (take(',')) most = number().value_or(-1);
    if (low && take('}')) {
      if (most >= 0 && most < least) fail("the bounds of a repetition are out of order");
      return true;
    }
    at_ = begin;  // '{' is literal, as it is without the flag u
    return false;
  }

  PatternNode repeated(PatternNode item) {
    int32_t least = 0, most = 0;
    while (quantifier(least, most)) {
      take('?');  // lazy: same language
      PatternNode node{.kind = Kind::kRepeat, .least = least, .most = most};
      node.items.push_back(std::move(item));
      item = std::move(node);
    }
    return item;
  }

  char32_t hex(int count) {
    char32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char32_t c = peek() | 0x20;
      if (c >= '0' && c <= '9')
        value = value * 16 + (c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + (c - 'a' + 10);
      else
        fail("too few hexadecimal digits in an escape");
    }
    return value;
  }

  char32_t unicode_escape() {
    if (!take('{')) {
      const char32_t first = hex(4);
      if (first < 0xD800 || first > 0xDBFF || !take(U"\\u")) return first;
      return 0x10000 + ((first - 0xD800) << 10) + (hex(4) - 0xDC00);
    }
    char32_t value = 0;
    do value = value * 16 + hex(1);
    while (value <= kLastCodePoint && peek() != '}' && more());
    if (!take('}') || value > kLastCodePoint) fail("invalid code point in an escape");
    return value;
  }

  // Returns the set if the escape denotes one (\d, \p{..}); the backslash has been consumed.
  std::optional<CodeSet> set_escape() {
    const char32_t letter = peek();
    switch (letter) {
      case 'd': return ++at_, digits();
      case 'D': return ++at_, complement_set(digits());
      case 'w': return ++at_, word_characters();
      case 'W': return ++at_, complement_set(word_characters());
      case 's': return ++at_, agreed_spaces();
      case 'S': return ++at_, agreed_no_spaces();
      case 'p':
      case 'P': break;
      default: return {};
    }
    ++at_;
    std::string name;
    if (!take('{')) fail("missing '{' after '\\p'");
    while (more() && peek() != '}') append_utf8(name, text_[at_++]);
    if (!take('}')) fail("missing '}' after the name of a property");
    const CodeSet set = property(name);
    return letter == 'p' ? set : complement_set(set);
  }

  char32_t code_escape() {
    if (!more()) fail("backslash at the end of the pattern");
    const char32_t letter = text_[at_++];
    switch (letter) {
      case 't': return '\t';
      case 'n': return '\n';
      case 'v': return '\v';
      case 'f': return '\f';
      case 'r': return '\r';
      case '0': return 0;
      case 'x': return hex(2);
      case 'u': return unicode_escape();
      case 'c':
        if ((peek() | 0x20) < 'a' || (peek() | 0x20) > 'z') fail("missing letter after '\\c'");
        return text_[at_++] % 32;
      default: return letter;
    }
  }

  PatternNode escape() {
    if (peek() == 'b' || peek() == 'B') refuse("a word boundary");
    if ((peek() >= '1' && peek() <= '9') || peek() == 'k') refuse("a back reference");
    if (take('A')) return {.kind = Kind::kStart};
    if (take('Z') || take('z')) return {.kind = Kind::kEnd};
    if (auto set = set_escape()) return of_set(std::move(*set));
    return of_code(code_escape());
  }

  CodeSet char_class() {
    CodeSet set;
    const bool negated = take('^');
    const auto member = [&](bool& is_set) -> char32_t {
      is_set = false;
      if (!take('\\')) return text_[at_++];
      if (take('b')) return '\b';
      if (auto found = set_escape()) {
        is_set = true;
        set.insert(set.end(), found->begin(), found->end());
        return 0;
      }
      return code_escape();
    };
    while (more() && peek() != ']') {
      bool first_set = false, last_set = false;
      const char32_t first = member(first_set);
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
        if (!first_set) set.push_back({first, first});
        continue;
      }
      ++at_;
      const char32_t last = member(last_set);
      if (first_set || last_set) {
        set.push_back({'-', '-'});
        if (!first_set) set.push_back({first, first});
        if (!last_set) set.push_back({last, last});
      } else if (first > last) {
        fail("the ends of a range in a class are out of order");
      } else {
        set.push_back({first, last});
      }
    }
    if (!take(']')) fail("missing ']'");
    set = normal_set(std::move(set));
    return negated ? complement_set(set) : intersect_sets(set, complement_set({}));
  }

  std::u32string text_;
  size_t at_ = 0;
};

}  // namespace

PatternNode parse_pattern(std::string_view pattern) { return Parser(pattern).whole(); }

}  // namespace veery::schema
