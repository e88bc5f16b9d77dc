// sound.h: reads sound files as mono samples at 16 kHz.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Sample rate of all speech models, in Hz.
inline constexpr int kSoundRate = 16000;

/// Decodes a sound file piece by piece: MP3 by libmpg123, other formats by libsndfile (WAV, FLAC,
/// Ogg, AIFF ...). Channels are averaged and other rates resampled. Not thread-safe.
class Sound {
 public:
  /// Opens a regular file. Throws kNotFound, kIo, or kFormat if it is not a sound file.
  explicit Sound(const std::string& path);
  /// Reads a file in memory, such as standard input; `name` replaces the path in messages.
  Sound(std::string bytes, const std::string& name);
  Sound(const Sound&) = delete;
  Sound& operator=(const Sound&) = delete;
  ~Sound();

  /// Appends the next samples to `samples`; returns false at the end. Throws kFormat, naming the
  /// time, for a sample that is not a number, and kIo if reading fails.
  bool read(std::vector<float>& samples);

  /// Returns the length that the file declares in samples at kSoundRate; 0: unknown.
  int64_t declared() const;
  /// Returns why the file could only be read up to a point; empty: it was read completely.
  const std::string& damage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace veery
