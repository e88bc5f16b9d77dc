// amx_panels-inl.h: expands packed panels (panels.h) into tiles of int8 or bf16. AVX-512 only.
#if defined(VEERY_KERNELS_CPU_AMX_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_AMX_PANELS_INL_H
#undef VEERY_KERNELS_CPU_AMX_PANELS_INL_H
#else
#define VEERY_KERNELS_CPU_AMX_PANELS_INL_H
#endif

#include <bit>
#include <type_traits>

#include "kernels/cpu/codec/panel_layout-inl.h"
#include "kernels/cpu/tiles/amx_memory.h"
#include "kernels/cpu/tiles/amx_rows-inl.h"

// A bf16 tile has 32 columns of the 16 rows of a panel: row p, lane n of the tile is a pair of
// columns of panel row n. Four columns k to k + 3, which share a lane in the packed layout, become
// the pairs (k, k + 2) and (k + 1, k + 3), because one shift separates these.

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE I32 even_bytes(I32 v) { return bit_and(v, set(int32_t{0x00ff00ff})); }
HWY_INLINE I32 odd_bytes(I32 v) { return shr16<8>(v); }
HWY_INLINE I32 sub16(I32 a, I32 b) { return {_mm512_sub_epi16(a.v, b.v)}; }
HWY_INLINE I32 mul16(I32 a, I32 b) { return {_mm512_mullo_epi16(a.v, b.v)}; }
HWY_INLINE I32 every_word(int value) { return {_mm512_set1_epi16(static_cast<int16_t>(value))}; }

/// Converts pairs of int16 with up to 8 significant bits to pairs of bf16.
HWY_INLINE I32 bf16_pairs(I32 v) {
  return pack_bf16(to_float(sar<16>(shl<16>(v))), to_float(sar<16>(v)));
}
/// A lookup table from the low 5 (n = 32) or 6 (n = 64) bits of an int16 to bf16.
template <int n>
struct alignas(64) Bf16Table {
  uint16_t value[n];

  constexpr Bf16Table(int first, int step) : value() {
    for (int i = 0; i < n; ++i)
      value[i] = static_cast<uint16_t>(
          std::bit_cast<uint32_t>(static_cast<float>(first + i * step)) >> 16);
  }
  HWY_INLINE I32 operator()(I32 v) const {
    if constexpr (n == 32)
      return {_mm512_permutexvar_epi16(v.v, load_int(value).v)};
    else
      return {_mm512_permutex2var_epi16(load_int(value).v, v.v, load_int(value + 32).v)};
  }
};

// Writes rows kRow and kRow + 4 of the int8 tile of a block of 32. Row j has columns 4 j to 4 j + 3
// of the 16 panel rows, as in the packed layout.
template <typename T, int kRow>
HWY_INLINE void expand_rows(const auto& w, std::byte* out) {
  I32 low;
  I32 high;
  T::template vectors<kRow>(w, low, high);
  if constexpr (T::kOffset != 0) {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(T::kOffset));
    low = {_mm512_sub_epi8(low.v, offset)};
    high = {_mm512_sub_epi8(high.v, offset)};
  }
  store_int(out + 64 * kRow, low);
  store_int(out + 64 * (kRow + 4), high);
}
template <typename T>
HWY_INLINE void expand_codes(const auto& w, std::byte* out) {
  expand_rows<T, 0>(w, out);
  expand_rows<T, 1>(w, out);
  expand_rows<T, 2>(w, out);
  expand_rows<T, 3>(w, out);
}
/// Expands blocks [first, first + blocks) of a panel: a tile and d for each.
template <typename T, typename PanelLayout>
HWY_INLINE void expand_blocks(const PanelLayout& at, const typename PanelLayout::Panel& panel,
                              int64_t first, int64_t blocks, std::byte* out) {
  for (int64_t b = first; b < first + blocks; ++b, out += kByteUnit) {
    expand_codes<T>(at.codes(panel, b), out);
    store(reinterpret_cast<float*>(out + kByteTile), at.scale(panel, b));
  }
}
/// The same for affine groups.
template <typename T>
HWY_NOINLINE void expand_affine(const AffineFormat& format, const uint8_t* panel, int64_t first,
                                int64_t blocks, std::byte* out) {
  expand_blocks<T>(AffineLayout(format), panel, first, blocks, out);
}

// Weights times their integer scales are integers w of up to 13 bits. The sum of 256 products with
// activations up to 127 * 8 needs 31 bits, but f32 adds integers exactly only up to 2^24. Hence
// there are two exact partial sums; their sum, rounded once, is float(t) of the contract
// (linear.h).
enum class Split : uint8_t {
  kPlanes,  ///< w = step * high + low, low >= 0: two tiles per strip, one sum for each
  kHalves,  ///< w has 8 bits: one tile per strip; one sum for strips 0 to 3, one for 4 to 7
};
constexpr double kExactSum = 1 << 24;
constexpr double kLargestActivation = 127 * 8;
constexpr bool is_exact(int elements, int largest) {
  return elements * largest * kLargestActivation <= kExactSum;
}
static_assert(is_exact(256, 64));                           // kPlanes: low and high are up to 64
static_assert(is_exact(128, 128));                          // kHalves
static_assert(16 * 63 * (127.0 * 128 + 256) <= kExactSum);  // minima, amx_rows.h

template <typename T>
constexpr Split kSplit =
    T::kType == DType::kQ2_K || T::kType == DType::kQ3_K || T::kScales == 0 ? Split::kHalves
                                                                            : Split::kPlanes;

// Stores pairs of w (weights times scales) as a row of a tile or, for kPlanes, of two tiles.
template <typename T>
HWY_INLINE void put_products(I32 w, std::byte* out) {
  if constexpr (T::kType == DType::kQ4_K) {  // up to 15 * 63
    static constexpr Bf16Table<32> kLow(0, 1);
    static constexpr Bf16Table<32> kHigh(0, 32);
    store_int(out, kHigh(shr16<5>(w)));
    store_int(out + kTileBytes, kLow(w));
  } else if constexpr (T::kType == DType::kQ5_K) {  // up to 31 * 63
    static constexpr Bf16Table<64> kLow(0, 1);
    static constexpr Bf16Table<32> kHigh(0, 64);
    store_int(out, kHigh(shr16<6>(w)));
    store_int(out + kTileBytes, kLow(w));
  } else if constexpr (T::kType == DType::kQ2_K) {  // up to 3 * 15
    static constexpr Bf16Table<64> kValues(0, 1);
    store_int(out, kValues(w));
  } else if constexpr (kSplit<T> == Split::kPlanes) {  // within +-4096; low from 1 to 64
    static constexpr Bf16Table<64> kLow(1, 1);
    static constexpr Bf16Table<64> kPositive(0, 64);
    static constexpr Bf16Table<64> kNegative(-4096, 64);
    const I32 v = sub16(w, every_word(1));
    const I32 high = shr16<6>(v);
    store_int(out, {_mm512_mask_blend_epi16(_mm512_movepi16_mask(v.v), kPositive(high).v,
                                            kNegative(high).v)});
    store_int(out + kTileBytes, kLow(v));
  } else {
    store_int(out, bf16_pairs(w));
  }
}

// Expands four columns of 16 rows. `scale` has the int16 scale twice in each lane.
template <typename T>
HWY_INLINE void put_weights(I32 v, I32 scale, std::byte* out) {
  I32 even = even_bytes(v);
  I32 odd = odd_bytes(v);
  if constexpr (T::kOffset != 0) {
    even = sub16(even, every_word(T::kOffset));
    odd = sub16(odd, every_word(T::kOffset));
  }
  put_products<T>(mul16(even, scale), out);
  put_products<T>(mul16(odd, scale), out + 64);
}

/// Returns a T, with the code book of kType if T needs one.
template <typename T, DType kType>
HWY_INLINE T panel_type() {
  if constexpr (std::is_base_of_v<Coded, T>)
    return with_book<T>(kBook<kType>);
  else
    return T();
}

/// Expands a block of 256: the tiles of each strip, then d.
template <typename T, DType kType>
void expand_super(const std::byte* packed, std::byte* out) {
  const T t = panel_type<T, kType>();
  constexpr int kParts = 32 / T::kSub;
  constexpr int kPlanes = kSplit<T> == Split::kPlanes ? 2 : 1;
  const auto* w = reinterpret_cast<const uint8_t*>(packed);
  for (int h = 0; h < 2; ++h) {
    I32 scale[kParts][4];
    for (int part = 0; part < kParts; ++part) {
      const I32 scales = load_int(w + T::kScales + 64 * (h * kParts + part));
      unroll<4>([&](auto s) {
        const I32 x = T::template scale<s()>(scales);
        scale[part][s()] = bit_or(bit_and(x, set(int32_t{0xffff})), shl<16>(x));
      });
    }
    unroll<8>([&](auto j) {
      I32 v[4];
      t.template strips<j()>(w, h, v);
      for (int s = 0; s < 4; ++s)
        put_weights<T>(v[s], scale[j() / (T::kSub / 4)][s],
                       out + (4 * h + s) * kPlanes * kTileBytes + 128 * j());
    });
  }
  store(reinterpret_cast<float*>(out + kSuperTiles * kTileBytes), d_of(t, w));
}

/// Expands the minima of all blocks of 256: for each a tile, whose pair p is twice the minimum of
/// columns 16 p to 16 p + 15, and dmin.
template <typename T>
void expand_mins(const std::byte* const* packed, int64_t cols, std::byte* out) {
  constexpr int kParts = 32 / T::kSub;
  const auto* w = bytes_of(*packed);
  for (int64_t b = 0; b < cols / 256; ++b) {
    const auto put = [&](int p, I32 min) {
      const I32 both = pack_bf16(to_float(min), to_float(min));
      for (int i = 0; i < 2 / kParts; ++i) store_int(out + (p + i) * 64, both);
    };
    for (int h = 0; h < 2; ++h)
      for (int part = 0; part < kParts; ++part) {
        const I32 mins = load_int(w + T::kMins + 64 * (h * kParts + part));
        const I32 even = T::even_mins(mins);
        const I32 odd = T::odd_mins(mins);
        const int p = 8 * h + part;
        put(p, bit_and(even, set(int32_t{0xffff})));
        put(p + 2, bit_and(odd, set(int32_t{0xffff})));
        put(p + 4, shr<16>(even));
        put(p + 6, shr<16>(odd));
      }
    store(reinterpret_cast<float*>(out + kTileBytes), load_f16(w + T::kDmin));
    w += panel_format(T::kType).unit;
    out += kTileUnit;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_AMX_PANELS_INL_H
