#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/new_characters.h"

namespace veery {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Of Latin-1 Oniguruma counts the other numbers too.
constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

// The members of \s (and \w, if `words`) written out: PCRE's own \s adds U+180E, which is no
// White_Space, and its \w lacks marks and connectors.
std::string with_unicode_classes(std::string_view pattern, bool words) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      const bool space = escaped == 's' || escaped == 'S';
      const bool word = words && (escaped == 'w' || escaped == 'W');
      const bool negated = escaped == 'S' || escaped == 'W';
      if ((space || word) && !(in_class && negated)) {
        const std::string_view members = space ? kSpaces : kWordCharacters;
        out += in_class ? "" : negated ? "[^" : "[";
        out += members;
        out += in_class ? "" : "]";
      } else {
        out += {c, escaped};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

// The end of the bracketed class that begins at `at`, behind its ']'; npos if there is none.
size_t class_end(std::string_view pattern, size_t at) {
  int depth = 0;
  for (size_t i = at; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '[') {
      ++depth;
    } else if (pattern[i] == ']' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Where "&&" stands in a class body, outside of nested classes; npos if nowhere.
size_t find_intersection(std::string_view body) {
  int depth = 0;
  for (size_t i = 0; i + 1 < body.size(); ++i) {
    if (body[i] == '\\') {
      ++i;
    } else if (body[i] == '[') {
      ++depth;
    } else if (body[i] == ']') {
      --depth;
    } else if (depth == 0 && body[i] == '&' && body[i + 1] == '&') {
      return i;
    }
  }
  return std::string_view::npos;
}

// "[ab&&[^c]]" as "(?:(?=[^c])[ab])"; nullopt-like empty result: it has no intersection.
std::string intersection_to_pcre(std::string_view whole) {
  std::string_view body = whole.substr(1, whole.size() - 2);
  const bool negated = !body.empty() && body[0] == '^';
  if (negated) body.remove_prefix(1);
  size_t cut = find_intersection(body);
  if (cut == std::string_view::npos) return {};
  std::string all;
  while (true) {
    const std::string_view part = body.substr(0, cut);
    const bool bare = part.empty() || part[0] != '[' || class_end(part, 0) != part.size();
    std::string one = bare ? "[" + std::string(part) + "]" : std::string(part);
    const bool last = cut == std::string_view::npos;
    all += last ? one : "(?=" + one + ")";
    if (last) break;
    body.remove_prefix(cut + 2);
    cut = find_intersection(body);
  }
  return negated ? "(?:(?!" + all + ")[\\s\\S])" : "(?:" + all + ")";
}

}  // namespace

std::string oniguruma_to_pcre(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '[') {
      const size_t end = class_end(pattern, i);
      const std::string both =
          end == pattern.npos ? "" : intersection_to_pcre(pattern.substr(i, end - i));
      if (!both.empty()) {
        out += oniguruma_to_pcre(both);
        i = end - 1;
        continue;
      }
    }
    if (c != '\\' || i + 1 >= pattern.size()) {
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 'h') {
      out += R"(\p{AHex})";
    } else if (escaped == 'u' && i + 4 < pattern.size()) {
      out += "\\x{" + std::string(pattern.substr(i + 1, 4)) + "}";
      i += 4;
    } else {
      out += {c, escaped};
    }
  }
  return out;
}

// The compiled code's stack starts at 32 KiB on the machine's own; a pattern with nested repeats on
// a long word may need more, and at last the interpreter, which uses the heap.
struct RegexScratch::Impl {
  std::unique_ptr<pcre2_match_data, Free> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free> stack;
};

RegexScratch::RegexScratch() : impl_(std::make_unique<Impl>()) {}
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch::~RegexScratch() = default;

struct Regex::Impl {
  std::unique_ptr<pcre2_code, Free> code;
};

Regex::Regex(std::string_view source, Dialect dialect) : impl_(std::make_unique<Impl>()) {
  const bool oniguruma = dialect == Dialect::kOniguruma;
  const std::string pattern =
      with_unicode_classes(oniguruma ? oniguruma_to_pcre(source) : std::string(source), oniguruma);
  int error = 0;
  size_t offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | (oniguruma ? PCRE2_MULTILINE : 0);
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  options, &error, &offset, nullptr));
  if (!impl_->code)
    throw Error(ErrorKind::kFormat, "pattern \"{}\" cannot be compiled: PCRE2 error {} at byte {}",
                valid_utf8(source.substr(0, 200)), error, offset);
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // else the interpreter does the same
}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const {
  RegexScratch::Impl& memory = *scratch.impl_;
  const auto run = [&](uint32_t options) {
    return pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       from, PCRE2_NO_UTF_CHECK | options, memory.data.get(), memory.context.get());
  };
  int result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !memory.stack) {
    memory.stack.reset(pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr));
    pcre2_jit_stack_assign(memory.context.get(), nullptr, memory.stack.get());
    result = run(0);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)
    throw Error(
        ErrorKind::kLimit,
        "cutting a part of {} bytes into words takes more steps than allowed (PCRE2 error {})",
        text.size(), result);
  const size_t* bounds = pcre2_get_ovector_pointer(memory.data.get());
  match = {bounds[0], std::max(bounds[0], bounds[1])};
  return true;
}

std::string regex_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!word && static_cast<unsigned char>(c) < 0x80) out += '\\';
    out += c;
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (!point.valid) return false;
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return true;
}

bool needs_substitutes(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint point = next_code_point(text.substr(at));
    if (!point.valid || stand_in(point.value) != point.value) return true;
    at += static_cast<size_t>(point.length);
  }
  return false;
}

std::string with_substitutes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const auto length = static_cast<size_t>(point.length);
    if (point.valid)
      append_utf8(out, stand_in(point.value));
    else
      out.append(length, '\x1A');
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace veery
