// sequence_reader.h: reads tokens into one sequence and shows the logits behind them.
#pragma once
#include <functional>
#include <span>

#include "engine/runner.h"

namespace veery {

/// For what looks at a model rather than answers with it: perplexity, `verify`, `logits`, profiles
/// of a plan. A Runner of its own with one sequence. Answers are made by a Scheduler. Not
/// thread-safe. The model must outlive it. Where its decoder attends to an encoder, that is given
/// nothing but zeros.
class SequenceReader {
 public:
  /// `positions`: what it will become (Runner::open); 0: as long as the context.
  explicit SequenceReader(Model& model, int64_t positions = 0);
  SequenceReader(const SequenceReader&) = delete;
  SequenceReader& operator=(const SequenceReader&) = delete;

  int32_t position() const { return runner_.position(sequence_); }  ///< tokens fed so far
  int32_t context() const { return runner_.context(); }

  /// Feeds tokens; afterwards logits() are those after the last one. Throws kLimit, naming both
  /// numbers, before anything is changed if they do not fit the context; kInput for an id outside
  /// of the vocabulary.
  void feed(std::span<const int32_t> ids);
  /// Logits (vocab) after the last token fed. Valid until the next call.
  std::span<const float> logits() const { return logits_; }

  /// Feeds tokens and hands out the logits after each one, in order.
  using OnLogits = std::function<void(int32_t position, std::span<const float> logits)>;
  void feed_all(std::span<const int32_t> ids, const OnLogits& on_logits);

  /// Forgets all tokens.
  void clear() { runner_.rewind(sequence_, 0); }

  /// The plan for runs of up to `rows` tokens with one output.
  Plan& plan(int64_t rows) { return runner_.plan(rows); }

 protected:
  void check(std::span<const int32_t> ids) const;

  Model& model_;
  Runner runner_;
  int32_t sequence_;
  int32_t chunk_;  ///< prompts are split into runs of at most so many tokens
  std::span<const float> logits_;
};

}  // namespace veery
