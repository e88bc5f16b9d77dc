// keep_alive.h: durations in the format of Ollama.
#pragma once
#include <optional>
#include <string_view>

namespace veery::serve {

/// Returns the seconds of "5m", "1h30m", "90s", "500ms" or a plain number of seconds ("300"), which
/// may be negative. Returns nothing for other texts.
std::optional<double> parse_duration(std::string_view text);

}  // namespace veery::serve
