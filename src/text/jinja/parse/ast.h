// ast.h: syntax tree of a template.
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

/// Arguments of a call: positional, keyword, *list, **dict.
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
  Value constant;    ///< kConstant; kAttribute: its name
  std::string name;  ///< name of an attribute, filter, test or variable
  /// Operands in source order. kDict: alternating keys and values. kConditional: value, condition,
  /// else value or null. kSlice: start, stop, step, each possibly null. kItem: object, index.
  /// kCall, kFilter, kTest: the callee or subject (null at the start of a filter block).
  std::vector<ExprPtr> items;
  std::vector<Operator> operators;  ///< kCompare
  std::unique_ptr<CallArguments> arguments;
  Builtin builtin = nullptr;  ///< kFilter, kTest; null: unknown name
};

struct Target {
  enum Kind { kName, kTuple, kAttribute } kind = kName;
  int symbol = -1;
  std::string name;  ///< name of the variable or namespace attribute
  std::vector<Target> items;
  Value key;  ///< key of the namespace attribute
};

/// Parameters of a macro or call block.
struct Signature {
  std::vector<Target> parameters;
  std::vector<ExprPtr> defaults;  ///< for the last parameters
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
  std::string text;             ///< kText; kMacro: its name
  Target target;                ///< kFor, kSet, kSetBlock, kMacro
  std::vector<Target> targets;  ///< kWith
  /// kOutput, kSet, kWith: values. kIf: conditions. kFor: iterable, filter or null. kSetBlock:
  /// filters or null. kCallBlock: call. kFilterBlock: filters.
  std::vector<ExprPtr> values;
  std::vector<Body> bodies;  ///< kIf: one per condition, else; kFor: body, else; other kinds: one
  Signature signature;
  bool recursive = false;
};

struct Template {
  Body body;
  std::vector<std::string> symbols;  ///< variable names by symbol number
  std::unordered_map<std::string, int> symbol_numbers;
  int varargs = -1, kwargs = -1, caller = -1, loop = -1;
};

/// Throws kFormat with a message such as "line 3, column 7: ...".
Template parse(std::string_view source);

Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);

}  // namespace veery::jinja
