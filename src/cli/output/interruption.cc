#include "cli/output/interruption.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "cli/output/output.h"
#include "file/output/pending_outputs.h"

namespace veery::cli {
namespace {

constexpr unsigned char kNoSignal = 0;

std::atomic<int> to_watcher{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void tell_watcher(int signal) {
  const int before = errno;
  const auto number = static_cast<unsigned char>(signal);
  // If the pipe is full, the watcher has been woken already.
  [[maybe_unused]] const ssize_t written = ::write(to_watcher.load(), &number, 1);
  errno = before;
}

// A signal handler may not lock, so a thread of its own removes the files and ends the program.
void watch(int from) {
  unsigned char number = kNoSignal;
  while (::read(from, &number, 1) < 0 && errno == EINTR) {
  }
  if (number == kNoSignal) return;
  discard_pending_outputs();
  if (::isatty(STDERR_FILENO) != 0) write_error("\n");
  ::_exit(128 + number);
}

}  // namespace

Interruption::Interruption() {
  if (::pipe2(ends_, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kIo, "cannot open a pipe: {}", std::strerror(errno));
  ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
  to_watcher = ends_[1];
  watcher_ = std::thread(watch, ends_[0]);
  struct sigaction action {};
  action.sa_handler = tell_watcher;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  [[maybe_unused]] const ssize_t written = ::write(ends_[1], &kNoSignal, 1);
  watcher_.join();
  for (const int end : ends_) ::close(end);
}

}  // namespace veery::cli
