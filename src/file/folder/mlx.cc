#include "file/folder/mlx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "dtype/affine.h"
#include "dtype/blocks.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

using Mode = MlxFormat::Mode;

struct ModeRow {
  std::string_view name;
  Mode mode;
  int64_t group;  // default group size and bits of the mode
  int bits;
};
constexpr ModeRow kModes[] = {{"affine", Mode::kAffine, 64, 4},
                              {"mxfp4", Mode::kMxfp4, 32, 4},
                              {"mxfp8", Mode::kMxfp8, 32, 8},
                              {"nvfp4", Mode::kNvfp4, 16, 4}};

constexpr float kE2m1[16] = {0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};

// The packed data of a weight. The codes of a row form one bit stream, lowest bits first.
struct Packed {
  StoredTensor codes, scales, biases;
  MlxFormat format;
  int64_t cols = 0;

  int64_t groups() const { return cols / format.group; }
  // Unpacks the codes of the columns [begin, begin + count).
  void unpack(int64_t row, int64_t begin, int64_t count, uint8_t* out) const {
    const int64_t row_bytes = cols * format.bits / 8;
    const std::byte* bytes = codes.data.data() + row * row_bytes;
    const unsigned mask = (1U << format.bits) - 1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bit = (begin + i) * format.bits;
      unsigned pair = static_cast<unsigned>(bytes[bit / 8]);
      if (bit % 8 + format.bits > 8) pair |= static_cast<unsigned>(bytes[bit / 8 + 1]) << 8;
      out[i] = static_cast<uint8_t>(pair >> (bit % 8) & mask);
    }
  }
  // Returns an 8-bit scale.
  uint8_t scale(int64_t row, int64_t group) const {
    return static_cast<uint8_t>(scales.data[static_cast<size_t>(row * groups() + group)]);
  }
};

// Packs two codes per byte: i in the low nibble, i + count / 2 in the high nibble.
void pack_halves(const uint8_t* codes, int count, uint8_t* out) {
  for (int i = 0; i < count / 2; ++i)
    out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + count / 2] & 15) << 4);
}

void make_block(const Packed& p, int64_t row, int64_t begin, BlockMXFP4& b) {
  uint8_t codes[32];
  p.unpack(row, begin, 32, codes);
  pack_halves(codes, 32, b.qs);
  b.e = p.scale(row, begin / 32);
}
void make_block(const Packed& p, int64_t row, int64_t begin, BlockNVFP4& b) {
  for (int j = 0; j < 4; ++j) {
    uint8_t codes[16];
    p.unpack(row, begin + 16 * j, 16, codes);
    pack_halves(codes, 16, b.qs + 8 * j);
    b.d[j] = p.scale(row, begin / 16 + j);
  }
}
void make_block(const Packed& p, int64_t row, int64_t begin, BlockMXFP8& b) {
  p.unpack(row, begin, 32, b.qs);
  b.e = p.scale(row, begin / 32);
}

template <typename Block, int kElements>
class BlockSource final : public RowSource {
 public:
  explicit BlockSource(Packed packed) : packed_(std::move(packed)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t row = first; row < last; ++row)
      for (int64_t begin = 0; begin < packed_.cols; begin += kElements) {
        Block block;
        make_block(packed_, row, begin, block);
        std::memcpy(out, &block, sizeof block);
        out += sizeof block;
      }
  }

 private:
  Packed packed_;
};

// Stores affine groups, each with its scale and bias.
class AffineSource final : public RowSource {
 public:
  AffineSource(Packed packed, const AffineFormat& format)
      : packed_(std::move(packed)), format_(format) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    const int64_t codes = format_.group * format_.bits / 8;
    const int64_t end = last * packed_.groups();
    for (int64_t group = first * packed_.groups(); group < end; ++group) {
      put(packed_.scales, group, out);
      put(packed_.biases, group, out + format_.scale_bytes());
      std::memcpy(out + format_.codes_at(), packed_.codes.data.data() + group * codes,
                  static_cast<size_t>(codes));
      out += format_.bytes();
    }
  }

 private:
  void put(const StoredTensor& tensor, int64_t index, std::byte* out) const {
    const std::byte* at = tensor.data.data() + index * byte_size(tensor.type);
    if (to_dtype(tensor.type) == format_.scale) {
      std::memcpy(out, at, static_cast<size_t>(format_.scale_bytes()));
    } else {  // scale and bias have different types: use f32
      const float value = affine_scale(*to_dtype(tensor.type), at);
      std::memcpy(out, &value, sizeof value);
    }
  }

  Packed packed_;
  AffineFormat format_;
};

// NVFP4 as f32, for rows that are not whole blocks of 64.
class FloatSource final : public RowSource {
 public:
  explicit FloatSource(Packed packed) : packed_(std::move(packed)) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    std::vector<uint8_t> codes(static_cast<size_t>(packed_.cols));
    for (int64_t row = first; row < last; ++row) {
      packed_.unpack(row, 0, packed_.cols, codes.data());
      for (int64_t i = 0; i < packed_.cols; ++i, out += sizeof(float)) {
        const float scale = fp8_e4m3_to_f32(packed_.scale(row, i / packed_.format.group));
        const float value = scale * kE2m1[codes[static_cast<size_t>(i)] & 15];
        std::memcpy(out, &value, sizeof value);
      }
    }
  }

 private:
  Packed packed_;
};

void check_shapes(const Packed& p, bool has_biases) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kFormat, "tensor '{}' ({} bits, groups of {}): {}",
                printable(p.codes.name), p.format.bits, p.format.group, what);
  };
  if (p.codes.type != StoredType::kU32 || p.codes.shape.size() != 2 || p.scales.shape.size() != 2)
    fail(fmt::format("has type {} and {} dimensions, scales with {}; expected U32, 2 and 2",
                     name(p.codes.type), p.codes.shape.size(), p.scales.shape.size()));
  const int64_t bits = p.codes.shape[1] * 32;
  if (p.codes.data.empty() || bits % p.format.bits != 0 || p.cols % p.format.group != 0)
    fail(fmt::format("rows of {} words do not form whole groups", p.codes.shape[1]));
  if (p.scales.shape != std::vector<int64_t>{p.codes.shape[0], p.groups()})
    fail(fmt::format("scales are {} x {}, expected {} x {}", p.scales.shape[0], p.scales.shape[1],
                     p.codes.shape[0], p.groups()));
  const auto is_float = [](StoredType type) {
    return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16;
  };
  if (p.format.mode == Mode::kAffine) {
    if (!has_biases || p.biases.shape != p.scales.shape)
      fail("biases are missing or differ in shape from the scales");
    if (!is_float(p.scales.type) || !is_float(p.biases.type))
      fail("scales or biases are not floats");
  } else if (p.scales.type != StoredType::kU8) {
    fail(fmt::format("scales have type {}, expected U8", name(p.scales.type)));
  }
}

// Merges the expert dimension into the rows.
StoredTensor flat(StoredTensor tensor) {
  if (tensor.shape.size() == 3) tensor.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
  return tensor;
}

// Converts bytes that hold two adjacent elements to blocks whose bytes hold elements half a block
// apart.
class AdjacentNibblesSource final : public RowSource {
 public:
  AdjacentNibblesSource(const StoredTensor& blocks, const StoredTensor& scales)
      : blocks_(blocks.data), scales_(scales.data), across_(scales.shape.back()) {}
  void read(int64_t first, int64_t last, std::byte* out) const override {
    for (int64_t b = first * across_; b < last * across_; ++b) {
      uint8_t codes[32];
      for (int i = 0; i < 16; ++i) {
        const auto pair = static_cast<uint8_t>(blocks_[static_cast<size_t>(b * 16 + i)]);
        codes[2 * i] = pair & 15;
        codes[2 * i + 1] = pair >> 4;
      }
      BlockMXFP4 block;
      pack_halves(codes, 32, block.qs);
      block.e = static_cast<uint8_t>(scales_[static_cast<size_t>(b)]);
      std::memcpy(out, &block, sizeof block);
      out += sizeof block;
    }
  }

 private:
  std::span<const std::byte> blocks_, scales_;
  int64_t across_;
};

// Returns a size from 1 to 65536, or the fallback if it is absent or null.
int64_t size_or(const Json& object, const char* key, int64_t fallback, const std::string& name) {
  const auto value = object.find(key);
  if (value == object.end() || value->is_null()) return fallback;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > (1U << 16))
    throw Error(ErrorKind::kFormat, "config.json: {} of '{}' is {}, expected 1 to 65536", key,
                printable(name), printable(dump_json(*value)));
  return value->get<int64_t>();
}

MlxFormat read_format(const Json& own, const Json& common, const std::string& name) {
  const auto mode_of = [](const Json& object) -> std::string {
    const auto mode = object.find("mode");
    return mode != object.end() && mode->is_string() ? mode->get<std::string>() : "";
  };
  // A layer with its own sizes but no mode is affine, regardless of the model's mode.
  const bool sized = &own != &common && (own.contains("bits") || own.contains("group_size"));
  std::string mode = mode_of(own);
  if (mode.empty() && !sized) mode = mode_of(common);
  if (mode.empty()) mode = "affine";
  const auto row = std::ranges::find(kModes, std::string_view(mode), &ModeRow::name);
  if (row == std::end(kModes))
    throw Error(ErrorKind::kUnsupported,
                "config.json: mode of '{}' is '{}', expected affine, mxfp4, mxfp8 or nvfp4",
                printable(name), printable(mode));
  const std::string others = mode_of(common).empty() ? "affine" : mode_of(common);
  const bool same = mode == others;
  MlxFormat format{row->mode, row->group, row->bits};
  // In a layer's settings, null means the default of the mode; an absent size means that of the
  // model.
  const bool says_group = own.contains("group_size");
  format.group = size_or(
      own, "group_size",
      says_group || !same ? row->group : size_or(common, "group_size", row->group, name), name);
  format.bits = static_cast<int>(size_or(
      own, "bits",
      own.contains("bits") || !same ? row->bits : size_or(common, "bits", row->bits, name), name));
  constexpr int kBits[] = {2, 3, 4, 5, 6, 8};
  constexpr int64_t kGroups[] = {32, 64, 128};
  const bool affine = format.mode == Mode::kAffine;
  if (affine ? std::ranges::find(kBits, format.bits) == std::end(kBits) ||
                   std::ranges::find(kGroups, format.group) == std::end(kGroups)
             : format.bits != row->bits || format.group != row->group)
    throw Error(ErrorKind::kUnsupported, "config.json: '{}' has {} bits in groups of {} ({})",
                printable(name), format.bits, format.group, mode);
  return format;
}

}  // namespace

std::string_view mlx_mode_name(MlxFormat::Mode mode) {
  return std::ranges::find(kModes, mode, &ModeRow::mode)->name;
}

std::optional<MlxFormat> mlx_format(const Json& config, const std::string& name) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto common = config.find(key);
    if (common == config.end() || !common->is_object() ||
        !(common->contains("bits") || common->contains("group_size")))
      continue;
    const auto own = common->find(name);
    if (own != common->end() && own->is_object()) return read_format(*own, *common, name);
    return read_format(*common, *common, name);
  }
  return std::nullopt;
}

TensorView make_mxfp4_view(const std::string& name, const StoredTensor& blocks,
                           const StoredTensor& scales) {
  std::vector<int64_t> shape = scales.shape;
  shape.push_back(16);
  if (blocks.type != StoredType::kU8 || scales.type != StoredType::kU8 || scales.shape.size() < 2 ||
      blocks.shape != shape || blocks.data.empty())
    throw Error(ErrorKind::kFormat,
                "tensor '{}': expected 16 bytes for each scale, and scales of one byte",
                printable(blocks.name));
  TensorView view{name, DType::kMXFP4, scales.shape, {}};
  view.shape.back() *= 32;
  view.source = std::make_shared<AdjacentNibblesSource>(blocks, scales);
  return view;
}

TensorView make_mlx_view(const StoredTensor& codes, const StoredTensor& scales,
                         const StoredTensor* biases, const MlxFormat& format) {
  Packed packed{flat(codes), flat(scales), biases == nullptr ? StoredTensor{} : flat(*biases),
                format, 0};
  if (packed.codes.shape.size() == 2) packed.cols = packed.codes.shape[1] * 32 / format.bits;
  check_shapes(packed, biases != nullptr);
  TensorView view{codes.name, DType::kF32, codes.shape, {}};
  view.shape.back() = packed.cols;
  const auto blocks = [&]<typename Block, int kElements>(DType type) {
    view.dtype = type;
    view.source = std::make_shared<BlockSource<Block, kElements>>(std::move(packed));
  };
  if (format.mode == Mode::kAffine) {
    const DType scale =
        packed.scales.type == packed.biases.type ? *to_dtype(packed.scales.type) : DType::kF32;
    const AffineFormat groups{format.bits, static_cast<int>(format.group), scale};
    view.dtype = affine_type(groups);
    view.source = std::make_shared<AffineSource>(std::move(packed), groups);
  } else if (format.mode == Mode::kMxfp4) {
    blocks.operator()<BlockMXFP4, 32>(DType::kMXFP4);
  } else if (format.mode == Mode::kMxfp8) {
    blocks.operator()<BlockMXFP8, 32>(DType::kMXFP8);
  } else if (packed.cols % 64 == 0) {
    blocks.operator()<BlockNVFP4, 64>(DType::kNVFP4);
  } else {
    view.source = std::make_shared<FloatSource>(std::move(packed));
  }
  return view;
}

}  // namespace veery
