// output_flags.h: the flag of verbs that write files: whether those that are there may be replaced.
#pragma once
#include "cli/args/arguments.h"
#include "file/output/output_path.h"

namespace veery::cli {

struct OutputFlags {
  bool force = false;

  void add(Arguments& app, const std::string& what) { app.flag("--force", force, what); }
  Existing existing() const { return force ? Existing::kReplace : Existing::kRefuse; }
  /// Refuses an output before any work is done for it. `inputs`: paths; empty ones are none.
  void check(const std::string& path, const std::vector<std::string>& inputs) const {
    OutputRules rules{existing(), {}, nullptr};
    for (const std::string& input : inputs)
      if (!input.empty()) rules.inputs.push_back(input);
    file_to_write(path, rules);
  }
};

}  // namespace veery::cli
