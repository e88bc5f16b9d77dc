#include "text/jinja/value/numbers.h"
#include "text/jinja/value/strings.h"
#include "text/jinja/value/value.h"

namespace veery::jinja {
namespace {

void append_list(Builder& out, const List& items, std::string_view open, std::string_view close,
                 int depth) {
  out.append(open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(out, items[i], depth + 1);
  }
  out.append(close);
}

void append_dict(Builder& out, const DictObject& dict, int depth) {
  out.append('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, key, depth + 1);
    out.append(": ");
    append_repr(out, value, depth + 1);
  }
  out.append('}');
}

void append_range(Builder& out, const RangeObject& range) {
  out.append(fmt::format("range({}, {}", integer_text(range.start), integer_text(range.stop)));
  if (range.step != 1) out.append(", " + integer_text(range.step));
  out.append(')');
}

void append_view(Builder& out, const Value& value, int depth) {
  out.append(type_name(value));
  append_list(out, iterate(value), "([", "])", depth);
}

}  // namespace

void append_repr(Builder& out, const Value& value, int depth) {
  spend_steps(1);
  // Only namespaces can contain themselves; lists are at most kMaxValueDepth deep.
  if (depth > 2 * kMaxValueDepth) fail("maximum recursion depth exceeded while getting the repr");
  switch (value.type()) {
    case Type::kUndefined: out.append("Undefined"); break;
    case Type::kNone: out.append("None"); break;
    case Type::kBool: out.append(value.boolean() ? "True" : "False"); break;
    case Type::kInt: out.append(integer_text(value.integer())); break;
    case Type::kFloat: out.append(float_text(value.real())); break;
    case Type::kString:
      if (value.string().markup) out.append("Markup(");
      append_quoted(out, value.text());
      if (value.string().markup) out.append(')');
      break;
    case Type::kList: append_list(out, value.items(), "[", "]", depth); break;
    case Type::kTuple:
      append_list(out, value.items(), "(", value.items().size() == 1 ? ",)" : ")", depth);
      break;
    case Type::kDict: append_dict(out, value.entries(), depth); break;
    case Type::kView: append_view(out, value, depth); break;
    case Type::kRange: append_range(out, value.as<RangeObject>()); break;
    case Type::kNamespace:
      out.append("<Namespace ");
      append_dict(out, value.as<NamespaceObject>().attributes, depth + 1);
      out.append('>');
      break;
    case Type::kFunction:
      out.append(fmt::format("<function {}>", value.as<FunctionObject>().name));
      break;
    default: out.append(fmt::format("<{} object>", type_name(value)));
  }
}

void append_text(Builder& out, const Value& value) {
  if (value.is_string())
    out.append(value.text());
  else if (!value.is_undefined())
    append_repr(out, value);
}

std::string to_text(const Value& value) {
  if (value.is_string()) {
    spend_copy(value.text().size());
    expect_memory(value.text().size());
    return value.text();
  }
  Builder out;
  append_text(out, value);
  return out.take();
}

std::string repr(const Value& value) {
  Builder out;
  append_repr(out, value);
  return out.take();
}

}  // namespace veery::jinja
