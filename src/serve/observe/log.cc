#include "serve/observe/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace veery::serve {
namespace {

constexpr size_t kMostBytes = size_t{8} << 20;  // of queued lines
constexpr size_t kPipePiece = 4096;             // POSIX: a pipe that is ready takes these bytes
constexpr double kFarewellSeconds = 1;          // for the queued lines when the log is destroyed
constexpr size_t kLongestPath = 400, kLongestError = 4000;
constexpr size_t kSpareLine = 512;  // bytes of the line for when memory is short

const char* word(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

// Writes `before` and the time, at most 64 bytes, and returns the end. Allocates nothing.
char* write_time(char* out, std::string_view before, int64_t time) {
  constexpr size_t kMost = 64;
  const std::time_t whole = time / 1000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format_to_n(out, kMost, "{}{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", before,
                          parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                          parts.tm_min, parts.tm_sec, time % 1000)
      .out;
}

std::string time_text(int64_t time) {
  std::array<char, 64> text{};
  return {text.data(), write_time(text.data(), {}, time)};
}

bool is_word(std::string_view text) {
  constexpr std::string_view kOthers = "_-./:@+*%,;~!?[]()";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != kOthers.npos;
  });
}

std::string value_text(const Json& value) {
  if (!value.is_string()) return dump_json(value);
  if (is_word(value.string())) return value.string();
  std::string text = "\"";
  for (const char c : escaped(value.string())) text += c == '"' ? "\\\"" : std::string(1, c);
  return text + '"';
}

int64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

// Non-blocking: opening a named pipe without a reader fails, one with a slow reader loses lines.
Descriptor open_log(const std::string& path) {
  constexpr mode_t kMode = 0640;
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
  if (fd < 0)
    throw Error(ErrorKind::kIo, "{}: cannot open the log: {}", shown_path(path),
                std::strerror(errno));
  return Descriptor(fd);
}

}  // namespace

std::string log_line(LogFormat format, int64_t time, LogLevel level, std::string_view message,
                     const LogFields& fields) {
  if (format == LogFormat::kJson) {
    Json line = {
        {"time", time_text(time)}, {"level", word(level)}, {"message", valid_utf8(message)}};
    for (const auto& [name, value] : fields)
      line[std::string(name)] = value.is_string() ? Json(valid_utf8(value.string())) : value;
    return printable_json(dump_json(line)) + '\n';
  }
  std::string line =
      fmt::format("{} {} {}", time_text(time), word(level), printable(message, kLongestError));
  for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, value_text(value));
  return line + '\n';
}

LogFields request_fields(const RequestRecord& record, size_t most_text) {
  LogFields fields = {{"id", record.id}, {"client", record.client}};
  if (!record.key.empty()) fields.emplace_back("key", record.key);
  fields.emplace_back("method", record.method.substr(0, 40));
  if (!record.route.empty()) fields.emplace_back("route", record.route);
  if (record.route != record.path) fields.emplace_back("path", record.path.substr(0, kLongestPath));
  fields.emplace_back("status", record.status);
  fields.emplace_back("bytes", record.bytes);
  if (!record.model.empty()) fields.emplace_back("model", record.model);
  if (record.prompt_tokens > 0 || record.answer_tokens > 0) {
    fields.emplace_back("prompt_tokens", record.prompt_tokens);
    fields.emplace_back("cached_tokens", record.cached_tokens);
    fields.emplace_back("answer_tokens", record.answer_tokens);
  }
  if (record.first_token >= 0)
    fields.emplace_back("first_token_ms", milliseconds(record.first_token));
  fields.emplace_back("total_ms", milliseconds(record.seconds));
  if (!record.finish.empty()) fields.emplace_back("finish", record.finish);
  if (!record.error.empty()) fields.emplace_back("error", record.error.substr(0, kLongestError));
  const auto add_text = [&](std::string_view name, std::string_view size_name,
                            const LoggedText& text) {
    std::string shown = text.text().substr(0, most_text);
    if (shown.size() < text.bytes()) fields.emplace_back(size_name, text.bytes());
    fields.emplace_back(name, std::move(shown));
  };
  if (record.keeps_texts) {
    add_text("request", "request_bytes", record.request_text);
    add_text("answer", "answer_bytes", record.answer_text);
  }
  return fields;
}

Log::Log(LogOptions options) : options_(std::move(options)) {
  if (!options_.file.empty()) file_ = open_log(options_.file);
  spare_.reserve(kSpareLine);
  writing_.reserve(kSpareLine);
  thread_ = std::thread([this] { run(); });
}

Log::~Log() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = seconds_now();
    stop_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

void Log::note(LogLevel level, std::string_view message, const LogFields& fields) noexcept {
  if (level > options_.level) return;
  try {
    push(log_line(options_.format, milliseconds_now(), level, message, fields));
  } catch (const std::exception&) {
    ++lost_;  // memory is short
  }
}

void Log::request(const RequestRecord& record) noexcept {
  const bool failed = record.status >= 500 || !record.error.empty();
  const bool monitor = record.route == "/metrics" || record.route.ends_with("/health");
  // Monitors send a request every few seconds, also while models are loading (503).
  const LogLevel level = monitor ? LogLevel::kDebug : failed ? LogLevel::kError : LogLevel::kInfo;
  if (level > options_.level) return;
  try {
    std::string line;
    size_t most = LoggedText::kMostBytes;
    do {  // escapes make a text up to six times as long
      line = log_line(options_.format, milliseconds_now(), level, "request",
                      request_fields(record, most));
      most /= 2;
    } while (line.size() > kMostLine && record.keeps_texts && most > 0);
    push(std::move(line));
  } catch (const std::exception&) {
    note_short_memory(record);
  }
}

// Allocates nothing. The id of a request needs no escapes (request_id()).
void Log::note_short_memory(const RequestRecord& record) noexcept {
  const int64_t time = milliseconds_now();
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      ++lost_;
      return;
    }
    spare_.resize(kSpareLine);
    const bool json = options_.format == LogFormat::kJson;
    char* end = write_time(spare_.data(), json ? "{\"time\":\"" : "", time);
    const auto room = static_cast<size_t>(spare_.data() + kSpareLine - end);
    end = json ? fmt::format_to_n(end, room,
                                  "\",\"level\":\"error\",\"message\":\"memory is short\","
                                  "\"id\":\"{}\",\"status\":{}}}\n",
                                  record.id, record.status)
                     .out
               : fmt::format_to_n(end, room, " error memory is short id={} status={}\n", record.id,
                                  record.status)
                     .out;
    spare_.resize(static_cast<size_t>(end - spare_.data()));
  }
  ready_.notify_one();
}

void Log::reopen() {
  {
    const std::lock_guard lock(mutex_);
    reopen_ = true;
  }
  ready_.notify_one();
}

void Log::push(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes_ + line.size() > kMostBytes) {
      ++lost_;
      return;
    }
    bytes_ += line.size();
    lines_.push_back(std::move(line));
  }
  ready_.notify_one();
}

void Log::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.wait(lock, [&] { return stop_ || reopen_ || !lines_.empty() || !spare_.empty(); });
    const bool opens = std::exchange(reopen_, false) && file_;
    if (stop_ && ((lines_.empty() && spare_.empty()) || stopped_for_long())) return;
    writing_.clear();
    writing_.swap(spare_);
    std::string line;
    if (!lines_.empty()) {
      line = std::move(lines_.front());
      lines_.pop_front();
      bytes_ -= line.size();
    }
    lock.unlock();
    try {
      if (opens) file_ = open_log(options_.file);
    } catch (const std::exception& error) {  // the old file stays open
      note(LogLevel::kError, error.what());
    }
    if (!writing_.empty() && !write(writing_)) ++lost_;
    if (!line.empty()) write_line(line);
    lock.lock();
  }
}

void Log::write_line(const std::string& line) {
  const int64_t lost = lost_;
  if (lost > lost_logged_) try {
      const std::string note =
          log_line(options_.format, milliseconds_now(), LogLevel::kWarn,
                   fmt::format("{} lines of the log were lost", lost - lost_logged_), {});
      if (write(note)) lost_logged_ = lost;
    } catch (const std::exception&) {  // memory is short: the next line tries again
    }
  if (!write(line)) ++lost_;
}

bool Log::stopped_for_long() { return stop_ && seconds_now() > stopped_ + kFarewellSeconds; }

// Returns false if not all of it was written. Allocates nothing.
bool Log::write(std::string_view text) {
  if (std::exchange(torn_, false) && !write("\n")) {
    torn_ = true;
    return false;
  }
  const int fd = file_ ? file_->get() : STDERR_FILENO;
  for (size_t done = 0; done < text.size();) {
    pollfd state{fd, POLLOUT, 0};
    if (poll(&state, 1, 100) == 0) {
      if (!stopped_for_long()) continue;
      torn_ = done > 0;
      return false;
    }
    const ssize_t count = ::write(fd, text.data() + done, std::min(text.size() - done, kPipePiece));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) {
      torn_ = done > 0;
      return false;
    }
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace veery::serve
