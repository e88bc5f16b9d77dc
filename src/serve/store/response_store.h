// response_store.h: stores responses of /v1/responses, which clients continue or fetch later.
#pragma once
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json.h"

namespace veery::serve {

/// Keeps the most recently used responses within a number of bytes. Safe to use from several
/// threads.
class ResponseStore {
 public:
  struct Stored {
    Json response;
    Json input;  ///< all items before it, including those of previous responses
  };

  /// Sets the limit; 0: nothing is stored.
  void set_limit(size_t bytes);
  /// Stores a response under its "id" and evicts the least recently used ones to make room.
  void put(const Stored& stored);
  std::optional<Stored> find(const std::string& id);
  /// Returns an item of any stored response by its "id".
  std::optional<Json> find_item(const std::string& id);
  /// Returns false if there is no such response.
  bool erase(const std::string& id);
  size_t bytes() const;

 private:
  struct Entry {
    std::string id, response, input;  ///< JSON as texts, so that their size is known
    size_t bytes() const { return id.size() + response.size() + input.size(); }
  };
  using Entries = std::list<Entry>;  ///< the most recently used first

  void drop(Entries::iterator entry);

  mutable std::mutex mutex_;
  size_t limit_ = size_t{64} << 20, bytes_ = 0;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
};

}  // namespace veery::serve
