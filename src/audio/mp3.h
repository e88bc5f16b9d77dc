// mp3.h: MPEG audio (MP3) by libmpg123. libsndfile uses the same library, but then libmpg123 prints
// several lines to standard error for each damaged file, which cannot be disabled.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "audio/sound_input.h"

namespace veery {

/// Returns whether the input begins like MPEG audio: with a frame, or with an ID3v2 tag that is not
/// followed by a FLAC stream.
bool is_mp3(const SoundInput& input);

/// Decodes one stream. The first frame determines the format.
class Mp3 {
 public:
  /// `input` must outlive it. Throws kFormat if there is no frame.
  explicit Mp3(SoundInput& input);
  Mp3(const Mp3&) = delete;
  Mp3& operator=(const Mp3&) = delete;
  ~Mp3();

  int channels() const;
  int rate() const;
  /// Returns the length that the file declares, or an estimate from its size; 0: unknown.
  int64_t frames() const;
  /// Writes up to `count` frames of interleaved samples and returns their number. Returns fewer
  /// than `count` only at the end.
  int64_t read(float* to, int64_t count);
  /// Describes the damage found so far in one line without the file name; empty: none.
  std::string damage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace veery
