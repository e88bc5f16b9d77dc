#include "cli/editor/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace veery::cli {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr char kCtrlC = 3;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

// State of the signal handlers, set before they are installed.
termios found, wanted;
int drawn_on = -1, wake_read = -1, wake_write = -1;
bool marks_pastes = false;
std::atomic<int> interrupts{0};
std::atomic<bool> answering{false}, resized{false}, resumed{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
struct sigaction before[std::size(kSignals)];

void put(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(drawn_on, text.data(), text.size());
}

void take() {
  tcsetattr(STDIN_FILENO, TCSANOW, &wanted);
  if (marks_pastes) put(kPasteOn);
}

void give_back() {
  if (marks_pastes) put(kPasteOff);
  tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

void handle(int signal);

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_NODEFER) | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void raise_as_default(int signal) {
  give_back();
  install(signal, SIG_DFL);
  raise(signal);  // stops or ends the program
}

void handle(int signal) {
  const int error = errno;
  switch (signal) {
    case SIGINT:
      if (interrupts.fetch_add(1) >= 2 && answering) raise_as_default(signal);
      break;
    case SIGWINCH: resized = true; break;
    case SIGCONT:
      // In the background the terminal belongs to another program.
      if (tcgetpgrp(STDIN_FILENO) == getpgrp()) take();
      resumed = true;
      break;
    case SIGTSTP:
      raise_as_default(signal);
      install(signal, handle);
      break;
    default: raise_as_default(signal);
  }
  [[maybe_unused]] const ssize_t written =
      ::write(wake_write, "", 1);  // a full pipe wakes wait() too
  errno = error;
}

// A pipe ends the wait, since EINTR does not if a signal arrives just before poll() or is handled
// by another thread.
void open_wake_pipe() {
  int ends[2];
  if (::pipe(ends) != 0)
    throw Error(ErrorKind::kIo, "cannot open a pipe: {}", std::strerror(errno));
  for (const int end : ends) {
    ::fcntl(end, F_SETFL, O_NONBLOCK);
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
  wake_read = ends[0];
  wake_write = ends[1];
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool moves_cursor(int descriptor) { return isatty(descriptor) != 0 && variable("TERM") != "dumb"; }

bool shows_styles(int descriptor) {
  return cli::moves_cursor(descriptor) && variable("NO_COLOR").empty();
}

Terminal::Terminal()
    : output_(isatty(STDOUT_FILENO) != 0 ? STDOUT_FILENO : STDERR_FILENO),
      moves_cursor_(cli::moves_cursor(output_)),
      shows_styles_(cli::shows_styles(output_)) {
  if (tcgetattr(STDIN_FILENO, &found) != 0)
    throw Error(ErrorKind::kIo, "cannot read the modes of the terminal: {}", std::strerror(errno));
  echoes_ = (found.c_lflag & static_cast<tcflag_t>(ECHO)) != 0;
  open_wake_pipe();
  drawn_on = output_;
  marks_pastes = moves_cursor_;
  interrupts = 0;
  wanted = found;
  wanted.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP);
  wanted.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  wanted.c_cc[VMIN] = 1;
  wanted.c_cc[VTIME] = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    const bool ignored = before[i].sa_handler == SIG_IGN && kSignals[i] != SIGINT;
    if (!ignored) install(kSignals[i], handle);
  }
  begin_answering();
  take();
}

Terminal::~Terminal() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
  give_back();
  ::close(wake_read);
  ::close(wake_write);
}

void Terminal::begin_editing() {
  answering = false;
  wanted.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  wanted.c_iflag &= ~static_cast<tcflag_t>(IXON);
  tcsetattr(STDIN_FILENO, TCSANOW, &wanted);
}

void Terminal::begin_answering() {
  answering = true;
  wanted.c_lflag |= found.c_lflag & static_cast<tcflag_t>(ISIG);
  wanted.c_iflag |= found.c_iflag & static_cast<tcflag_t>(IXON);
  tcsetattr(STDIN_FILENO, TCSANOW, &wanted);
}

int Terminal::take_interrupts() { return interrupts.exchange(0); }

bool Terminal::interrupted() {
  pollfd waits = {STDIN_FILENO, POLLIN, 0};
  char buffer[1 << 12];
  while (::poll(&waits, 1, 0) > 0) {
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count <= 0) break;
    ahead_.append(buffer, static_cast<size_t>(count));
  }
  // Ctrl-C pressed just before the answer began is a byte, not a signal.
  if (const size_t last = ahead_.rfind(kCtrlC); last != std::string::npos) {
    interrupts += static_cast<int>(std::count(ahead_.begin(), ahead_.end(), kCtrlC));
    ahead_.erase(0, last + 1);
  }
  return interrupts > 0;
}

TerminalSize Terminal::size() const {
  winsize size{};
  if (ioctl(output_, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {24, 80};
  return {size.ws_row, size.ws_col};
}

void Terminal::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t count = ::write(output_, text.data(), text.size());
    if (count < 0 && errno != EINTR)
      throw Error(ErrorKind::kIo, "the terminal: {}", std::strerror(errno));
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

Terminal::Event Terminal::wait(std::string& bytes, int milliseconds) {
  for (;;) {
    if (interrupts.exchange(0) > 0) return Event::kInterrupt;
    if (resumed.exchange(false)) return Event::kResumed;
    if (resized.exchange(false)) return Event::kResized;
    if (!ahead_.empty()) {
      bytes += std::exchange(ahead_, {});
      return Event::kBytes;
    }
    pollfd waits[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_read, POLLIN, 0}};
    const int ready = ::poll(waits, 2, milliseconds);
    if (ready < 0 && errno != EINTR) return Event::kEnd;
    if (ready == 0) return Event::kTimeout;
    char buffer[1 << 14];
    while (::read(wake_read, buffer, sizeof buffer) > 0) {
    }
    if (ready < 0 || waits[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Event::kEnd;
    bytes.append(buffer, static_cast<size_t>(count));
    return Event::kBytes;
  }
}

void Terminal::suspend() { raise(SIGTSTP); }

}  // namespace veery::cli
