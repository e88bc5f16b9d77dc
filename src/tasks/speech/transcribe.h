// transcribe.h: what is said in sound, and when.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "audio/sound.h"
#include "audio/voice_activity.h"
#include "engine/model.h"
#include "tasks/speech/speech_tokens.h"
#include "tasks/speech/window_decoder.h"
#include "tasks/speech/window_plan.h"
#include "tasks/speech/word_aligner.h"

namespace veery {

/// The numbers are those of Radford et al., arXiv:2212.04356, section 4.5, and of their code.
struct TranscribeOptions {
  std::string language;    ///< "en" or "english"; empty: the one that is most probable
  bool translate = false;  ///< into English
  bool times = true;       ///< the model says when; else a window is one piece
  bool words = false;      ///< when each word was said
  std::string prompt;      ///< what was said before: names, spelling
  bool carry = true;       ///< what a window said is the prompt of the next one
  /// Tried one after the other until what is said is plausible.
  std::vector<float> temperatures = {0, 0.2F, 0.4F, 0.6F, 0.8F, 1};
  int32_t beams = 1, best_of = 5;  ///< WindowOptions
  float most_compression = 2.4F;   ///< more is text that repeats itself
  float least_log_prob = -1;       ///< less, a token on average, is no good guess
  float most_no_speech = 0.6F;     ///< more, and a bad guess besides, is silence
  uint64_t seed = 0;
  std::optional<VoiceOptions> voice;  ///< only where somebody speaks is listened to
  /// 0: window after window, each beginning where the last whole piece of the one before it ends.
  /// Else windows of their own (quiet_windows()), so many of which are decoded together, whose
  /// prompt is `prompt`: what they say does not depend on their number.
  int32_t batch = 0;
};

/// A piece of a transcript; times in seconds.
struct TranscribedSegment {
  double start = 0, end = 0;
  std::string text;             ///< as it was said, mostly with a space before it
  std::vector<int32_t> tokens;  ///< times included
  float temperature = 0, compression = 0, no_speech = 0;
  double mean_log_prob = 0;
  std::vector<SpokenWord> words;  ///< with TranscribeOptions::words
};

struct Transcript {
  std::string language;  ///< "en"
  float language_probability = 1;
  double seconds = 0;      ///< of the sound
  bool has_words = false;  ///< TranscribeOptions::words
  std::vector<TranscribedSegment> segments;
  std::string damage;  ///< Sound::damage()

  std::string text() const;
};

/// What a caller may want to know meanwhile.
struct TranscribeEvents {
  std::function<void(double seconds, double all)> progress;
  std::function<void(const TranscribedSegment&)> segment;
};

/// Not for several threads at once.
class Transcriber {
 public:
  /// `guesses`: as many beams or guesses as a transcript may ask for, `batch`: as many windows
  /// together. Throws as Model does.
  Transcriber(const std::string& path, LoadOptions load, int32_t guesses = 5, int32_t batch = 1,
              bool reserve = false);

  /// Throws as Sound does, and kInput or kUnsupported naming a number out of range, a language or a
  /// task that the model does not have, or what times of words lack. What an event throws ends it
  /// and is passed on.
  Transcript transcribe(Sound& sound, const TranscribeOptions& options = {},
                        const TranscribeEvents& events = {});

  Model& model() { return model_; }
  const Runner& runner() const { return runner_; }

 private:
  struct Progress;

  struct Window;

  void check() const;
  void check_voice() const;
  MelSpectrogram listen(Sound& sound);
  int64_t keep_speech(MelSpectrogram& mel, int64_t frames, KeptClock& clock) const;
  void choose_language(const MelSpectrogram& mel, Transcript& transcript);
  std::vector<int32_t> start_tokens() const;
  std::vector<int32_t> prompt_of(const Progress& progress) const;
  bool is_silent(const MelSpectrogram& mel, FrameRange range) const;
  bool is_plausible(const Window& window) const;
  bool is_unspoken(const Window& window) const;
  void decode(std::span<Window> windows);
  std::vector<TranscribedSegment> cut(Progress& progress, const Window& window,
                                      bool& goes_on) const;
  void add_words(Progress& progress, std::vector<TranscribedSegment>& segments,
                 const Window& window, bool goes_on);
  void take_window(Progress& progress, const Window& window);
  void follow_windows(Progress& progress);
  void decode_batches(Progress& progress);
  std::string text_of(std::span<const int32_t> tokens) const;

  std::shared_ptr<SpeechKeys> keys_;
  int32_t guesses_, batch_;
  Model model_;
  SpeechTokens tokens_;
  SpeechRules rules_;
  Runner runner_;
  WindowDecoder decoder_;
  WordAligner aligner_;
  TranscribeOptions options_;  ///< of the transcript in the making
  int32_t language_ = -1;      ///< the id of its token
};

/// How much shorter zlib makes a text: its bytes over those that remain.
float compression_ratio(const std::string& text);

}  // namespace veery
