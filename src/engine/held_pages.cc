// Pages that a prefix cache holds apart from any sequence.
#include <algorithm>

#include "base/error.h"
#include "engine/pages.h"

namespace veery {
namespace {

// Windows and recurrent states: a sequence overwrites them as it proceeds.
bool is_state(const StateStore::Group& info) { return !info.grows() && info.source == 0; }

}  // namespace

bool Pages::needs_states() const {
  return std::ranges::any_of(groups_, [](const Group& group) { return is_state(group.info); });
}

int32_t Pages::hold_page(int32_t sequence, int32_t entry) {
  int32_t page = -1;
  for (Group& group : groups_)
    if (group.info.grows()) hold(group, page, held(group, sequence)[static_cast<size_t>(entry)]);
  return page;
}

void Pages::release_page(int32_t page) {
  for (Group& group : groups_)
    if (group.info.grows()) drop(group, page);
}

Pages::State Pages::hold_state(int32_t sequence, int32_t position) {
  VEERY_CHECK(nearest(sequence, position) == position);
  const Snapshot* snapshot = holds(sequence, position) ? nullptr : find(sequence, position);
  State state{position, std::vector<State::Part>(groups_.size())};
  try {
    hold_parts(sequence, snapshot, state);
  } catch (...) {
    release_state(state);
    throw;
  }
  return state;
}

// Holds the pages of a state: those of a snapshot, or with nullptr those of the sequence.
void Pages::hold_parts(int32_t sequence, const Snapshot* snapshot, State& state) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!is_state(groups_[i].info)) continue;
    const auto pages = held(groups_[i], sequence);
    const Entries needed = needed_at(groups_[i].info, state.position);
    const int32_t end = needed.first + needed.count;
    const auto ring_page = [&](int32_t entry) {
      return pages[static_cast<size_t>(entry) % pages.size()];
    };
    int32_t first = needed.first;
    const int32_t oldest =
        std::max(groups_[i].first[static_cast<size_t>(sequence)], end - groups_[i].info.ring);
    if (snapshot == nullptr)
      while (first > oldest && ring_page(first - 1) >= 0) --first;
    State::Part& part = state.parts[i];
    part.first = first;
    part.pages.resize(static_cast<size_t>(end - first), -1);
    for (int32_t e = first; e < end; ++e)
      hold(groups_[i], part.pages[static_cast<size_t>(e - first)],
           snapshot == nullptr ? ring_page(e) : saved_at(*snapshot, i, e - first));
  }
}

void Pages::release_state(State& state) {
  for (size_t i = 0; i < state.parts.size(); ++i)
    for (int32_t& page : state.parts[i].pages) drop(groups_[i], page);
  state = {};
}

bool Pages::trim_state(State& state) {
  bool any = false;
  for (size_t i = 0; i < state.parts.size(); ++i) {
    State::Part& part = state.parts[i];
    if (part.pages.empty()) continue;
    const int32_t extra = needed_at(groups_[i].info, state.position).first - part.first;
    if (extra <= 0) continue;
    for (int32_t e = 0; e < extra; ++e) drop(groups_[i], part.pages[static_cast<size_t>(e)]);
    part.pages.erase(part.pages.begin(), part.pages.begin() + extra);
    part.first += extra;
    any = true;
  }
  return any;
}

// The entries that a position needs grow with it, so if the largest position is not usable, no
// smaller one is.
int32_t Pages::usable(const State& state, int32_t position) const {
  position = std::min(position, state.position);
  for (size_t i = 0; i < groups_.size(); ++i)
    if (is_state(groups_[i].info) &&
        needed_at(groups_[i].info, position).first < state.parts[i].first)
      return 0;
  return position;
}

void Pages::adopt(int32_t sequence, int32_t position, std::span<const int32_t> pages,
                  const State* state) {
  VEERY_CHECK(state == nullptr ? !needs_states() : usable(*state, position) == position);
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto target = held(group, sequence);
    const Entries entries = needed_at(group.info, position);
    group.first[static_cast<size_t>(sequence)] = entries.first;
    for (int32_t e = entries.first; e < entries.first + entries.count; ++e) {
      int32_t& own = target[static_cast<size_t>(e) % target.size()];
      if (group.info.grows())
        hold(group, own, pages[static_cast<size_t>(e)]);
      else
        hold(group, own, state->parts[i].pages[static_cast<size_t>(e - state->parts[i].first)]);
    }
  }
}

void Pages::adopt_snapshot(int32_t sequence, const State& state) {
  const auto unused =
      std::ranges::find_if(snapshots_, [](const Snapshot& s) { return s.sequence < 0; });
  VEERY_CHECK(unused != snapshots_.end());
  unused->sequence = sequence;
  unused->position = state.position;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!is_state(groups_[i].info)) continue;
    const State::Part& part = state.parts[i];
    const Entries entries = needed_at(groups_[i].info, state.position);
    for (int32_t e = 0; e < entries.count; ++e)
      hold(groups_[i], saved(*unused, i)[static_cast<size_t>(e)],
           part.pages[static_cast<size_t>(entries.first + e - part.first)]);
  }
}

bool Pages::fit_states() const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    const int32_t want = group.info.ring + group.info.saved * unused_snapshots();
    return !is_state(group.info) || group.free.size() >= static_cast<size_t>(want);
  });
}

}  // namespace veery
