// value.h: values of templates, which behave like Python's.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value/budget.h"

namespace veery::jinja {

/// Wide enough for all JSON integers and 2**64; larger results are errors.
__extension__ using Int = __int128;

enum class Type : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  ///< keys, values or items of a dictionary
  kRange,
  kSlice,
  kIterator,  ///< behaves like a Python generator: iterable once
  kNamespace,
  kFunction,
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
};

class Value;
struct StringObject;
struct ListObject;
struct DictObject;
using List = std::vector<Value>;

class Value {
 public:
  Value() = default;  ///< undefined, without a name
  explicit Value(bool value) : type_(Type::kBool) { scalar_.integer = value; }
  explicit Value(Int value) : type_(Type::kInt) { scalar_.integer = value; }
  explicit Value(int value) : Value(Int{value}) {}
  explicit Value(size_t value) : Value(static_cast<Int>(value)) {}
  explicit Value(double value) : type_(Type::kFloat) { scalar_.real = value; }
  explicit Value(std::string text, bool markup = false);
  explicit Value(std::string_view text) : Value(std::string(text)) {}
  explicit Value(const char* text) : Value(std::string(text)) {}
  Value(Type type, std::shared_ptr<void> object) : type_(type), object_(std::move(object)) {}

  static Value none() { return Value(Type::kNone, nullptr); }
  static Value list(List items);
  static Value tuple(List items);
  static Value iterator(List items, std::string_view name = "generator");
  static Value dict(std::shared_ptr<DictObject> dict);
  /// `message` is the error for using the value.
  static Value undefined(std::string message);

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::kUndefined; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_string() const { return type_ == Type::kString; }
  bool is_list() const { return type_ == Type::kList || type_ == Type::kTuple; }
  bool is_dict() const { return type_ == Type::kDict; }
  /// Whether the value is an int or a bool, which is an int in Python.
  bool is_integral() const { return type_ == Type::kInt || type_ == Type::kBool; }
  bool is_number() const { return is_integral() || type_ == Type::kFloat; }

  bool boolean() const { return scalar_.integer != 0; }
  Int integer() const { return scalar_.integer; }
  double real() const {
    return is_integral() ? static_cast<double>(scalar_.integer) : scalar_.real;
  }
  const StringObject& string() const { return as<StringObject>(); }
  const std::string& text() const;
  const List& items() const;  ///< list or tuple only
  const DictObject& entries() const { return as<DictObject>(); }
  template <typename T>
  T& as() const {
    return *static_cast<T*>(object_.get());
  }
  const std::shared_ptr<void>& object() const { return object_; }

 private:
  Type type_ = Type::kUndefined;
  union Scalar {
    Int integer;
    double real;
  } scalar_{};
  std::shared_ptr<void> object_;
};

struct StringObject {
  StringObject(std::string text, bool markup);
  std::string text;
  size_t length;  ///< in code points; ASCII if equal to text.size()
  bool markup;    ///< marked safe: text joined with it is escaped
  Charge charge;
  bool ascii() const { return length == text.size(); }
};

struct ListObject {
  explicit ListObject(List items);
  List items;
  int depth;
  Charge charge;
  bool group = false;  ///< result of groupby: has the attributes grouper and list
};

/// Keeps insertion order. Immutable after construction.
struct DictObject {
  using Entry = std::pair<Value, Value>;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  std::vector<Entry> entries;
  int depth = 1;

 private:
  template <typename Equal>
  const Entry* lookup(size_t hash, const Equal& equal) const;
  /// Hash to index in `entries`, built once there are many. A tree, so that look-ups stay fast for
  /// any hashes.
  std::multimap<size_t, size_t> index_;
  Charge charge_{sizeof(DictObject)};
};

struct UndefinedObject {
  std::string message;
  Charge charge{sizeof(UndefinedObject) + message.capacity()};
};
struct ViewObject {
  enum Kind { kKeys, kValues, kItems } kind;
  Value dict;
  Charge charge{sizeof(ViewObject)};
};
struct RangeObject {
  Int start, stop, step;
  Int size() const;
};
struct SliceObject {
  Value start, stop, step;
  Charge charge{sizeof(SliceObject)};
};
struct IteratorObject {
  List items;
  std::string_view name;
  size_t next = 0;
  int depth;
  Charge charge;
};
struct NamespaceObject {
  DictObject attributes;
};
struct CyclerObject {
  List items;
  size_t position = 0;
  Charge charge{sizeof(CyclerObject) + items.capacity() * sizeof(Value)};
};
struct JoinerObject {
  Value separator;
  bool used = false;
  Charge charge{sizeof(JoinerObject)};
};

/// Arguments of a function, filter or test, without its subject.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

struct Context;
using Builtin = Value (*)(Context&, const Value& self, Arguments&);
/// A global function, or a method bound to `self`.
struct FunctionObject {
  std::string_view name;
  Builtin function;
  Value self;
  Charge charge{sizeof(FunctionObject)};
};

/// Creates an object that contains a Charge, which cannot be moved.
template <typename T, typename... Parts>
std::shared_ptr<T> make_object(Parts&&... parts) {
  spend_steps(1);
  return std::shared_ptr<T>(new T{std::forward<Parts>(parts)...});
}

/// State of a rendering that builtins may access.
struct Context {
  explicit Context(Budget& the_budget) : budget(the_budget) {}
  Budget& budget;
  bool has_now = false;
  int64_t now = 0;  ///< wall clock in seconds since 1970
  /// Objects that may form cycles or long chains; they are emptied one by one at the end.
  std::vector<std::shared_ptr<NamespaceObject>> namespaces;
};

/// Returns Python's type(x).__name__: "str", "int" ...
std::string_view type_name(const Value& value);
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
/// Returns < 0, 0 or > 0. Throws for types that Python does not order; `symbol` is for the message.
int compare(const Value& a, const Value& b, std::string_view symbol = "<");
size_t hash(const Value& value);
std::string to_text(const Value& value);  ///< Python's str()
std::string repr(const Value& value);     ///< Python's repr()
void append_text(Builder& out, const Value& value);
void append_repr(Builder& out, const Value& value, int depth = 0);
/// Python's len(); throws for values without a length.
size_t length(const Value& value);
bool has_length(const Value& value);
bool is_iterable(const Value& value);
/// Returns the elements as iter() does: characters, keys, items. Exhausts an iterator.
List iterate(const Value& value);
bool contains(const Value& container, const Value& element);
/// Throws the error for using an undefined value.
[[noreturn]] void fail_undefined(const Value& value);
/// Returns a string of one character.
Value character(std::string_view utf8);

}  // namespace veery::jinja
