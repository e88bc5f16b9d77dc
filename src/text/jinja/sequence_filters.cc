#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/parse/ast.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

Value folded(const Value& value) { return value.is_string() ? Value(lower(value.text())) : value; }

// A path such as "a.0.b", followed by subscripts. An empty path returns the value itself.
class AttributePath {
 public:
  explicit AttributePath(const Value* attribute, const Value* otherwise = nullptr)
      : otherwise_(otherwise) {
    if (attribute == nullptr || attribute->is_none()) return;
    if (!attribute->is_string()) {
      parts_.push_back(*attribute);
      return;
    }
    for (const std::string_view part : split(attribute->text(), ".", -1)) {
      const bool number = all_code_points(part, [](char32_t c) { return c >= '0' && c <= '9'; });
      parts_.push_back(number ? Value(*parse_integer(part)) : Value(part));
    }
  }
  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = get_item(item, part);
      if (otherwise_ != nullptr && item.is_undefined()) item = *otherwise_;
    }
    return item;
  }

 private:
  std::vector<Value> parts_;
  const Value* otherwise_;
};

struct Keyed {
  Value key, item;
};

std::vector<Keyed> sorted(std::vector<Keyed> keyed, bool reverse) {
  // Moving 48-byte values costs more than one step each. std::stable_sort needs a strict weak
  // order; compare() throws for mixed types, which have none.
  spend_steps(keyed.size() * 4);
  const auto before = [](const Keyed& a, const Keyed& b) {
    spend_steps(1);
    return compare(a.key, b.key) < 0;
  };
  if (reverse) std::ranges::reverse(keyed);  // twice, to keep the order of equal elements
  std::ranges::stable_sort(keyed, before);
  if (reverse) std::ranges::reverse(keyed);
  return keyed;
}

List items_of(std::vector<Keyed> keyed) {
  List out;
  out.reserve(keyed.size());
  for (Keyed& entry : keyed) out.push_back(std::move(entry.item));
  return out;
}

Value filter_length(Context&, const Value& value, Arguments&) { return Value(length(value)); }
Value filter_list(Context&, const Value& value, Arguments&) { return Value::list(iterate(value)); }

Value filter_first(Context&, const Value& value, Arguments&) {
  if (value.is_list() && !value.items().empty()) return value.items()[0];
  if (value.is(Type::kIterator)) {
    auto& iterator = value.as<IteratorObject>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
  }
  const List items = iterate(value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items[0];
}

Value filter_last(Context&, const Value& value, Arguments&) {
  if (value.is(Type::kIterator)) fail("'generator' object is not reversible");
  if (value.is_list() && !value.items().empty()) return value.items().back();
  const List items = iterate(value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_reverse(Context&, const Value& value, Arguments&) {
  List items = iterate(value);
  std::ranges::reverse(items);
  if (value.is_string()) return join_texts(Value(std::string(), value.string().markup), items);
  if (value.is(Type::kIterator)) return Value::list(std::move(items));
  return Value::iterator(std::move(items), "list_reverseiterator");
}

Value filter_items(Context&, const Value& value, Arguments&) {
  List items;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.entries().entries)
      items.push_back(Value::tuple({key, item}));
  } else if (!value.is_undefined()) {
    fail("Can only get item pairs from a mapping.");
  }
  return Value::iterator(std::move(items));
}

Value filter_join(Context&, const Value& value, Arguments& args) {
  const Bound bound("join", args, {"d", "attribute"});
  List items = iterate(value);
  if (bound.set(1) != nullptr) {
    const AttributePath path(bound.set(1));
    for (Value& item : items) item = path(item);
  }
  return join_texts(Value(bound.get(0) == nullptr ? std::string() : to_text(bound.at(0))), items);
}

Value filter_dictsort(Context&, const Value& value, Arguments& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.get(1) == nullptr ? "key" : to_text(bound.at(1));
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_dict()) fail("'{}' object has no attribute 'items'", type_name(value));
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.entries().entries) {
    const Value& chosen = by == "key" ? key : item;
    keyed.push_back({bound.flag(0) ? chosen : folded(chosen), Value::tuple({key, item})});
  }
  return Value::list(items_of(sorted(std::move(keyed), bound.flag(2))));
}

Value filter_sort(Context&, const Value& value, Arguments& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributePath> paths;
  if (bound.set(2) != nullptr && bound.at(2).is_string()) {
    for (const std::string_view part : split(bound.at(2).text(), ",", -1)) {
      const Value name{part};
      paths.emplace_back(&name);
    }
  } else {
    paths.emplace_back(bound.set(2));
  }
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(value)) {
    List key;
    for (const AttributePath& path : paths)
      key.push_back(bound.flag(1) ? path(item) : folded(path(item)));
    keyed.push_back({Value::list(std::move(key)), item});
  }
  return Value::list(items_of(sorted(std::move(keyed), bound.flag(0))));
}

Value filter_unique(Context&, const Value& value, Arguments& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  const AttributePath path(bound.set(1));
  DictObject seen;
  List out;
  for (const Value& item : iterate(value)) {
    const Value key = bound.flag(0) ? path(item) : folded(path(item));
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value::none());
    out.push_back(item);
  }
  return Value::iterator(std::move(out));
}

template <bool greatest>
Value filter_extreme(Context&, const Value& value, Arguments& args) {
  const Bound bound(greatest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const AttributePath path(bound.set(1));
  const List items = iterate(value);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  Keyed best;
  for (size_t i = 0; i < items.size(); ++i) {
    spend_steps(1);
    const Value key = bound.flag(0) ? path(items[i]) : folded(path(items[i]));
    const bool better =
        i == 0 || compare_values(greatest ? Operator::kGreater : Operator::kLess, key, best.key);
    if (better) best = {key, items[i]};
  }
  return best.item;
}

Value filter_sum(Context&, const Value& value, Arguments& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  const AttributePath path(bound.set(0));
  Value total = bound.get(1) == nullptr ? Value(0) : bound.at(1);
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : iterate(value)) {
    spend_steps(1);
    total = binary(Operator::kAdd, total, path(item));
  }
  return total;
}

Value filter_groupby(Context&, const Value& value, Arguments& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(&bound.at(0), bound.set(1));
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(value))
    keyed.push_back({bound.flag(2) ? path(item) : folded(path(item)), item});
  spend_items(keyed.size());
  keyed = sorted(std::move(keyed), false);
  List groups;
  for (size_t i = 0; i < keyed.size();) {
    List members;
    const size_t first = i;
    for (; i < keyed.size() && equal(keyed[i].key, keyed[first].key); ++i)
      members.push_back(keyed[i].item);
    const Value key = bound.flag(2) ? keyed[first].key : path(members[0]);
    Value group = Value::tuple({key, Value::list(std::move(members))});
    group.as<ListObject>().group = true;
    groups.push_back(std::move(group));
  }
  return Value::list(std::move(groups));
}

// Returns the number of elements to fill up to.
size_t fill_count(const Bound& bound, std::string_view what) {
  const Int count = bound.integer(0, 0);
  if (count > kMaxRange)
    throw Error(ErrorKind::kLimit, "{}: more than {} elements", what, kMaxRange);
  return static_cast<size_t>(std::max(count, Int{0}));
}

Value filter_batch(Context&, const Value& value, Arguments& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  const size_t width = fill_count(bound, "batch");
  List out, row;
  for (const Value& item : iterate(value)) {
    if (row.size() == width && !(row.empty() && out.empty())) {
      out.push_back(Value::list(std::move(row)));
      row.clear();
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (bound.set(1) != nullptr) {
      expect_memory(width * sizeof(Value));
      while (row.size() < width) row.push_back(bound.at(1));
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::iterator(std::move(out));
}

Value filter_slice(Context&, const Value& value, Arguments& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  const size_t slices = fill_count(bound, "slice");
  const List items = iterate(value);
  if (slices == 0) fail("integer division or modulo by zero");
  const size_t each = items.size() / slices;
  const size_t longer = items.size() % slices;
  List out;
  for (size_t i = 0, at = 0; i < slices; ++i) {
    const size_t end = at + each + (i < longer ? 1 : 0);
    List part(items.begin() + static_cast<ptrdiff_t>(at),
              items.begin() + static_cast<ptrdiff_t>(end));
    if (bound.set(1) != nullptr && i >= longer) part.push_back(bound.at(1));
    out.push_back(Value::list(std::move(part)));
    at = end;
  }
  return Value::iterator(std::move(out));
}

// Returns the arguments without the first `n` positional ones.
Arguments without(const Arguments& args, size_t n) {
  Arguments out;
  spend_items(args.positional.size());
  for (const auto& [name, value] : args.keyword) spend_copy(name.size());
  out.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(n), args.positional.end());
  out.keyword = args.keyword;
  return out;
}

Builtin named(const Value& name, Builtin (*find)(std::string_view), std::string_view what) {
  const Builtin found = name.is_string() ? find(name.text()) : nullptr;
  if (found == nullptr) fail("No {} named {}.", what, shown(repr(name)));
  return found;
}

Value filter_map(Context& context, const Value& value, Arguments& args) {
  List out;
  if (!truth(value)) return Value::iterator(std::move(out));
  if (args.positional.empty()) {
    const Bound bound("map", args, {"attribute", "default"});
    if (bound.get(0) == nullptr) fail("map requires a filter argument");
    const AttributePath path(&bound.at(0), bound.set(1));
    for (const Value& item : iterate(value)) out.push_back(path(item));
    return Value::iterator(std::move(out));
  }
  const Builtin filter = named(args.positional[0], find_filter, "filter");
  for (const Value& item : iterate(value)) {
    Arguments rest = without(args, 1);
    spend_steps(1);
    out.push_back(filter(context, item, rest));
  }
  return Value::iterator(std::move(out));
}

template <bool keep, bool by_attribute>
Value filter_select(Context& context, const Value& value, Arguments& args) {
  List out;
  if (!truth(value)) return Value::iterator(std::move(out));
  constexpr size_t kSkip = by_attribute ? 1 : 0;
  if (args.positional.size() < kSkip) fail("Missing parameter for attribute name");
  const AttributePath path(by_attribute ? &args.positional[0] : nullptr);
  const bool tested = args.positional.size() > kSkip;
  const Builtin test = tested ? named(args.positional[kSkip], find_test, "test") : nullptr;
  for (const Value& item : iterate(value)) {
    const Value subject = path(item);
    bool holds = false;
    if (tested) {
      Arguments rest = without(args, kSkip + 1);
      holds = truth(test(context, subject, rest));
    } else {
      holds = truth(subject);
    }
    spend_steps(1);
    if (holds == keep) out.push_back(item);
  }
  return Value::iterator(std::move(out));
}

Value filter_attr(Context&, const Value& value, Arguments& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const Value name{bound.text(0)};
  if (value.is_dict() && !has_method(value, name.text()))
    return Value::undefined(fmt::format("'dict object' has no attribute {}", shown(repr(name))));
  return get_attribute(value, name);
}

constexpr std::pair<std::string_view, Builtin> kFilters[] = {
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"count", filter_length},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_extreme<true>},
    {"min", filter_extreme<false>},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<false, true>},
    {"reverse", filter_reverse},
    {"select", filter_select<true, false>},
    {"selectattr", filter_select<true, true>},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique}};

}  // namespace

Builtin find_sequence_filter(std::string_view name) { return find_in(kFilters, name); }

}  // namespace veery::jinja
