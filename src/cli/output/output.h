// output.h: standard output that tells when it could not be written.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery::cli {

class Output {
 public:
  /// Throws kIo, naming the reason, when the system refuses (disk full, pipe closed).
  void write(std::string_view text);
  /// Text that a model or a file gave: as it is, but on a terminal with control sequences as
  /// escapes, so that they cannot act.
  void untrusted(std::string_view text);
  /// A line of a table or a report, with control sequences as escapes.
  void line(std::string_view text);
  void json(const Json& value);
  /// Must be called before the program ends; write() keeps what is little.
  void flush();

 private:
  std::string held_;
};

Output& standard_output();

/// For notes and summaries: trouble there is no failure.
void write_error(std::string_view text);

/// Columns of the terminal that a descriptor leads to, at least 1; 80 if it leads to none, or to
/// one that does not say.
int terminal_columns(int descriptor);

/// "1.5 GB", "312.4 MB": powers of ten.
std::string human_bytes(double bytes);

}  // namespace veery::cli
