#include "cli/args/input.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output/output.h"

namespace veery::cli {
namespace {

// A pipe that nobody writes to must not make the program wait for ever.
constexpr int kWaitForInput = 5;  // seconds

}  // namespace

bool input_is_piped() {
  struct stat info = {};
  if (::fstat(STDIN_FILENO, &info) != 0) return false;
  if (S_ISREG(info.st_mode)) return true;
  if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode)) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kWaitForInput * 1000) != 0) return true;
  write_error(fmt::format(
      "veery: standard input delivered nothing for {} seconds and is left out (-f - waits for it, "
      "< /dev/null closes it)\n",
      kWaitForInput));
  return false;
}

std::string read_standard_input(const FileKind& kind) {
  return read_text(STDIN_FILENO, "standard input", kind);
}

std::string read_file(const std::string& path, const FileKind& kind) {
  return path == "-" ? read_standard_input(kind) : read_text(path, kind);
}

}  // namespace veery::cli
