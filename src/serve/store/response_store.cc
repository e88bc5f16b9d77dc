#include "serve/store/response_store.h"

namespace veery::serve {

void ResponseStore::set_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes();
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

void ResponseStore::put(const Stored& stored) {
  Entry entry{stored.response["id"].string(), dump_json(stored.response), dump_json(stored.input)};
  const std::lock_guard lock(mutex_);
  if (entry.bytes() > limit_) return;
  bytes_ += entry.bytes();
  entries_.push_front(std::move(entry));
  by_id_[entries_.front().id] = entries_.begin();
  while (bytes_ > limit_) drop(std::prev(entries_.end()));
}

std::optional<ResponseStore::Stored> ResponseStore::find(const std::string& id) {
  std::string response, input;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    response = found->second->response;
    input = found->second->input;
  }
  return Stored{parse_json(response, "a stored response"), parse_json(input, "stored items")};
}

std::optional<Json> ResponseStore::find_item(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const std::string quoted = dump_json(Json(id));
  const auto among = [&](const Json& items) -> const Json* {
    for (const Json& item : items)
      if (item.is_object() && item.value("id", Json()) == id) return &item;
    return nullptr;
  };
  for (const Entry& entry : entries_) {
    if (entry.response.find(quoted) != std::string::npos) {
      const Json response = parse_json(entry.response, "a stored response");
      if (const Json* found = among(response["output"])) return *found;
    }
    if (entry.input.find(quoted) == std::string::npos) continue;
    const Json input = parse_json(entry.input, "stored items");
    if (const Json* found = among(input)) return *found;
  }
  return std::nullopt;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace veery::serve
