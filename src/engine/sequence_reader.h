// sequence_reader.h: feeds tokens to one sequence and returns the logits after them.
#pragma once
#include <functional>
#include <span>

#include "engine/session.h"

namespace veery {

/// A Session with one sequence, for programs that evaluate a model without generating answers:
/// perplexity, `verify`, `logits`, profiles of a plan. (Scheduler generates answers.) If the
/// decoder attends to an encoder, the encoder's input is zeros. Not thread-safe. The model must
/// outlive it.
class SequenceReader {
 public:
  /// `positions`: the expected final length (Session::open()); 0: the context.
  explicit SequenceReader(Model& model, int64_t positions = 0);
  SequenceReader(const SequenceReader&) = delete;
  SequenceReader& operator=(const SequenceReader&) = delete;

  int32_t position() const { return session_.position(sequence_); }  ///< tokens fed so far
  int32_t context() const { return session_.context(); }

  /// Feeds tokens; logits() then returns those after the last one. Throws kLimit, with both
  /// numbers, if the tokens do not fit the context, kInput for an id outside the vocabulary;
  /// nothing has changed then.
  void feed(std::span<const int32_t> ids);
  /// Logits (vocab) after the last token fed. Valid until the next call.
  std::span<const float> logits() const { return logits_; }

  /// Feeds tokens and calls `on_logits` with the logits after each one, in order.
  using OnLogits = std::function<void(int32_t position, std::span<const float> logits)>;
  void feed_all(std::span<const int32_t> ids, const OnLogits& on_logits);

  /// Forgets all tokens.
  void clear() { session_.rewind(sequence_, 0); }

  /// The plan for runs of up to `rows` tokens with one output.
  Plan& plan(int64_t rows) { return session_.plan(rows); }

 protected:
  void check(std::span<const int32_t> ids) const;

  Model& model_;
  Session session_;
  int32_t sequence_;
  int32_t chunk_;  ///< most tokens of one run
  std::span<const float> logits_;
};

}  // namespace veery
