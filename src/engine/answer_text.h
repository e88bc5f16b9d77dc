// answer_text.h: options of an answer, and its text as its tokens arrive.
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
  bool ignore_eos = false;         ///< the model's end tokens do not end the answer
  std::vector<int32_t> stop_ids;   ///< further end tokens; they work with ignore_eos too
  int64_t min_tokens = 0;          ///< no token or stop string ends the answer within these tokens
  bool keep_stop = false;          ///< the text includes the stop string or stop id that ended it
  bool show_special = false;       ///< the text includes control tokens
  std::vector<int32_t> allowed;    ///< the only tokens that are sampled, ascending; empty: all
  /// Banned token sequences, none empty: the last token of each is not sampled after the others.
  std::vector<std::vector<int32_t>> banned;
  bool drop_first_space = false;  ///< drop the space that some tokenizers put before the first word
  AnswerFormat marks;  ///< the text includes special tokens that are marks of this format
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view name(FinishReason reason);

/// Converts the tokens of an answer to text one by one and decides when the answer ends. The
/// tokenizer and the options must outlive it.
class AnswerText {
 public:
  /// Throws kInput if a stop string is empty.
  AnswerText(const Tokenizer& tokenizer, const GenerateOptions& options);

  /// Appends a token and returns the text that is complete with it. Incomplete characters and
  /// possible beginnings of stop strings are held back.
  std::string accept(int32_t id);
  /// Returns the text that was still held back at the end; empty after cancel().
  std::string finish();
  void cancel() { end(FinishReason::kCancelled); }

  bool over() const { return over_; }
  /// Why the answer ended; kLength before it has ended.
  FinishReason reason() const { return reason_; }
  /// The stop string that ended it; empty if none did.
  const std::string& stop() const { return stops_.stop(); }
  /// The element of stop_ids that ended it; -1 if none did.
  int32_t stop_id() const { return stop_id_; }
  int64_t made() const { return made_; }  ///< tokens so far, including one that ended the answer
  int64_t room() const { return options_.max_tokens - made_; }  ///< tokens until max_tokens

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
