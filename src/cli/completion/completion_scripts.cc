// The scripts of `veery completion`. They call the program only for the names of models.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/completion/completion.h"

namespace veery::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

// Puts a backslash before each character of `special`.
std::string marked(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Quotes a text by single quotes, for bash and zsh.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

bool is_argument(const CompletedOption& option) { return option.names.empty(); }

const std::vector<std::string> kTopFlags = {"-h", "--help", "-V", "--version"};

std::string bash_files(const std::vector<std::string>& extensions) {
  return extensions.empty() ? "_veery_files" : "_veery_files " + joined(extensions, " ");
}

std::string bash_case(const CompletedVerb& verb) {
  std::string flags, words, cases;
  bool files = false, any_file = false, models = false;
  std::set<std::string> extensions;
  for (const CompletedOption& option : verb.options) {
    if (is_argument(option)) {
      files |= option.files;
      any_file |= option.files && option.extensions.empty();
      extensions.insert(option.extensions.begin(), option.extensions.end());
      models |= option.models;
      for (const std::string& word : option.choices) words += word + " ";
      continue;
    }
    for (const std::string& name : option.names) flags += name + " ";
    if (option.value.empty()) continue;
    const std::string then =
        !option.choices.empty()
            ? fmt::format("_veery_words {}", shell_quoted(joined(option.choices, " ")))
        : option.models ? "_veery_models; " + bash_files(option.extensions)
        : option.files  ? bash_files(option.extensions)
                        : ":";
    cases += fmt::format("        {}) {}; return ;;\n", joined(option.names, "|"), then);
  }
  if (any_file) extensions.clear();
  return fmt::format(
      "    {})\n      case $before in\n{}      esac\n      flags={} words={} files={} models={} "
      "extensions={} ;;\n",
      verb.name, cases, shell_quoted(flags), shell_quoted(words), files ? 1 : 0, models ? 1 : 0,
      shell_quoted(fmt::format("{}", fmt::join(extensions, " "))));
}

constexpr std::string_view kBashStart =
    R"(# Completion of veery for bash; 'veery completion bash' prints it.
_veery_words() {
  local IFS=$' \n'
  COMPREPLY+=($(compgen -W "$1" -- "$current"))
}

# Folders and files with one of the given extensions; all files if no file has one.
_veery_files() {
  local IFS=$'\n' name ending found=()
  compopt -o filenames 2> /dev/null
  for name in $(compgen -f -- "$current"); do
    for ending in "$@"; do
      [[ ${name,,} == *."$ending" ]] && found+=("$name")
    done
  done
  if ((${#found[@]})); then
    COMPREPLY+=("${found[@]}" $(compgen -d -- "$current"))
  else
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}

# bash splits words at the colons of names.
_veery_models() {
  local IFS=$'\n' typed=$current name cut
  if [[ $before == : || $current == : ]]; then
    typed=${COMP_LINE:0:COMP_POINT}
    typed=${typed##* }
  fi
  cut=${typed%"${typed##*:}"}
  for name in $(veery list --names 2> /dev/null); do
    [[ $name == "$typed"* ]] && COMPREPLY+=("${name#"$cut"}")
  done
}

_veery() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local flags='' words='' files=0 models=0 extensions=''
  COMPREPLY=()
  # --flag=value is three words to bash.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
)";

constexpr std::string_view kBashEnd = R"(  esac
  if [[ $current == -* ]]; then
    _veery_words "$flags"
  else
    [[ $words ]] && _veery_words "$words"
    ((models)) && _veery_models
    ((files)) && _veery_files $extensions
  fi
  return 0
}

complete -F _veery veery
)";

// Returns the action of _arguments that completes a value.
std::string zsh_action(const CompletedOption& option) {
  if (!option.choices.empty()) return fmt::format("({})", joined(option.choices, " "));
  if (option.models) return "_veery_models";
  if (!option.files) return " ";
  if (option.extensions.empty()) return "_files";
  // Parentheses without a bar would be a glob qualifier.
  const std::string endings = joined(option.extensions, "|");
  const bool several = option.extensions.size() > 1;
  return fmt::format("_files -g \"*.{}\"", several ? "(" + endings + ")" : endings);
}

// One line of _arguments. Colons and brackets have a meaning there.
std::string zsh_spec(const CompletedOption& option) {
  const std::string what = marked(option.description, "\\[]:");
  const std::string choices = zsh_action(option);
  if (is_argument(option)) return shell_quoted(fmt::format(":{}:{}", what, choices));
  const std::string value =
      option.value.empty() ? "" : fmt::format(":{}:{}", marked(option.value, "\\[]:"), choices);
  std::string lines;
  for (const std::string& name : option.names) {
    // One spelling excludes the others, except for repeatable options.
    const std::string prefix =
        option.repeats ? "*" : fmt::format("({})", joined(option.names, " "));
    const std::string equals = name.starts_with("--") && !option.value.empty() ? "=" : "";
    lines += (lines.empty() ? "" : " \\\n        ") +
             shell_quoted(fmt::format("{}{}{}[{}]{}", prefix, name, equals, what, value));
  }
  return lines;
}

std::string fish_line(const CompletedVerb& verb, const CompletedOption& option) {
  const std::string of_verb =
      fmt::format("complete -c veery -n '__fish_seen_subcommand_from {}'", verb.name);
  std::string line = of_verb;
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!is_argument(option) && !option.value.empty()) line += " -r";
  if (option.files && option.extensions.empty()) line += " -F";
  std::string asked = option.models ? "veery list --names 2> /dev/null; " : "";
  if (option.files && !option.extensions.empty())
    asked += "__veery_files " + joined(option.extensions, " ");
  if (!asked.empty()) line += fmt::format(" -f -a '({})'", asked);
  if (!option.choices.empty()) line += fmt::format(" -f -a '{}'", joined(option.choices, " "));
  return fmt::format("{} -d '{}'\n", line, marked(option.description, "\\'"));
}

}  // namespace

std::string bash_completion(const std::vector<CompletedVerb>& verbs) {
  std::vector<std::string> first;
  for (const CompletedVerb& verb : verbs) first.push_back(verb.name);
  first.insert(first.end(), kTopFlags.begin(), kTopFlags.end());
  std::string text(kBashStart);
  text += fmt::format("  if ((COMP_CWORD == 1)); then\n    _veery_words {}\n    return\n  fi\n",
                      shell_quoted(joined(first, " ")));
  text += "  case ${COMP_WORDS[1]} in\n";
  for (const CompletedVerb& verb : verbs) text += bash_case(verb);
  return text + std::string(kBashEnd);
}

std::string zsh_completion(const std::vector<CompletedVerb>& verbs) {
  std::string text =
      "#compdef veery\n# Completion of veery for zsh; 'veery completion zsh' prints it.\n\n"
      "_veery_models() {\n  local -a names=(${(f)\"$(veery list --names 2> /dev/null)\"})\n"
      "  compadd -a names\n  _files -g \"*.gguf\"\n}\n\n"
      "_veery() {\n  local -a verbs=(\n";
  for (const CompletedVerb& verb : verbs)
    text += fmt::format("    {}\n", shell_quoted(verb.name + ":" + marked(verb.summary, "\\:")));
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe verb verbs\n"
      "    _arguments '(- *)'{-h,--help}'[Print this help and leave]' "
      "'(- *)'{-V,--version}'[Print the version and leave]'\n    return\n  fi\n"
      "  shift words\n  ((CURRENT--))\n  case $words[1] in\n";
  for (const CompletedVerb& verb : verbs) {
    text += fmt::format("    {})\n      _arguments", verb.name);
    for (const CompletedOption& option : verb.options) text += " \\\n        " + zsh_spec(option);
    text += " ;;\n";
  }
  return text +
         "  esac\n}\n\nif [[ $funcstack[1] == _veery ]]; then\n  _veery \"$@\"\nelse\n"
         "  compdef _veery veery\nfi\n";
}

std::string fish_completion(const std::vector<CompletedVerb>& verbs) {
  std::string text =
      "# Completion of veery for fish; 'veery completion fish' prints it.\n"
      "function __veery_files -d 'Folders, and files with one of these endings; all if there are "
      "none'\n"
      "    set -l typed (commandline -ct | string replace -r -- '^--[^=]*=' '')\n"
      "    set -l files (complete -C \"__fish_command_without_completions $typed\")\n"
      "    set -l found (string match -r -- '^.*[.](?:'(string join '|' $argv)')$' $files)\n"
      "    if set -q found[1]\n"
      "        set files $found (string match -r -- '^.*/$' $files)\n"
      "    end\n"
      "    printf '%s\\n' $files\n"
      "end\n"
      "complete -c veery -f\n"
      "complete -c veery -n __fish_use_subcommand -s h -l help -d 'Print this help and leave'\n"
      "complete -c veery -n __fish_use_subcommand -s V -l version -d 'Print the version and "
      "leave'\n";
  for (const CompletedVerb& verb : verbs)
    text += fmt::format("complete -c veery -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                        marked(verb.summary, "\\'"));
  for (const CompletedVerb& verb : verbs)
    for (const CompletedOption& option : verb.options) text += fish_line(verb, option);
  return text;
}

}  // namespace veery::cli
