#include "engine/verify/report.h"

#include <fmt/format.h>

namespace veery {

std::string_view name(CheckState state) {
  constexpr std::string_view kNames[] = {"ok", "warn", "fail", "skipped"};
  return kNames[static_cast<size_t>(state)];
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
