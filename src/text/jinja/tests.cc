#include "text/jinja/builtins.h"
#include "text/jinja/parse/ast.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

using Predicate = bool (*)(const Value&);
template <Predicate predicate>
Value one(Context&, const Value& value, Arguments& args) {
  Bound("test", args, {});
  return Value(predicate(value));
}

using Relation = bool (*)(const Value&, const Value&);
template <Relation relation>
Value two(Context&, const Value& value, Arguments& args) {
  const Bound bound("test", args, {"other"}, 1);
  return Value(relation(value, bound.at(0)));
}

template <Operator op>
bool related(const Value& a, const Value& b) {
  return compare_values(op, a, b);
}

bool rest_is(const Value& value, const Value& divisor, int rest) {
  return equal(binary(Operator::kModulo, value, divisor), Value(rest));
}
bool is_odd(const Value& value) { return rest_is(value, Value(2), 1); }
bool is_even(const Value& value) { return rest_is(value, Value(2), 0); }
bool is_divisible(const Value& value, const Value& by) { return rest_is(value, by, 0); }
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_filter(const Value& value) {
  spend_steps(4);  // linear search for the name
  return value.is_string() && find_filter(value.text()) != nullptr;
}
bool is_test(const Value& value) {
  spend_steps(4);
  return value.is_string() && find_test(value.text()) != nullptr;
}
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Type::kBool); }
bool is_true(const Value& value) { return value.is(Type::kBool) && value.boolean(); }
bool is_false(const Value& value) { return value.is(Type::kBool) && !value.boolean(); }
bool is_integer(const Value& value) { return value.is(Type::kInt); }
bool is_float(const Value& value) { return value.is(Type::kFloat); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_lower_text(const Value& value) { return has_case(to_text(value), false); }
bool is_upper_text(const Value& value) { return has_case(to_text(value), true); }
bool is_escaped(const Value& value) { return value.is_string() && value.string().markup; }
bool is_iterable_value(const Value& value) { return is_iterable(value); }

bool is_sequence(const Value& value) {
  // Types with a length and subscripts. Undefined values have both; views have no subscripts.
  return value.is_string() || value.is_list() || value.is_dict() || value.is(Type::kRange) ||
         value.is_undefined();
}

bool is_callable(const Value& value) {
  return value.is(Type::kFunction) || value.is(Type::kMacro) || value.is(Type::kJoiner) ||
         value.is(Type::kLoop) || value.is_undefined();
}

bool is_same(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.is_none()) return true;
  if (a.is_number()) return equal(a, b);
  return a.object() == b.object() || (a.is_string() && equal(a, b));
}

bool is_in(const Value& value, const Value& container) { return contains(container, value); }

constexpr std::pair<std::string_view, Builtin> kTests[] = {
    {"odd", one<is_odd>},
    {"even", one<is_even>},
    {"divisibleby", two<is_divisible>},
    {"defined", one<is_defined>},
    {"undefined", one<is_undefined>},
    {"filter", one<is_filter>},
    {"test", one<is_test>},
    {"none", one<is_none>},
    {"boolean", one<is_boolean>},
    {"true", one<is_true>},
    {"false", one<is_false>},
    {"integer", one<is_integer>},
    {"float", one<is_float>},
    {"number", one<is_number>},
    {"string", one<is_string>},
    {"mapping", one<is_mapping>},
    {"lower", one<is_lower_text>},
    {"upper", one<is_upper_text>},
    {"escaped", one<is_escaped>},
    {"iterable", one<is_iterable_value>},
    {"sequence", one<is_sequence>},
    {"callable", one<is_callable>},
    {"sameas", two<is_same>},
    {"in", two<is_in>},
    {"==", two<related<Operator::kEqual>>},
    {"eq", two<related<Operator::kEqual>>},
    {"equalto", two<related<Operator::kEqual>>},
    {"!=", two<related<Operator::kNotEqual>>},
    {"ne", two<related<Operator::kNotEqual>>},
    {">", two<related<Operator::kGreater>>},
    {"gt", two<related<Operator::kGreater>>},
    {"greaterthan", two<related<Operator::kGreater>>},
    {">=", two<related<Operator::kGreaterEqual>>},
    {"ge", two<related<Operator::kGreaterEqual>>},
    {"<", two<related<Operator::kLess>>},
    {"lt", two<related<Operator::kLess>>},
    {"lessthan", two<related<Operator::kLess>>},
    {"<=", two<related<Operator::kLessEqual>>},
    {"le", two<related<Operator::kLessEqual>>}};

}  // namespace

Builtin find_test(std::string_view name) { return find_in(kTests, name); }

}  // namespace veery::jinja
