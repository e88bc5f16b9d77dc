// kernel_key.h: typed descriptors, by which launches choose kernels.
#pragma once
#include <cstdint>

#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/scan_smem.h"

namespace veery::gpu {

/// The families of kernels: one per operation and method.
enum class Family : uint8_t {
  kSingle,  ///< kernels without variants, which are launched by their KernelId
  kGemv,
  kGemmDirect,
  kGemmSkinny,
  kGemmMma,
  kGemmWgmma,
  kGemmExact,
  kGemvSimdgroup,
  kGemmSimdgroup,
  kQuantizeGroups,
  kExpertsGemv,
  kExpertsGemm,
  kExpertsExact,
  kAttendSplit,
  kAttendMerge,
  kAttendRows,
  kAttendDecode,
  kAttendPrefill,
  kAttendRagged,
  kAttendFlash,
  kAttendGeneralSplit,
  kAttendGeneralMerge,
  kAttendGeneralRows,
  kScan,
};

/// The number of activation rows (or pairs of row and expert) that a kernel multiplies at a time,
/// in families that have kernels for several.
enum class RowClass : uint8_t { kAny, kOne, kEight, kSixteen, kThirtyTwo, kMany };

/// Element type of the KV cache, and whether tensor cores multiply it.
enum class CacheType : uint8_t { kBF16, kF16, kF32, kBF16Mma };

/// Identifies one kernel. Made by the functions of namespace `key`.
struct KernelKey {
  Family family = Family::kSingle;
  uint8_t format = 0;  ///< WeightFormat, ActivationKind, CacheType or ScanKind, by family
  RowClass rows = RowClass::kAny;
  uint8_t variant = 0;  ///< distinguishes further kernels of a family

  friend constexpr bool operator==(const KernelKey&, const KernelKey&) = default;
};

namespace key {

constexpr KernelKey of(Family family, int format, RowClass rows, int variant) {
  return {family, static_cast<uint8_t>(format), rows, static_cast<uint8_t>(variant)};
}

// Products

constexpr KernelKey single() { return {}; }
/// `residual`: for rows with residual quantisation.
constexpr KernelKey gemv(WeightFormat format, bool residual) {
  return of(Family::kGemv, format, RowClass::kOne, residual);
}
constexpr KernelKey gemm_direct(WeightFormat format, bool gated) {
  return of(Family::kGemmDirect, format, RowClass::kEight, gated);
}
constexpr KernelKey gemm_skinny(WeightFormat format, bool two_groups) {
  return of(Family::kGemmSkinny, format, two_groups ? RowClass::kSixteen : RowClass::kEight, 0);
}
/// `small`: a small tile, for products with fewer large tiles than SMs.
constexpr KernelKey gemm_mma(WeightFormat format, bool small) {
  return of(Family::kGemmMma, format, RowClass::kMany, small);
}
constexpr KernelKey gemm_wgmma(WeightFormat format, bool split_k) {
  return of(Family::kGemmWgmma, format, split_k ? RowClass::kThirtyTwo : RowClass::kMany, 0);
}
/// `bf16`: in the order of bf16 pairs; otherwise weights of any format.
constexpr KernelKey gemm_exact(bool one_row, bool bf16) {
  return of(Family::kGemmExact, 0, one_row ? RowClass::kOne : RowClass::kMany, bf16);
}
constexpr KernelKey gemv_simdgroup(WeightFormat format, bool gated) {
  return of(Family::kGemvSimdgroup, format, RowClass::kOne, gated);
}
constexpr KernelKey gemm_simdgroup(WeightFormat format, bool gated) {
  return of(Family::kGemmSimdgroup, format, RowClass::kMany, gated);
}
constexpr KernelKey quantize_x_groups(ActivationKind kind) {
  return of(Family::kQuantizeGroups, static_cast<int>(kind), RowClass::kMany, 0);
}

// Experts

constexpr KernelKey experts_gemv(WeightFormat format, bool gated) {
  return of(Family::kExpertsGemv, format, RowClass::kOne, gated);
}
/// `rows`: pairs of a group, kEight or kThirtyTwo.
constexpr KernelKey experts_gemm(WeightFormat format, RowClass rows, bool gated) {
  return of(Family::kExpertsGemm, format, rows, gated);
}
/// `bf16`: as in gemm_exact().
constexpr KernelKey experts_exact(bool bf16) {
  return of(Family::kExpertsExact, 0, RowClass::kMany, bf16);
}

// Attention

/// Families that read the cache as it is stored. `wide`: values of more than 128 dimensions.
constexpr KernelKey attend(Family family, CacheType type, bool wide) {
  return of(family, static_cast<int>(type), RowClass::kAny, wide);
}
/// `wide`: values of more than 64 dimensions.
constexpr KernelKey attend_prefill(CacheType type, bool wide) {
  return of(Family::kAttendPrefill, static_cast<int>(type), RowClass::kMany, wide);
}
/// `dim`: that of keys and values, 64 or 128; 0: any.
constexpr KernelKey attend_prefill_mma(int dim) {
  return of(Family::kAttendPrefill, static_cast<int>(CacheType::kBF16Mma), RowClass::kMany, dim);
}
constexpr KernelKey attend_flash(int dim) {
  return of(Family::kAttendFlash, static_cast<int>(CacheType::kBF16), RowClass::kMany, dim);
}
/// Variants of attend_general: the most dimensions of values, and whether subnormal numbers are
/// flushed to 0, as in bf16 products.
enum class GeneralForm : uint8_t { k256, k256Flushed, k512, k512Flushed, kLatent };
constexpr KernelKey attend_general(Family family, GeneralForm form) {
  return of(family, 0, RowClass::kAny, static_cast<int>(form));
}

/// `chain`: ScanSmem::chain.
constexpr KernelKey scan(ScanKind kind, int chain) {
  return of(Family::kScan, static_cast<int>(kind), RowClass::kAny, chain);
}

}  // namespace key
}  // namespace veery::gpu
