// rules.h: a grammar under construction, in xgrammar's EBNF.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// A text as a terminal.
std::string terminal(std::string_view text);

/// How words of a language are written.
enum class Writing {
  kPlain,       ///< as they are
  kJsonString,  ///< inside of a JSON string, with its escapes, and with its closing quotation mark
};

/// Collects rules. Throws kLimit if they become too many.
class Rules {
 public:
  /// `escapes_less`: strings of JSON hold `<` as \u003c only, so that they hold no mark.
  explicit Rules(bool escapes_less = false) : escapes_less_(escapes_less) {}

  /// The name of a rule with this body; equal bodies are one rule.
  std::string add(const std::string& body);
  /// A JSON text as a terminal.
  std::string json(std::string_view text) const;
  bool escapes_less() const { return escapes_less_; }
  /// A name for a rule whose body is defined later.
  std::string reserve();
  void define(const std::string& name, const std::string& body);

  /// An expression for the words of a language.
  std::string language(const Dfa& dfa, Writing writing);
  /// An expression for JSON strings of `least` to `most` code points; most < 0: no upper limit.
  std::string string_of_length(int64_t least, int64_t most);
  /// The same of strings whose code points are all in one set.
  std::string string_of_length(const CodeSet& set, int64_t least, int64_t most);
  /// An expression for `least` to `most` code points of a set, as they are.
  std::string plain_of_length(const CodeSet& set, int64_t least, int64_t most);
  /// Rules of JSON values without a constraint.
  std::string any();
  std::string any_string();
  std::string any_number();
  std::string any_array();
  std::string any_object();
  /// The rest of a string after its opening quotation mark.
  std::string string_rest();

  /// All rules; `root` is the body of the first.
  std::string text(const std::string& root) const;

 private:
  friend class StateWriter;
  using Pieces = std::vector<std::string>;
  Pieces any_character();
  /// Returns `pieces` repeated `count` times.
  std::string times(const Pieces& pieces, int64_t count);
  /// Returns up to `most` of the pieces, then `end`.
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
