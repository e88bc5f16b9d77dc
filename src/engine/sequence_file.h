// sequence_file.h: a sequence in a file: its tokens and what the caches of a runner hold of them.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/untrusted_file.h"
#include "engine/runner.h"

namespace veery {

/// How such a file begins; numbers are little-endian. Behind it, each up to a multiple of 8 bytes:
/// `tokens` ids and the positions of `snapshots`, i32; `note` bytes of text; the pages of the
/// sequence, those of each snapshot, in the order of Pages::places(); a hash of all before it.
struct SequenceFileHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t flags;  ///< SequenceFlags
  uint64_t model;  ///< model_fingerprint()
  uint64_t bytes;  ///< of the whole file
  char keys[8];    ///< their type by name, filled up with zeros
  char values[8];  ///< the same
  uint32_t tokens;
  uint32_t positions;  ///< of the tokens, the first so many are in the caches
  uint32_t snapshots;
  uint32_t note;  ///< bytes
};
static_assert(sizeof(SequenceFileHeader) == 64);
inline constexpr std::array<char, 8> kSequenceMagic = {'v', 'e', 'e', 'r', 'y', 's', 'e', 'q'};
inline constexpr uint32_t kSequenceVersion = 1;
enum SequenceFlags : uint32_t { kSequenceExtended = 1, kSequenceEncoded = 2, kSequenceExact = 4 };
inline constexpr FileKind kSequenceNote{"what is noted beside a sequence", 16 * kMB};

/// Of what the numbers in caches depend on: configuration, names, types and shapes of the weights,
/// some bytes of them, layout of the caches. Equal for the same file on every machine.
uint64_t model_fingerprint(Runner& runner);

struct SavedSequence {
  std::vector<int32_t> ids;
  int32_t positions = 0;  ///< of the first so many ids the caches hold something; 0: of none
  std::string note;       ///< of the caller, UTF-8
};

/// Writes them and what the caches hold of `sequence` at `saved.positions`, which it can be rewound
/// to, with its snapshots before that. Throws as PendingFile does; kLimit for a note that is too
/// long.
void write_sequence(Runner& runner, int32_t sequence, const SavedSequence& saved,
                    const std::string& path);

/// A file of a sequence, open and checked up to what its pages hold.
class SequenceFile {
 public:
  /// Throws kNotFound, kIo; kFormat for what is no such file, is cut off or says what cannot be;
  /// kUnsupported for a version that is not known; kInput for the file of another model or of
  /// caches of other types, kLimit if it has more tokens than the context of `runner`.
  SequenceFile(Runner& runner, const std::string& path);
  const SavedSequence& saved() const { return saved_; }

  /// A new sequence of the runner that goes on as the saved one would have, to the bit; -1 where it
  /// has no positions. Throws kLimit where there is no memory, kFormat where the file is damaged;
  /// nothing is left open then. To be called once.
  int32_t load();

 private:
  void check(const SequenceFileHeader& header) const;
  void read(std::span<std::byte> bytes);
  void read_bytes(std::span<std::byte> bytes);
  void read_lists();
  void read_pages(std::span<const Pages::Place> places);
  void read_snapshots(int32_t sequence);
  void check_hash();

  Runner& runner_;
  std::string path_, shown_;
  Descriptor file_;
  SequenceFileHeader header_{};
  SavedSequence saved_;
  std::vector<int32_t> snapshots_;
  uint64_t position_ = 0;
  Hash hash_;
};

}  // namespace veery
