// fetch.h: `veery pull`, and fetching by verbs that load models.
#pragma once
#include <string>
#include <vector>

#include "cli/args/arguments.h"

namespace veery::cli {

void pull_verb(std::vector<std::string> arguments);

/// Whether verbs that load models may fetch them first.
struct FetchFlags {
  bool pull = false;     ///< without asking
  bool offline = false;  ///< never

  void add(Arguments& app);
};

/// Fetches `model`, with a bar, if it is neither a path nor a name of a model on this machine, and
/// if `flags` say so, or the user of the terminal on standard input and error; a known name
/// (repository_of()) is fetched too if there is no such terminal. Throws as pull_model().
void fetch_if_missing(const std::string& model, const FetchFlags& flags);

}  // namespace veery::cli
