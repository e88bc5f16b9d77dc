#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {

const Value* Evaluator::find(int symbol) const {
  Meter meter;
  for (const Frame* frame = frame_.get(); frame != nullptr; frame = frame->parent.get()) {
    meter.add(8 + 4 * frame->values.size());
    for (const auto& [known, value] : frame->values) {
      if (known == symbol) return &value;
    }
  }
  const auto number = static_cast<size_t>(symbol);
  return has_variable_[number] ? &variables_[number] : nullptr;
}

Value Evaluator::eval(const Expr& expr) {
  const Deeper deeper(*this);
  spend_steps(1);
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return eval_name(expr);
    case ExprKind::kList:
    case ExprKind::kTuple: return eval_collection(expr);
    case ExprKind::kDict: return eval_dict(expr);
    case ExprKind::kUnary: return unary(expr.op, eval(*expr.items[0]));
    case ExprKind::kBinary: return eval_binary(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: return eval_logic(expr);
    case ExprKind::kNot: return Value(!truth(eval(*expr.items[0])));
    case ExprKind::kCompare: return eval_compare(expr);
    case ExprKind::kConcat: return eval_concat(expr);
    case ExprKind::kConditional: return eval_conditional(expr);
    case ExprKind::kAttribute:
    case ExprKind::kItem: return eval_subscript(expr);
    case ExprKind::kSlice: return eval_slice(expr);
    case ExprKind::kCall: return eval_call(expr);
    case ExprKind::kFilter:
    case ExprKind::kTest: return eval_builtin(expr);
  }
  return {};
}

Value Evaluator::eval_name(const Expr& expr) {
  if (const Value* found = find(expr.symbol)) return *found;
  if (const Builtin function = find_function(expr.name))
    return Value(Type::kFunction, make_object<FunctionObject>(expr.name, function, Value()));
  return Value::undefined(fmt::format("'{}' is undefined", shown(expr.name)));
}

Value Evaluator::eval_collection(const Expr& expr) {
  List items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item));
  return expr.kind == ExprKind::kList ? Value::list(std::move(items))
                                      : Value::tuple(std::move(items));
}

Value Evaluator::eval_dict(const Expr& expr) {
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    Value key = eval(*expr.items[i]);
    dict->set(std::move(key), eval(*expr.items[i + 1]));
  }
  return Value::dict(std::move(dict));
}

Value Evaluator::eval_binary(const Expr& expr) {
  const Value left = eval(*expr.items[0]);
  const Value right = eval(*expr.items[1]);
  line_ = expr.line;
  return binary(expr.op, left, right);
}

Value Evaluator::eval_logic(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  if (truth(left) == (expr.kind == ExprKind::kOr)) return left;
  return eval(*expr.items[1]);
}

Value Evaluator::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = eval(*expr.items[i + 1]);
    line_ = expr.line;
    if (!compare_values(expr.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::eval_concat(const Expr& expr) {
  Builder out;
  for (const ExprPtr& item : expr.items) append_text(out, eval(*item));
  return Value(out.take());
}

Value Evaluator::eval_conditional(const Expr& expr) {
  if (truth(eval(*expr.items[1]))) return eval(*expr.items[0]);
  if (expr.items[2] != nullptr) return eval(*expr.items[2]);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was defined.");
}

Value Evaluator::eval_slice(const Expr& expr) {
  const auto part = [&](size_t i) {
    return expr.items[i] == nullptr ? Value::none() : eval(*expr.items[i]);
  };
  Value start = part(0);
  Value stop = part(1);
  return make_slice(std::move(start), std::move(stop), part(2));
}

Value Evaluator::eval_subscript(const Expr& expr) {
  const Value object = eval(*expr.items[0]);
  if (expr.kind == ExprKind::kItem) {
    const Value index = eval(*expr.items[1]);
    line_ = expr.line;
    return get_item(object, index);
  }
  line_ = expr.line;
  if (object.is(Type::kLoop)) return loop_attribute(object, expr.name);
  if (object.is(Type::kMacro) && expr.name == "name") return Value(object.as<MacroObject>().name);
  return get_attribute(object, expr.constant);
}

Arguments Evaluator::eval_arguments(const CallArguments* arguments) {
  Arguments out;
  if (arguments == nullptr) return out;
  for (const ExprPtr& item : arguments->positional) out.positional.push_back(eval(*item));
  if (arguments->list != nullptr) {
    for (Value& item : iterate(eval(*arguments->list))) out.positional.push_back(std::move(item));
  }
  for (const auto& [name, item] : arguments->keyword) {
    spend_copy(name.size());
    out.keyword.emplace_back(name, eval(*item));
  }
  if (arguments->dict != nullptr) {
    const Value more = eval(*arguments->dict);
    if (!more.is_dict()) fail("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [name, item] : more.entries().entries) {
      if (!name.is_string()) fail("keywords must be strings");
      spend_copy(name.text().size());
      out.keyword.emplace_back(name.text(), item);
    }
  }
  return out;
}

Value Evaluator::eval_call(const Expr& expr, const Value* caller) {
  const Expr& callee_expr = *expr.items[0];
  if (callee_expr.kind == ExprKind::kAttribute) {
    const Value object = eval(*callee_expr.items[0]);
    if (object.is(Type::kLoop)) {
      Arguments arguments = eval_arguments(expr.arguments.get());
      line_ = expr.line;
      return loop_method(object, callee_expr.name, arguments);
    }
    const Value callee = get_attribute(object, callee_expr.constant);
    Arguments arguments = eval_arguments(expr.arguments.get());
    if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
    line_ = expr.line;
    return call(callee, arguments);
  }
  const Value callee = eval(callee_expr);
  if (callee.is_undefined()) fail_undefined(callee);
  Arguments arguments = eval_arguments(expr.arguments.get());
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, arguments);
}

Value Evaluator::eval_builtin(const Expr& expr) {
  const Value subject = expr.items[0] == nullptr ? block_text_ : eval(*expr.items[0]);
  Arguments arguments = eval_arguments(expr.arguments.get());
  line_ = expr.line;
  if (expr.builtin == nullptr)
    fail("No {} named '{}' found.", expr.kind == ExprKind::kFilter ? "filter" : "test",
         shown(expr.name));
  return expr.builtin(context_, subject, arguments);
}

Value Evaluator::loop_attribute(const Value& value, const std::string& name) {
  const auto& loop = value.as<LoopObject>();
  const size_t index = loop.index;
  const size_t size = loop.items.size();
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(static_cast<Int>(size) - static_cast<Int>(index));
  if (name == "revindex0") return Value(static_cast<Int>(size) - static_cast<Int>(index) - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 >= size);
  if (name == "length") return Value(size);
  if (name == "depth") return Value(loop.depth);
  if (name == "depth0") return Value(loop.depth - 1);
  if (name == "previtem")
    return index == 0 ? Value::undefined("there is no previous item") : loop.items[index - 1];
  if (name == "nextitem")
    return index + 1 >= size ? Value::undefined("there is no next item") : loop.items[index + 1];
  return Value::undefined(fmt::format("'LoopContext object' has no attribute '{}'", shown(name)));
}

Value Evaluator::loop_method(const Value& value, const std::string& name, Arguments& arguments) {
  auto& loop = value.as<LoopObject>();
  if (name == "cycle") {
    if (arguments.positional.empty()) fail("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  if (name == "changed") {
    const Value now = Value::tuple(arguments.positional);
    const bool same = loop.has_changed && equal(now, loop.changed);
    loop.changed = now;
    loop.has_changed = true;
    return Value(!same);
  }
  return call(loop_attribute(value, name), arguments);
}

}  // namespace veery::jinja
