// reference_read.cc: parses the formats of references.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/folder/safetensors.h"
#include "verify/reference.h"

namespace veery {
namespace {

constexpr int64_t kMostIds = int64_t{1} << 24;

// Limit over all texts of a reference.
constexpr int64_t kMostValues = 8'000'000;

// Reads a JSON reference text by text; errors name the file.
class ReferenceReader {
 public:
  ReferenceReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // Reads the lists "cases" or "prompts" at the top level or one level below.
  std::vector<ReferenceSet> sets() const {
    std::map<std::string, std::string> lists;  // level -> list; "cases" before "prompts"
    each_list([&](const std::string& level, const std::string& list, JsonReader& reader) {
      const auto [known, is_new] = lists.emplace(level, list);
      if (!is_new) known->second = std::min(known->second, list);
      reader.skip();
    });
    if (lists.empty()) fail("missing list 'cases' or 'prompts' of texts with ids");
    std::vector<ReferenceSet> sets;
    JsonBudget budget{.most = kMostValues};
    each_list([&](const std::string& level, const std::string& list, JsonReader& reader) {
      if (lists.at(level) == list)
        sets.push_back(set(level, reader, budget));
      else
        reader.skip();
    });
    // Top-level texts come first, regardless of their position in the file.
    std::ranges::stable_partition(sets, &std::string::empty, &ReferenceSet::name);
    return sets;
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::kFormat, "{}: {}", name_,
                fmt::format(format, std::forward<Args>(args)...));
  }
  static const Json* member(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  // Calls take(level, list, reader) with the reader positioned at each list, which `take` must
  // read.
  template <typename Take>
  void each_list(const Take& take) const {
    JsonReader reader(text_, name_);
    const auto step = [&](const std::string& level, std::string_view key) {
      const bool is_list = reader.peek() == JsonReader::Kind::kArray;
      if (!is_list || (key != "cases" && key != "prompts")) return false;
      take(level, std::string(key), reader);
      return true;
    };
    if (reader.peek() != JsonReader::Kind::kObject) return reader.skip();
    reader.begin_object();
    for (std::string_view key; reader.next_key(key);) {
      if (step("", key)) continue;
      if (reader.peek() != JsonReader::Kind::kObject) {
        reader.skip();
        continue;
      }
      const std::string level(key);
      reader.begin_object();
      while (reader.next_key(key))
        if (!step(level, key)) reader.skip();
    }
    reader.finish();
  }
  const Json& array(const Json& value, const char* what) const {
    if (!value.is_array()) fail("{} is not an array", what);
    return value;
  }
  float number(const Json& value, const char* what) const {
    if (!value.is_number()) fail("{} has an item that is not a number", what);
    return value.get<float>();
  }
  int32_t id(const Json& value, const char* what) const {
    const bool whole = value.is_number_integer();
    const int64_t number = whole ? value.get<int64_t>() : -1;
    if (number < 0 || number >= kMostIds) fail("{} has an item that is not a token id", what);
    return static_cast<int32_t>(number);
  }
  std::vector<int32_t> ids(const Json& list, const char* what) const {
    std::vector<int32_t> result;
    for (const Json& item : array(list, what)) result.push_back(id(item, what));
    return result;
  }

  ReferenceSet set(const std::string& key, JsonReader& reader, JsonBudget& budget) const {
    ReferenceSet result{key, {}};
    reader.begin_array();
    while (reader.next_item()) {
      const Json item = reader.value(budget);
      if (!item.is_object()) fail("a text is not an object");
      result.texts.push_back(text(item));
    }
    return result;
  }

  // A text whose rows are looked up by position.
  struct Draft {
    std::vector<int32_t> ids;
    std::map<int32_t, ReferenceRow> rows;

    ReferenceRow& row(int32_t position) {
      ReferenceRow& row = rows[position];
      row.position = position;
      return row;
    }
    int32_t last() const { return static_cast<int32_t>(std::ssize(ids)) - 1; }
  };

  // Adds rows of logits for the last positions; the columns are ids 0, 1, ...
  void add_rows(Draft& text, const Json& item, const char* key) const {
    const Json* rows = member(item, key);
    if (rows == nullptr) return;
    const auto count = std::ssize(array(*rows, key));
    if (count > std::ssize(text.ids))
      fail("{} has {} rows for {} ids", key, count, text.ids.size());
    auto position = static_cast<int32_t>(std::ssize(text.ids) - count);
    for (const Json& numbers : *rows) {
      ReferenceRow& at = text.row(position++);
      for (const Json& value : array(numbers, key))
        at.values.emplace_back(static_cast<int32_t>(at.values.size()), number(value, key));
    }
  }

  // Adds [[id, value], ...].
  void add_pairs(ReferenceRow& row, const Json& list, const char* what) const {
    for (const Json& pair : array(list, what)) {
      if (!pair.is_array() || pair.size() != 2)
        fail("{} has an item that is not [id, value]", what);
      row.values.emplace_back(id(pair[0], what), number(pair[1], what));
    }
  }

  // Sets one number for each position, or a single one for the last.
  template <typename Set>
  void add_each(Draft& text, const Json& item, const char* key, const Set& set) const {
    const Json* list = member(item, key);
    if (list == nullptr) return;
    if (!list->is_array()) return set(text.row(text.last()), *list);
    if (list->size() != text.ids.size())
      fail("{} has {} items for {} ids", key, list->size(), text.ids.size());
    for (int32_t i = 0; i <= text.last(); ++i) set(text.row(i), (*list)[static_cast<size_t>(i)]);
  }

  void add_positions(Draft& text, const Json& list) const {
    for (const Json& item : array(list, "positions")) {
      const Json* place = item.is_object() ? member(item, "position") : nullptr;
      if (place == nullptr) fail("an item of positions lacks the position");
      const int32_t position = id(*place, "position");
      if (position >= std::ssize(text.ids))
        fail("position {} is given for {} ids", position, text.ids.size());
      ReferenceRow& at = text.row(position);
      if (const Json* top = member(item, "top")) add_pairs(at, *top, "top");
      if (const Json* top = member(item, "top_logprobs"); top != nullptr && at.values.empty()) {
        add_pairs(at, *top, "top_logprobs");
        at.logprobs = true;
      }
      if (const Json* sum = member(item, "logsumexp")) at.logsumexp = number(*sum, "logsumexp");
    }
  }

  ReferenceText text(const Json& item) const {
    const Json* list = member(item, "input_ids");
    if (list == nullptr) list = member(item, "ids");
    if (list == nullptr) fail("a text has no ids");
    Draft text{ids(*list, "ids"), {}};
    if (text.ids.empty()) fail("a text has no ids");
    for (const char* key : {"logits", "first8"}) add_rows(text, item, key);
    if (const Json* positions = member(item, "positions")) add_positions(text, *positions);
    if (const Json* top = member(item, "top5")) add_pairs(text.row(text.last()), *top, "top5");
    add_each(text, item, "lse",
             [&](ReferenceRow& at, const Json& value) { at.logsumexp = number(value, "lse"); });
    for (const char* key : {"argmax", "best"})
      add_each(text, item, key,
               [&](ReferenceRow& at, const Json& value) { at.best = id(value, key); });
    if (text.rows.empty()) fail("a text has neither logits nor positions");
    ReferenceText result{std::move(text.ids), {}, {}};
    for (auto& [position, row] : text.rows) result.rows.push_back(std::move(row));
    if (const Json* greedy = member(item, "greedy")) {
      const Json* inner = greedy->is_object() ? member(*greedy, "ids") : greedy;
      if (inner != nullptr) result.greedy = ids(*inner, "greedy");
    }
    return result;
  }

  std::string_view text_;
  const std::string& name_;
};

std::vector<int32_t> stored_ids(const StoredTensor& tensor, const std::string& name) {
  const bool wide = tensor.type == StoredType::kI64;
  if ((!wide && tensor.type != StoredType::kI32) || tensor.shape.size() != 1 || tensor.shape[0] < 1)
    throw Error(ErrorKind::kFormat, "{}: {} is not a vector of I32 or I64", name,
                printable(tensor.name));
  std::vector<int32_t> ids;
  const size_t size = wide ? 8 : 4;
  for (size_t at = 0; at < tensor.data.size(); at += size) {
    int64_t id = 0;
    if (wide) {
      std::memcpy(&id, tensor.data.data() + at, sizeof id);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, tensor.data.data() + at, sizeof narrow);
      id = narrow;
    }
    if (id < 0 || id >= kMostIds)
      throw Error(ErrorKind::kFormat, "{}: {} has {}, expected a token id", name,
                  printable(tensor.name), id);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Adds a matrix of logits (positions, vocabulary) for the last positions.
void add_stored_rows(const StoredTensor& tensor, const std::string& name, ReferenceText& text) {
  const auto type = to_dtype(tensor.type);
  const bool real = type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
  if (!real || tensor.shape.size() != 2 || tensor.shape[0] < 1 ||
      tensor.shape[0] > std::ssize(text.ids))
    throw Error(ErrorKind::kFormat, "{}: {} is not a matrix of F32, F16 or BF16 with up to {} rows",
                name, printable(tensor.name), text.ids.size());
  const auto cols = static_cast<size_t>(tensor.shape[1]);
  const std::vector<std::byte> bytes(tensor.data.begin(), tensor.data.end());
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]) * cols);
  decode(*type, bytes, values);
  for (int64_t r = 0; r < tensor.shape[0]; ++r) {
    ReferenceRow row{.position = static_cast<int32_t>(std::ssize(text.ids) - tensor.shape[0] + r)};
    for (size_t i = 0; i < cols; ++i)
      row.values.emplace_back(static_cast<int32_t>(i), values[static_cast<size_t>(r) * cols + i]);
    text.rows.push_back(std::move(row));
  }
}

// Reads "input_ids" and "logits", or several such pairs with the prefix "NAME.".
std::vector<ReferenceSet> stored_sets(const SafetensorsFile& file, const std::string& name) {
  constexpr std::string_view kIds = "input_ids";
  ReferenceSet set;
  for (const StoredTensor& tensor : file.tensors) {
    if (tensor.name != kIds && !tensor.name.ends_with(".input_ids")) continue;
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - kIds.size());
    const StoredTensor* logits = file.find(prefix + "logits");
    if (logits == nullptr)
      throw Error(ErrorKind::kFormat, "{}: missing tensor {}logits", name, printable(prefix));
    ReferenceText text{stored_ids(tensor, name), {}, {}};
    add_stored_rows(*logits, name, text);
    set.texts.push_back(std::move(text));
  }
  if (set.texts.empty()) throw Error(ErrorKind::kFormat, "{}: missing tensor input_ids", name);
  return {std::move(set)};
}

}  // namespace

std::vector<ReferenceSet> parse_reference(std::span<const std::byte> bytes,
                                          const std::string& name) {
  // The header of a safetensors file starts after eight bytes.
  constexpr size_t kLength = 8;
  if (bytes.size() > kLength && bytes[kLength] == std::byte{'{'} && bytes[0] != std::byte{'{'})
    return stored_sets(parse_safetensors(bytes, name), name);
  check_size(name, bytes.size(), kReferenceFile);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<ReferenceSet> sets = ReferenceReader(text, name).sets();
  std::erase_if(sets, [](const ReferenceSet& set) { return set.texts.empty(); });
  if (sets.empty()) throw Error(ErrorKind::kFormat, "{}: has no texts", name);
  return sets;
}

std::vector<ReferenceSet> read_reference(const std::string& path) {
  const MappedFile file(path);
  return file.checked([&] { return parse_reference(file.bytes(), path); });
}

}  // namespace veery
