// window_decoder.h: what is said in one window of sound, as tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/runner.h"
#include "engine/speech/speech_tokens.h"

namespace veery {

struct WindowOptions {
  float temperature = 0;
  int32_t beams = 1;          ///< at temperature 0: sequences that are followed at a time
  int32_t best_of = 5;        ///< above: sequences of which the most probable is taken
  int32_t most_tokens = 224;  ///< of one window, within the context
  bool times = true;          ///< it is written when a piece begins and ends
};

struct WindowText {
  std::vector<int32_t> tokens;   ///< text and times, without the end
  std::vector<float> log_probs;  ///< of each token, and of the end where there is one
  double log_prob = 0;           ///< of all together
  float no_speech = 0;           ///< probability that nothing is said

  double mean_log_prob() const { return log_prob / static_cast<double>(tokens.size() + 1); }
};

/// Not for several threads at once. Runner, tokens and rules must outlive it.
class WindowDecoder {
 public:
  /// The runner must have room for 2 * max(beams, best_of) + 1 sequences.
  WindowDecoder(Runner& runner, const SpeechTokens& tokens, const SpeechRules& rules);

  /// What is drawn from now on depends on `seed` alone.
  void restart(uint64_t seed) { random_ = Random(seed); }

  /// Hears a window; what is decoded from then on is said there.
  void hear(std::span<const float> features);
  /// The sequence that has heard it.
  int32_t heard() const { return heard_; }

  /// What follows `prompt`, which ends with <|startoftranscript|> and what belongs to it.
  WindowText decode(std::span<const int32_t> prompt, const WindowOptions& options);

  /// The probability of each language of the tokens.
  std::vector<float> languages();

 private:
  struct Path {
    int32_t sequence = -1;
    WindowText text;
    bool ended = false;
  };
  struct Choice {
    size_t path;
    int32_t token;
    double log_prob, total;
  };

  std::vector<float> start(std::span<const int32_t> prompt, float& no_speech);
  std::vector<float> logits_of(int32_t output, std::span<const int32_t> said) const;
  void take(Path& path, std::span<const float> logits, float temperature);
  void append(Path& path, int32_t token, double log_prob) const;
  WindowText follow(std::vector<Path> paths, std::vector<float> first,
                    const WindowOptions& options);
  WindowText search(Path path, std::vector<float> first, const WindowOptions& options);
  std::vector<Choice> best_choices(std::span<const Path> paths,
                                   std::span<const std::vector<float>> logits, size_t count) const;
  void run(std::span<Path* const> paths);
  bool full(const Path& path, const WindowOptions& options) const;
  void close_all();

  Runner& runner_;
  const SpeechTokens& tokens_;
  const SpeechRules& rules_;
  Random random_;
  bool times_ = true;
  int32_t heard_;
  std::vector<int32_t> open_;  ///< sequences beside that which hears
};

}  // namespace veery
