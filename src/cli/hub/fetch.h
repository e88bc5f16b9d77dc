// fetch.h: `veery pull`, and downloads by verbs that load models.
#pragma once
#include <string>
#include <vector>

#include "cli/args/arguments.h"

namespace veery::cli {

void pull_verb(std::vector<std::string> arguments);

/// Whether a verb that loads a model may download it first.
struct FetchFlags {
  bool pull = false;     ///< without asking
  bool offline = false;  ///< never

  void add(Arguments& app);
};

/// Downloads `model`, with a progress bar, unless it is a path or the name of a model on this
/// machine. Without flags.pull, asks the user if standard input and error are a terminal; otherwise
/// only known names (repository_of()) are downloaded. Throws as pull_model() does.
void fetch_if_missing(const std::string& model, const FetchFlags& flags);

}  // namespace veery::cli
