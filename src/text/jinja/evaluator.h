// evaluator.h: executes a parsed template. Statements and macros are in evaluator.cc, expressions
// in expressions.cc.
#pragma once
#include "base/json.h"
#include "text/jinja/parse/ast.h"

namespace veery::jinja {

/// The variables of one scope. Enclosing scopes are visible through `parent`.
struct Frame {
  static constexpr size_t kFewVariables = 4;  // charged from the start
  explicit Frame(std::shared_ptr<Frame> the_parent);
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<int, Value>> values;
  int depth;
  Charge charge{sizeof(std::pair<int, Value>) * kFewVariables};
  void set(int symbol, Value value);
};

struct MacroObject {
  const Stmt* stmt;
  std::string_view name;
  std::shared_ptr<Frame> closure;
};

struct LoopObject {
  const Stmt* stmt;
  std::shared_ptr<Frame> around;
  List items;
  size_t index = 0;
  int depth = 1;
  Value changed;
  bool has_changed = false;
  Charge charge{0};
};

class Evaluator {
 public:
  Evaluator(const Template& source, Context& context, size_t max_output);
  ~Evaluator();
  std::string render(const Json& variables);
  int line() const { return line_; }

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class Deeper;
  class Scope;    // RAII: runs in a new frame
  class Capture;  // RAII: redirects output to a string

  Flow run(const Body& body);
  Flow run(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  void run_output(const Stmt& stmt);
  void run_for(const Stmt& stmt);
  void run_loop(const Stmt& stmt, List items, const std::shared_ptr<Frame>& around, int depth);
  List filtered(const Stmt& stmt, List items, const std::shared_ptr<Frame>& around);
  void run_set_block(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  void run_filter_block(const Stmt& stmt);
  void run_with(const Stmt& stmt);
  void write(const Value& value);
  void write(const std::string& text);
  void check_output() const;
  void assign(const Target& target, Value value);
  Value make_macro(const Stmt& stmt, std::string_view name);
  Value filter_text(const Expr* filters, Value text);

  Value eval(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_collection(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_conditional(const Expr& expr);
  Value eval_logic(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_binary(const Expr& expr);
  Value eval_subscript(const Expr& expr);
  Value eval_call(const Expr& expr, const Value* caller = nullptr);
  Value eval_builtin(const Expr& expr);
  Arguments eval_arguments(const CallArguments* arguments);
  const Value* find(int symbol) const;

  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const MacroObject& macro, Arguments& arguments);
  void bind(const MacroObject& macro, Arguments& arguments);
  Value call_loop(const Value& callee, Arguments& arguments);
  Value loop_attribute(const Value& loop, const std::string& name);
  Value loop_method(const Value& loop, const std::string& name, Arguments& arguments);

  const Template& source_;
  Context& context_;
  size_t max_output_;
  int line_ = 1;
  int depth_ = 0;
  Builder output_;
  Builder* out_ = &output_;
  std::shared_ptr<Frame> frame_;
  std::vector<Value> variables_;  // values passed by the caller, by symbol
  std::vector<bool> has_variable_;
  Value block_text_;                              // input of a filter block
  std::vector<std::shared_ptr<Frame>> captured_;  // captured by macros; may form cycles
};

/// RAII: counts the recursion depth of evaluations.
class Evaluator::Deeper {
 public:
  explicit Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > kMaxCallDepth) {
      --evaluator_.depth_;
      throw Error(ErrorKind::kLimit, "the template recurses too deeply");
    }
  }
  ~Deeper() { --evaluator_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Evaluator& evaluator_;
};

class Evaluator::Scope {
 public:
  Scope(Evaluator& evaluator, const std::shared_ptr<Frame>& around)
      : evaluator_(evaluator),
        outer_(std::exchange(evaluator.frame_, std::make_shared<Frame>(around))) {}
  ~Scope() { evaluator_.frame_ = std::move(outer_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Frame> outer_;
};

class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator)
      : evaluator_(evaluator), outer_(std::exchange(evaluator.out_, &text_)) {}
  ~Capture() { evaluator_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Value take() { return Value(text_.take()); }

 private:
  Evaluator& evaluator_;
  Builder text_;
  Builder* outer_;
};

}  // namespace veery::jinja
