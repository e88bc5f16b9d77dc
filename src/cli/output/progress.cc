#include "cli/output/progress.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/output/output.h"

namespace veery::cli {
namespace {

constexpr int kBar = 30, kShortestBar = 5;
constexpr double kDelay = 0.1, kInterval = 0.05;  // seconds

bool can_move_the_cursor() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && std::string_view(terminal ? terminal : "") != "dumb";
}

// Returns the longest prefix of `text` that fits into `columns` columns, and its width.
std::pair<std::string_view, int> first_columns(std::string_view text, int columns) {
  size_t at = 0;
  int used = 0;
  while (at < text.size()) {
    utf8proc_int32_t code = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    const int width = size > 0 ? utf8proc_charwidth(code) : 1;
    if (used + width > columns) break;
    used += width;
    at += size > 0 ? static_cast<size_t>(size) : 1;
  }
  return {text.substr(0, at), used};
}

int columns_of(std::string_view text) {
  return first_columns(text, static_cast<int>(text.size())).second;
}

// Returns the sequence that erases a line of `width` columns, which a terminal that became narrower
// may have wrapped.
std::string erased(int width) {
  const int rows_above = width == 0 ? 0 : (width - 1) / terminal_columns(STDERR_FILENO);
  return rows_above > 0 ? fmt::format("\r\x1b[{}A\x1b[J", rows_above) : "\r\x1b[K";
}

}  // namespace

std::string progress_line(std::string_view what, double part, std::string_view note, int columns) {
  const std::string share = fmt::format("{:3.0f} %", part * 100);
  const int words = columns_of(what) + 1 + columns_of(share);
  if (columns < columns_of(share)) return "";
  if (columns < words) return share;
  const int bar = std::min(kBar, columns - words - 3);
  if (bar < kShortestBar) return fmt::format("{} {}", what, share);
  const auto full = static_cast<size_t>(part * bar);
  std::string line = fmt::format("{} [{}{}] {}", what, std::string(full, '#'),
                                 std::string(static_cast<size_t>(bar) - full, '.'), share);
  const int left = columns - words - 3 - bar - 1;
  if (left > 0 && !note.empty()) line += fmt::format(" {}", first_columns(note, left).first);
  return line;
}

Progress::Progress(std::string what)
    : what_(std::move(what)), enabled_(can_move_the_cursor()), next_(seconds_now() + kDelay) {}

void Progress::show(double done, double all, const std::string& note) {
  if (!enabled_ || all <= 0) return;
  const double now = seconds_now();
  if (now < next_) return;
  next_ = now + kInterval;
  // Leaves the last column free: writing there may move the cursor to the next line.
  const std::string line = progress_line(what_, std::clamp(done / all, 0.0, 1.0), escaped(note),
                                         terminal_columns(STDERR_FILENO) - 1);
  const int before = std::exchange(width_, columns_of(line));
  if (before > 0 || width_ > 0) write_error(erased(before) + line);
}

void Progress::clear() {
  if (const int before = std::exchange(width_, 0); before > 0) write_error(erased(before));
}

}  // namespace veery::cli
