// builtins.h: argument binding and look-up of functions, filters and tests.
#pragma once
#include <initializer_list>

#include "base/json.h"
#include "text/jinja/value/operators.h"

namespace veery::jinja {

/// Arguments bound to parameter names by Python's rules.
class Bound {
 public:
  /// Throws if an argument has no parameter, or one of the first `required` parameters no argument.
  Bound(std::string_view callee, const Arguments& arguments,
        std::initializer_list<std::string_view> names, size_t required = 0);
  const Value* get(size_t i) const { return values_[i]; }
  const Value& at(size_t i) const { return *values_[i]; }
  /// Returns null for an argument that is absent or none.
  const Value* set(size_t i) const {
    return values_[i] == nullptr || values_[i]->is_none() ? nullptr : values_[i];
  }
  bool flag(size_t i) const { return values_[i] != nullptr && truth(*values_[i]); }
  Int integer(size_t i, Int otherwise) const;
  const std::string& text(size_t i) const;  ///< throws unless it is a string

 private:
  std::string_view callee_;
  std::vector<const Value*> values_;
};

/// json.dumps(value, ensure_ascii=False, ...).
Value filter_tojson(Context& context, const Value& value, Arguments& arguments);
/// Converts JSON to a value. Throws kLimit above kMaxValueDepth levels.
Value from_json(const Json& json);

Value make_dict(Context& context, const Value& self, Arguments& arguments);
/// Returns a global function (range, dict, namespace, raise_exception, strftime_now ...), or null.
Builtin find_function(std::string_view name);
/// Formats a wall clock, given in seconds since 1970, like strftime.
std::string format_time(int64_t seconds, std::string_view format);

// Look-up of filters, by file; find_filter() searches both.
Builtin find_text_filter(std::string_view name);
Builtin find_sequence_filter(std::string_view name);

template <size_t n>
Builtin find_in(const std::pair<std::string_view, Builtin> (&table)[n], std::string_view name) {
  for (const auto& [key, function] : table) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace veery::jinja
