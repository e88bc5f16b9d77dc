#include "serve/access/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace veery::serve {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr int64_t kMostPerMinute = int64_t{1} << 40;
constexpr int64_t kMostConcurrent = 1 << 20, kMostPriority = 1000;
constexpr double kLeastWeight = 0.001, kMostWeight = 1000;

std::vector<ApiKey> read_lines(std::string_view text) {
  std::vector<ApiKey> keys;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find_first_not_of(kSpace);
    if (first == line.npos) continue;
    line = line.substr(first, line.find_last_not_of(kSpace) - first + 1);
    keys.push_back({.name = fmt::format("key {}", keys.size() + 1), .secret = std::string(line)});
  }
  return keys;
}

// Reads the members of one entry of "keys".
class EntryReader {
 public:
  EntryReader(const Json& entry, std::string where) : entry_(entry), where_(std::move(where)) {
    if (!entry.is_object())
      fail("", fmt::format("is a JSON {}, expected an object", entry.type_name()));
  }

  std::string text(std::string_view name, const std::string& absent) {
    const Json* found = take(name);
    if (found == nullptr) return absent;
    if (!found->is_string() || found->string().find_first_not_of(kSpace) == std::string::npos)
      fail(name, "expected a text that is not empty");
    return found->string();
  }
  int64_t integer(std::string_view name, int64_t low, int64_t high) {
    const Json* found = take(name);
    if (found == nullptr) return 0;
    if (!found->is_integer_in(low, high))
      fail(name, fmt::format("expected a whole number from {} to {}", low, high));
    return found->get<int64_t>();
  }
  double number(std::string_view name, double low, double high, double absent) {
    const Json* found = take(name);
    if (found == nullptr) return absent;
    const double value = found->is_number() ? found->get<double>() : 0;
    if (!(value >= low && value <= high))
      fail(name, fmt::format("expected a number from {} to {}", low, high));
    return value;
  }
  // A misspelled limit would be no limit.
  void check_unknown() const {
    for (const auto& [name, value] : entry_.items())
      if (!known_.contains(name))
        fail("", fmt::format("has the unknown member '{}', expected {}", printable(name, 40),
                             fmt::join(known_, ", ")));
  }

 private:
  const Json* take(std::string_view name) {
    known_.emplace(name);
    return entry_.member(name);
  }
  [[noreturn]] void fail(std::string_view name, const std::string& what) const {
    throw Error(ErrorKind::kInput, "{}{}{}: {}", where_, name.empty() ? "" : ".", name, what);
  }

  const Json& entry_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

ApiKey read_entry(const Json& entry, size_t index, const std::string& where) {
  EntryReader reader(entry, fmt::format("{}: keys[{}]", where, index));
  ApiKey key{.name = reader.text("name", fmt::format("key {}", index + 1)),
             .secret = reader.text("key", "")};
  key.weight = reader.number("weight", kLeastWeight, kMostWeight, 1);
  key.priority = static_cast<int32_t>(reader.integer("priority", -kMostPriority, kMostPriority));
  key.concurrent_requests = reader.integer("concurrent_requests", 0, kMostConcurrent);
  key.requests_per_minute = reader.integer("requests_per_minute", 0, kMostPerMinute);
  key.tokens_per_minute = reader.integer("tokens_per_minute", 0, kMostPerMinute);
  reader.check_unknown();
  if (key.secret.empty())
    throw Error(ErrorKind::kInput, "{}: keys[{}] has no member 'key'", where, index);
  return key;
}

std::vector<ApiKey> read_object(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  const Json* list = json.member("keys");
  if (json.size() != 1 || list == nullptr || !list->is_array())
    throw Error(ErrorKind::kInput, "{}: expected an object with the only member 'keys', a list",
                where);
  std::vector<ApiKey> keys;
  for (const Json& entry : *list) keys.push_back(read_entry(entry, keys.size(), where));
  return keys;
}

}  // namespace

std::vector<ApiKey> parse_api_keys(std::string_view text, const std::string& where) {
  const size_t first = text.find_first_not_of(kSpace);
  const bool json = first != text.npos && text[first] == '{';
  if (first != text.npos && text[first] == '[')
    throw Error(ErrorKind::kInput,
                R"({}: is a JSON list, expected one key a line or an object {{"keys": [...]}})",
                where);
  std::vector<ApiKey> keys = json ? read_object(text, where) : read_lines(text);
  if (keys.empty()) throw Error(ErrorKind::kInput, "{}: the file has no key", where);
  std::set<std::string_view> names, secrets;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!names.insert(keys[i].name).second)
      throw Error(ErrorKind::kInput, "{}: two keys have the name '{}'", where,
                  printable(keys[i].name));
    if (!secrets.insert(keys[i].secret).second)
      throw Error(ErrorKind::kInput, "{}: the key of '{}' occurs twice", where,
                  printable(keys[i].name));
  }
  return keys;
}

bool same_secret(std::string_view given, std::string_view expected) {
  if (given.empty()) return false;
  unsigned differs = given.size() != expected.size();
  for (size_t i = 0; i < expected.size(); ++i)
    differs |= static_cast<unsigned char>(given[i % given.size()] ^ expected[i]);
  return differs == 0;
}

}  // namespace veery::serve
