#include "schedule/sequences.h"

#include <algorithm>

#include "base/error.h"

namespace veery {

namespace {

constexpr int32_t kWorthReading = 16;  // tokens that files have beyond the caches

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

// Of those kept, but for one; -1: there is none.
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
    } else if (source.use == Use::kKept) {  // nothing else is there: it goes on itself
      runner_.rewind(match.sequence, match.tokens);
      source.ids.resize(static_cast<size_t>(match.tokens));
      source.use = Use::kAnswer;
      source.used = clock_;
      return match.sequence;
    }
  }
  const int32_t sequence = runner_.fork(match.sequence, match.tokens);
  source.used = clock_;
  at(sequence) = {Use::kAnswer, clock_, {ids.begin(), ids.begin() + match.tokens}};
  return sequence;
}

void Sequences::restore(std::span<const int32_t> ids, int32_t positions) {
  if (store_ == nullptr) return;
  const int32_t least = match(ids, positions) + kWorthReading;
  if (std::ssize(ids) <= least) return;
  const bool extended = runner_.would_extend(positions);
  const PrefixStore::Match found = store_->match(ids, extended);
  if (found.tokens < least) return;
  make_room(found.tokens);
  const int32_t sequence = store_->load(found, ids, extended);
  if (sequence < 0) return;
  at(sequence) = {Use::kAnswer, ++clock_, {ids.begin(), ids.begin() + found.tokens}};
  keep_in_memory(sequence);
}

// For a sequence of so many positions, as far as what is kept has it.
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
  // What another holds as a whole and can be cut to, nobody misses.
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
  const int32_t sequence = file.load();
  if (sequence < 0) return saved;
  at(sequence) = {Use::kAnswer, ++clock_, {saved.ids.begin(), saved.ids.begin() + saved.positions}};
  keep_in_memory(sequence);
  return saved;
}

int32_t Sequences::kept() const {
  return static_cast<int32_t>(
      std::ranges::count_if(held_, [](const Held& held) { return held.use == Use::kKept; }));
}

}  // namespace veery
