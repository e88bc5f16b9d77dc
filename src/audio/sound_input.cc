#include "audio/sound_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace veery {

SoundInput::SoundInput(const std::string& path) : name_(path), descriptor_(open_regular(path)) {
  struct stat status {};
  if (fstat(descriptor_->get(), &status) == 0) size_ = status.st_size;
}

SoundInput::SoundInput(std::string bytes, std::string name)
    : name_(std::move(name)),
      bytes_(std::move(bytes)),
      size_(static_cast<int64_t>(bytes_.size())) {}

int64_t SoundInput::read_at(int64_t position, void* to, int64_t count) const {
  const int64_t there = std::clamp<int64_t>(count, 0, std::max<int64_t>(size_ - position, 0));
  if (there == 0) return 0;
  if (!descriptor_) {
    std::memcpy(to, bytes_.data() + position, static_cast<size_t>(there));
    return there;
  }
  int64_t done = 0;
  while (done < there) {
    const ssize_t got = pread(descriptor_->get(), static_cast<char*>(to) + done,
                              static_cast<size_t>(there - done), position + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += got;
  }
  return done;
}

int64_t SoundInput::read(void* to, int64_t count) {
  const int64_t done = read_at(at_, to, count);
  at_ += done;
  return done;
}

int64_t SoundInput::seek(int64_t offset, int whence) {
  const int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? at_ : size_;
  if (offset < -from || offset > size_ - from) return -1;
  return at_ = from + offset;
}

}  // namespace veery
