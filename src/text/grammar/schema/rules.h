// rules.h: a grammar under construction, in xgrammar's EBNF.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns `text` as a terminal.
std::string terminal(std::string_view text);

/// How the words of a language are written.
enum class Writing {
  kPlain,       ///< verbatim
  kJsonString,  ///< JSON-escaped, followed by the closing quotation mark
};

/// Collects rules. Throws kLimit if they become too many.
class Rules {
 public:
  /// `escapes_less`: JSON strings may contain `<` only as \u003c, so that they cannot contain a
  /// mark.
  explicit Rules(bool escapes_less = false) : escapes_less_(escapes_less) {}

  /// Returns the name of a rule with this body. Equal bodies share one rule.
  std::string add(const std::string& body);
  /// Returns a JSON text as a terminal.
  std::string json(std::string_view text) const;
  bool escapes_less() const { return escapes_less_; }
  /// Returns a name for a rule whose body is defined later.
  std::string reserve();
  void define(const std::string& name, const std::string& body);

  /// Returns an expression for the words of a language.
  std::string language(const Dfa& dfa, Writing writing);
  /// Returns an expression for JSON strings of `least` to `most` code points; most < 0: unbounded.
  std::string string_of_length(int64_t least, int64_t most);
  /// The same for strings of code points of `set`.
  std::string string_of_length(const CodeSet& set, int64_t least, int64_t most);
  /// Returns an expression for `least` to `most` code points of `set`, written verbatim.
  std::string plain_of_length(const CodeSet& set, int64_t least, int64_t most);
  /// Rules for unconstrained JSON values.
  std::string any();
  std::string any_string();
  std::string any_number();
  std::string any_array();
  std::string any_object();
  /// The rest of a JSON string after the opening quotation mark.
  std::string string_rest();

  /// Returns all rules as text; `root` is the body of the first.
  std::string text(const std::string& root) const;

 private:
  friend class StateWriter;
  using Pieces = std::vector<std::string>;
  Pieces any_character();
  /// Returns `pieces` repeated `count` times.
  std::string times(const Pieces& pieces, int64_t count);
  /// Returns up to `most` of `pieces`, followed by `end`.
  std::string up_to(const Pieces& pieces, int64_t most, const std::string& end);
  std::string counted(const Pieces& pieces, int64_t least, int64_t most, const std::string& rest);

  bool escapes_less_;
  std::string text_;
  int64_t count_ = 0;
  std::unordered_map<std::string, std::string> by_body_;
  std::unordered_map<std::string, std::string> languages_;
  std::string any_;
};

}  // namespace veery::schema
