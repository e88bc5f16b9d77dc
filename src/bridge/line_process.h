// line_process.h: a child process that exchanges lines of text.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace veery {

/// A child process. Lines are written to its standard input and read from its standard output; its
/// standard error is kept for error messages. The destructor ends the process.
class LineProcess {
 public:
  /// `command`: the program, which is looked up in PATH, and its arguments. Throws kIo naming the
  /// program if it cannot be started.
  explicit LineProcess(const std::vector<std::string>& command);
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;
  ~LineProcess();

  /// Writes `line` and a line end. Throws kIo if the program has ended.
  void write_line(const std::string& line);
  /// Returns the next line without its end. Throws kIo if the program ends first (with its status
  /// and the last line of its standard error), if a line is longer than 1 MiB, or after `timeout`.
  std::string read_line(std::chrono::seconds timeout);
  bool running() const { return pid_ > 0; }

 private:
  [[noreturn]] void fail(const std::string& what);
  void end();
  std::string last_error_line() const;

  std::string name_;
  int pid_ = -1;
  int in_ = -1, out_ = -1;  // pipes to its standard input and output
  int error_ = -1;          // a file in memory: its standard error
  std::string buffer_;
};

}  // namespace veery
