// operators.h: operators, subscripts and attributes of values.
#pragma once
#include "text/jinja/value/numbers.h"
#include "text/jinja/value/value.h"

namespace veery::jinja {

/// Computes a op b with an arithmetic operator for numbers, strings and lists.
Value binary(Operator op, const Value& a, const Value& b);
Value unary(Operator op, const Value& a);
bool compare_values(Operator op, const Value& a, const Value& b);

/// Returns object[index], else the attribute of that name; undefined if both are missing.
Value get_item(const Value& object, const Value& index);
/// Returns object.name, else object[name].
Value get_attribute(const Value& object, const Value& name);
/// Creates a slice object; absent parts are none.
Value make_slice(Value start, Value stop, Value step);

/// Returns a builtin method of `object`; undefined if it does not exist or the sandbox forbids it.
Value find_method(const Value& object, std::string_view name);
bool has_method(const Value& object, std::string_view name);

/// Formats pattern % arguments ("printf" style); a tuple holds several arguments.
Value format_percent(const Value& pattern, const Value& arguments);
/// str.format().
Value format_braces(const Value& pattern, const Arguments& arguments);
/// format(value, spec).
std::string format_value(const Value& value, std::string_view spec);

/// Returns the HTML-escaped text of a value; markup is not escaped again.
std::string escaped(const Value& value);
Value join_texts(const Value& separator, const List& items);
/// Repeats a string or list.
Value repeat(const Value& sequence, Int count);
Int to_index(const Value& value, std::string_view what);

}  // namespace veery::jinja
