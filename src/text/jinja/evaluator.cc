#include "text/jinja/evaluator.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {

namespace {

constexpr size_t kIterationSteps = 6;  // per loop iteration: its scope and variables
constexpr size_t kCallSteps = 8;       // per macro call besides its body and parameters

}  // namespace

Frame::Frame(std::shared_ptr<Frame> the_parent)
    : parent(std::move(the_parent)), depth(parent == nullptr ? 0 : parent->depth + 1) {
  if (depth > kMaxCallDepth)
    throw Error(ErrorKind::kLimit, "more than {} nested scopes", kMaxCallDepth);
}

void Frame::set(int symbol, Value value) {
  spend_steps(values.size() / 16);  // linear search for the name
  for (auto& [known, old] : values) {
    if (known == symbol) {
      old = std::move(value);
      return;
    }
  }
  values.emplace_back(symbol, std::move(value));
  charge.resize(std::max(values.capacity(), kFewVariables) * sizeof(values[0]));
}

Evaluator::Evaluator(const Template& source, Context& context, size_t max_output)
    : source_(source),
      context_(context),
      max_output_(max_output),
      frame_(std::make_shared<Frame>(nullptr)),
      variables_(source.symbols.size()),
      has_variable_(source.symbols.size(), false) {}

// Macros and namespaces may refer to themselves in cycles and long chains, so they are emptied one
// by one in reverse order of creation.
Evaluator::~Evaluator() {
  frame_->values.clear();
  for (const auto& made : context_.namespaces) made->attributes.entries.clear();
  for (const auto& frame : captured_) frame->values.clear();
  while (!captured_.empty()) captured_.pop_back();
  while (!context_.namespaces.empty()) context_.namespaces.pop_back();
}

std::string Evaluator::render(const Json& variables) {
  for (const auto& [name, value] : variables.items()) {
    const auto known = source_.symbol_numbers.find(name);
    if (known == source_.symbol_numbers.end()) continue;  // the template does not use it
    const auto symbol = static_cast<size_t>(known->second);
    variables_[symbol] = from_json(value);
    has_variable_[symbol] = true;
  }
  run(source_.body);
  return output_.take();
}

Evaluator::Flow Evaluator::run(const Body& body) {
  const Deeper deeper(*this);
  for (const auto& stmt : body) {
    const Flow flow = run(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const Stmt& stmt) {
  spend_steps(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText: write(stmt.text); break;
    case StmtKind::kOutput: run_output(stmt); break;
    case StmtKind::kIf: return run_if(stmt);
    case StmtKind::kFor: run_for(stmt); break;
    case StmtKind::kSet: assign(stmt.target, eval(*stmt.values[0])); break;
    case StmtKind::kSetBlock: run_set_block(stmt); break;
    case StmtKind::kMacro: frame_->set(stmt.target.symbol, make_macro(stmt, stmt.text)); break;
    case StmtKind::kCallBlock: run_call_block(stmt); break;
    case StmtKind::kFilterBlock: run_filter_block(stmt); break;
    case StmtKind::kWith: run_with(stmt); break;
    case StmtKind::kScope: {
      const Scope scope(*this, frame_);
      run(stmt.bodies[0]);
      break;
    }
    case StmtKind::kGeneration: {
      Arguments none;
      write(call(make_macro(stmt, "caller"), none));
      break;
    }
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

void Evaluator::write(const Value& value) {
  append_text(*out_, value);
  check_output();
}

void Evaluator::write(const std::string& text) {
  spend_copy(text.size());
  out_->append(text);
  check_output();
}

void Evaluator::check_output() const {
  if (output_.size() > max_output_)
    throw Error(ErrorKind::kLimit, "the output is longer than {} bytes", max_output_);
}

void Evaluator::run_output(const Stmt& stmt) {
  const Value value = eval(*stmt.values[0]);
  line_ = stmt.line;
  write(value);
}

Evaluator::Flow Evaluator::run_if(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.values.size(); ++i) {
    if (truth(eval(*stmt.values[i]))) return run(stmt.bodies[i]);
  }
  return stmt.bodies.size() > stmt.values.size() ? run(stmt.bodies.back()) : Flow::kNext;
}

void Evaluator::run_for(const Stmt& stmt) {
  const Value iterable = eval(*stmt.values[0]);
  line_ = stmt.line;
  run_loop(stmt, iterate(iterable), frame_, 1);
}

List Evaluator::filtered(const Stmt& stmt, List items, const std::shared_ptr<Frame>& around) {
  if (stmt.values[1] == nullptr) return items;
  List kept;
  for (Value& item : items) {
    const Scope scope(*this, around);
    spend_steps(kIterationSteps);
    assign(stmt.target, item);
    if (truth(eval(*stmt.values[1]))) kept.push_back(std::move(item));
  }
  return kept;
}

void Evaluator::run_loop(const Stmt& stmt, List items, const std::shared_ptr<Frame>& around,
                         int depth) {
  items = filtered(stmt, std::move(items), around);
  auto loop = std::make_shared<LoopObject>();
  loop->stmt = &stmt;
  loop->around = around;
  loop->items = std::move(items);
  loop->depth = depth;
  loop->charge.resize(sizeof(LoopObject) + loop->items.capacity() * sizeof(Value));
  const Value loop_value(Type::kLoop, loop);
  const std::shared_ptr<Frame> keep = around;  // `around` may refer to frame_, which Scope changes
  for (; loop->index < loop->items.size(); ++loop->index) {
    const Scope scope(*this, keep);
    spend_steps(kIterationSteps);
    line_ = stmt.line;
    frame_->set(source_.loop, loop_value);
    assign(stmt.target, loop->items[loop->index]);
    if (run(stmt.bodies[0]) == Flow::kBreak) break;
  }
  if (loop->items.empty() && stmt.bodies.size() > 1) {
    const Scope scope(*this, keep);
    run(stmt.bodies[1]);
  }
  loop->around.reset();  // a stored loop must not keep its enclosing scopes alive
}

Value Evaluator::filter_text(const Expr* filters, Value text) {
  if (filters == nullptr) return text;
  const Value outer = std::exchange(block_text_, std::move(text));
  Value out = eval(*filters);
  block_text_ = outer;
  return out;
}

void Evaluator::run_set_block(const Stmt& stmt) {
  Value text;
  {
    Capture capture(*this);
    const Scope scope(*this, frame_);
    run(stmt.bodies[0]);
    text = filter_text(stmt.values[0].get(), capture.take());
  }
  assign(stmt.target, std::move(text));
}

void Evaluator::run_call_block(const Stmt& stmt) {
  const Value caller = make_macro(stmt, "caller");
  write(eval_call(*stmt.values[0], &caller));
}

void Evaluator::run_filter_block(const Stmt& stmt) {
  Value text;
  {
    Capture capture(*this);
    const Scope scope(*this, frame_);
    run(stmt.bodies[0]);
    text = filter_text(stmt.values[0].get(), capture.take());
  }
  write(text);
}

void Evaluator::run_with(const Stmt& stmt) {
  List values;
  for (const ExprPtr& value : stmt.values) values.push_back(eval(*value));
  const Scope scope(*this, frame_);
  for (size_t i = 0; i < values.size(); ++i) assign(stmt.targets[i], std::move(values[i]));
  run(stmt.bodies[0]);
}

void Evaluator::assign(const Target& target, Value value) {
  if (target.kind == Target::kName) {
    frame_->set(target.symbol, std::move(value));
    return;
  }
  if (target.kind == Target::kAttribute) {
    const Value* space = find(target.symbol);
    if (space == nullptr || !space->is(Type::kNamespace))
      fail("cannot assign attribute on non-namespace object");
    space->as<NamespaceObject>().attributes.set(target.key, std::move(value));
    return;
  }
  const List parts = iterate(value);
  if (parts.size() != target.items.size())
    fail("{} values to unpack (expected {}, got {})",
         parts.size() < target.items.size() ? "not enough" : "too many", target.items.size(),
         parts.size());
  for (size_t i = 0; i < parts.size(); ++i) assign(target.items[i], parts[i]);
}

Value Evaluator::make_macro(const Stmt& stmt, std::string_view name) {
  if (captured_.empty() || captured_.back() != frame_) captured_.push_back(frame_);
  return Value(Type::kMacro, std::make_shared<MacroObject>(MacroObject{&stmt, name, frame_}));
}

Value Evaluator::call_macro(const MacroObject& macro, Arguments& arguments) {
  spend_steps(kCallSteps);
  const Deeper deeper(*this);
  Capture capture(*this);
  const Scope scope(*this, macro.closure);
  bind(macro, arguments);
  run(macro.stmt->bodies[0]);
  return capture.take();
}

// Sets the parameters in the macro's frame, which is the current one.
void Evaluator::bind(const MacroObject& macro, Arguments& arguments) {
  const Signature& signature = macro.stmt->signature;
  const size_t count = signature.parameters.size();
  const auto pop = [&](std::string_view name) -> std::optional<Value> {
    spend_items(arguments.keyword.size());
    const auto found = std::ranges::find_if(
        arguments.keyword, [&](const auto& argument) { return argument.first == name; });
    if (found == arguments.keyword.end()) return {};
    Value value = std::move(found->second);
    arguments.keyword.erase(found);
    return value;
  };
  const size_t defaults_from = count - signature.defaults.size();
  bool has_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const Target& parameter = signature.parameters[i];
    spend_steps(2);
    has_caller = has_caller || parameter.name == "caller";
    std::optional<Value> value;
    if (i < arguments.positional.size())
      value = arguments.positional[i];
    else
      value = pop(parameter.name);
    if (!value && i >= defaults_from) value = eval(*signature.defaults[i - defaults_from]);
    if (!value)
      value =
          Value::undefined(fmt::format("parameter '{}' was not provided", shown(parameter.name)));
    frame_->set(parameter.symbol, std::move(*value));
  }
  if (signature.uses_caller && !has_caller) {
    std::optional<Value> caller = pop("caller");
    frame_->set(source_.caller,
                caller && !caller->is_none() ? *caller : Value::undefined("No caller defined"));
  }
  if (signature.uses_kwargs) {
    Arguments rest;
    rest.keyword = std::move(arguments.keyword);
    frame_->set(source_.kwargs, make_dict(context_, Value(), rest));
  } else if (!arguments.keyword.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", shown(macro.name),
         shown(arguments.keyword[0].first));
  }
  if (signature.uses_varargs) {
    const size_t used = std::min(count, arguments.positional.size());
    spend_items(arguments.positional.size());
    frame_->set(source_.varargs,
                Value::tuple(List(arguments.positional.begin() + static_cast<ptrdiff_t>(used),
                                  arguments.positional.end())));
  } else if (arguments.positional.size() > count) {
    fail("macro '{}' takes not more than {} argument(s)", shown(macro.name), count);
  }
}

Value Evaluator::call_loop(const Value& callee, Arguments& arguments) {
  const std::shared_ptr<void> keep = callee.object();
  const auto& loop = callee.as<LoopObject>();
  if (!loop.stmt->recursive)
    fail("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1) fail("a loop takes one iterable");
  if (loop.around == nullptr) fail("the loop has ended");
  const Deeper deeper(*this);
  Capture capture(*this);
  run_loop(*loop.stmt, iterate(arguments.positional[0]), loop.around, loop.depth + 1);
  return capture.take();
}

Value Evaluator::call(const Value& callee, Arguments& arguments) {
  spend_steps(1);
  switch (callee.type()) {
    case Type::kUndefined: fail_undefined(callee);
    case Type::kFunction: {
      const auto& function = callee.as<FunctionObject>();
      return function.function(context_, function.self, arguments);
    }
    case Type::kMacro: {
      const MacroObject macro = callee.as<MacroObject>();  // keeps the macro alive while it runs
      return call_macro(macro, arguments);
    }
    case Type::kLoop: return call_loop(callee, arguments);
    case Type::kJoiner: {
      auto& joiner = callee.as<JoinerObject>();
      return std::exchange(joiner.used, true) ? joiner.separator : Value("");
    }
    default: fail("'{}' object is not callable", type_name(callee));
  }
}

}  // namespace veery::jinja
