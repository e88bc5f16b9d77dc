// engine_flags.h: the backend that computes answers.
#pragma once
#include <string>

#include "base/json.h"
#include "bridge/text_engine.h"
#include "cli/args/arguments.h"
#include "cli/flags/sampling_flags.h"

namespace veery::cli {

class EngineFlags {
 public:
  void add(Arguments& app);
  /// Whether a backend other than veery's own is selected.
  bool other() const { return name_ != "veery"; }

  struct Question {
    std::string prompt, system;
    bool raw = false, json = false, quiet = false;
  };
  /// Streams the answer to standard output. Throws Misuse naming a given flag that the backend does
  /// not support, and as TextEngine does.
  void answer(const Arguments& app, const std::string& model, const Question& question,
              const EngineOptions& options) const;

 private:
  std::string name_ = "veery", python_ = "python3";
};

}  // namespace veery::cli
