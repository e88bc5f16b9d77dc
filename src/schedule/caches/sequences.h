// sequences.h: the prefix cache in memory: the sequences of running answers, and cached prefixes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/runner.h"
#include "engine/sequence_file.h"
#include "schedule/caches/prefix_store.h"

namespace veery {

/// Every sequence with the tokens that it holds. A new sequence shares the pages of the sequence
/// that has the longest common prefix. Cached prefixes are evicted when their slot or their memory
/// is needed, the least recently used first. Not thread-safe. The runner must outlive it and have
/// no other user.
class Sequences {
 public:
  /// `store`: the prefix cache on disk, must outlive it; nullptr: none.
  Sequences(Runner& runner, int32_t count, PrefixStore* store = nullptr);

  /// Returns how many tokens of `ids` are cached for a new sequence of `positions` positions; never
  /// all of them, because the logits after the last token are needed.
  int32_t match(std::span<const int32_t> ids, int32_t positions) const;
  /// Opens a sequence with the first match() tokens. Throws kLimit if answers use all sequences.
  int32_t take(std::span<const int32_t> ids, int32_t positions);
  /// Loads a prefix of `ids` from disk into the cache, if it is clearly longer than match().
  void restore(std::span<const int32_t> ids, int32_t positions);
  /// Opens an empty sequence. Throws as take() does.
  int32_t take_empty(int32_t positions);
  /// Records that tokens were run at the end of the sequence.
  void append(int32_t sequence, std::span<const int32_t> ids);
  /// Makes the sequence of an answer that is over a cached prefix; `files`: also saves it to disk.
  void keep(int32_t sequence, bool files);
  /// Closes a sequence; its content is lost.
  void drop(int32_t sequence);
  /// Evicts the least recently used cached prefix. Returns false if there is none.
  bool drop_oldest();

  /// Writes `ids` to a file with the cached state of the longest prefix (engine/sequence_file.h);
  /// returns the length of that prefix. Throws as write_sequence() does.
  int32_t save(std::span<const int32_t> ids, std::string_view note, const std::string& path);
  /// Loads such a file as a cached prefix. Throws as SequenceFile does.
  SavedSequence load(const std::string& path);

  int32_t kept() const;  ///< number of cached prefixes

 private:
  enum class Use : uint8_t { kFree, kAnswer, kKept };
  struct Held {
    Use use = Use::kFree;
    uint64_t used = 0;         ///< clock_ of its last use
    std::vector<int32_t> ids;  ///< tokens of the sequence
  };
  struct Match {
    int32_t sequence = -1;
    int32_t tokens = 0;
  };
  Match find(std::span<const int32_t> ids, int32_t positions) const;
  int32_t oldest(int32_t but) const;
  bool has_free() const;
  void make_room(int32_t positions);
  void adopt(int32_t sequence, std::vector<int32_t> ids);
  void keep_in_memory(int32_t sequence);
  Held& at(int32_t sequence) { return held_[static_cast<size_t>(sequence)]; }

  Runner& runner_;
  PrefixStore* store_;
  std::vector<Held> held_;
  uint64_t clock_ = 0;
};

}  // namespace veery
