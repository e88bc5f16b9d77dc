#include "serve/models/models.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>

#include "base/clock.h"
#include "base/printable.h"

namespace veery::serve {
namespace {

std::chrono::duration<double> seconds(double count) {
  return std::chrono::duration<double>(std::min(count, 1e6));
}

}  // namespace

Models::~Models() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Models::add(ModelSource source) {
  auto entry = std::make_unique<Entry>();
  if (!source.load.executor) source.load.executor = executor_;
  if (!source.load.executor) source.load.executor = std::make_shared<Executor>(source.load.threads);
  if (!executor_) executor_ = source.load.executor;
  entry->card = read_card(source, options_.memory);
  if (options_.memory > 0 && entry->card.bytes > options_.memory)
    throw NoRoom(false, "{}: needs {} bytes of memory, the limit for all models is {}", source.path,
                 entry->card.bytes, options_.memory);
  entry->bytes = entry->card.plan.bytes;
  entry->keep_alive = options_.keep_alive;
  path_names_.add(source.path, source.id);
  path_names_.add(entry->card.file, source.id);
  if (source.scheduler.draft_model)
    path_names_.add(source.scheduler.draft_model->path(), "the draft model");
  entry->source = std::move(source);
  entries_.push_back(std::move(entry));
}

bool Models::fits(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return options_.memory == 0 || bytes_with(entry_of(id)) <= options_.memory;
}

bool Models::has(std::string_view id) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry->card.id == id; });
}

Models::Entry& Models::entry_of(std::string_view id) const {
  for (const auto& entry : entries_)
    if (entry->card.id == id) return *entry;
  // With a single model, clients may send any name ("gpt-4o") or none.
  if (entries_.size() == 1 || (id.empty() && !entries_.empty())) return *entries_.front();
  std::string known;
  for (const auto& entry : entries_) known += (known.empty() ? "" : ", ") + entry->card.id;
  throw UnknownModel(ErrorKind::kNotFound, "the model '{}' does not exist, there are: {}",
                     printable(id, 200), known);
}

// Returns the memory of some models at a time. An arena that they share counts once.
size_t Models::bytes_of(const std::function<bool(const Entry&)>& which) const {
  std::map<const Executor*, ModelBytes> sums;
  for (const auto& entry : entries_)
    if (which(*entry)) sums[entry->source.load.executor.get()].add(entry->bytes);
  size_t bytes = 0;
  for (const auto& [executor, sum] : sums) bytes += sum.total();
  return bytes;
}

size_t Models::used_bytes() const {
  return bytes_of([](const Entry& entry) { return entry.model != nullptr; });
}

// Returns the memory of the loaded models and `wanted`.
size_t Models::bytes_with(const Entry& wanted) const {
  return bytes_of([&](const Entry& entry) { return entry.model != nullptr || &entry == &wanted; });
}

Models::Lease Models::find(std::string_view id, std::optional<KeepAlive> keep_alive,
                           const std::function<void(size_t, size_t)>& progress) {
  Lock lock(mutex_);
  Entry& entry = entry_of(id);
  entry.keep_alive = keep_alive.value_or(options_.keep_alive);
  const double deadline = seconds_now() + options_.wait_timeout;
  while (!is_ready(entry)) {
    if (changing_) {
      changed_.wait(lock);
      continue;
    }
    changing_ = true;
    try {
      if (entry.model) unload_changed(lock, entry, deadline);
      make_room(lock, entry);
      load(lock, entry, progress);
      shrink(lock, entry);
    } catch (...) {
      if (!lock) lock.lock();
      changing_ = false;
      changed_.notify_all();
      throw;
    }
    changing_ = false;
    changed_.notify_all();
  }
  return lease(entry);
}

bool Models::is_ready(Entry& entry) {
  if (!entry.model) return false;
  entry.changed = !entry.model->model().is_unchanged();
  return !entry.changed;
}

// Requests that still use the old model fail at their next run.
void Models::unload_changed(Lock& lock, Entry& entry, double deadline) {
  while (entry.users > 0) {
    const double left = deadline - seconds_now();
    if (left <= 0)
      throw LoadFailure(ErrorKind::kIo, true,
                        "the model '{}' cannot be loaded again yet: its file changed, and {} "
                        "requests still use the old one",
                        entry.card.id, entry.users);
    changed_.wait_for(lock, seconds(left));
  }
  unload(lock, entry);
}

void Models::make_room(Lock& lock, const Entry& entry) {
  if (options_.memory == 0) return;
  const double deadline = seconds_now() + options_.wait_timeout;
  while (bytes_with(entry) > options_.memory) {
    if (Entry* oldest = next_to_go()) {
      unload(lock, *oldest);
      continue;
    }
    const auto is_pinned = [](const Entry& other) {
      return other.model != nullptr && other.source.pinned;
    };
    const size_t pinned = bytes_of(is_pinned);
    if (bytes_of([&](const Entry& other) { return is_pinned(other) || &other == &entry; }) >
        options_.memory)
      throw NoRoom(false,
                   "the model '{}' needs {} bytes of memory, the limit for all models is {}, and "
                   "pinned models use {}",
                   entry.card.id, entry.card.bytes, options_.memory, pinned);
    const double left = deadline - seconds_now();
    if (left <= 0)
      throw NoRoom(true,
                   "the model '{}' needs {} bytes of memory, which other models use for running "
                   "requests",
                   entry.card.id, entry.card.bytes);
    changed_.wait_for(lock, seconds(left));
  }
}

// Returns the loaded model that may be unloaded and whose last request ended first; null: none.
Models::Entry* Models::next_to_go() const {
  Entry* oldest = nullptr;
  for (const auto& entry : entries_) {
    const bool free = entry->model && entry->users == 0 && !entry->source.pinned;
    if (free && (oldest == nullptr || entry->used < oldest->used)) oldest = entry.get();
  }
  return oldest;
}

void Models::load(Lock& lock, Entry& entry, const std::function<void(size_t, size_t)>& progress) {
  lock.unlock();
  std::shared_ptr<ServedModel> model;
  LoadOptions options = entry.source.load;
  options.progress = progress;
  try {
    model = std::make_shared<ServedModel>(entry.card.id, entry.source.path, options,
                                          entry.source.scheduler);
  } catch (const std::bad_alloc&) {
    throw LoadFailure(ErrorKind::kLimit, false, "the model '{}' cannot be loaded: memory is short",
                      entry.card.id);
  } catch (const Error& error) {
    const bool changed = entry.changed || dynamic_cast<const FileChanged*>(&error) != nullptr;
    throw LoadFailure(error.kind(), changed, "the model '{}' cannot be loaded: {}", entry.card.id,
                      error.what());
  }
  lock.lock();
  entry.bytes = model->bytes();
  entry.card.bytes = entry.bytes.total();
  entry.model = std::move(model);
  entry.changed = false;
  entry.used = seconds_now();
  ++entry.loads;
}

// The file may have been replaced by a larger model since its header was read.
void Models::shrink(Lock& lock, const Entry& loaded) {
  while (options_.memory > 0 && used_bytes() > options_.memory) {
    Entry* oldest = next_to_go();
    if (oldest == nullptr || oldest == &loaded) return;
    unload(lock, *oldest);
  }
}

// Returns after the memory is free: waits for views of the model.
void Models::unload(Lock& lock, Entry& entry) {
  std::shared_ptr<ServedModel> model = std::move(entry.model);
  lock.unlock();
  while (model.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  model.reset();
  lock.lock();
}

Models::Lease Models::lease(Entry& entry) {
  ++entry.users;
  return {entry.model.get(), [this, &entry](ServedModel*) { release(entry); }};
}

void Models::release(Entry& entry) {
  const Lock lock(mutex_);
  --entry.users;
  entry.used = seconds_now();
  if (entry.keep_alive >= 0 && !entry.source.pinned && !watcher_.joinable() && !over_)
    watcher_ = std::thread([this] { watch(); });
  changed_.notify_all();
}

// Returns seconds_now() at which the model is unloaded; negative: it stays.
double Models::expiry(const Entry& entry) {
  const bool goes =
      entry.model && entry.users == 0 && !entry.source.pinned && entry.keep_alive >= 0;
  return goes ? entry.used + entry.keep_alive : -1;
}

void Models::watch() {
  Lock lock(mutex_);
  while (!over_) {
    Entry* first = nullptr;
    for (const auto& entry : entries_)
      if (expiry(*entry) >= 0 && (first == nullptr || expiry(*entry) < expiry(*first)))
        first = entry.get();
    const double left = first == nullptr ? 1e6 : expiry(*first) - seconds_now();
    if (left > 0 || changing_) {
      changed_.wait_for(lock, seconds(changing_ ? 1 : left));
      continue;
    }
    changing_ = true;
    unload(lock, *first);
    changing_ = false;
    changed_.notify_all();
  }
}

Models::View Models::view_of(const Entry& entry) {
  const double expires = expiry(entry);
  return {&entry.card,
          entry.model,
          entry.card.bytes,
          entry.users,
          entry.loads,
          entry.source.pinned,
          expires < 0 ? -1 : std::max(0.0, expires - seconds_now())};
}

std::vector<Models::View> Models::all() const {
  const Lock lock(mutex_);
  std::vector<View> views;
  for (const auto& entry : entries_) views.push_back(view_of(*entry));
  return views;
}

Models::View Models::view(std::string_view id) const {
  const Lock lock(mutex_);
  return view_of(entry_of(id));
}

}  // namespace veery::serve
