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
  bool over_ = false;
  FinishReason reason_ = FinishReason::kLength;
};

}  // namespace veery
