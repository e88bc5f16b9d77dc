#include "text/answer/call_code.h"

#include <algorithm>
#include <cctype>

namespace veery {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMostMembers = 4096;  // key look-ups take linear time

// Recursive descent parser; functions return nullopt or false on unexpected text.
class Reader {
 public:
  Reader(std::string_view text, std::string_view quote) : rest_(text), quote_(quote) {}

  void skip_space() {
    const size_t at = rest_.find_first_not_of(" \n\t\r");
    rest_.remove_prefix(std::min(at, rest_.size()));
  }
  bool take(std::string_view text) {
    skip_space();
    if (text.empty() || !rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool over() {
    skip_space();
    return rest_.empty();
  }

  std::optional<Json> value(int depth = 0) {
    skip_space();
    if (depth > kMaxDepth || rest_.empty()) return std::nullopt;
    if (!quote_.empty() && rest_.starts_with(quote_)) return text(quote_, /*raw=*/true);
    const char c = rest_.front();
    if (c == '"' || c == '\'') return text(rest_.substr(0, 1), false);
    if (take("[")) return list("]", depth);
    if (take("(")) return list(")", depth);
    if (take("{")) return members("}", ":", depth);
    return word();
  }

  /// Parses name-value pairs up to `close`; `between` separates name and value.
  std::optional<Json> members(std::string_view close, std::string_view between, int depth) {
    Json object = Json::object();
    if (take(close)) return object;
    for (;;) {
      auto key = name();
      if (!key || !take(between) || object.size() == kMostMembers) return std::nullopt;
      auto given = value(depth + 1);
      if (!given) return std::nullopt;
      object[*key] = std::move(*given);
      if (take(close)) return object;
      if (!take(",")) return std::nullopt;
      if (take(close)) return object;
    }
  }

  std::optional<std::string> identifier(std::string_view more = "_") {
    skip_space();
    size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) != 0 ||
                                more.find(rest_[n]) != std::string_view::npos))
      ++n;
    if (n == 0) return std::nullopt;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }

  bool calls(std::vector<CodeCall>& out) {
    if (take("[")) {
      if (take("]")) return true;
      while (call(out, 0)) {
        if (take("]")) return true;
        if (!take(",")) return false;
      }
      return false;
    }
    while (call(out, 0)) {
      take(";");
      if (over()) return true;
    }
    return false;
  }

 private:
  bool call(std::vector<CodeCall>& out, int depth) {
    const bool gemma = take("call:");
    auto name = identifier("_.-:");
    if (!name || depth > 1) return false;
    std::optional<Json> given;
    if (gemma) {
      if (take("{")) given = members("}", ":", 0);
    } else if (take("(")) {
      if (*name == "print") return call(out, depth + 1) && take(")");
      given = members(")", "=", 0);
    }
    if (!given) return false;
    if (name->ends_with(".call")) name->resize(name->size() - 5);
    out.push_back({std::move(*name), std::move(*given)});
    return true;
  }

  std::optional<std::string> name() {
    skip_space();
    if (rest_.empty()) return std::nullopt;
    if (rest_.front() != '"' && rest_.front() != '\'' &&
        (quote_.empty() || !rest_.starts_with(quote_)))
      return identifier("_-.$");
    auto key = value(kMaxDepth);
    if (!key || !key->is_string()) return std::nullopt;
    return key->get<std::string>();
  }

  std::optional<Json> list(std::string_view close, int depth) {
    Json items = Json::array();
    if (take(close)) return items;
    for (;;) {
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
      if (take(close)) return items;
      if (!take(",")) return std::nullopt;
      if (take(close)) return items;
    }
  }

  // Parses a quoted string by converting it to a JSON string, since the escapes of Python and JSON
  // are similar. `raw`: without escapes.
  std::optional<Json> text(std::string_view quote, bool raw) {
    rest_.remove_prefix(quote.size());
    std::string body;
    while (!rest_.empty() && !rest_.starts_with(quote)) {
      const size_t n = !raw && rest_.front() == '\\' && rest_.size() > 1 ? 2 : 1;
      const std::string_view part = rest_.substr(0, n);
      rest_.remove_prefix(n);
      if (raw) {
        body += part;
      } else if (n == 1) {
        static constexpr std::string_view kEscaped[] = {"\"", "\\\"", "\n", "\\n",
                                                        "\t", "\\t",  "\r", "\\r"};
        size_t i = 0;
        while (i < std::size(kEscaped) && kEscaped[i] != part) i += 2;
        body += i < std::size(kEscaped) ? kEscaped[i + 1] : part;
      } else if (part == "\\'") {
        body += '\'';
      } else {
        body += part;
      }
    }
    if (rest_.empty()) return std::nullopt;
    rest_.remove_prefix(quote.size());
    if (raw) return Json(body);
    std::optional<Json> parsed = maybe_json("\"" + body + "\"");
    if (!parsed || !parsed->is_string()) return std::nullopt;
    return parsed;
  }

  std::optional<Json> word() {
    const auto word = identifier("_.+-");
    if (!word) return std::nullopt;
    if (*word == "true" || *word == "True") return Json(true);
    if (*word == "false" || *word == "False") return Json(false);
    if (*word == "null" || *word == "None") return Json(nullptr);
    std::optional<Json> number = maybe_json(*word);
    if (!number || !number->is_number()) return std::nullopt;
    return number;
  }

  std::string_view rest_;
  std::string_view quote_;
};

}  // namespace

std::optional<Json> read_literal(std::string_view text, std::string_view quote) {
  Reader reader(text, quote);
  auto value = reader.value();
  if (!value || !reader.over()) return std::nullopt;
  return value;
}

std::vector<CodeCall> read_calls(std::string_view text, std::string_view quote) {
  Reader reader(text, quote);
  std::vector<CodeCall> calls;
  if (!reader.calls(calls) || !reader.over()) calls.clear();
  return calls;
}

}  // namespace veery
