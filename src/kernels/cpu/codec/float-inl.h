// float-inl.h: f32 microkernels: sequential accumulation by fma, one column after the other
// (linear.h).
#if defined(VEERY_KERNELS_CPU_CODEC_FLOAT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_CODEC_FLOAT_INL_H
#undef VEERY_KERNELS_CPU_CODEC_FLOAT_INL_H
#else
#define VEERY_KERNELS_CPU_CODEC_FLOAT_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/codec/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Default members of the panel types below.
struct FloatDefaults {
  static constexpr Activations kActivations = Activations::kFloat;
  struct Scale {};
  struct Mode {};  // constructed during a product: may change the floating-point mode of the CPU
  static HWY_INLINE Scale scale(const uint8_t*) { return {}; }
  static HWY_INLINE const float* activations(const ActivationGroup& g) { return g.values; }
  static HWY_INLINE F32 add_product(F32 sum, F32 of_row, F32 value) {
    return fma(of_row, value, sum);
  }
};

// A panel type: blocks of kBlock columns in kUnit bytes. A block holds its elements, in 64-byte
// vectors of kStep columns, then the scales of the 16 rows, if any. A vector takes kTerms
// accumulation steps.
template <DType kType>
struct PanelFloat : FloatDefaults {
  static constexpr int kBlock = 1, kStep = 1, kTerms = 1, kUnit = panel_format(kType).unit;
  static HWY_INLINE F32 vector(const uint8_t* w) {
    if constexpr (kType == DType::kF16)
      return load_f16(w);
    else
      return load(reinterpret_cast<const float*>(w));
  }
  template <int i>
  static HWY_INLINE F32 value(F32 v, Scale) {
    return v;
  }
};

// Multiplies P panels with rows [from, from + R) of a group of S rows, columns `part`. The first
// part starts the sums at 0; later parts continue those in y, which is [P][kGroupRows][16].
template <typename T, int P, int R, int S = R>
HWY_INLINE void multiply(const std::byte* const* panels, const ActivationGroup& g, Share part,
                         Prefetch ahead, float* y, int from = 0) {
  constexpr int kVectors = T::kBlock / T::kStep;
  constexpr int kLine = T::kUnit < 64 ? 64 / T::kUnit : 1;  // blocks per cache line
  [[maybe_unused]] const typename T::Mode mode;
  const int64_t first = part.begin / T::kBlock;
  const int64_t blocks = (part.end + T::kBlock - 1) / T::kBlock - first;
  y += from * 16;
  const uint8_t* w[P];
  F32 acc[P][R];
  for (int p = 0; p < P; ++p) {
    w[p] = reinterpret_cast<const uint8_t*>(panels[p]) + first * T::kUnit;
    for (int r = 0; r < R; ++r)
      acc[p][r] = first == 0 ? zero() : load(y + (p * kGroupRows + r) * 16);
  }
  const auto* x = T::activations(g) + first * kVectors * T::kTerms * S + from;
  const int64_t size = blocks * T::kUnit;
  const int64_t near = std::min(ahead.distance / P, size);
  const int64_t switch_at =
      (size - near) / T::kUnit;  // from this block on, prefetch the next panels
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t to = b < switch_at ? near : near + ahead.skip;
    decltype(T::scale(nullptr)) scale[P];
    for (int p = 0; p < P; ++p) {
      if (near != 0 && T::kUnit > 64) prefetch(w[p] + 64 * kVectors, to, 64);
      scale[p] = T::scale(w[p]);
    }
    for (int j = 0; j < kVectors; ++j, x += T::kTerms * S) {
      decltype(T::vector(nullptr)) v[P];
      for (int p = 0; p < P; ++p) {
        if (near != 0 && b % kLine == 0) prefetch(w[p] + 64 * j, to, 64);
        v[p] = T::vector(w[p] + 64 * j);
      }
      unroll<T::kTerms>([&](auto i) {
        decltype(T::template value<0>(v[0], scale[0])) value[P];
        for (int p = 0; p < P; ++p) value[p] = T::template value<i()>(v[p], scale[p]);
        for (int r = 0; r < R; ++r) {
          const auto of_row = set(x[i() * S + r]);
          for (int p = 0; p < P; ++p) acc[p][r] = T::add_product(acc[p][r], of_row, value[p]);
        }
      });
    }
    for (int p = 0; p < P; ++p) w[p] += T::kUnit;
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) store(y + (p * kGroupRows + r) * 16, acc[p][r]);
}

template <typename T, int P, int R>
void multiply_all(const std::byte* const* panels, const ActivationGroup& g, int64_t cols,
                  Prefetch ahead, float* y) {
  multiply<T, P, R>(panels, g, {0, cols}, ahead, y);
}
// Without enough registers for the sums of a full group (kPairs), halves of it are multiplied in
// turn.
template <typename T>
void tile(const std::byte* panel, const ActivationGroup& g, int64_t cols, float* y) {
  if constexpr (kPairs) return multiply<T, 1, kGroupRows>(&panel, g, {0, cols}, {}, y);
  constexpr int kHalf = kGroupRows / 2;
  for (const int from : {0, kHalf})
    multiply<T, 1, kHalf, kGroupRows>(&panel, g, {0, cols}, {}, y, from);
}
template <typename T>
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g, int64_t,
               Share part, float* y) {
  const std::byte* const panels[2] = {first, second};
  multiply<T, 2, kGroupRows>(panels, g, part, {}, y);
}

// Microkernels for few rows. The accumulators of one panel alone would be bound by the latency of
// fma, so two panels are multiplied at once. For columns of two bytes or more, further panels would
// only add memory streams.
template <typename T>
constexpr PanelKernels few_rows() {
  PanelKernels k;
  k.activations = T::kActivations;
  k.direct[0][0] = multiply_all<T, 1, 1>;
  k.direct[0][1] = multiply_all<T, 1, 2>;
  k.direct[0][2] = multiply_all<T, 1, 4>;
  k.direct[1][0] = multiply_all<T, 2, 1>;
  k.direct[1][1] = multiply_all<T, 2, 2>;
  if (kPairs) k.direct[1][2] = multiply_all<T, 2, 4>;
  return k;
}
// Sets the microkernels for full groups. `T` is the type of the expanded panels.
template <typename T>
constexpr void set_tiles(PanelKernels& k) {
  constexpr int64_t kCached = 32 << 10;  // bytes of two panels in the L1 cache
  k.tile = tile<T>;
  if (kPairs) k.pair = tile_pair<T>;
  k.most_columns = kCached / 2 * T::kBlock / T::kUnit;
}
template <typename T>
constexpr PanelKernels kernels() {
  PanelKernels k = few_rows<T>();
  set_tiles<T>(k);
  return k;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_CODEC_FLOAT_INL_H
