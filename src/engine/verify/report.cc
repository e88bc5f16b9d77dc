#include "engine/verify/report.h"

#include <fmt/format.h>

namespace veery {

std::string_view name(CheckState state) {
  switch (state) {
    case CheckState::kOk: return "ok";
    case CheckState::kWarn: return "warn";
    case CheckState::kFail: return "fail";
    case CheckState::kSkipped: return "skipped";
  }
  return "unknown";
}

std::string some_of(std::span<const std::string> names, size_t shown) {
  std::string text;
  for (size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > shown)
    text +=
        fmt::format(" and {} other{}", names.size() - shown, names.size() > shown + 1 ? "s" : "");
  return text;
}

}  // namespace veery
