// sequences.h: the sequences of running answers, which share the pages of cached prefixes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sequence_file.h"
#include "engine/session.h"
#include "schedule/caches/page_cache.h"
#include "schedule/caches/prefix_store.h"

namespace veery {

/// Every open sequence with the tokens that it holds. A new sequence shares the pages of the
/// longest common prefix in the page cache or in another sequence. Not thread-safe. The session
/// must outlive it and have no other user.
class Sequences {
 public:
  /// `keeps`: pages of answers that are over stay cached until their memory is needed. `store`: the
  /// prefix cache on disk, must outlive it; nullptr: none. `hash`: for tests.
  Sequences(Session& session, bool keeps, PrefixStore* store = nullptr,
            PageCache::HashTokens hash = PageCache::hash_tokens);

  /// Returns how many tokens of `ids` are cached for a new sequence of `positions` positions; never
  /// all of them, because the logits after the last token are needed. `adapter`:
  /// PrefixKey::adapter, also in the following calls.
  int32_t match(std::span<const int32_t> ids, int32_t positions, int64_t adapter = 0) const;
  /// Opens a sequence with the first match() tokens. Throws kLimit if all sequences are open.
  int32_t take(std::span<const int32_t> ids, int32_t positions, int64_t adapter = 0);
  /// Loads a prefix of `ids` from disk into the cache, if it is clearly longer than match(). The
  /// files are of the model without adapters.
  void restore(std::span<const int32_t> ids, int32_t positions);
  /// Opens an empty sequence. Throws as take() does.
  int32_t take_empty(int32_t positions, int64_t adapter = 0);
  /// Records that tokens were run at the end of the sequence.
  void append(int32_t sequence, std::span<const int32_t> ids);
  /// Closes the sequence of an answer that is over and caches its content; `files`: also saves it
  /// to disk.
  void keep(int32_t sequence, bool files);
  /// Closes a sequence. Its full pages stay cached.
  void drop(int32_t sequence);
  /// Evicts the least recently used of the cached pages or states, whichever is lacking. Returns
  /// false if there is nothing to evict.
  bool make_room(Pages::Lack lack);

  /// Writes `ids` to a file with the cached state of the longest prefix (engine/sequence_file.h);
  /// returns the length of that prefix. Throws as write_sequence() does.
  int32_t save(std::span<const int32_t> ids, std::string_view note, const std::string& path);
  /// Loads such a file as a cached prefix. Throws as SequenceFile does.
  SavedSequence load(const std::string& path);

  int32_t kept() const { return cache_.unused(); }  ///< cached pages that no sequence uses

 private:
  struct Held {
    bool open = false;
    std::vector<int32_t> ids;  ///< tokens of the sequence
    PageCache::Path path;      ///< its full pages in the cache
  };
  struct Match {
    int32_t sequence = -1;  ///< an open one to share with; -1: the page cache
    int32_t tokens = 0;
    PageCache::Match cached;
  };
  Match find(const PrefixKey& key, std::span<const int32_t> ids) const;
  Match find(std::span<const int32_t> ids, int32_t positions, int64_t adapter) const;
  int32_t open(const Match& match, const PrefixKey& key);
  void close(int32_t sequence);
  void free_pages(int32_t positions);
  void adopt(int32_t sequence, std::span<const int32_t> ids);
  void add_pages(int32_t sequence);
  void cache(int32_t sequence);
  Held& at(int32_t sequence) { return held_[static_cast<size_t>(sequence)]; }

  Session& session_;
  bool keeps_;
  PrefixStore* store_;
  PageCache cache_;
  std::vector<Held> held_;
};

}  // namespace veery
