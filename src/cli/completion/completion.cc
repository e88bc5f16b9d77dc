// completion.cc: `veery completion`.
#include "cli/completion/completion.h"

#include <algorithm>

#include "cli/args/arguments.h"
#include "cli/args/choice.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"

namespace veery::cli {
namespace {

struct Shell {
  std::string_view name;
  std::string (*script)(const std::vector<CompletedVerb>&);
};
constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

// The first sentence of a help text, without the period of one that others follow.
std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.ends_with('.') ? line.substr(0, line.size() - 1) : line;
}

CompletedOption completed(const OptionDescription& option) {
  CompletedOption out{.names = option.names,
                      .description = first_line(option.help),
                      .value = option.type_name,
                      .files = option.files,
                      .extensions = option.extensions,
                      .models = option.models,
                      .repeats = option.repeats,
                      .choices = option.choices};
  for (const char* name : {"PATH", "FILE", "FOLDER", "DIR"}) out.files |= out.value == name;
  return out;
}

CompletedVerb completed(const Verb& verb) {
  CompletedVerb out{std::string(verb.name), std::string(verb.summary), {}};
  for (const OptionDescription& option : options_of(verb.run)) {
    CompletedOption named = completed(option);
    if (option.positional && !named.names.empty()) {
      CompletedOption position = named;
      position.names.clear();
      out.options.push_back(std::move(position));
    }
    out.options.push_back(std::move(named));
  }
  return out;
}

}  // namespace

void completion_verb(std::vector<std::string> arguments) {
  std::string shell;
  Arguments app("completion", "Prints a shell script that completes verbs, flags and their values.",
                "  veery completion bash > ~/.local/share/bash-completion/completions/veery\n"
                "  veery completion zsh > \"${fpath[1]}/_veery\"\n"
                "  veery completion fish > ~/.config/fish/completions/veery.fish");
  app.option("SHELL", shell, "Shell: bash, zsh or fish")
      .type_name("")
      .required()
      .choices({"bash", "zsh", "fish"});
  app.read(std::move(arguments));
  const auto known = std::ranges::find(kShells, shell, &Shell::name);
  if (known == std::end(kShells)) throw Misuse("SHELL", not_one_of(shell, {"bash", "zsh", "fish"}));
  std::vector<CompletedVerb> all;
  for (const Verb& verb : verbs()) all.push_back(completed(verb));
  standard_output().write(known->script(all));
}

}  // namespace veery::cli
