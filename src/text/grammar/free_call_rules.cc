// Grammars of answers that may contain text and calls: once a mark has begun a call, the call must
// follow its form and schema.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "text/answer/call_scanner.h"
#include "text/grammar/answer_rules.h"
#include "text/grammar/call_rules.h"

namespace veery {
namespace {

using Mode = AnswerMode;

constexpr uint32_t bit(Mode mode) { return uint32_t{1} << static_cast<int>(mode); }
constexpr uint32_t kTexts = bit(Mode::kStart) | bit(Mode::kContent) | bit(Mode::kReasoning);
constexpr uint32_t kHeaders = bit(Mode::kHeader) | bit(Mode::kRecipient);
constexpr uint32_t kJsonCalls = bit(Mode::kCall) | bit(Mode::kMaybeCall) | bit(Mode::kCode);
constexpr const char* kSpace = "[ \\n\\t\\r]";

std::string trimmed(std::string text) {
  return text.erase(0, std::min(text.find_first_not_of(" \n\t\r"), text.size()));
}

// Returns `c` as an escape for a character class.
std::string in_class(char c) { return fmt::format("\\u{:04x}", static_cast<unsigned char>(c)); }

constexpr std::string_view kTo = "to=functions.";

bool begins_call(const AnswerMark& mark) {
  return (mark.from & kTexts) != 0 && (bit(mark.to) & (kTexts | kHeaders)) == 0;
}

bool any_mark(const AnswerFormat& format, const auto& test) {
  return std::ranges::any_of(format.features(), [&](const AnswerFeature* feature) {
    return std::ranges::any_of(feature->marks, test);
  });
}

bool has_headers(const AnswerFormat& format) {
  return any_mark(format, [](const AnswerMark& mark) { return (bit(mark.to) & kHeaders) != 0; });
}

class Writer {
 public:
  Writer(const CallForm& form, std::span<const CallableTool> tools, const AnswerFormat& format)
      : form_(form), format_(format), open_(trimmed(form.open)), rules_(rules_for(form)) {
    for (const CallableTool& tool : tools)
      tools_.push_back(tool.strict ? tool : CallableTool{tool.name, Json(), false});
    free_ = rules_.reserve();
    for (const AnswerFeature* feature : format.features()) bare_ = bare_ || feature->bare;
  }

  std::string text(Mode start) {
    if (has_headers(format_)) return channels(start);
    call_ = rules_.add(call_alternatives(form_, tools_, form_text(form_.middle), rules_));
    collect();
    const std::string begin = bare_ ? define_begin() : free_;
    define_free();
    return rules_.text(start == Mode::kStart ? begin : free_);
  }

 private:
  // The rest of the first call after part of `open` has been written, and any further calls.
  std::string calls_from(std::string_view rest) {
    std::string text = form_text(rest) + call_;
    if (!form_.separator.empty())
      text += " " + rules_.add(form_text(form_.separator) + call_) + "*";
    return rules_.add(text + " " + form_text(form_.close));
  }

  void put(std::string_view mark, const std::string& rule) {
    std::string& known = dispatches_[std::string(mark)];
    if (known.empty()) known = rule;
  }

  // Registers the marks that begin a call. A mark of a call in another form is excluded from the
  // text, because the parser would read it as a call.
  void collect() {
    for (const AnswerFeature* feature : format_.features())
      for (const AnswerMark& mark : feature->marks) {
        if (!begins_call(mark)) continue;
        const size_t at = open_.find(mark.text);
        const bool whole = open_.starts_with('{') && (bit(mark.to) & kJsonCalls) != 0;
        if (at != std::string::npos)
          put(mark.text, calls_from(open_.substr(at + mark.text.size())));
        else
          put(mark.text, whole ? calls_from(open_) : "");
      }
    closes_ = any_mark(format_, [&](const AnswerMark& mark) {
      return (mark.from & ~(kTexts | kHeaders)) != 0 && (bit(mark.to) & kTexts) != 0 &&
             form_.close.find(mark.text) != std::string::npos;
    });
  }

  // If no mark ends the calls, text after them could be read as another call, so no text may
  // follow.
  void define_free() {
    std::string marks, excluded;
    for (const auto& [mark, rule] : dispatches_)
      if (rule.empty())
        excluded += (excluded.empty() ? "" : ", ") + schema::terminal(mark);
      else
        marks += fmt::format("({}, {}), ", schema::terminal(mark), rule);
    rules_.define(
        free_,
        fmt::format("TagDispatch({}loop_after_dispatch={}{})", marks, closes_ ? "true" : "false",
                    excluded.empty() ? "" : fmt::format(", excludes=({})", excluded)));
  }

  // -------------------------------------------------------------------------------------------
  // Calls without a mark: JSON at the beginning of the text

  std::string define_begin() {
    const std::string begin = rules_.reserve();
    // After these marks the parser looks for a bare call again.
    constexpr uint32_t kBegin = bit(Mode::kStart) | bit(Mode::kContent);
    for (const AnswerFeature* feature : format_.features())
      for (const AnswerMark& mark : feature->marks)
        if ((mark.from & kTexts) != 0 && (bit(mark.to) & kBegin) != 0) put(mark.text, begin);
    const std::string call = open_.starts_with('{') ? calls_from(open_) + " | " : "";
    rules_.define(begin,
                  fmt::format("{}* ({}{} | {})", kSpace, call, other_json(), other_text("")));
    return begin;
  }

  // JSON that is not a call: an object whose first key is not a key of calls, or an empty one.
  std::string other_json() {
    schema::Nfa nfa;
    const int32_t start = nfa.add_state();
    nfa.add_edge(start, schema::complement_set({{'"', '"'}, {'\\', '\\'}}), start);
    schema::Dfa keys = schema::Dfa::words(CallScanner::known_keys());
    keys = subtract(nfa.determinize(start, start, true), keys);
    const std::string key = rules_.language(keys, schema::Writing::kPlain);
    return rules_.add(
        fmt::format("\"{{\" {}* (\"\\\"\" {} \"\\\"\" {} | \"}}\" {} | [^\"}} \\n\\t\\r] {})?",
                    kSpace, key, free_, free_, free_));
  }

  // Text that starts with neither whitespace nor JSON. `begun` is the prefix of a mark that has
  // been written so far; the rule follows the text until no mark is in progress.
  std::string other_text(const std::string& begun) {
    const auto known = begun_.find(begun);
    if (known != begun_.end()) return known->second;
    const std::string name = begun_[begun] = rules_.reserve();
    std::set<char> letters;
    for (const auto& [mark, rule] : dispatches_) letters.insert(mark.begin(), mark.end());
    std::string body = "\"\"", others;
    if (begun.empty())
      for (const char c : {'{', ' ', '\n', '\t', '\r'}) others += in_class(c), letters.erase(c);
    for (const char c : letters) {
      const auto marked = dispatches_.find(begun + c);
      const std::string next = begun_mark(begun + c);
      if (marked == dispatches_.end() && next.empty()) continue;
      others += in_class(c);
      const std::string letter = " | " + schema::terminal(std::string(1, c)) + " ";
      if (marked == dispatches_.end())
        body += letter + other_text(next);
      else if (!marked->second.empty())
        body += letter + marked->second + (closes_ ? " " + free_ : "");
    }
    rules_.define(name, fmt::format("{} | [^{}] {}", body, others, free_));
    return name;
  }

  // Returns the longest suffix of `text` that is a prefix of a mark.
  std::string begun_mark(std::string text) const {
    const auto begins = [&](const auto& dispatch) { return dispatch.first.starts_with(text); };
    while (!text.empty() && std::ranges::none_of(dispatches_, begins)) text.erase(0, 1);
    return text;
  }

  // -------------------------------------------------------------------------------------------
  // Messages with headers (gpt-oss): a header that names a recipient makes the message a call

  std::string channels(Mode start) {
    const std::string head = rules_.reserve();
    const std::string answer = rules_.add("\"assistant\" " + head);
    const std::string channel = "\"<|channel|>\" (\"analysis\" | \"commentary\" | \"final\") ";
    const std::string message = "(\" \"? \"<|constrain|>json\" | \" json\")? \"<|message|>\" ";
    const auto called = [&](const std::string& middle) {
      return schema::terminal(" " + std::string(kTo)) + " " +
             rules_.add(call_alternatives(form_, tools_, middle, rules_));
    };
    rules_.define(head, channel + "(\"<|message|>\" " + free_ + " | " + called(message) + ") | " +
                            called("(" + channel + ")? " + message));
    const std::string next = rules_.add("(\"<|start|>\" " + answer + ")?");
    put("<|end|>", next);
    put("<|start|>", answer);
    put("<|channel|>", "");
    define_free();
    return rules_.text(start == Mode::kHeader ? head : free_);
  }

  const CallForm& form_;
  const AnswerFormat& format_;
  std::string open_;
  schema::Rules rules_;
  std::vector<CallableTool> tools_;
  std::string call_, free_;
  /// Marks in free text, with the rule of the continuation. An empty rule excludes the mark.
  std::map<std::string, std::string> dispatches_;
  std::map<std::string, std::string> begun_;
  bool bare_ = false, closes_ = false;
};

}  // namespace

bool marks_calls(const CallForm& form, const AnswerFormat& format) {
  const std::string open = trimmed(form.open);
  if (has_headers(format))
    return open.ends_with(kTo) && format.name().find("harmony") != std::string::npos;
  const bool bare = std::ranges::any_of(format.features(), &AnswerFeature::bare);
  const auto plain = [](const AnswerMark& mark) {
    return std::ranges::all_of(mark.text, [](char c) { return c > 0; });
  };
  if (bare && any_mark(format, [&](const AnswerMark& mark) { return !plain(mark); })) return false;
  return (bare && open.starts_with('{')) || any_mark(format, [&](const AnswerMark& mark) {
           return begins_call(mark) && open.find(mark.text) != std::string::npos;
         });
}

std::string free_call_rules(const CallForm& form, std::span<const CallableTool> tools,
                            const AnswerFormat& format, AnswerMode start) {
  return Writer(form, tools, format).text(start);
}

}  // namespace veery
