#include "schedule/drafts/draft.h"

#include <algorithm>
#include <cmath>

namespace veery {
namespace {

constexpr double kNewest = 0.1;        // weight of the newest observation in a moving average
constexpr double kForgotten = 0.01;    // weight of the first value of a rate, per step
constexpr double kRowsForDouble = 16;  // rows that double the time of a run, until measured
constexpr double kWorthIt = 1.03;      // speed-up from which a draft is verified
constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;

uint64_t key_of(std::span<const int32_t> ids) {
  uint64_t key = kPrime;
  for (const int32_t id : ids) {
    key = (key ^ static_cast<uint32_t>(id)) * kPrime;
    key ^= key >> 29;
  }
  return key;
}

}  // namespace

void DraftRate::record(int32_t accepted, int32_t count) {
  for (int32_t i = 0; i < std::min(accepted + 1, count); ++i)
    value_ += kNewest * ((i < accepted ? 1 : 0) - value_);
}

void DraftRate::step() { value_ += kForgotten * (first_ - value_); }

size_t LookupDraft::length_class(int32_t matched) {
  constexpr std::array<int32_t, 5> kFrom{2, 3, 4, 8, 16};
  return static_cast<size_t>(std::ranges::upper_bound(kFrom, matched) - kFrom.begin());
}

// An n-gram is entered once the token after it is known.
void LookupDraft::learn(std::span<const int32_t> tokens) {
  const auto count = static_cast<int32_t>(tokens.size());
  for (; learnt_ < count; ++learnt_) {
    if (source_ >= 0) {
      const bool right =
          tokens[static_cast<size_t>(learnt_)] == tokens[static_cast<size_t>(source_)];
      double& rate = rates_[length_class(matched_)];
      rate += kNewest * ((right ? 1 : 0) - rate);
      source_ = right ? source_ + 1 : -1;
      matched_ = right ? std::min(matched_ + 1, kLongest) : 0;
    }
    for (size_t i = 0; i < kLengths.size(); ++i) {
      const int32_t begin = learnt_ - kLengths[i];
      if (begin < 0) continue;
      const auto ids = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(kLengths[i]));
      next_[i][key_of(ids)] = learnt_;
    }
  }
}

// Finds the position after the last occurrence of the longest known n-gram at the end. Rejects a
// collision of hashes: fewer tokens match then than the n-gram has.
void LookupDraft::find(std::span<const int32_t> tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (size_t i = 0; i < kLengths.size() && source_ < 0; ++i) {
    if (size < kLengths[i]) continue;
    const auto found = next_[i].find(key_of(tokens.last(static_cast<size_t>(kLengths[i]))));
    if (found == next_[i].end()) continue;
    const auto known = tokens.first(static_cast<size_t>(found->second));
    const auto ending = tokens.last(std::min<size_t>(kLongest, known.size()));
    const auto [other, own] =
        std::mismatch(known.rbegin(), known.rbegin() + std::ssize(ending), ending.rbegin());
    matched_ = static_cast<int32_t>(own - ending.rbegin());
    if (matched_ >= kLengths[i]) source_ = found->second;
  }
  if (source_ < 0) matched_ = 0;
}

std::span<const int32_t> LookupDraft::propose(std::span<const int32_t> tokens, int32_t most) {
  learn(tokens);
  draft_.clear();
  if (source_ < 0) find(tokens);
  if (source_ < 0) return {};
  for (int32_t i = 0; i < most; ++i) {
    const auto at = static_cast<size_t>(source_ + i);
    draft_.push_back(at < tokens.size() ? tokens[at] : draft_[at - tokens.size()]);
  }
  return draft_;
}

void DraftLength::record(int32_t rows, double seconds) {
  if (rows < 1 || rows >= kRows) return;
  Time& time = times_[static_cast<size_t>(rows)];
  time.seconds += std::max(kNewest, 1.0 / ++time.count) * (seconds - time.seconds);
  most_measured_ = std::max(most_measured_, rows);
}

// Returns the largest measured number of rows up to `rows`; 0: none.
int32_t DraftLength::measured_up_to(int32_t rows) const {
  rows = std::min(rows, kRows - 1);
  while (rows > 0 && times_[static_cast<size_t>(rows)].count == 0) --rows;
  return rows;
}

// An unmeasured time is extrapolated from the two measured numbers of rows below it, and bounded by
// the next one above it, as kernels process a group of rows in the time of a full group.
double DraftLength::seconds(int32_t rows) const {
  const auto at = [&](int32_t measured) { return times_[static_cast<size_t>(measured)].seconds; };
  const int32_t below = measured_up_to(rows);
  if (below == 0 || below == rows) return at(below);
  const int32_t before = measured_up_to(below - 1);
  const double each = before > 0 ? std::max(0.0, (at(below) - at(before)) / (below - before))
                                 : at(below) / kRowsForDouble;
  const double on = at(below) + (rows - below) * each;
  for (int32_t above = rows + 1; above <= most_measured_; ++above)
    if (times_[static_cast<size_t>(above)].count > 0) return std::min(on, at(above));
  return on;
}

// Lengths that were never measured are tried by doubling: a long draft that does not pay costs as
// much as many steps.
int32_t DraftLength::best(std::span<const double> rates, int32_t rows, double each) const {
  const double alone = seconds(rows);
  if (alone <= 0) return 0;
  int32_t best = 0;
  double tokens = 1, right = 1, best_gain = kWorthIt;
  const auto given = static_cast<int32_t>(rates.size());
  const int32_t most = std::min({given, kMostDrafted, 2 * most_measured_ + 2 - rows});
  for (int32_t length = 1; length <= most; ++length) {
    right *= rates[static_cast<size_t>(length) - 1];
    tokens += right;
    const double gain = tokens * alone / (seconds(rows + length) + length * each);
    if (gain > best_gain) best = length, best_gain = gain;
  }
  return best;
}

int32_t DraftLength::best(double rate, int32_t rows, int32_t most, double each) const {
  std::array<double, kMostDrafted> rates;
  rates.fill(rate);
  return best(std::span(rates).first(static_cast<size_t>(std::clamp(most, 0, kMostDrafted))), rows,
              each);
}

void DraftTime::record(double seconds, int64_t runs) {
  if (runs <= 0) return;
  constexpr double kNewest = 0.1;
  const double each = seconds / static_cast<double>(runs);
  value_ = value_ <= 0 ? each : value_ + kNewest * (each - value_);
}

}  // namespace veery
