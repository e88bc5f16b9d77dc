// recurrence_back.h: derivatives of the ops in recurrence.h, and the chunked form of scans for
// training and for devices with matrix units.
#pragma once
#include "graph/ops/recurrence.h"

namespace veery {

/// Parameters of scan_chunks: number of positions per chunk.
struct ScanChunksAttr {
  ScanAttr scan;
  int32_t positions = 64;
};

/// Parameters of scan_tangent: the input (ScanIn) with a tangent.
struct ScanTangentAttr {
  ScanAttr scan;
  int32_t moves = 0;
};

/// kDy, followed by the inputs of a scan in their order.
struct ScanBackIn {
  enum { kDy, kFirst };
};
/// The inputs of a scan and the tangent of one of them.
struct ScanTangentIn {
  enum { kTangent = ScanIn::kState };
};
struct Conv1dBackXIn {
  enum { kDy, kWeight };
};
struct Conv1dBackWIn {
  enum { kDy, kX, kWeight };
};
struct SlstmBackIn {
  enum { kDy, kX, kRecurrent, kBias };
};
struct SlstmTangentIn {
  enum { kX, kRecurrent, kBias, kTx, kTrecurrent, kTbias };
};
struct LinearHeadsBackXIn {
  enum { kDy, kWeight };
};
struct LinearHeadsBackWIn {
  enum { kDy, kX, kWeight };
};

/// Checkpointing in scan gradients: the state is saved at every kScanBackPositions-th position, and
/// the states of one interval at a time are recomputed from it.
inline constexpr int64_t kScanBackPositions = 64;

namespace op {
namespace detail {

/// Infers the outputs of a scan with these parameters; throws as scan().
Outputs scan_of(const OpContext& c, const ScanAttr& attr);
Outputs scan_chunks(const OpContext& c);
Cost scan_chunks_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Value scan_chunks_decomposed(Graph& graph, const Node& node);
Outputs scan_back(const OpContext& c);
Outputs scan_back_gates(const OpContext& c);
Outputs scan_back_low_rank(const OpContext& c);
Outputs scan_tangent(const OpContext& c);
Cost scan_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost scan_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs conv1d_back_x(const OpContext& c);
Outputs conv1d_back_w(const OpContext& c);
Cost conv1d_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs slstm_back(const OpContext& c);
Cost slstm_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs slstm_tangent(const OpContext& c);
Cost slstm_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Outputs linear_heads_back_x(const OpContext& c);
Outputs linear_heads_back_w(const OpContext& c);
Cost linear_heads_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);

}  // namespace detail

/// A scan without a state, computed in chunks: products between positions of a chunk, and with the
/// state before the chunk. Equal to scan except for rounding.
inline constexpr OpDef kScanChunks{
    .name = "scan_chunks",
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .infer = detail::scan_chunks,
    .cost = detail::scan_chunks_cost,
    .decompose = detail::scan_chunks_decomposed};

/// Gradient of a scan without a state. Inputs with one row get the sum over all rows. The gradient
/// of an absent input is [1, 1] zero.
inline constexpr OpDef kScanBack{
    .name = "scan_back",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"dq?", "dk?", "dv?"},
    .infer = detail::scan_back,
    .cost = detail::scan_back_cost};
inline constexpr OpDef kScanBackGates{
    .name = "scan_back_gates",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"ddecay?", "dgate?", "dbonus?"},
    .infer = detail::scan_back_gates,
    .cost = detail::scan_back_cost};
inline constexpr OpDef kScanBackLowRank{
    .name = "scan_back_low_rank",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"da?", "db?", "drates?"},
    .infer = detail::scan_back_low_rank,
    .cost = detail::scan_back_cost};
/// The tangent of y for a tangent of one input; `tangent` has the shape of that input.
inline constexpr OpDef kScanTangent{
    .name = "scan_tangent",
    .group = OpGroup::kBackward,
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?", "tangent"},
    .infer = detail::scan_tangent,
    .cost = detail::scan_tangent_cost};

/// Gradient of a conv1d without a state and an activation.
inline constexpr OpDef kConv1dBackX{.name = "conv1d_back_x",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "weight"},
                                    .outputs = {"dx"},
                                    .infer = detail::conv1d_back_x,
                                    .cost = detail::conv1d_back_cost};
/// Only the shape of the weight is used.
inline constexpr OpDef kConv1dBackW{.name = "conv1d_back_w",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "x", "weight"},
                                    .outputs = {"dweight"},
                                    .infer = detail::conv1d_back_w,
                                    .cost = detail::conv1d_back_cost};

/// Gradient of an slstm without a state.
inline constexpr OpDef kSlstmBack{.name = "slstm_back",
                                  .group = OpGroup::kBackward,
                                  .inputs = {"dy", "x", "recurrent", "bias"},
                                  .outputs = {"dx?", "drecurrent?", "dbias?"},
                                  .infer = detail::slstm_back,
                                  .cost = detail::slstm_back_cost};
/// The tangent of y for those of the inputs; absent ones are zero.
inline constexpr OpDef kSlstmTangent{
    .name = "slstm_tangent",
    .group = OpGroup::kBackward,
    .inputs = {"x", "recurrent", "bias", "tx?", "trecurrent?", "tbias?"},
    .infer = detail::slstm_tangent,
    .cost = detail::slstm_tangent_cost};

inline constexpr OpDef kLinearHeadsBackX{.name = "linear_heads_back_x",
                                         .group = OpGroup::kBackward,
                                         .inputs = {"dy", "weight"},
                                         .outputs = {"dx"},
                                         .infer = detail::linear_heads_back_x,
                                         .cost = detail::linear_heads_back_cost};
/// Only the shape of the weight is used.
inline constexpr OpDef kLinearHeadsBackW{.name = "linear_heads_back_w",
                                         .group = OpGroup::kBackward,
                                         .inputs = {"dy", "x", "weight"},
                                         .outputs = {"dweight"},
                                         .infer = detail::linear_heads_back_w,
                                         .cost = detail::linear_heads_back_cost};

inline constexpr Op kRecurrencesBack[] = {
    kScanChunks,  kScanBack,  kScanBackGates, kScanBackLowRank,  kScanTangent,     kConv1dBackX,
    kConv1dBackW, kSlstmBack, kSlstmTangent,  kLinearHeadsBackX, kLinearHeadsBackW};

}  // namespace op
}  // namespace veery
