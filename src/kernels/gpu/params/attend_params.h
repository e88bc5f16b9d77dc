// attend_params.h: the KV cache, and parameters that several kernels of attention share.
#pragma once
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

/// Keys or values of one layer in the paged KV cache.
struct Cache {
  VEERY_DEVICE uint8_t* data;
  int64_t page;  ///< bytes
  int32_t group, kv_heads, head_dim;
};

/// RoPE of queries and keys, and the write of keys and values to the KV cache.
struct QkvRopeParams {
  Run run;
  Matrix qkv, angles, out;
  Cache keys, values;
  int32_t bytes, value_bytes;  ///< as CacheWriteParams::bytes
  int32_t heads, kv_heads, head_dim, pairs, interleaved;
  const VEERY_DEVICE float *query_norm, *key_norm;
  float eps;
  int32_t blocks_per_row;
};

struct AttendParams {
  Run run;
  Matrix q, out;
  Cache keys, values;
  const VEERY_DEVICE float* sinks;
  /// Softmax states of split KV: [row][head][KV block][kPartialHeader + value_dim].
  VEERY_DEVICE float* partials;
  int32_t blocks;  ///< KV blocks per row in `partials`
  /// [row][heads that share a thread block] thread blocks that have arrived; 0 between runs.
  /// Unused without kBlocksExchange.
  VEERY_DEVICE uint32_t* arrivals;
  int32_t heads, kv_heads, group;  ///< group: query heads per KV head
  int32_t key_dim, value_dim;
  float scale, softcap;
  int32_t window, chunked;
  int32_t staged;           ///< attend_split(): 1: shared memory holds a KV block
  int32_t tile_rows;        ///< attend_prefill(): token rows of a tile; 0: no tiles
  int32_t blocks_per_head;  ///< attend_ragged(): thread blocks that share the rows of a head
};

/// attend_decode(): RoPE, KV cache write and attention of one decode step.
struct AttendDecodeParams {
  QkvRopeParams rope;
  AttendParams attend;
  /// 1: the previous launch is gemv(), which releases its dependents only after the launches before
  /// it have ended. The KV cache of earlier steps may then be read before that gemv() has ended.
  int32_t prefetch_cache;
};

/// Element type of a KV cache.
enum class Stored : int32_t { kF32, kF16, kBF16, kQ8 };

/// Attention in attend_general.h and attend_f64.h.
struct AttendGeneralParams {
  Run run;
  Matrix q, out;
  Cache keys, values;
  Matrix key_rows, value_rows;  ///< rows of this run, if there is no cache
  Matrix log_sum;               ///< [rows, heads]; or nullptr
  /// i32, ascending: a row that sees more positions than `chosen` has columns attends to these.
  Matrix chosen;
  Stored key_type, value_type;
  const VEERY_DEVICE float* sinks;
  const VEERY_DEVICE float* slopes;  ///< ALiBi slopes, one per head; or nullptr
  VEERY_DEVICE float* partials;      ///< as AttendParams::partials
  int32_t blocks;                    ///< KV blocks per row in `partials`
  int32_t heads, kv_heads, key_dim, value_dim;
  float scale, softcap;
  int32_t mask;  ///< veery::Mask
  int32_t window, chunked;
  int32_t shared;                  ///< the values are the first dimensions of the keys
  int32_t key_pairs, value_pairs;  ///< 1: rounded to bf16 and multiplied in pairs
};

}  // namespace veery::gpu
