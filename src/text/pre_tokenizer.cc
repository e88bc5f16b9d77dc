#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace veery {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// PCRE's own \s adds U+180E, which is no White_Space.
std::string with_unicode_spaces(std::string_view pattern) {
  constexpr std::string_view kSpaces =
      R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out += kSpaces;
      } else if (escaped == 's' || (escaped == 'S' && !in_class)) {
        out += escaped == 's' ? "[" : "[^";
        out += kSpaces;
        out += ']';
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

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const CodePoint point = next_code_point(text);
    if (!point.valid) return false;
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return true;
}

// A text of the same length for the patterns to look at: U+001A (SUBSTITUTE) for each malformed
// byte.
std::string with_substitutes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const auto length = static_cast<size_t>(point.length);
    if (point.valid)
      out += text.substr(0, length);
    else
      out.append(length, '\x1A');
    text.remove_prefix(length);
  }
  return out;
}

// Working memory of one split().
struct Matcher {
  std::unique_ptr<pcre2_match_data, Free> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free> stack;

  // Finds a match in `text` from `from` on. The compiled code's stack starts at 32 KiB on the
  // machine's own; a pattern with nested repeats on a long word may need more, and at last the
  // interpreter, which uses the heap.
  bool find(const pcre2_code* code, std::string_view text, size_t from) {
    const auto run = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
    };
    int result = run(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      stack.reset(pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      result = run(0);
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0)
      throw Error(
          ErrorKind::kLimit,
          "cutting a part of {} bytes into words takes more steps than allowed (PCRE2 error {})",
          text.size(), result);
    return true;
  }
  size_t begin() const { return pcre2_get_ovector_pointer(data.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(data.get())[1]; }
};

}  // namespace

class PreTokenizer::Pattern {
 public:
  explicit Pattern(std::string_view source) {
    const std::string pattern = with_unicode_spaces(source);
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (!code_)
      throw Error(ErrorKind::kBug, "pre-tokenizer pattern {}: PCRE2 error {} at {}", pattern, error,
                  offset);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter does the same
  }

  // Appends the ends of the matches in text[begin, end) and of the gaps between them.
  void split(std::string_view text, size_t begin, size_t end, Matcher& matcher,
             std::vector<uint32_t>& ends) const {
    const std::string_view part = text.substr(begin, end - begin);
    size_t cut = 0;  // the end of the last piece
    const auto cut_at = [&](size_t at) {
      if (at > cut) ends.push_back(static_cast<uint32_t>(begin + at));
      cut = at;
    };
    for (size_t from = 0; from < part.size() && matcher.find(code_.get(), part, from);) {
      const size_t match_begin = matcher.begin(), match_end = matcher.end();
      cut_at(match_begin);
      cut_at(match_end);
      from = match_end;
      if (match_end == match_begin && from < part.size())
        from += static_cast<size_t>(next_code_point(part.substr(from)).length);
    }
    cut_at(part.size());
  }

 private:
  std::unique_ptr<pcre2_code, Free> code_;
};

PreTokenizer::PreTokenizer(std::span<const std::string_view> patterns) {
  for (const std::string_view pattern : patterns) patterns_.emplace_back(pattern);
}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  std::string substitute;
  if (!is_valid_utf8(text)) {
    substitute = with_substitutes(text);
    text = substitute;
  }
  ends.push_back(static_cast<uint32_t>(text.size()));
  std::vector<uint32_t> parts;
  Matcher matcher;
  for (const Pattern& pattern : patterns_) {
    parts.swap(ends);
    ends.clear();
    size_t begin = 0;
    for (const uint32_t end : parts) {
      pattern.split(text, begin, end, matcher, ends);
      begin = end;
    }
  }
}

}  // namespace veery
