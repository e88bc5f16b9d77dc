#include "text/jinja/value/operators.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

[[noreturn]] void fail_operands(Operator op, const Value& a, const Value& b) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", operator_symbol(op), type_name(a),
       type_name(b));
}

Value add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool markup = a.string().markup || b.string().markup;
    std::string left = markup ? escaped(a) : a.text();
    const std::string right = markup ? escaped(b) : std::string();
    const std::string& tail = markup ? right : b.text();
    expect_memory(left.size() + tail.size());
    left.reserve(left.size() + tail.size());
    left += tail;
    return Value(std::move(left), markup);
  }
  if (a.is_list() && b.type() == a.type()) {
    List items;
    expect_memory((a.items().size() + b.items().size()) * sizeof(Value));
    items.reserve(a.items().size() + b.items().size());
    items.insert(items.end(), a.items().begin(), a.items().end());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is(Type::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (a.is_string()) fail("can only concatenate str (not \"{}\") to str", type_name(b));
  if (a.is_list())
    fail("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
  fail_operands(Operator::kAdd, a, b);
}

// Returns the bounds of a slice over `size` elements, like Python's slice.indices().
RangeObject slice_range(const SliceObject& slice, Int size) {
  const auto part = [](const Value& value, Int otherwise) {
    if (value.is_none()) return otherwise;
    if (!value.is_integral())
      fail("slice indices must be integers or None or have an __index__ method");
    return value.integer();
  };
  const Int step = part(slice.step, 1);
  if (step == 0) fail("slice step cannot be zero");
  const Int low = step > 0 ? 0 : -1;
  const Int high = step > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, Int otherwise) {
    Int at = part(value, otherwise);
    if (value.is_none()) return otherwise;
    if (at < 0) at += size;
    return std::clamp(at, low, high);
  };
  return {bound(slice.start, step > 0 ? low : high), bound(slice.stop, step > 0 ? high : low),
          step};
}

Value slice_string(const StringObject& string, const RangeObject& range) {
  if (range.step == 1) {
    const auto count = static_cast<size_t>(range.size());
    if (count == 0) return Value(std::string(), string.markup);
    const auto start = static_cast<size_t>(range.start);
    std::string_view text = string.text;
    if (string.ascii()) return Value(std::string(text.substr(start, count)), string.markup);
    text.remove_prefix(byte_offset(text, start));
    return Value(std::string(text.substr(0, byte_offset(text, count))), string.markup);
  }
  std::vector<std::string_view> points;  // only for text that is not ASCII
  if (!string.ascii()) {
    expect_memory(string.length * sizeof(std::string_view));
    spend_text(string.text.size());
    points.reserve(string.length);
    for (std::string_view rest = string.text; !rest.empty();) {
      points.push_back(rest.substr(0, static_cast<size_t>(next_code_point(rest).length)));
      rest.remove_prefix(points.back().size());
    }
  }
  spend_items(static_cast<size_t>(range.size()));
  Builder out;
  Int at = range.start;
  for (Int n = range.size(); n > 0; --n, at += range.step) {
    const auto place = static_cast<size_t>(at);
    if (string.ascii())
      out.append(string.text[place]);
    else if (place < points.size())  // malformed text may have fewer characters than counted
      out.append(points[place]);
  }
  return Value(out.take(), string.markup);
}

Value slice_value(const Value& object, const SliceObject& slice) {
  const RangeObject range = slice_range(slice, static_cast<Int>(length(object)));
  if (object.is_string()) return slice_string(object.string(), range);
  if (object.is(Type::kRange)) {
    const auto& whole = object.as<RangeObject>();
    return Value(Type::kRange,
                 std::make_shared<RangeObject>(RangeObject{whole.start + range.start * whole.step,
                                                           whole.start + range.stop * whole.step,
                                                           whole.step * range.step}));
  }
  List items;
  expect_memory(static_cast<size_t>(range.size()) * sizeof(Value));
  items.reserve(static_cast<size_t>(range.size()));
  Int at = range.start;
  for (Int n = range.size(); n > 0; --n, at += range.step)
    items.push_back(object.items()[static_cast<size_t>(at)]);
  return object.is(Type::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

// Returns the element at an index, or nullopt where Python raises LookupError.
std::optional<Value> element(const Value& object, Int index) {
  const auto size = static_cast<Int>(length(object));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  const auto at = static_cast<size_t>(index);
  if (object.is_list()) return object.items()[at];
  if (object.is(Type::kRange)) {
    const auto& range = object.as<RangeObject>();
    return Value(range.start + index * range.step);
  }
  const StringObject& string = object.string();
  std::string_view text = string.text;
  if (!string.ascii()) {
    text.remove_prefix(byte_offset(text, at));
    return character(text.substr(0, byte_offset(text, 1)));
  }
  return character(text.substr(at, 1));
}

std::optional<Value> subscript(const Value& object, const Value& index) {
  switch (object.type()) {
    case Type::kUndefined: fail_undefined(object);
    case Type::kDict:
      if (index.is(Type::kList) || index.is_dict()) return {};  // a TypeError in Python
      if (const Value* found = object.entries().find(index)) return *found;
      return {};
    case Type::kString:
    case Type::kList:
    case Type::kTuple:
    case Type::kRange:
      if (index.is(Type::kSlice)) return slice_value(object, index.as<SliceObject>());
      if (index.is_integral()) return element(object, index.integer());
      return {};
    default: return {};
  }
}

std::string object_name(const Value& object) {
  if (object.is_none()) return "None";
  return fmt::format("{} object", type_name(object));
}

std::optional<Value> own_attribute(const Value& object, const std::string& name) {
  if (object.is(Type::kNamespace)) {
    const Value* found = object.as<NamespaceObject>().attributes.find(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (object.is(Type::kTuple) && object.as<ListObject>().group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (object.is(Type::kCycler) && name == "current") {
    const auto& cycler = object.as<CyclerObject>();
    return cycler.items[cycler.position];
  }
  if (has_method(object, name)) return find_method(object, name);
  return {};
}

Value missing(const Value& object, const Value& name) {
  if (name.is_string())
    return Value::undefined(
        fmt::format("'{}' has no attribute {}", object_name(object), shown(repr(name))));
  return Value::undefined(
      fmt::format("{} has no element {}", object_name(object), shown(repr(name))));
}

}  // namespace

std::string escaped(const Value& value) {
  if (value.is_string() && value.string().markup) return value.text();
  return escape_html(to_text(value));
}

Int to_index(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral())
    fail("{}: '{}' object cannot be interpreted as an integer", what, type_name(value));
  return value.integer();
}

Value repeat(const Value& sequence, Int count) {
  const Int limit = Int{1} << 40;  // far above any budget, but small enough to multiply
  const auto times = static_cast<size_t>(std::clamp(count, Int{0}, limit));
  if (sequence.is_string()) {
    Builder out;
    expect_memory(std::min(sequence.text().size(), size_t{1} << 20) * times);
    if (sequence.text().size() == 1) {
      out.append(times, sequence.text()[0]);
    } else {
      if (!sequence.text().empty()) spend_items(times);
      for (size_t i = 0; i < times && !sequence.text().empty(); ++i) out.append(sequence.text());
    }
    return Value(out.take(), sequence.string().markup);
  }
  List items;
  expect_memory(std::min(sequence.items().size(), size_t{1} << 20) * times * sizeof(Value));
  if (!sequence.items().empty()) {
    spend_items(times * sequence.items().size());
    items.reserve(times * sequence.items().size());
  }
  for (size_t i = 0; i < times && !sequence.items().empty(); ++i)
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return sequence.is(Type::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value binary(Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == Operator::kModulo && a.is_string()) return format_percent(a, b);
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  if (op == Operator::kAdd) return add(a, b);
  if (op == Operator::kMultiply) {
    if ((a.is_string() || a.is_list()) && b.is_integral()) return repeat(a, b.integer());
    if ((b.is_string() || b.is_list()) && a.is_integral()) return repeat(b, a.integer());
    if (a.is_string() || a.is_list())
      fail("can't multiply sequence by non-int of type '{}'", type_name(b));
  }
  if (op == Operator::kSubtract && a.is(Type::kView) && b.is(Type::kView))
    throw Error(ErrorKind::kUnsupported, "sets are not supported");
  fail_operands(op, a, b);
}

Value unary(Operator op, const Value& a) {
  if (a.is_undefined()) fail_undefined(a);
  if (!a.is_number()) fail("bad operand type for {}: '{}'", operator_symbol(op), type_name(a));
  if (op == Operator::kPlus) return a.is_integral() ? Value(a.integer()) : a;
  if (a.is(Type::kFloat)) return Value(-a.real());
  return arithmetic(Operator::kSubtract, Value(0), a);
}

bool compare_values(Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual: return equal(a, b);
    case Operator::kNotEqual: return !equal(a, b);
    case Operator::kIn: return contains(b, a);
    case Operator::kNotIn: return !contains(b, a);
    default: break;
  }
  if (a.is(Type::kFloat) || b.is(Type::kFloat)) {  // comparisons with NaN are false
    if (a.is_number() && b.is_number() && (a.real() != a.real() || b.real() != b.real()))
      return false;
  }
  const int order = compare(a, b, operator_symbol(op));
  switch (op) {
    case Operator::kLess: return order < 0;
    case Operator::kLessEqual: return order <= 0;
    case Operator::kGreater: return order > 0;
    default: return order >= 0;
  }
}

Value make_slice(Value start, Value stop, Value step) {
  return Value(Type::kSlice,
               make_object<SliceObject>(std::move(start), std::move(stop), std::move(step)));
}

Value get_item(const Value& object, const Value& index) {
  spend_steps(2);
  if (std::optional<Value> found = subscript(object, index)) return std::move(*found);
  if (index.is_string()) {
    if (std::optional<Value> found = own_attribute(object, index.text())) return std::move(*found);
  }
  return missing(object, index);
}

Value get_attribute(const Value& object, const Value& name) {
  spend_steps(3);  // linear search for the method
  if (object.is_undefined()) fail_undefined(object);
  if (name.text().starts_with("__"))
    return Value::undefined(fmt::format("access to attribute {} of '{}' object is unsafe.",
                                        shown(repr(name)), type_name(object)));
  if (std::optional<Value> found = own_attribute(object, name.text())) return std::move(*found);
  if (std::optional<Value> found = subscript(object, name)) return std::move(*found);
  return missing(object, name);
}

Value join_texts(const Value& separator, const List& items) {
  Builder out;
  spend_items(items.size());
  const bool markup = separator.string().markup;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator.text());
    if (markup)
      out.append(escaped(items[i]));
    else
      append_text(out, items[i]);
  }
  return Value(out.take(), markup);
}

}  // namespace veery::jinja
