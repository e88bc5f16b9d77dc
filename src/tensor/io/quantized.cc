// Quantised weights: their blocks, encoding and decoding.
#include "tensor/io/quantized.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/printable.h"
#include "convert/mlx_encode.h"
#include "dtype/affine.h"
#include "file/folder/mlx.h"
#include "tensor/element_group.h"
#include "tensor/io/stored.h"
#include "tensor/runtime.h"

namespace veery::tensor {
namespace {

using Mode = MlxFormat::Mode;

DType type_of(std::string_view function, std::string_view name) {
  const std::optional<DType> type = dtype_from_name(name);
  if (!type) fail(ErrorKind::kUnsupported, "{}: unknown type '{}'", function, printable(name));
  return *type;
}

// How MLX makes a type that only MLX has; nothing for others.
std::optional<MlxFormat> mlx_format_of(DType type) {
  if (type == DType::kMXFP8) return MlxFormat{Mode::kMxfp8, 32, 8};
  if (!is_affine(type)) return std::nullopt;
  const AffineFormat format = affine_format(type);
  return MlxFormat{Mode::kAffine, format.group, format.bits};
}

bool can_quantize(DType type) {
  return mlx_format_of(type).has_value() || (info(type).encodable && info(type).quantized);
}

StoredTensor part_of_mlx(const char* name, const Tensor& x, const Data& data) {
  StoredTensor part{name, StoredType::kF32, x.shape(), bytes_of(spec(x), data)};
  switch (x.dtype()) {
    case Dtype::kU8: part.type = StoredType::kU8; break;
    case Dtype::kU32: part.type = StoredType::kU32; break;
    case Dtype::kF16: part.type = StoredType::kF16; break;
    case Dtype::kBF16: part.type = StoredType::kBF16; break;
    case Dtype::kF32: break;
    default:
      fail(ErrorKind::kInput, "of_mlx: {} of type {}, expected u8, u32, f16, bf16 or f32", name,
           tensor::name(x.dtype()));
  }
  return part;
}

MlxFormat checked_format(int group, int bits, std::string_view mode) {
  for (const MlxFormat format :
       {MlxFormat{Mode::kAffine, group, bits}, MlxFormat{Mode::kMxfp4, 32, 4},
        MlxFormat{Mode::kMxfp8, 32, 8}, MlxFormat{Mode::kNvfp4, 16, 4}}) {
    if (mlx_mode_name(format.mode) != mode) continue;
    if (format.group == group && format.bits == bits &&
        (format.mode != Mode::kAffine || affine_type({bits, group, DType::kF32}) != DType::kCount))
      return format;
    fail(ErrorKind::kUnsupported, "of_mlx: {} bits in groups of {} in mode '{}'", bits, group,
         mode);
  }
  fail(ErrorKind::kUnsupported, "of_mlx: mode '{}', expected affine, mxfp4, mxfp8 or nvfp4",
       printable(mode));
}

// The encoded parts of x [rows, columns], which has numbers of the type of the scales.
QuantizedTensor quantize_as_mlx(const Tensor& x, DType type, const MlxFormat& format) {
  const bool affine = format.mode == Mode::kAffine;
  const DType scale = affine ? affine_format(type).scale : DType::kF32;
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const MlxRow row = mlx_row(format, scale, columns);
  const Dtype scale_type = !affine                ? Dtype::kU8
                           : scale == DType::kF32 ? Dtype::kF32
                           : scale == DType::kF16 ? Dtype::kF16
                                                  : Dtype::kBF16;
  const auto part = [&](size_t row_bytes, Dtype of) {
    const Spec spec{{rows, static_cast<int64_t>(row_bytes / byte_size(of))}, of};
    return make_leaf(spec, new_data(spec));
  };
  const Tensor codes = part(row.codes, Dtype::kU32), scales = part(row.scales, scale_type);
  const Tensor biases = part(row.biases, scale_type);
  {
    const std::lock_guard lock(Runtime::get().mutex());
    const auto at = [](const Tensor& of, int64_t index, size_t bytes) {
      return data_of(of).buffer->data() + index * static_cast<int64_t>(bytes);
    };
    const auto* values = reinterpret_cast<const float*>(bytes_of(spec(x), data_of(x)).data());
    Runtime::get().pool().parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
      encode_mlx(format, scale,
                 {values + begin * columns, static_cast<size_t>((end - begin) * columns)},
                 {at(codes, begin, row.codes), at(scales, begin, row.scales),
                  at(biases, begin, row.biases)});
    });
  }
  return QuantizedTensor::of_mlx(codes, scales, affine ? std::optional(biases) : std::nullopt,
                                 static_cast<int>(format.group), format.bits,
                                 mlx_mode_name(format.mode));
}

QuantizedState quantize_as_ggml(const Tensor& x, DType type) {
  const int64_t rows = x.dim(0), columns = x.dim(1);
  const size_t row_bytes = veery::byte_size(type, columns);
  const auto buffer = Buffer::allocate(static_cast<size_t>(rows) * row_bytes);
  const auto* values = reinterpret_cast<const float*>(bytes_of(spec(x), data_of(x)).data());
  const std::lock_guard lock(Runtime::get().mutex());
  Runtime::get().pool().parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      encode(type, {values + row * columns, static_cast<size_t>(columns)},
             {buffer->data() + row * static_cast<int64_t>(row_bytes), row_bytes});
  });
  return {.type = type, .shape = x.shape(), .owner = buffer, .blocks = buffer->data()};
}

/// The elements of a weight. Has no inputs.
class Dequantize : public Operation {
 public:
  explicit Dequantize(QuantizedTensor q) : q_(std::move(q)) {}
  std::string_view name() const override { return "dequantize"; }
  std::vector<Data> evaluate(std::span<const Operand>, std::span<const Spec> out) const override {
    const QuantizedState& q = *q_.state();
    Data data = new_data(out.front());
    if (out.front().dtype == Dtype::kF32) {
      decode_rows(q, 0, q.rows(), reinterpret_cast<float*>(data.buffer->data()));
      return {std::move(data)};
    }
    const auto size = static_cast<int64_t>(byte_size(out.front().dtype));
    const int64_t piece = rows_of_piece(q);
    for (int64_t first = 0; first < q.rows(); first += piece) {
      const Spec part{{std::min(piece, q.rows() - first), q.columns()}, Dtype::kF32};
      const Data decoded = new_data(part);
      decode_rows(q, first, first + part.shape[0],
                  reinterpret_cast<float*>(decoded.buffer->data()));
      copy_elements(part.shape, {&part, &decoded}, data.buffer->data() + first * q.columns() * size,
                    out.front().dtype, decoded.strides);
    }
    return {std::move(data)};
  }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }

 private:
  QuantizedTensor q_;
};

}  // namespace

void require(std::string_view function, const QuantizedTensor& q) {
  if (!q) fail(ErrorKind::kInput, "{}: an argument is no quantised tensor", function);
}

QuantizedTensor make_quantized(std::string_view function, QuantizedState state) {
  check_shape(function, state.shape);
  const DTypeInfo& type = info(state.type);
  if (!type.decodable)
    fail(ErrorKind::kUnsupported, "{}: a weight of {}, expected floats or blocks", function,
         type.name);
  if (state.shape.empty() || state.columns() == 0 || state.columns() % type.block != 0)
    fail(ErrorKind::kInput, "{}: shape {}, expected rows of a multiple of {} columns for {}",
         function, text(state.shape), type.block, type.name);
  if (state.columns() > std::numeric_limits<int32_t>::max())
    fail(ErrorKind::kUnsupported, "{}: shape {}, expected fewer than 2^31 columns", function,
         text(state.shape));
  return QuantizedTensor(std::make_shared<QuantizedState>(std::move(state)));
}

int64_t rows_of_piece(const QuantizedState& q) {
  constexpr int64_t kElements = 1 << 20;
  return std::max<int64_t>(kElements / q.columns(), 1);
}

void decode_rows(const QuantizedState& q, int64_t first, int64_t last, float* out) {
  const int64_t columns = q.columns(), grain = std::max<int64_t>((1 << 14) / columns, 1);
  Runtime::get().pool().parallel_for(last - first, grain, [&](int64_t begin, int64_t end) {
    const auto rows = static_cast<size_t>(end - begin);
    decode(q.type, {q.row(first + begin), rows * q.row_bytes()},
           {out + begin * columns, rows * static_cast<size_t>(columns)});
  });
}

QuantizedTensor QuantizedTensor::copy(const void* blocks, Shape shape, std::string_view type) {
  const DType of = type_of("copy", type);
  // Checks the shape before its bytes are counted.
  const QuantizedTensor made =
      make_quantized("copy", {.type = of, .shape = std::move(shape), .owner = nullptr});
  QuantizedState& state = *made.state();
  const size_t bytes = made.byte_size();
  with_errors("copy", [&] {
    const std::shared_ptr<Buffer> buffer = Buffer::allocate(bytes);
    if (bytes > 0) std::memcpy(buffer->data(), blocks, bytes);
    state.owner = buffer;
    state.blocks = buffer->data();
  });
  return made;
}

QuantizedTensor QuantizedTensor::borrow(const void* blocks, Shape shape, std::string_view type,
                                        std::function<void()> release) {
  const DType of = type_of("borrow", type);
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(blocks));  // NOLINT
  const QuantizedTensor made =
      make_quantized("borrow", {.type = of, .shape = std::move(shape), .owner = nullptr});
  made.state()->owner = Buffer::borrow(bytes, std::move(release));
  made.state()->blocks = bytes;
  return made;
}

QuantizedTensor QuantizedTensor::of_mlx(const Tensor& codes, const Tensor& scales,
                                        const std::optional<Tensor>& biases, int group, int bits,
                                        std::string_view mode) {
  const MlxFormat format = checked_format(group, bits, mode);
  std::vector<Tensor> parts{codes, scales};
  if (biases) parts.push_back(*biases);
  for (const Tensor& part : parts) tensor::require("of_mlx", part);
  eval(parts);
  const auto build = [&] {
    std::vector<Data> data;  // of the parts, in memory while rows are read
    std::vector<StoredTensor> stored;
    for (const Tensor& part : parts) {
      constexpr const char* kNames[] = {"codes", "scales", "biases"};
      data.push_back(row_major(part));
      stored.push_back(part_of_mlx(kNames[stored.size()], part, data.back()));
    }
    const TensorView view =
        make_mlx_view(stored[0], stored[1], biases ? &stored[2] : nullptr, format);
    const auto row_bytes = static_cast<int64_t>(veery::byte_size(view.dtype, view.columns()));
    const int64_t rows = view.elements() / view.columns();
    const auto buffer = Buffer::allocate(static_cast<size_t>(rows * row_bytes));
    const std::lock_guard lock(Runtime::get().mutex());
    Runtime::get().pool().parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
      view.source->read(begin, end, buffer->data() + begin * row_bytes);
    });
    return QuantizedState{
        .type = view.dtype, .shape = view.shape, .owner = buffer, .blocks = buffer->data()};
  };
  return make_quantized("of_mlx", with_errors("of_mlx", build, ErrorKind::kInput));
}

const Shape& QuantizedTensor::shape() const {
  require("shape", *this);
  return state_->shape;
}
std::string_view QuantizedTensor::type() const {
  require("type", *this);
  return info(state_->type).name;
}
const void* QuantizedTensor::blocks() const {
  require("blocks", *this);
  return state_->blocks;
}
size_t QuantizedTensor::byte_size() const {
  require("byte_size", *this);
  return static_cast<size_t>(state_->rows()) * state_->row_bytes();
}

QuantizedTensor QuantizedTensor::at(int64_t index) const {
  require("at", *this);
  const Shape& shape = state_->shape;
  if (shape.size() < 2 || index < -shape[0] || index >= shape[0])
    fail(ErrorKind::kInput, "at: index {} of shape {}", index, text(shape));
  const int64_t place = index < 0 ? index + shape[0] : index;
  QuantizedState part{.name = state_->name,
                      .type = state_->type,
                      .shape = {shape.begin() + 1, shape.end()},
                      .owner = state_->owner,
                      .blocks = nullptr};
  part.blocks = state_->row(place * part.rows());
  return QuantizedTensor(std::make_shared<QuantizedState>(std::move(part)));
}

std::vector<std::string> quantizable_types() {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i)
    if (can_quantize(static_cast<DType>(i))) names.emplace_back(info(static_cast<DType>(i)).name);
  return names;
}

QuantizedTensor quantize(const Tensor& x, std::string_view type) {
  require("quantize", x);
  const DType to = type_of("quantize", type);
  if (!can_quantize(to))
    fail(ErrorKind::kUnsupported, "quantize: no encoder for {}{}", info(to).name,
         info(to).block == 1 ? ": use astype" : "");
  if (!is_float(x.dtype()))
    fail(ErrorKind::kInput, "quantize: a tensor of {}, expected floats", name(x.dtype()));
  // Checks the shape.
  make_quantized("quantize", {.type = to, .shape = x.shape(), .owner = nullptr});
  const Shape matrix{x.size() / x.dim(-1), x.dim(-1)};
  const std::optional<MlxFormat> mlx = mlx_format_of(to);
  Tensor values = x;
  if (is_affine(to) && affine_format(to).scale != DType::kF32)
    values = astype(x, affine_format(to).scale == DType::kF16 ? Dtype::kF16 : Dtype::kBF16);
  values = reshape(astype(values, Dtype::kF32), matrix);
  values.eval();
  const Data data = row_major(values);
  values = make_leaf(spec(values), data);
  return with_errors("quantize", [&] {
    QuantizedState state = mlx && x.size() > 0 ? *quantize_as_mlx(values, to, *mlx).state()
                                               : quantize_as_ggml(values, to);
    state.shape = x.shape();
    return make_quantized("quantize", std::move(state));
  });
}

Tensor dequantize(const QuantizedTensor& q, Dtype type) {
  require("dequantize", q);
  if (!is_float(type)) fail(ErrorKind::kInput, "dequantize: to {}, expected floats", name(type));
  return make(Dequantize(q), {}, {q.shape(), type});
}

}  // namespace veery::tensor
