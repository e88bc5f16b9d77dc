// fetch.h: `veery pull`, and --pull of verbs that load models.
#pragma once
#include <string>

#include "cli/parts/cli.h"

namespace veery::cli {

/// --pull: whether models that are not there are fetched first.
void add_pull(Arguments& app, bool& pull);

/// If `pull` and nothing is at the path `model`, nor known under that name: fetches it, with a bar.
/// Throws as pull_model().
void fetch_if_missing(const std::string& model, bool pull);

}  // namespace veery::cli
