#include "cli/args/arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "cli/args/help_text.h"
#include "cli/args/spellings.h"
#include "cli/output/output.h"

namespace veery::cli {
namespace {

// "-n,--predict N    Maximum tokens ... [-1]".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() != 0 ? option->get_type_name() : "";
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (value.empty() ? "" : fmt::format(" [{}]", value));
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
};

// Parses the whole text as a decimal number.
template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
CLI::Validator number_within(T low, T high, const char* what) {
  return CLI::Validator(
      [low, high, what](std::string& text) -> std::string {
        const std::optional<T> value = number_of<T>(text);
        // Negated so that NaN, which is outside of every range, is refused.
        if (!value || !(*value >= low && *value <= high))
          return fmt::format("found '{}', expected a {} from {} to {}", text, what, low, high);
        text = fmt::format("{}", *value);
        return {};
      },
      "");
}

bool is_number(std::string_view text) {
  const std::optional<double> value = number_of<double>(text);
  return value && std::isfinite(*value);
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// If set, read() writes the options here instead of parsing. See options_of().
std::vector<OptionDescription>* wanted_options = nullptr;

}  // namespace

struct Option::State {
  CLI::Option* option;
  bool may_be_empty = false;
  std::vector<std::string> choices = {};
  bool files = false, models = false;
  std::vector<std::string> extensions = {};
  std::optional<std::string> value_if_absent = {};
};

/// CLI11 writes the help, converts values and checks needs() and excludes(). It parses arguments in
/// the canonical form that Reader produces: its own rules for dashes and values differ from ours.
class Arguments::Parser : public CLI::App {
 public:
  Parser(std::string description, std::string name);
  Option::State& add(CLI::Option* option) { return states_.emplace_back(Option::State{option}); }
  void require_model() { requires_model_ = true; }
  void keep_words(std::vector<std::string>& words) { words_ = &words; }
  /// In the order of the help.
  const std::deque<Option::State>& states() const { return states_; }

  /// Throws CLI::ParseError and what Arguments::read() throws.
  void read(std::vector<std::string> arguments);

 private:
  std::vector<std::string> arrange(Reader& reader);
  void check_known() const;
  std::string help_text() const;

  std::deque<Option::State> states_;  // a deque, since Option refers to its elements
  bool requires_model_ = false;
  std::vector<std::string>* words_ = nullptr;
};

/// Separates flags, values and words, and writes flags in their first spelling.
class Arguments::Reader {
 public:
  explicit Reader(const Parser& parser) : help_(parser.get_help_ptr()) {
    for (const Option::State& state : parser.states()) {
      for (const std::string& name : state.option->get_lnames())
        flags_.emplace("--" + name, &state);
      for (const std::string& name : state.option->get_snames()) flags_.emplace("-" + name, &state);
    }
  }

  void read(std::vector<std::string> words) {
    bool only_words = false;
    for (size_t i = 0; i < words.size() && !wants_help_; ++i) {
      std::string& word = words[i];
      const bool plain = only_words || word.size() < 2 || word[0] != '-';
      if (plain)
        words_.push_back(std::move(word));
      else if (word == "--")
        only_words = true;
      else
        i += read_flag(word, i + 1 < words.size() ? &words[i + 1] : nullptr);
    }
    if (!wants_help_ && !error_.empty()) throw Misuse(error_);
  }

  bool wants_help() const { return wants_help_; }
  bool has(const std::string& flag) const { return flags_.contains(flag); }
  bool given(const std::string& flag) const {
    return std::find(given_.begin(), given_.end(), flags_.at(flag)) != given_.end();
  }
  /// Returns the flags in their first spelling, each value a word of its own.
  std::vector<std::string>& flags() { return out_; }
  std::vector<std::string>& words() { return words_; }

 private:
  struct Found {
    const Option::State* state = nullptr;
    std::optional<std::string> value;
  };

  const Option::State* find_flag(const std::string& spelling) const {
    const auto known = flags_.find(spelling);
    if (known != flags_.end()) return known->second;
    for (const std::string_view other : synonyms(spelling))
      if (const auto same = flags_.find(std::string(other)); same != flags_.end())
        return same->second;
    return nullptr;
  }

  Found find(const std::string& word) const {
    const size_t equals = word.find('=');
    Found found{find_flag(word.substr(0, equals)), std::nullopt};
    if (found.state != nullptr && equals != std::string::npos)
      found.value = word.substr(equals + 1);
    if (found.state != nullptr || word.starts_with("--")) return found;
    const Option::State* letter = find_flag(word.substr(0, 2));
    if (letter != nullptr && takes_value(*letter->option) && is_number(word.substr(2)))
      return {letter, word.substr(2)};
    return {};
  }

  // Returns the number of words after the flag that belong to it.
  size_t read_flag(const std::string& word, const std::string* next) {
    const Found found = find(word);
    if (found.state == nullptr) {
      if (error_.empty()) error_ = unknown(word);
      return 0;
    }
    const CLI::Option& option = *found.state->option;
    wants_help_ = &option == help_;
    const std::string name = option.get_lnames().empty() ? "-" + option.get_snames().front()
                                                         : "--" + option.get_lnames().front();
    given_.push_back(found.state);
    out_.push_back(name);
    if (!takes_value(option)) {
      if (found.value && error_.empty())
        error_ = fmt::format("{}: found '{}', expected no value", name, word);
      return 0;
    }
    const Option::State& state = *found.state;
    const bool taken =
        !state.value_if_absent || (next != nullptr && std::ranges::count(state.choices, *next) > 0);
    const bool follows = !found.value && next != nullptr && taken;
    const std::string* value = found.value             ? &*found.value
                               : follows               ? next
                               : state.value_if_absent ? &*state.value_if_absent
                                                       : nullptr;
    if (error_.empty()) check_value(state, name, value);
    out_.push_back(value != nullptr ? *value : "");
    return follows ? 1 : 0;
  }

  void check_value(const Option::State& state, const std::string& name, const std::string* value) {
    const std::string type = state.option->get_type_name();
    if (value == nullptr)
      error_ = fmt::format("{}: missing value, expected {}", name, type);
    else if (value->empty() && !state.may_be_empty)
      error_ = fmt::format("{}: empty value, expected {}", name, type);
  }

  std::string unknown(const std::string& word) const {
    const std::string spelling = word.substr(0, word.find('='));
    if (const std::string_view advice = flag_advice(spelling); !advice.empty())
      return fmt::format("unknown argument '{}': {}", spelling, advice);
    std::string text = fmt::format("unknown argument '{}'", word);
    std::vector<std::string_view> names;
    for (const auto& [name, option] : flags_)
      if (name.starts_with("--")) names.push_back(name);
    const bool one_dash = !word.starts_with("--");
    const std::string meant = nearest(one_dash ? "-" + spelling : spelling, names);
    if (!meant.empty()) return text + fmt::format("; did you mean '{}'?", meant);
    const Option::State* letter = one_dash ? find_flag(word.substr(0, 2)) : nullptr;
    if (letter != nullptr && takes_value(*letter->option))
      text += fmt::format("; separate the value: '{} {}'", word.substr(0, 2), word.substr(2));
    return text;
  }

  const CLI::Option* help_;
  std::map<std::string, const Option::State*> flags_;
  std::vector<const Option::State*> given_;
  std::vector<std::string> out_, words_;
  std::string error_;  // the first one; thrown unless --help is given
  bool wants_help_ = false;
};

Arguments::Parser::Parser(std::string description, std::string name)
    : CLI::App(std::move(description), std::move(name)) {
  auto look = std::make_shared<HelpFormatter>();
  look->column_width(kHelpColumn);
  formatter(std::move(look));
  add(set_help_flag("-h,--help", "Print this help and exit"));
  allow_extras();  // check_known() reports them
}

std::string Arguments::Parser::help_text() const {
  std::string text = help();
  if (const size_t at = text.find("[MODEL]"); requires_model_ && at != std::string::npos)
    text.replace(at, 7, "MODEL");
  for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return fit_help(text);
}

// Returns the arguments for CLI11: the flags, then "--" and the positional words. A positional
// MODEL becomes --model. The words of a text are moved to *words_ instead.
std::vector<std::string> Arguments::Parser::arrange(Reader& reader) {
  std::vector<std::string>& words = reader.words();
  std::vector<std::string> all = std::move(reader.flags());
  const bool any_words = words_ != nullptr;  // words of a text, which may be empty
  if (!any_words && std::find(words.begin(), words.end(), "") != words.end())
    throw Misuse("empty argument, expected a name");
  if (reader.has("--model")) {
    if (!words.empty() && !reader.given("--model")) {
      if (words.front().empty()) throw Misuse("MODEL is empty, expected a path or a name");
      all.insert(all.end(), {"--model", words.front()});
      words.erase(words.begin());
    }
    if (!any_words && !words.empty())
      throw Misuse(fmt::format("unknown argument '{}'", words.front()));
    if (any_words) *words_ = std::move(words);
    words.clear();
  }
  all.emplace_back("--");
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void Arguments::Parser::check_known() const {
  for (const std::string& word : remaining())
    if (word != "--") throw Misuse(fmt::format("unknown argument '{}'", word));
}

void Arguments::Parser::read(std::vector<std::string> arguments) {
  for (const Option::State& state : states_) {
    CLI::Option& option = *state.option;
    const bool single = option.get_items_expected_max() == 1 && !option.get_trigger_on_parse();
    if (single && option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
      option.take_last();
  }
  Reader reader(*this);
  reader.read(std::move(arguments));
  if (reader.wants_help()) {
    standard_output().write(help_for(help_text(), STDOUT_FILENO));
    throw Status{0};
  }
  std::vector<std::string> words = arrange(reader);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    parse(std::move(words));
  } catch (const CLI::RequiredError&) {
    check_known();  // unknown arguments are reported before missing ones
    throw;
  }
  check_known();
  if (requires_model_ && count("--model") == 0)
    throw Misuse(
        "missing MODEL: the path of a GGUF file or model folder, or a name of 'veery list'");
}

Option Option::type_name(const std::string& name) const {
  state_->option->type_name(name);
  return *this;
}

Option Option::group(const std::string& name) const {
  state_->option->group(name);
  return *this;
}

Option Option::required() const {
  state_->option->required();
  return *this;
}

Option Option::needs(const Option& other) const {
  state_->option->needs(other.state_->option);
  return *this;
}

Option Option::excludes(const Option& other) const {
  state_->option->excludes(other.state_->option);
  return *this;
}

Option Option::whole_number(int64_t low, int64_t high) const {
  state_->option->transform(number_within<int64_t>(low, high, "whole number"));
  return *this;
}

Option Option::real_number(double low, double high) const {
  state_->option->transform(number_within<double>(low, high, "number"));
  return *this;
}

Option Option::show_default() const {
  state_->option->capture_default_str();
  return *this;
}

Option Option::allow_empty() const {
  state_->may_be_empty = true;
  return *this;
}

Option Option::choices(std::vector<std::string> words) const {
  state_->choices = std::move(words);
  return *this;
}

Option Option::files(std::vector<std::string> extensions) const {
  state_->files = true;
  state_->extensions = std::move(extensions);
  return *this;
}

Option Option::models() const {
  state_->models = true;
  return files({"gguf"});
}

Option Option::value_if_absent(std::string word) const {
  state_->value_if_absent = std::move(word);
  return *this;
}

Option Option::trigger_on_parse() const {
  state_->option->trigger_on_parse();
  return *this;
}

Arguments::Arguments(std::string_view verb, std::string description, std::string example)
    : parser_(std::make_unique<Parser>(std::move(description), fmt::format("veery {}", verb))) {
  parser_->footer("Example:\n" + std::move(example));
}

Arguments::~Arguments() = default;

template <typename T>
Option Arguments::option(const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = parser_->add_option(names, value, help);
  // One value per flag: CLI11 would take all words that follow.
  if constexpr (std::is_same_v<T, std::vector<std::string>>)
    option->expected(1)->allow_extra_args(false)->take_all();
  return Option(parser_->add(option));
}

Option Arguments::option_function(const std::string& names,
                                  const std::function<void(const std::string&)>& take,
                                  const std::string& help) {
  return Option(parser_->add(parser_->add_option_function<std::string>(names, take, help)));
}

Option Arguments::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(parser_->add(parser_->add_flag(names, value, help)));
}

Option Arguments::take_words(const std::string& name, std::vector<std::string>& words,
                             const std::string& help) {
  parser_->keep_words(words);
  // Only for the help: the words do not pass through CLI11.
  return Option(parser_->add(parser_->add_option(name, help)));
}

void Arguments::require_model() { parser_->require_model(); }

size_t Arguments::count(const std::string& flag) const { return parser_->count(flag); }

void Arguments::read(std::vector<std::string> arguments) {
  if (wanted_options != nullptr) {
    *wanted_options = options();
    throw Status{0};
  }
  try {
    parser_->read(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    throw Misuse(error.what());
  }
}

std::vector<OptionDescription> Arguments::options() const {
  std::vector<OptionDescription> all;
  for (const Option::State& state : parser_->states()) {
    const CLI::Option& option = *state.option;
    OptionDescription& one = all.emplace_back();
    for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
    one.positional = option.get_positional();
    if (option.get_type_size() != 0) one.type_name = option.get_type_name();
    one.help = option.get_description();
    one.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    one.choices = state.choices;
    one.files = state.files;
    one.models = state.models;
    one.extensions = state.extensions;
  }
  return all;
}

std::vector<OptionDescription> options_of(void (*verb)(std::vector<std::string> arguments)) {
  std::vector<OptionDescription> all;
  wanted_options = &all;
  try {
    verb({});
  } catch (const Status&) {
  } catch (...) {
    wanted_options = nullptr;
    throw;
  }
  wanted_options = nullptr;
  return all;
}

template Option Arguments::option(const std::string&, std::string&, const std::string&);
template Option Arguments::option(const std::string&, std::optional<std::string>&,
                                  const std::string&);
template Option Arguments::option(const std::string&, std::vector<std::string>&,
                                  const std::string&);
template Option Arguments::option(const std::string&, int32_t&, const std::string&);
template Option Arguments::option(const std::string&, std::optional<int32_t>&, const std::string&);
template Option Arguments::option(const std::string&, int64_t&, const std::string&);
template Option Arguments::option(const std::string&, size_t&, const std::string&);
template Option Arguments::option(const std::string&, std::optional<double>&, const std::string&);
template Option Arguments::option(const std::string&, double&, const std::string&);

}  // namespace veery::cli
