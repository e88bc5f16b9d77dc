// sequence_file.h: session files: the tokens of a sequence with its KV cache and recurrent states.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/untrusted_file.h"
#include "engine/session.h"

namespace veery {

/// The header of a session file; numbers are little-endian. After it follow, each padded to a
/// multiple of 8 bytes: `tokens` ids (i32), the positions of `snapshots` snapshots (i32), `note`
/// bytes of text, the pages of the sequence (Pages::places()), the pages of each snapshot
/// (Pages::snapshot_places()), and a hash of everything before it (u64).
struct SequenceFileHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t flags;  ///< SequenceFlags
  uint64_t model;  ///< model_fingerprint()
  uint64_t bytes;  ///< of the whole file
  char keys[8];    ///< name of the cache type of keys, padded with zeros
  char values[8];  ///< name of the cache type of values, padded with zeros
  uint32_t tokens;
  uint32_t positions;  ///< number of tokens, from the first on, that the caches hold
  uint32_t snapshots;
  uint32_t note;  ///< bytes
};
static_assert(sizeof(SequenceFileHeader) == 64);
inline constexpr std::array<char, 8> kSequenceMagic = {'v', 'e', 'e', 'r', 'y', 's', 'e', 'q'};
inline constexpr uint32_t kSequenceVersion = 1;
enum SequenceFlags : uint32_t { kSequenceExtended = 1, kSequenceEncoded = 2, kSequenceExact = 4 };
inline constexpr FileKind kSequenceNote{"what is noted beside a sequence", 16 * kMB};

/// A hash of everything that the contents of caches depend on: configuration; names, types, shapes
/// and some bytes of the weights; layout of the caches. It is the same for a file on every machine.
uint64_t model_fingerprint(Session& session);

struct SavedSequence {
  std::vector<int32_t> ids;
  int32_t positions = 0;  ///< number of ids, from the first on, that the caches hold
  std::string note;       ///< any text of the caller, UTF-8
};

/// Writes `saved`, the caches of `sequence` at `saved.positions`, and its earlier snapshots. The
/// sequence must be able to rewind to that position. Throws as PendingFile does, and kLimit if the
/// note is too long.
void write_sequence(Session& session, int32_t sequence, const SavedSequence& saved,
                    const std::string& path);

/// An open session file. Everything but the content of its pages is read and checked.
class SequenceFile {
 public:
  /// Throws kNotFound, kIo; kFormat if it is not a session file, is truncated or inconsistent;
  /// kUnsupported for an unknown version; kInput if it was written with another model or other
  /// cache types; kLimit if it has more tokens than the context of `session`.
  SequenceFile(Session& session, const std::string& path);
  const SavedSequence& saved() const { return saved_; }

  /// Opens a sequence of the session that continues the saved one bit for bit, and returns its
  /// index; -1 if the saved one has no positions. Throws kLimit if there is not enough memory,
  /// kFormat if the file is damaged; no sequence stays open then. Must be called only once.
  int32_t load();

 private:
  void check(const SequenceFileHeader& header) const;
  void read(std::span<std::byte> bytes);
  void read_bytes(std::span<std::byte> bytes);
  void read_lists();
  void read_pages(std::span<const Pages::Place> places);
  void read_snapshots(int32_t sequence);
  void check_hash();

  Session& session_;
  std::string path_, shown_;
  Descriptor file_;
  SequenceFileHeader header_{};
  SavedSequence saved_;
  std::vector<int32_t> snapshots_;
  uint64_t position_ = 0;
  Hash hash_;
};

}  // namespace veery
