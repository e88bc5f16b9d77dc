// models.h: the models that a server has, loaded when they are asked for, inside one memory.
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

/// No model is called so.
class UnknownModel : public Error {
 public:
  using Error::Error;
};
/// The memory is taken by models that answer at this moment (`passing`), or can never hold it.
class NoRoom : public Error {
 public:
  template <typename... Args>
  NoRoom(bool passing, fmt::format_string<Args...> format, Args&&... args)
      : Error(ErrorKind::kLimit, format, std::forward<Args>(args)...), passing_(passing) {}
  bool passing() const { return passing_; }

 private:
  bool passing_;
};
/// A model of the server could not be loaded. `passing`: its file changed while it was in use, and
/// the model works again once the file is whole.
class LoadFailure : public Error {
 public:
  template <typename... Args>
  LoadFailure(ErrorKind kind, bool passing, fmt::format_string<Args...> format, Args&&... args)
      : Error(kind, format, std::forward<Args>(args)...), passing_(passing) {}
  bool passing() const { return passing_; }

 private:
  bool passing_;
};

/// Seconds that a model without requests stays loaded; less than 0: for ever.
using KeepAlive = double;

struct ModelsOptions {
  size_t memory = 0;  ///< bytes for all loaded models, weights and caches; 0: no limit
  KeepAlive keep_alive = -1;
  double wait_timeout = 30;  ///< seconds that a request waits for others' models to be free
};

/// Safe to use from several threads, but for add(), which comes first.
class Models {
 public:
  /// A model that is in use: it stays loaded as long as somebody has it.
  using Lease = std::shared_ptr<ServedModel>;
  /// What to tell of one.
  struct View {
    const ModelCard* card;
    Lease model;  ///< nullptr: not loaded. It cannot be unloaded as long as the view is there
    size_t bytes = 0;
    int64_t users = 0, loads = 0;
    bool pinned = false;
    double expires = -1;  ///< seconds from now until it goes; less than 0: never
  };

  explicit Models(ModelsOptions options = {}) : options_(options) {}
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  void configure(const ModelsOptions& options) { options_ = options; }
  /// Reads the header of its file and fits the model into the memory. Throws as read_card(), NoRoom
  /// if the memory can never hold it.
  void add(ModelSource source);
  /// Whether it could be loaded without another one going.
  bool fits(std::string_view id) const;
  /// Whether there is one of exactly this id.
  bool has(std::string_view id) const;
  /// By id; if there is one model only, any name is its name, and empty is the first. Loads it, and
  /// again if its file has changed; unloads those that were not used for longest, and waits for
  /// memory if it must. `keep_alive` replaces the option for this model until the next request for
  /// it. Throws UnknownModel, NoRoom, LoadFailure.
  Lease find(std::string_view id, std::optional<KeepAlive> keep_alive = std::nullopt,
             const std::function<void(size_t, size_t)>& progress = nullptr);
  std::vector<View> all() const;
  /// One of them, by find()'s rules; it need not be loaded. Throws UnknownModel.
  View view(std::string_view id) const;
  bool empty() const { return entries_.empty(); }
  /// A message for clients: models by their names, not by the places of their files.
  std::string without_paths(std::string_view message) const {
    return path_names_.without_paths(message);
  }

 private:
  struct Entry {
    ModelSource source;
    ModelCard card;
    std::shared_ptr<ServedModel> model;
    KeepAlive keep_alive = -1;
    double used = 0;  // seconds_now() of the end of its last request
    int64_t users = 0, loads = 0;
    bool changed = false;  // its file, since it was last loaded
  };
  using Lock = std::unique_lock<std::mutex>;

  Entry& entry_of(std::string_view id) const;
  static View view_of(const Entry& entry);
  size_t used_bytes() const;
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
  std::vector<std::unique_ptr<Entry>> entries_;
  PathNames path_names_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool changing_ = false;  // somebody loads or unloads: one at a time
  bool over_ = false;
  std::thread watcher_;  // unloads what nobody asked for in its time
};

}  // namespace veery::serve
