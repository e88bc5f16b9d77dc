// session.h: one sequence: its position, and the runs that move it on.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "engine/runner.h"

namespace veery {

/// Not thread-safe. The model must outlive it. Where its decoder attends to an encoder, that hears
/// nothing but zeros.
class Session {
 public:
  /// `positions`: what it will become (Runner::open); 0: as long as the context.
  explicit Session(Model& model, int64_t positions = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int32_t position() const { return runner_.position(sequence_); }  ///< tokens fed so far
  int32_t context() const { return runner_.context(); }
  size_t cache_bytes() const { return runner_.cache_bytes(); }

  /// Feeds tokens; afterwards logits() are those after the last one. Throws kLimit, naming both
  /// numbers, before anything is changed if they do not fit the context; kInput for an id outside
  /// of the vocabulary. `go_on`: asked between the runs that a long prompt is split into; false:
  /// the rest is not fed, and there are no logits. Returns how many tokens were fed.
  size_t feed(std::span<const int32_t> ids, const std::function<bool()>& go_on = {});
  /// Logits (vocab) after the last token fed. Valid until the next call.
  std::span<const float> logits() const { return logits_; }

  /// Feeds tokens and hands out the logits after each one, in order.
  using OnLogits = std::function<void(int32_t position, std::span<const float> logits)>;
  void feed_all(std::span<const int32_t> ids, const OnLogits& on_logits);

  /// Chain decode: feeds `token` and then each most probable next one, out.size() times, without
  /// the logits ever being written. Returns how many were made: fewer where the context ends or
  /// `stop` says so after a token.
  size_t decode_greedy(int32_t token, std::span<int32_t> out,
                       const std::function<bool(int32_t)>& stop = {});

  /// Runner::save(), Runner::nearest(), Runner::can_rewind(), Runner::rewind()
  void save() { runner_.save(sequence_); }
  int32_t nearest(int32_t position) const { return runner_.nearest(sequence_, position); }
  bool can_rewind(int32_t position) const { return runner_.can_rewind(sequence_, position); }
  void rewind(int32_t position) { runner_.rewind(sequence_, position); }

  /// Writes the tokens that were fed, `ids`, and what the caches hold of them to a file
  /// (sequence_file.h). Throws kInput if there are not as many, and as write_sequence() does.
  void write(std::span<const int32_t> ids, const std::string& path);
  /// Becomes what such a file holds and returns its tokens; there are no logits. Throws as
  /// SequenceFile does; then it is empty.
  std::vector<int32_t> read(const std::string& path);

  /// The plan for runs of up to `rows` tokens with one output (`veery plan`, `bench`).
  Plan& plan(int64_t rows) { return runner_.plan(rows); }

  /// Splits prompts into runs of at most this many tokens, 1 to LoadOptions::chunk. Throws kInput
  /// otherwise.
  void set_chunk(int32_t chunk);

 private:
  void check(std::span<const int32_t> ids) const;

  Model& model_;
  Runner runner_;
  int32_t sequence_;
  int32_t chunk_;
  std::span<const float> logits_;
};

}  // namespace veery
