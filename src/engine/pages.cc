#include "engine/pages.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include "base/error.h"

namespace veery {
namespace {

int32_t page_of_position(int32_t position) { return position / kPagePositions; }

}  // namespace

Pages::Pages(StateStore& states) : states_(states) {
  const int32_t sequences = states.options().sequences;
  int32_t saved = 0;
  for (const StateStore::Group& info : states.groups()) {
    Group group{.info = info};
    group.held.assign(static_cast<size_t>(info.ring) * static_cast<size_t>(sequences), -1);
    group.uses.assign(static_cast<size_t>(info.pages), 0);
    group.free.resize(static_cast<size_t>(info.pages));
    std::iota(group.free.rbegin(), group.free.rend(), 0);
    group.first.assign(static_cast<size_t>(sequences), 0);
    groups_.push_back(std::move(group));
    saved_offsets_.push_back(saved);
    saved += info.saved;
  }
  for (const Group& group : groups_)
    for (int32_t s = 0; s < sequences; ++s)
      tables_.push_back({group.held.data() + s * group.info.ring, group.info.ring});
  snapshots_.resize(static_cast<size_t>(states.snapshots()));
  for (Snapshot& snapshot : snapshots_) snapshot.pages.assign(static_cast<size_t>(saved), -1);
}

std::span<int32_t> Pages::held(Group& group, int32_t sequence) {
  const auto ring = static_cast<size_t>(group.info.ring);
  return std::span(group.held).subspan(static_cast<size_t>(sequence) * ring, ring);
}

std::span<int32_t> Pages::saved(Snapshot& snapshot, size_t group) {
  return std::span(snapshot.pages)
      .subspan(static_cast<size_t>(saved_offsets_[group]),
               static_cast<size_t>(groups_[group].info.saved));
}

int32_t Pages::saved_at(const Snapshot& snapshot, size_t group, int32_t entry) const {
  return snapshot.pages[static_cast<size_t>(saved_offsets_[group] + entry)];
}

void Pages::drop(Group& group, int32_t& page) {
  if (page < 0) return;
  if (--group.uses[static_cast<size_t>(page)] == 0) group.free.push_back(page);
  page = -1;
}

void Pages::hold(Group& group, int32_t& entry, int32_t page) {
  VEERY_CHECK(entry < 0 && page >= 0);
  entry = page;
  ++group.uses[static_cast<size_t>(page)];
}

// The entries that a run over the positions [begin, end) writes.
Pages::Entries Pages::written_by(const StateStore::Group& info, int32_t begin, int32_t end) {
  if (info.source > 0) return {};
  if (info.blocks) {
    const int32_t first = std::max(begin + 1, end - info.ring + 1);
    return {first, end - first + 1};
  }
  const int32_t first = page_of_position(begin);
  return {first, page_of_position(end - 1) - first + 1};
}

// The entries of a sequence of `position` positions that the next position reads.
Pages::Entries Pages::needed_at(const StateStore::Group& info, int32_t position) {
  if (position == 0 || info.source > 0) return {};
  if (info.blocks) return {position, 1};
  const int32_t first =
      info.window == 0 ? 0 : page_of_position(std::max(0, position - info.window + 1));
  return {first, page_of_position(position - 1) - first + 1};
}

// Number of free pages that are needed to make the entries writable.
int32_t Pages::wanted(const Group& group, std::span<const int32_t> held, Entries entries) {
  int32_t count = 0;
  for (int32_t i = 0; i < std::min(entries.count, group.info.ring); ++i) {
    const int32_t page = held[static_cast<size_t>((entries.first + i) % group.info.ring)];
    count += page < 0 || group.uses[static_cast<size_t>(page)] > 1 ? 1 : 0;
  }
  return count;
}

// Replaces an absent or shared page by one of its own. `keep`: the content is copied.
void Pages::prepare_page(size_t index, int32_t& page, bool keep) {
  Group& group = groups_[index];
  if (page >= 0 && group.uses[static_cast<size_t>(page)] == 1) return;
  const int32_t fresh = fresh_page(group);
  if (page >= 0) {
    if (keep) states_.copy_page(static_cast<int>(index), page, fresh);
    drop(group, page);
  }
  page = fresh;
}

Pages::Lack Pages::lack(std::span<const Range> ranges) {
  for (Group& group : groups_) {
    size_t want = 0;
    for (const Range& r : ranges)
      if (r.begin < r.end)
        want += static_cast<size_t>(
            wanted(group, held(group, r.sequence), written_by(group.info, r.begin, r.end)));
    if (want > group.free.size()) return group.info.grows() ? Lack::kPages : Lack::kStates;
  }
  return Lack::kNothing;
}

void Pages::prepare(int32_t sequence, int32_t begin, int32_t end) {
  if (begin >= end) return;
  for (Group& group : groups_) {
    const int32_t want = wanted(group, held(group, sequence), written_by(group.info, begin, end));
    if (static_cast<size_t>(want) > group.free.size())
      throw Error(ErrorKind::kLimit, "the caches have {} free pages of {} positions, {} are needed",
                  group.free.size(), kPagePositions, want);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto pages = held(groups_[i], sequence);
    const Entries entries = written_by(groups_[i].info, begin, end);
    const int32_t end_entry = entries.first + entries.count;
    int32_t& oldest = groups_[i].first[static_cast<size_t>(sequence)];
    oldest = std::max(oldest, end_entry - groups_[i].info.ring);
    for (int32_t e = entries.first; e < end_entry; ++e) {
      const bool blocks = groups_[i].info.blocks;
      const auto entry = static_cast<size_t>(e) % pages.size();
      const bool keep = blocks ? entry == static_cast<size_t>(begin) % pages.size()
                               : e == entries.first && begin % kPagePositions != 0;
      prepare_page(i, pages[entry], keep);
    }
  }
}

void Pages::prepare_source(int32_t sequence) {
  for (Group& group : groups_) {
    if (group.info.source == 0) continue;
    const int32_t want = wanted(group, held(group, sequence), {0, group.info.ring});
    if (static_cast<size_t>(want) > group.free.size())
      throw Error(ErrorKind::kLimit,
                  "{} free pages are left for the output of the encoder, {} are needed",
                  group.free.size(), want);
  }
  for (size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].info.source > 0)
      for (int32_t& page : held(groups_[i], sequence)) prepare_page(i, page, false);
}

// Whether the sequence's own pages and blocks, without snapshots, still have its state at
// `position`.
bool Pages::holds(int32_t sequence, int32_t position) const {
  return position == 0 || std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) {
           return needed_at(group.info, position).first >=
                  group.first[static_cast<size_t>(sequence)];
         });
}

const Pages::Snapshot* Pages::find(int32_t sequence, int32_t position) const {
  const auto found = std::ranges::find_if(snapshots_, [&](const Snapshot& s) {
    return s.sequence == sequence && s.position == position;
  });
  return found == snapshots_.end() ? nullptr : &*found;
}

// Positions between the two neighbours of a snapshot; the last one of a sequence has a huge gap, so
// that it is never the closest to its neighbours.
int32_t Pages::gap(const Snapshot& snapshot) const {
  int32_t before = 0;
  int32_t after = INT_MAX;
  for (const Snapshot& other : snapshots_) {
    if (other.sequence != snapshot.sequence) continue;
    if (other.position < snapshot.position) before = std::max(before, other.position);
    if (other.position > snapshot.position) after = std::min(after, other.position);
  }
  return after - before;
}

Pages::Snapshot& Pages::unused_snapshot() {
  Snapshot* best = nullptr;
  int32_t least = INT_MAX;
  for (Snapshot& snapshot : snapshots_) {
    if (snapshot.sequence < 0) return snapshot;
    const int32_t own = gap(snapshot);
    if (best == nullptr || own < least) best = &snapshot, least = own;
  }
  release(*best);
  return *best;
}

void Pages::release(Snapshot& snapshot) {
  for (size_t i = 0; i < groups_.size(); ++i)
    for (int32_t& page : saved(snapshot, i)) drop(groups_[i], page);
  snapshot.sequence = -1;
}

void Pages::save(int32_t sequence, int32_t position) {
  if (snapshots_.empty() || position == 0 || find(sequence, position) != nullptr) return;
  Snapshot& snapshot = unused_snapshot();
  snapshot.sequence = sequence;
  snapshot.position = position;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].info.grows() || groups_[i].info.source > 0) continue;
    const auto pages = held(groups_[i], sequence);
    const Entries entries = needed_at(groups_[i].info, position);
    for (int32_t e = 0; e < entries.count; ++e)
      hold(groups_[i], saved(snapshot, i)[static_cast<size_t>(e)],
           pages[static_cast<size_t>(entries.first + e) % pages.size()]);
  }
}

bool Pages::can_go_back(int32_t sequence, int32_t begin, int32_t end) const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    const Entries written = written_by(group.info, begin, end);
    const int32_t first = std::max(group.first[static_cast<size_t>(sequence)],
                                   written.first + written.count - group.info.ring);
    return group.info.source > 0 || needed_at(group.info, begin + 1).first >= first;
  });
}

int32_t Pages::nearest(int32_t sequence, int32_t position) const {
  if (holds(sequence, position)) return position;
  int32_t best = 0;
  for (const Snapshot& snapshot : snapshots_)
    if (snapshot.sequence == sequence && snapshot.position <= position)
      best = std::max(best, snapshot.position);
  return best;
}

void Pages::share(int32_t from, int32_t to, int32_t positions) {
  VEERY_CHECK(nearest(from, positions) == positions);
  const bool live = holds(from, positions);
  const Snapshot* snapshot = live ? nullptr : find(from, positions);
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto source = held(group, from);
    const auto target = held(group, to);
    if (group.info.source > 0)
      for (size_t e = 0; e < source.size(); ++e)
        if (source[e] >= 0) hold(group, target[e], source[e]);
    const Entries entries = needed_at(group.info, positions);
    group.first[static_cast<size_t>(to)] = entries.first;
    for (int32_t e = 0; e < entries.count; ++e) {
      const auto entry = static_cast<size_t>(entries.first + e) % source.size();
      const bool own = live || group.info.grows();
      hold(group, target[entry], own ? source[entry] : saved_at(*snapshot, i, e));
    }
  }
}

void Pages::cut(int32_t sequence, int32_t positions) {
  if (positions == 0) return clear(sequence, true);
  VEERY_CHECK(nearest(sequence, positions) == positions);
  const Snapshot* snapshot = holds(sequence, positions) ? nullptr : find(sequence, positions);
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto pages = held(group, sequence);
    if (group.info.grows()) {
      const auto keep = static_cast<size_t>(page_of_position(positions - 1) + 1);
      for (size_t p = pages.size(); p > keep; --p) drop(group, pages[p - 1]);
    } else if (snapshot != nullptr && group.info.source == 0) {
      for (int32_t& page : pages) drop(group, page);
      const Entries entries = needed_at(group.info, positions);
      group.first[static_cast<size_t>(sequence)] = entries.first;
      for (int32_t e = 0; e < entries.count; ++e)
        hold(group, pages[static_cast<size_t>(entries.first + e) % pages.size()],
             saved_at(*snapshot, i, e));
    }
  }
  for (Snapshot& other : snapshots_)
    if (other.sequence == sequence && other.position > positions) release(other);
}

void Pages::clear(int32_t sequence, bool keep_source) {
  for (Snapshot& snapshot : snapshots_)
    if (snapshot.sequence == sequence) release(snapshot);
  for (Group& group : groups_) {
    if (keep_source && group.info.source > 0) continue;
    for (int32_t& page : held(group, sequence)) drop(group, page);
    group.first[static_cast<size_t>(sequence)] = 0;
  }
}

// The valid positions of a page in a sequence of `position` positions; blocks and the output of an
// encoder are always valid as a whole.
int64_t Pages::positions_of(const StateStore::Group& info, int32_t entry, int32_t position) {
  if (info.blocks || info.source > 0) return kPagePositions;
  return std::min<int64_t>(kPagePositions, position - int64_t{entry} * kPagePositions);
}

std::vector<Pages::Place> Pages::places(int32_t sequence, int32_t position) {
  VEERY_CHECK(nearest(sequence, position) == position);
  const Snapshot* snapshot = holds(sequence, position) ? nullptr : find(sequence, position);
  std::vector<Place> places;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto pages = held(groups_[i], sequence);
    const StateStore::Group& info = groups_[i].info;
    const Entries entries = needed_at(info, position);
    for (int32_t e = 0; e < entries.count; ++e) {
      const int32_t entry = entries.first + e;
      const int32_t page = snapshot == nullptr || info.grows()
                               ? pages[static_cast<size_t>(entry) % pages.size()]
                               : saved_at(*snapshot, i, e);
      places.push_back({static_cast<int>(i), page, positions_of(info, entry, position)});
    }
  }
  for (size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].info.source > 0)
      for (const int32_t page : held(groups_[i], sequence))
        if (page >= 0) places.push_back({static_cast<int>(i), page, kPagePositions});
  return places;
}

std::vector<Pages::Place> Pages::snapshot_places(int32_t sequence, int32_t position) const {
  const Snapshot* snapshot = find(sequence, position);
  std::vector<Place> places;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const StateStore::Group& info = groups_[i].info;
    if (info.grows()) continue;
    const Entries entries = needed_at(info, position);
    for (int32_t e = 0; e < entries.count; ++e)
      places.push_back({static_cast<int>(i), snapshot == nullptr ? -1 : saved_at(*snapshot, i, e),
                        positions_of(info, entries.first + e, position)});
  }
  return places;
}

uint64_t Pages::bytes_of_places(int32_t position, bool source) const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) {
    const int32_t count = group.info.source == 0 ? needed_at(group.info, position).count
                          : source               ? group.info.ring
                                                 : 0;
    bytes += static_cast<uint64_t>(count) * group.info.page_bytes;
  }
  return bytes;
}

uint64_t Pages::bytes_of_snapshot(int32_t position) const {
  uint64_t bytes = 0;
  for (const Group& group : groups_)
    if (!group.info.grows())
      bytes += static_cast<uint64_t>(needed_at(group.info, position).count) * group.info.page_bytes;
  return bytes;
}

int32_t Pages::unused_snapshots() const {
  return static_cast<int32_t>(
      std::ranges::count_if(snapshots_, [](const Snapshot& s) { return s.sequence < 0; }));
}

std::vector<int32_t> Pages::snapshots(int32_t sequence) const {
  std::vector<int32_t> positions;
  for (const Snapshot& snapshot : snapshots_)
    if (snapshot.sequence == sequence) positions.push_back(snapshot.position);
  std::ranges::sort(positions);
  return positions;
}

int32_t Pages::fresh_page(Group& group) {
  VEERY_CHECK(!group.free.empty());
  const int32_t page = group.free.back();
  group.free.pop_back();
  group.uses[static_cast<size_t>(page)] = 1;
  return page;
}

std::vector<Pages::Place> Pages::make(int32_t sequence, int32_t position, bool source) {
  for (const Group& group : groups_) {
    const int32_t want = group.info.source > 0 ? (source ? group.info.ring : 0)
                                               : needed_at(group.info, position).count;
    if (static_cast<size_t>(want) > group.free.size())
      throw Error(ErrorKind::kLimit, "the caches have {} free pages of {} positions, {} are needed",
                  group.free.size(), kPagePositions, want);
  }
  for (Group& group : groups_) {
    const auto pages = held(group, sequence);
    const bool encoded = group.info.source > 0 && source;
    const Entries entries = encoded ? Entries{0, group.info.ring} : needed_at(group.info, position);
    group.first[static_cast<size_t>(sequence)] = encoded ? 0 : entries.first;
    for (int32_t e = 0; e < entries.count; ++e) {
      int32_t& page = pages[static_cast<size_t>(entries.first + e) % pages.size()];
      VEERY_CHECK(page < 0);
      page = fresh_page(group);
    }
  }
  return places(sequence, position);
}

void Pages::make_snapshot(int32_t sequence, int32_t position) {
  const auto unused =
      std::ranges::find_if(snapshots_, [](const Snapshot& s) { return s.sequence < 0; });
  VEERY_CHECK(unused != snapshots_.end());
  unused->sequence = sequence;
  unused->position = position;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.info.grows() || group.info.source > 0) continue;
    const Entries entries = needed_at(group.info, position);
    for (int32_t e = 0; e < entries.count; ++e)
      saved(*unused, i)[static_cast<size_t>(e)] = fresh_page(group);
  }
}

double Pages::use() const {
  double most = 0;
  for (const Group& group : groups_)
    if (!group.info.blocks && group.info.source == 0 && !group.uses.empty())
      most = std::max(most, 1 - static_cast<double>(group.free.size()) /
                                    static_cast<double>(group.uses.size()));
  return most;
}

int32_t Pages::used() const {
  int32_t most = 0;
  for (const Group& group : groups_)
    if (!group.info.blocks && group.info.source == 0)
      most = std::max(most, static_cast<int32_t>(group.uses.size() - group.free.size()));
  return most;
}

}  // namespace veery
