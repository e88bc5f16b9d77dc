// mp3_fuzz.cc: any bytes must decode as MPEG audio, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "audio/mp3.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    veery::SoundInput input(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    veery::is_mp3(input);
    veery::Mp3 mp3(input);
    if (mp3.channels() < 1 || mp3.rate() < 1) std::abort();
    constexpr int64_t kPiece = 5000;  // not a multiple of the frame size
    std::vector<float> samples(static_cast<size_t>(kPiece * mp3.channels()));
    int64_t total = 0;
    for (int64_t count = kPiece; count == kPiece && total < 1000000; total += count) {
      count = mp3.read(samples.data(), kPiece);
      if (count < 0 || count > kPiece) std::abort();
    }
    mp3.damage();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
