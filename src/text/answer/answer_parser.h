// answer_parser.h: splits what a model writes, as it comes, into content, reasoning and tool calls.
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

/// Fed with pieces of an answer (special tokens written out, see AnswerFormat::shows); what comes
/// out does not depend on how it is cut. Text is held back only while it may be the beginning of a
/// mark, white space before a mark, or a call whose name is not known yet. Broken answers are never
/// refused: what does not parse becomes content, what is cut off a call with what there is of it.
class AnswerParser {
 public:
  struct Options {
    Json tools;  ///< as given to the template, or null
    std::string
        prompt;  ///< its end tells where the answer begins: a template may open the reasoning
    /// The beginning of the answer that the client wrote (prefill). It is parsed but not returned.
    std::string begun;
  };
  explicit AnswerParser(AnswerFormat format) : AnswerParser(std::move(format), Options()) {}
  AnswerParser(AnswerFormat format, const Options& options);

  std::vector<AnswerDelta> push(std::string_view text);
  std::vector<AnswerDelta> finish();
  /// What ends the reasoning that the answer is in the middle of; empty: it is in none.
  std::string_view reasoning_end() const;
  /// What the next text is.
  AnswerMode mode() const { return mode_; }
  /// Whether the answer is in the middle of reasoning.
  bool reasoning() const { return mode_ == Mode::kReasoning; }
  /// The text that ends the reasoning and lets content begin; empty: there is no reasoning to end.
  std::string reasoning_close() const;
  /// All so far; of a call that is not over, what there is.
  const ParsedAnswer& answer() const { return writer_.answer(); }

 private:
  using Mode = AnswerMode;
  struct Found {
    const AnswerMark* mark = nullptr;
    bool wait = false;  // more text could make it a mark, or a longer one
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
  void give_back();
  void close();

  AnswerFormat format_;
  AnswerWriter writer_;
  std::array<std::vector<const AnswerMark*>, kAnswerModes> marks_;
  std::array<std::bitset<256>, kAnswerModes> starts_;  // bytes that begin a mark of the mode
  std::string_view quote_, code_tool_;
  bool bare_ = false;

  std::string buffer_;  // not looked at yet
  Mode mode_ = Mode::kStart;
  Mode origin_ = Mode::kStart;  // kStart or kReasoning: where a call goes back to
  bool fresh_ = false;          // after a mark: leading white space is dropped
  std::string blank_;           // white space that a mark may follow
  std::string raw_;             // what has been read of a call that has not begun
  std::string name_, id_, key_, header_, code_;
  CallScanner scanner_;
  enum class Given { kNothing, kJson, kOver, kValues, kOther } given_ = Given::kNothing;
  bool listed_ = false;  // calls as JSON have begun
  bool called_ = false;  // a call since the last text has begun
};

}  // namespace veery
