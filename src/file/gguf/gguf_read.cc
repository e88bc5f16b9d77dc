#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/printable.h"
#include "file/gguf/gguf.h"
#include "file/gguf/gguf_format.h"
#include "file/gguf/q2_groups.h"

namespace veery {
namespace {

using gguf::ValueType;

static_assert(std::endian::native == std::endian::little,
              "GGUF numbers are read without byte swapping");

// ggml types that veery does not support, named for messages.
struct NamedType {
  uint32_t ggml;
  std::string_view name;
};
constexpr NamedType kOtherTypes[] = {
    {16, "iq2_xxs"}, {17, "iq2_xs"}, {18, "iq3_xxs"}, {19, "iq1_s"}, {20, "iq4_nl"},
    {21, "iq3_s"},   {22, "iq2_s"},  {23, "iq4_xs"},  {29, "iq1_m"}, {34, "tq1_0"},
    {35, "tq2_0"},   {39, "mxfp4"},  {40, "nvfp4"},   {41, "q1_0"}};

// Reads forward through the file; errors name the field that is being read.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  const std::string& file() const { return file_; }

  template <typename T, typename What>
  T read(const What& what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  template <typename What>
  std::string_view read_string(const What& what) {
    const auto length = read<uint64_t>(what);
    if (length > remaining())
      throw Error(ErrorKind::kFormat, "{}: {} has length {}, but the file has only {} bytes left",
                  file_, describe(what), length, remaining());
    const char* data = reinterpret_cast<const char*>(bytes_.data() + position_);
    position_ += length;
    return {data, static_cast<size_t>(length)};
  }

  // Reads a count of items of at least `least` bytes each, and checks it against the rest of the
  // file, so that memory for them can be reserved.
  template <typename What>
  uint64_t read_count(uint64_t least, const What& what) {
    const auto count = read<uint64_t>(what);
    if (count > remaining() / least)
      throw Error(ErrorKind::kFormat,
                  "{}: {} is {}, but the {} bytes left in the file hold at most {}", file_,
                  describe(what), count, remaining(), remaining() / least);
    return count;
  }

 private:
  // `what` may be a function, so that a description is only built when an error occurs.
  template <typename What>
  static std::string describe(const What& what) {
    if constexpr (std::is_invocable_v<What>)
      return what();
    else
      return what;
  }

  template <typename What>
  void need(uint64_t size, const What& what) {
    if (remaining() < size)
      throw Error(ErrorKind::kFormat, "{}: cut off: {} at byte {} needs {} bytes, {} are left",
                  file_, describe(what), position_, size, remaining());
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  uint64_t position_ = 0;
};

ValueType read_value_type(Cursor& in, const std::string& key) {
  const auto type =
      in.read<uint32_t>([&] { return fmt::format("type of key '{}'", printable(key)); });
  if (type >= static_cast<uint32_t>(ValueType::kCount))
    throw Error(ErrorKind::kFormat, "{}: key '{}' has the unknown value type {}, expected 0 to {}",
                in.file(), printable(key), type, static_cast<uint32_t>(ValueType::kCount) - 1);
  return static_cast<ValueType>(type);
}

template <typename T, typename To>
std::vector<To> read_numbers(Cursor& in, uint64_t count, const std::string& key) {
  std::vector<To> out(count);
  for (To& value : out) {
    const T number = in.read<T>("array element");
    if constexpr (std::is_same_v<T, uint64_t>)
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        throw Error(ErrorKind::kFormat, "{}: key '{}' has an element {}, expected less than 2^63",
                    in.file(), printable(key), number);
    value = static_cast<To>(number);
  }
  return out;
}

MetaValue read_array(Cursor& in, const std::string& key) {
  const auto what = [&] { return fmt::format("array count of key '{}'", printable(key)); };
  const ValueType type = read_value_type(in, key);
  if (type == ValueType::kArray)
    throw Error(ErrorKind::kUnsupported,
                "{}: key '{}' is an array of arrays, expected a flat array", in.file(),
                printable(key));
  const uint64_t count = in.read_count(gguf::kValueBytes[static_cast<size_t>(type)], what);
  switch (type) {
    case ValueType::kBool:
    case ValueType::kUint8: return read_numbers<uint8_t, int64_t>(in, count, key);
    case ValueType::kInt8: return read_numbers<int8_t, int64_t>(in, count, key);
    case ValueType::kUint16: return read_numbers<uint16_t, int64_t>(in, count, key);
    case ValueType::kInt16: return read_numbers<int16_t, int64_t>(in, count, key);
    case ValueType::kUint32: return read_numbers<uint32_t, int64_t>(in, count, key);
    case ValueType::kInt32: return read_numbers<int32_t, int64_t>(in, count, key);
    case ValueType::kUint64: return read_numbers<uint64_t, int64_t>(in, count, key);
    case ValueType::kInt64: return read_numbers<int64_t, int64_t>(in, count, key);
    case ValueType::kFloat32: return read_numbers<float, double>(in, count, key);
    case ValueType::kFloat64: return read_numbers<double, double>(in, count, key);
    default: break;
  }
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    strings.push_back(
        in.read_string([&] { return fmt::format("string {} of key '{}'", i, printable(key)); }));
  return strings;
}

MetaValue read_value(Cursor& in, const std::string& key) {
  const auto what = [&] { return fmt::format("value of key '{}'", printable(key)); };
  switch (read_value_type(in, key)) {
    case ValueType::kUint8: return int64_t{in.read<uint8_t>(what)};
    case ValueType::kInt8: return int64_t{in.read<int8_t>(what)};
    case ValueType::kUint16: return int64_t{in.read<uint16_t>(what)};
    case ValueType::kInt16: return int64_t{in.read<int16_t>(what)};
    case ValueType::kUint32: return int64_t{in.read<uint32_t>(what)};
    case ValueType::kInt32: return int64_t{in.read<int32_t>(what)};
    case ValueType::kUint64: return in.read<uint64_t>(what);
    case ValueType::kInt64: return in.read<int64_t>(what);
    case ValueType::kFloat32: return double{in.read<float>(what)};
    case ValueType::kFloat64: return in.read<double>(what);
    case ValueType::kString: return std::string(in.read_string(what));
    case ValueType::kBool: {
      const auto byte = in.read<uint8_t>(what);
      if (byte > 1)
        throw Error(ErrorKind::kFormat, "{}: key '{}' is a bool of value {}, expected 0 or 1",
                    in.file(), printable(key), byte);
      return byte == 1;
    }
    default: return read_array(in, key);
  }
}

void read_metadata(Cursor& in, uint64_t count, Metadata& metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view name =
        in.read_string([&] { return fmt::format("key {} of {}", i + 1, count); });
    if (name.empty() || name.size() > gguf::kMaxNameBytes)
      throw Error(ErrorKind::kFormat, "{}: key {} has length {}, expected 1 to {}", in.file(),
                  i + 1, name.size(), gguf::kMaxNameBytes);
    const std::string key(name);
    if (metadata.find(key) != nullptr)
      throw Error(ErrorKind::kFormat, "{}: key '{}' appears twice", in.file(), printable(key));
    metadata.set(key, read_value(in, key));
  }
}

uint64_t read_version(Cursor& in) {
  const auto version = in.read<uint32_t>("version");
  if (version != 0 && (version & 0xFFFFU) == 0)
    throw Error(ErrorKind::kUnsupported,
                "{}: version is {} when read as little endian; big-endian files are not supported",
                in.file(), version);
  if (version < gguf::kOldestVersion || version > gguf::kNewestVersion)
    throw Error(ErrorKind::kFormat, "{}: version is {}, expected {} to {}", in.file(), version,
                gguf::kOldestVersion, gguf::kNewestVersion);
  return version;
}

void check_magic(Cursor& in) {
  if (in.remaining() == 0)
    throw Error(ErrorKind::kFormat, "{}: the file is empty, expected a GGUF file", in.file());
  char magic[4] = {};
  for (char& c : magic) c = in.read<char>("magic");
  const std::string_view found(magic, sizeof magic);
  if (found != gguf::kMagic)
    throw Error(ErrorKind::kFormat, "{}: magic is '{}', expected '{}': not a GGUF file", in.file(),
                printable(found), gguf::kMagic);
}

// The description of a tensor, before its position in the file is checked.
struct Entry {
  TensorView view;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int64_t block = 1, block_bytes = 0;  // of the stored type
  bool is_q2 = false;
  std::string label;  // for messages
};

void read_type(Cursor& in, Entry& entry) {
  const std::string& label = entry.label;
  const auto number = in.read<uint32_t>([&] { return "type of " + label; });
  if (number == gguf::kQ2Number) {
    entry.is_q2 = true;
    entry.view.dtype = gguf::q2_group_type();
    entry.block = gguf::kQ2Elements;
    entry.block_bytes = gguf::kQ2Bytes;
    return;
  }
  if (const auto type = dtype_from_ggml(number)) {
    entry.view.dtype = *type;
    entry.block = info(*type).block;
    entry.block_bytes = info(*type).bytes;
    return;
  }
  for (const NamedType& other : kOtherTypes)
    if (other.ggml == number)
      throw Error(ErrorKind::kUnsupported, "{}: {} has type {} ({}), which is not supported",
                  in.file(), label, number, other.name);
  throw Error(ErrorKind::kFormat, "{}: {} has the unknown type {}", in.file(), label, number);
}

std::vector<int64_t> read_shape(Cursor& in, const std::string& label) {
  const auto dims = in.read<uint32_t>([&] { return "number of dimensions of " + label; });
  if (dims < 1 || dims > gguf::kMaxDims)
    throw Error(ErrorKind::kFormat, "{}: {} has {} dimensions, expected 1 to {}", in.file(), label,
                dims, gguf::kMaxDims);
  std::vector<int64_t> shape(dims);
  int64_t product = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    const auto size = in.read<int64_t>([&] { return "dimensions of " + label; });
    if (size < 1)
      throw Error(ErrorKind::kFormat, "{}: {} has dimension {} of size {}, expected 1 or more",
                  in.file(), label, i, size);
    if (__builtin_mul_overflow(product, size, &product))
      throw Error(ErrorKind::kFormat, "{}: {} has more elements than 63 bits can count", in.file(),
                  label);
    shape[dims - 1 - i] = size;  // files store the fastest dimension first
  }
  return shape;
}

Entry read_entry(Cursor& in, uint64_t index) {
  Entry entry;
  const std::string_view name =
      in.read_string([&] { return fmt::format("name of tensor {}", index + 1); });
  if (name.empty() || name.size() > gguf::kMaxNameBytes)
    throw Error(ErrorKind::kFormat, "{}: tensor {} has a name of length {}, expected 1 to {}",
                in.file(), index + 1, name.size(), gguf::kMaxNameBytes);
  entry.label = fmt::format("tensor '{}'", printable(name));
  entry.view.name = name;
  entry.view.shape = read_shape(in, entry.label);
  read_type(in, entry);
  entry.offset = in.read<uint64_t>([&] { return "offset of " + entry.label; });
  const int64_t row = entry.view.shape.back();
  if (row % entry.block != 0)
    throw Error(ErrorKind::kFormat,
                "{}: {} has rows of {} elements, expected a multiple of {} for {}", in.file(),
                entry.label, row, entry.block, entry.is_q2 ? "q2_0" : info(entry.view.dtype).name);
  const auto blocks = static_cast<uint64_t>(entry.view.elements() / entry.block);
  if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(entry.block_bytes), &entry.bytes))
    throw Error(ErrorKind::kFormat, "{}: {} has more bytes than 64 bits can count", in.file(),
                entry.label);
  return entry;
}

void check_names(const std::vector<Entry>& entries, const std::string& file) {
  std::vector<const Entry*> sorted(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) sorted[i] = &entries[i];
  std::ranges::sort(sorted, {}, [](const Entry* e) -> const std::string& { return e->view.name; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->view.name == sorted[i - 1]->view.name)
      throw Error(ErrorKind::kFormat, "{}: {} appears twice", file, sorted[i]->label);
}

// Resolves the data of each tensor in `data`, the part of the file after the aligned header.
void place(std::vector<Entry>& entries, std::span<const std::byte> data, uint64_t alignment,
           const std::string& file) {
  std::vector<const Entry*> sorted;
  sorted.reserve(entries.size());
  for (Entry& entry : entries) {
    if (entry.offset % alignment != 0)
      throw Error(ErrorKind::kFormat, "{}: {} has offset {}, expected a multiple of {}", file,
                  entry.label, entry.offset, alignment);
    if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
      throw Error(ErrorKind::kFormat,
                  "{}: cut off: {} needs {} bytes at offset {}, the file has {} bytes of data",
                  file, entry.label, entry.bytes, entry.offset, data.size());
    entry.view.data = data.subspan(entry.offset, entry.bytes);
    sorted.push_back(&entry);
  }
  std::ranges::sort(sorted, {}, [](const Entry* e) { return e->offset; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const uint64_t end = sorted[i - 1]->offset + sorted[i - 1]->bytes;
    if (sorted[i]->offset < end)
      throw Error(ErrorKind::kFormat, "{}: {} at offset {} overlaps {}, which ends at {}", file,
                  sorted[i]->label, sorted[i]->offset, sorted[i - 1]->label, end);
  }
}

}  // namespace

uint64_t gguf::alignment_of(const Metadata& metadata, const std::string& file) {
  const MetaValue* value = metadata.find(gguf::kAlignmentKey);
  if (value == nullptr) return gguf::kDefaultAlignment;
  constexpr uint64_t kLargest = 1U << 30;
  const auto* number = std::get_if<int64_t>(value);
  if (number == nullptr || *number <= 0 || static_cast<uint64_t>(*number) > kLargest ||
      !std::has_single_bit(static_cast<uint64_t>(*number)))
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected a power of two up to {}", file,
                gguf::kAlignmentKey, number == nullptr ? "not a number" : std::to_string(*number),
                kLargest);
  return static_cast<uint64_t>(*number);
}

ModelFile gguf::parse_part(std::span<const std::byte> bytes, const std::string& name) {
  ModelFile model;
  model.path = name;
  Cursor in(bytes, name);
  check_magic(in);
  read_version(in);
  const uint64_t tensors = in.read_count(gguf::kLeastTensorBytes, "tensor count");
  const uint64_t keys = in.read_count(gguf::kLeastEntryBytes, "key count");
  read_metadata(in, keys, model.metadata);
  const uint64_t alignment = gguf::alignment_of(model.metadata, name);

  std::vector<Entry> entries;
  for (uint64_t i = 0; i < tensors; ++i) entries.push_back(read_entry(in, i));
  check_names(entries, name);
  if (!entries.empty()) {
    const uint64_t start = (in.position() + alignment - 1) / alignment * alignment;
    if (start > bytes.size())
      throw Error(ErrorKind::kFormat, "{}: cut off: data starts at byte {}, the file ends at {}",
                  name, start, bytes.size());
    place(entries, bytes.subspan(start), alignment, name);
  }
  model.tensors.reserve(entries.size());
  for (Entry& entry : entries)
    model.tensors.push_back(entry.is_q2 ? gguf::q2_groups(std::move(entry.view))
                                        : std::move(entry.view));
  return model;
}

}  // namespace veery
