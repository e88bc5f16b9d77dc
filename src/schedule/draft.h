// draft.h: drafts of the next tokens of an answer, which one run of the model tests together
// (speculative decoding: Leviathan et al., arXiv:2211.17192). A token of a draft is accepted where
// it equals the one that would be chosen anyway, so that answers do not depend on drafts.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace veery {

inline constexpr int32_t kMostDrafted = 15;  ///< tokens of a draft

/// kChain: the device made them, one behind the other (Runner::run_chain()).
enum class DraftSource : uint8_t { kLookup, kModel, kGrammar, kChain };

/// How many tokens of drafts were right lately: 0 to 1. Comes back slowly to where it began, so
/// that what was wrong is tried again.
class DraftRate {
 public:
  explicit DraftRate(double first) : first_(first), value_(first) {}
  double value() const { return value_; }
  /// Of a draft of `count` tokens so many were accepted, counted up to the first that was not.
  void tested(int32_t accepted, int32_t count);
  /// A token was chosen.
  void step();

 private:
  double first_, value_;
};

/// Expects that an answer goes on as it, or its prompt, did when its last tokens were there before
/// (prompt look-up), and follows that place as long as it is right. Of one answer.
class LookupDraft {
 public:
  /// At most `most` tokens that may follow `tokens`, which begin with those of the last call; none
  /// where the last one was never there before. Valid until the next call.
  std::span<const int32_t> propose(std::span<const int32_t> tokens, int32_t most);

  /// How often the next token was right lately after a match as long as that of the last proposal
  /// is once its first `accepted` tokens are right: 0 to 1. Counted for each token, whether its
  /// draft was tested or not.
  double rate(int32_t accepted = 0) const { return rates_[length_class(matched_ + accepted)]; }

 private:
  static constexpr std::array<int32_t, 4> kLengths{4, 3, 2, 1};  ///< of what is looked up
  static constexpr int32_t kLongest = 32;  ///< tokens that are counted as a match

  void learn(std::span<const int32_t> tokens);
  void find(std::span<const int32_t> tokens);
  static size_t length_class(int32_t matched);  ///< of matches that are about as long

  std::array<std::unordered_map<uint64_t, int32_t>, kLengths.size()> next_;  ///< what follows where
  int32_t learnt_ = 0;
  int32_t place_ = -1;   ///< of the token that is expected for learnt_; -1: none is
  int32_t matched_ = 0;  ///< tokens before it that are those before learnt_, at most kLongest
  /// The longer the match, the surer it is: what quotes goes on quoting.
  std::array<double, 6> rates_{0.3, 0.4, 0.5, 0.6, 0.75, 0.85};
  std::vector<int32_t> draft_;
};

/// How long drafts should be: by what steps took, and by how often drafts are right.
class DraftLength {
 public:
  /// A run of so many rows, one or more of each answer, took so long; none that made a plan.
  void measured(int32_t rows, double seconds);
  /// Tokens, as many as there are rates at most, to be tested with one answer beside `rows` rows of
  /// all answers without them. Each takes `each` seconds to make, and is right at its rate where
  /// those before it are.
  int32_t best(std::span<const double> rates, int32_t rows, double each = 0) const;
  /// The same of at most `most` tokens with one rate.
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
  const void* answer = nullptr;  ///< the same for the same answer
  std::span<const int32_t> tokens;
  int32_t most = 0;  ///< tokens of a draft, 1 or more
  std::vector<int32_t> draft;
};

/// What makes drafts with runs of its own, for several answers at a time.
class DraftMaker {
 public:
  DraftMaker() = default;
  DraftMaker(const DraftMaker&) = delete;
  DraftMaker& operator=(const DraftMaker&) = delete;
  virtual ~DraftMaker() = default;
  /// Sets the drafts of requests; some may be empty.
  virtual void propose(std::span<DraftRequest> requests) = 0;
  /// What a token of a draft took lately, in seconds; 0: not known yet.
  virtual double seconds_each() const = 0;
};

/// The average time of a run, newer ones counting more.
class DraftTime {
 public:
  double value() const { return value_; }
  void took(double seconds, int64_t runs);

 private:
  double value_ = 0;
};

}  // namespace veery
