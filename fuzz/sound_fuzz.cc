// sound_fuzz.cc: any bytes must decode to finite samples and features, or throw veery::Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "audio/log_mel.h"
#include "audio/sound.h"
#include "base/error.h"

// libsndfile 1.2 leaks memory of libvorbis if an Ogg file ends within its headers.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:vorbis_info_init\n"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static veery::ThreadPool pool(1);
  try {
    veery::Sound sound(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    veery::MelSpectrogram mel(8, pool);
    std::vector<float> samples;
    while (mel.samples() < 100000 && sound.read(samples)) {
      mel.push(samples);
      samples.clear();
    }
    mel.finish(8);
    std::vector<float> window(16 * 8);
    mel.window(mel.frames() - 8, 16, window);
    for (const float x : window)
      if (!std::isfinite(x)) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
