// backend_flags.h: who computes the answers of a verb.
#pragma once
#include <string>

#include "base/json.h"
#include "cli/flags/sampling_flags.h"
#include "cli/parts/cli.h"
#include "schedule/backend/text_backend.h"

namespace veery::cli {

class BackendFlags {
 public:
  void add(Arguments& app);
  /// Whether another backend than veery's own is wanted.
  bool other() const { return name_ != "veery"; }

  struct Question {
    std::string prompt, system;
    bool raw = false, json = false, quiet = false;
  };
  /// Answers on standard output, text as it comes. Throws Misuse naming a flag that was given and
  /// that the backend does not know, and as TextBackend does.
  void answer(const Arguments& app, const std::string& model, const Question& question,
              const BackendOptions& options) const;

 private:
  std::string name_ = "veery", python_ = "python3";
};

}  // namespace veery::cli
