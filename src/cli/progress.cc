#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "cli/output.h"

namespace veery::cli {
namespace {

constexpr int kWidth = 30;
constexpr double kDelay = 0.1;  // seconds without a bar: short jobs show none
constexpr double kInterval = 0.05;

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), enabled_(isatty(STDERR_FILENO) != 0), next_(seconds_now() + kDelay) {}

void Progress::show(double done, double all, const std::string& note) {
  if (!enabled_ || all <= 0) return;
  const double now = seconds_now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  const double part = std::clamp(done / all, 0.0, 1.0);
  const auto full = static_cast<size_t>(part * kWidth);
  write_error(fmt::format("\r\x1b[K{} [{}{}] {:3.0f} % {}", what_, std::string(full, '#'),
                          std::string(kWidth - full, '.'), part * 100, note));
}

void Progress::clear() {
  if (std::exchange(shown_, false)) write_error("\r\x1b[K");
}

}  // namespace veery::cli
