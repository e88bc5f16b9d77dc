// arguments.h: the command line of one verb: which words are flags, which are values, and what is
// wrong with them.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

struct Verb;

/// The command line of one verb, in the look that all share.
///
/// A word that begins with "--" is a flag, its value the next word, whatever that looks like, or
/// what stands behind a '='. A word of one dash and one letter is the same; a number may stand
/// right behind it (-n5). Words of one dash and several letters are flags only where their whole
/// spelling is known (-sys): they are never taken for a letter with its value. Of a flag that is
/// given twice the last one counts, unless it is one for several values. Behind "--" no word is a
/// flag.
class Arguments : public CLI::App {
 public:
  /// `example`: lines below the options.
  Arguments(std::string_view verb, std::string description, std::string example);
  /// Parses; prints the help and throws CLI::Success if that is asked for. Throws CLI::ParseError.
  void read(std::vector<std::string> arguments);
  void require_model() { requires_model_ = true; }
  /// Words behind MODEL are kept in `words`, instead of being refused. They must outlive read().
  void take_words(const std::string& name, std::vector<std::string>& words,
                  const std::string& description);
  /// The values that `option` may have, where they can be listed: shells complete them.
  void add_choices(const std::string& option, std::vector<std::string> words) {
    choices_[get_option(option)->get_name()] = std::move(words);
  }
  std::vector<std::string> choices(const std::string& name) const {
    const auto found = choices_.find(name);
    return found == choices_.end() ? std::vector<std::string>() : found->second;
  }
  /// '' is a value of `option`; that of others must not be empty.
  CLI::Option* allow_empty(CLI::Option* option) {
    may_be_empty_.insert(option);
    return option;
  }

 private:
  class Reader;
  void parse_words(std::vector<std::string> arguments);

  bool requires_model_ = false;
  std::vector<std::string>* words_ = nullptr;
  std::set<const CLI::Option*> may_be_empty_;
  std::map<std::string, std::vector<std::string>> choices_;  // by the name of the option
};

/// Calls `look` with the options of a verb, which does not run.
void inspect(const Verb& verb, const std::function<void(const Arguments&)>& look);

/// For transform(): a number in decimal digits, nothing before or behind it, within the range. The
/// message says the range. Without a mark in the help.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator real_number(double low, double high);

}  // namespace veery::cli
