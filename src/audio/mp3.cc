#include "audio/mp3.h"

#include <fmt/format.h>
#include <mpg123.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

constexpr int64_t kTagHeader = 10;
constexpr int64_t kLongestFrame = 1152;  // samples per channel
// Some programs write several ID3v2 tags.
constexpr int kMostTags = 16;

using Header = std::array<uint8_t, 4>;

// Returns the length of an ID3v2 tag at `position` (id3.org/id3v2.4.0-structure, 3.1), or 0.
int64_t tag_length(const SoundInput& input, int64_t position) {
  std::array<uint8_t, kTagHeader> head{};
  if (input.read_at(position, head.data(), kTagHeader) < kTagHeader) return 0;
  if (std::memcmp(head.data(), "ID3", 3) != 0) return 0;
  int64_t length = 0;
  for (size_t i = 6; i < 10; ++i) length = length * 128 + (head[i] & 0x7F);
  const bool footer = (head[5] & 0x10) != 0;
  return kTagHeader + length + (footer ? kTagHeader : 0);
}

// Each frame begins with eleven set bits.
bool is_sync(const Header& header) { return header[0] == 0xFF && (header[1] & 0xE0) == 0xE0; }

// Returns whether the first frame is a Xing or Info header with the number of frames.
bool counts_frames(const SoundInput& input, int64_t begin) {
  Header header{};
  if (input.read_at(begin, header.data(), 4) < 4 || !is_sync(header)) return false;
  const bool first_version = (header[1] & 0x18) == 0x18, mono = (header[3] & 0xC0) == 0xC0;
  const int64_t side = first_version ? (mono ? 17 : 32) : (mono ? 9 : 17);
  std::array<char, 8> info{};
  if (input.read_at(begin + 4 + side, info.data(), 8) < 8) return false;
  const std::string_view name(info.data(), 4);
  return (name == "Xing" || name == "Info") && (info[7] & 1) != 0;
}

// Returns the offset after all leading ID3v2 tags.
int64_t begin_of_frames(const SoundInput& input) {
  int64_t begin = 0;
  for (int i = 0; i < kMostTags; ++i) begin += tag_length(input, begin);
  return begin;
}

ssize_t read_input(void* input, void* to, size_t count) {
  return static_cast<SoundInput*>(input)->read(to, static_cast<int64_t>(count));
}
off_t seek_input(void* input, off_t offset, int whence) {
  return static_cast<SoundInput*>(input)->seek(offset, whence);
}

struct CloseHandle {
  void operator()(mpg123_handle* handle) const { mpg123_delete(handle); }
};

}  // namespace

bool is_mp3(const SoundInput& input) {
  const int64_t begin = begin_of_frames(input);
  Header header{};
  if (input.read_at(begin, header.data(), 4) < 4) return begin > 0;
  return begin > 0 ? std::memcmp(header.data(), "fLaC", 4) != 0 : is_sync(header);
}

struct Mp3::State {
  SoundInput& input;
  std::unique_ptr<mpg123_handle, CloseHandle> handle;
  long rate = 0;
  int channels = 0;
  int64_t declared = 0;     // samples per channel; 0: unknown
  int64_t samples = 0;      // samples per channel returned so far
  int64_t end = -1;         // offset after the last frame; -1: no frame yet
  int64_t skipped = 0;      // bytes between frames that belong to no frame
  double skipped_at = 0;    // time of the first of them in seconds
  std::string failure;      // reason why decoding ended early
  bool waiting = false;     // a frame was found and is not decoded yet
  std::vector<float> rest;  // undelivered samples of a decoded frame
  size_t rest_begin = 0;

  bool next();
  void decode();
  void note_gap();
};

Mp3::Mp3(SoundInput& input) : state_(std::make_unique<State>(State{.input = input})) {
  State& s = *state_;
  int error = MPG123_OK;
  s.handle.reset(mpg123_new(nullptr, &error));
  if (!s.handle) throw Error(ErrorKind::kLimit, "libmpg123: {}", mpg123_plain_strerror(error));
  mpg123_handle* const h = s.handle.get();
  mpg123_param(h, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS, 0);
  mpg123_param(h, MPG123_RESYNC_LIMIT, -1, 0);  // resynchronises after damage anywhere
  mpg123_replace_reader_handle(h, read_input, seek_input, nullptr);
  int encoding = 0;
  const bool opened = mpg123_open_handle(h, &input) == MPG123_OK && s.next() &&
                      mpg123_getformat(h, &s.rate, &s.channels, &encoding) == MPG123_OK &&
                      encoding == MPG123_ENC_FLOAT_32;
  if (!opened)
    throw Error(ErrorKind::kFormat,
                "{}: not a sound file: it begins like MP3, but has no complete frame",
                shown_path(input.name()));
  mpg123_format_none(h);
  mpg123_format(h, s.rate, s.channels, MPG123_ENC_FLOAT_32);
  if (counts_frames(input, begin_of_frames(input))) s.declared = frames();
}

Mp3::~Mp3() = default;

int Mp3::channels() const { return state_->channels; }
int Mp3::rate() const { return static_cast<int>(state_->rate); }
int64_t Mp3::frames() const { return std::max<int64_t>(mpg123_length(state_->handle.get()), 0); }

// Finds the next frame; returns false at the end.
bool Mp3::State::next() {
  waiting = false;
  const int result = mpg123_framebyframe_next(handle.get());
  if (result == MPG123_OK || result == MPG123_NEW_FORMAT) {
    note_gap();
    return waiting = true;
  }
  if (result != MPG123_DONE) failure = mpg123_strerror(handle.get());
  return false;
}

// Detects bytes between the end of the last frame and the start of this one. Tags between frames
// are not damage.
void Mp3::State::note_gap() {
  unsigned long header = 0;
  unsigned char* body = nullptr;
  size_t bytes = 0;
  if (mpg123_framedata(handle.get(), &header, &body, &bytes) != MPG123_OK) return;
  const int64_t now = mpg123_tell_stream(handle.get());
  const int64_t begin = now - static_cast<int64_t>(bytes) - 4;
  std::array<char, 3> tag{};
  if (end >= 0 && begin > end && input.read_at(end, tag.data(), 3) == 3 &&
      std::memcmp(tag.data(), "ID3", 3) != 0 && std::memcmp(tag.data(), "TAG", 3) != 0) {
    if (skipped == 0) skipped_at = static_cast<double>(samples) / static_cast<double>(rate);
    skipped += begin - end;
  }
  end = now;
}

void Mp3::State::decode() {
  off_t number = 0;
  unsigned char* audio = nullptr;
  size_t bytes = 0;
  const int result = mpg123_framebyframe_decode(handle.get(), &number, &audio, &bytes);
  waiting = false;
  rest.clear();
  rest_begin = 0;
  long now_rate = 0;
  int now_channels = 0, encoding = 0;
  mpg123_getformat2(handle.get(), &now_rate, &now_channels, &encoding, 0);
  const bool same = now_rate == rate && now_channels == channels;
  // Frames that cannot be decoded or have another format are skipped.
  if (result != MPG123_OK || !same || audio == nullptr || bytes == 0) return;
  rest.resize(bytes / sizeof(float));
  std::memcpy(rest.data(), audio, rest.size() * sizeof(float));
}

int64_t Mp3::read(float* to, int64_t count) {
  State& s = *state_;
  const auto wanted = static_cast<size_t>(count * s.channels);
  size_t filled = 0;
  while (filled < wanted) {
    if (s.rest_begin == s.rest.size()) {
      if (!s.waiting && !s.next()) break;
      s.decode();
      continue;
    }
    const size_t part = std::min(wanted - filled, s.rest.size() - s.rest_begin);
    std::copy_n(s.rest.begin() + static_cast<std::ptrdiff_t>(s.rest_begin), part, to + filled);
    s.rest_begin += part;
    filled += part;
    s.samples += static_cast<int64_t>(part) / s.channels;
  }
  return static_cast<int64_t>(filled) / s.channels;
}

std::string Mp3::damage() const {
  const State& s = *state_;
  if (s.skipped > 0)
    return fmt::format("is damaged at {:.1f} s: {} bytes do not belong to an MPEG frame",
                       s.skipped_at, s.skipped);
  const double seconds = static_cast<double>(s.samples) / static_cast<double>(s.rate);
  if (!s.failure.empty())
    return fmt::format("is damaged at {:.1f} s: {}", seconds, printable(s.failure));
  if (s.samples + kLongestFrame < s.declared)
    return fmt::format("ends at {:.1f} s, but its header declares {:.1f} s", seconds,
                       static_cast<double>(s.declared) / static_cast<double>(s.rate));
  return {};
}

}  // namespace veery
