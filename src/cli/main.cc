// main.cc: finds the verb, and turns what it throws into an exit status: 1 failed, 2 misused.
#include <csignal>
#include <exception>
#include <new>

#include "cli/cli.h"
#include "cli/output.h"

namespace veery::cli {
namespace {

constexpr int kFailed = 1, kMisused = 2;
constexpr size_t kLongestMessage = 2000;  // bytes

constexpr Verb kVerbs[] = {
    {"run", "Answer a prompt, or chat", run_verb},
    {"tokenize", "Print the token ids of a text", tokenize_verb},
    {"template", "Render a chat template", template_verb},
    {"logits", "Print what a model predicts after a text", logits_verb},
    {"perplexity", "Measure how well a model predicts a text", perplexity_verb},
    {"bench", "Measure the speed of prompts and of answers", bench_verb},
    {"plan", "Print the table of kernels that a run goes through", plan_verb},
    {"convert", "Write a model in another form", convert_verb},
    {"quantize", "Write a model with smaller weights", quantize_verb},
    {"show", "Describe a model file", show_verb},
    {"verify", "Check a model and name its defects", verify_verb},
};

std::string help() {
  std::string text = "veery runs language models.\n\nUsage: veery VERB MODEL [OPTIONS]\n\nVerbs:\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:12}{}\n", verb.name, verb.summary);
  return text +
         "\nOptions:\n  -h, --help  Print this help and leave\n  --version   Print the version and "
         "leave\n\n'veery VERB --help' describes a verb.\n\nExample:\n  veery run model.gguf -p "
         "\"Why is the sky blue?\"\n";
}

int misused(const std::string& message, std::string_view verb = {}) {
  write_error(fmt::format("veery: error: {} (see 'veery {}{}--help')\n",
                          printable(message, kLongestMessage), verb, verb.empty() ? "" : " "));
  return kMisused;
}

int failed(std::string_view message) {
  write_error(fmt::format("veery: error: {}\n", printable(message, kLongestMessage)));
  return kFailed;
}

int run_guarded(const Verb& verb, std::vector<std::string> arguments) {
  try {
    verb.run(std::move(arguments));
    standard_output().flush();
    return 0;
  } catch (const Status& status) {
    standard_output().flush();
    return status.value;
  } catch (const CLI::Success&) {
    standard_output().flush();
    return 0;
  } catch (const CLI::ParseError& error) {
    return misused(error.what(), verb.name);
  }
}

int run_main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    write_error(help());
    return kMisused;
  }
  const std::string& first = arguments[0];
  const bool version = first == "--version";
  if (version || first == "-h" || first == "--help" || first == "help") {
    standard_output().write(version ? "veery " VEERY_VERSION "\n" : help());
    standard_output().flush();
    return 0;
  }
  for (const Verb& verb : kVerbs)
    if (verb.name == first) return run_guarded(verb, {arguments.begin() + 1, arguments.end()});
  std::string names;
  for (const Verb& verb : kVerbs)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return misused(fmt::format("'{}' is no verb; there are {}", first, names));
}

}  // namespace
}  // namespace veery::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return veery::cli::run_main({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return veery::cli::failed("out of memory");
  } catch (const std::exception& error) {
    return veery::cli::failed(error.what());
  }
}
