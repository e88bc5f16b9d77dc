// saved_session.h: `--session FILE`: what was computed and said, from one call of the program to
// the next.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "schedule/scheduler.h"

namespace veery::cli {

/// Does nothing without a file. The scheduler must outlive it.
class SavedSession {
 public:
  /// Reads the file if there is one. Throws as Scheduler::load().
  SavedSession(Scheduler& scheduler, const std::optional<std::string>& path);

  /// Of the conversation that the file holds; an empty array if there is none. Throws kFormat for
  /// what is no JSON.
  Json messages() const;

  /// Writes the tokens of an answer and what the caches hold of them; `messages`: the conversation,
  /// null: the one that was there. What was read stays if there was no answer.
  void save(std::span<const int32_t> prompt, std::span<const int32_t> answer,
            const Json& messages = nullptr);

 private:
  Scheduler& scheduler_;
  std::optional<std::string> path_;
  SavedSequence saved_;
};

}  // namespace veery::cli
