// window_decoder.h: what is said in windows of sound, as tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/runner.h"
#include "tasks/speech/speech_tokens.h"

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

/// One of the windows that are decoded together.
struct WindowTask {
  size_t window = 0;                ///< encode() was given it
  std::span<const int32_t> prompt;  ///< ends with <|startoftranscript|> and what belongs to it
  Random* random = nullptr;         ///< what is drawn at temperatures above 0
};

/// Not for several threads at once. Runner, tokens and rules must outlive it.
class WindowDecoder {
 public:
  /// The runner must have room for sequences(windows, max(beams, best_of)).
  WindowDecoder(Runner& runner, const SpeechTokens& tokens, const SpeechRules& rules,
                int32_t windows = 1);
  static int32_t sequences(int32_t windows, int32_t guesses) { return windows * (2 * guesses + 1); }

  /// Encodes a window in place of what it was; what is decoded of it from then on is said there.
  void encode(size_t window, std::span<const float> features);
  /// The sequence that attends to it.
  int32_t encoded(size_t window) const { return encoded_[window]; }

  /// What follows the prompt of each window, a token of all of them in one run. What one gives does
  /// not depend on the others.
  std::vector<WindowText> decode(std::span<const WindowTask> tasks, const WindowOptions& options);

  /// The probability of each language of the tokens, in the first window.
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
  /// The paths of one window, and of a beam search those that have ended.
  struct Search {
    Random* random = nullptr;
    std::vector<Path> paths, ended;
    std::vector<int32_t> forks;  ///< sequences, to be closed when others are made
    bool over = false;           ///< of a beam search: no path goes on
  };
  using Logits = std::vector<std::vector<float>>;

  Search begin(const WindowTask& task, const WindowOptions& options);
  std::vector<float> start(const WindowTask& task, float& no_speech);
  std::vector<float> logits_of(int32_t output, std::span<const int32_t> said) const;
  std::vector<Path*> active(Search& search, const WindowOptions& options) const;
  void take(Search& search, Path& path, std::span<const float> logits, float temperature);
  void append(Path& path, int32_t token, double log_prob) const;
  void grow(Search& search, const Logits& logits, const WindowOptions& options);
  std::vector<Choice> best_choices(std::span<const Path> paths, const Logits& logits,
                                   size_t count) const;
  WindowText finish(Search& search, const WindowOptions& options);
  void run(std::span<Path* const> paths);
  bool full(const Path& path, const WindowOptions& options) const;
  int32_t fork(Search& search, int32_t sequence);
  void close(int32_t sequence);

  Runner& runner_;
  const SpeechTokens& tokens_;
  const SpeechRules& rules_;
  bool times_ = true;
  std::vector<int32_t> encoded_;
  std::vector<int32_t> open_;  ///< sequences beside those of windows
};

}  // namespace veery
