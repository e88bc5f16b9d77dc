// window_decoder.h: decodes windows of sound to tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/session.h"
#include "tasks/speech/speech_tokens.h"

namespace veery {

struct WindowOptions {
  float temperature = 0;
  int32_t beams = 1;          ///< beams of the search at temperature 0
  int32_t best_of = 5;        ///< samples at higher temperatures; the most probable is kept
  int32_t most_tokens = 224;  ///< limit of a window, besides the context
  bool times = true;          ///< with time tokens
};

struct WindowText {
  std::vector<int32_t> tokens;   ///< text and times, without the end token
  std::vector<float> log_probs;  ///< of each token, and of the end token if there is one
  double log_prob = 0;           ///< sum of log_probs
  float no_speech = 0;           ///< probability of silence

  double mean_log_prob() const { return log_prob / static_cast<double>(tokens.size() + 1); }
};

/// One window of a batch.
struct WindowTask {
  size_t window = 0;                ///< index given to encode()
  std::span<const int32_t> prompt;  ///< ends with <|startoftranscript|>, language and task
  Random* random = nullptr;         ///< for sampling at temperatures above 0
};

/// Not thread-safe. Session, tokens and rules must outlive it.
class WindowDecoder {
 public:
  /// The session must support sequences(windows, max(beams, best_of)) sequences.
  WindowDecoder(Session& session, const SpeechTokens& tokens, const SpeechRules& rules,
                int32_t windows = 1);
  static int32_t sequences(int32_t windows, int32_t guesses) { return windows * (2 * guesses + 1); }

  /// Encodes a window of sound, replacing the previous one with this index.
  void encode(size_t window, std::span<const float> features);
  /// Returns the sequence that attends to a window.
  int32_t encoded(size_t window) const { return encoded_[window]; }

  /// Decodes all windows together, one token of each per run. The result of a window does not
  /// depend on the others.
  std::vector<WindowText> decode(std::span<const WindowTask> tasks, const WindowOptions& options);

  /// Returns the probability of each language for the first window.
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
  /// The search of one window: its paths, and for beam search the ended ones.
  struct Search {
    Random* random = nullptr;
    std::vector<Path> paths, ended;
    std::vector<int32_t> forks;  ///< sequences of the present step, closed after the next
    bool over = false;           ///< beam search has ended
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

  Session& session_;
  const SpeechTokens& tokens_;
  const SpeechRules& rules_;
  bool times_ = true;
  std::vector<int32_t> encoded_;
  std::vector<int32_t> open_;  ///< open sequences, except those of windows
};

}  // namespace veery
