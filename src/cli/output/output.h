// output.h: standard output with errors reported, standard error, the size of a terminal.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery::cli {

class Output {
 public:
  /// Buffers the text. Throws kIo naming the reason (disk full, pipe closed) if a write fails.
  void write(std::string_view text);
  /// Writes untrusted text of a model or file unchanged; on a terminal control characters are
  /// escaped, so that they have no effect.
  void untrusted(std::string_view text);
  /// Writes a line of a table or report, with control characters escaped.
  void line(std::string_view text);
  void json(const Json& value);
  /// Writes the buffered text. Must be called before the program ends. Throws as write() does.
  void flush();

 private:
  std::string held_;
};

Output& standard_output();

/// Writes notes and summaries to standard error. Errors are ignored.
void write_error(std::string_view text);

/// Returns the columns of the terminal at `descriptor`, at least 1; 80 if it is not a terminal or
/// its size is unknown.
int terminal_columns(int descriptor);

/// Returns "1.5 GB", "312.4 MB", ...: powers of ten.
std::string human_bytes(double bytes);

}  // namespace veery::cli
