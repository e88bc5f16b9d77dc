// answer_text.h: what is wanted of an answer, and its text as its tokens come.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sample/sampler.h"
#include "sample/stop_filter.h"
#include "text/answer/answer_format.h"
#include "text/tokenizer.h"

namespace veery {

struct GenerateOptions {
  SamplerOptions sampling;
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  std::vector<std::string> stops;  ///< the text ends before the first of these
  bool ignore_eos = false;         ///< tokens that end an answer do not
  std::vector<int32_t> stop_ids;   ///< further tokens that end the answer, ignore_eos or not
  int64_t min_tokens = 0;          ///< nothing ends the answer before it has more than these
  bool keep_stop = false;          ///< what ended the answer, of stops and stop_ids, is part of it
  bool show_special = false;       ///< control tokens are written out
  std::vector<int32_t> allowed;    ///< ascending: no other token is chosen; empty: any may be
  /// The last token of each of these does not follow the others; none is empty.
  std::vector<std::vector<int32_t>> banned;
  bool drop_first_space =
      false;  ///< the answer stands alone: a space that the tokenizer adds is not part of it
  AnswerFormat marks;  ///< special tokens that are marks of this format are written out
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view name(FinishReason reason);

/// Turns tokens into text as they come and decides when the answer is over. Both arguments must
/// outlive it.
class AnswerText {
 public:
  /// Throws kInput if a stop string is empty.
  AnswerText(const Tokenizer& tokenizer, const GenerateOptions& options);

  /// The text that is certain with this token.
  std::string accept(int32_t id);
  /// The text that was held back, at the end; none after cancel().
  std::string finish();
  void cancel() { end(FinishReason::kCancelled); }

  bool over() const { return over_; }
  /// Why it is over; kLength where it is not.
  FinishReason reason() const { return reason_; }
  /// The stop string that ended it; empty: none did.
  const std::string& stop() const { return stops_.stop(); }
  /// The one of stop_ids that ended it; -1: none did.
  int32_t stop_id() const { return stop_id_; }
  int64_t made() const { return made_; }  ///< tokens, one that ended the answer included
  int64_t room() const { return options_.max_tokens - made_; }

 private:
  std::string text_of(int32_t id);
  void end(FinishReason reason);

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  Detokenizer detokenizer_;
  StopFilter stops_;
  int64_t made_ = 0;
  int32_t stop_id_ = -1;
  bool over_ = false;
  FinishReason reason_ = FinishReason::kLength;
};

}  // namespace veery
