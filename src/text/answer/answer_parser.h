// answer_parser.h: incremental parser that splits an answer into content, reasoning and tool calls.
#pragma once
#include <array>
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_format.h"
#include "text/answer/answer_writer.h"
#include "text/answer/call_scanner.h"

namespace veery {

/// Incremental parser for answers, fed with decoded text in which the special tokens of
/// AnswerFormat::shows() are written out.
///
/// The output does not depend on how the text is split into pieces. Text is held back only while it
/// may begin a mark, is whitespace that a mark may follow, or belongs to a call whose name is not
/// known yet. Malformed answers are never rejected: text that does not parse as a call becomes
/// content, and a truncated call is returned as far as it was read.
class AnswerParser {
 public:
  struct Options {
    Json tools;  ///< as passed to the chat template, or null
    /// The prompt, whose end determines the initial mode: a template may open the reasoning.
    std::string prompt;
    /// The beginning of the answer, written by the client (prefill). It is parsed but not returned.
    std::string prefill;
  };
  explicit AnswerParser(AnswerFormat format) : AnswerParser(std::move(format), Options()) {}
  AnswerParser(AnswerFormat format, const Options& options);

  std::vector<AnswerDelta> push(std::string_view text);
  std::vector<AnswerDelta> finish();
  /// Returns the mark that ends the current reasoning; empty outside of reasoning.
  std::string_view reasoning_end() const;
  /// Returns what the next text is parsed as.
  AnswerMode mode() const { return mode_; }
  /// Returns whether the parser is inside reasoning.
  bool reasoning() const { return mode_ == Mode::kReasoning; }
  /// Returns the text that ends the current reasoning and begins content; empty outside of
  /// reasoning.
  std::string reasoning_close() const;
  /// Returns everything parsed so far; an unfinished call is included as far as it was read.
  const ParsedAnswer& answer() const { return writer_.answer(); }

 private:
  using Mode = AnswerMode;
  struct Found {
    const AnswerMark* mark = nullptr;
    bool wait = false;  // more text could complete a mark or a longer one
  };

  void add_marks();
  void begin_after(std::string_view prompt);
  void run(bool last);
  Found find_mark(std::string_view rest, bool last) const;
  bool is_text() const;
  void take_mark(const AnswerMark& mark);
  void enter(Mode mode);
  bool leave(Mode to);
  Mode header_leads_to();
  size_t take(std::string_view rest, bool last);
  size_t take_text(std::string_view run);
  size_t take_call(std::string_view rest, bool last);
  size_t take_json(std::string_view rest);
  size_t take_arguments(std::string_view rest);
  bool end_code();
  void begin_call();
  void end_call(bool complete);
  void revert_to_text();
  void close();

  AnswerFormat format_;
  AnswerWriter writer_;
  std::array<std::vector<const AnswerMark*>, kAnswerModes> marks_;
  std::array<std::bitset<256>, kAnswerModes> starts_;  // first bytes of the marks of each mode
  std::string_view quote_, code_tool_;
  bool bare_ = false;

  std::string buffer_;  // not parsed yet
  Mode mode_ = Mode::kStart;
  Mode origin_ = Mode::kStart;  // kStart or kReasoning: the mode after a call
  bool fresh_ = false;          // after a mark: leading whitespace is dropped
  std::string blank_;           // whitespace that is dropped if a mark follows
  std::string raw_;             // text of a call that has not been confirmed
  std::string name_, id_, key_, header_, code_;
  CallScanner scanner_;
  enum class Given { kNothing, kJson, kOver, kValues, kOther } given_ = Given::kNothing;
  bool listed_ = false;  // the first byte of a JSON call has been read
  bool called_ = false;  // a call has begun since the last text
};

}  // namespace veery
