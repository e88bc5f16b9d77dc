#include "schedule/caches/prefix_store.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/sequence_file.h"

namespace veery {
namespace {

constexpr uint64_t kEngineLayout = 1;                  // raise it when the values in caches change
constexpr int32_t kLeastTokens = 16;                   // shorter prefixes are not worth a file
constexpr uint64_t kMostQueued = uint64_t{512} << 20;  // bytes of pages in the write queue
constexpr double kPause = 30;                // seconds without writes after the disk failed
constexpr size_t kSnapshotsSaved = 2;        // the last ones of a sequence
constexpr size_t kHashed = size_t{4} << 20;  // bytes that a worker hashes at once

uint64_t next_hash(uint64_t before, std::span<const int32_t> ids) {
  Hash hash;
  hash.add(static_cast<int64_t>(before));
  hash.add(std::as_bytes(ids));
  return hash.value();
}

uint64_t content_hash(const ModelFile& file, ThreadPool& pool) {
  Hash all;
  for (const auto& mapping : file.mappings) {
    const std::span<const std::byte> bytes = mapping->bytes();
    std::vector<uint64_t> pieces((bytes.size() + kHashed - 1) / kHashed);
    pool.parallel_for_long(std::ssize(pieces), [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
        const auto part = bytes.subspan(i * kHashed, std::min(kHashed, bytes.size() - i * kHashed));
        Hash hash;
        hash.add(part);
        pieces[i] = hash.value();
        mapping->release(part);
      }
    });
    all.add(static_cast<int64_t>(bytes.size()));
    for (const uint64_t piece : pieces) all.add(static_cast<int64_t>(piece));
  }
  return all.value();
}

int32_t blocks_of(int32_t position) { return position / kPagePositions; }

}  // namespace

uint64_t prefix_model_key(Session& session) {
  const Model& model = session.model();
  Hash hash;
  hash.add(static_cast<int64_t>(kEngineLayout));
  hash.add(static_cast<int64_t>(model_fingerprint(session)));
  hash.add(static_cast<int64_t>(
      model.file().checked([&] { return content_hash(model.file(), session.model().pool()); })));
  const bool relaxed = model.backend().relaxed();
  for (const bool flag :
       {model.options().exact, relaxed, model.config().long_context, model.config().sparse})
    hash.add(int64_t{flag});
  return hash.value();
}

PrefixStore::PrefixStore(Session& session, const PrefixStoreOptions& options)
    : session_(session), folder_(options.folder, options.bytes) {
  model_ = prefix_model_key(session);
  for (const StateStore::Group& group : session.states().groups()) {
    if (group.source > 0)
      throw Error(ErrorKind::kUnsupported, "a prefix cache on disk holds no output of an encoder");
    cuttable_ = cuttable_ && group.grows();
    if (group.grows()) block_bytes_ += group.page_bytes;
  }
  state_prefix_ = fmt::format("{:016x}-s", model_);
  update_states();
  writer_ = std::thread([this] { write_files(); });
}

PrefixStore::~PrefixStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

uint64_t PrefixStore::root(bool extended) const {
  return next_hash(model_ + (extended ? 1 : 0), {});
}

// [i]: the hash of the first i blocks.
std::vector<uint64_t> PrefixStore::chain_of(std::span<const int32_t> ids, bool extended) const {
  std::vector<uint64_t> chain = {root(extended)};
  for (size_t end = kPagePositions; end <= ids.size(); end += kPagePositions)
    chain.push_back(next_hash(chain.back(), ids.subspan(end - kPagePositions, kPagePositions)));
  return chain;
}

std::string PrefixStore::block_name(uint64_t hash) const {
  return fmt::format("{:016x}-b{:016x}", model_, hash);
}

uint64_t PrefixStore::state_bytes(int32_t position) const {
  return session_.pages().bytes_of_places(position, false) -
         static_cast<uint64_t>(blocks_of(position)) * block_bytes_;
}

// [i]: the places of block i; the last element: those of the state after the blocks.
std::vector<PrefixStore::Places> PrefixStore::split(std::span<const Pages::Place> places,
                                                    int32_t blocks) const {
  const auto rest = static_cast<size_t>(blocks);
  std::vector<Places> parts(rest + 1);
  std::vector<size_t> entries(session_.states().groups().size());
  for (const Pages::Place& place : places) {
    const auto group = static_cast<size_t>(place.group);
    const bool grows = session_.states().groups()[group].grows();
    parts[grows ? std::min(entries[group]++, rest) : rest].push_back(place);
  }
  return parts;
}

void PrefixStore::update_states() {
  folder_.refresh();
  for (const PrefixFolder::Change& change : folder_.take_changes()) {
    if (!change.name.starts_with(state_prefix_)) continue;
    forget_state(change.name);
    if (change.added) add_state(change.name);
  }
}

// Reads the head of the file, about 1 KB.
void PrefixStore::add_state(const std::string& name) {
  const auto head = folder_.read_head(name, prefix_file_bytes(kPagePositions, 0));
  if (!head) return;
  try {
    PrefixPart part = parse_prefix_head(*head, folder_.bytes_of(name), model_);
    if (part.kind != PrefixKind::kState) return;
    state_parents_[name] = part.parent;
    states_[part.parent].push_back({name, part.position, std::move(part.ids)});
  } catch (const Error&) {  // damaged
    count(&PrefixCounts::misses);
    folder_.remove(name);
  }
}

void PrefixStore::forget_state(const std::string& name) {
  const auto known = state_parents_.find(name);
  if (known == state_parents_.end()) return;
  if (const auto states = states_.find(known->second); states != states_.end()) {
    std::erase_if(states->second, [&](const State& state) { return state.name == name; });
    if (states->second.empty()) states_.erase(states);
  }
  state_parents_.erase(known);
}

void PrefixStore::save(int32_t sequence, std::span<const int32_t> ids) noexcept {
  try {
    save_sequence(sequence, ids);
  } catch (const std::exception&) {
    // Memory is short, or the device failed. The next run reports the latter.
    count(&PrefixCounts::failed);
  }
}

// Saves the last blocks first: they are evicted first, and the beginning of a conversation stays.
void PrefixStore::save_sequence(int32_t sequence, std::span<const int32_t> ids) {
  const int32_t position = session_.position(sequence);
  if (position < kLeastTokens || static_cast<size_t>(position) > ids.size()) return;
  {
    const std::lock_guard lock(mutex_);
    if (seconds_now() < paused_until_) return;
  }
  Pages& pages = session_.pages();
  const std::vector<uint64_t> chain =
      chain_of(ids.first(static_cast<size_t>(position)), session_.extended(sequence));
  const int32_t blocks = blocks_of(position);
  const std::vector<Places> parts = split(pages.places(sequence, position), blocks);
  save_state(ids, chain, position, parts.back());
  if (!cuttable_) {
    const std::vector<int32_t> snapshots = pages.snapshots(sequence);
    const size_t first = snapshots.size() - std::min(snapshots.size(), kSnapshotsSaved);
    for (size_t i = snapshots.size(); i > first; --i) {
      const int32_t at = snapshots[i - 1];
      if (at < position && at >= kLeastTokens)
        save_state(ids, chain, at, split(pages.places(sequence, at), blocks_of(at)).back());
    }
  }
  for (int32_t block = block_bytes_ == 0 ? 0 : blocks; block-- > 0;) {
    const auto index = static_cast<size_t>(block);
    const auto own = ids.subspan(index * kPagePositions, kPagePositions);
    save_file(block_name(chain[index + 1]),
              {PrefixKind::kBlock,
               model_,
               chain[index],
               (block + 1) * kPagePositions,
               {own.begin(), own.end()},
               {}},
              parts[index]);
  }
}

// `places`: those that the position needs besides whole blocks.
void PrefixStore::save_state(std::span<const int32_t> ids, const std::vector<uint64_t>& chain,
                             int32_t position, const Places& places) {
  const int32_t blocks = blocks_of(position), begin = blocks * kPagePositions;
  if (cuttable_ && begin == position) return;
  const auto rest = ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(position - begin));
  const uint64_t parent = chain[static_cast<size_t>(blocks)];
  save_file(fmt::format("{}{:016x}", state_prefix_, next_hash(parent ^ 1, rest)),
            {PrefixKind::kState, model_, parent, position, {rest.begin(), rest.end()}, {}}, places);
}

// Skips a file that the queue has no room for: a later turn of the conversation saves it.
void PrefixStore::save_file(const std::string& name, PrefixPart part, const Places& places) {
  uint64_t bytes = 0;
  if (!folder_.has(name))
    for (const Pages::Place& place : places)
      bytes += session_.states().groups()[static_cast<size_t>(place.group)].page_bytes;
  if (!folder_.fits(prefix_file_bytes(part.ids.size(), bytes))) return;
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + bytes > kMostQueued || queued_.contains(name)) return;
  }
  part.pages.resize(bytes);
  if (bytes > 0) {
    std::span<std::byte> rest(part.pages);
    for (const Pages::Place& place : places) {
      const auto& group = session_.states().groups()[static_cast<size_t>(place.group)];
      session_.states().read_page(place.group, place.page, place.positions,
                                  rest.first(group.page_bytes));
      rest = rest.subspan(group.page_bytes);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    writes_.push_back({name, std::move(part)});
    try {
      queued_.insert(name);
    } catch (...) {
      writes_.pop_back();
      throw;
    }
    queued_bytes_ += bytes;
  }
  changed_.notify_all();
}

void PrefixStore::write_files() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !writes_.empty(); });
    if (writes_.empty()) return;
    const Write write = std::move(writes_.front());
    writes_.pop_front();
    const bool fresh = !write.part.pages.empty();
    const bool paused = seconds_now() < paused_until_;
    writing_ = true;
    lock.unlock();
    bool right = true;
    try {
      if (!fresh)
        folder_.touch(write.name);
      else
        right = !paused && folder_.write(write.name, encode_prefix(write.part));
    } catch (const std::exception&) {
      right = false;  // memory is short
    }
    lock.lock();
    writing_ = false;
    queued_.erase(write.name);
    queued_bytes_ -= write.part.pages.size();
    if (fresh) ++(right ? counts_.written : counts_.failed);
    if (!right && !paused) paused_until_ = seconds_now() + kPause;
    changed_.notify_all();
  }
}

void PrefixStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return writes_.empty() && !writing_; });
}

PrefixStore::Match PrefixStore::match(std::span<const int32_t> ids, bool extended) {
  Match best;
  if (ids.size() <= static_cast<size_t>(kLeastTokens)) return best;
  update_states();
  const std::span<const int32_t> usable = ids.first(ids.size() - 1);
  const std::vector<uint64_t> chain = chain_of(usable, extended);
  size_t blocks = 0;
  while (blocks + 1 < chain.size() &&
         (block_bytes_ == 0 || folder_.has(block_name(chain[blocks + 1]))))
    ++blocks;
  if (cuttable_ && blocks > 0)
    best = {static_cast<int32_t>(blocks) * kPagePositions, static_cast<int32_t>(blocks), {}};
  for (size_t known = blocks + 1; known-- > 0;) {
    const auto found = states_.find(chain[known]);
    if (found == states_.end()) continue;
    const auto rest = usable.subspan(known * kPagePositions);
    for (const State& state : found->second) {
      const auto same = std::ranges::mismatch(state.ids, rest).in1 - state.ids.begin();
      if (!cuttable_ && same < std::ssize(state.ids)) continue;
      const auto tokens = static_cast<int32_t>(known * kPagePositions + static_cast<size_t>(same));
      if (tokens > best.tokens) best = {tokens, static_cast<int32_t>(known), state.name};
    }
    if (best.tokens > 0) break;
  }
  return best.tokens < kLeastTokens ? Match() : best;
}

int32_t PrefixStore::load(const Match& match, std::span<const int32_t> ids, bool extended) {
  int32_t sequence = -1;
  const auto close = [&] {
    if (sequence >= 0) session_.close(std::exchange(sequence, -1));
  };
  try {
    const auto own = ids.first(static_cast<size_t>(match.tokens));
    const std::vector<uint64_t> chain = chain_of(own, extended);
    Places places;
    sequence = session_.open_saved({.position = match.tokens, .extended = extended}, places);
    if (load_files(match, own, chain, places))
      count(&PrefixCounts::restored_tokens, match.tokens);
    else
      close();
  } catch (const Error& error) {
    close();
    if (error.kind() != ErrorKind::kLimit) throw;
  } catch (const std::bad_alloc&) {
    close();
  } catch (...) {
    close();
    throw;
  }
  return sequence;
}

// Reads the last blocks first, as they are saved.
bool PrefixStore::load_files(const Match& match, std::span<const int32_t> ids,
                             const std::vector<uint64_t>& chain,
                             std::span<const Pages::Place> places) {
  const std::vector<Places> parts = split(places, match.blocks);
  if (!match.state.empty()) {
    const auto begin = static_cast<size_t>(match.blocks) * kPagePositions;
    const auto rest = ids.subspan(begin);
    const auto known = states_.find(chain[static_cast<size_t>(match.blocks)]);
    if (known == states_.end()) return false;
    const auto state = std::ranges::find(known->second, match.state, &State::name);
    if (state == known->second.end()) return false;
    // A page that is not full may have more tokens than these; the first ones of it are used.
    if (state->ids.size() < rest.size() || (!cuttable_ && state->position != match.tokens))
      return false;
    const PrefixPart expected{PrefixKind::kState, model_,     known->first,
                              state->position,    state->ids, {}};
    if (!load_file(match.state, expected, state_bytes(state->position), parts.back())) return false;
  }
  for (int32_t block = block_bytes_ == 0 ? 0 : match.blocks; block-- > 0;) {
    const auto index = static_cast<size_t>(block);
    const auto own = ids.subspan(index * kPagePositions, kPagePositions);
    const PrefixPart expected{
        PrefixKind::kBlock,       model_, chain[index], (block + 1) * kPagePositions,
        {own.begin(), own.end()}, {}};
    if (!load_file(block_name(chain[index + 1]), expected, block_bytes_, parts[index]))
      return false;
  }
  return true;
}

// Copies the pages of a file into the caches. Removes a file that is damaged or not `expected`.
bool PrefixStore::load_file(const std::string& name, const PrefixPart& expected,
                            uint64_t page_bytes, const Places& places) {
  const auto bytes = folder_.read(name, prefix_file_bytes(expected.ids.size(), page_bytes));
  std::optional<PrefixPart> part;
  try {
    if (bytes) part = parse_prefix(*bytes, model_);
  } catch (const Error&) {  // damaged
  }
  if (!part || part->kind != expected.kind || part->parent != expected.parent ||
      part->position != expected.position || part->ids != expected.ids ||
      part->pages.size() < page_bytes) {
    count(&PrefixCounts::misses);
    folder_.remove(name);
    forget_state(name);
    return false;
  }
  count(&PrefixCounts::hits);
  std::span<const std::byte> rest(part->pages);
  for (const Pages::Place& place : places) {
    const auto& group = session_.states().groups()[static_cast<size_t>(place.group)];
    session_.states().write_page(place.group, place.page, rest.first(group.page_bytes));
    rest = rest.subspan(group.page_bytes);
  }
  return true;
}

void PrefixStore::count(int64_t PrefixCounts::*what, int64_t by) {
  const std::lock_guard lock(mutex_);
  counts_.*what += by;
}

PrefixCounts PrefixStore::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace veery
