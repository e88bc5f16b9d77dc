#include "text/jinja/parse/parser.h"

#include <algorithm>

namespace veery::jinja {

Parser::Nest::Nest(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxNesting) {
    --parser_.depth_;
    parser_.fail_at(parser_.current(), "nested more than {} levels deep", kMaxNesting);
  }
}

const Token& Parser::advance() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_op(std::string_view text) const {
  return current().kind == Kind::kOperator && current().text == text;
}
bool Parser::is_name(std::string_view text) const {
  return current().kind == Kind::kName && current().text == text;
}
bool Parser::is_name_of(std::initializer_list<std::string_view> names) const {
  return std::ranges::any_of(names, [&](std::string_view name) { return is_name(name); });
}
bool Parser::skip_op(std::string_view text) {
  const bool found = is_op(text);
  if (found) advance();
  return found;
}
bool Parser::skip_name(std::string_view text) {
  const bool found = is_name(text);
  if (found) advance();
  return found;
}
void Parser::expect_op(std::string_view text) {
  if (!skip_op(text)) fail_at(current(), "found '{}', expected '{}'", current().text, text);
}
void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_at(current(), "found '{}', expected '{}'", current().text, text);
}
std::string Parser::expect_identifier() {
  if (current().kind != Kind::kName)
    fail_at(current(), "found '{}', expected a name", current().text);
  return advance().text;
}
void Parser::fail_unexpected() const { fail_at(current(), "unexpected '{}'", current().text); }

int Parser::symbol(const std::string& name) {
  const auto [it, added] = out_.symbol_numbers.emplace(name, static_cast<int>(out_.symbols.size()));
  if (added) out_.symbols.push_back(name);
  return it->second;
}

Template Parser::run() {
  out_.varargs = symbol("varargs");
  out_.kwargs = symbol("kwargs");
  out_.caller = symbol("caller");
  out_.loop = symbol("loop");
  out_.body = body({});
  refuse_unknown(0);
  return std::move(out_);
}

void Parser::refuse_unknown(size_t from) const {
  if (unknown_.size() > from) fail_at(unknown_[from].token, "{}", unknown_[from].message);
}

// Parses up to a tag that begins with one of `ends`, which is then the current token.
Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nest nest(*this);
  Body out;
  while (true) {
    const Token& token = current();
    if (token.kind == Kind::kEnd) {
      if (ends.size() > 0)
        fail_at(token, "unexpected end of the template, expected '{}'", *ends.begin());
      return out;
    }
    advance();
    if (token.kind == Kind::kData) {
      out.push_back(std::make_unique<Stmt>(StmtKind::kText, token.line));
      out.back()->text = token.text;
    } else if (token.kind == Kind::kOutputBegin) {
      out.push_back(std::make_unique<Stmt>(StmtKind::kOutput, token.line));
      out.back()->values.push_back(tuple(true, false));
      if (current().kind != Kind::kOutputEnd) fail_unexpected();
      advance();
    } else {
      if (is_name_of(ends)) return out;
      if (is_name("print"))
        print_statement(out);
      else
        out.push_back(statement());
      if (current().kind != Kind::kBlockEnd) fail_unexpected();
      advance();
    }
  }
}

// Parses the rest of a statement's tag and its body.
Body Parser::inner_body(std::initializer_list<std::string_view> ends) {
  skip_op(":");
  if (current().kind != Kind::kBlockEnd) fail_unexpected();
  advance();
  return body(ends);
}

std::unique_ptr<Stmt> Parser::statement() {
  const Nest nest(*this);
  const Token& token = current();
  if (token.kind != Kind::kName)
    fail_at(token, "found '{}', expected the name of a tag", token.text);
  const std::string& name = token.text;
  if (name == "if") return if_statement();
  if (name == "for") return for_statement();
  if (name == "set") return set_statement();
  if (name == "macro") return macro_statement();
  if (name == "call") return call_statement();
  if (name == "filter") return filter_statement();
  if (name == "with") return with_statement();
  if (name == "block") return block_statement();
  if (name == "generation") return generation_statement();
  if (name == "break" || name == "continue") {
    if (loops_ == 0) fail_at(token, "'{}' outside of a loop", name);
    advance();
    return std::make_unique<Stmt>(name == "break" ? StmtKind::kBreak : StmtKind::kContinue,
                                  token.line);
  }
  for (const std::string_view other : {"include", "import", "from", "extends", "autoescape"}) {
    if (name == other)
      fail_at(token, "the tag '{}' is not supported: a chat template cannot use other templates",
              name);
  }
  fail_at(token, "unknown tag '{}'", name);
}

std::unique_ptr<Stmt> Parser::if_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kIf, advance().line);
  const size_t unknown = unknown_.size();
  while (true) {
    stmt->values.push_back(tuple(false, false));
    stmt->bodies.push_back(inner_body({"endif", "elif", "else"}));
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      stmt->bodies.push_back(inner_body({"endif"}));
    }
    expect_name("endif");
    unknown_.resize(std::min(unknown, unknown_.size()), Unknown{tokens_.back(), {}});
    return stmt;
  }
}

std::unique_ptr<Stmt> Parser::for_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kFor, advance().line);
  stmt->target = target(false);
  expect_name("in");
  stmt->values.push_back(tuple(false, false));
  const size_t unknown = unknown_.size();
  stmt->values.push_back(skip_name("if") ? expression() : nullptr);
  stmt->recursive = skip_name("recursive");
  ++loops_;
  stmt->bodies.push_back(inner_body({"endfor", "else"}));
  --loops_;
  if (skip_name("else")) stmt->bodies.push_back(inner_body({"endfor"}));
  expect_name("endfor");
  refuse_unknown(unknown);
  return stmt;
}

std::unique_ptr<Stmt> Parser::set_statement() {
  const int line = advance().line;
  Target to = target(true);
  if (skip_op("=")) {
    auto stmt = std::make_unique<Stmt>(StmtKind::kSet, line);
    stmt->target = std::move(to);
    stmt->values.push_back(tuple(true, false));
    return stmt;
  }
  auto stmt = std::make_unique<Stmt>(StmtKind::kSetBlock, line);
  stmt->target = std::move(to);
  const size_t unknown = unknown_.size();
  stmt->values.push_back(is_op("|") ? filter_chain(nullptr) : nullptr);
  stmt->bodies.push_back(inner_body({"endset"}));
  refuse_unknown(unknown);
  advance();
  return stmt;
}

// Parses a body that is a macro of its own: break does not leave it, and it has its own varargs.
void Parser::macro_body(Stmt& stmt, std::string_view end) {
  const Uses outer = std::exchange(uses_, Uses{});
  const int loops = std::exchange(loops_, 0);
  const size_t unknown = unknown_.size();
  stmt.bodies.push_back(inner_body({end}));
  refuse_unknown(unknown);
  loops_ = loops;
  stmt.signature.uses_varargs = uses_.varargs;
  stmt.signature.uses_kwargs = uses_.kwargs;
  stmt.signature.uses_caller = uses_.caller;
  uses_ = outer;
  advance();
}

void Parser::signature(Signature& out) {
  expect_op("(");
  while (!is_op(")")) {
    if (!out.parameters.empty()) expect_op(",");
    Target parameter;
    parameter.name = expect_identifier();
    parameter.symbol = symbol(parameter.name);
    out.parameters.push_back(std::move(parameter));
    if (skip_op("="))
      out.defaults.push_back(expression());
    else if (!out.defaults.empty())
      fail_at(current(), "a parameter without a default follows one that has a default");
  }
  expect_op(")");
}

std::unique_ptr<Stmt> Parser::macro_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kMacro, advance().line);
  stmt->text = expect_identifier();
  stmt->target.symbol = symbol(stmt->text);
  stmt->target.name = stmt->text;
  signature(stmt->signature);
  macro_body(*stmt, "endmacro");
  return stmt;
}

std::unique_ptr<Stmt> Parser::call_statement() {
  const Token& token = advance();
  auto stmt = std::make_unique<Stmt>(StmtKind::kCallBlock, token.line);
  stmt->text = "caller";
  if (is_op("(")) signature(stmt->signature);
  stmt->values.push_back(expression());
  if (stmt->values[0]->kind != ExprKind::kCall) fail_at(token, "'call' needs a call of a macro");
  macro_body(*stmt, "endcall");
  return stmt;
}

// transformers' tag around an assistant's answer; its body is rendered like a call block.
std::unique_ptr<Stmt> Parser::generation_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kGeneration, advance().line);
  macro_body(*stmt, "endgeneration");
  return stmt;
}

std::unique_ptr<Stmt> Parser::filter_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kFilterBlock, advance().line);
  const size_t unknown = unknown_.size();
  stmt->values.push_back(filter_chain(filter(nullptr)));
  stmt->bodies.push_back(inner_body({"endfilter"}));
  refuse_unknown(unknown);
  advance();
  return stmt;
}

std::unique_ptr<Stmt> Parser::with_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kWith, advance().line);
  while (current().kind != Kind::kBlockEnd) {
    if (!stmt->targets.empty()) expect_op(",");
    stmt->targets.push_back(target(false));
    expect_op("=");
    stmt->values.push_back(expression());
  }
  const size_t unknown = unknown_.size();
  stmt->bodies.push_back(inner_body({"endwith"}));
  refuse_unknown(unknown);
  advance();
  return stmt;
}

// Chat templates are never extended, so a block is equivalent to its body.
std::unique_ptr<Stmt> Parser::block_statement() {
  auto stmt = std::make_unique<Stmt>(StmtKind::kScope, advance().line);
  const std::string name = expect_identifier();
  skip_name("scoped");
  const int loops = std::exchange(loops_, 0);
  stmt->bodies.push_back(inner_body({"endblock"}));
  loops_ = loops;
  advance();
  skip_name(name);
  return stmt;
}

void Parser::print_statement(Body& out) {
  const int line = advance().line;
  bool first = true;
  while (current().kind != Kind::kBlockEnd) {
    if (!std::exchange(first, false)) expect_op(",");
    out.push_back(std::make_unique<Stmt>(StmtKind::kOutput, line));
    out.back()->values.push_back(expression());
  }
}

Target Parser::single_target(bool with_attribute) {
  const Nest nest(*this);
  if (skip_op("(")) {
    Target inner = target(with_attribute);
    expect_op(")");
    return inner;
  }
  const Token& token = current();
  Target out;
  out.name = expect_identifier();
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (out.name == word) fail_at(token, "cannot assign to '{}'", word);
  }
  out.symbol = symbol(out.name);
  if (with_attribute && skip_op(".")) {
    out.kind = Target::kAttribute;
    out.name = expect_identifier();
    out.key = Value(out.name);
  }
  return out;
}

Target Parser::target(bool with_attribute) {
  Target first = single_target(with_attribute);
  if (!is_op(",")) return first;
  Target out;
  out.kind = Target::kTuple;
  out.items.push_back(std::move(first));
  while (skip_op(",")) {
    if (current().kind != Kind::kName && !is_op("(")) break;
    if (is_name("in")) break;
    out.items.push_back(single_target(with_attribute));
  }
  return out;
}

Template parse(std::string_view source) { return Parser(source).run(); }

}  // namespace veery::jinja
