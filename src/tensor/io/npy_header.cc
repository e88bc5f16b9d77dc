#include "tensor/io/npy_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "kernels/tensor/element_program.h"
#include "tensor/io/stored.h"

namespace veery::tensor {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::array<std::pair<std::string_view, Dtype>, 9> kTypes{{
    {"|b1", Dtype::kBool},
    {"|u1", Dtype::kU8},
    {"|i1", Dtype::kI8},
    {"<i4", Dtype::kI32},
    {"<u4", Dtype::kU32},
    {"<i8", Dtype::kI64},
    {"<f2", Dtype::kF16},
    {"<f4", Dtype::kF32},
    {"<f8", Dtype::kF64},
}};

// Reads the header's text, a dictionary in the syntax of Python: {'descr': '<f4', 'fortran_order':
// False, 'shape': (2, 3), }.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& file) : left_(text), file_(file) {}

  NpyHeader read() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = string("a key");
      expect(':');
      if (key == "descr") {
        set(descr_, key, descr());
      } else if (key == "fortran_order") {
        set(fortran_, key, boolean());
      } else if (key == "shape") {
        set(shape_, key, tuple());
      } else {
        throw FileError(FileErrorKind::kFormat, "{}: the header has the unknown key '{}'", file_,
                        printable(key));
      }
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (!left_.empty()) unexpected("the end of the header");
    if (!descr_ || !fortran_ || !shape_)
      throw FileError(FileErrorKind::kFormat, "{}: the header lacks '{}'", file_,
                      !descr_     ? "descr"
                      : !fortran_ ? "fortran_order"
                                  : "shape");
    NpyHeader header;
    header.fortran = *fortran_;
    header.shape = *shape_;
    set_type(header);
    return header;
  }

 private:
  [[noreturn]] void unexpected(std::string_view expected) const {
    throw FileError(FileErrorKind::kFormat, "{}: the header has '{}', expected {}", file_,
                    printable(left_.substr(0, 40)), expected);
  }
  template <typename T>
  void set(std::optional<T>& field, std::string_view key, T value) {
    if (field) throw FileError(FileErrorKind::kFormat, "{}: the header has '{}' twice", file_, key);
    field = std::move(value);
  }
  void skip_space() {
    left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
  }
  bool take(char c) {
    skip_space();
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) unexpected(std::string{'\'', c, '\''});
  }
  std::string_view string(std::string_view expected) {
    skip_space();
    if (!left_.starts_with('\'') && !left_.starts_with('"')) unexpected(expected);
    const size_t end = left_.find(left_.front(), 1);
    if (end == std::string_view::npos) unexpected("the end of a string");
    const std::string_view text = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return text;
  }
  std::string_view descr() {
    skip_space();
    if (left_.starts_with('[') || left_.starts_with('('))
      throw FileError(FileErrorKind::kUnsupported,
                      "{}: elements with fields ('{}'), expected numbers or bools", file_,
                      printable(left_.substr(0, 40)));
    return string("a type");
  }
  bool boolean() {
    skip_space();
    for (const auto& [text, value] : {std::pair{"True", true}, {"False", false}})
      if (left_.starts_with(text)) {
        left_.remove_prefix(std::string_view(text).size());
        return value;
      }
    unexpected("True or False");
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    bool comma = true;
    while (!take(')')) {
      if (!comma) unexpected("',' or ')'");
      if (shape.size() == kMaxTensorRank)
        throw FileError(FileErrorKind::kUnsupported, "{}: more than {} dimensions", file_,
                        kMaxTensorRank);
      shape.push_back(number());
      comma = take(',');
    }
    if (shape.size() == 1 && !comma) unexpected("a tuple, with ',' after its number");
    return shape;
  }
  int64_t number() {
    skip_space();
    int64_t value = 0;
    size_t digits = 0;
    for (; digits < left_.size() && left_[digits] >= '0' && left_[digits] <= '9'; ++digits)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, left_[digits] - '0', &value))
        unexpected("a number of 63 bits");
    if (digits == 0) unexpected("a number");
    left_.remove_prefix(digits);
    if (left_.starts_with('L')) left_.remove_prefix(1);  // written by Python 2
    return value;
  }
  void set_type(NpyHeader& header) const {
    std::string_view type = *descr_;
    char order = '<';
    if (!type.empty() && std::string_view("<>|=").find(type.front()) != std::string_view::npos) {
      order = type.front();
      type.remove_prefix(1);
    }
    for (const auto& [name, dtype] : kTypes) {
      if (name.substr(1) != type || (order == '|' && byte_size(dtype) > 1)) continue;
      header.dtype = dtype;
      header.swapped = order == '>' && byte_size(dtype) > 1;
      return;
    }
    throw FileError(FileErrorKind::kUnsupported,
                    "{}: the type '{}', expected b1, u1, i1, i4, u4, i8, f2, f4 or f8", file_,
                    printable(*descr_));
  }

  std::string_view left_;
  const std::string& file_;
  std::optional<std::string_view> descr_;
  std::optional<bool> fortran_;
  std::optional<Shape> shape_;
};

// Returns the text of the header; sets the number of bytes before the data.
std::string_view header_text(std::string_view head, uint64_t size, const std::string& file,
                             size_t& data_at) {
  if (!head.starts_with(kMagic) || head.size() < 10)
    throw FileError(FileErrorKind::kFormat,
                    "{}: begins with '{}' and has {} bytes, expected a .npy array", file,
                    printable(head.substr(0, kMagic.size())), size);
  const auto byte = [&](size_t at) {
    return static_cast<uint64_t>(static_cast<uint8_t>(head[at]));
  };
  const uint64_t version = byte(6), minor = byte(7);
  if (version < 1 || version > 3 || minor != 0)
    throw FileError(FileErrorKind::kUnsupported,
                    "{}: version {}.{} of .npy, expected 1.0, 2.0 or 3.0", file, version, minor);
  const size_t before = version == 1 ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1 && head.size() >= before) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMostNpyHeader - before)
    throw FileError(FileErrorKind::kUnsupported, "{}: a header of {} bytes, expected at most {}",
                    file, length, kMostNpyHeader - before);
  if (head.size() < before + length)
    throw FileError(FileErrorKind::kFormat, "{}: cut off: a header of {} bytes in {} bytes", file,
                    length, size);
  data_at = before + length;
  return head.substr(before, length);
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> head, uint64_t size,
                           const std::string& file) {
  size_t data_at = 0;
  const std::string_view text =
      header_text({reinterpret_cast<const char*>(head.data()), head.size()}, size, file, data_at);
  NpyHeader header = HeaderText(text, file).read();
  header.data_at = data_at;
  if (!is_valid(header.shape))
    throw FileError(FileErrorKind::kFormat, "{}: shape {} has more bytes than 63 bits can count",
                    file, tensor::text(header.shape));
  const size_t bytes = header.data_bytes();
  if (bytes != size - data_at)
    throw FileError(FileErrorKind::kFormat,
                    "{}: {} bytes of data, the shape {} and the type {} need {}", file,
                    size - data_at, tensor::text(header.shape), name(header.dtype), bytes);
  return header;
}

std::string_view npy_type(Dtype type) {
  for (const auto& [name, dtype] : kTypes)
    if (dtype == type) return name;
  return "";
}

}  // namespace veery::tensor
