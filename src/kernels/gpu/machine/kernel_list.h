// kernel_list.h: the one list of kernels, from which the entry points of CUDA (kernels.cu), Metal
// (kernels.metal) and the emulator, the ids of kernels and their descriptors (kernels.h) are made.
#pragma once

// X(name, parameters, most threads of a block, least blocks of an SM, descriptor, function)
//
// The least number of thread blocks that an SM is to hold bounds the registers of a thread. 0
// leaves them to nvcc, which then spares registers, even by spilling, if one block has all shared
// memory.

// Products

#define VEERY_GPU_GEMM_DIRECT(X, name, format)                                    \
  X(gemm_direct_##name, GemmParams, 128, 0, key::gemm_direct(format, false),      \
    (gemm_direct<format, 1, 1, false>))                                           \
  X(gemm_direct_gated_##name, GemmParams, 128, 0, key::gemm_direct(format, true), \
    (gemm_direct<format, 1, 1, true>))
#define VEERY_GPU_GEMM_SKINNY(X, name, format)                                             \
  X(gemm_skinny_8_##name, GemmParams, (veery::gpu::GemmSkinnySmem::max_threads(false)), 1, \
    key::gemm_skinny(format, false), (gemm_skinny<format, false>))                         \
  X(gemm_skinny_16_##name, GemmParams, (veery::gpu::GemmSkinnySmem::max_threads(true)), 1, \
    key::gemm_skinny(format, true), (gemm_skinny<format, true>))
#define VEERY_GPU_GEMM_MMA(X, name, format, least_blocks)                                      \
  X(gemm_mma_##name, GemmParams, (veery::gpu::gemm_mma_sm_threads(veery::gpu::format, false)), \
    least_blocks, key::gemm_mma(format, false), (gemm_mma<format, false>))                     \
  X(gemm_mma_small_##name, GemmParams,                                                         \
    (veery::gpu::gemm_mma_sm_threads(veery::gpu::format, true)), least_blocks,                 \
    key::gemm_mma(format, true), (gemm_mma<format, true>))
#define VEERY_GPU_GEMV(X, name, format)                                                     \
  X(gemv_##name, GemmParams, (veery::gpu::GemvSmem::kThreads), 1, key::gemv(format, false), \
    (gemv<format, 1>))                                                                      \
  X(gemv_residual_##name, GemmParams, (veery::gpu::GemvSmem::kThreads), 1,                  \
    key::gemv(format, true), (gemv<format, 2>))
#define VEERY_GPU_QUANTIZED(X, name, format) \
  VEERY_GPU_GEMV(X, name, format)            \
  VEERY_GPU_GEMM_SKINNY(X, name, format)     \
  VEERY_GPU_GEMM_MMA(X, name, format, 0)
#define VEERY_GPU_BF16(X)                                                                    \
  X(gemv_bf16, GemmParams, (veery::gpu::GemvSmem::kBf16Threads), 1, key::gemv(kBF16, false), \
    (gemv<kBF16, 1>))                                                                        \
  VEERY_GPU_GEMM_DIRECT(X, bf16, kBF16)                                                      \
  VEERY_GPU_GEMM_SKINNY(X, bf16, kBF16)                                                      \
  VEERY_GPU_GEMM_MMA(X, bf16, kBF16, 1)
#define VEERY_GPU_QUANTIZE_GROUPS(X, name, kind, least_blocks)                           \
  X(quantize_x_groups_##name, QuantizeXGroupsParams,                                     \
    (32 * veery::gpu::QuantizeXGroupsSmem::max_warps(veery::gpu::ActivationKind::kind)), \
    least_blocks, key::quantize_x_groups(ActivationKind::kind),                          \
    (quantize_x_groups<ActivationKind::kind>))

// Experts

#define VEERY_GPU_EXPERTS_GEMM(X, name, format)                                               \
  X(experts_gemm_8_##name, ExpertGemmParams, 128, 0,                                          \
    key::experts_gemm(format, RowClass::kEight, false), (experts_gemm<format, 1, false>))     \
  X(experts_gemm_8_gated_##name, ExpertGemmParams, 128, 0,                                    \
    key::experts_gemm(format, RowClass::kEight, true), (experts_gemm<format, 1, true>))       \
  X(experts_gemm_32_##name, ExpertGemmParams, 128, 0,                                         \
    key::experts_gemm(format, RowClass::kThirtyTwo, false), (experts_gemm<format, 4, false>)) \
  X(experts_gemm_32_gated_##name, ExpertGemmParams, 128, 0,                                   \
    key::experts_gemm(format, RowClass::kThirtyTwo, true), (experts_gemm<format, 4, true>))
#define VEERY_GPU_EXPERTS_GEMV(X, name, format)                                             \
  X(experts_gemv_##name, ExpertGemmParams, (veery::gpu::GemvSmem::kExpertThreads), 2,       \
    key::experts_gemv(format, false), (experts_gemv<format, 1>))                            \
  X(experts_gemv_gated_##name, ExpertGemmParams, (veery::gpu::GemvSmem::kExpertThreads), 2, \
    key::experts_gemv(format, true), (experts_gemv<format, 2>))

// Attention

#define VEERY_GPU_ATTEND(X, name, type, cache, dims)                                           \
  X(attend_split_##name##_##dims, AttendParams, 128, 0,                                        \
    key::attend(Family::kAttendSplit, CacheType::cache, dims > 1), (attend_split<type, dims>)) \
  X(attend_rows_##name##_##dims, AttendParams, 128, 0,                                         \
    key::attend(Family::kAttendRows, CacheType::cache, dims > 1), (attend_rows<type, dims>))
#define VEERY_GPU_ATTEND_DECODE(X, name, type, cache, dims)                             \
  X(attend_decode_##name##_##dims, AttendDecodeParams, (veery::gpu::kDecodeThreads), 0, \
    key::attend(Family::kAttendDecode, CacheType::cache, dims > 1), (attend_decode<type, dims>))
#define VEERY_GPU_ATTEND_MERGE(X, name, type, cache, dims) \
  X(attend_merge_##name##_##dims, AttendParams, 64, 0,     \
    key::attend(Family::kAttendMerge, CacheType::cache, dims > 1), (attend_merge<type, dims>))
#define VEERY_GPU_ATTEND_PREFILL(X, name, type, cache)                                             \
  X(attend_prefill_##name##_4, AttendParams, 256, 0, key::attend_prefill(CacheType::cache, true),  \
    (attend_prefill<type, 4>))                                                                     \
  X(attend_prefill_##name##_2, AttendParams, 256, 0, key::attend_prefill(CacheType::cache, false), \
    (attend_prefill<type, 2>))                                                                     \
  X(attend_ragged_##name, AttendParams, 128, 0,                                                    \
    key::attend(Family::kAttendRagged, CacheType::cache, false), (attend_ragged<type>))
// bf16 caches by tensor cores, after products of bf16: Recorder::mma_attention.
#define VEERY_GPU_ATTEND_MMA(X)                                                                  \
  X(attend_split_mma, AttendParams, 128, 0,                                                      \
    key::attend(Family::kAttendSplit, CacheType::kBF16Mma, false), (attend_split<BF16Mma, 1>))   \
  X(attend_rows_mma, AttendParams, 128, 0,                                                       \
    key::attend(Family::kAttendRows, CacheType::kBF16Mma, false), (attend_rows<BF16Mma, 1>))     \
  X(attend_decode_mma, AttendDecodeParams, (veery::gpu::kDecodeThreads), 0,                      \
    key::attend(Family::kAttendDecode, CacheType::kBF16Mma, false), (attend_decode<BF16Mma, 1>)) \
  X(attend_ragged_mma, AttendParams, 128, 0,                                                     \
    key::attend(Family::kAttendRagged, CacheType::kBF16Mma, false), (attend_ragged<BF16Mma>))    \
  X(attend_prefill_mma_64, AttendParams, veery::gpu::kPrefillMmaThreads, 0,                      \
    key::attend_prefill_mma(64), (attend_prefill_mma<64, true>))                                 \
  X(attend_prefill_mma_128, AttendParams, veery::gpu::kPrefillMmaThreads, 0,                     \
    key::attend_prefill_mma(128), (attend_prefill_mma<128, true>))                               \
  X(attend_prefill_mma_any, AttendParams, veery::gpu::kPrefillMmaThreads, 0,                     \
    key::attend_prefill_mma(0), (attend_prefill_mma<128, false>))
#define VEERY_GPU_GENERAL(X, name, form, dims, flush, heads)                  \
  X(attend_general_split_##name, AttendGeneralParams, 128, 0,                 \
    key::attend_general(Family::kAttendGeneralSplit, key::GeneralForm::form), \
    (attend_general_split<dims, flush, heads>))                               \
  X(attend_general_merge_##name, AttendGeneralParams, 128, 0,                 \
    key::attend_general(Family::kAttendGeneralMerge, key::GeneralForm::form), \
    (attend_general_merge<dims, flush, heads>))                               \
  X(attend_general_rows_##name, AttendGeneralParams, 128, 0,                  \
    key::attend_general(Family::kAttendGeneralRows, key::GeneralForm::form),  \
    (attend_general_rows<dims, flush, heads>))
#define VEERY_GPU_ATTEND_GENERAL(X)                          \
  VEERY_GPU_GENERAL(X, 256, k256, 2, false, 4)               \
  VEERY_GPU_GENERAL(X, flushed_256, k256Flushed, 2, true, 4) \
  VEERY_GPU_GENERAL(X, 512, k512, 4, false, 4)               \
  VEERY_GPU_GENERAL(X, flushed_512, k512Flushed, 4, true, 4) \
  VEERY_GPU_GENERAL(X, latent, kLatent, 4, false, 8)

// Recurrences

#define VEERY_GPU_SCAN_OF(X, name, kind, chain)                           \
  X(scan_##name##_##chain, ScanParams, veery::gpu::ScanSmem::kThreads, 0, \
    key::scan(ScanKind::kind, chain), (scan<chain, ScanKind::kind>))
#define VEERY_GPU_SCAN(X, name, kind)  \
  VEERY_GPU_SCAN_OF(X, name, kind, 4)  \
  VEERY_GPU_SCAN_OF(X, name, kind, 16) \
  VEERY_GPU_SCAN_OF(X, name, kind, 32) \
  VEERY_GPU_SCAN_OF(X, name, kind, 64) \
  VEERY_GPU_SCAN_OF(X, name, kind, 128)

// F for each quantised weight format.
#define VEERY_GPU_EACH_QUANTIZED(F, X) \
  F(X, q8, kQ8)                        \
  F(X, q8m, kQ8M)                      \
  F(X, q4, kQ4)                        \
  F(X, q4m, kQ4M)                      \
  F(X, k4m, kK4M)                      \
  F(X, k8m, kK8M)                      \
  F(X, k8, kK8)                        \
  F(X, k8m16, kK8M16)                  \
  F(X, mxfp4, kMXFP4)                  \
  F(X, q4mw, kQ4MW)                    \
  F(X, q8mw, kQ8MW)                    \
  F(X, nvfp4, kNVFP4)

// F for each type of the cache, with values of up to 128 and up to 256 dimensions.
#define VEERY_GPU_EACH_CACHE(F, X) \
  F(X, bf16, BF16, kBF16, 1)       \
  F(X, bf16, BF16, kBF16, 2)       \
  F(X, f16, F16, kF16, 1)          \
  F(X, f16, F16, kF16, 2)          \
  F(X, f32, float, kF32, 1)        \
  F(X, f32, float, kF32, 2)

// Kernels without variants.
#define VEERY_GPU_SINGLE(X, name, parameters, threads) \
  X(name, parameters, threads, 0, key::single(), (name))
#define VEERY_GPU_SHARED_SINGLE(X)                                   \
  VEERY_GPU_SINGLE(X, embed, EmbedParams, 256)                       \
  VEERY_GPU_SINGLE(X, embed_rows, EmbedRowsParams, 256)              \
  VEERY_GPU_SINGLE(X, rms_norm, RmsNormParams, 256)                  \
  VEERY_GPU_SINGLE(X, layer_norm, LayerNormParams, 256)              \
  VEERY_GPU_SINGLE(X, l2_norm, L2NormParams, 32)                     \
  VEERY_GPU_SINGLE(X, elementwise, ElementwiseParams, 256)           \
  VEERY_GPU_SINGLE(X, select_rows, SelectRowsParams, 256)            \
  VEERY_GPU_SINGLE(X, argmax, ArgmaxParams, 256)                     \
  VEERY_GPU_SINGLE(X, cast, CastParams, 256)                         \
  VEERY_GPU_SINGLE(X, concat, ConcatParams, 256)                     \
  VEERY_GPU_SINGLE(X, sum_to, SumToParams, 64)                       \
  VEERY_GPU_SINGLE(X, shift, ShiftParams, 256)                       \
  VEERY_GPU_SINGLE(X, pool, PoolParams, 128)                         \
  VEERY_GPU_SINGLE(X, linear_one, LinearOneParams, 64)               \
  VEERY_GPU_SINGLE(X, rope_angles, RopeAnglesParams, 64)             \
  VEERY_GPU_SINGLE(X, rope, RopeParams, 256)                         \
  VEERY_GPU_SINGLE(X, position_scale, PositionScaleParams, 256)      \
  VEERY_GPU_SINGLE(X, cache_write, CacheWriteParams, 256)            \
  VEERY_GPU_SINGLE(X, qkv_rope, QkvRopeParams, 256)                  \
  VEERY_GPU_SINGLE(X, quantize_x, QuantizeXParams, 1024)             \
  VEERY_GPU_SINGLE(X, route, RouteParams, 32)                        \
  VEERY_GPU_SINGLE(X, pick_experts, ExpertPairParams, 256)           \
  VEERY_GPU_SINGLE(X, count_experts, ExpertPairParams, 256)          \
  VEERY_GPU_SINGLE(X, group_experts, ExpertPairParams, 256)          \
  VEERY_GPU_SINGLE(X, combine_experts, CombineExpertsParams, 256)    \
  VEERY_GPU_SINGLE(X, split_heads, SplitHeadsParams, 256)            \
  VEERY_GPU_SINGLE(X, head_pairs, HeadPairsParams, 128)              \
  VEERY_GPU_SINGLE(X, join_heads, JoinHeadsParams, 256)              \
  VEERY_GPU_SINGLE(X, attend_f64, AttendGeneralParams, 128)          \
  VEERY_GPU_SINGLE(X, score_positions, ChoosePositionsParams, 128)   \
  VEERY_GPU_SINGLE(X, choose_positions, ChoosePositionsParams, 1024) \
  VEERY_GPU_SINGLE(X, conv1d, Conv1dParams, 128)                     \
  VEERY_GPU_SINGLE(X, slstm, SlstmParams, 512)                       \
  VEERY_GPU_SINGLE(X, linear_heads, LinearHeadsParams, 256)          \
  VEERY_GPU_SINGLE(X, top_k_groups, TopKParams, 1024)                \
  VEERY_GPU_SINGLE(X, peak_read, PeakReadParams, 256)                \
  VEERY_GPU_SINGLE(X, peak_math, PeakMathParams, 256)

// The sets of kernels: KernelSet.

/// On CUDA and on Metal.
#define VEERY_GPU_SHARED_KERNELS(X)                                                            \
  VEERY_GPU_SHARED_SINGLE(X)                                                                   \
  X(gemv_exact, GemmParams, 32, 8, key::gemm_exact(true, false), (gemm_exact<1, false>))       \
  X(gemm_exact, GemmParams, 32, 8, key::gemm_exact(false, false),                              \
    (gemm_exact<kGemmExactRows, false>))                                                       \
  X(experts_exact, ExpertGemmParams, 32, 8, key::experts_exact(false), (experts_exact<false>)) \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_DIRECT, X)                                           \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_EXPERTS_GEMM, X)                                          \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND, X)                                                    \
  VEERY_GPU_ATTEND_GENERAL(X)                                                                  \
  VEERY_GPU_SCAN(X, plain, kPlain)                                                             \
  VEERY_GPU_SCAN(X, delta, kDelta)                                                             \
  VEERY_GPU_SCAN(X, general, kGeneral)                                                         \
  VEERY_GPU_SCAN(X, outer, kOuter)

/// On CUDA: asynchronous copies, tensor cores, blocks that see each other's writes.
#define VEERY_GPU_CUDA_ONLY_KERNELS(X)                        \
  VEERY_GPU_SINGLE(X, argmax_finish, ArgmaxFinishParams, 64)  \
  VEERY_GPU_SINGLE(X, qkv_rope_rows, QkvRopeParams, 256)      \
  VEERY_GPU_SINGLE(X, chain_advance, ChainAdvanceParams, 128) \
  VEERY_GPU_SINGLE(X, chain_loop, ChainLoopParams, 32)        \
  VEERY_GPU_SINGLE(X, top_k, TopKParams, 1024)                \
  VEERY_GPU_QUANTIZE_GROUPS(X, int8_32, kInt8Block32, 2)      \
  VEERY_GPU_QUANTIZE_GROUPS(X, int8_256, kInt8Block256, 3)    \
  VEERY_GPU_QUANTIZE_GROUPS(X, int4_digits, kInt4Digits, 3)   \
  VEERY_GPU_QUANTIZE_GROUPS(X, bf16, kBF16, 2)                \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_QUANTIZED, X)            \
  VEERY_GPU_BF16(X)                                           \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_EXPERTS_GEMV, X)         \
  VEERY_GPU_EXPERTS_GEMV(X, bf16, kBF16)                      \
  VEERY_GPU_EXPERTS_GEMM(X, bf16, kBF16)                      \
  VEERY_GPU_ATTEND_PREFILL(X, bf16, BF16, kBF16)              \
  VEERY_GPU_ATTEND_PREFILL(X, f16, F16, kF16)                 \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND_DECODE, X)            \
  VEERY_GPU_ATTEND_MMA(X)

/// On CUDA with wgmma (compute capability 9.0).
#define VEERY_GPU_WGMMA_KERNELS(X)                                                     \
  X(gemm_wgmma_k4m, GemmParams, (veery::gpu::GemmWgmmaInt8Smem::kThreads), 0,          \
    key::gemm_wgmma(kK4M, false), (gemm_wgmma_int8))                                   \
  X(gemm_wgmma_splitk_k4m, GemmParams, (veery::gpu::GemmWgmmaSplitkSmem::kThreads), 0, \
    key::gemm_wgmma(kK4M, true), (gemm_wgmma_splitk))                                  \
  X(gemm_wgmma_bf16, GemmParams, (veery::gpu::GemmWgmmaBf16Smem::kThreads), 0,         \
    key::gemm_wgmma(kBF16, false), (gemm_wgmma_bf16))

/// On CUDA with --relaxed: kernels whose bits are not those of the CPU.
#define VEERY_GPU_RELAXED_KERNELS(X)                                                      \
  VEERY_GPU_SINGLE(X, dequantize, DequantizeParams, 256)                                  \
  VEERY_GPU_SINGLE(X, rows_to_bf16, RowsToBf16Params, 256)                                \
  VEERY_GPU_SINGLE(X, gated_epilogue, GatedEpilogueParams, 256)                           \
  VEERY_GPU_SINGLE(X, epilogue_rows, EpilogueParams, 256)                                 \
  X(attend_flash_64, AttendParams, veery::gpu::kFlashThreads, 0, key::attend_flash(64),   \
    (attend_flash<64, true>))                                                             \
  X(attend_flash_128, AttendParams, veery::gpu::kFlashThreads, 0, key::attend_flash(128), \
    (attend_flash<128, true>))                                                            \
  X(attend_flash_any, AttendParams, veery::gpu::kFlashThreads, 0, key::attend_flash(0),   \
    (attend_flash<128, false>))

/// On Metal.
#define VEERY_GPU_METAL_ONLY_KERNELS(X)                                                           \
  VEERY_GPU_SINGLE(X, chain_advance_greedy, ChainAdvanceParams, 128)                              \
  VEERY_GPU_SINGLE(X, top_k_sums, TopKParams, 1024)                                               \
  VEERY_GPU_SINGLE(X, top_k_select, TopKParams, 1024)                                             \
  X(gemv_exact_bf16, GemmParams, 32, 0, key::gemm_exact(true, true), (gemm_exact<1, true>))       \
  X(gemm_exact_bf16, GemmParams, 32, 0, key::gemm_exact(false, true),                             \
    (gemm_exact<kGemmExactRows, true>))                                                           \
  X(experts_exact_bf16, ExpertGemmParams, 32, 0, key::experts_exact(true), (experts_exact<true>)) \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMV_SIMDGROUP, X)                                           \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_SIMDGROUP, X)                                           \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND_MERGE, X)
#define VEERY_GPU_GEMV_SIMDGROUP(X, name, format)                                       \
  X(gemv_simdgroup_##name, GemmParams, 128, 0, key::gemv_simdgroup(format, false),      \
    (gemv_simdgroup<format, false>))                                                    \
  X(gemv_simdgroup_gated_##name, GemmParams, 128, 0, key::gemv_simdgroup(format, true), \
    (gemv_simdgroup<format, true>))
#define VEERY_GPU_GEMM_SIMDGROUP(X, name, format)                                          \
  X(gemm_simdgroup_##name, GemmParams, (veery::gpu::GemmSimdgroupSmem::kThreads), 0,       \
    key::gemm_simdgroup(format, false), (gemm_simdgroup<format, false>))                   \
  X(gemm_simdgroup_gated_##name, GemmParams, (veery::gpu::GemmSimdgroupSmem::kThreads), 0, \
    key::gemm_simdgroup(format, true), (gemm_simdgroup<format, true>))

#define VEERY_GPU_CUDA_KERNELS(X) \
  VEERY_GPU_SHARED_KERNELS(X)     \
  VEERY_GPU_CUDA_ONLY_KERNELS(X)  \
  VEERY_GPU_WGMMA_KERNELS(X)      \
  VEERY_GPU_RELAXED_KERNELS(X)
#define VEERY_GPU_METAL_KERNELS(X) \
  VEERY_GPU_SHARED_KERNELS(X)      \
  VEERY_GPU_METAL_ONLY_KERNELS(X)
