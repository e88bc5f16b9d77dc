// grammar_flags.h: flags of constrained decoding.
#pragma once
#include <memory>
#include <string>

#include "cli/args/arguments.h"
#include "engine/model.h"
#include "text/grammar/grammar.h"

namespace veery::cli {

class GrammarFlags {
 public:
  void add(Arguments& app);
  /// Returns the grammar of the answer; nullptr: unconstrained. Throws Misuse naming a flag with an
  /// invalid schema, pattern or grammar, or any of the flags if veery was built without xgrammar.
  std::shared_ptr<const Grammar> grammar(const Model& model) const;

 private:
  std::string schema_, schema_file_, regex_, grammar_, grammar_file_;
};

}  // namespace veery::cli
