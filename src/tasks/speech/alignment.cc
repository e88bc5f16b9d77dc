#include "tasks/speech/alignment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace veery {
namespace {

constexpr int64_t kReach = 3;  // positions to either side in a median

// Standardises each position over the tokens; 0 if all values are equal.
void standardise(float* values, int64_t tokens, int64_t positions) {
  for (int64_t p = 0; p < positions; ++p) {
    double sum = 0, squares = 0;
    for (int64_t t = 0; t < tokens; ++t) sum += values[t * positions + p];
    const double mean = sum / static_cast<double>(tokens);
    for (int64_t t = 0; t < tokens; ++t) {
      const double off = values[t * positions + p] - mean;
      squares += off * off;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      float& value = values[t * positions + p];
      value = deviation > 0 ? static_cast<float>((value - mean) / deviation) : 0;
    }
  }
}

// Returns the index of position p in a row that is mirrored at its ends.
int64_t mirrored(int64_t p, int64_t positions) {
  return p < 0 ? -p : p >= positions ? 2 * (positions - 1) - p : p;
}

void smooth(float* row, int64_t positions, std::vector<float>& copy) {
  if (positions <= kReach) return;  // too few to mirror
  copy.assign(row, row + positions);
  std::array<float, 2 * kReach + 1> near;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = -kReach; i <= kReach; ++i)
      near[static_cast<size_t>(i + kReach)] = copy[static_cast<size_t>(mirrored(p + i, positions))];
    std::nth_element(near.begin(), near.begin() + kReach, near.end());
    row[p] = near[kReach];
  }
}

// The last step of the best path.
enum class Step : uint8_t { kBoth, kToken, kPosition };

}  // namespace

std::vector<float> alignment_scores(AlignmentWeights weights, ThreadPool& pool) {
  const int64_t tokens = weights.tokens, positions = weights.positions;
  VEERY_CHECK(std::ssize(weights.values) == weights.heads * tokens * positions);
  pool.parallel_for(weights.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> copy;
    for (int64_t head = begin; head < end; ++head) {
      standardise(weights.head(head), tokens, positions);
      for (int64_t t = 0; t < tokens; ++t)
        smooth(weights.head(head) + t * positions, positions, copy);
    }
  });
  std::vector<float> scores(static_cast<size_t>(tokens * positions));
  for (size_t i = 0; i < scores.size(); ++i) {
    double sum = 0;
    for (int64_t head = 0; head < weights.heads; ++head)
      sum += weights.head(head)[static_cast<int64_t>(i)];
    scores[i] = static_cast<float>(sum / static_cast<double>(weights.heads));
  }
  return scores;
}

std::vector<int32_t> token_starts(std::span<const float> scores, int64_t tokens,
                                  int64_t positions) {
  VEERY_CHECK(tokens > 0 && positions > 0 && std::ssize(scores) == tokens * positions);
  constexpr float kNone = std::numeric_limits<float>::infinity();
  // Column 0 is before the first position: no path is there, except before the first token.
  std::vector<float> before(static_cast<size_t>(positions) + 1, kNone), cost(before);
  std::vector<Step> steps(static_cast<size_t>(tokens * positions));
  before[0] = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    cost[0] = kNone;
    for (int64_t p = 0; p < positions; ++p) {
      const auto i = static_cast<size_t>(p);
      const float both = before[i], token = before[i + 1], position = cost[i];
      const Step step = both < token && both < position    ? Step::kBoth
                        : token < both && token < position ? Step::kToken
                                                           : Step::kPosition;
      const float least = step == Step::kBoth ? both : step == Step::kToken ? token : position;
      cost[i + 1] = least - scores[static_cast<size_t>(t * positions + p)];
      steps[static_cast<size_t>(t * positions + p)] = step;
    }
    std::swap(before, cost);
  }
  std::vector<int32_t> starts(static_cast<size_t>(tokens));
  for (int64_t t = tokens - 1, p = positions - 1; t >= 0 && p >= 0;) {
    starts[static_cast<size_t>(t)] = static_cast<int32_t>(p);
    const Step step = t == 0   ? Step::kPosition
                      : p == 0 ? Step::kToken
                               : steps[static_cast<size_t>(t * positions + p)];
    if (step != Step::kToken) --p;
    if (step != Step::kPosition) --t;
  }
  return starts;
}

}  // namespace veery
