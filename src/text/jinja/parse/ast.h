// ast.h: a parsed template.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/value/numbers.h"
#include "text/jinja/value/value.h"

namespace veery::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

/// Arguments as written: positional ones, named ones, *more, **more.
struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr list, dict;
};

enum class ExprKind : uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kNot,
  kCompare,
  kConcat,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
};

struct Expr {
  Expr(ExprKind the_kind, int the_line) : kind(the_kind), line(the_line) {}
  ExprKind kind;
  Operator op = Operator::kAdd;  ///< kUnary, kBinary
  int line;
  int symbol = -1;  ///< kName
  int height = 1;
  Value constant;    ///< kConstant; of kAttribute the name
  std::string name;  ///< of an attribute, filter or test, or of a variable
  /// Operands in the order of writing. kDict: keys and values in turn. kConditional: value,
  /// condition, other value or null. kSlice: start, stop, step, any of them null. kItem: object,
  /// index. kCall, kFilter, kTest: the callee or subject (null in front of a block's filter).
  std::vector<ExprPtr> items;
  std::vector<Operator> operators;  ///< kCompare
  std::unique_ptr<CallArguments> arguments;
  Builtin builtin = nullptr;  ///< kFilter, kTest; null: there is none of that name
};

struct Target {
  enum Kind { kName, kTuple, kAttribute } kind = kName;
  int symbol = -1;
  std::string name;  ///< of a variable, or of the namespace's attribute
  std::vector<Target> items;
  Value key;  ///< of the namespace's attribute
};

/// What macros and call blocks have in common.
struct Signature {
  std::vector<Target> parameters;
  std::vector<ExprPtr> defaults;  ///< of the last parameters
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

enum class StmtKind : uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kGeneration,
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind the_kind, int the_line) : kind(the_kind), line(the_line) {}
  StmtKind kind;
  int line;
  std::string text;             ///< kText; of a macro its name
  Target target;                ///< kFor, kSet, kSetBlock, kMacro
  std::vector<Target> targets;  ///< kWith
  std::vector<ExprPtr>
      values;                ///< kOutput, kSet, kWith; kIf: conditions; kFor: iterable, filter or
                             ///< null; kSetBlock: filters or null; kCallBlock: call; kFilterBlock
  std::vector<Body> bodies;  ///< kIf: one a condition, then else; kFor: body, else; others: one
  Signature signature;
  bool recursive = false;
};

struct Template {
  Body body;
  std::vector<std::string> symbols;  ///< names of variables, by number
  std::unordered_map<std::string, int> symbol_numbers;
  int varargs = -1, kwargs = -1, caller = -1, loop = -1;
};

/// Throws kFormat: "line 3, column 7: what".
Template parse(std::string_view source);

Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);

}  // namespace veery::jinja
