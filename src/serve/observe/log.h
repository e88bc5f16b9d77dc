// log.h: what a server tells those who run it, a line for each event.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/untrusted_file.h"
#include "serve/observe/request_record.h"

namespace veery::serve {

enum class LogLevel { kError, kWarn, kInfo, kDebug };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;  ///< what is less important is left out
  std::string file;                  ///< empty: standard error
  bool prompts = false;              ///< bodies of requests and texts of answers too
};

using LogFields = std::vector<std::pair<std::string_view, Json>>;

/// One line with its end. `time`: milliseconds since 1970. No control character of `message` or of
/// a value is in it as it is, so no value can look like another line. Text: "TIME LEVEL MESSAGE
/// NAME=VALUE ...", values in double quotes with backslash escapes where they are no plain words.
std::string log_line(LogFormat format, int64_t time, LogLevel level, std::string_view message,
                     const LogFields& fields);

/// What is told of a request that is over.
LogFields request_fields(const RequestRecord& record);

/// Lines are written by a thread of its own: a disk that is full or a pipe that nobody reads costs
/// lines, which are counted, and holds up no request. Safe to use from several threads.
class Log {
 public:
  /// Throws kIo naming the file if it cannot be opened for appending.
  explicit Log(LogOptions options);
  /// Writes the lines that wait, for a second at most.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void note(LogLevel level, std::string_view message, const LogFields& fields = {}) noexcept;
  /// The access line: at level debug for what monitors ask, error if the server failed, else info.
  void request(const RequestRecord& record) noexcept;
  /// Opens the file anew, which somebody may have moved away. Does nothing without a file.
  void reopen();
  const LogOptions& options() const { return options_; }
  /// Lines that could not be written.
  int64_t lost() const { return lost_; }

 private:
  void push(std::string line);
  void run();
  bool write(std::string_view text);
  void write_line(const std::string& line);
  bool stopped_for_long();

  LogOptions options_;
  std::optional<Descriptor> file_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::string> lines_;
  size_t bytes_ = 0;  // of lines_
  bool reopen_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> lost_{0};
  double stopped_ = 0;     // seconds_now() of stop_
  bool torn_ = false;      // the last line was written in part
  int64_t lost_told_ = 0;  // of lost_, told in the log
  std::thread thread_;
};

}  // namespace veery::serve
