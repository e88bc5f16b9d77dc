#include "graph/ops/recurrence_back.h"

#include "graph/graph.h"

namespace veery::op::detail {
namespace {

// Returns the index of a scan's input among the inputs of its gradients.
constexpr int behind_dy(int scan_input) { return ScanBackIn::kFirst + scan_input; }

ValueType like(const OpContext& c, int scan_input) {
  const int input = behind_dy(scan_input);
  return c.has(input) ? c.type(input) : ValueType{Shape{1, 1}};
}

Outputs gradients(const OpContext& c, int first, int second, int third) {
  c.attr<ScanAttr>();
  c.same_shape(ScanBackIn::kDy, behind_dy(ScanIn::kV));
  return {like(c, first), like(c, second), like(c, third)};
}

}  // namespace

Outputs scan_chunks(const OpContext& c) {
  const auto& attr = c.attr<ScanChunksAttr>();
  c.require(attr.positions >= 1, "a chunk must have a position");
  return scan_of(c, attr.scan);
}

// For each pair of positions two products of keys and one of values, plus the state as in a scan.
Cost scan_chunks_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  const auto& attr = c.attr<ScanChunksAttr>();
  const auto heads = static_cast<double>(attr.scan.heads);
  const auto key = static_cast<double>(c.shape(ScanIn::kK).cols() / attr.scan.key_heads);
  const double all = size.elements(out.types[0].shape);
  const double rows = all / static_cast<double>(out.types[0].shape.cols());
  const double terms = attr.scan.low_rank == LowRank::kNone ? 1 : 2;
  return {.flops = terms * (attr.positions * (rows * heads * key * terms + all) + 4 * key * all)};
}

Value scan_chunks_decomposed(Graph& graph, const Node& node) {
  return graph.add(op::kScan, node.in, node.as<ScanChunksAttr>().scan);
}

Outputs scan_back(const OpContext& c) { return gradients(c, ScanIn::kQ, ScanIn::kK, ScanIn::kV); }
Outputs scan_back_gates(const OpContext& c) {
  return gradients(c, ScanIn::kDecay, ScanIn::kGate, ScanIn::kBonus);
}
Outputs scan_back_low_rank(const OpContext& c) {
  return gradients(c, ScanIn::kA, ScanIn::kB, ScanIn::kRates);
}

Outputs scan_tangent(const OpContext& c) {
  const auto& attr = c.attr<ScanTangentAttr>();
  c.require(attr.moves >= 0 && attr.moves < ScanTangentIn::kTangent && c.has(attr.moves),
            "what moves must be one of the inputs");
  c.same_shape(attr.moves, ScanTangentIn::kTangent);
  return c.shape(ScanIn::kV);
}

// A second forward pass and the backward pass; each costs about twice a scan.
Cost scan_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const int64_t key = c.shape(behind_dy(ScanIn::kK)).cols() / c.attr<ScanAttr>().key_heads;
  return {.flops = 28 * static_cast<double>(key) * size.elements(c.shape(ScanBackIn::kDy))};
}

// Each number becomes a pair of value and tangent.
Cost scan_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  const int64_t key = c.shape(ScanIn::kK).cols() / c.attr<ScanTangentAttr>().scan.key_heads;
  return {.flops = 20 * static_cast<double>(key) * size.elements(out.types[0].shape)};
}

Outputs conv1d_back_x(const OpContext& c) {
  const Shape& dy = c.shape(Conv1dBackXIn::kDy);
  c.require(c.shape(Conv1dBackXIn::kWeight).cols() == dy.cols(),
            "the weight must be [width, channels]");
  return dy;
}

Outputs conv1d_back_w(const OpContext& c) {
  const Shape& dy = c.same_shape(Conv1dBackWIn::kDy, Conv1dBackWIn::kX);
  const Shape& weight = c.shape(Conv1dBackWIn::kWeight);
  c.require(weight.cols() == dy.cols(), "the weight must be [width, channels]");
  return weight;
}

Cost conv1d_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const bool of_x = !c.has(2);
  const int weight = of_x ? int{Conv1dBackXIn::kWeight} : int{Conv1dBackWIn::kWeight};
  return {.flops = 2 * static_cast<double>(c.shape(weight).rows().size) *
                   size.elements(c.shape(Conv1dBackXIn::kDy))};
}

Outputs slstm_back(const OpContext& c) {
  const Shape& x = c.shape(SlstmBackIn::kX);
  c.attr<SlstmAttr>();
  c.require(c.shape(SlstmBackIn::kDy) == Shape{x.rows(), x.cols() / kSlstmGates},
            "dy must have one column a channel");
  return {ValueType{x}, ValueType{c.shape(SlstmBackIn::kRecurrent)},
          ValueType{c.shape(SlstmBackIn::kBias)}};
}

// The gates are computed twice, and each recurrent product has two transposes.
Cost slstm_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const auto head = static_cast<double>(c.shape(SlstmBackIn::kRecurrent).rows().size);
  return {.flops = 6 * head * size.elements(c.shape(SlstmBackIn::kX))};
}

Outputs slstm_tangent(const OpContext& c) {
  for (int i : {SlstmIn::kX, SlstmIn::kRecurrent, SlstmIn::kBias})
    if (c.has(SlstmTangentIn::kTx + i)) c.same_shape(i, SlstmTangentIn::kTx + i);
  const Shape& x = c.shape(SlstmTangentIn::kX);
  c.attr<SlstmAttr>();
  return Shape{x.rows(), x.cols() / kSlstmGates};
}

Cost slstm_tangent_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const auto head = static_cast<double>(c.shape(SlstmTangentIn::kRecurrent).rows().size);
  return {.flops = 6 * head * size.elements(c.shape(SlstmTangentIn::kX))};
}

Outputs linear_heads_back_x(const OpContext& c) {
  const Shape& dy = c.shape(LinearHeadsBackXIn::kDy);
  const Shape& weight = c.shape(LinearHeadsBackXIn::kWeight);
  c.require(weight.rows() == Dim(dy.cols()) && dy.cols() % weight.cols() == 0,
            "the weight must be [columns of dy, a divisor of these]");
  return dy;
}

Outputs linear_heads_back_w(const OpContext& c) {
  const Shape& dy = c.same_shape(LinearHeadsBackWIn::kDy, LinearHeadsBackWIn::kX);
  const Shape& weight = c.shape(LinearHeadsBackWIn::kWeight);
  c.require(weight.rows() == Dim(dy.cols()) && dy.cols() % weight.cols() == 0,
            "the weight must be [columns of dy, a divisor of these]");
  return weight;
}

Cost linear_heads_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const int weight = c.has(2) ? int{LinearHeadsBackWIn::kWeight} : int{LinearHeadsBackXIn::kWeight};
  return {.flops = 2 * static_cast<double>(c.shape(weight).cols()) *
                   size.elements(c.shape(LinearHeadsBackXIn::kDy))};
}

}  // namespace veery::op::detail
