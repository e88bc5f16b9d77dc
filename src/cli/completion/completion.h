// completion.h: scripts that let shells complete the command line.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// What a shell may know of a flag or, without names, of an argument that stands alone.
struct CompletedOption {
  std::vector<std::string> names;       ///< with their dashes
  std::string description;              ///< one line
  std::string value;                    ///< what the help calls its value; empty: a flag
  bool files = false;                   ///< values are names of files and folders
  std::vector<std::string> extensions;  ///< of these files, without dot; empty: any
  bool models = false;                  ///< values may be names of `veery list --names` too
  bool repeats = false;
  std::vector<std::string> choices;  ///< known values, if they can be listed
};

struct CompletedVerb {
  std::string name, summary;
  std::vector<CompletedOption> options;
};

void completion_verb(std::vector<std::string> arguments);

// Whole scripts, from what the verbs say of themselves.
std::string bash_completion(const std::vector<CompletedVerb>& verbs);
std::string zsh_completion(const std::vector<CompletedVerb>& verbs);
std::string fish_completion(const std::vector<CompletedVerb>& verbs);

}  // namespace veery::cli
