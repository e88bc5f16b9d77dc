#include "cli/chat_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "cli/answer_printer.h"
#include "cli/cli.h"
#include "cli/output.h"

namespace veery::cli {
namespace {

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);
int wake_read = -1, wake_write = -1;  // a pipe: the handler ends the wait for a line through it

extern "C" void count_interrupt(int) {
  const int before = errno;
  interrupts.fetch_add(1);
  // A full pipe wakes just as well, so the result does not matter.
  [[maybe_unused]] const ssize_t written = ::write(wake_write, "", 1);
  errno = before;
}

// The pipe and not EINTR ends the wait: a signal may come just before the wait starts, or be
// handled by another thread.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    int ends[2];
    if (::pipe(ends) != 0)
      throw Error(ErrorKind::kIo, "cannot open a pipe: {}", std::strerror(errno));
    for (const int end : ends) {
      ::fcntl(end, F_SETFL, O_NONBLOCK);
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    wake_read = ends[0];
    wake_write = ends[1];
    struct sigaction action {};
    action.sa_handler = count_interrupt;
    sigaction(SIGINT, &action, &before_);
  }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;
  ~CatchInterrupts() {
    sigaction(SIGINT, &before_, nullptr);
    ::close(wake_read);
    ::close(wake_write);
  }

 private:
  struct sigaction before_ {};
};

/// Lines of standard input; none at its end or on Ctrl-C.
class LineReader {
 public:
  std::optional<std::string> next() {
    for (;;) {
      const size_t end = held_.find('\n');
      if (end != std::string::npos) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      if (!wait()) return std::nullopt;
      char buffer[4096];
      const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      held_.append(buffer, static_cast<size_t>(count));
    }
  }

 private:
  // False: interrupted. Bytes left in the pipe by an answer's Ctrl-C are drained and mean nothing.
  static bool wait() {
    for (;;) {
      pollfd waits[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_read, POLLIN, 0}};
      const int ready = ::poll(waits, 2, -1);
      if (ready < 0 && errno != EINTR) return false;
      char drained[64];
      while (::read(wake_read, drained, sizeof drained) > 0) {
      }
      if (interrupts.load() > 0) return false;
      if (ready > 0 && waits[0].revents != 0) return true;
    }
  }

  std::string held_;
};

/// A message: a line, and those after it while each ends in a backslash.
std::optional<std::string> read_message(LineReader& reader) {
  Output& out = standard_output();
  out.write("> ");
  out.flush();
  std::string message;
  for (;;) {
    auto line = reader.next();
    if (!line) return std::nullopt;
    message += *line;
    if (!message.ends_with('\\')) return message;
    message.back() = '\n';
    out.write(". ");
    out.flush();
  }
}

constexpr const char* kHelp =
    "/help   this list\n"
    "/reset  forget the conversation\n"
    "/exit   leave (also Ctrl-D)\n"
    "A backslash at the end of a line goes on with the next one. Ctrl-C stops an answer, a second "
    "one leaves.\n";

class ChatLoop {
 public:
  ChatLoop(Model& model, Chat chat, GenerateOptions options, bool quiet)
      : model_(model),
        chat_(std::move(chat)),
        options_(std::move(options)),
        quiet_(quiet),
        generator_(model) {
    options_.drop_first_space = !chat_.raw();
    if (!chat_.raw()) options_.marks = model.answer_format();
  }

  void run() {
    const CatchInterrupts catcher;
    LineReader reader;
    if (!quiet_) write_error("Type a message, or /help.\n");
    while (interrupts.exchange(0) < 2) {
      const auto message = read_message(reader);
      if (!message) break;
      if (message->empty()) continue;
      if (message->front() == '/' && command(*message)) continue;
      if (leave_) return;
      answer(*message);
    }
    out_.write("\n");
  }

 private:
  // True: nothing to answer.
  bool command(const std::string& line) {
    if (line == "/exit" || line == "/quit") {
      leave_ = true;
      return false;
    }
    if (line == "/reset") {
      chat_.reset();
    } else if (line != "/help") {
      write_error(fmt::format("'{}' is no command:\n{}", line, kHelp));
    } else {
      write_error(kHelp);
    }
    return true;
  }

  void answer(const std::string& message) {
    chat_.add_user(message);
    Generation result;
    ParsedAnswer parsed;
    try {
      AnswerParser parser = chat_.parser();
      AnswerPrinter printer(out_, isatty(STDOUT_FILENO) != 0);
      result = generator_.generate(chat_.prompt(), options_, [&](std::string_view text) {
        printer.print(parser.push(text));
        return interrupts.load() == 0;
      });
      printer.print(parser.finish());
      printer.end();
      parsed = parser.answer();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kLimit && error.kind() != ErrorKind::kInput) throw;
      chat_.drop_last();
      write_error(fmt::format("veery: {}; /reset forgets the conversation\n", error.what()));
      return;
    }
    if (chat_.raw())
      chat_.add_assistant(result.text);
    else
      chat_.add_assistant(parsed);
    ++options_.sampling.seed;
    out_.write("\n");
    out_.flush();
    if (!quiet_) write_error(summary_line(result, model_));
  }

  Model& model_;
  Chat chat_;
  GenerateOptions options_;
  bool quiet_;
  Generator generator_;
  Output& out_ = standard_output();
  bool leave_ = false;
};

}  // namespace

void chat_loop(Model& model, Chat chat, const GenerateOptions& options, bool quiet) {
  ChatLoop(model, std::move(chat), options, quiet).run();
}

std::string summary_line(const Generation& result, const Model& model) {
  const std::string reused =
      result.reused_tokens > 0 ? fmt::format(" (+{} cached)", result.reused_tokens) : "";
  const char* note = result.finish == FinishReason::kLength      ? ", length reached"
                     : result.finish == FinishReason::kCancelled ? ", stopped"
                                                                 : "";
  return fmt::format(
      "[prompt {} tokens{}, {:.1f} tok/s | answer {} tokens, {:.1f} tok/s{} | load {:.2f} s | peak "
      "memory {}]\n",
      result.prompt_tokens, reused, result.prompt_rate(), result.ids.size(), result.decode_rate(),
      note, model.load_seconds(), human_bytes(static_cast<double>(peak_memory())));
}

}  // namespace veery::cli
