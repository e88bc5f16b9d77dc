// main.cc: finds the verb, runs it and turns exceptions into an exit status: 1 failed, 2 misused.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>

#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/help_text.h"
#include "cli/args/spellings.h"
#include "cli/completion/completion.h"
#include "cli/hub/fetch.h"
#include "cli/output/output.h"
#include "cli/output/version.h"
#include "cli/verbs/verbs.h"

namespace veery::cli {
namespace {

constexpr int kFailed = 1, kMisused = 2;
constexpr size_t kLongestMessage = 2000;  // bytes

constexpr Verb kVerbs[] = {
    {"run", "Answer a prompt, or chat", run_verb},
    {"serve", "Serve models over HTTP, with a web page", serve_verb},
    {"batch", "Answer a file of requests", batch_verb},
    {"tokenize", "Print the token ids of a text", tokenize_verb},
    {"template", "Render a chat template", template_verb},
    {"logits", "Print the predictions after a text", logits_verb},
    {"embed", "Compute embeddings of texts", embed_verb},
    {"rerank", "Score how well documents answer a query", rerank_verb},
    {"classify", "Choose the label that fits a text", classify_verb},
    {"transcribe", "Transcribe speech in a sound file", transcribe_verb},
    {"perplexity", "Measure how well a model predicts a text", perplexity_verb},
    {"bench", "Measure the speed of prefill and decoding", bench_verb},
    {"inspect", "Show attention, hidden states and the logit lens", inspect_verb},
    {"plan", "Print and profile the kernels of a run", plan_verb},
    {"convert", "Convert a model to another format", convert_verb},
    {"quantize", "Quantise the weights of a model", quantize_verb},
    {"imatrix", "Compute an importance matrix for quantize", imatrix_verb},
    {"pull", "Download a model from a hub", pull_verb},
    {"list", "List the models that have a name", list_verb},
    {"show", "Describe a model file", show_verb},
    {"verify", "Check a model for defects", verify_verb},
    {"completion", "Print a shell completion script", completion_verb},
};

std::string help() {
  std::string text =
      "veery runs, serves and inspects language models.\n\nUsage: veery VERB MODEL "
      "[OPTIONS]\n\nVerbs:\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:12}{}\n", verb.name, verb.summary);
  return text +
         "\nOptions:\n  -h, --help     Print this help and exit\n  -V, --version  Print the "
         "version and exit\n\n'veery VERB --help' describes a verb.\n\nExample:\n  veery run "
         "model.gguf -p "
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
  } catch (const Misuse& error) {
    return misused(error.what(), verb.name);
  }
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : kVerbs)
    if (verb.name == name) return &verb;
  return nullptr;
}

// Returns why the word is not a verb, and what to use instead.
std::string unknown_verb(const std::string& word) {
  if (word.starts_with('-'))
    return fmt::format("found '{}' before a verb, expected for example 'veery run MODEL -p TEXT'",
                       word);
  if (const std::string_view advice = verb_advice(word); !advice.empty())
    return fmt::format("unknown verb '{}': {}", word, advice);
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  if (const std::string meant = nearest(word, names); !meant.empty())
    return fmt::format("unknown verb '{}'; did you mean '{}'?", word, meant);
  if (word.ends_with(".gguf") || word.find('/') != std::string::npos)
    return fmt::format("unknown verb '{}'; use 'veery run {}' to run a model", word, word);
  return fmt::format("unknown verb '{}', expected one of {}", word, fmt::join(names, ", "));
}

int run_main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    write_error(help_for(help(), STDERR_FILENO));
    return kMisused;
  }
  const std::string& first = arguments[0];
  const bool version = first == "-V" || first == "--version";
  if (first == "help" && arguments.size() > 1) {
    const Verb* verb = find_verb(arguments[1]);
    return verb == nullptr ? misused(unknown_verb(arguments[1])) : run_guarded(*verb, {"--help"});
  }
  if (version || first == "-h" || first == "--help" || first == "help") {
    standard_output().write(version ? version_text() : help_for(help(), STDOUT_FILENO));
    standard_output().flush();
    return 0;
  }
  const Verb* verb = find_verb(first);
  if (verb == nullptr) return misused(unknown_verb(first));
  return run_guarded(*verb, {arguments.begin() + 1, arguments.end()});
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

}  // namespace veery::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // write() fails instead at the limit of a file's size
  try {
    return veery::cli::run_main({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return veery::cli::failed("out of memory");
  } catch (const std::exception& error) {
    return veery::cli::failed(error.what());
  }
}
