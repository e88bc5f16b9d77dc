// completion.h: scripts that complete the command line in shells.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// A flag or, without names, a positional argument.
struct CompletedOption {
  std::vector<std::string> names;       ///< with their dashes
  std::string description;              ///< one line
  std::string value;                    ///< name of its value in the help; empty: none
  bool files = false;                   ///< values are names of files and folders
  std::vector<std::string> extensions;  ///< of these files, without dot; empty: any
  bool models = false;                  ///< values may also be names of `veery list --names`
  bool repeats = false;
  std::vector<std::string> choices;  ///< known values
};

struct CompletedVerb {
  std::string name, summary;
  std::vector<CompletedOption> options;
};

void completion_verb(std::vector<std::string> arguments);

// Return whole scripts for the verbs.
std::string bash_completion(const std::vector<CompletedVerb>& verbs);
std::string zsh_completion(const std::vector<CompletedVerb>& verbs);
std::string fish_completion(const std::vector<CompletedVerb>& verbs);

}  // namespace veery::cli
