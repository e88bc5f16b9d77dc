#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/spellings.h"

namespace veery::cli {
namespace {

// One look: "-n,--predict N    Most tokens ... [-1]".
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

[[noreturn]] void misuse(std::string message) { throw CLI::ParseError(std::move(message), 2); }

// The whole text as a number in decimal digits.
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
        // The form is negated so that NaN, which is in no range, is refused.
        if (!value || !(*value >= low && *value <= high))
          return fmt::format("'{}' is no {} from {} to {}", text, what, low, high);
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

// Called by read() in place of parsing.
std::function<void(const Arguments&)> inspector;

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  return number_within<int64_t>(low, high, "whole number");
}

CLI::Validator real_number(double low, double high) {
  return number_within<double>(low, high, "number");
}

/// Tells flags, values and other words apart, and writes flags as CLI11 knows them.
class Arguments::Reader {
 public:
  explicit Reader(const Arguments& app) : app_(app) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) flags_.emplace("--" + name, option);
      for (const std::string& name : option->get_snames()) flags_.emplace("-" + name, option);
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
    if (!wants_help_ && !error_.empty()) misuse(error_);
  }

  bool wants_help() const { return wants_help_; }
  bool has(const std::string& flag) const { return flags_.contains(flag); }
  bool given(const std::string& flag) const {
    return std::find(given_.begin(), given_.end(), flags_.at(flag)) != given_.end();
  }
  /// Flags in the spelling that is listed first, each value a word of its own.
  std::vector<std::string>& flags() { return out_; }
  std::vector<std::string>& words() { return words_; }

 private:
  struct Found {
    const CLI::Option* option = nullptr;
    std::optional<std::string> value;
  };

  const CLI::Option* find_flag(const std::string& spelling) const {
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
    if (found.option != nullptr && equals != std::string::npos)
      found.value = word.substr(equals + 1);
    if (found.option != nullptr || word.starts_with("--")) return found;
    const CLI::Option* letter = find_flag(word.substr(0, 2));
    if (letter != nullptr && takes_value(*letter) && is_number(word.substr(2)))
      return {letter, word.substr(2)};
    return {};
  }

  // How many words behind it belong to the flag.
  size_t read_flag(const std::string& word, const std::string* next) {
    const Found found = find(word);
    if (found.option == nullptr) {
      if (error_.empty()) error_ = unknown(word);
      return 0;
    }
    const CLI::Option& option = *found.option;
    wants_help_ = &option == app_.get_help_ptr();
    const std::string name = option.get_lnames().empty() ? "-" + option.get_snames().front()
                                                         : "--" + option.get_lnames().front();
    given_.push_back(&option);
    out_.push_back(name);
    if (!takes_value(option)) {
      if (found.value && error_.empty())
        error_ = fmt::format("{}: takes no value, found '{}'", name, word);
      return 0;
    }
    const bool follows = !found.value && next != nullptr;
    if (error_.empty())
      check_value(option, name, follows ? next : found.value ? &*found.value : nullptr);
    out_.push_back(found.value.value_or(follows ? *next : ""));
    return follows ? 1 : 0;
  }

  void check_value(const CLI::Option& option, const std::string& name, const std::string* value) {
    if (value == nullptr)
      error_ = fmt::format("{}: a value is missing: {}", name, option.get_type_name());
    else if (value->empty() && !app_.may_be_empty_.contains(&option))
      error_ = fmt::format("{}: the value is empty, expected {}", name, option.get_type_name());
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
    if (!meant.empty()) return text + fmt::format("; is '{}' meant?", meant);
    const CLI::Option* letter = one_dash ? find_flag(word.substr(0, 2)) : nullptr;
    if (letter != nullptr && takes_value(*letter))
      text += fmt::format("; a value stands apart: '{} {}'", word.substr(0, 2), word.substr(2));
    return text;
  }

  const Arguments& app_;
  std::map<std::string, const CLI::Option*> flags_;
  std::vector<const CLI::Option*> given_;
  std::vector<std::string> out_, words_;
  std::string error_;  // the first one: it is told unless the help is wanted
  bool wants_help_ = false;
};

Arguments::Arguments(std::string_view verb, std::string description, std::string example)
    : CLI::App(std::move(description), fmt::format("veery {}", verb)) {
  auto look = std::make_shared<HelpFormatter>();
  look->column_width(32);
  formatter(std::move(look));
  set_help_flag("-h,--help", "Print this help and leave");
  footer("Example:\n" + std::move(example));
  allow_extras();  // told by parse_words(), which says what is unknown before what is missing
}

void Arguments::take_words(const std::string& name, std::vector<std::string>& words,
                           const std::string& description) {
  words_ = &words;
  add_option(name, description)->type_name("");  // for the help: they do not go through CLI11
}

void Arguments::parse_words(std::vector<std::string> arguments) {
  for (CLI::Option* option : get_options({})) {
    const bool single = option->get_items_expected_max() == 1 && !option->get_trigger_on_parse();
    if (single && option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  Reader reader(*this);
  reader.read(std::move(arguments));
  if (reader.wants_help()) throw CLI::CallForHelp();
  std::vector<std::string>& words = reader.words();
  std::vector<std::string>& flags = reader.flags();
  const bool any_words = words_ != nullptr;  // of a text: they may be empty
  if (!any_words && std::find(words.begin(), words.end(), "") != words.end())
    misuse("an argument is empty, expected a name");
  if (reader.has("--model")) {
    if (!words.empty() && !reader.given("--model")) {
      if (words.front().empty()) misuse("MODEL is empty, expected a path");
      flags.insert(flags.end(), {"--model", words.front()});
      words.erase(words.begin());
    }
    if (!any_words && !words.empty()) misuse(fmt::format("unknown argument '{}'", words.front()));
    if (any_words) *words_ = std::move(words);
    words.clear();
  }
  flags.emplace_back("--");
  flags.insert(flags.end(), words.begin(), words.end());
  std::reverse(flags.begin(), flags.end());  // as CLI11 wants them
  parse(std::move(flags));
}

void inspect(const Verb& verb, const std::function<void(const Arguments&)>& look) {
  inspector = look;
  try {
    verb.run({});
  } catch (const CLI::Success&) {
  } catch (...) {
    inspector = nullptr;
    throw;
  }
  inspector = nullptr;
}

void Arguments::read(std::vector<std::string> arguments) {
  if (inspector) {
    inspector(*this);
    throw CLI::Success();
  }
  const auto check_known = [this] {
    for (const std::string& word : remaining())
      if (word != "--") misuse(fmt::format("unknown argument '{}'", word));
  };
  try {
    parse_words(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    std::string text = help();
    if (const size_t at = text.find("[MODEL]"); requires_model_ && at != std::string::npos)
      text.replace(at, 7, "MODEL");
    for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    standard_output().write(text);
    throw CLI::Success();
  } catch (const CLI::RequiredError&) {
    check_known();
    throw;
  }
  check_known();
  if (requires_model_ && (*this)["--model"]->count() == 0)
    misuse("MODEL is required: the path of a GGUF file or a model folder");
}

}  // namespace veery::cli
