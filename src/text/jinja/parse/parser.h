// parser.h: recursive descent parser. Statements are in parser.cc, expressions in
// expression_parser.cc.
#pragma once
#include <initializer_list>

#include "text/jinja/parse/ast.h"
#include "text/jinja/parse/lexer.h"

namespace veery::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
  Template run();

 private:
  using Kind = Token::Kind;
  class Nest {  // RAII: counts the nesting depth
   public:
    explicit Nest(Parser& parser);
    ~Nest() { --parser_.depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance();
  bool is_op(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool is_name_of(std::initializer_list<std::string_view> names) const;
  bool skip_op(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_op(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_identifier();
  template <typename... Args>
  [[noreturn]] void fail_at(const Token& token, fmt::format_string<Args...> format,
                            Args&&... args) const {
    fail("line {}, column {}: {}", token.line, token.column,
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_unexpected() const;
  int symbol(const std::string& name);

  // Statements.
  Body body(std::initializer_list<std::string_view> ends);
  Body inner_body(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Stmt> statement();
  std::unique_ptr<Stmt> if_statement();
  std::unique_ptr<Stmt> for_statement();
  std::unique_ptr<Stmt> set_statement();
  std::unique_ptr<Stmt> macro_statement();
  std::unique_ptr<Stmt> call_statement();
  std::unique_ptr<Stmt> filter_statement();
  std::unique_ptr<Stmt> with_statement();
  std::unique_ptr<Stmt> block_statement();
  std::unique_ptr<Stmt> generation_statement();
  void print_statement(Body& out);
  void macro_body(Stmt& stmt, std::string_view end);
  void signature(Signature& out);
  Target target(bool with_attribute);
  Target single_target(bool with_attribute);

  // Expressions, from loosest to tightest binding. `conditional`: "a if b" is permitted.
  ExprPtr tuple(bool conditional, bool parenthesised);
  bool tuple_ends() const;
  ExprPtr expression(bool conditional = true);
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr node);
  ExprPtr filter(ExprPtr node);
  ExprPtr filter_chain(ExprPtr node);
  ExprPtr test(ExprPtr node);
  std::string dotted_name();
  std::unique_ptr<CallArguments> arguments();
  ExprPtr make(ExprKind kind, int line) const { return std::make_unique<Expr>(kind, line); }
  ExprPtr constant(Value value, int line) const;
  ExprPtr binary(ExprKind kind, Operator op, ExprPtr left, ExprPtr right);
  ExprPtr finish(ExprPtr node) const;  // computes and checks the height
  void builtin(Expr& node, std::string_view what);
  void refuse_unknown(size_t from) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // loops around the current statement, within its macro
  Template out_;
  // References to unknown filters and tests. jinja2 reports them at compile time, except in the
  // branch of a condition, where they fail only when evaluated.
  struct Unknown {
    Token token;
    std::string message;
  };
  std::vector<Unknown> unknown_;
  struct Uses {
    bool varargs = false, kwargs = false, caller = false;
  };
  Uses uses_;  // of the current macro
};

}  // namespace veery::jinja
