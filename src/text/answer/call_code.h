// call_code.h: values and calls written as code: Python's, JavaScript's and Gemma's.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery {

struct CodeCall {
  std::string name;
  Json arguments;
};

/// A literal of JSON or Python: [1, 'a', {"b": None}], True. `quote`, if not empty, stands around
/// strings too; keys need no quotes. Absent if `text` is not one whole literal.
std::optional<Json> read_literal(std::string_view text, std::string_view quote = {});

/// f(a=1, b="x"), [f(), g(a=None)], print(f(a=1)), f.call(a=1) or call:f{a:1}; none where `text` is
/// anything else.
std::vector<CodeCall> read_calls(std::string_view text, std::string_view quote = {});

}  // namespace veery
