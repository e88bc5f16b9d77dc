#include "schedule/caches/sequences.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace veery {

namespace {

constexpr int32_t kWorthReading = 16;  // tokens that files must have beyond the caches
constexpr auto kPage = static_cast<size_t>(kPagePositions);

}  // namespace

Sequences::Sequences(Session& session, bool keeps, PrefixStore* store, PageCache::HashTokens hash)
    : session_(session),
      keeps_(keeps),
      store_(store),
      cache_(session.pages(), hash),
      held_(static_cast<size_t>(session.states().options().sequences)) {}

// Looks in the page cache and in open sequences, whose last pages are not full. An open sequence
// has the first pages of a match in common until their paths in the cache divide.
Sequences::Match Sequences::find(const PrefixKey& key, std::span<const int32_t> ids) const {
  Match best;
  best.cached = cache_.match(key, ids);
  best.tokens = best.cached.tokens;
  const std::vector<PageCache::Node*>& path = best.cached.path;
  for (size_t i = 0; i < held_.size(); ++i) {
    const Held& other = held_[i];
    if (!other.open || other.path.key != key) continue;
    const std::vector<PageCache::Node*>& theirs = other.path.nodes;
    size_t pages = 0, end = std::min(path.size(), theirs.size());
    while (pages < end) {
      const size_t middle = (pages + end) / 2;
      if (path[middle] == theirs[middle])
        pages = middle + 1;
      else
        end = middle;
    }
    const auto begin = static_cast<ptrdiff_t>(pages * kPage);
    const auto same =
        std::mismatch(ids.begin() + begin, ids.end(), other.ids.begin() + begin, other.ids.end())
            .first -
        ids.begin();
    if (same <= best.tokens) continue;
    const auto sequence = static_cast<int32_t>(i);
    const int32_t tokens = session_.nearest(sequence, static_cast<int32_t>(same));
    if (tokens > best.tokens) best.sequence = sequence, best.tokens = tokens;
  }
  return best;
}

Sequences::Match Sequences::find(std::span<const int32_t> ids, int32_t positions,
                                 int64_t adapter) const {
  if (ids.empty()) return {};
  return find({adapter, session_.would_extend(positions)}, ids.first(ids.size() - 1));
}

int32_t Sequences::match(std::span<const int32_t> ids, int32_t positions, int64_t adapter) const {
  return find(ids, positions, adapter).tokens;
}

int32_t Sequences::open(const Match& match, const PrefixKey& key) {
  if (match.sequence >= 0) return session_.fork(match.sequence, match.tokens);
  return session_.open_held({.position = match.tokens, .extended = key.extended},
                            cache_.pages_of(match.cached), PageCache::state_of(match.cached));
}

int32_t Sequences::take(std::span<const int32_t> ids, int32_t positions, int64_t adapter) {
  const Match match = find(ids, positions, adapter);
  if (match.tokens == 0) return take_empty(positions, adapter);
  const PrefixKey key{adapter, session_.would_extend(positions)};
  std::vector<int32_t> own(ids.begin(), ids.begin() + match.tokens);
  const auto pages = static_cast<size_t>(match.tokens) / kPage;
  const auto& nodes = match.sequence >= 0 ? at(match.sequence).path.nodes : match.cached.path;
  PageCache::Path path = cache_.retain(key, std::span(nodes).first(std::min(pages, nodes.size())));
  int32_t sequence = -1;
  try {
    sequence = open(match, key);
  } catch (...) {
    cache_.release(path);
    throw;
  }
  if (match.sequence < 0) cache_.touch(match.cached);
  at(sequence) = {true, std::move(own), std::move(path)};
  return sequence;
}

int32_t Sequences::take_empty(int32_t positions, int64_t adapter) {
  const int32_t sequence = session_.open(positions);
  at(sequence) = {true, {}, {{adapter, session_.extended(sequence)}, {}}};
  return sequence;
}

void Sequences::restore(std::span<const int32_t> ids, int32_t positions) {
  if (store_ == nullptr) return;
  const int32_t least = match(ids, positions) + kWorthReading;
  if (std::ssize(ids) <= least) return;
  const bool extended = session_.would_extend(positions);
  const PrefixStore::Match found = store_->match(ids, extended);
  if (found.tokens < least) return;
  free_pages(found.tokens);
  adopt(store_->load(found, ids, extended), ids.first(static_cast<size_t>(found.tokens)));
}

// Evicts until a sequence of `positions` positions can be loaded or nothing is cached.
void Sequences::free_pages(int32_t positions) {
  while (!session_.pages().fit_states() && cache_.evict_state()) {
  }
  while (!session_.fits_saved(positions) && cache_.evict_page()) {
  }
}

// Caches a sequence that was loaded; -1: nothing was loaded.
void Sequences::adopt(int32_t sequence, std::span<const int32_t> ids) {
  if (sequence < 0) return;
  at(sequence) = {true, {}, {{0, session_.extended(sequence)}, {}}};
  try {
    at(sequence).ids.assign(ids.begin(), ids.end());
    add_pages(sequence);
  } catch (...) {
    close(sequence);
    throw;
  }
  cache(sequence);
}

void Sequences::add_pages(int32_t sequence) {
  Held& held = at(sequence);
  for (size_t pages = held.path.nodes.size(); (pages + 1) * kPage <= held.ids.size(); ++pages)
    cache_.add_page(held.path, sequence, std::span(held.ids).subspan(pages * kPage, kPage));
}

void Sequences::append(int32_t sequence, std::span<const int32_t> ids) {
  std::vector<int32_t>& held = at(sequence).ids;
  held.insert(held.end(), ids.begin(), ids.end());
  if (keeps_) add_pages(sequence);
}

// Caches the content of a sequence, whose full pages are in the cache, and closes it.
void Sequences::cache(int32_t sequence) {
  Held& held = at(sequence);
  const auto end = static_cast<int32_t>(held.ids.size());
  std::vector<int32_t> positions;
  try {
    if (session_.pages().needs_states() && end > 0) {
      positions = session_.pages().snapshots(sequence);
      // A request that is cancelled within a choice has run tokens after these.
      std::erase_if(positions, [&](int32_t position) { return position >= end; });
      if (session_.can_rewind(sequence, end)) positions.push_back(end);
    }
  } catch (const std::bad_alloc&) {  // the end of an answer must not fail
    return close(sequence);
  }
  const auto rest = std::span(held.ids).subspan(held.path.nodes.size() * kPage);
  cache_.release_with(held.path, sequence, rest, positions);
  close(sequence);
}

void Sequences::keep(int32_t sequence, bool files) {
  if (files && store_ != nullptr) store_->save(sequence, at(sequence).ids);
  if (keeps_)
    cache(sequence);
  else
    close(sequence);
}

void Sequences::drop(int32_t sequence) { close(sequence); }

void Sequences::close(int32_t sequence) {
  cache_.release(at(sequence).path);
  session_.close(sequence);
  at(sequence) = {};
}

bool Sequences::make_room(Pages::Lack lack) {
  return lack == Pages::Lack::kPages ? cache_.evict_page() : cache_.evict_state();
}

int32_t Sequences::save(std::span<const int32_t> ids, std::string_view note,
                        const std::string& path) {
  const PrefixKey usual, long_context{.extended = true};
  const Match a = find(usual, ids), b = find(long_context, ids);
  const Match& best = b.tokens > a.tokens ? b : a;
  const SavedSequence saved{{ids.begin(), ids.end()}, best.tokens, std::string(note)};
  if (best.sequence >= 0 || best.tokens == 0) {
    write_sequence(session_, best.sequence, saved, path);
    return best.tokens;
  }
  const int32_t sequence = open(best, b.tokens > a.tokens ? long_context : usual);
  try {
    for (const Pages::State* state : PageCache::states_of(best.cached))
      if (session_.pages().unused_snapshots() > 0)
        session_.pages().adopt_snapshot(sequence, *state);
    write_sequence(session_, sequence, saved, path);
  } catch (...) {
    session_.close(sequence);
    throw;
  }
  session_.close(sequence);
  return best.tokens;
}

SavedSequence Sequences::load(const std::string& path) {
  SequenceFile file(session_, path);
  const SavedSequence& saved = file.saved();
  if (saved.positions > 0) free_pages(saved.positions);
  adopt(file.load(), std::span(saved.ids).first(static_cast<size_t>(saved.positions)));
  return saved;
}

}  // namespace veery
