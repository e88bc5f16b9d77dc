#include "text/grammar/schema/rules.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace veery::schema {
namespace {

constexpr size_t kMostText = 4 << 20;
constexpr int64_t kMostRules = 60'000;
constexpr int64_t kChunk = 64;  // up to this many repetitions are written out

// Code points that need no escape in a JSON string.
constexpr const char* kAsTheyAre =
    "[\\u0020-\\u0021\\u0023-\\u005b\\u005d-\\ud7ff\\ue000-\\U0010ffff]";
constexpr const char* kAsTheyAreWithoutLess =
    "[\\u0020-\\u0021\\u0023-\\u003b\\u003d-\\u005b\\u005d-\\ud7ff\\ue000-\\U0010ffff]";

}  // namespace

std::string terminal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

std::string Rules::json(std::string_view text) const {
  if (!escapes_less_) return terminal(text);
  std::string escaped;
  for (const char c : text)
    if (c == '<')
      escaped += "\\u003c";
    else
      escaped += c;
  return terminal(escaped);
}

std::string Rules::add(const std::string& body) {
  const auto known = by_body_.find(body);
  if (known != by_body_.end()) return known->second;
  const std::string name = reserve();
  define(name, body);
  by_body_.emplace(body, name);
  return name;
}

std::string Rules::reserve() {
  if (++count_ > kMostRules)
    throw Error(ErrorKind::kLimit, "schema: the grammar has more than {} rules", kMostRules);
  return fmt::format("r{}", count_);
}

void Rules::define(const std::string& name, const std::string& body) {
  text_ += name + " ::= " + body + "\n";
  if (text_.size() > kMostText)
    throw Error(ErrorKind::kLimit, "schema: the grammar is longer than {} bytes", kMostText);
}

std::string Rules::text(const std::string& root) const { return "root ::= " + root + "\n" + text_; }

// A character or an escape. A high surrogate is followed by a low one.
Rules::Pieces Rules::any_character() {
  const std::string hex = "[0-9a-fA-F]";
  const std::string escape =
      add("[\"\\\\/bfnrt] | \"u\" [0-9abcefABCEF] " + hex + " " + hex + " " + hex +
          " | \"u\" [dD] [0-7] " + hex + " " + hex + " | \"u\" [dD] [89abAB] " + hex + " " + hex +
          " \"\\\\u\" [dD] [c-fC-F] " + hex + " " + hex);
  return {escapes_less_ ? kAsTheyAreWithoutLess : kAsTheyAre, "\"\\\\\" " + escape};
}

std::string Rules::string_rest() {
  std::string& name = languages_["rest"];
  if (!name.empty()) return name;
  const std::string made = languages_["rest"] = reserve();
  const Pieces one = any_character();
  define(made, one[0] + "* \"\\\"\" | " + one[0] + "* " + one[1] + " " + made);
  return made;
}

std::string Rules::any_string() { return add("\"\\\"\" " + string_rest()); }

// xgrammar repeats a rule with a counter and has to try every token at both ends of the range. Long
// chunks make that rare.
std::string Rules::times(const Pieces& pieces, int64_t count) {
  const auto few = [&](int64_t times) {
    if (pieces.size() == 1)
      return times == 1 ? pieces[0] + " " : pieces[0] + fmt::format("{{{}}} ", times);
    // Each rule spans its code point and all later ones: xgrammar caches token masks per rule and
    // can only decide tokens that end within the rule.
    std::string next;
    for (int64_t i = 0; i < times; ++i) {
      std::string body;
      for (const std::string& piece : pieces)
        body += (body.empty() ? "" : " | ") + piece + (next.empty() ? "" : " " + next);
      next = add(body);
    }
    return next + " ";
  };
  std::string text;
  if (count >= kChunk) {
    const std::string chunk = add(few(kChunk));
    text = count / kChunk == 1 ? chunk + " " : chunk + fmt::format("{{{}}} ", count / kChunk);
  }
  return count % kChunk > 0 ? text + few(count % kChunk) : text;
}

std::string Rules::up_to(const Pieces& pieces, int64_t most, const std::string& end) {
  if (most >= 3 * kChunk)
    return add(times(pieces, kChunk)) + fmt::format("{{0,{}}} ", (most + 1) / kChunk - 1) +
           up_to(pieces, kChunk - 1 + (most + 1) % kChunk, end);
  std::string next = end;
  for (int64_t i = 0; i < most; ++i) {
    std::string body = end;
    for (const std::string& piece : pieces) body += " | " + piece + " " + next;
    next = add(body);
  }
  return next;
}

std::string Rules::counted(const Pieces& pieces, int64_t least, int64_t most,
                           const std::string& rest) {
  std::string next = most < 0 ? rest : up_to(pieces, most - least, "\"\\\"\"");
  // Each rule of a leading character includes everything after it, for the same reason as in
  // times().
  for (int64_t i = 0; i < least % kChunk; ++i) {
    std::string body;
    for (const std::string& piece : pieces)
      body += (body.empty() ? "" : " | ") + piece + " " + next;
    next = add(body);
  }
  return "\"\\\"\" " + times(pieces, least / kChunk * kChunk) + next;
}

std::string Rules::string_of_length(int64_t least, int64_t most) {
  if (least == 0 && most < 0) return any_string();
  return counted(any_character(), least, most, string_rest());
}

std::string Rules::any_number() {
  return add("\"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [+\\-]? [0-9] [0-9]?)?");
}

std::string Rules::any() {
  if (!any_.empty()) return any_;
  any_ = reserve();
  define(any_, any_object() + " | " + any_array() + " | " + any_string() + " | " + any_number() +
                   " | \"true\" | \"false\" | \"null\"");
  return any_;
}

std::string Rules::any_array() {
  const std::string value = any(), more = add("\", \" " + value);
  return add("\"[]\" | \"[\" " + value + " " + more + "* \"]\"");
}

std::string Rules::any_object() {
  const std::string member = add(any_string() + " \": \" " + any());
  return add("\"{}\" | \"{\" " + member + " " + add("\", \" " + member) + "* \"}\"");
}

}  // namespace veery::schema
