// call_form.h: the text by which a model calls tools, as far as it holds their arguments as JSON.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

/// open NAME middle ARGUMENTS (joint NAME middle ARGUMENTS)* close.
struct CallForm {
  static constexpr std::string_view kId = "\x01";  ///< stands for the id of a call

  std::string open, middle, close;
  std::string joint;  ///< empty: there is one call only

  friend bool operator==(const CallForm&, const CallForm&) = default;
};

/// A tool that may be called.
struct CallableTool {
  std::string name;
  Json parameters;  ///< a JSON schema; null: any object
};

}  // namespace veery
