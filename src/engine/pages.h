// pages.h: page tables: the pages and blocks of each sequence, shared by sequences and snapshots.
#pragma once
#include <span>
#include <vector>

#include "plan/states.h"

namespace veery {

/// The page tables of several sequences over one store. Pages count the sequences and snapshots
/// that hold them; a shared page is copied before it is written (copy on write). Blocks of
/// recurrent layers are pages of a group of their own.
///
/// A growing cache can be cut at any position. A sliding window overwrites old positions, and a
/// recurrent layer overwrites its state, so a snapshot keeps both as they were at one position.
/// Not thread-safe. The store must outlive it.
class Pages {
 public:
  explicit Pages(StateStore& states);

  struct Range {
    int32_t sequence = 0, begin = 0, end = 0;
  };
  /// Whether there are enough free pages to prepare() all of `ranges`.
  bool fit(std::span<const Range> ranges) { return lack(ranges) == Lack::kNothing; }
  /// The pages that are too few: those of growing caches, or of windows and recurrent states.
  enum class Lack : uint8_t { kNothing, kPages, kStates };
  Lack lack(std::span<const Range> ranges);

  /// Makes the positions [begin, end) of a sequence writable. Throws kLimit, before anything is
  /// changed, if there are not enough free pages. Does not allocate.
  void prepare(int32_t sequence, int32_t begin, int32_t end);

  /// Makes the pages for the output of an encoder writable. Throws as prepare() does. cut() does
  /// not change these pages. Sequences that share them do so until one of them is prepared again.
  void prepare_source(int32_t sequence);

  /// Takes a snapshot of the sequence, which is at `position`. If no slot is free, evicts the
  /// snapshot closest to its neighbours. Does nothing for models whose caches can be cut anywhere.
  /// Does not allocate.
  void save(int32_t sequence, int32_t position);

  /// The largest position <= `position` to which the sequence can be cut. `position` must be within
  /// the sequence.
  int32_t nearest(int32_t sequence, int32_t position) const;

  /// Whether, after a run over [begin, end), the sequence can be cut to every position > `begin`.
  bool can_go_back(int32_t sequence, int32_t begin, int32_t end) const;

  /// Cuts the sequence to `positions` and releases the pages after it. Requires
  /// nearest(sequence, positions) == positions.
  void cut(int32_t sequence, int32_t positions);

  /// Lets the empty sequence `to` share the first `positions` of `from`. Requires
  /// nearest(from, positions) == positions.
  void share(int32_t from, int32_t to, int32_t positions);

  /// Releases all pages and snapshots of a sequence; with `keep_source` except the output of an
  /// encoder.
  void clear(int32_t sequence, bool keep_source = false);

  /// A page or a block, and how many of its positions are valid.
  struct Place {
    int group = 0;
    int32_t page = 0;
    int64_t positions = 0;
  };
  /// The pages with the state of a sequence at `position`; those with the output of an encoder come
  /// last. Requires nearest(sequence, position) == position.
  std::vector<Place> places(int32_t sequence, int32_t position);
  /// The pages of the snapshot at `position`, without those of growing caches; the page numbers are
  /// -1 if there is no such snapshot.
  std::vector<Place> snapshot_places(int32_t sequence, int32_t position) const;
  /// Bytes of the pages that places() returns for any sequence at `position`; `source`: including
  /// the output of an encoder.
  uint64_t bytes_of_places(int32_t position, bool source) const;
  /// Bytes of the pages that snapshot_places() returns.
  uint64_t bytes_of_snapshot(int32_t position) const;
  int32_t unused_snapshots() const;
  /// Positions of the snapshots of a sequence, ascending.
  std::vector<int32_t> snapshots(int32_t sequence) const;
  /// Gives the empty sequence pages for `position` positions and returns them in the order of
  /// places(). The caller has to write their content. Throws kLimit as prepare() does.
  std::vector<Place> make(int32_t sequence, int32_t position, bool source);
  /// Gives the sequence a snapshot at `position` with pages in the order of snapshot_places(). The
  /// caller has to write their content. Requires unused_snapshots() > 0 and free pages: states in
  /// the prefix cache use the same ones.
  void make_snapshot(int32_t sequence, int32_t position);

  // Pages that a prefix cache holds apart from any sequence (held_pages.cc).

  /// The windows and recurrent states of a sequence at `position`, and as much of them before it as
  /// the sequence still had.
  struct State {
    struct Part {
      int32_t first = 0;  ///< entry of pages[0]
      std::vector<int32_t> pages;
    };
    int32_t position = 0;
    std::vector<Part> parts;  ///< [group]; without pages for groups that grow
  };
  /// Whether sequences need a State to continue: there are windows or recurrent states.
  bool needs_states() const;
  /// Holds the page of a growing cache with the positions from entry * kPagePositions on, and
  /// returns it; -1 if no cache grows.
  int32_t hold_page(int32_t sequence, int32_t entry);
  void release_page(int32_t page);
  /// Holds the state of a sequence at `position`. Requires nearest(sequence, position) == position.
  State hold_state(int32_t sequence, int32_t position);
  void release_state(State& state);
  /// Releases the pages that only positions before the last one need. Returns whether there were
  /// any.
  bool trim_state(State& state);
  /// Returns the largest position <= `position` at which a sequence can continue from the state;
  /// 0: none.
  int32_t usable(const State& state, int32_t position) const;
  /// Gives the empty sequence held pages for `position` positions. `state`: usable there; may be
  /// nullptr if needs_states() is false.
  void adopt(int32_t sequence, int32_t position, std::span<const int32_t> pages,
             const State* state);
  /// Gives the sequence a snapshot with the pages of a state. Requires unused_snapshots() > 0.
  void adopt_snapshot(int32_t sequence, const State& state);
  /// Whether there are free pages for the windows and recurrent states of one more sequence and of
  /// all unused snapshots.
  bool fit_states() const;

  /// [group][sequence], for RunShape::tables; the address does not change.
  const PageTable* tables() const { return tables_.data(); }
  /// Pages in use, in the page group that uses the most; recurrent states are not counted.
  int32_t used() const;
  /// The share of pages in use, 0 to 1, in the fullest page group; recurrent states are not
  /// counted.
  double use() const;

 private:
  struct Group {
    StateStore::Group info;
    std::vector<int32_t> held;  ///< [sequence][ring]: a page or -1
    std::vector<int32_t> uses;  ///< [page]
    std::vector<int32_t> free;  ///< the last is taken next
    /// [sequence] the first entry (not reduced modulo the ring) that is not overwritten yet
    std::vector<int32_t> first;
  };
  /// `count` entries of a page table from `first` on; their index in the ring is modulo its size.
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
  void hold_parts(int32_t sequence, const Snapshot* snapshot, State& state);

  StateStore& states_;
  std::vector<Group> groups_;
  std::vector<PageTable> tables_;
  std::vector<int32_t> saved_offsets_;  ///< [group] in Snapshot::pages
  std::vector<Snapshot> snapshots_;
};

}  // namespace veery
