// grammar.h: constrained decoding by JSON schema, regular expression, grammar or tool calls. Uses
// xgrammar (Dong et al., arXiv:2411.15100).
#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/json.h"
#include "text/answer/answer_format.h"
#include "text/grammar/call_form.h"
#include "text/tokenizer.h"

namespace veery {

/// A compiled grammar for one vocabulary. Immutable.
class Grammar {
 public:
  struct Impl;
  explicit Grammar(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Compiles grammars and caches the most recently used ones. Thread-safe.
class GrammarCompiler {
 public:
  /// `vocabulary`: number of logits, which may exceed the number of tokens of the tokenizer. Calls
  /// may contain the special tokens that are marks of the format `marks`. `tokenizer` must outlive
  /// the compiler. Throws kUnsupported if veery was built without xgrammar.
  GrammarCompiler(const Tokenizer& tokenizer, int64_t vocabulary, const AnswerFormat& marks = {});
  ~GrammarCompiler();

  /// The functions below throw kInput for a malformed constraint and kUnsupported for a keyword
  /// that cannot be enforced; the message names the cause.
  std::shared_ptr<const Grammar> json_schema(const Json& schema);
  std::shared_ptr<const Grammar> regex(const std::string& pattern);
  /// `text`: EBNF in the syntax of llama.cpp's GBNF; the first rule is "root".
  std::shared_ptr<const Grammar> ebnf(const std::string& text);
  /// Tool calls only: one call, or one or more if `several` is set and the form has a separator.
  std::shared_ptr<const Grammar> calls(const CallForm& form, std::span<const CallableTool> tools,
                                       bool several);

  /// Free text with tool calls; a call starts at a mark of `format` (see free_call_rules()).
  std::shared_ptr<const Grammar> free_calls(const CallForm& form,
                                            std::span<const CallableTool> tools,
                                            const AnswerFormat& format, AnswerMode start);

  /// Returns whether veery was built with xgrammar.
  static bool available();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The matcher of one answer. Not thread-safe.
class GrammarState {
 public:
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);
  ~GrammarState();

  /// Writes the mask of permitted next tokens: bit b of word w is token 32 w + b. Returns false if
  /// every token is permitted.
  bool mask(std::span<uint32_t> bits);
  /// Sets the logits of tokens that are not permitted to minus infinity.
  void mask(std::span<float> logits);
  /// Advances by a token that was sampled from masked logits. Throws kUnsupported for any other.
  void accept(int32_t id);
  /// Advances by `id` if it is permitted; otherwise returns false.
  bool takes(int32_t id);
  /// Rolls back the last `count` tokens.
  void take_back(int32_t count);
  /// Returns the longest text with which every continuation begins ("jump-forward"); often empty.
  std::string forced_text();
  /// Returns whether the answer has ended: only an end-of-sequence token may follow.
  bool over() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veery
