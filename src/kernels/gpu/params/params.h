// arguments.h: what the kernels for GPUs are given: plain structs with addresses in the device's
// memory, one a launch.
#pragma once
#include "kernels/gpu/packing/activations.h"
#include "kernels/gpu/smem/gemv_smem.h"
#include "kernels/gpu/params/run.h"
#include "kernels/gpu/smem/gemm_mma_smem.h"
#include "kernels/gpu/dialect/formulas.h"

namespace veery::gpu {

/// rms_norm of a row inside of another op.
struct Norm {
  const VEERY_DEVICE float* weight;  ///< nullptr: none
  float eps;
};

struct EmbedArguments {
  Run run;
  const VEERY_DEVICE int32_t* ids;
  Weight weight;
  Matrix out;
  float factor;
};

struct RmsNormArguments {
  Run run;
  Matrix x, residual, out;
  Norm norm;
  int32_t groups, staged;
};

struct LayerNormArguments {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float *weight, *bias;  ///< bias: or nullptr
  float eps;
  int32_t groups, whole;  ///< whole: the weight has an element a column, not one of a group
  int32_t staged;
};

enum class Elementwise : int32_t { kAdd, kMul, kScale, kActivate, kSoftcap };
struct ElementwiseArguments {
  Run run;
  Elementwise op;
  Matrix a, b, out;
  int32_t part;  ///< kMul: columns that an element of b is for
  float factor;
  Activate activate;
};

struct SelectRowsArguments {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE int32_t* rows;
};

struct ArgmaxArguments {
  Run run;
  Matrix x, out;  ///< out: i32
};

/// Keys or values of a layer.
struct Cache {
  VEERY_DEVICE uint8_t* data;
  int64_t page;  ///< bytes
  int32_t group, kv_heads, head_dim;
};

struct RopeArguments {
  Run run;
  Matrix x, angles, out;
  int32_t head_dim, pairs, begin, interleaved;
  float sign;
};

struct CacheWriteArguments {
  Run run;
  Matrix x;
  Cache cache;
  int32_t keys, bytes;  ///< bytes of an element: 4: f32, 2: bf16, 1: f16; or kQ8Bytes
};
VEERY_CONSTANT int kQ8Bytes = 34;  ///< of 32 elements of q8_0

struct QkvRopeArguments {
  Run run;
  Matrix qkv, angles, out;
  Cache keys, values;
  int32_t bytes, value_bytes;  ///< as in CacheWriteArguments
  int32_t heads, kv_heads, head_dim, pairs, interleaved;
  const VEERY_DEVICE float *query_norm, *key_norm;
  float eps;
  int32_t parts;  ///< blocks of threads of a row
};

struct PrepareArguments {
  Run run;
  Matrix x;
  Norm norm;
  Form form;
  VEERY_DEVICE uint64_t* best;  ///< LinearArguments::best, to be cleared; or nullptr
  int32_t staged;               ///< a row that is normalised has room in shared memory
  int32_t weights;  ///< and so have the norm's weights, which are multiples of 16 bytes apart
  int32_t parts;    ///< blocks of threads of a row
};

/// Some weights of one format side by side, or one with its gate. One product: what follows is
/// added in the order of docs/numerics.md.
struct LinearArguments {
  VEERY_STATIC int kWeights = 3;
  Run run;
  Form form;  ///< data: nullptr where linear_row() makes it of x and norm
  const float* x;
  Norm norm;
  int64_t rows;  ///< of x, as Matrix::rows
  Weight weight[kWeights];
  const VEERY_DEVICE float* bias[kWeights];
  int32_t column[kWeights];  ///< of the output
  int32_t weights, gated;
  Activate gate;
  float scale;
  Matrix residual, out;
  VEERY_DEVICE uint64_t* best;  ///< [rows]: keys of the largest, nothing is stored; or nullptr
  int32_t room;  ///< bytes of shared memory of linear_row(), and of linear_tiles() of kBF16
};

struct BestArguments {
  Run run;
  VEERY_DEVICE uint64_t* best;  ///< 0 again when it has been looked at
  Matrix out;
};

struct RouteArguments {
  Run run;
  Matrix scores, out;
  const VEERY_DEVICE float* bias;  ///< or nullptr
  int32_t used, sigmoid, normalise, groups, groups_used, group_best;
  float scale, jitter;
};

/// Some pairs of rows and experts (experts.h) that have one expert: places in Pairs::order.
struct alignas(16) PairGroup {
  int32_t expert, first, count, unused;
};
struct Pairs {
  VEERY_DEVICE int32_t* groups;  ///< their number
  VEERY_DEVICE PairGroup* group;
  VEERY_DEVICE int32_t* count;  ///< pairs of each expert
  VEERY_DEVICE int32_t* order;  ///< pairs by expert
  VEERY_DEVICE int32_t* expert;
  VEERY_DEVICE float* gate;
  int32_t most;  ///< pairs of a group
};

struct PairArguments {
  Run run;
  Matrix gates;
  Pairs pairs;
  int32_t experts, used;
};

/// Gate and up of the experts, or down.
struct ExpertArguments {
  Run run;
  Pairs pairs;
  Form form;
  Weight weight[2];  ///< of expert 0
  const VEERY_DEVICE float* bias[2];
  int64_t rows;  ///< of x, as Matrix::rows
  int32_t used, gated, gate_input;
  int32_t rows_each;  ///< pairs that share a row of the form
  float limit, alpha;
  int32_t room;             ///< LinearArguments::room
  Activate activation;      ///< of gate
  VEERY_DEVICE float* out;  ///< [pairs][rows of the weight]
};

struct AddExpertsArguments {
  Run run;
  Pairs pairs;
  const VEERY_DEVICE float* products;  ///< [pairs][columns of out]
  Matrix residual, out;
  int32_t used, gate_input;
};

struct AttendArguments {
  Run run;
  Matrix q, out;
  Cache keys, values;
  const VEERY_DEVICE float* sinks;
  VEERY_DEVICE float* parts;  ///< [row][head][block of 128][16 + value_dim]
  int32_t blocks;             ///< of a row in `parts`
  /// [row][queries that share keys], 0: how many blocks of threads have written; kHandsOver
  VEERY_DEVICE uint32_t* come;
  int32_t heads, kv_heads, group;  ///< group: heads that share keys
  int32_t key_dim, value_dim;
  float scale, softcap;
  int32_t window, chunked;
  int32_t staged;     ///< attend_blocks(): a block of positions has room in shared memory
  int32_t tile_rows;  ///< of attend_tiles(); 0: there are none
  int32_t spread;     ///< of attend_left()
};

/// Attention of a step of one sequence, and what makes its queries, key and value.
struct StepArguments {
  QkvRopeArguments rope;
  AttendArguments attend;
  /// The launch before is linear_row(), which lets this one begin when all before that have ended:
  /// what steps before have left may be looked at before that launch has ended, too.
  int32_t early;
};

}  // namespace veery::gpu
