// panel_layout-inl.h: memory layout of panels made of blocks of 32 columns (panels/panels.h).
//
// Every layout class has:
//   Panel                          the position of a panel or of a unit in it
//   open(parts)                    a Panel from the pointers that a DirectFn gets
//   blocks                         blocks of 32 columns per unit
//   next(w), block(w, i)           the next unit; the codes of block i of a unit
//   codes(w, b), scale(w, b, part), bias(w, b)   the same for block b of a panel
//   fetch(w, ahead)                prefetches the unit `ahead` bytes after w
#if defined(VEERY_KERNELS_CPU_CODEC_PANEL_LAYOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_CODEC_PANEL_LAYOUT_INL_H
#undef VEERY_KERNELS_CPU_CODEC_PANEL_LAYOUT_INL_H
#else
#define VEERY_KERNELS_CPU_CODEC_PANEL_LAYOUT_INL_H
#endif

#include "kernels/cpu/codec/panel_types-inl.h"
#include "kernels/cpu/panels/split_panels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

HWY_INLINE const uint8_t* bytes_of(const std::byte* p) {
  return reinterpret_cast<const uint8_t*>(p);
}

template <typename T>
constexpr int kScalesOf = [] {
  if constexpr (requires { T::kScales; }) return T::kScales;
  return 1;
}();

/// Returns scale `part` of a block of 32.
template <typename T>
HWY_INLINE F32 scale_of(const uint8_t* w, int part) {
  if constexpr (requires { T::scale(w, part); })
    return T::scale(w, part);
  else if constexpr (requires { T::scale(w); })
    return T::scale(w);
  else
    return load_f16(w + T::kScale);
}

/// Units of one block of 32.
template <typename T>
struct BlockLayout {
  static constexpr bool kBias = T::kMin != 0;
  static constexpr int kScales = kScalesOf<T>;
  static constexpr int blocks = 1, unit = panel_format(T::kType).unit;
  using Panel = const uint8_t*;

  static HWY_INLINE Panel open(const std::byte* const* parts) { return bytes_of(*parts); }
  static HWY_INLINE Panel next(Panel w) { return w + unit; }
  static HWY_INLINE Panel block(Panel w, int) { return w; }
  static HWY_INLINE void fetch(Panel w, int64_t ahead) { prefetch(w, ahead, unit); }
  static HWY_INLINE const uint8_t* codes(Panel panel, int64_t block) {
    return panel + block * unit;
  }
  static HWY_INLINE F32 scale(Panel panel, int64_t block, int part = 0) {
    return scale_of<T>(panel + block * unit, part);
  }
  static HWY_INLINE F32 bias(Panel panel, int64_t block) {
    return load_f16(panel + block * unit + T::kMin);
  }
};

/// Loads 16 scales or biases of affine groups.
HWY_INLINE F32 load_affine(const uint8_t* at, DType type) {
  if (type == DType::kF16) return load_f16(at);
  return type == DType::kBF16 ? load_bf16(at) : load(reinterpret_cast<const float*>(at));
}
/// Units of one affine group, which has `blocks` blocks of 32.
struct AffineLayout {
  static constexpr bool kBias = true;
  static constexpr int kScales = 1;
  using Panel = const uint8_t*;

  explicit AffineLayout(const AffineFormat& f)
      : blocks(f.group / 32),
        bytes(64 * f.bits),
        bias_at(kLanes * f.scale_bytes()),
        unit(kLanes * f.bytes()),
        type(f.scale) {}

  static HWY_INLINE Panel open(const std::byte* const* parts) { return bytes_of(*parts); }
  HWY_INLINE Panel next(Panel w) const { return w + unit; }
  HWY_INLINE Panel block(Panel w, int i) const { return w + i * bytes; }
  HWY_INLINE void fetch(Panel w, int64_t ahead) const { prefetch(w, ahead, unit); }
  HWY_INLINE const uint8_t* codes(Panel panel, int64_t block) const {
    return panel + block / blocks * unit + block % blocks * bytes;
  }
  HWY_INLINE F32 scale(Panel panel, int64_t block, int = 0) const {
    return load_affine(scales(panel, block), type);
  }
  HWY_INLINE F32 bias(Panel panel, int64_t block) const {
    return load_affine(scales(panel, block) + bias_at, type);
  }

  int blocks;   ///< blocks of 32 per unit
  int bytes;    ///< bytes of the codes of a block
  int bias_at;  ///< offset of the biases from the scales
  int unit;     ///< bytes of a unit
  DType type;

 private:
  HWY_INLINE const uint8_t* scales(Panel panel, int64_t block) const {
    return panel + block / blocks * unit + blocks * bytes;
  }
};

/// The three parts of a panel (panels/split_panels.h).
struct SplitParts {
  const uint8_t* upper;
  const uint8_t* middle;
  const uint8_t* lower;
};
/// Five-bit codes from the upper and middle parts.
struct PanelSplitQ5 {
  static constexpr int kOffset = 16;
  template <int J>
  static HWY_INLINE void vectors(const SplitParts& w, I32& low, I32& high) {
    nibbles<J>(w.upper, low, high);
    const I32 fifth = load_int(w.middle);
    low = bit_or(shl16<1>(low), move_bits<J, 0>(fifth, 1));
    high = bit_or(shl16<1>(high), move_bits<J + 4, 0>(fifth, 1));
  }
};
/// Eight-bit codes from all three parts.
struct PanelSplitQ8_0 {
  static constexpr int kOffset = 128;
  template <int J>
  static HWY_INLINE void vectors(const SplitParts& w, I32& low, I32& high) {
    I32 low_bits;
    I32 high_bits;
    PanelSplitQ5::vectors<J>(w, low, high);
    PanelAffine<SplitPanels::kLowerBits>::vectors<J>(w.lower, low_bits, high_bits);
    low = bit_or(shl16<SplitPanels::kLowerBits>(low), low_bits);
    high = bit_or(shl16<SplitPanels::kLowerBits>(high), high_bits);
  }
};
/// Layout of split panels (split_panels.h). Reads the first kParts parts, 2 or 3.
template <int kParts>
struct SplitLayout {
  static constexpr bool kBias = false;
  static constexpr int kScales = 1;
  static constexpr int blocks = 1;
  using Panel = SplitParts;

  static HWY_INLINE Panel open(const std::byte* const* parts) {
    return {bytes_of(parts[0]), bytes_of(parts[1]), kParts > 2 ? bytes_of(parts[2]) : nullptr};
  }
  static HWY_INLINE Panel codes(const Panel& panel, int64_t block) {
    return {panel.upper + block * SplitPanels::kUpper, panel.middle + block * SplitPanels::kMiddle,
            panel.lower + block * SplitPanels::kLower};
  }
  static HWY_INLINE Panel next(const Panel& w) { return codes(w, 1); }
  static HWY_INLINE Panel block(const Panel& w, int) { return w; }
  static HWY_INLINE void fetch(const Panel& w, int64_t ahead) {
    prefetch(w.upper, ahead, SplitPanels::kUpper);
    prefetch(w.middle, ahead, SplitPanels::kMiddle);
    if constexpr (kParts > 2) prefetch(w.lower, ahead, SplitPanels::kLower);
  }
  static HWY_INLINE F32 scale(const Panel& panel, int64_t block, int = 0) {
    return load_f16(panel.upper + block * SplitPanels::kUpper + SplitPanels::kScale);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_CODEC_PANEL_LAYOUT_INL_H
