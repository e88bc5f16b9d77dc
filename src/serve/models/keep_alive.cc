#include "serve/models/keep_alive.h"

#include <charconv>
#include <utility>

namespace veery::serve {
namespace {

// Removes a unit from the beginning of `text` and returns its seconds; 0: no unit. "ms" is tried
// before "m".
double take_unit(std::string_view& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [unit, seconds] : kUnits)
    if (text.starts_with(unit)) {
      text.remove_prefix(unit.size());
      return seconds;
    }
  return 0;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  const bool plain = text.find_first_not_of("0123456789.") == std::string_view::npos;
  double total = 0;
  while (!text.empty()) {
    double count = 0;
    const auto [end, code] =
        std::from_chars(text.data(), text.data() + text.size(), count, std::chars_format::fixed);
    if (code != std::errc() || text.front() == '-') return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const double unit = plain && text.empty() ? 1 : take_unit(text);
    if (unit == 0) return std::nullopt;
    total += count * unit;
  }
  return negative ? -total : total;
}

}  // namespace veery::serve
