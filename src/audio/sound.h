// sound.h: sound files as samples of one channel at 16 kHz.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Samples a second of everything that listens.
inline constexpr int kSoundRate = 16000;

/// Reads MP3 by libmpg123 and what else libsndfile knows (WAV, FLAC, Ogg, AIFF ...) a piece at a
/// time: channels become their mean, other rates are resampled. Not for several threads.
class Sound {
 public:
  /// A regular file. Throws kNotFound, kIo, or kFormat where it is no sound.
  explicit Sound(const std::string& path);
  /// The bytes of one, as standard input brings them; `name` stands for the path in messages.
  Sound(std::string bytes, const std::string& name);
  Sound(const Sound&) = delete;
  Sound& operator=(const Sound&) = delete;
  ~Sound();

  /// Appends the next samples to `samples`; false where there are none left. Throws kFormat naming
  /// the time of a sample that is no number, kIo if the system does not read.
  bool read(std::vector<float>& samples);

  /// As the file says, before it was read: samples at kSoundRate; 0: it does not say.
  int64_t declared() const;
  /// What is wrong with the end of a file that was read as far as it goes; empty: nothing.
  const std::string& damage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace veery
