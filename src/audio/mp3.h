// mp3.h: MPEG audio (MP3) by libmpg123. libsndfile decodes it by the same library, but lets it
// write several lines to standard error for each damaged file, and has no way to switch that off.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "audio/sound_input.h"

namespace veery {

/// Whether the input begins as MPEG audio does: with a frame, or with an ID3v2 tag that no FLAC
/// stream follows.
bool is_mp3(const SoundInput& input);

/// Decodes one stream. Its format is that of the first frame.
class Mp3 {
 public:
  /// `input` must outlive it. Throws kFormat if there is no frame.
  explicit Mp3(SoundInput& input);
  Mp3(const Mp3&) = delete;
  Mp3& operator=(const Mp3&) = delete;
  ~Mp3();

  int channels() const;
  int rate() const;
  /// As the file says, or an estimate from its size; 0: not known.
  int64_t frames() const;
  /// Writes up to `count` frames of interleaved samples. Returns fewer at the end only.
  int64_t read(float* to, int64_t count);
  /// Describes the damage found so far in one line, without the file's name; empty: none was found.
  std::string damage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace veery
