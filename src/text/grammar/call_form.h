// call_form.h: the text format in which a model writes tool calls.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/grammar/schema/member_marks.h"

namespace veery {

/// open NAME middle ARGUMENTS (separator NAME middle ARGUMENTS)* close.
struct CallForm {
  static constexpr std::string_view kId = "\x01";  ///< placeholder for the id of a call

  std::string open, middle, close;
  std::string separator;     ///< empty: an answer holds one call only
  MemberMarks members = {};  ///< how arguments are written

  friend bool operator==(const CallForm&, const CallForm&) = default;
};

/// A tool that the model may call.
struct CallableTool {
  std::string name;
  Json parameters;     ///< JSON schema of the arguments; null: any object
  bool strict = true;  ///< false: arguments are unconstrained if the answer may also be text
};

}  // namespace veery
