#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/folder/safetensors.h"

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
static_assert(in_order(), "one row per type, in the order of the enumeration");

const TypeRow& row_of(StoredType type) { return kTypes[static_cast<size_t>(type)]; }

constexpr size_t kMaxDims = 8;

// A tensor as the header describes it, not yet validated.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Reads the header. Accepts only {name: {dtype, shape, data_offsets}} and {__metadata__: {text:
// text}}, so that memory use is proportional to its length.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file)
      : file_(file), reader_(text, file + ": the header", kDepth) {}

  void read() {
    bool seen_metadata = false;
    reader_.begin_object();
    for (std::string_view name; reader_.next_key(name);) {
      if (name == "__metadata__") {
        if (std::exchange(seen_metadata, true))
          throw Error(ErrorKind::kFormat, "{}: __metadata__ appears twice", file_);
        read_metadata();
        continue;
      }
      if (name.empty()) throw Error(ErrorKind::kFormat, "{}: a tensor's name is empty", file_);
      entries_.emplace_back().name = name;
      read_entry(entries_.back());
    }
    reader_.finish();
  }
  std::vector<Entry> take() { return std::move(entries_); }
  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }

 private:
  using Kind = JsonReader::Kind;
  static constexpr int kDepth = 3;

  [[noreturn]] void unexpected(std::string_view place, std::string_view found,
                               std::string_view expected) const {
    throw Error(ErrorKind::kFormat, "{}: {}: found {}, expected {}", file_, place, found, expected);
  }
  void expect(Kind kind, std::string_view place, std::string_view expected) {
    constexpr std::string_view kFound[] = {"null",     "a bool",   "a number",
                                           "a string", "an array", "an object"};
    if (const Kind found = reader_.peek(); found != kind)
      unexpected(place, kFound[static_cast<size_t>(found)], expected);
  }
  void read_metadata() {
    constexpr std::string_view kPlace = "__metadata__";
    if (reader_.peek() == Kind::kNull) return reader_.null();  // written by mlx
    expect(Kind::kObject, kPlace, "an object");
    reader_.begin_object();
    for (std::string_view key; reader_.next_key(key);) {
      expect(Kind::kString, kPlace, "a string");
      metadata_[std::string(key)] = reader_.string();
    }
  }
  void read_entry(Entry& entry) {
    const std::string label = fmt::format("tensor '{}'", printable(entry.name));
    const auto once = [&](bool& seen, std::string_view field) {
      if (std::exchange(seen, true))
        throw Error(ErrorKind::kFormat, "{}: {} has duplicate field '{}'", file_, label, field);
    };
    expect(Kind::kObject, label, "an object");
    reader_.begin_object();
    for (std::string_view field; reader_.next_key(field);) {
      if (field == "dtype") {
        once(entry.has_dtype, field);
        expect(Kind::kString, label, "a type name");
        entry.dtype = reader_.string();
      } else if (field == "shape") {
        once(entry.has_shape, field);
        read_numbers(entry.shape, kMaxDims, label, field);
      } else if (field == "data_offsets") {
        once(entry.has_offsets, field);
        read_numbers(entry.offsets, 2, label, field);
      } else {
        throw Error(ErrorKind::kFormat, "{}: {} has the unknown field '{}'", file_, label,
                    printable(field));
      }
    }
    const std::pair<bool, const char*> fields[] = {{entry.has_dtype, "dtype"},
                                                   {entry.has_shape, "shape"},
                                                   {entry.has_offsets, "data_offsets"}};
    for (const auto& [seen, field] : fields)
      if (!seen) throw Error(ErrorKind::kFormat, "{}: {}: missing {}", file_, label, field);
  }
  void read_numbers(std::vector<uint64_t>& items, size_t most, const std::string& label,
                    std::string_view field) {
    constexpr std::string_view kWhole = "an integer";
    expect(Kind::kArray, label, "an array");
    reader_.begin_array();
    while (reader_.next_item()) {
      if (items.size() == most)
        throw Error(ErrorKind::kFormat, "{}: {} has a {} of more than {} numbers", file_, label,
                    field, most);
      expect(Kind::kNumber, label, kWhole);
      const Json number = reader_.value();
      if (number.is_number_float()) unexpected(label, "a fraction", kWhole);
      if (!number.is_number_unsigned()) unexpected(label, "a negative number", kWhole);
      items.push_back(number.get<uint64_t>());
    }
  }

  const std::string& file_;
  JsonReader reader_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

StoredType read_type(const Entry& entry, const std::string& file) {
  for (const TypeRow& row : kTypes)
    if (row.name == entry.dtype) return row.type;
  throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' has the unknown type '{}'", file,
              printable(entry.name), printable(entry.dtype));
}

// Checks shape and size of a tensor; overlaps with others are checked later.
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

// Checks that tensors follow one another without gaps up to the end of the file.
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
      throw Error(ErrorKind::kFormat, "{}: gap of {} bytes before tensor '{}'", file, begin - end,
                  printable(tensor.name));
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
  if (length > kSafetensorsHeader.most_bytes)
    throw Error(ErrorKind::kFormat,
                "{}: the header has length {}, expected at most {}: not a safetensors file", file,
                length, kSafetensorsHeader.most_bytes);
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
  HeaderReader reader(header, name);
  reader.read();
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
  SafetensorsFile file =
      mapping->checked([&] { return parse_safetensors(mapping->bytes(), path); });
  file.mapping = std::move(mapping);
  return file;
}

}  // namespace veery
