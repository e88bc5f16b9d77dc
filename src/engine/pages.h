// pages.h: which pages of the caches belong to which sequence; sequences may share them.
#pragma once
#include <span>
#include <vector>

#include "plan/states.h"

namespace veery {

/// The page tables of several sequences over one store. A page is counted once for each sequence
/// that holds it; one that others hold as well is copied before it is written (copy on write). Not
/// thread-safe. The store must outlive it.
class Pages {
 public:
  explicit Pages(StateStore& states);

  /// Makes the positions [begin, end) of a sequence writable. Throws kLimit, before anything is
  /// changed, if there are not enough free pages. Does not allocate.
  void prepare(int32_t sequence, int32_t begin, int32_t end);

  /// Whether all that a token at `position` of the sequence will see is still there, where
  /// `written` tokens have been: a sliding window may have dropped some of it.
  bool keeps(int32_t written, int32_t position) const;

  /// Lets the empty sequence `to` hold the first `positions` of `from`, of which
  /// keeps(written, positions) must be true.
  void share(int32_t from, int32_t written, int32_t to, int32_t positions);

  /// Gives back the pages of growing caches after the first `positions`; of all caches if 0.
  void trim(int32_t sequence, int32_t positions);

  /// [group][sequence], as Slots::tables wants them; stays in place.
  const PageTable* tables() const { return tables_.data(); }
  /// Pages that some sequence holds, of the cache that grows the most.
  int32_t used() const;

 private:
  struct Group {
    StateStore::Group info;
    std::vector<int32_t> held;  ///< [sequence][ring]: a page or -1
    std::vector<int32_t> uses;  ///< [page]
    std::vector<int32_t> free;  ///< the last is taken next
  };

  std::span<int32_t> held(Group& group, int32_t sequence);
  static void drop(Group& group, int32_t& page);
  void prepare_page(size_t group, int32_t& page, bool keep);
  static int32_t wanted(const Group& group, std::span<const int32_t> held, int32_t first,
                        int32_t last);

  StateStore& states_;
  std::vector<Group> groups_;
  std::vector<PageTable> tables_;
};

}  // namespace veery
