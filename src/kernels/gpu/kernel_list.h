// kernel_list.h: all kernels: name, arguments, function.
#pragma once

// X(name, arguments, threads at most, function)
#define VEERY_GPU_TILES(X, name, format, small)                                   \
  X(name, LinearArguments, (veery::gpu::tile_threads(veery::gpu::format, small)), \
    (linear_tiles<format, small>))
#define VEERY_GPU_GROUPS(X, name, format)                                               \
  X(linear_group_##name, LinearArguments, (veery::gpu::GroupPlan::most_threads(false)), \
    (linear_groups<format, false>))                                                     \
  X(linear_groups_##name, LinearArguments, (veery::gpu::GroupPlan::most_threads(true)), \
    (linear_groups<format, true>))
#define VEERY_GPU_FEW(X, name, format)                                           \
  X(linear_few_##name, LinearArguments, 128, (linear_tile<format, 1, 1, false>)) \
  X(linear_few_gated_##name, LinearArguments, 128, (linear_tile<format, 1, 1, true>))
#define VEERY_GPU_ROW(X, name, format)                                                            \
  X(linear_row_##name, LinearArguments, (veery::gpu::RowPlan::kThreads), (linear_row<format, 1>)) \
  X(linear_row_two_terms_##name, LinearArguments, (veery::gpu::RowPlan::kThreads),                \
    (linear_row<format, 2>))                                                                      \
  VEERY_GPU_FEW(X, name, format)                                                                  \
  VEERY_GPU_TILES(X, linear_tiles_##name, format, false)                                          \
  VEERY_GPU_TILES(X, linear_small_tiles_##name, format, true)                                     \
  VEERY_GPU_GROUPS(X, name, format)
#define VEERY_GPU_BF16(X)                                                                          \
  X(linear_row_bf16, LinearArguments, (veery::gpu::RowPlan::kWideThreads), (linear_row<kBF16, 1>)) \
  VEERY_GPU_FEW(X, bf16, kBF16)                                                                    \
  VEERY_GPU_TILES(X, linear_tiles_bf16, kBF16, false)                                              \
  VEERY_GPU_TILES(X, linear_small_tiles_bf16, kBF16, true)                                         \
  VEERY_GPU_GROUPS(X, bf16, kBF16)
#define VEERY_GPU_GROUPED_EXPERTS(X, name, format)                          \
  X(experts_##name, ExpertArguments, 128, (experts<format, 1, false>))      \
  X(experts_gated_##name, ExpertArguments, 128, (experts<format, 1, true>)) \
  X(experts_many_##name, ExpertArguments, 128, (experts<format, 4, false>)) \
  X(experts_many_gated_##name, ExpertArguments, 128, (experts<format, 4, true>))
#define VEERY_GPU_EXPERTS(X, name, format)                                            \
  X(experts_row_##name, ExpertArguments, (veery::gpu::RowPlan::kExpertThreads),       \
    (experts_row<format, 1>))                                                         \
  X(experts_row_gated_##name, ExpertArguments, (veery::gpu::RowPlan::kExpertThreads), \
    (experts_row<format, 2>))                                                         \
  VEERY_GPU_GROUPED_EXPERTS(X, name, format)
#define VEERY_GPU_ATTEND(X, name, type, dims)                                         \
  X(attend_blocks_##name##_##dims, AttendArguments, 128, (attend_blocks<type, dims>)) \
  X(attend_rows_##name##_##dims, AttendArguments, 128, (attend_rows<type, dims>))
#define VEERY_GPU_ATTEND_STEP(X, name, type, dims)                          \
  X(attend_step_##name##_##dims, StepArguments, (veery::gpu::kStepThreads), \
    (attend_step<type, dims>))
#define VEERY_GPU_ATTEND_TILES(X, name, type)                               \
  X(attend_tiles_##name##_4, AttendArguments, 256, (attend_tiles<type, 4>)) \
  X(attend_tiles_##name##_2, AttendArguments, 256, (attend_tiles<type, 2>)) \
  X(attend_left_##name, AttendArguments, 128, (attend_left<type>))
// Of caches of bf16 by tensor cores, behind products of bf16: Recorder::cores.
#define VEERY_GPU_CORE_ATTENTION(X)                                                            \
  X(attend_blocks_cores, AttendArguments, 128, (attend_blocks<BF16Cores, 1>))                  \
  X(attend_rows_cores, AttendArguments, 128, (attend_rows<BF16Cores, 1>))                      \
  X(attend_step_cores, StepArguments, (veery::gpu::kStepThreads), (attend_step<BF16Cores, 1>)) \
  X(attend_left_cores, AttendArguments, 128, (attend_left<BF16Cores>))                         \
  X(attend_core_tiles_64, AttendArguments, veery::gpu::kCoreTileThreads,                       \
    (attend_core_tiles<64, true>))                                                             \
  X(attend_core_tiles_128, AttendArguments, veery::gpu::kCoreTileThreads,                      \
    (attend_core_tiles<128, true>))                                                            \
  X(attend_core_tiles_any, AttendArguments, veery::gpu::kCoreTileThreads,                      \
    (attend_core_tiles<128, false>))

#define VEERY_GPU_SCAN(X, name, kind)                                                  \
  X(scan_##name##_4, ScanArguments, veery::gpu::ScanPlan::kThreads, (scan<4, kind>))   \
  X(scan_##name##_16, ScanArguments, veery::gpu::ScanPlan::kThreads, (scan<16, kind>)) \
  X(scan_##name##_32, ScanArguments, veery::gpu::ScanPlan::kThreads, (scan<32, kind>)) \
  X(scan_##name##_64, ScanArguments, veery::gpu::ScanPlan::kThreads, (scan<64, kind>)) \
  X(scan_##name##_128, ScanArguments, veery::gpu::ScanPlan::kThreads, (scan<128, kind>))
#define VEERY_GPU_RECURRENCES(X)                 \
  VEERY_GPU_SCAN(X, plain, ScanKind::kPlain)     \
  VEERY_GPU_SCAN(X, delta, ScanKind::kDelta)     \
  VEERY_GPU_SCAN(X, general, ScanKind::kGeneral) \
  VEERY_GPU_SCAN(X, outer, ScanKind::kOuter)     \
  X(conv1d, Conv1dArguments, 128, (conv1d))      \
  X(slstm, SlstmArguments, 512, (slstm))         \
  X(linear_heads, LinearHeadsArguments, 256, (linear_heads))

#define VEERY_GPU_WIDE(X, name, dims, flush, heads)                            \
  X(wide_blocks_##name, WideArguments, 128, (wide_blocks<dims, flush, heads>)) \
  X(wide_merge_##name, WideArguments, 128, (wide_merge<dims, flush, heads>))   \
  X(wide_rows_##name, WideArguments, 128, (wide_rows<dims, flush, heads>))
#define VEERY_GPU_EVEN_ATTENTION(X)          \
  VEERY_GPU_WIDE(X, 256, 2, false, 4)        \
  VEERY_GPU_WIDE(X, flushed_256, 2, true, 4) \
  VEERY_GPU_WIDE(X, 512, 4, false, 4)        \
  VEERY_GPU_WIDE(X, flushed_512, 4, true, 4) \
  VEERY_GPU_WIDE(X, latent, 4, false, 8)
#define VEERY_GPU_ROW_OPS(X)                              \
  X(linear_one, LinearOneArguments, 64, (linear_one))     \
  X(embed_rows, EmbedRowsArguments, 256, (embed_rows))    \
  X(l2_norm, L2NormArguments, 32, (l2_norm))              \
  X(concat, ConcatArguments, 256, (concat))               \
  X(sum_to, SumToArguments, 64, (sum_to))                 \
  X(shift, ShiftArguments, 256, (shift))                  \
  X(pool, PoolArguments, 128, (pool))                     \
  X(split_heads, SplitHeadsArguments, 256, (split_heads)) \
  X(head_pairs, HeadPairsArguments, 128, (head_pairs))    \
  X(join_heads, JoinHeadsArguments, 256, (join_heads))
#define VEERY_GPU_CHAINS(X)                    \
  X(advance, AdvanceArguments, 128, (advance)) \
  X(loop, LoopArguments, 32, (loop))           \
  X(top_k, TopKArguments, 1024, (top_k))

#define VEERY_GPU_CHOICE(X)                               \
  X(choose_scores, ChooseArguments, 128, (choose_scores)) \
  X(choose_positions, ChooseArguments, 1024, (choose_positions))
#define VEERY_GPU_LIMITS(X)                            \
  X(read_limit, ReadLimitArguments, 256, (read_limit)) \
  X(math_limit, MathLimitArguments, 256, (math_limit))

// By warpgroups, which machines need not have.
#define VEERY_GPU_WARPGROUPS(X)                                                             \
  X(linear_planes_k4m, LinearArguments, (veery::gpu::PlanePlan::kThreads), (linear_planes)) \
  X(linear_deep_k4m, LinearArguments, (veery::gpu::DeepPlan::kThreads), (linear_deep))      \
  X(linear_core_tiles_bf16, LinearArguments, (veery::gpu::CoreTilePlan::kThreads),          \
    (linear_core_tiles))

// Whose bits are not those of the CPU: Machine::relaxed().
#define VEERY_GPU_RELAXED(X)                                                                \
  X(expand, ExpandArguments, 256, (expand))                                                 \
  X(round_rows, RoundRowsArguments, 256, (round_rows))                                      \
  X(gate_rows, GateRowsArguments, 256, (gate_rows))                                         \
  X(finish_rows, FinishRowsArguments, 256, (finish_rows))                                   \
  X(attend_cores_64, AttendArguments, veery::gpu::kCoreThreads, (attend_cores<64, true>))   \
  X(attend_cores_128, AttendArguments, veery::gpu::kCoreThreads, (attend_cores<128, true>)) \
  X(attend_cores_any, AttendArguments, veery::gpu::kCoreThreads, (attend_cores<128, false>))

// F for each format of integers, in the order of Format.
#define VEERY_GPU_CODED(F, X) \
  F(X, q8, kQ8)               \
  F(X, q8m, kQ8M)             \
  F(X, q4, kQ4)               \
  F(X, q4m, kQ4M)             \
  F(X, k4m, kK4M)             \
  F(X, k8m, kK8M)             \
  F(X, k8, kK8)               \
  F(X, k8m16, kK8M16)         \
  F(X, book, kBook)           \
  F(X, q4mw, kQ4MW)           \
  F(X, q8mw, kQ8MW)           \
  F(X, book2, kBook2)

// F for each type of the cache, with values of up to 128 and up to 256 dimensions.
#define VEERY_GPU_CACHED(F, X) \
  F(X, bf16, BF16, 1)          \
  F(X, bf16, BF16, 2)          \
  F(X, f16, F16, 1)            \
  F(X, f16, F16, 2)            \
  F(X, f32, float, 1)          \
  F(X, f32, float, 2)

// What CUDA and Metal have.
#define VEERY_GPU_COMMON(X)                                              \
  X(embed, EmbedArguments, 256, (embed))                                 \
  X(rms_norm, RmsNormArguments, 256, (rms_norm))                         \
  X(layer_norm, LayerNormArguments, 256, (layer_norm))                   \
  X(elementwise, ElementwiseArguments, 256, (elementwise))               \
  X(select_rows, SelectRowsArguments, 256, (select_rows))                \
  X(argmax, ArgmaxArguments, 256, (argmax))                              \
  X(rope, RopeArguments, 256, (rope))                                    \
  X(cache_write, CacheWriteArguments, 256, (cache_write))                \
  X(qkv_rope, QkvRopeArguments, 256, (qkv_rope))                         \
  X(prepare, PrepareArguments, 1024, (prepare))                          \
  X(linear_fma_row, LinearArguments, 32, (linear_fma<1, false>))         \
  X(linear_fma_rows, LinearArguments, 32, (linear_fma<kFmaRows, false>)) \
  X(route, RouteArguments, 32, (route))                                  \
  X(pick_experts, PairArguments, 256, (pick_experts))                    \
  X(count_experts, PairArguments, 256, (count_experts))                  \
  X(group_experts, PairArguments, 256, (group_experts))                  \
  X(add_experts, AddExpertsArguments, 256, (add_experts))                \
  X(experts_fma, ExpertArguments, 32, (experts_fma<false>))              \
  VEERY_GPU_CACHED(VEERY_GPU_ATTEND, X)                                  \
  VEERY_GPU_EVEN_ATTENTION(X)                                            \
  X(attend_f64, WideArguments, 128, (attend_f64))                        \
  VEERY_GPU_RECURRENCES(X)                                               \
  VEERY_GPU_ROW_OPS(X)                                                   \
  VEERY_GPU_LIMITS(X)                                                    \
  VEERY_GPU_CHOICE(X)                                                    \
  X(top_k_groups, TopKArguments, 1024, (top_k_groups))                   \
  X(angles, AnglesArguments, 64, (angles))
#define VEERY_GPU_TILES_MAKER(X, name, kind)                                     \
  X(prepare_tiles_##name, PrepareTilesArguments,                                 \
    (32 * veery::gpu::TilesMakerPlaces::most_warps(veery::gpu::FormKind::kind)), \
    (prepare_tiles<FormKind::kind>))
#define VEERY_GPU_TILES_MAKERS(X)           \
  VEERY_GPU_TILES_MAKER(X, per32, kPer32)   \
  VEERY_GPU_TILES_MAKER(X, per256, kPer256) \
  VEERY_GPU_TILES_MAKER(X, planes, kPlanes) \
  VEERY_GPU_TILES_MAKER(X, bf16, kBF16)
#define VEERY_GPU_EVERYWHERE(X)                  \
  VEERY_GPU_COMMON(X)                            \
  X(best, BestArguments, 64, (best))             \
  X(qkv_rows, QkvRopeArguments, 256, (qkv_rows)) \
  VEERY_GPU_TILES_MAKERS(X)                      \
  VEERY_GPU_CODED(VEERY_GPU_ROW, X)              \
  VEERY_GPU_BF16(X)                              \
  VEERY_GPU_CODED(VEERY_GPU_EXPERTS, X)          \
  VEERY_GPU_EXPERTS(X, bf16, kBF16)              \
  VEERY_GPU_ATTEND_TILES(X, bf16, BF16)          \
  VEERY_GPU_ATTEND_TILES(X, f16, F16)            \
  VEERY_GPU_CACHED(VEERY_GPU_ATTEND_STEP, X)     \
  VEERY_GPU_CORE_ATTENTION(X)                    \
  VEERY_GPU_CHAINS(X)
#define VEERY_GPU_KERNELS(X) \
  VEERY_GPU_EVERYWHERE(X)    \
  VEERY_GPU_WARPGROUPS(X)    \
  VEERY_GPU_RELAXED(X)

// Those of Metal alone.
#define VEERY_GPU_DOTS(X, name, format)                                     \
  X(linear_dots_##name, LinearArguments, 128, (linear_dots<format, false>)) \
  X(linear_dots_gated_##name, LinearArguments, 128, (linear_dots<format, true>))
#define VEERY_GPU_MATRICES(X, name, format)                                            \
  X(linear_matrices_##name, LinearArguments, (veery::gpu::MatrixPlan::kThreads),       \
    (linear_matrices<format, false>))                                                  \
  X(linear_matrices_gated_##name, LinearArguments, (veery::gpu::MatrixPlan::kThreads), \
    (linear_matrices<format, true>))
#define VEERY_GPU_MERGE(X, name, type, dims) \
  X(attend_merge_##name##_##dims, AttendArguments, 64, (attend_merge<type, dims>))
#define VEERY_GPU_METAL_OWN_KERNELS(X)                                      \
  X(linear_flushed_row, LinearArguments, 32, (linear_fma<1, true>))         \
  X(linear_flushed_rows, LinearArguments, 32, (linear_fma<kFmaRows, true>)) \
  X(experts_flushed, ExpertArguments, 32, (experts_fma<true>))              \
  X(advance_greedy, AdvanceArguments, 128, (advance_greedy))                \
  X(top_k_sums, TopKArguments, 1024, (top_k_sums))                          \
  X(top_k_largest, TopKArguments, 1024, (top_k_largest))                    \
  VEERY_GPU_CODED(VEERY_GPU_DOTS, X)                                        \
  VEERY_GPU_CODED(VEERY_GPU_MATRICES, X)                                    \
  VEERY_GPU_CACHED(VEERY_GPU_MERGE, X)

// What Metal has (kernels.metal): in any order.
#define VEERY_GPU_METAL_KERNELS(X)              \
  VEERY_GPU_COMMON(X)                           \
  VEERY_GPU_CODED(VEERY_GPU_FEW, X)             \
  VEERY_GPU_CODED(VEERY_GPU_GROUPED_EXPERTS, X) \
  VEERY_GPU_METAL_OWN_KERNELS(X)
