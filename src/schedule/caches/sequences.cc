#include "schedule/caches/sequences.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace veery {

namespace {

constexpr int32_t kWorthReading = 16;  // tokens that files must have beyond the caches

}  // namespace

Sequences::Sequences(Runner& runner, int32_t count, PrefixStore* store)
    : runner_(runner), store_(store), held_(static_cast<size_t>(count)) {}

Sequences::Match Sequences::find(std::span<const int32_t> ids, int32_t positions) const {
  Match best;
  if (ids.empty()) return best;
  for (size_t i = 0; i < held_.size(); ++i) {
    const auto sequence = static_cast<int32_t>(i);
    if (held_[i].use == Use::kFree) continue;
    if (runner_.extended(sequence) != runner_.would_extend(positions)) continue;
    const auto limit = std::min(held_[i].ids.size(), ids.size() - 1);
    const auto same = std::mismatch(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(limit),
                                    held_[i].ids.begin())
                          .first -
                      ids.begin();
    if (same <= best.tokens) continue;
    const int32_t kept = runner_.nearest(sequence, static_cast<int32_t>(same));
    if (kept > best.tokens) best = {sequence, kept};
  }
  return best;
}

int32_t Sequences::match(std::span<const int32_t> ids, int32_t positions) const {
  return find(ids, positions).tokens;
}

bool Sequences::has_free() const {
  return std::ranges::any_of(held_, [](const Held& held) { return held.use == Use::kFree; });
}

// Returns the least recently used cached prefix except `but`; -1: none.
int32_t Sequences::oldest(int32_t but) const {
  int32_t best = -1;
  for (size_t i = 0; i < held_.size(); ++i)
    if (held_[i].use == Use::kKept && static_cast<int32_t>(i) != but &&
        (best < 0 || held_[i].used < held_[static_cast<size_t>(best)].used))
      best = static_cast<int32_t>(i);
  return best;
}

int32_t Sequences::take(std::span<const int32_t> ids, int32_t positions) {
  const Match match = find(ids, positions);
  if (match.tokens == 0) return take_empty(positions);
  ++clock_;
  Held& source = at(match.sequence);
  if (!has_free()) {
    if (const int32_t old = oldest(match.sequence); old >= 0) {
      drop(old);
    } else if (source.use == Use::kKept) {  // no other slot: continue the cached prefix itself
      runner_.rewind(match.sequence, match.tokens);
      source.ids.resize(static_cast<size_t>(match.tokens));
      source.use = Use::kAnswer;
      source.used = clock_;
      return match.sequence;
    }
  }
  std::vector<int32_t> own(ids.begin(), ids.begin() + match.tokens);
  const int32_t sequence = runner_.fork(match.sequence, match.tokens);
  source.used = clock_;
  at(sequence) = {Use::kAnswer, clock_, std::move(own)};
  return sequence;
}

void Sequences::restore(std::span<const int32_t> ids, int32_t positions) {
  if (store_ == nullptr) return;
  const int32_t least = match(ids, positions) + kWorthReading;
  if (std::ssize(ids) <= least) return;
  const bool extended = runner_.would_extend(positions);
  const PrefixStore::Match found = store_->match(ids, extended);
  if (found.tokens < least) return;
  std::vector<int32_t> own(ids.begin(), ids.begin() + found.tokens);
  make_room(found.tokens);
  adopt(store_->load(found, ids, extended), std::move(own));
}

// Makes a cached prefix of a sequence that was loaded; -1: nothing was loaded.
void Sequences::adopt(int32_t sequence, std::vector<int32_t> ids) {
  if (sequence < 0) return;
  at(sequence) = {Use::kAnswer, ++clock_, std::move(ids)};
  keep_in_memory(sequence);
}

// Evicts cached prefixes until a sequence of `positions` positions fits or none is left.
void Sequences::make_room(int32_t positions) {
  while (!runner_.fits_saved(positions) && drop_oldest()) {
  }
}

int32_t Sequences::take_empty(int32_t positions) {
  ++clock_;
  if (!has_free())
    if (const int32_t old = oldest(-1); old >= 0) drop(old);
  const int32_t sequence = runner_.open(positions);
  at(sequence) = {Use::kAnswer, clock_, {}};
  return sequence;
}

void Sequences::append(int32_t sequence, std::span<const int32_t> ids) {
  std::vector<int32_t>& held = at(sequence).ids;
  held.insert(held.end(), ids.begin(), ids.end());
}

void Sequences::keep(int32_t sequence, bool files) {
  if (files && store_ != nullptr) store_->save(sequence, at(sequence).ids);
  keep_in_memory(sequence);
}

void Sequences::keep_in_memory(int32_t sequence) {
  Held& own = at(sequence);
  own.use = Use::kKept;
  own.used = ++clock_;
  // Drop prefixes that are a part of this one, if it can be cut to their length.
  for (size_t i = 0; i < held_.size(); ++i) {
    const Held& other = held_[i];
    const bool begins = other.use == Use::kKept && &other != &own &&
                        other.ids.size() <= own.ids.size() &&
                        std::equal(other.ids.begin(), other.ids.end(), own.ids.begin());
    if (!begins) continue;
    const auto sequence_of = static_cast<int32_t>(i);
    const auto length = static_cast<int32_t>(other.ids.size());
    if (runner_.extended(sequence_of) == runner_.extended(sequence) &&
        runner_.can_rewind(sequence, length))
      drop(sequence_of);
  }
}

void Sequences::drop(int32_t sequence) {
  runner_.close(sequence);
  at(sequence) = {};
}

bool Sequences::drop_oldest() {
  const int32_t old = oldest(-1);
  if (old < 0) return false;
  drop(old);
  return true;
}

int32_t Sequences::save(std::span<const int32_t> ids, std::string_view note,
                        const std::string& path) {
  Match best;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].use == Use::kFree) continue;
    const auto [end, other] = std::ranges::mismatch(ids, held_[i].ids);
    const auto sequence = static_cast<int32_t>(i);
    const int32_t tokens = runner_.nearest(sequence, static_cast<int32_t>(end - ids.begin()));
    if (tokens > best.tokens) best = {sequence, tokens};
  }
  write_sequence(runner_, best.sequence, {{ids.begin(), ids.end()}, best.tokens, std::string(note)},
                 path);
  return best.tokens;
}

SavedSequence Sequences::load(const std::string& path) {
  SequenceFile file(runner_, path);
  const SavedSequence& saved = file.saved();
  if (saved.positions > 0) make_room(saved.positions);
  std::vector<int32_t> own(saved.ids.begin(), saved.ids.begin() + saved.positions);
  adopt(file.load(), std::move(own));
  return saved;
}

int32_t Sequences::kept() const {
  return static_cast<int32_t>(
      std::ranges::count_if(held_, [](const Held& held) { return held.use == Use::kKept; }));
}

}  // namespace veery
