#include "base/json_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace veery {
namespace {

namespace od = simdjson::ondemand;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Detects an encoded surrogate (three bytes that begin with ED A0 to ED BF), which is not a
// character.
bool has_surrogate(std::string_view text) {
  for (size_t at = text.find('\xED'); at != text.npos; at = text.find('\xED', at + 1))
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= 0xA0) return true;
  return false;
}

size_t first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = next_code_point(text.substr(at));
    if (!point.valid) return at;
    at += static_cast<size_t>(point.length);
  }
  return text.size();
}

// Returns the position of the first control character inside a string, or of the opening quotation
// mark of an unterminated string.
size_t first_bad_string(std::string_view text) {
  size_t begin = text.npos;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool inside = begin != text.npos;
    if (inside && static_cast<unsigned char>(text[at]) < 0x20) return at;
    if (inside && text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      begin = inside ? text.npos : at;
  }
  return std::min(begin, text.size());
}

// Returns the encoding if the first bytes show that the text is not UTF-8: a byte order mark, or a
// NUL next to the first character.
const char* other_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv) ||
      text.starts_with("\0\0\0"sv))
    return "UTF-32";
  if (text.starts_with("\xFF\xFE"sv) || text.starts_with("\xFE\xFF"sv)) return "UTF-16";
  const bool wide = text.size() >= 2 && (text[0] == 0) != (text[1] == 0);
  return wide ? "UTF-16" : nullptr;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace

// The state of a reader: simdjson's iterators of the open arrays and objects. Text that has to be
// copied is wrapped in an array of one item, so that a single number is read like any other value.
struct JsonReader::Cursor {
  struct Level {
    bool is_object = false, is_fresh = true;
    od::object_iterator members;
    od::array_iterator items;
  };

  Cursor(std::string_view given, bool in_place)
      : margin(in_place ? 0 : 1), size(given.size() + 2 * margin), data(given.data()) {
    if (in_place) return;
    copy.reset(new char[size + simdjson::SIMDJSON_PADDING]);
    copy[0] = '[';
    std::copy(given.begin(), given.end(), copy.get() + 1);
    copy[size - 1] = ']';
    std::memset(copy.get() + size, 0, simdjson::SIMDJSON_PADDING);
    data = copy.get();
  }

  std::string_view text() const { return {data + margin, size - 2 * margin}; }
  size_t offset_of(const char* pointer) const {
    return std::min(static_cast<size_t>(pointer - data) - margin, text().size());
  }
  // Returns the position of the next token, or of the one that could not be read.
  size_t location() {
    const char* next = nullptr;
    return document.current_location().get(next) == simdjson::SUCCESS ? offset_of(next)
                                                                      : text().size();
  }
  // Returns the position of the last character before `at` that is not white space.
  size_t before(size_t at) const {
    while (at > 0 && is_space(text()[at - 1])) --at;
    return at > 0 ? at - 1 : 0;
  }

  // Returns the closing quotation mark of the string that contains `at`. simdjson has verified that
  // it exists.
  static const char* end_of_string(const char* at) {
    while (*at != '"') at += *at == '\\' ? 2 : 1;
    return at;
  }

  size_t margin, size;  // bytes before and after the text that are not part of it
  const char* data;
  std::unique_ptr<char[]> copy;
  od::parser parser;
  od::document document;
  std::vector<Level> levels;
  od::value value;
  bool at_root = false;  // the whole document, mapped in place, has not been read yet
  bool pending = false;  // `value` has not been read yet
  size_t place = 0;      // position of the value that was looked at last
};

JsonText::JsonText(const MappedFile& file) : text_(file.text()), padded_(!text_.empty()) {
  static_assert(MappedFile::kPadding >= simdjson::SIMDJSON_PADDING);
}

JsonText JsonText::padded_text(std::string_view text) {
  JsonText result(text);
  result.padded_ = true;
  return result;
}

JsonReader::JsonReader(JsonText text, std::string what, int max_depth)
    : what_(std::move(what)), max_depth_(max_depth) {
  if (const char* encoding = other_encoding(text.text()))
    throw Error(ErrorKind::kFormat, "{}: is text in {}, expected UTF-8", what_, encoding);
  const std::string_view held = without_mark(text.text());
  const size_t first = held.find_first_not_of(" \n\r\t");
  const bool nested = first != held.npos && (held[first] == '{' || held[first] == '[');
  start(held, text.padded() && nested);
}

void JsonReader::start(std::string_view text, bool in_place) {
  cursor_ = std::make_unique<Cursor>(text, in_place);
  const simdjson::padded_string_view view(cursor_->data, cursor_->size,
                                          cursor_->size + simdjson::SIMDJSON_PADDING);
  const std::string_view held = cursor_->text();
  switch (cursor_->parser.iterate(view).get(cursor_->document)) {
    case simdjson::SUCCESS: break;
    case simdjson::UTF8_ERROR: fail_at(first_invalid_utf8(held), "UTF-8");
    case simdjson::UNESCAPED_CHARS:
      fail_at(first_bad_string(held), "no control character in a string");
    case simdjson::UNCLOSED_STRING: fail_at(first_bad_string(held), "a string with an end");
    case simdjson::MEMALLOC: throw std::bad_alloc();
    default: fail_at(0, "a JSON text of less than 4 GB");
  }
  cursor_->at_root = in_place;
  if (in_place) return;
  od::array root;
  Cursor::Level level;
  if (cursor_->document.get_array().get(root) != simdjson::SUCCESS ||
      root.begin().get(level.items) != simdjson::SUCCESS)
    fail_at(0, "a value");
  cursor_->levels.push_back(level);
  next_item();
}

JsonReader::~JsonReader() = default;

void JsonReader::fail_at(size_t at, std::string_view expected) const {
  constexpr size_t kShown = 24;
  const std::string_view text = cursor_->text();
  const std::string found =
      at < text.size() ? fmt::format("'{}'", printable(text.substr(at, 4 * kShown), kShown))
                       : "the end";
  throw Error(ErrorKind::kFormat, "{}: byte {}: expected {}, found {}", what_, at, expected, found);
}

void JsonReader::fail(std::string_view expected) const { fail_at(cursor_->place, expected); }

JsonReader::Kind JsonReader::peek() {
  if (cursor_->at_root) {
    const std::string_view text = cursor_->text();
    return text[text.find_first_of("{[")] == '{' ? Kind::kObject : Kind::kArray;
  }
  if (!cursor_->pending) fail("a value");
  od::json_type type;
  if (cursor_->value.type().get(type) != simdjson::SUCCESS) fail("a value");
  switch (type) {
    case od::json_type::array: return Kind::kArray;
    case od::json_type::object: return Kind::kObject;
    case od::json_type::number: return Kind::kNumber;
    case od::json_type::string: return Kind::kString;
    case od::json_type::boolean: return Kind::kBool;
    case od::json_type::null: return Kind::kNull;
  }
  fail("a value");
}

void JsonReader::descend() {
  if (++depth_ > max_depth_)
    throw Error(ErrorKind::kFormat, "{}: more than {} levels deep", what_, max_depth_);
}

// Opens the next array or object. At the end of a document simdjson only reports that something is
// wrong, not where; in that case the text is read once more from a copy.
template <typename Container>
Container JsonReader::begin(Kind kind, std::string_view expected) {
  if (peek() != kind) fail(expected);
  descend();
  Container container;
  if (std::exchange(cursor_->at_root, false)) {
    if (cursor_->document.get<Container>().get(container) == simdjson::SUCCESS) return container;
    start(std::string(cursor_->text()), false);
  }
  if (cursor_->value.get<Container>().get(container) != simdjson::SUCCESS) fail(expected);
  cursor_->pending = false;
  return container;
}

void JsonReader::begin_object() {
  auto object = begin<od::object>(Kind::kObject, "an object");
  Cursor::Level level{.is_object = true, .members = {}, .items = {}};
  if (object.begin().get(level.members) != simdjson::SUCCESS) fail("an object");
  cursor_->levels.push_back(level);
}

void JsonReader::begin_array() {
  auto array = begin<od::array>(Kind::kArray, "an array");
  Cursor::Level level;
  if (array.begin().get(level.items) != simdjson::SUCCESS) fail("an array");
  cursor_->levels.push_back(level);
}

void JsonReader::ascend() {
  cursor_->levels.pop_back();
  --depth_;
  cursor_->place = cursor_->before(cursor_->location());
}

bool JsonReader::next_key(std::string_view& key) {
  VEERY_CHECK(!cursor_->pending);
  Cursor::Level& level = cursor_->levels.back();
  if (!std::exchange(level.is_fresh, false)) ++level.members;
  if (!(level.members != level.members)) {
    ascend();
    return false;
  }
  od::field field;
  if ((*level.members).get(field) != simdjson::SUCCESS) fail_in_object();
  cursor_->value = field.value();
  const char* const begin = field.key().raw();
  cursor_->place = cursor_->offset_of(begin - 1);
  key = {begin, static_cast<size_t>(cursor_->end_of_string(begin) - begin)};
  if (key.find('\\') != key.npos &&
      (field.unescaped_key().get(key) != simdjson::SUCCESS || has_surrogate(key)))
    fail("a key with valid escapes");
  cursor_->place = cursor_->offset_of(cursor_->value.raw_json_token().data());
  cursor_->pending = true;
  return true;
}

// simdjson reports the same error for every fault in an object; this distinguishes them.
void JsonReader::fail_in_object() const {
  const size_t at = cursor_->location();
  const char last = cursor_->text()[cursor_->before(at)];
  if (last == '{' || last == ',') fail_at(at, "a key");
  fail_at(at, last == '"' ? "\":\" after a key, \",\" or \"}\" after a value" : "\",\" or \"}\"");
}

bool JsonReader::next_item() {
  VEERY_CHECK(!cursor_->pending);
  Cursor::Level& level = cursor_->levels.back();
  if (!std::exchange(level.is_fresh, false)) ++level.items;
  if (!(level.items != level.items)) {
    ascend();
    return false;
  }
  if ((*level.items).get(cursor_->value) != simdjson::SUCCESS)
    fail_at(cursor_->location(), "\",\" or \"]\"");
  cursor_->place = cursor_->offset_of(cursor_->value.raw_json_token().data());
  cursor_->pending = true;
  return true;
}

std::string_view JsonReader::string() {
  if (peek() != Kind::kString) fail("a string");
  const char* const begin = cursor_->value.raw_json_token().data() + 1;
  std::string_view text(begin, static_cast<size_t>(cursor_->end_of_string(begin) - begin));
  od::raw_json_string raw;  // both calls consume the string
  const bool escapes = text.find('\\') != text.npos;
  const simdjson::error_code error = escapes ? cursor_->value.get_string().get(text)
                                             : cursor_->value.get_raw_json_string().get(raw);
  if (error != simdjson::SUCCESS || (escapes && has_surrogate(text)))
    fail("a string with valid escapes");
  cursor_->pending = false;
  return text;
}

int64_t JsonReader::integer() {
  int64_t value = 0;
  if (peek() != Kind::kNumber || cursor_->value.get_int64().get(value) != simdjson::SUCCESS)
    fail("an integer");
  cursor_->pending = false;
  return value;
}

double JsonReader::number() {
  double value = 0;
  if (peek() != Kind::kNumber || cursor_->value.get_double().get(value) != simdjson::SUCCESS)
    fail("a number");
  cursor_->pending = false;
  return value;
}

bool JsonReader::boolean() {
  bool value = false;
  if (peek() != Kind::kBool || cursor_->value.get_bool().get(value) != simdjson::SUCCESS)
    fail("true or false");
  cursor_->pending = false;
  return value;
}

void JsonReader::null() {
  bool is_null = false;
  if (peek() != Kind::kNull || cursor_->value.is_null().get(is_null) != simdjson::SUCCESS ||
      !is_null)
    fail("null");
  cursor_->pending = false;
}

// Integers that do not fit 64 bits become floating-point numbers.
Json JsonReader::number_value() {
  int64_t whole = 0;
  if (cursor_->value.get_int64().get(whole) == simdjson::SUCCESS) {
    cursor_->pending = false;
    return whole < 0 ? Json(whole) : Json(static_cast<uint64_t>(whole));
  }
  uint64_t large = 0;
  if (cursor_->value.get_uint64().get(large) == simdjson::SUCCESS) {
    cursor_->pending = false;
    return large;
  }
  return number();
}

// If a key appears twice, the last value counts, at the position of the first.
Json JsonReader::object_value(JsonBudget& budget) {
  std::vector<Json::Member> members;
  std::unordered_map<std::string_view, size_t> places;
  begin_object();
  for (std::string_view key; next_key(key);) {
    const auto [place, is_new] = places.emplace(key, members.size());
    Json item = value(budget);
    if (is_new)
      members.push_back({std::string(key), std::move(item)});
    else
      members[place->second].value = std::move(item);
  }
  // Inserting members one by one would search all previous ones each time.
  return Json::object(std::move(members));
}

Json JsonReader::value(JsonBudget& budget) {
  if (++budget.used > budget.most)
    throw Error(ErrorKind::kLimit, "{}: has more than {} values", what_, budget.most);
  switch (peek()) {
    case Kind::kNull: null(); return nullptr;
    case Kind::kBool: return boolean();
    case Kind::kNumber: return number_value();
    case Kind::kString: return std::string(string());
    case Kind::kObject: return object_value(budget);
    case Kind::kArray: break;
  }
  Json array = Json::array();
  begin_array();
  while (next_item()) array.push_back(value(budget));
  return array;
}

Json JsonReader::value() {
  JsonBudget budget;
  return value(budget);
}

void JsonReader::skip() {
  switch (peek()) {
    case Kind::kNull: null(); return;
    case Kind::kBool: boolean(); return;
    case Kind::kNumber: number(); return;
    case Kind::kString: string(); return;
    case Kind::kObject:
      begin_object();
      for (std::string_view key; next_key(key);) skip();
      return;
    case Kind::kArray:
      begin_array();
      while (next_item()) skip();
      return;
  }
}

void JsonReader::finish() {
  VEERY_CHECK(depth_ == 0 && !cursor_->pending && !cursor_->at_root);
  const char* next = nullptr;
  if (cursor_->margin == 0) {
    if (cursor_->document.current_location().get(next) == simdjson::SUCCESS)
      fail_at(cursor_->offset_of(next), "the end");
    return;
  }
  Cursor::Level& root = cursor_->levels.back();
  ++root.items;
  if (root.items != root.items) {
    const bool separated = (*root.items).get(cursor_->value) == simdjson::SUCCESS;
    const size_t at = cursor_->location();
    if (at == cursor_->text().size()) fail_at(at, "\",\" or \"]\"");
    fail_at(separated ? cursor_->before(at) : at, "the end");
  }
  if (cursor_->document.current_location().get(next) == simdjson::SUCCESS)
    fail_at(cursor_->before(cursor_->offset_of(next)), "the end");
}

}  // namespace veery
