// prompt_rows.h: how many tokens of prompts a step reads beside which answers go on.
#pragma once
#include <cstdint>

namespace veery {

/// As many as keep to the longest step, by what a row of the last steps took. One that took longer
/// counts at once, as a row of a long prompt takes the longer the more is before it, others half.
class PromptRows {
 public:
  static constexpr int32_t kLeast = 16;  ///< of a step, however long it takes

  /// `longest`: seconds of a step; `most`: rows of a run.
  PromptRows(double longest, int32_t most) : longest_(longest), most_(most) {}

  /// A run of so many rows took so long; none that made a plan. Few rows say nothing of many.
  void measured(int32_t rows, double seconds);
  /// kLeast or more, unless a run has no room for as many; few as long as nothing is measured.
  int32_t next() const;

 private:
  double longest_, seconds_per_row_ = 0;
  int32_t most_;
};

}  // namespace veery
