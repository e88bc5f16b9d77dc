// member_marks.h: arguments of calls that are keys and values between marks.
#pragma once
#include <string>
#include <vector>

namespace veery {

/// How the members of an object are written between marks: key NAME text VALUE end, one after the
/// other. Strings are written as they are, all other values as JSON.
struct MemberMarks {
  std::string key;   ///< empty: objects are written as JSON
  std::string text;  ///< between name and value
  std::string json;  ///< the same before a value that is no string
  std::string end;
  std::vector<std::string> stops = {};  ///< texts that end a value, so that it holds none of them
  /// A line break at this side of a value is read as a part of the mark beside it.
  bool drops_first_break = false, drops_last_break = false;

  /// Whether the reader has to tell from a value whether it is a string.
  bool guesses() const { return text == json; }
  friend bool operator==(const MemberMarks&, const MemberMarks&) = default;
};

}  // namespace veery
