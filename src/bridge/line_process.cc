#include "bridge/line_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

extern char** environ;

namespace veery {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr size_t kErrorTail = 4096;  // bytes of standard error that are searched for its last line
constexpr std::chrono::seconds kFarewell{2};

// Closes the ends that were not released.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorKind::kIo, "cannot open a pipe: {}", std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int fd : ends)
      if (fd >= 0) ::close(fd);
  }
  int release(size_t end) { return std::exchange(ends[end], -1); }
  int ends[2] = {-1, -1};
};

}  // namespace

LineProcess::LineProcess(const std::vector<std::string>& command) : name_(command.at(0)) {
  Pipe input, output;
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  error_ = ::memfd_create("stderr", MFD_CLOEXEC);
  if (error_ < 0)
    throw Error(ErrorKind::kIo, "cannot open a file in memory: {}", std::strerror(errno));
  in_ = input.release(1);
  out_ = output.release(0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error_, STDERR_FILENO);
  // The child gets the default signal handling, whatever this program blocks or ignores.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int code =
      ::posix_spawnp(&pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    pid_ = -1;
    for (const int fd : {in_, out_, error_}) ::close(fd);
    throw Error(ErrorKind::kIo, "{}: cannot start the program: {}", printable(name_, 200),
                std::strerror(code));
  }
}

LineProcess::~LineProcess() {
  end();
  for (const int fd : {in_, out_, error_})
    if (fd >= 0) ::close(fd);
}

// Closes the input of the program, which should make it end, and kills it if it does not.
void LineProcess::end() {
  if (pid_ <= 0) return;
  ::close(in_);
  in_ = -1;
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  pid_ = -1;
}

std::string LineProcess::last_error_line() const {
  const off_t size = ::lseek(error_, 0, SEEK_END);
  if (size <= 0) return "";
  std::string text(std::min<size_t>(static_cast<size_t>(size), kErrorTail), '\0');
  const ssize_t got =
      ::pread(error_, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

void LineProcess::fail(const std::string& what) {
  const std::string line = last_error_line();
  end();
  throw Error(ErrorKind::kIo, "{}: {}{}", printable(name_, 200), what,
              line.empty() ? "" : fmt::format("; its last error: {}", printable(line, 300)));
}

void LineProcess::write_line(const std::string& line) {
  if (pid_ <= 0) throw Error(ErrorKind::kIo, "{}: has ended", printable(name_, 200));
  const std::string whole = line + "\n";
  for (size_t at = 0; at < whole.size();) {
    const ssize_t written = ::write(in_, whole.data() + at, whole.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("does not read its input");
    at += static_cast<size_t>(written);
  }
}

std::string LineProcess::read_line(std::chrono::seconds timeout) {
  if (pid_ <= 0) throw Error(ErrorKind::kIo, "{}: has ended", printable(name_, 200));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kLongestLine)
      fail(fmt::format("a line of its output is longer than {} bytes", kLongestLine));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) fail(fmt::format("no output for {} seconds", timeout.count()));
    pollfd state{out_, POLLIN, 0};
    const int ready = ::poll(&state, 1, static_cast<int>(std::min<int64_t>(left.count(), 60000)));
    if (ready <= 0) continue;  // the timeout is checked above
    char part[65536];
    const ssize_t got = ::read(out_, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      buffer_.append(part, static_cast<size_t>(got));
      continue;
    }
    int status = 0;
    const int ended = ::waitpid(pid_, &status, 0);
    if (ended == pid_) pid_ = -1;
    fail(WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                             : fmt::format("ended with status {}", WEXITSTATUS(status)));
  }
}

}  // namespace veery
