// recurrence_back.h: derivatives of recurrence.h, and the form of scans that training and devices
// with matrix units want.
#pragma once
#include "graph/ops/recurrence.h"

namespace veery {

/// scan_chunks: positions that are computed together.
struct ScanChunksAttr {
  ScanAttr scan;
  int32_t positions = 64;
};

/// scan_tangent: which of its inputs (ScanIn) moves.
struct ScanTangentAttr {
  ScanAttr scan;
  int32_t moves = 0;
};

/// The inputs of a scan, in their order, behind kDy.
struct ScanBackIn {
  enum { kDy, kFirst };
};
/// Those inputs, and how one of them moves.
struct ScanTangentIn {
  enum { kTangent = ScanIn::kState };
};
struct Conv1dBackXIn {
  enum { kDy, kWeight };
};
struct Conv1dBackWIn {
  enum { kDy, kX, kWeight };
};

/// Positions of which a gradient of a scan keeps the states at once; of the others it keeps one in
/// so many, from which it computes them again.
inline constexpr int64_t kScanBackPositions = 64;

namespace op {
namespace detail {

/// That of a scan with these parameters; throws as its rule does.
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

}  // namespace detail

/// A scan without a state, by chunks: sums of products between positions of a chunk, and of these
/// with the state before it. The same but for rounding.
inline constexpr OpDef kScanChunks{
    .name = "scan_chunks",
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .infer = detail::scan_chunks,
    .cost = detail::scan_chunks_cost,
    .decompose = detail::scan_chunks_decomposed};

/// Of a scan without a state; what has one row gets the sum over all rows. An input that is absent
/// has a gradient [1, 1] of zero.
inline constexpr OpDef kScanBack{
    .name = "scan_back",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"dq", "dk", "dv"},
    .infer = detail::scan_back,
    .cost = detail::scan_back_cost};
inline constexpr OpDef kScanBackGates{
    .name = "scan_back_gates",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"ddecay", "dgate", "dbonus"},
    .infer = detail::scan_back_gates,
    .cost = detail::scan_back_cost};
inline constexpr OpDef kScanBackLowRank{
    .name = "scan_back_low_rank",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?"},
    .outputs = {"da", "db", "drates"},
    .infer = detail::scan_back_low_rank,
    .cost = detail::scan_back_cost};
/// How y moves with one of the inputs; `tangent` has the shape of that one.
inline constexpr OpDef kScanTangent{
    .name = "scan_tangent",
    .group = OpGroup::kBackward,
    .inputs = {"q", "k", "v", "decay?", "gate?", "a?", "b?", "bonus?", "rates?", "tangent"},
    .infer = detail::scan_tangent,
    .cost = detail::scan_tangent_cost};

/// Of a conv1d without a state and an activation.
inline constexpr OpDef kConv1dBackX{.name = "conv1d_back_x",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "weight"},
                                    .outputs = {"dx"},
                                    .infer = detail::conv1d_back_x,
                                    .cost = detail::conv1d_back_cost};
/// Of the weight only the shape counts.
inline constexpr OpDef kConv1dBackW{.name = "conv1d_back_w",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "x", "weight"},
                                    .outputs = {"dweight"},
                                    .infer = detail::conv1d_back_w,
                                    .cost = detail::conv1d_back_cost};

inline constexpr Op kRecurrencesBack[] = {kScanChunks,      kScanBack,    kScanBackGates,
                                          kScanBackLowRank, kScanTangent, kConv1dBackX,
                                          kConv1dBackW};

}  // namespace op
}  // namespace veery
