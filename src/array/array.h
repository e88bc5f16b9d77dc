// array.h: the language of model definitions: graph values and functions on them.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/ops.h"

namespace veery {

/// A handle to a value of a graph; cheap to copy. The graph must outlive it.
class Array {
 public:
  Array() = default;
  Array(Graph& graph, Value value) : graph_(&graph), value_(value) {}
  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  Value value() const { return value_; }
  NodeId id() const { return value_.node; }
  const Shape& shape() const { return graph_->shape(value_); }
  DType dtype() const { return graph_->type(value_).dtype; }
  const Node& node() const { return (*graph_)[value_]; }
  /// Names the value for inspection ("blk.3.attn.k").
  Array named(std::string name) const {
    (*graph_)[id()].name = std::move(name);
    return *this;
  }

 private:
  Graph* graph_ = nullptr;
  Value value_;
};

/// Adds `op` to the graph and returns its first output. The first input must be present; optional
/// inputs that are absent are Array{}.
inline Array apply(Op op, std::initializer_list<Array> in, const Attr& attr = {}) {
  Inputs values{};
  std::transform(in.begin(), in.end(), values.begin(), [](const Array& a) { return a.value(); });
  Graph& graph = in.begin()->graph();
  return {graph, graph.add(op, values, attr)};
}

// Leaves and types.
/// A value that each run is given, by name: `attr` has its element type.
inline Array input(Graph& graph, std::string name, const Shape& shape, const InputAttr& attr = {}) {
  return {graph, graph.leaf(op::kInput, std::move(name), shape, attr)};
}
/// A constant array with these elements, row by row. T has the size of an element; uint16_t are the
/// bits of f16 and bf16. Throws kInput unless there are as many as the shape says.
template <typename T>
Array data(Graph& graph, const ValueType& type, std::span<const T> elements) {
  const auto bytes = std::as_bytes(elements);
  return {graph,
          graph.leaf(op::kData, "data", type,
                     std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()))};
}
/// A constant f32 array of one value.
inline Array constant(Graph& graph, const Shape& shape, float value) {
  const std::vector<float> all(static_cast<size_t>(shape.rows().size * shape.cols()), value);
  return data(graph, {shape}, std::span(all));
}
/// An array that keeps its elements between runs, by name (VariableStore in plan/variables.h). Its
/// elements are those before the run's updates.
inline Array variable(Graph& graph, std::string name, const ValueType& type) {
  return {graph, graph.leaf(op::kVariable, std::move(name), type.shape, VariableAttr{type.dtype})};
}
/// Writes x to a variable; returns the variable after that. A run does it if its plan has this
/// result as a root or needs it.
inline Array assign(Array x, Array variable) { return apply(op::kAssign, {x, variable}); }
/// x with elements of another type; x itself if it has that type.
inline Array cast(Array x, DType to) {
  return x.dtype() == to ? x : apply(op::kCast, {x}, CastAttr{to});
}

// Elements.
inline Array operator+(Array a, Array b) { return apply(op::kAdd, {a, b}); }
inline Array operator*(Array a, Array b) { return apply(op::kMul, {a, b}); }
inline Array scale(Array x, float factor) { return apply(op::kScale, {x}, ScaleAttr{factor}); }
/// cap * tanh(x / cap)
inline Array softcap(Array x, float cap) { return apply(op::kSoftcap, {x}, ScaleAttr{cap}); }
inline Array activate(Array x, const ActivateAttr& attr) {
  return attr == Activation::kNone ? x : apply(op::kActivate, {x}, attr);
}

// Matrix products.
/// y = x w^T (+ bias). x [rows, in], w [out, in], bias [1, out] or absent -> [rows, out]. The
/// output head uses Precision::kHigh.
inline Array linear(Array x, Array weight, Array bias = {},
                    Precision precision = Precision::kUsual) {
  return apply(op::kLinear, {x, weight, bias}, LinearAttr{precision});
}
/// Multiplies the first `in` columns of each of `heads` parts of a row by a matrix of its own and
/// keeps the remaining columns of the part after the result. x [rows, heads * (in + rest)], weight
/// [heads, out, in] -> [rows, heads * (out + rest)].
inline Array head_linear(Array x, Array weight, int heads) {
  return apply(op::kHeadLinear, {x, weight}, HeadsAttr{heads});
}

// Norms.
/// x / sqrt(mean(x^2) + eps) * weight, for each of `groups` equal parts of a row (Zhang and
/// Sennrich, arXiv:1910.07467).
inline Array rms_norm(Array x, Array weight, float eps, int groups = 1) {
  return apply(op::kRmsNorm, {x, weight}, NormAttr{eps, groups});
}
/// (x - mean) / sqrt(variance + eps) * weight (+ bias), for each of `groups` equal parts of a row
/// (Ba et al., arXiv:1607.06450). weight, bias: [1, columns / groups] for all parts, or [1,
/// columns].
inline Array layer_norm(Array x, Array weight, Array bias, float eps, int groups = 1) {
  return apply(op::kLayerNorm, {x, weight, bias}, NormAttr{eps, groups});
}
/// x / max(|x|, eps), where |x| is the Euclidean norm of a row.
inline Array l2_norm(Array x, float eps = 1e-12F) {
  return apply(op::kL2Norm, {x}, NormAttr{eps, 1});
}

// Positions and attention.
/// cos and sin of every angle: [rows, dims]. One value serves all layers with the same parameters.
/// The frequencies are divided by `divisors` [1, dims / 2]; in rows where `is_extended` [rows, 1]
/// is not 0, by `extended` instead (longrope has two sets).
inline Array rope_angles(Array positions, const AnglesAttr& attr, Array divisors = {},
                         Array extended = {}, Array is_extended = {}) {
  return apply(op::kRopeAngles, {positions, divisors, extended, is_extended}, attr);
}
/// Rotary position embedding (Su et al., arXiv:2104.09864) of x [rows, heads * head_dim].
inline Array rope(Array x, Array angles, const RopeAttr& attr) {
  return apply(op::kRope, {x, angles}, attr);
}
/// Multiplies each row of x by the factor of PositionScaleAttr at its position [rows, 1].
inline Array position_scale(Array x, Array positions, const PositionScaleAttr& attr) {
  return apply(op::kPositionScale, {x, positions}, attr);
}
/// Softmax attention of q over k and v, which are caches, or keys and values of this run.
/// `sinks` [1, heads]: an additional score per head without a value, which takes part in the
/// softmax (Xiao et al., arXiv:2309.17453). `chosen`: output of choose_positions(); attention is
/// limited to these positions.
inline Array attend(Array q, Array k, Array v, const AttendAttr& attr, Array sinks = {},
                    Array chosen = {}) {
  return apply(op::kAttend, {q, k, v, sinks, chosen}, attr);
}
/// The second output of an attend(): ln of the sum of exp(score) over all that the softmax of a row
/// and head normalises, sinks included: [rows, heads] f32.
inline Array log_sum_of(Array attended) {
  return {attended.graph(), Value(attended.id(), AttendOut::kLogSum)};
}
/// The positions whose keys have the largest scores for the queries of a row.
inline Array choose_positions(Array q, Array weights, Array k, const ChooseAttr& attr) {
  return apply(op::kChoosePositions, {q, weights, k}, attr);
}
/// Writes x to the cache at the positions of this run; returns the whole cache.
inline Array cache_write(Array x, Array state) {
  return apply(op::kCacheWrite, {x, state}, state.node().attr);
}

// Recurrences.
/// Inputs of a scan; absent ones are Array{}.
struct ScanInputs {
  Array q, k, v;
  Array decay, gate, a, b, bonus, rates;
  Array state;  ///< Trace::recurrent_state() of scan_state()
};
/// A linear recurrence over the positions of each sequence, defined by ScanAttr.
inline Array scan(const ScanInputs& in, const ScanAttr& attr) {
  return apply(op::kScan,
               {in.q, in.k, in.v, in.decay, in.gate, in.a, in.b, in.bonus, in.rates, in.state},
               attr);
}
/// A causal depthwise convolution with weight [width, channels], followed by an activation.
inline Array conv1d(Array x, Array weight, Array bias, Array state,
                    Activation activation = Activation::kNone) {
  return apply(op::kConv1d, {x, weight, bias, state}, Conv1dAttr{activation});
}

/// sLSTM with gates [rows, 4 * channels]. `state`: Trace::recurrent_state() of [4, channels].
inline Array slstm(Array gates, Array recurrent, Array bias, Array state, int32_t heads) {
  return apply(op::kSlstm, {gates, recurrent, bias, state}, SlstmAttr{heads});
}
/// Multiplies x by a block-diagonal matrix, weight [columns, columns per block].
inline Array linear_heads(Array x, Array weight) { return apply(op::kLinearHeads, {x, weight}); }

// Mixtures of experts.
/// The weight of each expert for each row: [rows, experts], 0 for experts that were not selected.
inline Array route(Array scores, const RouteAttr& attr, Array bias = {}) {
  return apply(op::kRoute, {scores, bias}, attr);
}
/// The weights of all experts [experts, ...]; `gate` is absent if they have no gate projection.
/// Biases [1, experts * ...], or absent.
struct Experts {
  Array gate, up, down;
  Array gate_bias, up_bias, down_bias;
};
/// A mixture of experts (Shazeer et al., arXiv:1701.06538).
inline Array moe(Array x, Array gates, const Experts& e, const MoeAttr& attr) {
  return apply(op::kMoe, {x, gates, {}, e.gate, e.up, e.down, e.gate_bias, e.up_bias, e.down_bias},
               attr);
}

// Rows and columns.
/// Looks up rows of `weight` [count, columns] by `ids` and multiplies them by `factor`.
inline Array embed(Array ids, Array weight, float factor = 1) {
  return apply(op::kEmbed, {ids, weight}, ScaleAttr{factor});
}
inline Array columns(Array x, int64_t begin, int64_t count) {
  return apply(op::kColumns, {x}, ColumnsAttr{begin, count});
}
/// Concatenates the columns of a and b.
inline Array concat(Array a, Array b) { return apply(op::kConcat, {a, b}); }
inline Array select_rows(Array x, Array rows) { return apply(op::kSelectRows, {x, rows}); }
/// Row r of the result is row r - by of x if it belongs to the same sequence, otherwise zeros.
inline Array shift(Array x, int32_t by) { return apply(op::kShift, {x}, ShiftAttr{by}); }
/// The lowest index of the maximum of each row: [rows, 1] i32.
inline Array argmax(Array x) { return apply(op::kArgmax, {x}); }
/// The `count` largest values of each row. Further outputs of the node are their indices and the
/// row's mass (TopKOut).
inline Array top_k(Array x, int32_t count) { return apply(op::kTopK, {x}, TopKAttr{count}); }
/// One row per sequence of the run: [sequences, columns].
inline Array pool(Array x, Pooling kind) { return apply(op::kPool, {x}, PoolAttr{kind}); }

// Losses.
/// Mean of -log softmax(logits)[target] over the rows whose target is not -1.
inline Array cross_entropy(Array logits, Array targets) {
  return apply(op::kCrossEntropy, {logits, targets});
}

}  // namespace veery
