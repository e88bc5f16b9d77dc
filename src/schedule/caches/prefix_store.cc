#include "schedule/caches/prefix_store.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/sequence_file.h"

namespace veery {
namespace {

constexpr uint64_t kEngineLayout = 1;  // to be raised when the numbers in caches change
constexpr int32_t kLeastTokens = 16;   // of a conversation that is worth a file
constexpr uint64_t kMostWaiting = uint64_t{512} << 20;  // bytes that wait to be written
constexpr double kPause = 30;          // seconds without writes after the disk failed
constexpr size_t kSnapshotsSaved = 2;  // the last ones of a sequence
constexpr size_t kHashed = size_t{4} << 20;

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
    pool.parallel_for(std::ssize(pieces), 1, [&](int64_t first, int64_t last) {
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

uint64_t prefix_model_key(Runner& runner) {
  const Model& model = runner.model();
  Hash hash;
  hash.add(static_cast<int64_t>(kEngineLayout));
  hash.add(static_cast<int64_t>(model_fingerprint(runner)));
  hash.add(static_cast<int64_t>(
      model.file().checked([&] { return content_hash(model.file(), runner.model().pool()); })));
  const bool relaxed = model.backend().relaxed();
  for (const bool flag :
       {model.options().exact, relaxed, model.config().long_context, model.config().sparse})
    hash.add(int64_t{flag});
  return hash.value();
}

PrefixStore::PrefixStore(Runner& runner, const PrefixStoreOptions& options)
    : runner_(runner), folder_(options.folder, options.bytes) {
  model_ = prefix_model_key(runner);
  for (const StateStore::Group& group : runner.states().groups()) {
    if (group.source > 0)
      throw Error(ErrorKind::kUnsupported, "a prefix cache on disk holds no output of an encoder");
    cuttable_ = cuttable_ && group.grows();
    if (group.grows()) block_bytes_ += group.page_bytes;
  }
  read_states();
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

// [i]: of the first i blocks.
std::vector<uint64_t> PrefixStore::chain_of(std::span<const int32_t> ids, bool extended) const {
  std::vector<uint64_t> chain = {root(extended)};
  for (size_t end = kPagePositions; end <= ids.size(); end += kPagePositions)
    chain.push_back(next_hash(chain.back(), ids.subspan(end - kPagePositions, kPagePositions)));
  return chain;
}

std::string PrefixStore::block_name(uint64_t hash) const {
  return fmt::format("{:016x}-b{:016x}", model_, hash);
}

// Names of files that came since are read: a few bytes each.
void PrefixStore::read_states() {
  folder_.refresh();
  const std::vector<std::string> names = folder_.names(fmt::format("{:016x}-s", model_));
  std::set<std::string> there(names.begin(), names.end());
  if (there == known_states_) return;
  for (auto& [parent, states] : states_)
    std::erase_if(states, [&](const State& state) { return !there.contains(state.name); });
  for (const std::string& name : names) {
    if (known_states_.contains(name)) continue;
    try {
      const auto head = folder_.read(name, prefix_file_bytes(kPagePositions, 0));
      if (!head) continue;
      PrefixPart part = parse_prefix_head(*head, folder_.bytes_of(name), model_);
      if (part.kind == PrefixKind::kState)
        states_[part.parent].push_back({name, part.position, std::move(part.ids)});
    } catch (const Error&) {
      count(&PrefixCounts::misses);
      folder_.remove(name);
    }
  }
  known_states_ = std::move(there);
}

uint64_t PrefixStore::state_bytes(int32_t position) const {
  return runner_.pages().bytes_of_places(position, false) -
         static_cast<uint64_t>(blocks_of(position)) * block_bytes_;
}

void PrefixStore::save(int32_t sequence, std::span<const int32_t> ids) {
  const int32_t position = runner_.position(sequence);
  if (position < kLeastTokens || static_cast<size_t>(position) > ids.size()) return;
  {
    const std::lock_guard lock(mutex_);
    if (seconds_now() < paused_until_) return;
  }
  const std::vector<uint64_t> chain =
      chain_of(ids.first(static_cast<size_t>(position)), runner_.extended(sequence));
  std::vector<Write> writes;
  save_state(sequence, ids, chain, position, writes);
  if (!cuttable_) {
    const std::vector<int32_t> snapshots = runner_.pages().snapshots(sequence);
    const size_t first = snapshots.size() - std::min(snapshots.size(), kSnapshotsSaved);
    for (size_t i = snapshots.size(); i > first; --i)
      if (snapshots[i - 1] < position && snapshots[i - 1] >= kLeastTokens)
        save_state(sequence, ids, chain, snapshots[i - 1], writes);
  }
  save_blocks(sequence, ids, chain, position, writes);
  queue(std::move(writes));
}

// What the position needs beside whole blocks.
void PrefixStore::save_state(int32_t sequence, std::span<const int32_t> ids,
                             const std::vector<uint64_t>& chain, int32_t position,
                             std::vector<Write>& writes) {
  const int32_t blocks = blocks_of(position), begin = blocks * kPagePositions;
  if (cuttable_ && begin == position) return;
  const auto rest = ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(position - begin));
  const uint64_t parent = chain[static_cast<size_t>(blocks)];
  Write write{fmt::format("{:016x}-s{:016x}", model_, next_hash(parent ^ 1, rest)), {}};
  if (!folder_.has(write.name)) {
    write.part = {PrefixKind::kState, model_, parent, position, {rest.begin(), rest.end()}, {}};
    std::vector<std::byte>& pages = write.part.pages;
    pages.reserve(state_bytes(position));
    std::vector<int32_t> entries(runner_.states().groups().size());
    for (const Pages::Place& place : runner_.pages().places(sequence, position)) {
      const auto group = static_cast<size_t>(place.group);
      const StateStore::Group& info = runner_.states().groups()[group];
      if (info.grows() && entries[group]++ < blocks) continue;
      const size_t at = pages.size();
      pages.resize(at + info.page_bytes);
      runner_.states().read_page(place.group, place.page, place.positions,
                                 std::span(pages).subspan(at));
    }
  }
  writes.push_back(std::move(write));
}

// The last ones first: where files are evicted, the first blocks of a conversation stay longest.
void PrefixStore::save_blocks(int32_t sequence, std::span<const int32_t> ids,
                              const std::vector<uint64_t>& chain, int32_t position,
                              std::vector<Write>& writes) {
  if (block_bytes_ == 0) return;
  const std::vector<Pages::Place> places = runner_.pages().places(sequence, position);
  for (int32_t block = blocks_of(position); block-- > 0;) {
    const auto index = static_cast<size_t>(block);
    Write write{block_name(chain[index + 1]), {}};
    if (!folder_.has(write.name)) {
      const auto own = ids.subspan(index * kPagePositions, kPagePositions);
      write.part = {PrefixKind::kBlock,
                    model_,
                    chain[index],
                    (block + 1) * kPagePositions,
                    {own.begin(), own.end()},
                    std::vector<std::byte>(block_bytes_)};
      std::span<std::byte> rest(write.part.pages);
      std::vector<int32_t> entries(runner_.states().groups().size());
      for (const Pages::Place& place : places) {
        const auto group = static_cast<size_t>(place.group);
        const StateStore::Group& info = runner_.states().groups()[group];
        if (!info.grows() || entries[group]++ != block) continue;
        runner_.states().read_page(place.group, place.page, kPagePositions,
                                   rest.first(info.page_bytes));
        rest = rest.subspan(info.page_bytes);
      }
    }
    writes.push_back(std::move(write));
  }
}

// What would make too much wait is left out: a later turn of the conversation saves it.
void PrefixStore::queue(std::vector<Write> writes) {
  {
    const std::lock_guard lock(mutex_);
    for (Write& write : writes) {
      if (waiting_bytes_ + write.part.pages.size() > kMostWaiting ||
          !waiting_.insert(write.name).second)
        continue;
      waiting_bytes_ += write.part.pages.size();
      writes_.push_back(std::move(write));
    }
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
      right = false;  // no memory
    }
    lock.lock();
    writing_ = false;
    waiting_.erase(write.name);
    waiting_bytes_ -= write.part.pages.size();
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
  read_states();
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
  const std::vector<uint64_t> chain =
      chain_of(ids.first(static_cast<size_t>(match.tokens)), extended);
  std::vector<Pages::Place> places;
  int32_t sequence = -1;
  try {
    sequence = runner_.open_saved({.position = match.tokens, .extended = extended}, places);
    const auto begin = static_cast<size_t>(match.blocks) * kPagePositions;
    const auto rest = ids.subspan(begin, static_cast<size_t>(match.tokens) - begin);
    if ((match.state.empty() ||
         read_state(match, rest, chain[static_cast<size_t>(match.blocks)], places)) &&
        read_blocks(match, ids, chain, places)) {
      count(&PrefixCounts::restored_tokens, match.tokens);
      return sequence;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) {
      if (sequence >= 0) runner_.close(sequence);
      throw;
    }
  }
  if (sequence >= 0) runner_.close(sequence);
  return -1;
}

// Nothing where the file is gone or is not what its name says.
std::optional<PrefixPart> PrefixStore::read(const std::string& name) {
  const auto bytes = folder_.read(name);
  try {
    if (bytes) {
      PrefixPart part = parse_prefix(*bytes, model_);
      count(&PrefixCounts::hits);
      return part;
    }
  } catch (const Error&) {  // damaged
  }
  count(&PrefixCounts::misses);
  folder_.remove(name);
  return {};
}

// Of a state of more tokens than match.tokens, which then are in a page that is not full, the first
// ones are used.
bool PrefixStore::read_state(const Match& match, std::span<const int32_t> rest, uint64_t parent,
                             std::span<const Pages::Place> places) {
  const auto part = read(match.state);
  if (!part) return false;
  const bool right = part->kind == PrefixKind::kState && part->parent == parent &&
                     part->ids.size() >= rest.size() &&
                     std::ranges::equal(rest, std::span(part->ids).first(rest.size())) &&
                     (cuttable_ || part->position == match.tokens) &&
                     part->pages.size() == state_bytes(part->position);
  if (!right) {
    count(&PrefixCounts::misses);
    folder_.remove(match.state);
    return false;
  }
  std::span<const std::byte> pages(part->pages);
  std::vector<int32_t> entries(runner_.states().groups().size());
  for (const Pages::Place& place : places) {
    const auto group = static_cast<size_t>(place.group);
    const StateStore::Group& info = runner_.states().groups()[group];
    if (info.grows() && entries[group]++ < match.blocks) continue;
    runner_.states().write_page(place.group, place.page, pages.first(info.page_bytes));
    pages = pages.subspan(info.page_bytes);
  }
  return true;
}

// The last ones first, as they are written.
bool PrefixStore::read_blocks(const Match& match, std::span<const int32_t> ids,
                              const std::vector<uint64_t>& chain,
                              std::span<const Pages::Place> places) {
  for (int32_t block = block_bytes_ == 0 ? 0 : match.blocks; block-- > 0;) {
    const auto index = static_cast<size_t>(block);
    const std::string name = block_name(chain[index + 1]);
    const auto part = read(name);
    if (!part) return false;
    const auto own = ids.subspan(index * kPagePositions, kPagePositions);
    if (part->kind != PrefixKind::kBlock || part->parent != chain[index] ||
        !std::ranges::equal(own, part->ids) || part->pages.size() != block_bytes_) {
      count(&PrefixCounts::misses);
      folder_.remove(name);
      return false;
    }
    std::span<const std::byte> pages(part->pages);
    std::vector<int32_t> entries(runner_.states().groups().size());
    for (const Pages::Place& place : places) {
      const auto group = static_cast<size_t>(place.group);
      const StateStore::Group& info = runner_.states().groups()[group];
      if (!info.grows() || entries[group]++ != block) continue;
      runner_.states().write_page(place.group, place.page, pages.first(info.page_bytes));
      pages = pages.subspan(info.page_bytes);
    }
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
