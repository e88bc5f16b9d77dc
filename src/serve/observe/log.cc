#include "serve/observe/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
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

constexpr size_t kMostBytes = size_t{8} << 20;  // of lines that wait
constexpr size_t kPipePiece = 4096;             // POSIX: a pipe that is ready takes so many bytes
constexpr double kFarewellSeconds = 1;
constexpr size_t kLongestPath = 400, kLongestError = 4000, kLongestText = size_t{1} << 20;

const char* word(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

std::string time_text(int64_t time) {
  const std::time_t whole = time / 1000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     time % 1000);
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

// Not blocking: a named pipe without a reader is refused, one with a slow reader loses lines.
Descriptor open_log(const std::string& path) {
  constexpr mode_t kMode = 0640;
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
  if (fd < 0)
    throw Error(ErrorKind::kIo, "{}: cannot be opened for a log: {}", shown_path(path),
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

LogFields request_fields(const RequestRecord& record) {
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
  if (record.keeps_texts) {
    fields.emplace_back("request", record.request_text.substr(0, kLongestText));
    fields.emplace_back("answer", record.answer_text.substr(0, kLongestText));
  }
  return fields;
}

Log::Log(LogOptions options) : options_(std::move(options)) {
  if (!options_.file.empty()) file_ = open_log(options_.file);
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
    ++lost_;  // no memory for it
  }
}

void Log::request(const RequestRecord& record) noexcept {
  const bool failed = record.status >= 500 || !record.error.empty();
  const bool monitor = record.route == "/metrics" || record.route.ends_with("/health");
  // A monitor asks every few seconds, also while models are loading (503).
  const LogLevel level = monitor ? LogLevel::kDebug : failed ? LogLevel::kError : LogLevel::kInfo;
  if (level > options_.level) return;
  try {
    note(level, "request", request_fields(record));
  } catch (const std::exception&) {
    ++lost_;
  }
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
    ready_.wait(lock, [&] { return stop_ || reopen_ || !lines_.empty(); });
    const bool opens = std::exchange(reopen_, false) && file_;
    if (stop_ && (lines_.empty() || stopped_for_long())) return;
    std::string line;
    if (!lines_.empty()) {
      line = std::move(lines_.front());
      lines_.pop_front();
      bytes_ -= line.size();
    }
    lock.unlock();
    try {
      if (opens) file_ = open_log(options_.file);
    } catch (const std::exception& error) {  // the old one goes on
      note(LogLevel::kError, error.what());
    }
    if (!line.empty()) write_line(line);
    lock.lock();
  }
}

void Log::write_line(const std::string& line) {
  const int64_t lost = lost_;
  if (lost > lost_told_) {
    const std::string told =
        log_line(options_.format, milliseconds_now(), LogLevel::kWarn,
                 fmt::format("{} lines of the log were lost", lost - lost_told_), {});
    if (write(told)) lost_told_ = lost;
  }
  if (!write(line)) ++lost_;
}

bool Log::stopped_for_long() { return stop_ && seconds_now() > stopped_ + kFarewellSeconds; }

// False: not all of it was written.
bool Log::write(std::string_view text) {
  const int fd = file_ ? file_->get() : STDERR_FILENO;
  const std::string whole =
      std::exchange(torn_, false) ? "\n" + std::string(text) : std::string(text);
  for (size_t done = 0; done < whole.size();) {
    pollfd state{fd, POLLOUT, 0};
    if (poll(&state, 1, 100) == 0) {
      if (!stopped_for_long()) continue;
      torn_ = done > 0;
      return false;
    }
    const ssize_t count =
        ::write(fd, whole.data() + done, std::min(whole.size() - done, kPipePiece));
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
