// call_form.h: the text by which a model calls tools.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/grammar/schema/member_marks.h"

namespace veery {

/// open NAME middle ARGUMENTS (joint NAME middle ARGUMENTS)* close.
struct CallForm {
  static constexpr std::string_view kId = "\x01";  ///< stands for the id of a call

  std::string open, middle, close;
  std::string joint;         ///< empty: there is one call only
  MemberMarks members = {};  ///< of the arguments

  friend bool operator==(const CallForm&, const CallForm&) = default;
};

/// A tool that may be called.
struct CallableTool {
  std::string name;
  Json parameters;     ///< a JSON schema; null: any object
  bool strict = true;  ///< false: any object where the answer may also be text
};

}  // namespace veery
