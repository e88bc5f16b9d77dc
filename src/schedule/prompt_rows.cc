#include "schedule/prompt_rows.h"

#include <algorithm>

namespace veery {

void PromptRows::record(int32_t rows, double seconds) {
  if (rows < kLeast) return;
  const double row = seconds / rows;
  seconds_per_row_ = std::max(row, 0.5 * (seconds_per_row_ + row));
}

int32_t PromptRows::next() const {
  if (seconds_per_row_ <= 0) return std::min(most_, 4 * kLeast);
  const double rows = longest_ / seconds_per_row_;
  return rows >= most_ ? most_ : std::max(static_cast<int32_t>(rows), std::min(kLeast, most_));
}

}  // namespace veery
