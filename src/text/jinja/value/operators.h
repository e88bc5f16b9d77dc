// operators.h: operators, subscripts and attributes of values.
#pragma once
#include "text/jinja/value/numbers.h"
#include "text/jinja/value/value.h"

namespace veery::jinja {

/// a op b for arithmetic operators, of numbers, strings and lists.
Value binary(Operator op, const Value& a, const Value& b);
Value unary(Operator op, const Value& a);
bool compare_values(Operator op, const Value& a, const Value& b);

/// object[index], then the attribute of that name; undefined where Python has neither.
Value get_item(const Value& object, const Value& index);
/// object.name, then object[name].
Value get_attribute(const Value& object, const Value& name);
/// Makes slice objects; absent parts are none.
Value make_slice(Value start, Value stop, Value step);

/// A builtin method of `object`; undefined if it has none, and what the sandbox refuses.
Value find_method(const Value& object, std::string_view name);
bool has_method(const Value& object, std::string_view name);

/// "printf" formatting: pattern % arguments, where a tuple gives several.
Value format_percent(const Value& pattern, const Value& arguments);
/// str.format.
Value format_braces(const Value& pattern, const Arguments& arguments);
/// format(value, spec).
std::string format_value(const Value& value, std::string_view spec);

/// str and str subclass: markup escapes what joins it.
std::string escaped(const Value& value);
Value join_texts(const Value& separator, const List& items);
/// Repeats text or a list.
Value repeat(const Value& sequence, Int count);
Int to_index(const Value& value, std::string_view what);

}  // namespace veery::jinja
