#include <algorithm>

#include "autodiff/rule.h"
#include "graph/ops/recurrence_back.h"

namespace veery {
namespace {

// Returns the parameters of a scan or of its chunked form.
const ScanAttr& scan_of(const Node& node) {
  return node.op == op::kScan ? node.as<ScanAttr>() : node.as<ScanChunksAttr>().scan;
}

Inputs scan_vjp(const VjpContext& c) {
  require_no_state(c.graph, c.y);
  Inputs in{};
  in[ScanBackIn::kDy] = c.dy();
  for (int i = 0; i < ScanIn::kState; ++i)
    in[static_cast<size_t>(ScanBackIn::kFirst + i)] = c.in(i);
  Inputs grad{};
  const auto add = [&](Op op, std::initializer_list<int> of) {
    if (std::none_of(of.begin(), of.end(), [&](int i) { return c.wants(i); })) return;
    const NodeId back = c.graph.add(op, in, scan_of(c.node()));
    int output = 0;
    for (const int i : of) {
      if (c.in(i)) grad[static_cast<size_t>(i)] = {back, output};
      ++output;
    }
  };
  add(op::kScanBack, {ScanIn::kQ, ScanIn::kK, ScanIn::kV});
  add(op::kScanBackGates, {ScanIn::kDecay, ScanIn::kGate, ScanIn::kBonus});
  add(op::kScanBackLowRank, {ScanIn::kA, ScanIn::kB, ScanIn::kRates});
  return grad;
}

// One Jacobian product for each input with a tangent.
Tangents scan_jvp(const JvpContext& c) {
  require_no_state(c.graph, c.y);
  Value sum;
  for (int i = 0; i < ScanIn::kState; ++i) {
    if (!c.t(i)) continue;
    Inputs in = c.node().in;
    in[ScanTangentIn::kTangent] = c.t(i);
    sum = c.sum(sum, c.graph.add(op::kScanTangent, in, ScanTangentAttr{scan_of(c.node()), i}));
  }
  return sum;
}

// Returns the input of the activation; kNoValue if there is no activation.
template <typename Context>
Value before_activation(const Context& c) {
  if (c.node().template as<Conv1dAttr>().activation == Activation::kNone) return {};
  return c.make(op::kConv1d, {c.in(Conv1dIn::kX), c.in(Conv1dIn::kWeight), c.in(Conv1dIn::kBias)},
                Conv1dAttr{});
}
// Propagates a cotangent or tangent through the activation.
template <typename Context>
Value through_activation(const Context& c, Value moved) {
  const Value before = before_activation(c);
  const ActivateAttr attr = c.node().template as<Conv1dAttr>().activation;
  return before ? c.make(op::kActivateBack, {moved, before}, attr) : moved;
}

Inputs conv1d_vjp(const VjpContext& c) {
  require_no_state(c.graph, c.y);
  const Value dy = through_activation(c, c.dy());
  const Value x = c.in(Conv1dIn::kX), weight = c.in(Conv1dIn::kWeight);
  Inputs grad{};
  if (c.wants(Conv1dIn::kX)) grad[Conv1dIn::kX] = c.make(op::kConv1dBackX, {dy, weight});
  if (c.wants(Conv1dIn::kWeight))
    grad[Conv1dIn::kWeight] = c.make(op::kConv1dBackW, {dy, x, weight});
  if (c.wants(Conv1dIn::kBias))
    grad[Conv1dIn::kBias] = c.make(op::kBiasBack, {dy, c.in(Conv1dIn::kBias)});
  return grad;
}

// Linear in x and in the weight. If only the bias has a tangent, it is added to zero times x.
Tangents conv1d_jvp(const JvpContext& c) {
  require_no_state(c.graph, c.y);
  const Value x = c.in(Conv1dIn::kX), weight = c.in(Conv1dIn::kWeight);
  const Value tx = c.t(Conv1dIn::kX), tw = c.t(Conv1dIn::kWeight), tb = c.t(Conv1dIn::kBias);
  Value sum;
  if (tx) sum = c.make(op::kConv1d, {tx, weight}, Conv1dAttr{});
  if (tw) sum = c.sum(sum, c.make(op::kConv1d, {x, tw}, Conv1dAttr{}));
  if (tb && !sum) sum = c.make(op::kScale, {x}, ScaleAttr{0});
  return through_activation(c, c.sum(sum, tb));
}

Inputs slstm_vjp(const VjpContext& c) {
  require_no_state(c.graph, c.y);
  const NodeId back = c.graph.add(
      op::kSlstmBack,
      inputs({c.dy(), c.in(SlstmIn::kX), c.in(SlstmIn::kRecurrent), c.in(SlstmIn::kBias)}),
      c.node().attr);
  return inputs({{back, 0}, {back, 1}, {back, 2}});
}
Tangents slstm_jvp(const JvpContext& c) {
  require_no_state(c.graph, c.y);
  return c.make(op::kSlstmTangent,
                {c.in(SlstmIn::kX), c.in(SlstmIn::kRecurrent), c.in(SlstmIn::kBias),
                 c.t(SlstmIn::kX), c.t(SlstmIn::kRecurrent), c.t(SlstmIn::kBias)},
                c.node().attr);
}

Inputs linear_heads_vjp(const VjpContext& c) {
  const Value x = c.in(LinearHeadsIn::kX), weight = c.in(LinearHeadsIn::kWeight);
  Inputs grad{};
  if (c.wants(LinearHeadsIn::kX))
    grad[LinearHeadsIn::kX] = c.make(op::kLinearHeadsBackX, {c.dy(), weight});
  if (c.wants(LinearHeadsIn::kWeight))
    grad[LinearHeadsIn::kWeight] = c.make(op::kLinearHeadsBackW, {c.dy(), x, weight});
  return grad;
}
Tangents linear_heads_jvp(const JvpContext& c) {
  const Value tx = c.t(LinearHeadsIn::kX), tw = c.t(LinearHeadsIn::kWeight);
  return c.sum(tx ? c.make(op::kLinearHeads, {tx, c.in(LinearHeadsIn::kWeight)}) : kNoValue,
               tw ? c.make(op::kLinearHeads, {c.in(LinearHeadsIn::kX), tw}) : kNoValue);
}

constexpr DiffDef kRules[] = {
    {op::kScan, scan_vjp, scan_jvp},
    {op::kScanChunks, scan_vjp, scan_jvp},
    {op::kConv1d, conv1d_vjp, conv1d_jvp},
    {op::kSlstm, slstm_vjp, slstm_jvp},
    {op::kLinearHeads, linear_heads_vjp, linear_heads_jvp},
};

}  // namespace

DiffTable recurrence_rules() { return kRules; }

}  // namespace veery
