// saved_session.h: `--session FILE`: keeps KV cache and conversation between calls of the program.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "schedule/scheduler.h"

namespace veery::cli {

/// Does nothing without a path. The scheduler must outlive it.
class SavedSession {
 public:
  /// Loads the file if it exists. Throws as Scheduler::load() does.
  SavedSession(Scheduler& scheduler, const std::optional<std::string>& path);

  /// Returns the messages of the loaded conversation; an empty array if there is none. Throws
  /// kFormat for invalid JSON.
  Json messages() const;

  /// Saves the KV cache of prompt and answer; of the loaded tokens if both are empty. `messages`:
  /// the conversation; null: the loaded one.
  void save(std::span<const int32_t> prompt, std::span<const int32_t> answer,
            const Json& messages = nullptr);

 private:
  Scheduler& scheduler_;
  std::optional<std::string> path_;
  SavedSequence saved_;
};

}  // namespace veery::cli
