// marked_values.h: grammar expressions for argument names and values between marks.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/grammar/schema/form.h"
#include "text/grammar/schema/member_marks.h"
#include "text/grammar/schema/rules.h"

namespace veery::schema {

/// The automata of the names and texts that can be written between the marks of one form of calls.
/// They are costly to build, so the tools of a grammar share them. `marks` must outlive it.
struct MarkLanguages {
  explicit MarkLanguages(const MemberMarks& marks);

  const MemberMarks& marks;
  Dfa names;            ///< of members other than the listed properties
  Dfa texts;            ///< everything that does not end the value
  Dfa unlike_literals;  ///< the texts that AnswerWriter never reads as a literal
};

/// Builds expressions for the members of a call whose arguments are written between marks. The
/// constructor's arguments must outlive it.
class MarkedValues {
 public:
  /// `schema`: of the arguments; AnswerWriter uses it to decide which values are strings.
  MarkedValues(const MarkLanguages& languages, const Json& schema);

  /// Returns whether AnswerWriter reads the value of a member as a string whatever it looks like.
  bool is_text(const std::string& name) const;
  /// Key mark and name. Throws kUnsupported if the name cannot be written between marks.
  std::string name(const std::string& name) const;
  std::string name(const Dfa& names, Rules& rules) const;
  /// The names that members other than the listed properties may have.
  const Dfa& names() const { return languages_.names; }

  /// Mark, value and end mark; the value is a string, or a JSON expression for json().
  std::string text(const Dfa& texts, Rules& rules) const;
  std::string json(const std::string& value) const;
  /// Any value with its marks.
  std::string any(Rules& rules) const;
  /// Returns the strings of `form` that AnswerWriter reads as strings; `text` is the result of
  /// is_text().
  Dfa texts(const StringForm& form, bool text) const;
  /// Returns the member expression of a form that restricts only the length, if the length is too
  /// large for an automaton. Its strings exclude `<`.
  std::optional<std::string> counted_text(const StringForm& form, bool text, Rules& rules) const;

 private:
  const MarkLanguages& languages_;
  const MemberMarks& marks_;
  const Json& schema_;
};

}  // namespace veery::schema
