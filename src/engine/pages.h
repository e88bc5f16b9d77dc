// pages.h: which pages and blocks belong to which sequence; sequences and snapshots may share them.
#pragma once
#include <span>
#include <vector>

#include "plan/states.h"

namespace veery {

/// The page tables of several sequences over one store. A page is counted once for each sequence
/// and snapshot that holds it; one that others hold as well is copied before it is written (copy on
/// write). Blocks of recurrent layers are pages of a group of their own.
///
/// A growing cache can be cut anywhere. What a sliding window has left behind and what a recurrent
/// layer has summed up cannot be taken back, so a snapshot holds both as they were at a position.
/// Not thread-safe. The store must outlive it.
class Pages {
 public:
  explicit Pages(StateStore& states);

  struct Range {
    int32_t sequence = 0, begin = 0, end = 0;
  };
  /// Whether there are free pages for prepare() of all of these.
  bool fit(std::span<const Range> ranges);

  /// Makes the positions [begin, end) of a sequence writable. Throws kLimit, before anything is
  /// changed, if there are not enough free pages. Does not allocate.
  void prepare(int32_t sequence, int32_t begin, int32_t end);

  /// Makes all that an encoder writes for a sequence writable. Throws as above. Cuts leave it as it
  /// is, sequences that share it do so until it is written anew.
  void prepare_source(int32_t sequence);

  /// Keeps a snapshot of the sequence, which is at `position`. Where there is no memory for another
  /// one, that goes which is nearest to its neighbours. Does nothing where a sequence can be cut
  /// anywhere. Does not allocate.
  void save(int32_t sequence, int32_t position);

  /// The largest position <= `position`, which is within the sequence, to which it can be cut.
  int32_t nearest(int32_t sequence, int32_t position) const;

  /// Whether, after a run over [begin, end), the sequence can be cut to any position behind begin.
  bool can_go_back(int32_t sequence, int32_t begin, int32_t end) const;

  /// Cuts the sequence to `positions`, for which nearest() is itself; gives pages back.
  void cut(int32_t sequence, int32_t positions);

  /// Lets the empty sequence `to` hold the first `positions` of `from`, for which nearest() is
  /// itself.
  void share(int32_t from, int32_t to, int32_t positions);

  /// Gives back all pages and snapshots of a sequence; `keep_source`: but not what an encoder
  /// wrote.
  void clear(int32_t sequence, bool keep_source = false);

  /// A page or a block, and how many of its positions hold something.
  struct Place {
    int group = 0;
    int32_t page = 0;
    int64_t positions = 0;
  };
  /// Where that is what a sequence holds at `position`, for which nearest() is itself. What an
  /// encoder wrote stands last.
  std::vector<Place> places(int32_t sequence, int32_t position);
  /// Where that is what only a snapshot holds; pages are -1 where there is no such snapshot.
  std::vector<Place> snapshot_places(int32_t sequence, int32_t position) const;
  /// Bytes of what these places hold, whatever sequence has them; `source`: with what an encoder
  /// wrote.
  uint64_t bytes_of_places(int32_t position, bool source) const;
  uint64_t bytes_of_snapshot(int32_t position) const;
  int32_t unused_snapshots() const;
  /// Positions of the snapshots of a sequence, rising.
  std::vector<int32_t> snapshots(int32_t sequence) const;
  /// Lets the empty sequence hold pages for so many positions, in the order of places(), whose
  /// content is still to be written. Throws kLimit as prepare() does.
  std::vector<Place> make(int32_t sequence, int32_t position, bool source);
  /// The same for a snapshot of it, in the order of snapshot_places(); one of unused_snapshots().
  void make_snapshot(int32_t sequence, int32_t position);

  /// [group][sequence], as RunShape::tables wants them; stays in place.
  const PageTable* tables() const { return tables_.data(); }
  /// Pages that some sequence holds, of the cache that grows the most.
  int32_t used() const;
  /// The share of its pages that some sequence holds, 0 to 1, of the cache that is fullest.
  double use() const;

 private:
  struct Group {
    StateStore::Group info;
    std::vector<int32_t> held;  ///< [sequence][ring]: a page or -1
    std::vector<int32_t> uses;  ///< [page]
    std::vector<int32_t> free;  ///< the last is taken next
    /// [sequence] the first entry of its table that was not written over since
    std::vector<int32_t> first;
  };
  /// Entries of page tables, from `first` on, at most `count` of them.
  struct Entries {
    int32_t first = 0, count = 0;
  };
  struct Snapshot {
    int32_t sequence = -1;  ///< -1: unused
    int32_t position = 0;
    std::vector<int32_t> pages;  ///< [group][Group::info.saved]: a page or -1
  };

  std::span<int32_t> held(Group& group, int32_t sequence);
  std::span<int32_t> saved(Snapshot& snapshot, size_t group);
  int32_t saved_at(const Snapshot& snapshot, size_t group, int32_t entry) const;
  static Entries written_by(const StateStore::Group& info, int32_t begin, int32_t end);
  static Entries needed_at(const StateStore::Group& info, int32_t position);
  static int32_t wanted(const Group& group, std::span<const int32_t> held, Entries entries);
  static void drop(Group& group, int32_t& page);
  static void hold(Group& group, int32_t& entry, int32_t page);
  void prepare_page(size_t group, int32_t& page, bool keep);

  static int64_t positions_of(const StateStore::Group& info, int32_t entry, int32_t position);
  static int32_t fresh_page(Group& group);
  bool holds(int32_t sequence, int32_t position) const;
  const Snapshot* find(int32_t sequence, int32_t position) const;
  Snapshot& unused_snapshot();
  int32_t gap(const Snapshot& snapshot) const;
  void release(Snapshot& snapshot);

  StateStore& states_;
  std::vector<Group> groups_;
  std::vector<PageTable> tables_;
  std::vector<int32_t> saved_offsets_;  ///< [group] in Snapshot::pages
  std::vector<Snapshot> snapshots_;
};

}  // namespace veery
