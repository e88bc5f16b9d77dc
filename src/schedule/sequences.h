// sequences.h: the sequences of a runner with the tokens that they hold: those of answers in the
// making, and those kept for prompts that begin alike.
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

/// A new sequence begins as the longest common beginning that any other has, whose pages it shares.
/// What is kept goes when its place is wanted, the least recently used first. Not thread-safe. The
/// runner must outlive it and have no other user.
class Sequences {
 public:
  /// `store`: the prefix cache on disk, nullptr: there is none; it must outlive this.
  Sequences(Runner& runner, int32_t count, PrefixStore* store = nullptr);

  /// How many tokens of `ids` a new sequence of so many positions would begin with; never all, as
  /// the logits after the last one are wanted.
  int32_t match(std::span<const int32_t> ids, int32_t positions) const;
  /// A sequence that holds so many. Throws kLimit if all are in use by answers.
  int32_t take(std::span<const int32_t> ids, int32_t positions);
  /// Keeps what files hold of a beginning of these tokens, where that is clearly more than
  /// match().
  void restore(std::span<const int32_t> ids, int32_t positions);
  /// An empty one, whatever others hold.
  int32_t take_empty(int32_t positions);
  /// The tokens behind those that it holds were run.
  void append(int32_t sequence, std::span<const int32_t> ids);
  /// Its answer is over: it stays for later prompts, with `files` on disk too.
  void keep(int32_t sequence, bool files);
  /// Its answer goes back to the queue: what it held is computed again.
  void drop(int32_t sequence);
  /// Gives back the least recently used of those that are kept. False: there is none.
  bool drop_oldest();

  /// Writes these tokens to a file with what the caches hold of them (engine/sequence_file.h);
  /// returns of how many that is. Throws as write_sequence() does.
  int32_t save(std::span<const int32_t> ids, std::string_view note, const std::string& path);
  /// Keeps what such a file holds for prompts that begin alike. Throws as SequenceFile does.
  SavedSequence load(const std::string& path);

  int32_t kept() const;  ///< sequences without an answer

 private:
  enum class Use : uint8_t { kFree, kAnswer, kKept };
  struct Held {
    Use use = Use::kFree;
    uint64_t used = 0;  ///< when, in calls of take()
    std::vector<int32_t> ids;
  };
  struct Match {
    int32_t sequence = -1;
    int32_t tokens = 0;
  };
  Match find(std::span<const int32_t> ids, int32_t positions) const;
  int32_t oldest(int32_t but) const;
  bool has_free() const;
  void make_room(int32_t positions);
  void keep_in_memory(int32_t sequence);
  Held& at(int32_t sequence) { return held_[static_cast<size_t>(sequence)]; }

  Runner& runner_;
  PrefixStore* store_;
  std::vector<Held> held_;
  uint64_t clock_ = 0;
};

}  // namespace veery
