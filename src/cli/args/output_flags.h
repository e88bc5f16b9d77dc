// output_flags.h: --force of verbs that write files.
#pragma once
#include "cli/args/arguments.h"
#include "file/output/output_path.h"

namespace veery::cli {

struct OutputFlags {
  bool force = false;

  void add(Arguments& app, const std::string& what) { app.flag("--force", force, what); }
  Existing existing() const { return force ? Existing::kReplace : Existing::kRefuse; }
  /// Checks the output before any work is done. Throws as file_to_write() does. `inputs`: paths
  /// that must not be replaced; empty ones are ignored.
  void check(const std::string& path, const std::vector<std::string>& inputs) const {
    OutputRules rules{existing(), {}, nullptr};
    for (const std::string& input : inputs)
      if (!input.empty()) rules.inputs.push_back(input);
    file_to_write(path, rules);
  }
};

}  // namespace veery::cli
