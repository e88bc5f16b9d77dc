// grammar.h: answers that are held to a JSON schema, a regular expression or a grammar, by xgrammar
// (Dong et al., arXiv:2411.15100).
#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"
#include "text/tokenizer.h"

namespace veery {

/// What an answer may be, for the tokens of one vocabulary. Immutable.
class Grammar {
 public:
  struct Impl;
  explicit Grammar(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Makes grammars; what was made lately is kept. Safe to use from several threads.
class GrammarCompiler {
 public:
  /// `vocabulary`: rows of logits, which may be more than the tokenizer has tokens. Both must
  /// outlive it. `marks`: special tokens that are marks of this format can be part of calls. Throws
  /// kUnsupported where veery was built without xgrammar.
  GrammarCompiler(const Tokenizer& tokenizer, int64_t vocabulary, const AnswerFormat& marks = {});
  ~GrammarCompiler();

  /// Each throws kInput naming what is wrong, kUnsupported naming a keyword that cannot be kept.
  std::shared_ptr<const Grammar> json_schema(const Json& schema);
  std::shared_ptr<const Grammar> regex(const std::string& pattern);
  /// EBNF as llama.cpp's GBNF has it; the first rule is "root".
  std::shared_ptr<const Grammar> ebnf(const std::string& text);
  /// Calls of these tools: one, and with `several` one or more, where the form has a joint.
  std::shared_ptr<const Grammar> calls(const CallForm& form, std::span<const CallableTool> tools,
                                       bool several);

  /// Any text in which calls begin by a mark of `format`, each of one of the tools
  /// (free_call_rules()).
  std::shared_ptr<const Grammar> free_calls(const CallForm& form,
                                            std::span<const CallableTool> tools,
                                            const AnswerFormat& format, AnswerMode start);

  /// Whether veery was built with xgrammar.
  static bool available();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How far an answer has come. Of one answer; not thread-safe.
class GrammarState {
 public:
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);
  ~GrammarState();

  /// Whether not all tokens may come next; then token 32 w + b may where bit b of word w is set.
  bool mask(std::span<uint32_t> bits);
  /// Logits of tokens that may not come next become minus infinity.
  void mask(std::span<float> logits);
  /// A token that was chosen from masked logits.
  void accept(int32_t id);
  /// The same of any token; false: it may not come.
  bool takes(int32_t id);
  /// Forgets the last `count` tokens.
  void take_back(int32_t count);
  /// The text with which all that may follow begins; often none.
  std::string forced_text();
  /// Nothing but the end of the answer may follow.
  bool over() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veery
