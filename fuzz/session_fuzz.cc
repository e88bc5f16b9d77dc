// session_fuzz.cc: any bytes must be a saved session, or throw veery::Error, without leaving a
// sequence open. Fingerprint, sizes and hash are corrected first, so that the code after their
// checks is reached.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/sequence_file.h"

namespace {

using namespace veery;

// A single sequence, so that one left open is noticed by the next file.
Session& runner() {
  static Model model(VEERY_SOURCE_DIR "/tests/fixtures/tiny/lfm2", {.threads = 1});
  static Session made(model, {.sequences = 1, .snapshots = 2});
  return made;
}

// Computes the hash over the parts of a file as SequenceFile does.
uint64_t hash_in(const std::string& message) {
  constexpr std::string_view kBefore = "its hash is ";
  return std::strtoull(message.c_str() + message.rfind(kBefore) + kBefore.size(), nullptr, 16);
}

void load(const std::string& path) {
  SequenceFile file(runner(), path);
  const int32_t sequence = file.load();
  if (sequence >= 0) runner().close(sequence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size >= sizeof(SequenceFileHeader)) {
    static const uint64_t fingerprint = model_fingerprint(runner());
    const uint64_t whole = size;
    std::memcpy(bytes.data() + offsetof(SequenceFileHeader, model), &fingerprint, 8);
    std::memcpy(bytes.data() + offsetof(SequenceFileHeader, bytes), &whole, 8);
  }
  const int memory = memfd_create("session", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  for (int turn = 0; turn < 2; ++turn) {
    if (pwrite(memory, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      std::abort();
    try {
      load(path);
      break;
    } catch (const Error& error) {
      const std::string message = error.what();
      if (!runner().fits_saved(1)) std::abort();
      if (error.kind() == ErrorKind::kBug) std::abort();
      if (message.find("is damaged") == std::string::npos) break;
      const uint64_t hash = hash_in(message);
      std::memcpy(bytes.data() + bytes.size() - 8, &hash, 8);
      if (turn == 1) std::abort();
    }
  }
  close(memory);
  return 0;
}
