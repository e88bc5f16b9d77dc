#include "text/jinja/value/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/utf8.h"
#include "text/jinja/value/numbers.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

constexpr size_t kIndexFrom = 9;  // number of entries from which a dict is searched by hash
constexpr size_t kTreeSteps = 8;  // steps of a look-up in the tree of hashes

int depth_of(const Value& value) {
  switch (value.type()) {
    case Type::kList:
    case Type::kTuple: return value.as<ListObject>().depth;
    case Type::kDict: return value.as<DictObject>().depth;
    case Type::kIterator: return value.as<IteratorObject>().depth;
    case Type::kView: return value.as<ViewObject>().dict.as<DictObject>().depth;
    case Type::kFunction: return depth_of(value.as<FunctionObject>().self);
    case Type::kUndefined:
    case Type::kNone:
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
    case Type::kString: return 0;
    default: return 1;
  }
}

int depth_above(int depth) {
  if (depth >= kMaxValueDepth)
    throw Error(ErrorKind::kLimit, "values nest more than {} levels deep", kMaxValueDepth);
  return depth + 1;
}

int depth_above(const List& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth_above(depth);
}

bool equal_lists(const List& a, const List& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    spend_steps(1);
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    spend_steps(1);
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

Value view_item(const ViewObject& view, const DictObject::Entry& entry) {
  if (view.kind == ViewObject::kKeys) return entry.first;
  if (view.kind == ViewObject::kValues) return entry.second;
  return Value::tuple({entry.first, entry.second});
}

int three_way(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

[[noreturn]] void fail_order(const Value& a, const Value& b, std::string_view symbol) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
}

List characters(const StringObject& string) {
  List items;
  expect_memory(string.length * sizeof(Value));
  items.reserve(string.length);
  std::string_view rest = string.text;
  while (!rest.empty()) {
    const size_t n = string.ascii() ? 1 : static_cast<size_t>(next_code_point(rest).length);
    items.push_back(character(rest.substr(0, n)));
    rest.remove_prefix(n);
  }
  return items;
}

}  // namespace

StringObject::StringObject(std::string the_text, bool is_markup)
    : text(std::move(the_text)),
      length(count_code_points(text)),
      markup(is_markup),
      charge(sizeof(StringObject) + text.capacity()) {
  spend_copy(text.size());  // counting the characters is charged separately
}

ListObject::ListObject(List the_items)
    : items(std::move(the_items)),
      depth(depth_above(items)),
      charge(sizeof(ListObject) + items.capacity() * sizeof(Value)) {
  spend_steps(2);
  spend_items(items.size());
}

Value::Value(std::string text, bool markup)
    : type_(Type::kString), object_(std::make_shared<StringObject>(std::move(text), markup)) {}

Value Value::list(List items) {
  return Value(Type::kList, std::make_shared<ListObject>(std::move(items)));
}

Value Value::tuple(List items) {
  return Value(Type::kTuple, std::make_shared<ListObject>(std::move(items)));
}

Value Value::iterator(List items, std::string_view name) {
  spend_items(items.size());
  const int depth = depth_above(items);
  const size_t bytes = sizeof(IteratorObject) + items.capacity() * sizeof(Value);
  return Value(Type::kIterator, std::shared_ptr<IteratorObject>(new IteratorObject{
                                    std::move(items), name, 0, depth, Charge(bytes)}));
}

Value Value::dict(std::shared_ptr<DictObject> dict) { return Value(Type::kDict, std::move(dict)); }

Value Value::undefined(std::string message) {
  return Value(Type::kUndefined, make_object<UndefinedObject>(std::move(message)));
}

const std::string& Value::text() const { return string().text; }
const List& Value::items() const { return as<ListObject>().items; }

template <typename Equal>
const DictObject::Entry* DictObject::lookup(size_t hash, const Equal& equal) const {
  if (index_.empty()) {
    for (const Entry& entry : entries) {
      if (equal(entry.first)) return &entry;
    }
    return nullptr;
  }
  spend_steps(kTreeSteps);
  for (auto it = index_.lower_bound(hash); it != index_.end() && it->first == hash; ++it) {
    spend_steps(1);
    if (equal(entries[it->second].first)) return &entries[it->second];
  }
  return nullptr;
}

const Value* DictObject::find(const Value& key) const {
  const Entry* entry = lookup(hash(key), [&](const Value& other) { return equal(key, other); });
  return entry == nullptr ? nullptr : &entry->second;
}

const Value* DictObject::find(std::string_view key) const {
  spend_copy(key.size());
  const Entry* entry = lookup(std::hash<std::string_view>()(key), [&](const Value& other) {
    return other.is_string() && other.text() == key;
  });
  return entry == nullptr ? nullptr : &entry->second;
}

void DictObject::set(Value key, Value value) {
  spend_steps(4);
  const size_t code = hash(key);
  depth = std::max(depth, depth_above(std::max(depth_of(value), depth_of(key))));
  if (const Entry* entry = lookup(code, [&](const Value& other) { return equal(key, other); })) {
    entries[static_cast<size_t>(entry - entries.data())].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  charge_.resize(sizeof(DictObject) + entries.capacity() * (sizeof(Entry) + 64));
  if (!index_.empty()) {
    spend_steps(kTreeSteps);
    index_.emplace(code, entries.size() - 1);
  } else if (entries.size() >= kIndexFrom) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(hash(entries[i].first), i);
  }
}

Int RangeObject::size() const {
  if (step > 0) return stop > start ? (stop - start + step - 1) / step : 0;
  return start > stop ? (start - stop - step - 1) / -step : 0;
}

std::string_view type_name(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined: return "Undefined";
    case Type::kNone: return "NoneType";
    case Type::kBool: return "bool";
    case Type::kInt: return "int";
    case Type::kFloat: return "float";
    case Type::kString: return value.string().markup ? "Markup" : "str";
    case Type::kList: return "list";
    case Type::kTuple: return value.as<ListObject>().group ? "_GroupTuple" : "tuple";
    case Type::kDict: return "dict";
    case Type::kView: {
      const auto kind = value.as<ViewObject>().kind;
      return kind == ViewObject::kKeys     ? "dict_keys"
             : kind == ViewObject::kValues ? "dict_values"
                                           : "dict_items";
    }
    case Type::kRange: return "range";
    case Type::kSlice: return "slice";
    case Type::kIterator: return value.as<IteratorObject>().name;
    case Type::kNamespace: return "Namespace";
    case Type::kFunction: return "function";
    case Type::kMacro: return "Macro";
    case Type::kLoop: return "LoopContext";
    case Type::kCycler: return "Cycler";
    case Type::kJoiner: return "Joiner";
  }
  return "object";
}

bool truth(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kNone: return false;
    case Type::kBool:
    case Type::kInt: return value.integer() != 0;
    case Type::kFloat: return value.real() != 0;
    default: return !has_length(value) || length(value) != 0;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::kUndefined:
    case Type::kNone: return true;
    case Type::kString:
      spend_copy(a.text().size() == b.text().size() ? a.text().size() : 0);
      return a.text() == b.text();
    case Type::kList:
    case Type::kTuple: return a.object() == b.object() || equal_lists(a.items(), b.items());
    case Type::kDict: return a.object() == b.object() || equal_dicts(a.entries(), b.entries());
    case Type::kRange: return equal_lists(iterate(a), iterate(b));
    case Type::kView:
      return type_name(a) == type_name(b) && a.as<ViewObject>().kind != ViewObject::kValues &&
             equal_lists(iterate(a), iterate(b));
    default: return a.object() == b.object();
  }
}

int compare(const Value& a, const Value& b, std::string_view symbol) {
  if (a.is_integral() && b.is_integral()) return three_way(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return three_way(a.real(), b.real());
  if (a.type() != b.type()) fail_order(a, b, symbol);
  if (a.is_string()) {
    spend_copy(std::min(a.text().size(), b.text().size()));
    return three_way(a.text().compare(b.text()), 0);  // UTF-8 sorts in code point order
  }
  if (!a.is_list()) fail_order(a, b, symbol);
  const size_t common = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < common; ++i) {
    spend_steps(1);
    if (!equal(a.items()[i], b.items()[i])) return compare(a.items()[i], b.items()[i], symbol);
  }
  return three_way(a.items().size(), b.items().size());
}

size_t hash(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kNone: return static_cast<size_t>(value.type());
    case Type::kBool:
    case Type::kInt: return std::hash<double>()(value.real());  // 1, 1.0 and true are the same key
    case Type::kFloat: return std::hash<double>()(value.real());
    case Type::kString:
      spend_copy(value.text().size());
      return std::hash<std::string_view>()(value.text());
    case Type::kTuple: {
      size_t code = value.items().size();
      for (const Value& item : value.items()) {
        spend_steps(1);
        code = code * 1000003 + hash(item);
      }
      return code;
    }
    case Type::kList:
    case Type::kDict:
    case Type::kView:
    case Type::kSlice: fail("unhashable type: '{}'", type_name(value));
    default: return std::hash<const void*>()(value.object().get());
  }
}

bool has_length(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kString:
    case Type::kList:
    case Type::kTuple:
    case Type::kDict:
    case Type::kView:
    case Type::kRange: return true;
    default: return false;
  }
}

size_t length(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined: return 0;
    case Type::kString: return value.string().length;
    case Type::kList:
    case Type::kTuple: return value.items().size();
    case Type::kDict: return value.entries().entries.size();
    case Type::kView: return value.as<ViewObject>().dict.entries().entries.size();
    case Type::kRange: return static_cast<size_t>(value.as<RangeObject>().size());
    default: fail("object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) {
  return has_length(value) || value.is(Type::kIterator) || value.is(Type::kLoop);
}

List iterate(const Value& value) {
  if (has_length(value)) expect_memory(length(value) * sizeof(Value));
  List items;
  switch (value.type()) {
    case Type::kUndefined: break;
    case Type::kString:
      spend_items(value.string().length);  // finding the characters is charged again below
      items = characters(value.string());
      break;
    case Type::kList:
    case Type::kTuple: items = value.items(); break;
    case Type::kDict:
      for (const auto& entry : value.entries().entries) items.push_back(entry.first);
      break;
    case Type::kView: {
      const auto& view = value.as<ViewObject>();
      for (const auto& entry : view.dict.entries().entries) items.push_back(view_item(view, entry));
      break;
    }
    case Type::kRange: {
      const auto& range = value.as<RangeObject>();
      Int at = range.start;
      items.reserve(static_cast<size_t>(range.size()));
      for (Int n = range.size(); n > 0; --n, at += range.step) items.emplace_back(at);
      break;
    }
    case Type::kIterator: {
      auto& iterator = value.as<IteratorObject>();
      items.assign(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.next),
                   iterator.items.end());
      iterator.next = iterator.items.size();
      break;
    }
    default: fail("'{}' object is not iterable", type_name(value));
  }
  spend_items(items.size());
  return items;
}

bool contains(const Value& container, const Value& element) {
  switch (container.type()) {
    case Type::kString:
      if (element.is_undefined()) fail_undefined(element);
      if (!element.is_string())
        fail("'in <string>' requires string as left operand, not {}", type_name(element));
      return find_text(container.text(), element.text()) != std::string::npos;
    case Type::kDict: return container.entries().find(element) != nullptr;
    case Type::kView: {
      const auto& view = container.as<ViewObject>();
      if (view.kind == ViewObject::kKeys) return view.dict.entries().find(element) != nullptr;
      break;
    }
    case Type::kUndefined:
    case Type::kList:
    case Type::kTuple:
    case Type::kRange:
    case Type::kIterator: break;
    default: fail("argument of type '{}' is not iterable", type_name(container));
  }
  if (container.is_list()) {
    Meter meter;
    return std::ranges::any_of(container.items(), [&](const Value& item) {
      meter.add(kBytesPerStep / 4);
      return equal(item, element);
    });
  }
  const List items = iterate(container);
  return std::ranges::any_of(items, [&](const Value& item) { return equal(item, element); });
}

void fail_undefined(const Value& value) {
  if (value.object() == nullptr) fail("a value is undefined");
  fail("{}", value.as<UndefinedObject>().message);
}

Value character(std::string_view utf8) {
  if (utf8.size() != 1) return Value(utf8);
  static const std::vector<Value> ascii = [] {
    const BudgetScope unlimited(nullptr);  // shared by all renderings
    std::vector<Value> made;
    for (int c = 0; c < 128; ++c) made.emplace_back(std::string(1, static_cast<char>(c)));
    return made;
  }();
  return ascii[static_cast<unsigned char>(utf8[0]) & 0x7FU];
}

}  // namespace veery::jinja
