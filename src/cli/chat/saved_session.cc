#include "cli/chat/saved_session.h"

#include <algorithm>

#include "base/untrusted_file.h"

namespace veery::cli {

SavedSession::SavedSession(Scheduler& scheduler, const std::optional<std::string>& path)
    : scheduler_(scheduler), path_(path) {
  if (path_ && path_exists(*path_)) saved_ = scheduler_.load(*path_);
}

Json SavedSession::messages() const {
  if (saved_.note.empty()) return Json::array();
  return parse_json(saved_.note, shown_path(*path_) + ": the conversation");
}

void SavedSession::save(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                        const Json& messages) {
  if (!path_) return;
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  if (ids.empty()) ids = saved_.ids;
  // The last token of a full context has not been evaluated.
  ids.resize(std::min(ids.size(), static_cast<size_t>(scheduler_.context())));
  scheduler_.save(ids, messages.is_null() ? saved_.note : dump_json(messages), *path_);
}

}  // namespace veery::cli
