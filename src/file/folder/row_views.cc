// Implements tensors that are views of rows of other tensors.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "dtype/affine.h"
#include "dtype/blocks.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

// The units of a stored or computed tensor: rows of a matrix, elements of a vector.
class Units {
 public:
  explicit Units(TensorView tensor)
      : tensor_(std::move(tensor)), bytes_(byte_size(tensor_.dtype, is_matrix() ? columns() : 1)) {}
  bool is_matrix() const { return tensor_.shape.size() > 1; }
  int64_t columns() const { return tensor_.shape.back(); }
  int64_t count() const { return is_matrix() ? tensor_.elements() / columns() : columns(); }
  size_t bytes() const { return bytes_; }  // bytes of one unit
  void read(int64_t first, int64_t last, std::byte* out) const {
    if (is_matrix()) return read_rows(tensor_, first, last, out);
    std::vector<std::byte> buffer;
    std::memcpy(out, tensor_.read(buffer).data() + static_cast<size_t>(first) * bytes_,
                static_cast<size_t>(last - first) * bytes_);
  }
  const TensorView& tensor() const { return tensor_; }

 private:
  TensorView tensor_;
  size_t bytes_;
};

class Paired final : public RowSource {
 public:
  Paired(Units units, int64_t head_dim, int64_t dims)
      : units_(std::move(units)), head_dim_(head_dim), dims_(dims) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    if (!units_.is_matrix()) last = units_.count();
    for (int64_t unit = first; unit < last; ++unit, out += units_.bytes()) {
      const int64_t within = unit % head_dim_;
      const int64_t from =
          within < dims_ ? unit - within + within / 2 + within % 2 * (dims_ / 2) : unit;
      units_.read(from, from + 1, out);
    }
  }

 private:
  Units units_;
  int64_t head_dim_, dims_;
};

class Joined final : public RowSource {
 public:
  explicit Joined(std::vector<Units> parts) : parts_(std::move(parts)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    if (!parts_[0].is_matrix()) last = INT64_MAX;
    int64_t begin = 0;
    for (const Units& part : parts_) {
      const int64_t end = begin + part.count();
      const int64_t from = std::max(first, begin);
      const int64_t to = std::min(last, end);
      if (from < to) {
        part.read(from - begin, to - begin, out);
        out += static_cast<size_t>(to - from) * part.bytes();
      }
      begin = end;
    }
  }

 private:
  std::vector<Units> parts_;
};

class Picked final : public RowSource {
 public:
  Picked(const TensorView& whole, int64_t count, const RowPick& pick)
      : whole_(whole), count_(count), pick_(pick) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const size_t row = byte_size(whole_.dtype, whole_.shape.back());
    for (int64_t r = first; r < last;) {
      const int64_t at = r / count_ * pick_.period + pick_.begin + r % count_ * pick_.step;
      const int64_t run = pick_.step == 1 ? std::min(last - r, count_ - r % count_) : 1;
      read_rows(whole_, at, at + run, out);
      out += static_cast<size_t>(run) * row;
      r += run;
    }
  }

 private:
  TensorView whole_;
  int64_t count_;  // rows taken from each period
  RowPick pick_;
};

class Stacked final : public RowSource {
 public:
  explicit Stacked(std::vector<TensorView> parts)
      : parts_(std::move(parts)),
        height_(parts_[0].elements() / parts_[0].shape.back()),
        row_(byte_size(parts_[0].dtype, parts_[0].shape.back())) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t r = first; r < last;) {
      const int64_t in_part = r % height_;
      const int64_t run = std::min(last - r, height_ - in_part);
      read_rows(parts_[static_cast<size_t>(r / height_)], in_part, in_part + run, out);
      out += static_cast<size_t>(run) * row_;
      r += run;
    }
  }

 private:
  std::vector<TensorView> parts_;
  int64_t height_;
  size_t row_;
};

class Decoded final : public RowSource {
 public:
  explicit Decoded(const TensorView& from) : from_(from) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const int64_t count = (last - first) * from_.shape.back();
    std::vector<std::byte> bytes(byte_size(from_.dtype, count));
    read_rows(from_, first, last, bytes.data());
    decode(from_.dtype, bytes, {reinterpret_cast<float*>(out), static_cast<size_t>(count)});
  }

 private:
  TensorView from_;
};

// Converts affine groups to blocks of 32 with f16 scales.
template <typename Block>
class Regrouped final : public RowSource {
 public:
  explicit Regrouped(const TensorView& from) : from_(from) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const AffineFormat format = affine_format(from_.dtype);
    std::vector<std::byte> bytes(byte_size(from_.dtype, (last - first) * from_.shape.back()));
    read_rows(from_, first, last, bytes.data());
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(format.bytes())) {
      const auto* group = reinterpret_cast<const uint8_t*>(bytes.data() + at);
      const uint8_t* stream = group + format.codes_at();
      for (int k = 0; k < format.group; k += 32, stream += 4 * format.bits, out += sizeof(Block)) {
        Block block = {};
        uint8_t codes[32];
        unpack_codes(format.bits, stream, 32, codes);
        block.d = f32_to_f16(affine_scale(format.scale, group));
        block.m = f32_to_f16(affine_scale(format.scale, group + format.scale_bytes()));
        for (size_t i = 0; i < 16; ++i)
          block.qs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
        if constexpr (requires { block.qh; })
          for (size_t i = 0; i < 32; ++i)
            block.qh[i / 8] |= static_cast<uint8_t>((codes[i] >> 4 & 1) << (i % 8));
        std::memcpy(out, &block, sizeof block);
      }
    }
  }

 private:
  TensorView from_;
};

// Returns whether all scales and biases are exact in f16.
bool has_f16_scales(const TensorView& tensor) {
  const AffineFormat format = affine_format(tensor.dtype);
  if (format.scale == DType::kF16) return true;
  const auto is_f16 = [&](const std::byte* at) {
    const float value = affine_scale(format.scale, at);
    return f16_to_f32(f32_to_f16(value)) == value;
  };
  constexpr int64_t kTogether = 64;
  const int64_t rows = tensor.elements() / tensor.shape.back();
  std::vector<std::byte> bytes(byte_size(tensor.dtype, kTogether * tensor.shape.back()));
  for (int64_t row = 0; row < rows; row += kTogether) {
    const int64_t last = std::min(rows, row + kTogether);
    read_rows(tensor, row, last, bytes.data());
    const size_t end = byte_size(tensor.dtype, (last - row) * tensor.shape.back());
    for (size_t at = 0; at < end; at += static_cast<size_t>(format.bytes()))
      if (!is_f16(bytes.data() + at) || !is_f16(bytes.data() + at + format.scale_bytes()))
        return false;
  }
  return true;
}

class Transposed final : public RowSource {
 public:
  explicit Transposed(const TensorView& from)
      : from_(from), a_(from.shape[from.shape.size() - 2]), b_(from.shape.back()) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const size_t size = byte_size(from_.dtype, 1);
    std::vector<std::byte> buffer;
    int64_t loaded = -1;
    for (int64_t r = first; r < last; ++r) {
      const int64_t matrix = r / b_;
      if (matrix != loaded && from_.source) {
        buffer.resize(static_cast<size_t>(a_ * b_) * size);
        from_.source->read(matrix * a_, (matrix + 1) * a_, buffer.data());
      }
      loaded = matrix;
      const std::byte* base =
          from_.source ? buffer.data()
                       : from_.data.data() + static_cast<size_t>(matrix * a_ * b_) * size;
      for (int64_t i = 0; i < a_; ++i, out += size)
        std::memcpy(out, base + static_cast<size_t>(i * b_ + r % b_) * size, size);
    }
  }

 private:
  TensorView from_;
  int64_t a_, b_;
};

}  // namespace

void read_rows(const TensorView& tensor, int64_t first, int64_t last, std::byte* out) {
  if (tensor.source) return tensor.source->read(first, last, out);
  const size_t row = byte_size(tensor.dtype, tensor.columns());
  std::memcpy(out, tensor.data.data() + static_cast<size_t>(first) * row,
              static_cast<size_t>(last - first) * row);
}

TensorView pick_rows(const TensorView& tensor, std::string name, std::vector<int64_t> shape,
                     const RowPick& pick) {
  TensorView view{std::move(name), tensor.dtype, std::move(shape), {}};
  const int64_t periods = tensor.elements() / tensor.shape.back() / pick.period;
  const int64_t rows = view.elements() / view.shape.back();
  VEERY_CHECK(periods > 0 && rows % periods == 0 && view.shape.back() == tensor.shape.back());
  view.source = std::make_shared<Picked>(tensor, rows / periods, pick);
  return view;
}

TensorView paired_rows(const TensorView& tensor, int64_t head_dim, int64_t dims) {
  Units units(tensor);
  if (units.count() % head_dim != 0)
    throw Error(ErrorKind::kFormat, "tensor '{}' has {} rows, expected a multiple of {}",
                printable(tensor.name), units.count(), head_dim);
  TensorView view{tensor.name, tensor.dtype, tensor.shape, {}};
  view.source = std::make_shared<Paired>(std::move(units), head_dim, dims);
  return view;
}

TensorView join_rows(std::vector<TensorView> parts, std::string name) {
  const TensorView& first = parts.at(0);
  TensorView view{std::move(name), first.dtype, first.shape, {}};
  view.shape[0] = 0;
  std::vector<Units> units;
  for (TensorView& part : parts) {
    if (part.dtype != view.dtype || part.shape.size() != view.shape.size() ||
        !std::ranges::equal(std::span(part.shape).subspan(1), std::span(view.shape).subspan(1)))
      throw Error(ErrorKind::kFormat, "tensor '{}' has another type or width than '{}'",
                  printable(part.name), printable(parts.front().name));
    view.shape[0] += part.shape[0];
    units.emplace_back(part);
  }
  view.source = std::make_shared<Joined>(std::move(units));
  return view;
}

TensorView reshaped(const TensorView& tensor, std::vector<int64_t> shape) {
  TensorView view = tensor;
  view.shape = std::move(shape);
  VEERY_CHECK(view.elements() == tensor.elements());
  if (!tensor.source) return view;
  std::vector<std::byte> bytes;
  tensor.read(bytes);
  view.source = make_bytes(std::move(bytes), byte_size(view.dtype, view.shape.back()));
  return view;
}

TensorView stack_tensors(std::vector<TensorView> parts, std::string name) {
  const TensorView& first = parts.at(0);
  for (const TensorView& part : parts)
    if (part.dtype != first.dtype || part.shape != first.shape)
      throw Error(ErrorKind::kFormat, "tensor '{}' has another type or shape than '{}'",
                  printable(part.name), printable(first.name));
  TensorView view{std::move(name), first.dtype, first.shape, {}};
  view.shape.insert(view.shape.begin(), std::ssize(parts));
  view.source = std::make_shared<Stacked>(std::move(parts));
  return view;
}

TensorView decoded(const TensorView& tensor) {
  if (!info(tensor.dtype).decodable)
    throw Error(ErrorKind::kUnsupported, "tensor '{}' has type {}, which has no values",
                printable(tensor.name), info(tensor.dtype).name);
  TensorView view{tensor.name, DType::kF32, tensor.shape, {}};
  view.source = std::make_shared<Decoded>(tensor);
  return view;
}

TensorView in_ggml_type(const TensorView& tensor) {
  if (info(tensor.dtype).ggml != kNotInGgml) return tensor;
  if (!is_affine(tensor.dtype) || affine_format(tensor.dtype).bits > 5 || !has_f16_scales(tensor))
    return decoded(tensor);
  TensorView view{tensor.name, DType::kQ4_1, tensor.shape, {}};
  if (affine_format(tensor.dtype).bits == 5) {
    view.dtype = DType::kQ5_1;
    view.source = std::make_shared<Regrouped<BlockQ5_1>>(tensor);
  } else {
    view.source = std::make_shared<Regrouped<BlockQ4_1>>(tensor);
  }
  return view;
}

TensorView transposed(const TensorView& tensor) {
  if (tensor.shape.size() < 2)
    throw Error(ErrorKind::kUnsupported, "tensor '{}' with {} dimensions cannot be transposed",
                printable(tensor.name), tensor.shape.size());
  if (info(tensor.dtype).block != 1) return transposed(decoded(tensor));
  TensorView view{tensor.name, tensor.dtype, tensor.shape, {}};
  std::swap(view.shape[view.shape.size() - 2], view.shape.back());
  view.source = std::make_shared<Transposed>(tensor);
  return view;
}

}  // namespace veery
