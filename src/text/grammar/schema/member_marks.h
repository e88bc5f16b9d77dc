// member_marks.h: marks around the arguments of calls that are not written as JSON.
#pragma once
#include <string>
#include <vector>

namespace veery {

/// How the members of an object are written between marks: key NAME text VALUE end, repeated.
/// Strings are written verbatim, all other values as JSON.
struct MemberMarks {
  std::string key;   ///< empty: objects are written as JSON
  std::string text;  ///< between the name and a string value
  std::string json;  ///< between the name and a value that is not a string
  std::string end;
  std::vector<std::string> stops = {};  ///< texts that end a value and thus cannot occur in it
  /// A line break at this end of a value belongs to the adjacent mark.
  bool drops_first_break = false, drops_last_break = false;

  /// Whether only the value itself shows if it is a string.
  bool guesses() const { return text == json; }
  friend bool operator==(const MemberMarks&, const MemberMarks&) = default;
};

}  // namespace veery
