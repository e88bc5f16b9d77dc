// call_code.h: parses calls and literals written as code (Python, JavaScript and Gemma syntax).
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

/// Parses a JSON or Python literal, such as [1, 'a', {"b": None}] or True. `quote`, if not empty,
/// is another quotation mark for strings; keys need no quotes. Returns nullopt unless `text` is
/// exactly one literal.
std::optional<Json> read_literal(std::string_view text, std::string_view quote = {});

/// Parses calls: f(a=1, b="x"), [f(), g(a=None)], print(f(a=1)), f.call(a=1) or call:f{a:1}.
/// Returns an empty list if `text` is anything else.
std::vector<CodeCall> read_calls(std::string_view text, std::string_view quote = {});

}  // namespace veery
