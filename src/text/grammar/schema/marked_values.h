// marked_values.h: how names and values of arguments are written between marks.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/grammar/schema/form.h"
#include "text/grammar/schema/member_marks.h"
#include "text/grammar/schema/rules.h"

namespace veery::schema {

/// Expressions for members between the marks of one form of calls. Refers to its arguments.
class MarkedValues {
 public:
  /// `schema`: of the arguments; it tells the reader which values are strings.
  MarkedValues(const MemberMarks& marks, const Json& schema);

  /// Whether the reader takes the value of a member as a string, whatever it looks like.
  bool is_text(const std::string& name) const;
  /// A mark and a name. Throws kUnsupported if the name cannot stand between marks.
  std::string name(const std::string& name) const;
  std::string name(const Dfa& names, Rules& rules) const;
  /// The names that members without a property may have.
  const Dfa& names() const { return names_; }

  /// A mark, a value and a mark: a string, and a value of a JSON expression.
  std::string text(const Dfa& texts, Rules& rules) const;
  std::string json(const std::string& value) const;
  /// The same for every value.
  std::string any(Rules& rules) const;
  /// The strings of a form that the reader takes as such; `text` as is_text() says.
  Dfa texts(const StringForm& form, bool text) const;
  /// The member for a form that has a length only, too large a number for an automaton. Its strings
  /// hold no `<`.
  std::optional<std::string> counted_text(const StringForm& form, bool text, Rules& rules) const;

 private:
  const MemberMarks& marks_;
  const Json& schema_;
  Dfa names_, texts_, unlike_literals_;
};

}  // namespace veery::schema
