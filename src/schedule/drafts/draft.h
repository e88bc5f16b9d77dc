// draft.h: speculative decoding (Leviathan et al., arXiv:2211.17192). One run of the model verifies
// all tokens of a draft. A draft token is accepted if it equals the token that is sampled at its
// position, so answers do not depend on drafts.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace veery {

inline constexpr int32_t kMostDrafted = 15;  ///< tokens of a draft

/// Who made a draft. kChain: the device decoded the tokens (Session::run_chain()).
enum class DraftSource : uint8_t { kLookup, kModel, kGrammar, kChain };

/// The recent acceptance rate of draft tokens, 0 to 1. Returns slowly to its first value, so that a
/// source that was wrong is tried again.
class DraftRate {
 public:
  explicit DraftRate(double first) : first_(first), value_(first) {}
  double value() const { return value_; }
  /// Records that the first `accepted` of `count` draft tokens were accepted.
  void record(int32_t accepted, int32_t count);
  /// Records a decode step: moves the rate towards its first value.
  void step();

 private:
  double first_, value_;
};

/// Prompt-lookup decoding of one answer: expects that the answer continues as the prompt or the
/// answer did after an earlier occurrence of its last tokens, and follows that occurrence as long
/// as it predicts correctly.
class LookupDraft {
 public:
  /// Returns up to `most` tokens that may follow `tokens`, which begin with those of the last call.
  /// Returns none if the last token did not occur before. Valid until the next call.
  std::span<const int32_t> propose(std::span<const int32_t> tokens, int32_t most);

  /// Returns the recent rate, 0 to 1, at which the next token was predicted correctly after matches
  /// of a length: that of the last proposal's match plus `accepted` tokens. Every token counts,
  /// whether or not it was part of a draft.
  double rate(int32_t accepted = 0) const { return rates_[length_class(matched_ + accepted)]; }

 private:
  static constexpr std::array<int32_t, 4> kLengths{4, 3, 2, 1};  ///< of n-grams, in tokens
  static constexpr int32_t kLongest = 32;                        ///< tokens of a match, at most

  void learn(std::span<const int32_t> tokens);
  void find(std::span<const int32_t> tokens);
  static size_t length_class(int32_t matched);  ///< index into rates_

  /// [length]: hash of an n-gram -> position after its last occurrence.
  std::array<std::unordered_map<uint64_t, int32_t>, kLengths.size()> next_;
  int32_t learnt_ = 0;   ///< tokens that were entered into next_
  int32_t source_ = -1;  ///< position of the token that predicts token learnt_; -1: none
  int32_t matched_ = 0;  ///< length of the match before the two, at most kLongest
  /// By length class; longer matches predict better.
  std::array<double, 6> rates_{0.3, 0.4, 0.5, 0.6, 0.75, 0.85};
  std::vector<int32_t> draft_;
};

/// Chooses the length of drafts by the measured time of runs and the acceptance rate.
class DraftLength {
 public:
  /// Records the time of a run of `rows` token rows, one or more of each answer. Runs that made a
  /// plan must not be recorded.
  void record(int32_t rows, double seconds);
  /// Returns the length of a draft that maximises tokens per second, at most rates.size(). `rows`:
  /// rows of the run without the draft; rates[i]: the acceptance rate of token i after those before
  /// it; `each`: seconds to make one draft token.
  int32_t best(std::span<const double> rates, int32_t rows, double each = 0) const;
  /// The same for at most `most` tokens of one rate.
  int32_t best(double rate, int32_t rows, int32_t most, double each = 0) const;

 private:
  static constexpr int32_t kRows = 65;

  struct Time {
    double seconds = 0;
    int32_t count = 0;
  };
  double seconds(int32_t rows) const;
  int32_t measured_up_to(int32_t rows) const;

  std::array<Time, kRows> times_;
  int32_t most_measured_ = 0;
};

struct DraftRequest {
  const void* answer = nullptr;     ///< identifies the answer
  std::span<const int32_t> tokens;  ///< of its prompt and the answer so far
  int32_t most = 0;                 ///< tokens of the draft, at most; 1 or more
  std::vector<int32_t> draft;       ///< result; may be empty
};

/// Makes drafts for several answers at a time by running a model.
class DraftMaker {
 public:
  DraftMaker() = default;
  DraftMaker(const DraftMaker&) = delete;
  DraftMaker& operator=(const DraftMaker&) = delete;
  virtual ~DraftMaker() = default;
  /// Sets the drafts of the requests.
  virtual void propose(std::span<DraftRequest> requests) = 0;
  /// Returns the recent time of one draft token, in seconds; 0: not measured yet.
  virtual double seconds_each() const = 0;
};

/// Moving average of the time of a run.
class DraftTime {
 public:
  double value() const { return value_; }
  void record(double seconds, int64_t runs);

 private:
  double value_ = 0;
};

}  // namespace veery
