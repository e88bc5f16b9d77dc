// arguments.h: parses the command line of one verb.
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

/// Thrown for a command line that its verb does not accept.
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// "FLAG: MESSAGE".
  Misuse(const std::string& flag, const std::string& message)
      : std::runtime_error(flag + ": " + message) {}
};

/// Returns read(), which parses the value of `flag`. Rethrows an Error of kInput or kFormat as
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

/// Thrown by a verb to end the program with this exit status, without a message.
struct Status {
  int value;
};

/// A flag or argument while a verb declares it. Refers to its Arguments, which must outlive it.
class Option {
 public:
  /// Sets the name of the value in the help; "": none.
  Option type_name(const std::string& name) const;
  /// Sets the heading above the option in the help.
  Option group(const std::string& name) const;
  Option required() const;
  /// Accepts the option only together with `other`.
  Option needs(const Option& other) const;
  /// Accepts the option only without `other`.
  Option excludes(const Option& other) const;
  /// Accepts a decimal number within the range and nothing else. The error message states the
  /// range, the help does not.
  Option whole_number(int64_t low, int64_t high) const;
  Option real_number(double low, double high) const;
  /// Shows the present value of the variable as default in the help.
  Option show_default() const;
  /// Accepts an empty value, which is an error for other options.
  Option allow_empty() const;
  /// Sets the values that shells complete. Other values are not refused.
  Option choices(std::vector<std::string> words) const;
  /// Makes shells complete folders and files with one of these extensions (without dot), or all
  /// files if there are none.
  Option files(std::vector<std::string> extensions = {}) const;
  /// Makes shells complete names of `veery list`, GGUF files and folders.
  Option models() const;
  /// Accepts the flag without a value, which is then `word`. The next word is the value only if it
  /// is one of choices(); any other value has to follow '='.
  Option value_if_absent(std::string word) const;
  /// Calls the function for each given value, not only for the last one.
  Option trigger_on_parse() const;

 private:
  friend class Arguments;
  struct State;
  explicit Option(State& state) : state_(&state) {}

  State* state_;
};

/// One option of a verb, for shell completion.
struct OptionDescription {
  std::vector<std::string> names;  ///< with their dashes
  bool positional = false;         ///< the value may also be given without the name
  std::string type_name;           ///< name of the value in the help; empty: none, or a flag
  std::string help;
  bool repeats = false;  ///< collects several values
  std::vector<std::string> choices;
  bool files = false, models = false;  ///< Option::files(), Option::models()
  std::vector<std::string> extensions;
};

/// The command line of one verb.
///
/// A word that begins with "--" is a flag. Its value is the next word, whatever that looks like, or
/// the text after '='. The same holds for one dash and one letter; a number may follow the letter
/// directly (-n5). One dash and several letters is a flag only if the whole spelling is known
/// (-sys), never a letter with its value. The last value of a repeated flag counts, unless the flag
/// collects values. No word after "--" is a flag.
class Arguments {
 public:
  /// `example`: the lines under "Example:" at the end of the help.
  Arguments(std::string_view verb, std::string description, std::string example);
  ~Arguments();

  /// Adds an option whose value read() writes to `value`, which must outlive it; a vector gets all
  /// given values. `names`: "-n,--predict", the name of an argument ("OUT"), or both. T is one of
  /// the types instantiated at the end of arguments.cc: CLI11 takes seconds to compile, so only
  /// that file includes it.
  template <typename T>
  Option option(const std::string& names, T& value, const std::string& help);
  /// Adds an option for whose value read() calls `take`.
  Option option_function(const std::string& names,
                         const std::function<void(const std::string&)>& take,
                         const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  /// Collects the words after MODEL in `words`, which must outlive read(). Without this call they
  /// are an error.
  Option take_words(const std::string& name, std::vector<std::string>& words,
                    const std::string& help);
  void require_model();

  /// Parses the arguments and writes the variables. Prints the help and throws Status{0} for
  /// --help. Throws Misuse.
  void read(std::vector<std::string> arguments);
  /// Returns how often read() found `flag`.
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
