#include "engine/pages.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace veery {
namespace {

int32_t page_of_position(int32_t position) { return position / kPagePositions; }

int32_t first_needed(int32_t position, int32_t window) {
  return window == 0 ? 0 : page_of_position(std::max(0, position - window + 1));
}

}  // namespace

Pages::Pages(StateStore& states) : states_(states) {
  const int32_t sequences = states.options().sequences;
  for (const StateStore::Group& info : states.groups()) {
    Group group{.info = info};
    group.held.assign(static_cast<size_t>(info.ring) * static_cast<size_t>(sequences), -1);
    group.uses.assign(static_cast<size_t>(info.pages), 0);
    group.free.resize(static_cast<size_t>(info.pages));
    std::iota(group.free.rbegin(), group.free.rend(), 0);
    groups_.push_back(std::move(group));
  }
  for (const Group& group : groups_)
    for (int32_t s = 0; s < sequences; ++s)
      tables_.push_back({group.held.data() + s * group.info.ring, group.info.ring});
}

std::span<int32_t> Pages::held(Group& group, int32_t sequence) {
  const auto ring = static_cast<size_t>(group.info.ring);
  return std::span(group.held).subspan(static_cast<size_t>(sequence) * ring, ring);
}

void Pages::drop(Group& group, int32_t& page) {
  if (page < 0) return;
  if (--group.uses[static_cast<size_t>(page)] == 0) group.free.push_back(page);
  page = -1;
}

// Free pages that it takes to make the entries of the pages [first, last] writable.
int32_t Pages::wanted(const Group& group, std::span<const int32_t> held, int32_t first,
                      int32_t last) {
  int32_t count = 0;
  for (int32_t p = first; p <= last && p < first + group.info.ring; ++p) {
    const int32_t page = held[static_cast<size_t>(p % group.info.ring)];
    count += page < 0 || group.uses[static_cast<size_t>(page)] > 1 ? 1 : 0;
  }
  return count;
}

// `keep`: the page goes on to hold what it holds now.
void Pages::prepare_page(size_t index, int32_t& page, bool keep) {
  Group& group = groups_[index];
  if (page >= 0 && group.uses[static_cast<size_t>(page)] == 1) return;
  const int32_t fresh = group.free.back();
  group.free.pop_back();
  group.uses[static_cast<size_t>(fresh)] = 1;
  if (page >= 0) {
    if (keep) states_.copy_page(static_cast<int>(index), page, fresh);
    drop(group, page);
  }
  page = fresh;
}

void Pages::prepare(int32_t sequence, int32_t begin, int32_t end) {
  if (begin >= end) return;
  const int32_t first = page_of_position(begin);
  const int32_t last = page_of_position(end - 1);
  for (Group& group : groups_) {
    const int32_t want = wanted(group, held(group, sequence), first, last);
    if (static_cast<size_t>(want) > group.free.size())
      throw Error(ErrorKind::kLimit, "the caches have {} free pages of {} positions, {} are needed",
                  group.free.size(), kPagePositions, want);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto pages = held(groups_[i], sequence);
    for (int32_t p = first; p <= last; ++p)
      prepare_page(i, pages[static_cast<size_t>(p) % pages.size()],
                   p == first && begin % kPagePositions != 0);
  }
}

bool Pages::keeps(int32_t written, int32_t position) const {
  if (position == 0) return true;
  return std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    // Page p was written over once `written` reached page p + ring.
    return page_of_position(std::max(written, 1) - 1) - first_needed(position, group.info.window) <
           group.info.ring;
  });
}

void Pages::share(int32_t from, int32_t written, int32_t to, int32_t positions) {
  VEERY_CHECK(keeps(written, positions));
  if (positions == 0) return;
  for (Group& group : groups_) {
    const auto source = held(group, from);
    const auto target = held(group, to);
    for (int32_t p = first_needed(positions, group.info.window);
         p <= page_of_position(positions - 1); ++p) {
      const size_t entry = static_cast<size_t>(p) % source.size();
      VEERY_CHECK(target[entry] < 0 && source[entry] >= 0);
      target[entry] = source[entry];
      ++group.uses[static_cast<size_t>(target[entry])];
    }
  }
}

void Pages::trim(int32_t sequence, int32_t positions) {
  for (Group& group : groups_) {
    const auto pages = held(group, sequence);
    if (positions > 0 && group.info.window > 0) continue;
    const auto keep = static_cast<size_t>((positions + kPagePositions - 1) / kPagePositions);
    for (size_t i = pages.size(); i > keep; --i) drop(group, pages[i - 1]);
  }
}

int32_t Pages::used() const {
  int32_t most = 0;
  for (const Group& group : groups_)
    most = std::max(most, static_cast<int32_t>(std::count_if(group.uses.begin(), group.uses.end(),
                                                             [](int32_t n) { return n > 0; })));
  return most;
}

}  // namespace veery
