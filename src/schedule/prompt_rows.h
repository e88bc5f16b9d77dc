// prompt_rows.h: the size of prefill chunks that share a step with decoding answers.
#pragma once
#include <cstdint>

namespace veery {

/// Chooses the chunk size by the time per token row of the last steps, so that a step keeps to the
/// longest allowed time. A slower row counts at once, since the rows of a long prompt get slower
/// with its length; a faster one counts half.
class PromptRows {
 public:
  static constexpr int32_t kLeast = 16;  ///< rows of a chunk, however long the step takes

  /// `longest`: seconds of a step; `most`: rows of a run, at most.
  PromptRows(double longest, int32_t most) : longest_(longest), most_(most) {}

  /// Records the time of a run of `rows` token rows. Runs that made a plan must not be recorded.
  /// Runs of fewer than kLeast rows are ignored: they say nothing about the time of larger ones.
  void record(int32_t rows, double seconds);
  /// Returns the rows of the next chunk: at least kLeast if a run has room for them, and a small
  /// number until a run was measured.
  int32_t next() const;

 private:
  double longest_, seconds_per_row_ = 0;
  int32_t most_;
};

}  // namespace veery
