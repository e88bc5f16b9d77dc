// prefix_fuzz.cc: any bytes must be a file of the prefix cache, or throw veery::Error. A matching
// file must be used or rejected without leaving a sequence open. Hash and keys are corrected first,
// so that the code after their checks is reached.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "schedule/caches/prefix_store.h"

namespace {

using namespace veery;
namespace fs = std::filesystem;

constexpr int32_t kTokens = 40;

/// A single sequence, so that one left open is noticed.
struct Cache {
  fs::path folder = fs::temp_directory_path() / ("veery-prefix-fuzz-" + std::to_string(getpid()));
  Model model{VEERY_SOURCE_DIR "/tests/fixtures/tiny/lfm2", {.threads = 1}};
  Session session{model, {.sequences = 1, .snapshots = 2}};
  PrefixStore store{session, {folder.string(), 1 << 26}};
  std::vector<int32_t> ids = std::vector<int32_t>(kTokens + 1);
  std::vector<std::byte> valid;  ///< the file for all `ids` except the last

  Cache() {
    std::iota(ids.begin(), ids.end(), 0);
    const int32_t sequence = session.open();
    const RunPart part{sequence, std::span(ids).first(kTokens), 0};
    session.run({&part, 1});
    store.save(sequence, ids);
    store.flush();
    session.close(sequence);
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      valid.resize(entry.file_size());
      in.read(reinterpret_cast<char*>(valid.data()), std::ssize(valid));
      fs::remove(entry.path());
    }
    if (valid.empty()) std::abort();
  }
  ~Cache() { fs::remove_all(folder); }
};

void make_right(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(PrefixHeader) + sizeof(uint64_t)) return;
  const uint64_t size = bytes.size();
  std::memcpy(bytes.data() + offsetof(PrefixHeader, bytes), &size, 8);
  Hash hash;
  hash.add(std::span(bytes).first(bytes.size() - 8));
  const uint64_t value = hash.value();
  std::memcpy(bytes.data() + bytes.size() - 8, &value, 8);
}

void parse(std::span<const std::byte> bytes, uint64_t model) {
  try {
    const PrefixPart part = parse_prefix(bytes, model);
    if (prefix_file_bytes(part.ids.size(), part.pages.size()) != bytes.size()) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) std::abort();
  }
}

// Returns the valid file with changes: alternating positions and bytes, then the number of bytes to
// cut off.
std::vector<std::byte> changed(const std::vector<std::byte>& valid, const uint8_t* data,
                               size_t size) {
  std::vector<std::byte> bytes = valid;
  for (size_t i = 0; i + 3 <= size; i += 3)
    bytes[(data[i] * 256U + data[i + 1]) % bytes.size()] ^= std::byte(data[i + 2]);
  if (size % 3 == 1) bytes.resize(bytes.size() - std::min<size_t>(data[size - 1], bytes.size()));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Cache cache;
  static const uint64_t model = prefix_model_key(cache.session);
  static int count = 0;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  parse(bytes, model);
  if (size >= sizeof(PrefixHeader))
    std::memcpy(bytes.data() + offsetof(PrefixHeader, model), &model, 8);
  make_right(bytes);
  parse(bytes, model);

  bytes = changed(cache.valid, data, size);
  make_right(bytes);
  const fs::path file = cache.folder / fmt::format("{:016x}-s{:016x}.prefix", model, ++count);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const PrefixStore::Match match = cache.store.match(cache.ids, false);
  if (match.tokens > kTokens) std::abort();
  const int32_t sequence = match.tokens > 0 ? cache.store.load(match, cache.ids, false) : -1;
  if (sequence >= 0) cache.session.close(sequence);
  if (!cache.session.fits_saved(1)) std::abort();
  fs::remove(file);
  return 0;
}
