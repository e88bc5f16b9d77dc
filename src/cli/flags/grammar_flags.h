// grammar_flags.h: the flags that say what an answer may be.
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
  /// nullptr: it may be anything. Throws Misuse naming the flag whose text is none of its kind, or
  /// all of them where veery was built without xgrammar.
  std::shared_ptr<const Grammar> grammar(const Model& model) const;

 private:
  std::string schema_, schema_file_, regex_, grammar_, grammar_file_;
};

}  // namespace veery::cli
