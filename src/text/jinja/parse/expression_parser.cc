#include <algorithm>

#include "text/jinja/parse/parser.h"

namespace veery::jinja {
namespace {

int height_of(const ExprPtr& node) { return node == nullptr ? 0 : node->height; }

std::optional<Operator> comparison_operator(std::string_view text) {
  if (text == "==") return Operator::kEqual;
  if (text == "!=") return Operator::kNotEqual;
  if (text == "<") return Operator::kLess;
  if (text == "<=") return Operator::kLessEqual;
  if (text == ">") return Operator::kGreater;
  if (text == ">=") return Operator::kGreaterEqual;
  return {};
}

}  // namespace

ExprPtr Parser::finish(ExprPtr node) const {
  int height = 0;
  for (const ExprPtr& item : node->items) height = std::max(height, height_of(item));
  if (const CallArguments* arguments = node->arguments.get()) {
    for (const ExprPtr& item : arguments->positional) height = std::max(height, height_of(item));
    for (const auto& [name, item] : arguments->keyword) height = std::max(height, height_of(item));
    height = std::max({height, height_of(arguments->list), height_of(arguments->dict)});
  }
  node->height = height + 1;
  if (node->height > kMaxNodeHeight) fail_at(current(), "the expression is nested too deeply");
  return node;
}

ExprPtr Parser::constant(Value value, int line) const {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExprPtr Parser::binary(ExprKind kind, Operator op, ExprPtr left, ExprPtr right) {
  ExprPtr node = make(kind, left->line);
  node->op = op;
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return finish(std::move(node));
}

bool Parser::tuple_ends() const {
  return current().kind == Kind::kOutputEnd || current().kind == Kind::kBlockEnd || is_op(")") ||
         (is_name("recursive") && ahead().kind == Kind::kBlockEnd);
}

ExprPtr Parser::tuple(bool conditional, bool parenthesised) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!tuple_ends()) {
    items.push_back(expression(conditional));
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !parenthesised)
    fail_at(current(), "found '{}', expected an expression", current().text);
  ExprPtr node = make(ExprKind::kTuple, line);
  node->items = std::move(items);
  return finish(std::move(node));
}

ExprPtr Parser::expression(bool conditional) {
  const Nest nest(*this);
  const size_t unknown = unknown_.size();
  ExprPtr node = disjunction();
  while (conditional && skip_name("if")) {
    ExprPtr out = make(ExprKind::kConditional, node->line);
    out->items.push_back(std::move(node));
    out->items.push_back(disjunction());
    out->items.push_back(skip_name("else") ? expression() : nullptr);
    node = finish(std::move(out));
    unknown_.erase(unknown_.begin() + static_cast<ptrdiff_t>(unknown), unknown_.end());
  }
  return node;
}

ExprPtr Parser::disjunction() {
  ExprPtr left = conjunction();
  while (skip_name("or"))
    left = binary(ExprKind::kOr, Operator::kOr, std::move(left), conjunction());
  return left;
}

ExprPtr Parser::conjunction() {
  ExprPtr left = negation();
  while (skip_name("and"))
    left = binary(ExprKind::kAnd, Operator::kAnd, std::move(left), negation());
  return left;
}

ExprPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Nest nest(*this);
  ExprPtr node = make(ExprKind::kNot, advance().line);
  node->items.push_back(negation());
  return finish(std::move(node));
}

ExprPtr Parser::comparison() {
  ExprPtr first = sum();
  ExprPtr node;
  while (true) {
    std::optional<Operator> op;
    if (current().kind == Kind::kOperator) {
      op = comparison_operator(current().text);
    } else if (is_name("in")) {
      op = Operator::kIn;
    } else if (is_name("not") && ahead().kind == Kind::kName && ahead().text == "in") {
      advance();
      op = Operator::kNotIn;
    }
    if (!op) break;
    advance();
    if (node == nullptr) {
      node = make(ExprKind::kCompare, first->line);
      node->items.push_back(std::move(first));
    }
    node->operators.push_back(*op);
    node->items.push_back(sum());
  }
  return node == nullptr ? std::move(first) : finish(std::move(node));
}

ExprPtr Parser::sum() {
  ExprPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const Operator op = advance().text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = binary(ExprKind::kBinary, op, std::move(left), concatenation());
  }
  return left;
}

ExprPtr Parser::concatenation() {
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, first->line);
  node->items.push_back(std::move(first));
  while (skip_op("~")) node->items.push_back(product());
  return finish(std::move(node));
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string& text = advance().text;
    const Operator op = text == "*"    ? Operator::kMultiply
                        : text == "/"  ? Operator::kDivide
                        : text == "//" ? Operator::kFloorDivide
                                       : Operator::kModulo;
    left = binary(ExprKind::kBinary, op, std::move(left), power());
  }
  return left;
}

ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (skip_op("**"))
    left = binary(ExprKind::kBinary, Operator::kPower, std::move(left), unary());
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const Nest nest(*this);
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Token& token = advance();
    node = make(ExprKind::kUnary, token.line);
    node->op = token.text == "-" ? Operator::kNegate : Operator::kPlus;
    node->items.push_back(unary(false));
    node = finish(std::move(node));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::name_or_constant() {
  const Token& token = advance();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(Value(true), token.line);
  if (name == "false" || name == "False") return constant(Value(false), token.line);
  if (name == "none" || name == "None") return constant(Value::none(), token.line);
  uses_.varargs = uses_.varargs || name == "varargs";
  uses_.kwargs = uses_.kwargs || name == "kwargs";
  uses_.caller = uses_.caller || name == "caller";
  ExprPtr node = make(ExprKind::kName, token.line);
  node->name = name;
  node->symbol = symbol(name);
  return node;
}

ExprPtr Parser::primary() {
  const Token& token = current();
  switch (token.kind) {
    case Kind::kName: return name_or_constant();
    case Kind::kString: {
      std::string text;
      while (current().kind == Kind::kString) text += advance().text;
      return constant(Value(std::move(text)), token.line);
    }
    case Kind::kInteger: {
      advance();
      const std::optional<Int> value = parse_integer(token.text, 0);
      if (!value) fail_at(token, "invalid integer '{}'", token.text);
      return constant(Value(*value), token.line);
    }
    case Kind::kFloat: {
      advance();
      const std::optional<double> value = parse_float(token.text);
      if (!value) fail_at(token, "invalid number '{}'", token.text);
      return constant(Value(*value), token.line);
    }
    default: break;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  if (!skip_op("(")) fail_unexpected();
  ExprPtr node = tuple(true, true);
  expect_op(")");
  return node;
}

ExprPtr Parser::list() {
  ExprPtr node = make(ExprKind::kList, advance().line);
  while (!is_op("]")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("]")) break;
    node->items.push_back(expression());
  }
  expect_op("]");
  return finish(std::move(node));
}

ExprPtr Parser::dict() {
  ExprPtr node = make(ExprKind::kDict, advance().line);
  while (!is_op("}")) {
    if (!node->items.empty()) expect_op(",");
    if (is_op("}")) break;
    node->items.push_back(expression());
    expect_op(":");
    node->items.push_back(expression());
  }
  expect_op("}");
  return finish(std::move(node));
}

ExprPtr Parser::postfix(ExprPtr node) {
  while (true) {
    if (is_op(".") || is_op("["))
      node = subscript(std::move(node));
    else if (is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (is_op("|"))
      node = filter_chain(std::move(node));
    else if (is_name("is"))
      node = test(std::move(node));
    else if (is_op("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::subscript(ExprPtr node) {
  const Token& token = advance();
  ExprPtr out = make(ExprKind::kItem, token.line);
  out->items.push_back(std::move(node));
  if (token.text == ".") {
    const Token& name = current();
    if (name.kind == Kind::kName) {
      out->kind = ExprKind::kAttribute;
      out->name = advance().text;
      out->constant = Value(out->name);
    } else if (name.kind == Kind::kInteger) {
      out->items.push_back(primary());
    } else {
      fail_at(name, "found '{}', expected a name or a number", name.text);
    }
    return finish(std::move(out));
  }
  std::vector<ExprPtr> indices;
  while (!is_op("]")) {
    if (!indices.empty()) expect_op(",");
    indices.push_back(subscribed());
  }
  expect_op("]");
  if (indices.size() == 1) {
    out->items.push_back(std::move(indices[0]));
  } else {
    ExprPtr pair = make(ExprKind::kTuple, token.line);
    pair->items = std::move(indices);
    out->items.push_back(finish(std::move(pair)));
  }
  return finish(std::move(out));
}

ExprPtr Parser::subscribed() {
  ExprPtr start;
  const int line = current().line;
  if (!is_op(":")) {
    start = expression();
    if (!is_op(":")) return start;
  }
  advance();
  const auto ends = [&] { return is_op(":") || is_op("]") || is_op(","); };
  ExprPtr node = make(ExprKind::kSlice, line);
  node->items.push_back(std::move(start));
  node->items.push_back(ends() ? nullptr : expression());
  const bool stepped = skip_op(":");
  node->items.push_back(stepped && !ends() ? expression() : nullptr);
  return finish(std::move(node));
}

std::unique_ptr<CallArguments> Parser::arguments() {
  const Token& token = current();
  expect_op("(");
  auto out = std::make_unique<CallArguments>();
  const auto ensure = [&](bool fits) {
    if (!fits) fail_at(token, "the arguments of the call are in an invalid order");
  };
  bool first = true;
  while (!is_op(")")) {
    if (!std::exchange(first, false)) {
      expect_op(",");
      if (is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(out->list == nullptr && out->dict == nullptr);
      out->list = expression();
    } else if (skip_op("**")) {
      ensure(out->dict == nullptr);
      out->dict = expression();
    } else if (current().kind == Kind::kName && ahead().kind == Kind::kOperator &&
               ahead().text == "=") {
      ensure(out->dict == nullptr);
      std::string name = advance().text;
      advance();
      out->keyword.emplace_back(std::move(name), expression());
    } else {
      ensure(out->list == nullptr && out->dict == nullptr && out->keyword.empty());
      out->positional.push_back(expression());
    }
  }
  expect_op(")");
  return out;
}

ExprPtr Parser::call(ExprPtr node) {
  ExprPtr out = make(ExprKind::kCall, current().line);
  out->items.push_back(std::move(node));
  out->arguments = arguments();
  return finish(std::move(out));
}

std::string Parser::dotted_name() {
  std::string name = expect_identifier();
  while (skip_op(".")) name += "." + expect_identifier();
  return name;
}

void Parser::builtin(Expr& node, std::string_view what) {
  const Token token = current();
  node.name = dotted_name();
  node.builtin = what == "filter" ? find_filter(node.name) : find_test(node.name);
  if (node.builtin == nullptr)
    unknown_.push_back({token, fmt::format("unknown {} '{}'", what, node.name)});
}

ExprPtr Parser::filter(ExprPtr node) {
  ExprPtr out = make(ExprKind::kFilter, current().line);
  out->items.push_back(std::move(node));
  builtin(*out, "filter");
  if (is_op("(")) out->arguments = arguments();
  return finish(std::move(out));
}

ExprPtr Parser::filter_chain(ExprPtr node) {
  while (skip_op("|")) node = filter(std::move(node));
  return node;
}

ExprPtr Parser::test(ExprPtr node) {
  const int line = advance().line;
  const bool negated = skip_name("not");
  ExprPtr out = make(ExprKind::kTest, line);
  out->items.push_back(std::move(node));
  builtin(*out, "test");
  const Kind kind = current().kind;
  if (is_op("(")) {
    out->arguments = arguments();
  } else if (kind == Kind::kName || kind == Kind::kString || kind == Kind::kInteger ||
             kind == Kind::kFloat || is_op("[") || is_op("{")) {
    if (is_name("is")) fail_at(current(), "tests cannot be chained with 'is'");
    if (!is_name_of({"else", "or", "and"})) {
      out->arguments = std::make_unique<CallArguments>();
      out->arguments->positional.push_back(postfix(primary()));
    }
  }
  out = finish(std::move(out));
  if (!negated) return out;
  ExprPtr inverse = make(ExprKind::kNot, line);
  inverse->items.push_back(std::move(out));
  return finish(std::move(inverse));
}

}  // namespace veery::jinja
