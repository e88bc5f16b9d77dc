#include <array>
#include <chrono>
#include <ctime>

#include "text/jinja/builtins.h"

namespace veery::jinja {
namespace {

Value function_range(Context&, const Value&, Arguments& args) {
  const List& given = args.positional;
  if (!args.keyword.empty()) fail("range() takes no keyword arguments");
  if (given.empty() || given.size() > 3)
    fail("range expected 1 to 3 arguments, got {}", given.size());
  RangeObject range{0, to_index(given[0], "range"), 1};
  if (given.size() > 1) range = {range.stop, to_index(given[1], "range"), 1};
  if (given.size() > 2) range.step = to_index(given[2], "range");
  if (range.step == 0) fail("range() arg 3 must not be zero");
  const Int huge = Int{1} << 64;
  for (const Int bound : {range.start, range.stop, range.step}) {
    if (bound > huge || bound < -huge) fail("Range too big");
  }
  if (range.size() > kMaxRange)
    throw Error(ErrorKind::kLimit, "Range too big: a range may have {} elements", kMaxRange);
  return Value(Type::kRange, std::make_shared<RangeObject>(range));
}

void add_pairs(DictObject& dict, const Value& from) {
  if (from.is_dict()) {
    for (const auto& [key, value] : from.entries().entries) dict.set(key, value);
    return;
  }
  for (const Value& pair : iterate(from)) {
    const List parts = iterate(pair);
    if (parts.size() != 2)
      fail("dictionary update sequence element has length {}; 2 is required", parts.size());
    dict.set(parts[0], parts[1]);
  }
}

void fill(DictObject& dict, Arguments& args) {
  if (args.positional.size() > 1)
    fail("dict expected at most 1 argument, got {}", args.positional.size());
  if (!args.positional.empty()) add_pairs(dict, args.positional[0]);
  for (auto& [name, value] : args.keyword) dict.set(Value(name), std::move(value));
}

Value function_namespace(Context& context, const Value&, Arguments& args) {
  auto made = std::make_shared<NamespaceObject>();
  fill(made->attributes, args);
  context.namespaces.push_back(made);
  return Value(Type::kNamespace, std::move(made));
}

Value function_cycler(Context&, const Value&, Arguments& args) {
  if (args.positional.empty()) fail("at least one item has to be provided");
  return Value(Type::kCycler, make_object<CyclerObject>(std::move(args.positional)));
}

Value function_joiner(Context&, const Value&, Arguments& args) {
  const Bound bound("joiner", args, {"sep"});
  const Value separator = bound.get(0) == nullptr ? Value(", ") : bound.at(0);
  return Value(Type::kJoiner, make_object<JoinerObject>(separator));
}

Value function_raise(Context&, const Value&, Arguments& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  throw Error(ErrorKind::kInput, "{}", to_text(bound.at(0)));
}

int64_t local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

Value function_strftime_now(Context& context, const Value&, Arguments& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  return Value(format_time(context.has_now ? context.now : local_now(), bound.text(0)));
}

Value function_lipsum(Context&, const Value&, Arguments&) {
  throw Error(ErrorKind::kUnsupported, "lipsum() is not supported");
}

constexpr std::pair<std::string_view, Builtin> kFunctions[] = {
    {"range", function_range},
    {"dict", make_dict},
    {"namespace", function_namespace},
    {"cycler", function_cycler},
    {"joiner", function_joiner},
    {"raise_exception", function_raise},
    {"strftime_now", function_strftime_now},
    {"lipsum", function_lipsum}};

}  // namespace

Value make_dict(Context&, const Value&, Arguments& args) {
  auto dict = std::make_shared<DictObject>();
  fill(*dict, args);
  return Value::dict(std::move(dict));
}

Builtin find_function(std::string_view name) { return find_in(kFunctions, name); }

std::string format_time(int64_t seconds, std::string_view format) {
  // strftime formats only years of four digits; other times are rejected as errors of the clock.
  const auto when = static_cast<std::time_t>(seconds);
  std::tm time{};
  if (gmtime_r(&when, &time) == nullptr) fail("strftime_now: the time {} is out of range", seconds);
  Builder out;
  spend_text(format.size());
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out.append(format[i]);
      continue;
    }
    spend_steps(8);
    std::string directive = "%";
    directive.push_back(format[++i]);
    if (directive[1] == '-' && i + 1 < format.size()) directive.push_back(format[++i]);
    if (directive == "%f") {
      out.append("000000");
    } else if (directive == "%z" || directive == "%Z") {
      continue;  // a wall clock has no time zone, as in Python
    } else {
      std::array<char, 128> buffer{};
      out.append(
          {buffer.data(), std::strftime(buffer.data(), buffer.size(), directive.c_str(), &time)});
    }
  }
  return out.take();
}

Bound::Bound(std::string_view callee, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required)
    : callee_(callee), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size())
    fail("{}() takes at most {} arguments ({} given)", callee, names.size(),
         arguments.positional.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keyword) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != name) ++i;
    if (i == names.size()) fail("{}() got an unexpected keyword argument '{}'", callee, name);
    if (values_[i] != nullptr) fail("{}() got multiple values for argument '{}'", callee, name);
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail("{}() is missing the argument '{}'", callee, names.begin()[i]);
  }
}

Int Bound::integer(size_t i, Int otherwise) const {
  return values_[i] == nullptr ? otherwise : to_index(*values_[i], callee_);
}

const std::string& Bound::text(size_t i) const {
  const Value& value = *values_[i];
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string())
    fail("{}() argument {} must be str, not {}", callee_, i + 1, type_name(value));
  return value.text();
}

}  // namespace veery::jinja
