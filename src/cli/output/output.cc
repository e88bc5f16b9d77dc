#include "cli/output/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"

namespace veery::cli {
namespace {

constexpr size_t kHeld = size_t{1} << 16;

/// Returns false with errno set if a write fails.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

void Output::write(std::string_view text) {
  held_ += text;
  if (held_.size() >= kHeld) flush();
}

void Output::untrusted(std::string_view text) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  write(is_terminal ? terminal_text(text) : std::string(text));
}

void Output::line(std::string_view text) {
  write(terminal_text(text));
  write("\n");
}

void Output::json(const Json& value) {
  write(printable_json(dump_json(value)));
  write("\n");
}

void Output::flush() {
  const std::string text = std::exchange(held_, {});
  if (!write_all(STDOUT_FILENO, text))
    throw Error(ErrorKind::kIo, "standard output: {}", std::strerror(errno));
}

Output& standard_output() {
  static Output output;
  return output;
}

void write_error(std::string_view text) { write_all(STDERR_FILENO, text); }

int terminal_columns(int descriptor) {
  constexpr int kUsual = 80;
  winsize size = {};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace veery::cli
