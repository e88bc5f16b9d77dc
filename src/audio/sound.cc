#include "audio/sound.h"

#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "audio/mp3.h"
#include "audio/sound_input.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"

namespace veery {
namespace {

// Frames read at a time: at least one second of most files.
constexpr int64_t kPiece = 65536;
constexpr int kMostChannels = 64;
// Samples are between about -1 and 1; a much larger float means that the file was misinterpreted.
constexpr float kLargest = 1e6F;

// Callbacks of libsndfile.
sf_count_t length_of(void* input) { return static_cast<SoundInput*>(input)->size(); }
sf_count_t seek_in(sf_count_t offset, int whence, void* input) {
  return static_cast<SoundInput*>(input)->seek(offset, whence);
}
sf_count_t read_from(void* to, sf_count_t count, void* input) {
  return static_cast<SoundInput*>(input)->read(to, count);
}
sf_count_t write_to(const void*, sf_count_t, void*) { return 0; }
sf_count_t tell(void* input) { return static_cast<SoundInput*>(input)->at(); }

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
struct CloseResampler {
  void operator()(SRC_STATE* state) const { src_delete(state); }
};

}  // namespace

struct Sound::State {
  SoundInput input;
  std::unique_ptr<SNDFILE, CloseFile> file;  // for all other formats
  std::unique_ptr<Mp3> mp3;                  // for MP3
  std::unique_ptr<SRC_STATE, CloseResampler> resampler;
  SF_INFO info{};
  std::vector<float> frames, mono;
  int64_t read = 0;  // in frames
  bool ended = false;
  std::string damage;

  explicit State(SoundInput in) : input(std::move(in)) {
    if (is_mp3(input))
      open_mp3();
    else
      open_file();
    check();
  }
  double ratio() const { return static_cast<double>(kSoundRate) / info.samplerate; }
  void open_mp3();
  void open_file();
  void check();
  int64_t read_frames();
  void mix(int64_t count);
  void resample(std::vector<float>& samples);
};

void Sound::State::open_mp3() {
  mp3 = std::make_unique<Mp3>(input);
  info.channels = mp3->channels();
  info.samplerate = mp3->rate();
  info.frames = mp3->frames();
}

void Sound::State::open_file() {
  SF_VIRTUAL_IO callbacks{length_of, seek_in, read_from, write_to, tell};
  file.reset(sf_open_virtual(&callbacks, SFM_READ, &info, &input));
  if (!file)
    throw Error(ErrorKind::kFormat, "{}: not a sound file: {} (expected WAV, FLAC, Ogg, MP3 ...)",
                shown_path(input.name()), printable(sf_strerror(nullptr)));
}

void Sound::State::check() {
  const std::string name = shown_path(input.name());
  if (info.channels < 1 || info.channels > kMostChannels)
    throw Error(ErrorKind::kUnsupported, "{}: has {} channels, expected 1 to {}", name,
                info.channels, kMostChannels);
  if (info.samplerate < 1 || src_is_valid_ratio(ratio()) == 0)
    throw Error(ErrorKind::kUnsupported, "{}: has {} samples a second, expected {} to {}", name,
                info.samplerate, (kSoundRate + 255) / 256, kSoundRate * 256);
  if (info.samplerate == kSoundRate) return;
  int error = 0;
  resampler.reset(src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error));
  if (!resampler) throw Error(ErrorKind::kLimit, "{}", src_strerror(error));
}

Sound::Sound(const std::string& path) : state_(std::make_unique<State>(SoundInput(path))) {}

Sound::Sound(std::string bytes, const std::string& name)
    : state_(std::make_unique<State>(SoundInput(std::move(bytes), name))) {}

Sound::~Sound() = default;

const std::string& Sound::damage() const { return state_->damage; }
int64_t Sound::declared() const {
  const auto frames = static_cast<double>(state_->info.frames) * state_->ratio();
  return frames > 0 && frames < 1e15 ? static_cast<int64_t>(frames) : 0;
}

// Averages the channels of `count` frames.
void Sound::State::mix(int64_t count) {
  const auto channels = static_cast<size_t>(info.channels);
  mono.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < mono.size(); ++i) {
    float sum = 0;
    for (size_t c = 0; c < channels; ++c) sum += frames[i * channels + c];
    mono[i] = sum / static_cast<float>(channels);
    if (!(std::abs(mono[i]) <= kLargest))
      throw Error(ErrorKind::kFormat, "{}: the sample at {:.3f} s is {}, expected about -1 to 1",
                  shown_path(input.name()),
                  static_cast<double>(read + static_cast<int64_t>(i)) / info.samplerate, mono[i]);
  }
  read += count;
}

void Sound::State::resample(std::vector<float>& samples) {
  std::vector<float> out(static_cast<size_t>(static_cast<double>(mono.size()) * ratio()) + 4096);
  SRC_DATA data{};
  data.data_in = mono.data();
  data.input_frames = static_cast<long>(mono.size());
  data.data_out = out.data();
  data.output_frames = static_cast<long>(out.size());
  data.src_ratio = ratio();
  data.end_of_input = ended ? 1 : 0;
  for (;;) {
    if (const int error = src_process(resampler.get(), &data); error != 0)
      throw Error(ErrorKind::kBug, "resampling: {}", src_strerror(error));
    samples.insert(samples.end(), out.begin(), out.begin() + data.output_frames_gen);
    data.data_in += data.input_frames_used;
    data.input_frames -= data.input_frames_used;
    if (data.output_frames_gen == 0 && (data.input_frames == 0 || data.input_frames_used == 0))
      return;
  }
}

// Reads up to kPiece frames. At the end, records the damage found in the file.
int64_t Sound::State::read_frames() {
  frames.resize(static_cast<size_t>(kPiece * info.channels));
  const int64_t count = std::max<int64_t>(
      mp3 ? mp3->read(frames.data(), kPiece) : sf_readf_float(file.get(), frames.data(), kPiece),
      0);
  ended = count < kPiece;
  if (!ended) return count;
  std::string fault;
  if (mp3)
    fault = mp3->damage();
  else if (sf_error(file.get()) != SF_ERR_NO_ERROR)
    fault = fmt::format("is damaged at {:.1f} s: {}",
                        static_cast<double>(read + count) / info.samplerate,
                        printable(sf_strerror(file.get())));
  if (!fault.empty()) damage = fmt::format("{}: {}", shown_path(input.name()), fault);
  return count;
}

bool Sound::read(std::vector<float>& samples) {
  State& s = *state_;
  if (s.ended) return false;
  s.mix(s.read_frames());
  if (s.resampler)
    s.resample(samples);
  else
    samples.insert(samples.end(), s.mono.begin(), s.mono.end());
  return true;
}

}  // namespace veery
