// line_process.h: another program that is spoken with in lines.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace veery {

/// A child process: lines go to its standard input and come from its standard output; what it says
/// on standard error is kept for messages. It ends with this object.
class LineProcess {
 public:
  /// `command`: the program and its arguments, looked up in PATH. Throws kIo naming it.
  explicit LineProcess(const std::vector<std::string>& command);
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;
  ~LineProcess();

  /// With a line end. Throws kIo if the program has ended.
  void write_line(const std::string& line);
  /// The next line without its end. Throws kIo if the program ends first (with how, and the last
  /// line of what it said), if a line is longer than 1 MiB, or after `timeout`.
  std::string read_line(std::chrono::seconds timeout);
  bool running() const { return pid_ > 0; }

 private:
  [[noreturn]] void fail(const std::string& what);
  void end();
  std::string last_words() const;

  std::string name_;
  int pid_ = -1;
  int in_ = -1, out_ = -1, said_ = -1;  // its standard input, output and, a file, error
  std::string buffer_;
};

}  // namespace veery
