#include "text/common/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/new_characters.h"

namespace veery {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

constexpr size_t kLongestPattern = 16 << 10;  // in bytes; real patterns have fewer than 1,000
constexpr uint64_t kMostSearchSteps = 100'000'000, kStepsOfByte = 100;
constexpr uint32_t kFewSteps = 500;        // steps at one position that are not counted
constexpr uint32_t kMostHeap = 256 << 10;  // in KiB

// Messages for error codes of pcre2_compile().
constexpr std::pair<int, std::string_view> kFaults[] = {
    {101, "\\ at the end of the pattern"},
    {102, "\\c at the end of the pattern"},
    {103, "unknown escape of a letter"},
    {104, "repetition bounds out of order"},
    {105, "repetition count too large"},
    {106, "missing ] of a character class"},
    {107, "escape that is not valid in a character class"},
    {108, "character range out of order"},
    {109, "nothing to repeat"},
    {111, "unknown character after (?"},
    {112, "POSIX class such as [:alpha:] outside of a character class"},
    {114, "missing )"},
    {115, "reference to a group that does not exist"},
    {118, "missing ) after a comment (?#"},
    {119, "parentheses nested too deeply"},
    {120, "pattern too large"},
    {122, "unmatched )"},
    {125, "look-behind without a fixed length"},
    {134, "code point too large"},
    {135, "look-behind too complicated"},
    {137, "unsupported escape"},
    {142, "malformed group name"},
    {143, "two groups with the same name"},
    {144, "group name that begins with a digit"},
    {146, "malformed \\p or \\P"},
    {147, "unknown property in \\p or \\P"},
    {150, "character range that ends in a class"},
    {161, "group number too large"},
    {162, "missing group name"},
    {164, "invalid octal digit"},
    {167, "invalid hexadecimal digit"},
    {183, "\\C is not supported in UTF-8"}};

std::string_view fault_of(int error) {
  for (const auto& [number, what] : kFaults)
    if (number == error) return what;
  return "invalid syntax";
}

constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// In Latin-1, Oniguruma's \w also includes the numbers of category No.
constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

// Replaces \s (and \w, if `words`) by explicit character lists. PCRE's \s includes U+180E, which is
// not White_Space, and its \w lacks marks and connectors.
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

// Returns the offset after the ']' of the class that begins at `at`, or npos.
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

// Returns the offset of "&&" in a class body, outside of nested classes, or npos.
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

// Converts "[ab&&[^c]]" to "(?:(?=[^c])[ab])". Returns "" if the class has no intersection.
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

// The JIT stack starts at 32 KiB on the thread's own stack. Patterns with nested repeats need more
// on long words, and eventually the interpreter, which uses the heap.
struct RegexScratch::Impl {
  std::unique_ptr<pcre2_match_data, Free> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free> stack;
  uint64_t steps = 0, bytes = 0;  // steps of expensive searches; bytes of all searched texts
};

RegexScratch::RegexScratch() : impl_(std::make_unique<Impl>()) {
  pcre2_set_heap_limit(impl_->context.get(), kMostHeap);
}
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch::~RegexScratch() = default;

struct Regex::Impl {
  std::unique_ptr<pcre2_code, Free> code;
  std::string shown;  // printable source, for messages

  int run(std::string_view text, size_t from, size_t last, uint64_t steps,
          RegexScratch::Impl& memory) const;
  int run_counted(std::string_view text, size_t from, RegexScratch::Impl& memory) const;
};

// Runs pcre2_match() for matches that begin in [from, last], with at most `steps` steps per
// position. Returns its result.
int Regex::Impl::run(std::string_view text, size_t from, size_t last, uint64_t steps,
                     RegexScratch::Impl& memory) const {
  pcre2_match_context* context = memory.context.get();
  pcre2_set_match_limit(context, static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  pcre2_set_offset_limit(context, last);
  const auto match = [&](uint32_t options) {
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, memory.data.get(), context);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !memory.stack) {
    memory.stack.reset(pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr));
    pcre2_jit_stack_assign(context, nullptr, memory.stack.get());
    result = match(0);
  }
  return result == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : result;
}

// Searches position by position, because the library's step limit applies to each position
// separately. If a position exceeds kFewSteps, it is retried with increasing limits, and all of
// these steps count.
int Regex::Impl::run_counted(std::string_view text, size_t from, RegexScratch::Impl& memory) const {
  for (size_t at = from;;) {
    int result = run(text, at, at, kFewSteps, memory);
    const bool counted = result == PCRE2_ERROR_MATCHLIMIT;
    for (uint64_t steps = kFewSteps; result == PCRE2_ERROR_MATCHLIMIT;) {
      const uint64_t most = kMostSearchSteps + kStepsOfByte * (memory.bytes + at - from);
      memory.steps += steps;
      if (memory.steps >= most) return result;
      steps = std::min(steps * 8, most - memory.steps);
      result = run(text, at, at, steps, memory);
    }
    if (result != PCRE2_ERROR_NOMATCH || at >= text.size()) return result;
    at += static_cast<size_t>(next_code_point(text.substr(at)).length);
    if (!counted) continue;
    result = run(text, at, PCRE2_UNSET, kFewSteps, memory);
    if (result != PCRE2_ERROR_MATCHLIMIT) return result;
  }
}

Regex::Regex(std::string_view source, Dialect dialect) : impl_(std::make_unique<Impl>()) {
  impl_->shown = printable(source);
  if (source.size() > kLongestPattern)
    throw Error(ErrorKind::kLimit, "the pattern \"{}\" has {} bytes, at most {} are permitted",
                impl_->shown, source.size(), kLongestPattern);
  const bool oniguruma = dialect == Dialect::kOniguruma;
  const std::string pattern =
      with_unicode_classes(oniguruma ? oniguruma_to_pcre(source) : std::string(source), oniguruma);
  int error = 0;
  size_t offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
                           PCRE2_USE_OFFSET_LIMIT | (oniguruma ? PCRE2_MULTILINE : 0);
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  options, &error, &offset, nullptr));
  if (!impl_->code)
    throw Error(ErrorKind::kFormat, "the pattern \"{}\" is not a valid regular expression: {}{}",
                impl_->shown, fault_of(error),
                pattern == source ? fmt::format(" (byte {})", offset) : std::string());
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // on failure the interpreter is used
}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const {
  RegexScratch::Impl& memory = *scratch.impl_;
  int result = impl_->run(text, from, PCRE2_UNSET, kFewSteps, memory);
  if (result == PCRE2_ERROR_MATCHLIMIT) result = impl_->run_counted(text, from, memory);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH)
    throw Error(ErrorKind::kLimit,
                "the pattern \"{}\" takes too many steps or too much memory on a text of {} bytes",
                impl_->shown, text.size());
  const size_t* bounds = pcre2_get_ovector_pointer(memory.data.get());
  const bool found = result >= 0;
  if (found) match = {bounds[0], std::max(bounds[0], bounds[1])};
  memory.bytes += (found ? match.end : text.size()) - from;
  return found;
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
