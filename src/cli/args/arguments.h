// arguments.h: the command line of one verb: which words are flags, which are values, and what is
// wrong with them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace veery::cli {

/// Thrown when a command line is not what its verb expects.
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// "FLAG: MESSAGE".
  Misuse(const std::string& flag, const std::string& message)
      : std::runtime_error(flag + ": " + message) {}
};

/// Returns what `read` makes of the value of `flag`. An Error of kInput or kFormat becomes a
/// Misuse.
template <typename Read>
decltype(auto) read_value(const std::string& flag, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput && error.kind() != ErrorKind::kFormat) throw;
    throw Misuse(flag, error.what());
  }
}

/// Thrown by a verb that has said all: how the program ends.
struct Status {
  int value;
};

/// A flag or argument of a verb, while the verb says what it is. A reference: its Arguments must
/// outlive it.
class Option {
 public:
  /// What the help calls its value; "": nothing.
  Option type_name(const std::string& name) const;
  /// The heading above it in the help.
  Option group(const std::string& name) const;
  Option required() const;
  /// It is given only together with `other`, or only without it.
  Option needs(const Option& other) const;
  Option excludes(const Option& other) const;
  /// Its value is a number in decimal digits, nothing before or behind it, within the range. The
  /// message says the range, the help does not.
  Option whole_number(int64_t low, int64_t high) const;
  Option real_number(double low, double high) const;
  /// The help tells the value that the variable has now.
  Option show_default() const;
  /// '' is a value; that of other options must not be empty.
  Option allow_empty() const;
  /// The values that it may have, where they can be listed: shells complete them.
  Option choices(std::vector<std::string> words) const;
  /// Its value is the name of a file: shells complete folders and files with one of these
  /// extensions, written without dot; all files if there are none.
  Option files(std::vector<std::string> extensions = {}) const;
  /// Its value is a model: shells complete names of `veery list`, GGUF files and folders.
  Option models() const;
  /// The flag may stand without a value, which is `word` then. The next word is its value only if
  /// it is one of choices(); any other value follows a '='.
  Option value_if_absent(std::string word) const;
  /// The function gets the value wherever one is given, not only the last one.
  Option trigger_on_parse() const;

 private:
  friend class Arguments;
  struct State;
  explicit Option(State& state) : state_(&state) {}

  State* state_;
};

/// What a verb says of one of its options.
struct OptionDescription {
  std::vector<std::string> names;  ///< with their dashes
  bool positional = false;         ///< its value may also stand alone
  std::string type_name;           ///< what the help calls its value; empty: nothing, or a flag
  std::string help;
  bool repeats = false;  ///< each of several values counts
  std::vector<std::string> choices;
  bool files = false, models = false;  ///< Option::files(), Option::models()
  std::vector<std::string> extensions;
};

/// The command line of one verb, in the look that all share.
///
/// A word that begins with "--" is a flag, its value the next word, whatever that looks like, or
/// what stands behind a '='. A word of one dash and one letter is the same; a number may stand
/// right behind it (-n5). Words of one dash and several letters are flags only where their whole
/// spelling is known (-sys): they are never taken for a letter with its value. Of a flag that is
/// given twice the last one counts, unless it is one for several values. Behind "--" no word is a
/// flag.
class Arguments {
 public:
  /// `example`: lines below the options.
  Arguments(std::string_view verb, std::string description, std::string example);
  ~Arguments();

  /// `names`: "-n,--predict", that of an argument ("OUT"), or both. read() writes `value`, which
  /// must outlive it; a vector gets all values that are given. The types that T may be stand at
  /// the end of arguments.cc: CLI11 takes seconds to compile, so only that file includes it.
  template <typename T>
  Option option(const std::string& names, T& value, const std::string& help);
  /// read() calls `take` with the value.
  Option option_function(const std::string& names,
                         const std::function<void(const std::string&)>& take,
                         const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  /// Words behind MODEL are kept in `words`, instead of being refused. They must outlive read().
  Option take_words(const std::string& name, std::vector<std::string>& words,
                    const std::string& help);
  void require_model();

  /// Prints the help and throws Status if that is asked for. Throws Misuse.
  void read(std::vector<std::string> arguments);
  /// How often read() found `flag`.
  size_t count(const std::string& flag) const;
  std::vector<OptionDescription> options() const;

 private:
  class Parser;
  class Reader;

  std::unique_ptr<Parser> parser_;
};

/// Returns the options that a verb adds. The verb ends when it calls Arguments::read().
std::vector<OptionDescription> options_of(void (*verb)(std::vector<std::string> arguments));

}  // namespace veery::cli
