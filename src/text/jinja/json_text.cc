#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

struct Style {
  std::string item = ", ", key = ": ";
  std::string indent;
  bool pretty = false, ascii = false, sorted = false;
};

class JsonWriter {
 public:
  explicit JsonWriter(Style style) : style_(std::move(style)) {}
  void put(const Value& value, int depth);
  std::string take() { return out_.take(); }

 private:
  void put_string(std::string_view text);
  void put_escape(char32_t unit) {
    out_.append("\\u");
    append_hex(out_, static_cast<uint32_t>(unit), 4);
  }
  void put_key(const Value& key);
  void put_list(const List& items, int depth);
  void put_dict(const DictObject& dict, int depth);
  void break_line(int depth) {
    if (!style_.pretty) return;
    spend_items(static_cast<size_t>(depth));
    out_.append('\n');
    for (int i = 0; i < depth; ++i) out_.append(style_.indent);
  }
  static std::string number(double value) {
    if (value != value) return "NaN";
    if (value - value != 0) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }
  Style style_;
  Builder out_;
};

void JsonWriter::put(const Value& value, int depth) {
  spend_steps(1);
  switch (value.type()) {
    case Type::kNone: out_.append("null"); break;
    case Type::kBool: out_.append(value.boolean() ? "true" : "false"); break;
    case Type::kInt: out_.append(integer_text(value.integer())); break;
    case Type::kFloat: out_.append(number(value.real())); break;
    case Type::kString: put_string(value.text()); break;
    case Type::kList:
    case Type::kTuple: put_list(value.items(), depth); break;
    case Type::kDict: put_dict(value.entries(), depth); break;
    default: fail("Object of type {} is not JSON serializable", type_name(value));
  }
}

void JsonWriter::put_string(std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f";
  constexpr std::string_view kLetters = "\"\\nrtbf";
  spend_text(text.size());
  out_.append('"');
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    const std::string_view piece = text.substr(0, static_cast<size_t>(point.length));
    const char32_t c = point.value;
    const size_t special = point.length == 1 ? kSpecial.find(text[0]) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out_.append('\\');
      out_.append(kLetters[special]);
    } else if (c < 0x20 || (style_.ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
      put_escape(c);
    } else if (style_.ascii && c >= 0x10000) {
      put_escape(0xD800 + ((c - 0x10000) >> 10));
      put_escape(0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      out_.append(piece);
    }
    text.remove_prefix(piece.size());
  }
  out_.append('"');
}

void JsonWriter::put_key(const Value& key) {
  switch (key.type()) {
    case Type::kString: put_string(key.text()); break;
    case Type::kNone: out_.append("\"null\""); break;
    case Type::kBool: out_.append(key.boolean() ? "\"true\"" : "\"false\""); break;
    case Type::kInt: out_.append("\"" + integer_text(key.integer()) + "\""); break;
    case Type::kFloat: out_.append("\"" + number(key.real()) + "\""); break;
    default: fail("keys must be str, int, float, bool or None, not {}", type_name(key));
  }
}

void JsonWriter::put_list(const List& items, int depth) {
  if (items.empty()) return out_.append("[]");
  out_.append('[');
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_.append(style_.item);
    break_line(depth + 1);
    put(items[i], depth + 1);
  }
  break_line(depth);
  out_.append(']');
}

void JsonWriter::put_dict(const DictObject& dict, int depth) {
  if (dict.entries.empty()) return out_.append("{}");
  std::vector<const DictObject::Entry*> entries;
  for (const auto& entry : dict.entries) entries.push_back(&entry);
  if (style_.sorted)
    std::ranges::stable_sort(entries, [](const auto* a, const auto* b) {
      spend_steps(1);
      return compare(a->first, b->first) < 0;
    });
  out_.append('{');
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out_.append(style_.item);
    break_line(depth + 1);
    put_key(entries[i]->first);
    out_.append(style_.key);
    put(entries[i]->second, depth + 1);
  }
  break_line(depth);
  out_.append('}');
}

Value convert(const Json& json, int depth) {
  if (depth > kMaxValueDepth)
    throw Error(ErrorKind::kLimit, "the variables nest more than {} levels deep", kMaxValueDepth);
  switch (json.type()) {
    case Json::Type::kBool: return Value(json.get<bool>());
    case Json::Type::kInteger: return Value(Int{json.get<int64_t>()});
    case Json::Type::kUnsigned: return Value(Int{json.get<uint64_t>()});
    case Json::Type::kFloat: return Value(json.get<double>());
    case Json::Type::kString: return Value(json.string());
    case Json::Type::kArray: {
      List items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Json::Type::kObject: {
      auto dict = std::make_shared<DictObject>();
      for (const auto& [key, item] : json.items()) dict->set(Value(key), convert(item, depth + 1));
      return Value::dict(std::move(dict));
    }
    default: return Value::none();
  }
}

}  // namespace

Value from_json(const Json& json) { return convert(json, 0); }

Value filter_tojson(Context&, const Value& value, Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  style.ascii = bound.flag(0);
  style.sorted = bound.flag(3);
  if (const Value* indent = bound.set(1)) {
    style.pretty = true;
    style.item = ",";
    style.indent =
        indent->is_string() ? indent->text() : repeat(Value(" "), bound.integer(1, 0)).text();
  }
  if (const Value* separators = bound.set(2)) {
    const List parts = iterate(*separators);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string())
      fail("tojson: separators must be two strings");
    style.item = parts[0].text();
    style.key = parts[1].text();
  }
  JsonWriter writer(std::move(style));
  writer.put(value, 0);
  return Value(writer.take());
}

}  // namespace veery::jinja
