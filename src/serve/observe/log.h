// log.h: the log of a server, one line for each event.
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
  LogLevel level = LogLevel::kInfo;  ///< less important lines are left out
  std::string file;                  ///< empty: standard error
  bool prompts = false;              ///< also log bodies of requests and texts of answers
};

using LogFields = std::vector<std::pair<std::string_view, Json>>;

/// Returns one line with its line end. `time`: milliseconds since 1970. Control characters of the
/// message and the values are escaped, so no value can look like another line. The text format is
/// "TIME LEVEL MESSAGE NAME=VALUE ..."; a value that is not a plain word stands in double quotes,
/// with backslash escapes.
std::string log_line(LogFormat format, int64_t time, LogLevel level, std::string_view message,
                     const LogFields& fields);

/// Returns the fields of the line of a request. `most_text`: bytes of the request's and of the
/// answer's text; of a longer text, the field "request_bytes" or "answer_bytes" has the length.
LogFields request_fields(const RequestRecord& record, size_t most_text = LoggedText::kMostBytes);

/// Queues lines for a thread that writes them. If the disk is full or nobody reads the pipe, lines
/// are lost and counted, and no request waits. Safe to use from several threads.
class Log {
 public:
  /// Throws kIo naming the file if it cannot be opened for appending.
  explicit Log(LogOptions options);
  /// Writes the queued lines, for at most a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void note(LogLevel level, std::string_view message, const LogFields& fields = {}) noexcept;
  /// Logs the end of a request: at level debug for the endpoints of monitors, error if the server
  /// failed, else info. If memory is short, logs that instead, with id and status. If the line
  /// would be longer than kMostLine, cuts the texts of request and answer.
  void request(const RequestRecord& record) noexcept;
  /// Opens the file anew, after somebody has moved it away. Does nothing without a file.
  void reopen();
  const LogOptions& options() const { return options_; }
  /// Returns the number of lines that could not be written.
  int64_t lost() const { return lost_; }

  static constexpr size_t kMostLine = size_t{4} << 20;  ///< bytes of the line of a request

 private:
  void push(std::string line);
  void note_short_memory(const RequestRecord& record) noexcept;
  void run();
  bool write(std::string_view text);
  void write_line(const std::string& line);
  bool stopped_for_long();

  LogOptions options_;
  std::optional<Descriptor> file_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::string> lines_;
  size_t bytes_ = 0;     // of lines_
  std::string spare_;    // a line for when memory is short, made without allocation; else empty
  std::string writing_;  // spare_ while it is written
  bool reopen_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> lost_{0};
  double stopped_ = 0;       // seconds_now() when stop_ was set
  bool torn_ = false;        // the last line was written in part
  int64_t lost_logged_ = 0;  // the part of lost_ that the log names
  std::thread thread_;
};

}  // namespace veery::serve
