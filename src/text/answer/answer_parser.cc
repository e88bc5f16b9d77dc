#include "text/answer/answer_parser.h"

#include <algorithm>
#include <utility>

#include "text/answer/call_code.h"

namespace veery {
namespace {

using Mode = AnswerMode;
using Kind = AnswerDelta::Kind;

constexpr std::string_view kSpace = " \n\t\r";
constexpr size_t kLongestHeader = 256;
constexpr size_t kPromptTail = 256;

constexpr uint32_t bit(Mode mode) { return uint32_t{1} << static_cast<int>(mode); }
constexpr uint32_t kTexts = bit(Mode::kStart) | bit(Mode::kContent) | bit(Mode::kReasoning);
constexpr uint32_t kValues = bit(Mode::kValue) | bit(Mode::kText) | bit(Mode::kJson);

size_t index(Mode mode) { return static_cast<size_t>(mode); }
bool is_space(char c) { return kSpace.find(c) != std::string_view::npos; }
bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}
// Returns whether a mark is a control token, which cannot occur inside a JSON string.
bool is_token(std::string_view mark) {
  return mark.find('|') != std::string_view::npos || mark.find("｜") != std::string_view::npos ||
         mark.front() == '[';
}

}  // namespace

AnswerParser::AnswerParser(AnswerFormat format, const Options& options)
    : format_(std::move(format)), writer_(options.tools) {
  add_marks();
  begin_after(options.prompt);
  if (options.prefill.empty()) return;
  buffer_ = options.prefill;
  run(/*last=*/true);
  if (!is_text() && mode_ != Mode::kHeader && mode_ != Mode::kRecipient) {
    writer_.end(/*complete=*/false);  // the answer continues after the call that the client began
    mode_ = Mode::kContent;
  }
  blank_.clear();
  writer_.forget();
}

void AnswerParser::add_marks() {
  for (const AnswerFeature* feature : format_.features()) {
    if (quote_.empty()) quote_ = feature->quote;
    if (code_tool_.empty()) code_tool_ = feature->code_tool;
    bare_ = bare_ || feature->bare;
    if (feature->first != Mode::kStart) mode_ = feature->first;
    for (const AnswerMark& mark : feature->marks)
      for (size_t i = 0; i < marks_.size(); ++i)
        if ((mark.from >> i & 1) != 0) {
          marks_[i].push_back(&mark);
          starts_[i].set(static_cast<unsigned char>(mark.text.front()));
        }
  }
}

// The last mark of the prompt sets the mode if only whitespace, or the rest of a header, follows
// it.
void AnswerParser::begin_after(std::string_view prompt) {
  const std::string_view tail = prompt.substr(prompt.size() - std::min(prompt.size(), kPromptTail));
  const AnswerMark* last = nullptr;
  size_t end = 0;
  for (const AnswerFeature* feature : format_.features())
    for (const AnswerMark& mark : feature->marks) {
      const size_t at = (mark.from & kTexts) != 0 ? tail.rfind(mark.text) : std::string_view::npos;
      if (at == std::string_view::npos || at + mark.text.size() < end) continue;
      last = &mark;
      end = at + mark.text.size();
    }
  if (last == nullptr) {
    if (!prompt.empty() && mode_ == Mode::kRecipient) mode_ = Mode::kStart;
    return;
  }
  const std::string_view rest = tail.substr(end);
  if (last->to != Mode::kHeader && !is_blank(rest)) return;
  mode_ = Mode::kStart;
  enter(last->to);
  header_ = rest;
  raw_.clear();
}

std::string_view AnswerParser::reasoning_end() const {
  if (mode_ != Mode::kReasoning) return {};
  for (const AnswerMark* mark : marks_[static_cast<size_t>(Mode::kReasoning)])
    if (mark->to == Mode::kContent || mark->to == Mode::kStart) return mark->text;
  return {};
}

std::string AnswerParser::reasoning_close() const {
  if (!reasoning()) return {};
  for (const AnswerFeature* feature : format_.features())
    if (!feature->reasoning_close.empty()) return std::string(feature->reasoning_close);
  return std::string(reasoning_end());
}

std::vector<AnswerDelta> AnswerParser::push(std::string_view text) {
  buffer_ += text;
  run(/*last=*/false);
  return writer_.take();
}

std::vector<AnswerDelta> AnswerParser::finish() {
  run(/*last=*/true);
  close();
  return writer_.take();
}

bool AnswerParser::is_text() const { return (bit(mode_) & kTexts) != 0; }

void AnswerParser::run(bool last) {
  size_t at = 0;
  const std::string text = std::move(buffer_);
  while (at < text.size()) {
    const std::string_view rest = std::string_view(text).substr(at);
    const Found found = find_mark(rest, last);
    if (found.wait) break;
    size_t taken = 0;
    if (found.mark != nullptr) {
      take_mark(*found.mark);
      taken = found.mark->text.size();
    } else {
      const Mode before = mode_;
      taken = take(rest, last);
      if (taken == 0 && mode_ == before) break;  // more text is needed
    }
    at += taken;
  }
  buffer_ = text.substr(at);
}

AnswerParser::Found AnswerParser::find_mark(std::string_view rest, bool last) const {
  Found found;
  if (!starts_[index(mode_)].test(static_cast<unsigned char>(rest.front()))) return found;
  const bool in_string = (mode_ == Mode::kCall || mode_ == Mode::kMaybeCall ||
                          (mode_ == Mode::kArguments && given_ == Given::kJson)) &&
                         scanner_.in_string();
  for (const AnswerMark* mark : marks_[index(mode_)]) {
    if (in_string && !is_token(mark->text)) continue;
    if (rest.starts_with(mark->text)) {
      if (found.mark == nullptr || mark->text.size() > found.mark->text.size()) found.mark = mark;
    } else if (!last && mark->text.starts_with(rest)) {
      found.wait = true;
    }
  }
  return found;
}

void AnswerParser::take_mark(const AnswerMark& mark) {
  const bool from_text = is_text();
  const bool header = mark.to == Mode::kHeader && mode_ == Mode::kHeader;
  if (from_text) {
    raw_ = std::exchange(blank_, {});
    origin_ = mode_ == Mode::kReasoning ? Mode::kReasoning : Mode::kStart;
    called_ = false;
  }
  raw_ += mark.text;
  if (header) {
    header_ += ' ';
    return;
  }
  if (!from_text && !leave(mark.to)) return revert_to_text();
  Mode to = mark.to;
  if (mode_ == Mode::kHeader || mode_ == Mode::kRecipient) to = header_leads_to();
  if (to == Mode::kStart && !from_text) to = origin_;
  enter(to);
  if (to == Mode::kArguments && !writer_.in_call()) revert_to_text();  // not a valid tool name
}

// Enters a mode and clears the state that it collects.
void AnswerParser::enter(Mode mode) {
  mode_ = mode;
  fresh_ = is_text();
  if (fresh_) {
    blank_.clear();
    raw_.clear();
    if (mode == Mode::kContent) mode_ = Mode::kStart;
    return;
  }
  if (mode == Mode::kHeader || mode == Mode::kRecipient) header_.clear();
  if (mode == Mode::kCall || mode == Mode::kMaybeCall) {
    scanner_ = CallScanner(mode == Mode::kMaybeCall);
    listed_ = false;
  }
  if (mode == Mode::kCode) code_.clear();
  if (mode == Mode::kName || mode == Mode::kCall || mode == Mode::kCode) name_.clear(), id_.clear();
  if (mode == Mode::kKey) key_.clear();
  if (mode == Mode::kArguments && !writer_.in_call()) begin_call();
  if ((bit(mode) & kValues) != 0 && writer_.in_call())
    writer_.begin_value(key_, mode == Mode::kText   ? AnswerWriter::Value::kText
                              : mode == Mode::kJson ? AnswerWriter::Value::kJson
                                                    : AnswerWriter::Value::kGuess);
}

// Ends the current mode. Returns false if the collected text does not form a call.
bool AnswerParser::leave(Mode to) {
  const bool inside =
      to == Mode::kId || to == Mode::kArguments || to == Mode::kKey || (bit(to) & kValues) != 0;
  switch (mode_) {
    case Mode::kCall:
    case Mode::kMaybeCall:
      // Another mark of the same call, which specifies the syntax of the call.
      if ((to == Mode::kName || to == Mode::kCall) && !scanner_.in_object()) return true;
      if (scanner_.in_object() && !writer_.in_call()) {
        if (mode_ == Mode::kMaybeCall || scanner_.name().empty()) return false;
        name_ = scanner_.name(), id_ = scanner_.id();
        begin_call();
      }
      if (writer_.in_call()) {
        end_call(scanner_.arguments_over());
        writer_.broken();  // the object is truncated
      }
      return called_;
    case Mode::kCode: return end_code();
    case Mode::kName:
    case Mode::kId:
    case Mode::kKey:
      if (mode_ == Mode::kName && to == Mode::kName) return true;
      if (mode_ == Mode::kKey && !inside) writer_.broken();
      if (to == Mode::kId || to == Mode::kArguments || to == Mode::kKey) {
        if (!writer_.in_call() && to != Mode::kId) begin_call();
        return to == Mode::kId || writer_.in_call();
      }
      if (inside) return writer_.in_call();
      if (!writer_.in_call()) begin_call();  // a call without arguments
      if (!writer_.in_call()) return false;
      end_call(true);
      return true;
    case Mode::kArguments:
      if (!inside) end_call(given_ != Given::kJson);
      if (to == Mode::kKey) given_ = Given::kValues;
      return true;
    case Mode::kValue:
    case Mode::kText:
    case Mode::kJson:
      writer_.end_value();
      if (to == Mode::kArguments) return true;
      writer_.broken();
      if (!inside) end_call(true);
      return true;
    default: return true;
  }
}

// Parses a header such as "assistant to=functions.f analysis json". A recipient makes the message a
// call; otherwise the channel decides. In mode kRecipient the header is the name of a tool, or
// "all".
AnswerMode AnswerParser::header_leads_to() {
  const bool named = mode_ == Mode::kRecipient;
  std::string recipient, channel;
  std::string_view rest = header_;
  while (!is_blank(rest)) {
    rest.remove_prefix(rest.find_first_not_of(kSpace));
    const size_t end = std::min(rest.find_first_of(kSpace), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (word.starts_with("to="))
      recipient = word.substr(3);
    else if (named && word != "all")
      recipient = word;
    else if (word == "analysis")
      channel = word;
    rest.remove_prefix(end);
  }
  origin_ = Mode::kStart;
  if (recipient.empty()) return channel.empty() ? Mode::kStart : Mode::kReasoning;
  name_ = recipient;
  id_.clear();
  return Mode::kArguments;
}

size_t AnswerParser::take(std::string_view rest, bool last) {
  if (is_text()) {
    const size_t first = rest.find_first_not_of(kSpace);
    if (mode_ == Mode::kStart && bare_ && first == 0 && rest.front() == '{') {
      raw_ = std::exchange(blank_, {});
      origin_ = Mode::kStart;
      called_ = false;
      enter(Mode::kMaybeCall);
      return 0;
    }
    const bool may_call = mode_ == Mode::kStart && bare_ && first != 0;
    size_t n = 1;
    const auto& starts = starts_[index(mode_)];
    const size_t end = may_call ? std::min(first, rest.size()) : rest.size();
    while (n < end && !starts.test(static_cast<unsigned char>(rest[n]))) ++n;
    return take_text(rest.substr(0, n));
  }
  if (mode_ == Mode::kCall || mode_ == Mode::kMaybeCall || mode_ == Mode::kCode)
    return take_call(rest, last);
  if (mode_ == Mode::kArguments) return take_arguments(rest);
  if (mode_ == Mode::kBetween && !is_space(rest.front())) {
    if (called_) raw_.clear();
    writer_.broken();
    revert_to_text();
    return 0;
  }
  if (mode_ == Mode::kName && !is_space(rest.front()) &&
      (!is_name_character(rest.front()) || (!is_blank(name_) && is_space(name_.back())))) {
    revert_to_text();  // several words are not a name
    return 0;
  }
  if (!writer_.in_call()) raw_ += rest.front();
  switch (mode_) {
    case Mode::kName: name_ += rest.front(); break;
    case Mode::kId: id_ += rest.front(); break;
    case Mode::kKey: key_ += rest.front(); break;
    case Mode::kValue:
    case Mode::kText:
    case Mode::kJson: writer_.value(rest.substr(0, 1)); break;
    case Mode::kHeader:
    case Mode::kRecipient:
      header_ += rest.front();
      if (header_.size() > kLongestHeader) revert_to_text();
      break;
    default: break;
  }
  return 1;
}

// Whitespace is held back until it is certain that no mark follows.
size_t AnswerParser::take_text(std::string_view run) {
  const size_t taken = run.size();
  if (fresh_) run.remove_prefix(std::min(run.find_first_not_of(kSpace), run.size()));
  if (run.empty()) return taken;
  fresh_ = false;
  const size_t last = run.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    blank_ += run;
    return taken;
  }
  if (mode_ == Mode::kStart) mode_ = Mode::kContent;
  const Kind kind = mode_ == Mode::kReasoning ? Kind::kReasoning : Kind::kContent;
  writer_.text(kind, std::exchange(blank_, {}));
  writer_.text(kind, run.substr(0, last + 1));
  blank_ = run.substr(last + 1);
  return taken;
}

// The first byte of a call decides its syntax (JSON, code or name).
size_t AnswerParser::take_call(std::string_view rest, bool last) {
  const bool code = mode_ == Mode::kCode;
  if (code && !is_blank(code_)) {
    code_ += rest.front();
    raw_ += rest.front();
    return 1;
  }
  if (!code && listed_) return take_json(rest);
  const char c = rest.front();
  if (is_space(c)) {
    raw_ += c;
    return 1;
  }
  const size_t next = c == '[' ? rest.find_first_not_of(kSpace, 1) : 0;
  if (next == std::string_view::npos && !last) return 0;
  const bool json = c == '{' ||
                    (c == '[' && (next == std::string_view::npos || !code || rest[next] == '{' ||
                                  rest[next] == ']')) ||
                    mode_ == Mode::kMaybeCall;
  if (code && !json) {
    code_ += c;
    raw_ += c;
    return 1;
  }
  listed_ = json;
  if (json) {
    if (code) scanner_ = CallScanner();
    if (code) mode_ = Mode::kCall;
    return take_json(rest);
  }
  mode_ = Mode::kName;
  return 0;
}

size_t AnswerParser::take_json(std::string_view rest) {
  const char c = rest.front();
  const unsigned step = scanner_.feed(c);
  if ((step & CallScanner::kLeave) != 0) {
    // Text after calls: only separators have been read, which need not become text.
    if (called_) raw_.clear();
    if (mode_ == Mode::kCall) writer_.broken();
    revert_to_text();
    return 0;
  }
  if (!writer_.in_call()) raw_ += c;
  if ((step & CallScanner::kBegin) != 0) {
    name_ = scanner_.name(), id_ = scanner_.id();
    if (mode_ != Mode::kMaybeCall || writer_.knows(name_)) begin_call();
    if (!writer_.in_call()) return revert_to_text(), 1;
  }
  if (writer_.in_call()) writer_.arguments(scanner_.take_arguments());
  if ((step & CallScanner::kFail) != 0) {
    if (writer_.in_call()) {
      end_call(scanner_.arguments_over());
      writer_.broken();
      raw_ = c;
    }
    revert_to_text();
    return 1;
  }
  if ((step & CallScanner::kEnd) != 0) end_call(true);
  return 1;
}

size_t AnswerParser::take_arguments(std::string_view rest) {
  const char c = rest.front();
  if (given_ == Given::kNothing && !is_space(c)) {
    given_ = c == '{' ? Given::kJson : Given::kOther;
    scanner_ = CallScanner();
    // The scanner expects a complete call, so it is given the beginning of one.
    if (given_ == Given::kJson)
      for (const char byte : std::string_view("{\"name\":\"-\",\"arguments\":"))
        scanner_.feed(byte);
  }
  switch (given_) {
    case Given::kNothing: return 1;
    case Given::kJson:
      scanner_.feed(c);
      writer_.arguments(scanner_.take_arguments());
      if (scanner_.arguments_over()) given_ = Given::kOver;
      return 1;
    case Given::kOther:
      if (is_space(c))
        blank_ += c;
      else
        writer_.arguments(std::exchange(blank_, {}) + c);
      return 1;
    case Given::kOver:
    case Given::kValues:
      if (is_space(c)) return 1;
      end_call(given_ == Given::kOver);
      writer_.broken();
      revert_to_text();
      return 0;
  }
  return 1;
}

bool AnswerParser::end_code() {
  const auto calls = read_calls(code_, quote_);
  if (calls.empty()) {
    if (code_tool_.empty() || is_blank(code_)) return false;
    name_ = code_tool_;
    begin_call();
    writer_.arguments(dump_json(Json{{"code", code_}}));
    end_call(true);
    return true;
  }
  for (const CodeCall& call : calls) {
    name_ = call.name;
    begin_call();
    if (!writer_.in_call()) return false;
    writer_.arguments(dump_json(call.arguments));
    end_call(true);
  }
  return true;
}

void AnswerParser::begin_call() {
  if (!writer_.begin(name_, id_)) return;
  given_ = Given::kNothing;
  called_ = true;
  blank_.clear();
  raw_.clear();
}

void AnswerParser::end_call(bool complete) {
  writer_.end(complete);
  blank_.clear();
  raw_.clear();
}

// Reverts text that turned out not to be a call to content or reasoning.
void AnswerParser::revert_to_text() {
  const bool never_began = mode_ == Mode::kMaybeCall || (is_blank(raw_) && called_);
  std::string text = std::exchange(raw_, {});
  enter(origin_);
  fresh_ = called_;
  if (!never_began) writer_.broken();
  if (called_ && is_blank(text)) return;
  fresh_ = false;
  take_text(text);
}

// Ends the answer.
void AnswerParser::close() {
  if (is_text()) {
    writer_.text(mode_ == Mode::kReasoning ? Kind::kReasoning : Kind::kContent,
                 std::exchange(blank_, {}));
    if (mode_ == Mode::kReasoning) writer_.broken();
  } else if (mode_ == Mode::kBetween || (mode_ == Mode::kArguments && given_ == Given::kOver)) {
    end_call(true);
  } else if (mode_ == Mode::kHeader || mode_ == Mode::kRecipient) {
    if (!is_blank(header_) && header_.find("assistant") == std::string::npos) revert_to_text();
  } else if (mode_ == Mode::kCall || mode_ == Mode::kMaybeCall || mode_ == Mode::kCode) {
    if (!scanner_.in_object() && called_ && mode_ != Mode::kCode) return;
    if (!leave(Mode::kStart)) revert_to_text();
  } else {
    if (!writer_.in_call()) begin_call();
    if (writer_.in_call())
      end_call(mode_ == Mode::kArguments && given_ == Given::kOther);
    else
      revert_to_text();
  }
  if (is_text()) writer_.text(Kind::kContent, std::exchange(blank_, {}));
}

}  // namespace veery
