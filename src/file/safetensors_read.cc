#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "file/safetensors.h"

namespace veery {
namespace {

struct TypeRow {
  StoredType type;
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<TypeRow, static_cast<size_t>(StoredType::kCount)> kTypes{{
    {StoredType::kBool, "BOOL", 1, std::nullopt},
    {StoredType::kU8, "U8", 1, std::nullopt},
    {StoredType::kI8, "I8", 1, DType::kI8},
    {StoredType::kF8_E4M3, "F8_E4M3", 1, std::nullopt},
    {StoredType::kF8_E5M2, "F8_E5M2", 1, std::nullopt},
    {StoredType::kF8_E8M0, "F8_E8M0", 1, std::nullopt},
    {StoredType::kU16, "U16", 2, std::nullopt},
    {StoredType::kI16, "I16", 2, DType::kI16},
    {StoredType::kF16, "F16", 2, DType::kF16},
    {StoredType::kBF16, "BF16", 2, DType::kBF16},
    {StoredType::kU32, "U32", 4, std::nullopt},
    {StoredType::kI32, "I32", 4, DType::kI32},
    {StoredType::kF32, "F32", 4, DType::kF32},
    {StoredType::kU64, "U64", 8, std::nullopt},
    {StoredType::kI64, "I64", 8, DType::kI64},
    {StoredType::kF64, "F64", 8, DType::kF64},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (static_cast<size_t>(kTypes[i].type) != i || kTypes[i].name.empty()) return false;
  return true;
}
static_assert(in_order(), "one row a type, in the order of the enumeration");

const TypeRow& row_of(StoredType type) { return kTypes[static_cast<size_t>(type)]; }

constexpr size_t kMaxDims = 8;

// One tensor as the header describes it, before it is believed.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Takes the header's events. Only {name: {dtype, shape, data_offsets}} and {__metadata__: {text:
// text}} get through, so memory stays in proportion to the header's length.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<Entry> take() { return std::move(entries_); }
  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }

  bool start_object(size_t) override {
    if (state_ == State::kStart) return enter(State::kTop);
    if (state_ == State::kEntryValue) return enter(State::kEntry);
    if (state_ == State::kMetadataValue) return enter(State::kMetadata);
    unexpected("an object");
  }
  bool end_object() override {
    if (state_ == State::kMetadata) return enter(State::kTop);
    if (state_ == State::kTop) return enter(State::kEnd);
    const Entry& entry = entries_.back();
    if (!entry.has_dtype) missing("dtype");
    if (!entry.has_shape) missing("shape");
    if (!entry.has_offsets) missing("data_offsets");
    return enter(State::kTop);
  }
  bool key(string_t& text) override {
    switch (state_) {
      case State::kTop:
        if (text == "__metadata__") {
          if (seen_metadata_)
            throw Error(ErrorKind::kFormat, "{}: __metadata__ appears twice", file_);
          seen_metadata_ = true;
          return enter(State::kMetadataValue);
        }
        if (text.empty()) throw Error(ErrorKind::kFormat, "{}: a tensor's name is empty", file_);
        entries_.emplace_back().name = std::move(text);
        return enter(State::kEntryValue);
      case State::kEntry: return entry_key(text);
      default: metadata_key_ = std::move(text); return enter(State::kMetadataText);
    }
  }
  bool string(string_t& text) override {
    if (state_ == State::kDtype) {
      entries_.back().dtype = std::move(text);
      return enter(State::kEntry);
    }
    if (state_ == State::kMetadataText) {
      metadata_[std::move(metadata_key_)] = std::move(text);
      return enter(State::kMetadata);
    }
    unexpected("a text");
  }
  bool start_array(size_t) override {
    if (state_ == State::kShape) return enter(State::kShapeItems);
    if (state_ == State::kOffsets) return enter(State::kOffsetItems);
    unexpected("an array");
  }
  bool end_array() override { return enter(State::kEntry); }
  bool number_unsigned(number_unsigned_t value) override {
    std::vector<uint64_t>* items = state_ == State::kShapeItems    ? &entries_.back().shape
                                   : state_ == State::kOffsetItems ? &entries_.back().offsets
                                                                   : nullptr;
    if (items == nullptr) unexpected("a number");
    const size_t most = state_ == State::kShapeItems ? kMaxDims : 2;
    if (items->size() == most)
      throw Error(ErrorKind::kFormat, "{}: {} has a {} of more than {} numbers", file_, label(),
                  state_ == State::kShapeItems ? "shape" : "data_offsets", most);
    items->push_back(value);
    return true;
  }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }
  bool null() override {
    if (state_ == State::kMetadataValue) return enter(State::kTop);  // mlx writes it
    unexpected("null");
  }
  bool boolean(bool) override { unexpected("a bool"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    throw Error(ErrorKind::kFormat, "{}: the header is no valid JSON at byte {} of it", file_,
                position);
  }

 private:
  enum class State : uint8_t {
    kStart,
    kTop,
    kEntryValue,
    kEntry,
    kDtype,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kMetadataValue,
    kMetadata,
    kMetadataText,
    kEnd
  };

  bool enter(State state) {
    state_ = state;
    return true;
  }
  bool entry_key(const std::string& text) {
    Entry& entry = entries_.back();
    const auto once = [&](bool& seen, State state) {
      if (seen) throw Error(ErrorKind::kFormat, "{}: {} has '{}' twice", file_, label(), text);
      seen = true;
      return enter(state);
    };
    if (text == "dtype") return once(entry.has_dtype, State::kDtype);
    if (text == "shape") return once(entry.has_shape, State::kShape);
    if (text == "data_offsets") return once(entry.has_offsets, State::kOffsets);
    throw Error(ErrorKind::kFormat, "{}: {} has the unknown field '{}'", file_, label(),
                printable(text));
  }
  std::string label() const {
    if (entries_.empty()) return "the header";
    return fmt::format("tensor '{}'", printable(entries_.back().name));
  }
  [[noreturn]] void missing(const char* field) const {
    throw Error(ErrorKind::kFormat, "{}: {} has no {}", file_, label(), field);
  }
  [[noreturn]] void unexpected(const char* found) const {
    std::string place = label();
    const char* expected = "an object";
    switch (state_) {
      case State::kDtype: expected = "the name of a type"; break;
      case State::kShape:
      case State::kOffsets: expected = "an array"; break;
      case State::kShapeItems:
      case State::kOffsetItems: expected = "a whole number"; break;
      case State::kMetadataText: expected = "a text"; [[fallthrough]];
      case State::kMetadataValue: place = "__metadata__"; break;
      case State::kStart: place = "the header"; break;
      default: break;
    }
    throw Error(ErrorKind::kFormat, "{}: {} has {} where {} is expected", file_, place, found,
                expected);
  }

  const std::string& file_;
  State state_ = State::kStart;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::string metadata_key_;
  bool seen_metadata_ = false;
};

StoredType read_type(const Entry& entry, const std::string& file) {
  for (const TypeRow& row : kTypes)
    if (row.name == entry.dtype) return row.type;
  throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' has the unknown type '{}'", file,
              printable(entry.name), printable(entry.dtype));
}

// Shape and bytes of one tensor; its place is not yet compared with the others'.
StoredTensor check(const Entry& entry, std::span<const std::byte> data, const std::string& file) {
  StoredTensor tensor{entry.name, read_type(entry, file), {}, {}};
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' {}", file, printable(entry.name), what);
  };
  int64_t bytes = byte_size(tensor.type);
  bool overflow = false;
  for (const uint64_t size : entry.shape) {
    overflow |= size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    overflow |= __builtin_mul_overflow(bytes, static_cast<int64_t>(size), &bytes);
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  if (overflow) fail("has more bytes than 63 bits can count");
  if (entry.offsets.size() != 2)
    fail(fmt::format("has {} data_offsets, expected 2", entry.offsets.size()));
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end) fail(fmt::format("begins at byte {} and ends at byte {}", begin, end));
  if (end - begin != static_cast<uint64_t>(bytes))
    fail(fmt::format("has {} bytes, its shape and type {} need {}", end - begin, entry.dtype,
                     bytes));
  if (end > data.size())
    fail(fmt::format("ends at byte {}, the file has {} bytes of data", end, data.size()));
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

void check_names(std::vector<std::string_view> names, const std::string& file) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' appears twice", file, printable(*twice));
}

// Tensors follow one another without gaps up to the end of the file.
void check_places(const std::vector<StoredTensor>& tensors, std::span<const std::byte> data,
                  const std::string& file) {
  uint64_t end = 0;
  const StoredTensor* last = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const auto begin = static_cast<uint64_t>(tensor.data.data() - data.data());
    if (begin < end)
      throw Error(ErrorKind::kFormat, "{}: tensor '{}' at byte {} overlaps '{}', which ends at {}",
                  file, printable(tensor.name), begin, printable(last->name), end);
    if (begin > end)
      throw Error(ErrorKind::kFormat, "{}: nothing describes the {} bytes before tensor '{}'", file,
                  begin - end, printable(tensor.name));
    end = begin + tensor.data.size();
    last = &tensor;
  }
  if (end != data.size())
    throw Error(ErrorKind::kFormat, "{}: the tensors end at byte {}, the file has {} bytes of data",
                file, end, data.size());
}

std::string_view header_of(std::span<const std::byte> bytes, const std::string& file) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    throw Error(ErrorKind::kFormat, "{}: cut off: has {} bytes, expected a safetensors file", file,
                bytes.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxSafetensorsHeader)
    throw Error(ErrorKind::kFormat,
                "{}: the header has length {}, expected at most {}: not a safetensors file", file,
                length, kMaxSafetensorsHeader);
  if (length > bytes.size() - sizeof length)
    throw Error(ErrorKind::kFormat, "{}: cut off: the header has length {}, {} bytes are left",
                file, length, bytes.size() - sizeof length);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  if (!text.starts_with('{'))
    throw Error(ErrorKind::kFormat, "{}: the header begins with '{}', expected '{{'", file,
                printable(text.substr(0, 1)));
  return text;
}

}  // namespace

std::string_view name(StoredType type) { return row_of(type).name; }
int64_t byte_size(StoredType type) { return row_of(type).bytes; }
std::optional<DType> to_dtype(StoredType type) { return row_of(type).dtype; }

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view header = header_of(bytes, name);
  const std::span<const std::byte> data = bytes.subspan(sizeof(uint64_t) + header.size());
  HeaderReader reader(name);
  Json::sax_parse(header, &reader);
  SafetensorsFile file{name, {}, reader.take_metadata(), nullptr};
  const std::vector<Entry> entries = reader.take();
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  check_names(std::move(names), name);
  file.tensors.reserve(entries.size());
  for (const Entry& entry : entries) file.tensors.push_back(check(entry, data, name));
  std::ranges::sort(file.tensors, {}, [](const StoredTensor& t) {
    return std::pair(t.data.data(), t.data.data() + t.data.size());
  });
  check_places(file.tensors, data, name);
  return file;
}

SafetensorsFile open_safetensors(const std::string& path) {
  auto mapping = std::make_shared<MappedFile>(path);
  SafetensorsFile file = parse_safetensors(mapping->bytes(), path);
  file.mapping = std::move(mapping);
  return file;
}

}  // namespace veery
