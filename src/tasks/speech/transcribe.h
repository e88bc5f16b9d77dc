// transcribe.h: speech recognition with Whisper models.
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

/// The defaults are those of Radford et al., arXiv:2212.04356, section 4.5, and of their code.
struct TranscribeOptions {
  std::string language;    ///< "en" or "english"; empty: detected
  bool translate = false;  ///< translate to English
  bool times = true;       ///< with time stamps; false: a window is one segment
  bool words = false;      ///< with the times of each word
  std::string prompt;      ///< text before the speech, for names and spelling
  bool carry = true;       ///< use the text of a window as prompt of the next one
  /// Tried in order until the text is plausible.
  std::vector<float> temperatures = {0, 0.2F, 0.4F, 0.6F, 0.8F, 1};
  int32_t beams = 1, best_of = 5;  ///< WindowOptions
  float most_compression = 2.4F;   ///< text with a higher compression ratio is implausible
  float least_log_prob = -1;       ///< text with a lower mean log probability is implausible
  float most_no_speech = 0.6F;     ///< implausible text with more than this is silence
  uint64_t seed = 0;
  std::optional<VoiceOptions> voice;  ///< transcribe only where somebody speaks; absent: all
  /// 0: decode consecutive windows, each beginning at the end of the last complete segment. Else
  /// decode `batch` independent windows together (quiet_windows()), each with `prompt` alone; the
  /// result does not depend on the number.
  int32_t batch = 0;
};

/// A segment of a transcript; times in seconds.
struct TranscribedSegment {
  double start = 0, end = 0;
  std::string text;             ///< mostly with a leading space
  std::vector<int32_t> tokens;  ///< with time tokens
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

/// Callbacks during a transcription.
struct TranscribeEvents {
  std::function<void(double seconds, double all)> progress;
  std::function<void(const TranscribedSegment&)> segment;
};

/// Not thread-safe.
class Transcriber {
 public:
  /// `guesses`: maximum of TranscribeOptions::beams and best_of. `batch`: maximum of
  /// TranscribeOptions::batch. Throws as Model does.
  Transcriber(const std::string& path, LoadOptions load, int32_t guesses = 5, int32_t batch = 1,
              bool reserve = false);

  /// Throws as Sound does; kInput or kUnsupported naming a number out of range, a language or task
  /// that the model does not support, or missing alignment heads. Passes on exceptions of events.
  Transcript transcribe(Sound& sound, const TranscribeOptions& options = {},
                        const TranscribeEvents& events = {});

  Model& model() { return model_; }
  const Session& session() const { return session_; }

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
  Session session_;
  WindowDecoder decoder_;
  WordAligner aligner_;
  TranscribeOptions options_;  ///< of the present transcription
  int32_t language_ = -1;      ///< id of its language token
};

/// Returns the size of a text over its size after compression by zlib.
float compression_ratio(const std::string& text);

}  // namespace veery
