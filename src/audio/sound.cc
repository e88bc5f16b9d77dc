#include "audio/sound.h"

#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/printable.h"

namespace veery {
namespace {

// Frames that are read at a time: a second and more of most files.
constexpr int64_t kPiece = 65536;
constexpr int kMostChannels = 64;
// Samples are about 1; a float that is far beyond is a file that was misunderstood.
constexpr float kLargest = 1e6F;

// Bytes in memory as libsndfile reads them.
struct Bytes {
  std::string bytes;
  sf_count_t at = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};
sf_count_t length_of(void* data) { return static_cast<Bytes*>(data)->size(); }
sf_count_t seek_in(sf_count_t offset, int whence, void* data) {
  auto& in = *static_cast<Bytes*>(data);
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? in.at : in.size();
  if (offset < -from || offset > in.size() - from) return -1;
  return in.at = from + offset;
}
sf_count_t read_from(void* to, sf_count_t count, void* data) {
  auto& in = *static_cast<Bytes*>(data);
  const sf_count_t there = std::clamp<sf_count_t>(count, 0, in.size() - in.at);
  std::memcpy(to, in.bytes.data() + in.at, static_cast<size_t>(there));
  in.at += there;
  return there;
}
sf_count_t write_to(const void*, sf_count_t, void*) { return 0; }
sf_count_t tell(void* data) { return static_cast<Bytes*>(data)->at; }

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
struct CloseResampler {
  void operator()(SRC_STATE* state) const { src_delete(state); }
};

}  // namespace

struct Sound::State {
  std::string name;
  Bytes bytes;
  std::optional<Descriptor> descriptor;
  std::unique_ptr<SNDFILE, CloseFile> file;
  std::unique_ptr<SRC_STATE, CloseResampler> resampler;
  SF_INFO info{};
  std::vector<float> frames, mono;
  int64_t read = 0;  // frames
  bool ended = false;
  std::string damage;

  double ratio() const { return static_cast<double>(kSoundRate) / info.samplerate; }
  void check();
  void mix(int64_t count);
  void resample(std::vector<float>& samples);
};

// What libsndfile opened.
void Sound::State::check() {
  if (!file)
    throw Error(ErrorKind::kFormat, "{}: is no sound file: {} (WAV, FLAC, Ogg and MP3 are some)",
                shown_path(name), printable(sf_strerror(nullptr)));
  if (info.channels < 1 || info.channels > kMostChannels)
    throw Error(ErrorKind::kUnsupported, "{}: has {} channels, expected 1 to {}", shown_path(name),
                info.channels, kMostChannels);
  if (info.samplerate < 1 || src_is_valid_ratio(ratio()) == 0)
    throw Error(ErrorKind::kUnsupported, "{}: has {} samples a second, expected {} to {}",
                shown_path(name), info.samplerate, (kSoundRate + 255) / 256, kSoundRate * 256);
  if (info.samplerate == kSoundRate) return;
  int error = 0;
  resampler.reset(src_new(SRC_SINC_MEDIUM_QUALITY, 1, &error));
  if (!resampler) throw Error(ErrorKind::kLimit, "{}", src_strerror(error));
}

Sound::Sound(const std::string& path) : state_(std::make_unique<State>()) {
  state_->name = path;
  state_->descriptor.emplace(open_regular(path));
  state_->file.reset(sf_open_fd(state_->descriptor->get(), SFM_READ, &state_->info, SF_FALSE));
  state_->check();
}

Sound::Sound(std::string bytes, const std::string& name) : state_(std::make_unique<State>()) {
  state_->name = name;
  state_->bytes.bytes = std::move(bytes);
  SF_VIRTUAL_IO memory{length_of, seek_in, read_from, write_to, tell};
  state_->file.reset(sf_open_virtual(&memory, SFM_READ, &state_->info, &state_->bytes));
  state_->check();
}

Sound::~Sound() = default;

const std::string& Sound::damage() const { return state_->damage; }
int64_t Sound::declared() const {
  const auto frames = static_cast<double>(state_->info.frames) * state_->ratio();
  return frames > 0 && frames < 1e15 ? static_cast<int64_t>(frames) : 0;
}

// The mean of the channels of `count` frames.
void Sound::State::mix(int64_t count) {
  const auto channels = static_cast<size_t>(info.channels);
  mono.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < mono.size(); ++i) {
    float sum = 0;
    for (size_t c = 0; c < channels; ++c) sum += frames[i * channels + c];
    mono[i] = sum / static_cast<float>(channels);
    if (!(std::abs(mono[i]) <= kLargest))
      throw Error(ErrorKind::kFormat, "{}: the sample at {:.3f} s is {}, expected about -1 to 1",
                  shown_path(name),
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

bool Sound::read(std::vector<float>& samples) {
  State& s = *state_;
  if (s.ended) return false;
  s.frames.resize(static_cast<size_t>(kPiece * s.info.channels));
  const int64_t count = sf_readf_float(s.file.get(), s.frames.data(), kPiece);
  if (count < kPiece) {
    s.ended = true;
    if (sf_error(s.file.get()) != SF_ERR_NO_ERROR)
      s.damage =
          fmt::format("{}: is damaged {:.1f} s from its beginning: {}", shown_path(s.name),
                      static_cast<double>(s.read + std::max<int64_t>(count, 0)) / s.info.samplerate,
                      printable(sf_strerror(s.file.get())));
  }
  s.mix(std::max<int64_t>(count, 0));
  if (s.resampler)
    s.resample(samples);
  else
    samples.insert(samples.end(), s.mono.begin(), s.mono.end());
  return true;
}

}  // namespace veery
