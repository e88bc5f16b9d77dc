// keep_alive.h: durations as people and Ollama's clients write them.
#pragma once
#include <optional>
#include <string_view>

namespace veery::serve {

/// Seconds of "5m", "1h30m", "90s", "500ms", or of a plain number of seconds such as "300"; a '-'
/// in front makes it less than 0. Nothing for other texts.
std::optional<double> parse_duration(std::string_view text);

}  // namespace veery::serve
