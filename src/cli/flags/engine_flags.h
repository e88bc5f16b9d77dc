// engine_flags.h: who computes the answers of a verb.
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
  /// Whether another backend than veery's own is wanted.
  bool other() const { return name_ != "veery"; }

  struct Question {
    std::string prompt, system;
    bool raw = false, json = false, quiet = false;
  };
  /// Answers on standard output, text as it comes. Throws Misuse naming a flag that was given and
  /// that the backend does not know, and as TextEngine does.
  void answer(const Arguments& app, const std::string& model, const Question& question,
              const EngineOptions& options) const;

 private:
  std::string name_ = "veery", python_ = "python3";
};

}  // namespace veery::cli
