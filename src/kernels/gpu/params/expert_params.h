// expert_params.h: parameters of mixtures of experts and of products with one matrix per head.
#pragma once
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

struct RouteParams {
  Run run;
  Matrix scores, out;
  const VEERY_DEVICE float* bias;  ///< or nullptr
  int32_t used, sigmoid, normalise, groups, groups_used, group_best;
  float scale, jitter;
};

/// Consecutive entries of Pairs::order that have the same expert.
struct alignas(16) PairGroup {
  int32_t expert, first, count, unused;
};
/// A pair is a token row and one of the experts that it uses. Pair r * used + i is the i-th expert
/// of row r.
struct Pairs {
  VEERY_DEVICE int32_t* groups;   ///< number of entries of `group`
  VEERY_DEVICE PairGroup* group;  ///< up to max_pairs pairs each
  VEERY_DEVICE int32_t* count;    ///< [expert] number of pairs
  VEERY_DEVICE int32_t* order;    ///< pairs sorted by expert
  VEERY_DEVICE int32_t* expert;   ///< [pair]
  VEERY_DEVICE float* gate;       ///< [pair]
  int32_t max_pairs;
};

struct ExpertPairParams {
  Run run;
  Matrix gates;
  Pairs pairs;
  int32_t experts, used;
};

/// The gate and up products of the experts, the up product of experts without a gate, or the down
/// product.
struct ExpertGemmParams {
  Run run;
  Pairs pairs;
  Activations act;
  Weight weight[2];  ///< of expert 0
  const VEERY_DEVICE float* bias[2];
  int64_t rows;  ///< of x; a code as Matrix::rows
  int32_t used, gated, gate_input;
  int32_t pairs_per_row;  ///< pairs that read the same row of `act`
  float limit, alpha;
  int32_t max_smem;             ///< GemmParams::max_smem
  ActivationParams activation;  ///< of the gate, or of up without a gate; none for down
  VEERY_DEVICE float* out;      ///< [pairs][rows of the weight]
};

struct CombineExpertsParams {
  Run run;
  Pairs pairs;
  const VEERY_DEVICE float* products;  ///< [pairs][columns of out]
  Matrix residual, out;
  int32_t used, gate_input;
};

// A product with one matrix per head is a mixture in which each row uses all experts, one per head.

/// Copies the heads of each row to rows of their own, [rows x heads][in].
struct SplitHeadsParams {
  Run run;
  Matrix x;
  VEERY_DEVICE float* to;
  int32_t heads, in;
};
struct HeadPairsParams {
  Run run;
  Pairs pairs;
  int64_t rows;  ///< of x; a code as Matrix::rows
  int32_t heads;
};
/// Writes the products back beside the columns of each head that are not multiplied.
struct JoinHeadsParams {
  Run run;
  Matrix x, out;
  const VEERY_DEVICE float* products;  ///< [rows x heads][made]
  int32_t heads, in, made;
};

}  // namespace veery::gpu
