// models.h: the models of a server, which are loaded on demand within a memory limit.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "serve/models/model_card.h"
#include "serve/models/path_names.h"
#include "serve/models/served_model.h"

namespace veery::serve {

/// The server has no model of this name.
class UnknownModel : public Error {
 public:
  using Error::Error;
};
/// The model does not fit into the memory: now, because other models are in use (`passing`), or
/// never.
class NoRoom : public Error {
 public:
  template <typename... Args>
  NoRoom(bool passing, fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::kLimit, format, std::forward<Args>(args)...), passing_(passing) {}
  bool passing() const { return passing_; }

 private:
  bool passing_;
};
/// A model could not be loaded. `passing`: its file changed while it was in use, and the model
/// works again once the file is complete.
class LoadFailure : public Error {
 public:
  template <typename... Args>
  LoadFailure(ErrorKind kind, bool passing, fmt::format_string<Args...> format, Args&&... args)
      : Error(kind, format, std::forward<Args>(args)...), passing_(passing) {}
  bool passing() const { return passing_; }

 private:
  bool passing_;
};

/// Seconds that a model stays loaded without requests; negative: for ever.
using KeepAlive = double;

struct ModelsOptions {
  /// Bytes of all loaded models, with their caches and the arenas that they share; 0: no limit.
  size_t memory = 0;
  KeepAlive keep_alive = -1;
  double wait_timeout = 30;  ///< seconds that a request waits until other models can be unloaded
};

/// Safe to use from several threads, except add(), which must come first.
class Models {
 public:
  /// A model in use. It stays loaded as long as the lease exists.
  using Lease = std::shared_ptr<ServedModel>;
  /// The state of one model.
  struct View {
    const ModelCard* card;
    Lease model;  ///< nullptr: not loaded. It stays loaded as long as the view exists.
    size_t bytes = 0;
    int64_t users = 0, loads = 0;
    bool pinned = false;
    double expires = -1;  ///< seconds until it is unloaded; negative: never
  };

  explicit Models(ModelsOptions options = {}) : options_(options) {}
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  void configure(const ModelsOptions& options) { options_ = options; }
  /// Reads the header of its file and fits the model into the memory. Models share the executor of
  /// the first one, unless they have another one. Throws as read_card() does, and NoRoom if the
  /// memory can never hold it.
  void add(ModelSource source);
  /// Whether the model can be loaded without unloading another one.
  bool fits(std::string_view id) const;
  /// Whether there is a model of exactly this id.
  bool has(std::string_view id) const;
  /// Returns the model of this id. An empty id means the first model; with a single model, any id
  /// means that one. Loads the model if necessary, also if its file has changed. Unloads the least
  /// recently used models and waits for memory if it must. `keep_alive` replaces the option until
  /// the next request for the model. Throws UnknownModel, NoRoom, LoadFailure.
  Lease find(std::string_view id, std::optional<KeepAlive> keep_alive = std::nullopt,
             const std::function<void(size_t, size_t)>& progress = nullptr);
  std::vector<View> all() const;
  /// Returns the state of one model, found by the rules of find(). Throws UnknownModel.
  View view(std::string_view id) const;
  bool empty() const { return entries_.empty(); }
  /// Returns a message for clients, with the ids of models instead of their paths.
  std::string without_paths(std::string_view message) const {
    return path_names_.without_paths(message);
  }

 private:
  struct Entry {
    ModelSource source;
    ModelCard card;
    ModelBytes bytes;  // those of `card`, by kind
    std::shared_ptr<ServedModel> model;
    KeepAlive keep_alive = -1;
    double used = 0;  // seconds_now() of the end of its last request
    int64_t users = 0, loads = 0;
    bool changed = false;  // its file has changed since it was loaded
  };
  using Lock = std::unique_lock<std::mutex>;

  Entry& entry_of(std::string_view id) const;
  static View view_of(const Entry& entry);
  size_t bytes_of(const std::function<bool(const Entry&)>& which) const;
  size_t used_bytes() const;
  size_t bytes_with(const Entry& entry) const;
  static bool is_ready(Entry& entry);
  void unload_changed(Lock& lock, Entry& entry, double deadline);
  void make_room(Lock& lock, const Entry& entry);
  void load(Lock& lock, Entry& entry, const std::function<void(size_t, size_t)>& progress);
  void shrink(Lock& lock, const Entry& loaded);
  void unload(Lock& lock, Entry& entry);
  Lease lease(Entry& entry);
  void release(Entry& entry);
  Entry* next_to_go() const;
  static double expiry(const Entry& entry);
  void watch();

  ModelsOptions options_;
  std::shared_ptr<Executor> executor_;
  std::vector<std::unique_ptr<Entry>> entries_;
  PathNames path_names_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool changing_ = false;  // a thread loads or unloads a model: one at a time
  bool over_ = false;
  std::thread watcher_;  // unloads models at the end of their keep_alive
};

}  // namespace veery::serve
