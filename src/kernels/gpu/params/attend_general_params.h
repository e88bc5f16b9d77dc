// wide_arguments.h: what the kernels of attend_wide.h, attend_f64.h and choose_positions.h are
// given.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

/// How keys or values are stored.
enum class Stored : int32_t { kF32, kF16, kBF16, kQ8 };

struct WideArguments {
  Run run;
  Matrix q, out;
  Cache keys, values;
  Matrix key_rows, value_rows;  ///< of this run, where there is no cache
  /// i32, ascending: a row that sees more positions than there are columns attends to these.
  Matrix chosen;
  Stored key_type, value_type;
  const VEERY_DEVICE float* sinks;
  const VEERY_DEVICE float* slopes;  ///< ALiBi: one a head; or nullptr
  VEERY_DEVICE float* parts;         ///< as in AttendArguments
  int32_t blocks;                    ///< of a row in `parts`
  int32_t heads, kv_heads, key_dim, value_dim;
  float scale, softcap;
  int32_t mask;  ///< veery::Mask
  int32_t window, chunked;
  int32_t shared;                  ///< values are the first dimensions of keys
  int32_t key_pairs, value_pairs;  ///< rounded to bf16 and multiplied in pairs
};

/// choose_positions: scores of some rows, then the choice of each.
struct ChooseArguments {
  Run run;
  Matrix q, weights, out;  ///< out: i32
  Cache keys;
  Stored type;
  VEERY_DEVICE float* scores;  ///< [rows of the launch][stride]
  int64_t stride;
  int32_t first_row;  ///< of the launch
  int32_t heads, dim, used;
  float scale;
  int32_t plain;  ///< products and sums are rounded one by one: no vectors of 16 on the CPU
};

}  // namespace veery::gpu
