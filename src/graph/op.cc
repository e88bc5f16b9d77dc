#include "graph/op.h"

#include "base/error.h"

namespace veery {
namespace {

constexpr std::array<OpInfo, static_cast<size_t>(Op::kCount)> kOps{{
    {Op::kParam, "param", OpGroup::kLeaf, 0, 0},
    {Op::kSlot, "slot", OpGroup::kLeaf, 0, 0},
    {Op::kState, "state", OpGroup::kLeaf, 0, 0},
    {Op::kConstant, "constant", OpGroup::kLeaf, 0, 0},
    {Op::kEmbed, "embed", OpGroup::kForward, 2, 2},
    {Op::kLinear, "linear", OpGroup::kForward, 2, 9},
    {Op::kRmsNorm, "rms_norm", OpGroup::kForward, 2, 3},
    {Op::kLayerNorm, "layer_norm", OpGroup::kForward, 2, 3},
    {Op::kAdd, "add", OpGroup::kForward, 2, 2},
    {Op::kMul, "mul", OpGroup::kForward, 2, 2},
    {Op::kScale, "scale", OpGroup::kForward, 1, 1},
    {Op::kActivate, "activate", OpGroup::kForward, 1, 1},
    {Op::kSoftcap, "softcap", OpGroup::kForward, 1, 1},
    {Op::kRopeAngles, "rope_angles", OpGroup::kForward, 1, 3},
    {Op::kRope, "rope", OpGroup::kForward, 2, 2},
    {Op::kCacheWrite, "cache_write", OpGroup::kForward, 2, 2},
    {Op::kAttend, "attend", OpGroup::kForward, 3, 4},
    {Op::kColumns, "columns", OpGroup::kForward, 1, 1},
    {Op::kConcat, "concat", OpGroup::kForward, 2, 2},
    {Op::kSelectRows, "select_rows", OpGroup::kForward, 2, 2},
    {Op::kArgmax, "argmax", OpGroup::kForward, 1, 1},
    {Op::kHeadLinear, "head_linear", OpGroup::kForward, 2, 2},
    {Op::kRoute, "route", OpGroup::kForward, 1, 2},
    {Op::kMoe, "moe", OpGroup::kForward, 5, 9},
    {Op::kCrossEntropy, "cross_entropy", OpGroup::kForward, 2, 2},
    {Op::kEmbedBack, "embed_back", OpGroup::kBackward, 3, 3},
    {Op::kLinearBackX, "linear_back_x", OpGroup::kBackward, 2, 2},
    {Op::kLinearBackW, "linear_back_w", OpGroup::kBackward, 2, 2},
    {Op::kRmsNormBackX, "rms_norm_back_x", OpGroup::kBackward, 3, 3},
    {Op::kRmsNormBackW, "rms_norm_back_w", OpGroup::kBackward, 2, 2},
    {Op::kLayerNormBackX, "layer_norm_back_x", OpGroup::kBackward, 3, 3},
    {Op::kLayerNormBackW, "layer_norm_back_w", OpGroup::kBackward, 3, 3},
    {Op::kBiasBack, "bias_back", OpGroup::kBackward, 2, 2},
    {Op::kActivateBack, "activate_back", OpGroup::kBackward, 2, 2},
    {Op::kSoftcapBack, "softcap_back", OpGroup::kBackward, 2, 2},
    {Op::kAttendBack, "attend_back", OpGroup::kBackward, 4, 4},
    {Op::kSelectRowsBack, "select_rows_back", OpGroup::kBackward, 2, 2},
    {Op::kCrossEntropyBack, "cross_entropy_back", OpGroup::kBackward, 3, 3},
    {Op::kQkvRope, "qkv_rope", OpGroup::kFused, 4, 6},
    {Op::kLinearArgmax, "linear_argmax", OpGroup::kFused, 2, 4},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kOps.size(); ++i)
    if (static_cast<size_t>(kOps[i].op) != i || kOps[i].name.empty()) return false;
  return true;
}
static_assert(in_order(), "the op table has one row an op, in the order of the enumeration");

}  // namespace

const OpInfo& info(Op op) {
  VEERY_CHECK(op < Op::kCount);
  return kOps[static_cast<size_t>(op)];
}

}  // namespace veery
