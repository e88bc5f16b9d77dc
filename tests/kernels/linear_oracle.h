// linear_oracle.h: an independent implementation of the contract of kernels/cpu/linear.h, one
// output at a time, in scalar code without panels; and random weights.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "dtype/affine.h"
#include "dtype/code_books.h"
#include "dtype/decode.h"
#include "dtype/dtype.h"
#include "dtype/fp8.h"
#include "kernels/kernels.h"

namespace veery::test {

using Bytes = std::vector<std::byte>;

/// Returns all types that have a panel layout.
inline std::vector<DType> packed_types() {
  std::vector<DType> types;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i)
    if (can_pack(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  return types;
}

/// Returns the same with a subset of the affine types, in which each number of bits, group size and
/// scale type occurs.
inline std::vector<DType> typical_types() {
  std::vector<DType> types = packed_types();
  std::erase_if(types, is_affine);
  for (const AffineFormat& format : {AffineFormat{2, 32, DType::kF16},
                                     {3, 128, DType::kBF16},
                                     {4, 64, DType::kBF16},
                                     {5, 32, DType::kF32},
                                     {6, 128, DType::kF16},
                                     {8, 64, DType::kF32}})
    types.push_back(affine_type(format));
  return types;
}

/// Generates weights with random codes, and scales of about 1/100.
class RandomWeight {
 public:
  RandomWeight(DType type, int64_t rows, int64_t cols, uint32_t seed)
      : type_(type), rng_(seed), bytes_(static_cast<size_t>(rows) * byte_size(type, cols)) {
    if (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) {
      each_block([&](uint8_t* at) { put(type, 1, at); });
      return;
    }
    for (auto& b : bytes_) b = static_cast<std::byte>(rng_());
    if (is_affine(type))
      set_affine();
    else if (is_fp8(type))
      set_fp8();
    else
      set_scales();
  }
  Bytes take() { return std::move(bytes_); }

 private:
  /// Stores a random scale of up to `most`.
  void put(DType type, float most, uint8_t* to) {
    const float v = uniform_(rng_) * most;
    const uint16_t half = type == DType::kF16 ? f32_to_f16(v) : f32_to_bf16(v);
    if (type == DType::kF32)
      std::memcpy(to, &v, sizeof v);
    else
      std::memcpy(to, &half, sizeof half);
  }
  template <typename Fn>
  void each(size_t bytes_each, const Fn& fn) {
    for (size_t at = 0; at < bytes_.size(); at += bytes_each)
      fn(reinterpret_cast<uint8_t*>(bytes_.data()) + at);
  }
  template <typename Fn>
  void each_block(const Fn& fn) {
    each(static_cast<size_t>(info(type_).bytes), fn);
  }
  void half_at(size_t offset) {
    each_block([&](uint8_t* block) { put(DType::kF16, 0.01F, block + offset); });
  }

  // Biases as large as the products of the largest codes.
  void set_affine() {
    const AffineFormat format = affine_format(type_);
    each_block([&](uint8_t* block) {
      put(format.scale, 0.01F, block);
      put(format.scale, 0.01F * static_cast<float>(1 << format.bits), block + format.scale_bytes());
    });
  }
  void set_fp8() {
    each(1, [](uint8_t* code) {
      if (is_nan_e4m3(*code)) *code ^= 1;
    });
    int64_t index = 0;
    each_block([&](uint8_t* block) {
      if (type_ != DType::kMXFP8) return put(DType::kF32, 0.01F, block);
      // The first blocks have the smallest and the largest scales.
      *block = index < 4   ? *block % 4
               : index < 6 ? kScaleLimitMXFP8 - 1
                           : static_cast<uint8_t>(110 + *block % 12);
      ++index;
    });
  }
  void set_scales() {
    int64_t index = 0;
    switch (type_) {
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K: half_at(0), half_at(2); break;
      case DType::kQ2_K: half_at(offsetof(BlockQ2_K, d)), half_at(offsetof(BlockQ2_K, dmin)); break;
      case DType::kQ3_K: half_at(offsetof(BlockQ3_K, d)); break;
      case DType::kQ6_K: half_at(offsetof(BlockQ6_K, d)); break;
      case DType::kTQ1_0: half_at(offsetof(BlockTQ1_0, d)); break;
      case DType::kTQ2_0: half_at(offsetof(BlockTQ2_0, d)); break;
      case DType::kQ8_K: each_block([&](uint8_t* block) { put(DType::kF32, 0.01F, block); }); break;
      case DType::kIQ1_M:  // the scale's upper 8 bits: 2^-8 and more, either sign
        each_block([](uint8_t* block) {
          uint8_t& upper = block[offsetof(BlockIQ1_M, scales) + 7];
          upper = static_cast<uint8_t>((upper & 0x8F) | 0x20);
        });
        break;
      case DType::kMXFP4:  // up to 2^-7; the first blocks also have the smallest scale
        each_block([&](uint8_t* block) {
          *block = index < 20 ? *block % 4 : static_cast<uint8_t>(110 + *block % 12);
          ++index;
        });
        break;
      case DType::kNVFP4: break;
      default: half_at(0);
    }
  }

  DType type_;
  std::mt19937 rng_;
  std::uniform_real_distribution<float> uniform_{-1, 1};
  Bytes bytes_;
};
inline Bytes random_weight(DType type, int64_t rows, int64_t cols, uint32_t seed) {
  return RandomWeight(type, rows, cols, seed).take();
}

struct QuantisedRow {
  std::vector<int> q, residual;     ///< residual: 0 except in outlier blocks
  std::vector<float> scale, finer;  ///< finer: scale of the residual, 0 if there is none
};

inline float magnitude(const float* x, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

/// Quantises a row. Blocks of 32: the scale is the largest magnitude / 127; values are rounded to
/// nearest even. Blocks of 256: an eighth of that scale; the values of each 32 are multiples of 8,
/// 4, 2 or 1, the finest step with which they stay within 127 multiples.
inline QuantisedRow quantise(const std::vector<float>& x, size_t block) {
  QuantisedRow out;
  for (size_t b = 0; b < x.size(); b += block) {
    const float largest = magnitude(&x[b], block);
    const bool tiny = !(largest > 1e-30F);
    const float scale = tiny ? 0 : largest / 127;
    out.scale.push_back(block == 256 ? scale / 8 : scale);
    for (size_t part = b; part < b + block; part += 32) {
      int step = block == 256 ? 8 : 1;
      float inverse = tiny ? 0 : 127 / largest;
      for (; step > 1 && magnitude(&x[part], 32) * 16 / static_cast<float>(step) <= largest;
           step /= 2)
        inverse *= 2;
      for (size_t i = part; i < part + 32; ++i)
        out.q.push_back(step * static_cast<int>(std::nearbyint(x[i] * inverse)));
    }
  }
  return out;
}

/// Returns the quantisation error of x.
inline std::vector<float> left_over(const std::vector<float>& x, size_t block) {
  const QuantisedRow row = quantise(x, block);
  std::vector<float> left(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    left[i] = std::fma(-row.scale[i / block], static_cast<float>(row.q[i]), x[i]);
  return left;
}

/// Quantises the residuals of outlier blocks in steps of scale / 254. A block of 32 is an outlier
/// block if its largest magnitude exceeds 2.5 times the mean over all blocks.
inline void add_residual(const std::vector<float>& x, QuantisedRow& row, bool outliers) {
  const size_t blocks = x.size() / 32;
  float all = 0;
  for (size_t b = 0; b < blocks; ++b) all += magnitude(&x[32 * b], 32);
  row.residual.assign(x.size(), 0);
  row.finer.assign(blocks, 0);
  for (size_t b = 0; outliers && b < blocks; ++b) {
    const float scale = row.scale[b];
    if (!(magnitude(&x[32 * b], 32) > 2.5F * (all / static_cast<float>(blocks))) || scale <= 0)
      continue;
    row.finer[b] = scale / 254;
    for (size_t i = 32 * b; i < 32 * b + 32; ++i) {
      const float left = std::fma(-scale, static_cast<float>(row.q[i]), x[i]);
      row.residual[i] = static_cast<int>(std::nearbyint(left * (254 / scale)));
    }
  }
}

inline float dot_block(const uint8_t* codes, int offset, const int* q, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += (codes[i] - offset) * q[i];
  return static_cast<float>(sum);
}

/// Returns the codes of a block of 32 and their zero point.
template <typename Block>
int codes_of(const Block& block, uint8_t* codes) {
  if constexpr (std::is_same_v<Block, BlockIQ4_NL> || std::is_same_v<Block, BlockMXFP4>) {
    const CodeBook book =
        code_book(std::is_same_v<Block, BlockMXFP4> ? DType::kMXFP4 : DType::kIQ4_NL);
    unpack_nibbles(block.qs, codes);
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(book.values[codes[i]] + 128);
    return 128;
  } else if constexpr (std::is_same_v<Block, BlockQ8_0>) {
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(block.qs[i] + 128);
    return 128;
  } else if constexpr (requires { block.qh; }) {
    unpack_5bit(block.qs, block.qh, codes);
    return requires { block.m; }
    ? 0 : 16;
  } else {
    unpack_nibbles(block.qs, codes);
    return requires { block.m; }
    ? 0 : 8;
  }
}

template <typename Block>
float scale_of(const Block& block) {
  if constexpr (requires { block.e; })
    return half_e8m0_to_f32(block.e);
  else if constexpr (std::is_same_v<Block, BlockQ8_K>)
    return block.d;
  else
    return f16_to_f32(block.d);
}

/// Blocks of 32: returns D + M of one row (linear.h).
template <typename Block>
float small_blocks(const std::byte* row, const QuantisedRow& x) {
  float d = 0;
  float m = 0;
  bool mins = false;
  const auto block_at = [&](size_t b) {
    Block block;
    std::memcpy(&block, row + b * sizeof block, sizeof block);
    return block;
  };
  uint8_t codes[32];
  for (size_t b = 0; b < x.scale.size(); ++b) {
    const Block block = block_at(b);
    const int offset = codes_of(block, codes);
    const int* q = x.q.data() + 32 * b;
    if constexpr (requires { block.m; }) {
      mins = true;
      const int sum = std::accumulate(q, q + 32, 0);
      float moment = x.scale[b] * static_cast<float>(sum);
      if (x.finer[b] > 0) {
        const int* residual = x.residual.data() + 32 * b;
        moment += x.finer[b] * static_cast<float>(std::accumulate(residual, residual + 32, 0));
      }
      m = std::fma(f16_to_f32(block.m), moment, m);
    }
    d = std::fma(scale_of(block) * x.scale[b], dot_block(codes, offset, q, 32), d);
  }
  for (size_t b = 0; b < x.scale.size(); ++b) {
    if (!(x.finer[b] > 0)) continue;
    const Block block = block_at(b);
    const int offset = codes_of(block, codes);
    d = std::fma(scale_of(block) * x.finer[b], dot_block(codes, offset, &x.residual[32 * b], 32),
                 d);
  }
  return mins ? d + m : d;
}

/// Affine groups: the same over their blocks of 32.
inline float affine_blocks(DType type, const std::byte* row, const QuantisedRow& x) {
  const AffineFormat format = affine_format(type);
  const auto per_group = static_cast<size_t>(format.group) / 32;
  const auto group_at = [&](size_t b) {
    return row + b / per_group * static_cast<size_t>(format.bytes());
  };
  const auto scale = [&](size_t b) { return affine_scale(format.scale, group_at(b)); };
  const auto bias = [&](size_t b) {
    return affine_scale(format.scale, group_at(b) + format.scale_bytes());
  };
  const auto dot = [&](size_t b, const int* q) {
    const auto* stream = reinterpret_cast<const uint8_t*>(group_at(b)) + format.codes_at();
    int sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      int code = 0;
      for (size_t bit = 0; bit < static_cast<size_t>(format.bits); ++bit) {
        const size_t at = (b % per_group * 32 + i) * static_cast<size_t>(format.bits) + bit;
        code |= (stream[at / 8] >> (at % 8) & 1) << bit;
      }
      sum += code * q[i];
    }
    return static_cast<float>(sum);
  };
  float d = 0;
  float m = 0;
  for (size_t b = 0; b < x.scale.size(); ++b) {
    const int* q = x.q.data() + 32 * b;
    float moment = x.scale[b] * static_cast<float>(std::accumulate(q, q + 32, 0));
    const int* residual = x.residual.data() + 32 * b;
    if (x.finer[b] > 0)
      moment += x.finer[b] * static_cast<float>(std::accumulate(residual, residual + 32, 0));
    m = std::fma(bias(b), moment, m);
    d = std::fma(scale(b) * x.scale[b], dot(b, q), d);
  }
  for (size_t b = 0; b < x.scale.size(); ++b)
    if (x.finer[b] > 0) d = std::fma(scale(b) * x.finer[b], dot(b, &x.residual[32 * b]), d);
  return d + m;
}

/// K types. code(block, i), scale(block, i) and min(block, i) return the parts of element i.
template <typename Block, typename Code, typename ScaleOf, typename MinOf>
float super_blocks(const std::byte* row, const QuantisedRow& x, Code code, ScaleOf scale,
                   MinOf min) {
  float d = 0;
  float m = 0;
  bool mins = false;
  for (size_t b = 0; b < x.scale.size(); ++b) {
    Block block;
    std::memcpy(&block, row + b * sizeof block, sizeof block);
    int t = 0;
    int z = 0;
    for (int i = 0; i < 256; ++i) {
      t += scale(block, i) * code(block, i) * x.q[256 * b + static_cast<size_t>(i)];
      z += min(block, i) * x.q[256 * b + static_cast<size_t>(i)];
    }
    d = std::fma(scale_of(block) * x.scale[b], static_cast<float>(t), d);
    if constexpr (requires { block.dmin; }) {
      mins = true;
      m = std::fma(f16_to_f32(block.dmin) * x.scale[b], static_cast<float>(z), m);
    }
  }
  return mins ? d - m : d;
}

/// Types with a code book: as K types without minima.
template <typename Block>
float coded_blocks(DType type, const std::byte* row, const QuantisedRow& x) {
  float d = 0;
  for (size_t b = 0; b < x.scale.size(); ++b) {
    Block block;
    CodedBlock coded;
    std::memcpy(&block, row + b * sizeof block, sizeof block);
    unpack_block(block, coded);
    int t = 0;
    for (int i = 0; i < 256; ++i)
      t += coded.scales[i / 16] * coded.values[i] * x.q[256 * b + static_cast<size_t>(i)];
    d = std::fma(f16_to_f32(coded.d) * code_book(type).factor * x.scale[b], static_cast<float>(t),
                 d);
  }
  return d;
}

/// NVFP4: accumulates half blocks in order, then the residuals of outlier blocks.
inline float nvfp4_blocks(const std::byte* row, const QuantisedRow& x) {
  float d = 0;
  const auto add = [&](const std::vector<int>& q, size_t half, float scale) {
    BlockNVFP4 block;
    float decoded[64];
    std::memcpy(&block, row + half / 4 * sizeof block, sizeof block);
    const float own = half_e4m3_to_f32(block.d[half % 4]);
    std::fill(std::begin(block.d), std::end(block.d), uint8_t{0x40});  // 2.0; its half is 1
    decode_block(block, decoded);
    int sum = 0;
    for (size_t i = 0; i < 16; ++i)
      sum += static_cast<int>(decoded[half % 4 * 16 + i]) * q[16 * half + i];
    d = std::fma(own * scale, static_cast<float>(sum), d);
  };
  for (size_t half = 0; half < 2 * x.scale.size(); ++half) add(x.q, half, x.scale[half / 2]);
  for (size_t half = 0; half < 2 * x.scale.size(); ++half)
    if (x.finer[half / 2] > 0) add(x.residual, half, x.finer[half / 2]);
  return d;
}

inline int six_bit(const uint8_t* packed, int j, bool min) {
  uint8_t s;
  uint8_t m;
  scale_min_6bit(packed, j, &s, &m);
  return min ? m : s;
}

inline bool is_super(DType type) { return info(type).block == 256; }

/// bf16: activations are rounded to bf16, the odd column of a pair comes before the even one, and
/// subnormal numbers are flushed to 0.
inline float bf16_pairs(const std::vector<float>& w, const std::vector<float>& x) {
  const auto normal = [](float v) {
    return std::fabs(v) < std::numeric_limits<float>::min() ? 0.0F : v;
  };
  float y = 0;
  const auto add = [&](size_t k) {
    if (k < x.size()) y = normal(std::fma(bf16_to_f32(f32_to_bf16(normal(x[k]))), normal(w[k]), y));
  };
  for (size_t k = 0; k < x.size(); k += 2) {
    add(k + 1);
    add(k);
  }
  return y;
}

/// Returns the product with int8 activations.
inline float quantised_product(DType type, const std::byte* row, const QuantisedRow& q) {
  if (is_affine(type)) return affine_blocks(type, row, q);
  const auto none = [](const auto&, int) { return 0; };
  const auto scale6 = [](const auto& b, int i) { return six_bit(b.scales, i / 32, false); };
  const auto min6 = [](const auto& b, int i) { return six_bit(b.scales, i / 32, true); };
  switch (type) {
    case DType::kQ4_0: return small_blocks<BlockQ4_0>(row, q);
    case DType::kQ4_1: return small_blocks<BlockQ4_1>(row, q);
    case DType::kQ5_0: return small_blocks<BlockQ5_0>(row, q);
    case DType::kQ5_1: return small_blocks<BlockQ5_1>(row, q);
    case DType::kQ8_0: return small_blocks<BlockQ8_0>(row, q);
    case DType::kIQ4_NL: return small_blocks<BlockIQ4_NL>(row, q);
    case DType::kMXFP4: return small_blocks<BlockMXFP4>(row, q);
    case DType::kNVFP4: return nvfp4_blocks(row, q);
    case DType::kIQ4_XS: return coded_blocks<BlockIQ4_XS>(type, row, q);
    case DType::kIQ3_XXS: return coded_blocks<BlockIQ3_XXS>(type, row, q);
    case DType::kIQ3_S: return coded_blocks<BlockIQ3_S>(type, row, q);
    case DType::kIQ2_XXS: return coded_blocks<BlockIQ2_XXS>(type, row, q);
    case DType::kIQ2_XS: return coded_blocks<BlockIQ2_XS>(type, row, q);
    case DType::kIQ2_S: return coded_blocks<BlockIQ2_S>(type, row, q);
    case DType::kIQ1_S: return coded_blocks<BlockIQ1_S>(type, row, q);
    case DType::kIQ1_M: return coded_blocks<BlockIQ1_M>(type, row, q);
    case DType::kTQ1_0: return coded_blocks<BlockTQ1_0>(type, row, q);
    case DType::kTQ2_0: return coded_blocks<BlockTQ2_0>(type, row, q);
    case DType::kQ8_K:
      return super_blocks<BlockQ8_K>(
          row, q, [](const auto& b, int i) { return int{b.qs[i]}; },
          [](const auto&, int) { return 1; }, none);
    case DType::kQ4_K: return super_blocks<BlockQ4_K>(row, q, code_q4_k, scale6, min6);
    case DType::kQ5_K: return super_blocks<BlockQ5_K>(row, q, code_q5_k, scale6, min6);
    case DType::kQ2_K:
      return super_blocks<BlockQ2_K>(
          row, q, code_q2_k, [](const auto& b, int i) { return b.scales[i / 16] & 15; },
          [](const auto& b, int i) { return b.scales[i / 16] >> 4; });
    case DType::kQ3_K:
      return super_blocks<BlockQ3_K>(
          row, q, code_q3_k, [](const auto& b, int i) { return scale_q3_k(b.scales, i / 16); },
          none);
    default:
      return super_blocks<BlockQ6_K>(
          row, q, code_q6_k, [](const auto& b, int i) { return int{b.scales[i / 16]}; }, none);
  }
}

/// Returns one output: the product of `row` of a weight with activations x.
inline float contract(DType type, const std::byte* row, const std::vector<float>& x, bool exact,
                      bool quantises_residual = false) {
  if (exact || !info(type).quantized) {
    std::vector<float> w(x.size());
    decode(type, {row, byte_size(type, static_cast<int64_t>(x.size()))}, w);
    if (type == DType::kBF16 && !exact) return bf16_pairs(w, x);
    float y = 0;
    for (size_t k = 0; k < x.size(); ++k) y = std::fma(x[k], w[k], y);
    return y;
  }
  const size_t block = is_super(type) ? 256 : 32;
  const auto product = [&](const std::vector<float>& values) {
    QuantisedRow q = quantise(values, block);
    if (block == 32) add_residual(values, q, /*outliers=*/!quantises_residual);
    return quantised_product(type, row, q);
  };
  return quantises_residual ? product(x) + product(left_over(x, block)) : product(x);
}

/// Returns x / rms(x) * weight with the order of row-inl.h: four accumulators of 16 lanes.
inline std::vector<float> normed(const std::vector<float>& x, const float* weight, float eps) {
  float part[4][16] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t block = x.size() / 64 * 64;
    float& p = i < block ? part[i % 64 / 16][i % 16] : part[(i - block) / 16][i % 16];
    p = std::fma(x[i], x[i], p);
  }
  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = (part[0][i] + part[1][i]) + (part[2][i] + part[3][i]);
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) lane[i] += lane[i + step];
  const float inverse = 1 / std::sqrt(lane[0] / static_cast<float>(x.size()) + eps);
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * inverse * weight[i];
  return out;
}

}  // namespace veery::test
