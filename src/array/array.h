// array.h: the language that models are written in: values of a graph and the functions on them.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace veery {

/// A handle on one value of a graph; copying it copies nothing. The graph must outlive it.
class Array {
 public:
  Array() = default;
  Array(Graph& graph, NodeId id) : graph_(&graph), id_(id) {}
  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  NodeId id() const { return id_; }
  const Shape& shape() const { return (*graph_)[id_].shape; }
  /// Gives the value a name by which it can be asked for ("blk.3.attn.k").
  Array named(std::string name) const;

 private:
  Graph* graph_ = nullptr;
  NodeId id_ = kNoNode;
};

/// Rows of `weight` (vocab, cols) for `tokens`, times `scale`.
Array embed(Array tokens, Array weight, float scale = 1);
/// y = x w^T (+ bias). x (rows, in), w (out, in), bias (1, out) or absent -> (rows, out).
/// `two_terms` (graph/attr.h) is for the output head.
Array linear(Array x, Array weight, Array bias = {}, bool two_terms = false);
/// x / sqrt(mean(x^2) + eps) * weight, over each of `groups` equal parts of a row (Zhang and
/// Sennrich, 2019).
Array rms_norm(Array x, Array weight, float eps, int groups = 1);
/// (x - mean) / sqrt(variance + eps) * weight (+ bias), over each of `groups` equal parts of a row
/// (Ba et al., 2016). weight, bias: (1, cols / groups) for all parts, or (1, cols).
Array layer_norm(Array x, Array weight, Array bias, float eps, int groups = 1);
Array operator+(Array a, Array b);
Array operator*(Array a, Array b);
Array scale(Array x, float factor);
Array softcap(Array x, float cap);  ///< cap * tanh(x / cap)
Array activate(Array x, const ActivateAttr& attr);
/// cos and sin of every angle: (rows, dims). One value serves all layers with the same parameters.
/// The frequencies are divided by `divisors` (1, dims / 2) where a file gives them, in rows whose
/// sequence is extended (Slots::extended) by those, where there are such.
Array rope_angles(Array positions, const AnglesAttr& attr, Array divisors = {},
                  Array extended = {});
/// Rotary position embedding (Su et al., 2021) of x (rows, heads * head_dim).
Array rope(Array x, Array angles, const RopeAttr& attr);
/// Softmax attention of q over k and v: caches, or the keys and values of this run. `sinks` (1,
/// heads): a score of each head that has no value, but takes its part of the softmax (Xiao et al.,
/// arXiv:2309.17453).
Array attend(Array q, Array k, Array v, const AttendAttr& attr, Array sinks = {});
/// The first `in` columns of each of `heads` parts of a row of x (rows, heads * (in + rest)) times
/// a matrix of its own; the rest of a part is kept behind. weight (heads * out, in) -> (rows, heads
/// * (out + rest)).
Array head_linear(Array x, Array weight, int heads);
/// What each expert counts for each row: (rows, experts), 0 for those that are not chosen.
Array route(Array scores, const RouteAttr& attr, Array bias = {});
/// The weights of all experts, one below the other; biases (1, experts * ..) or absent.
struct Experts {
  Array gate, up, down;
  Array gate_bias, up_bias, down_bias;
};
/// A mixture of experts (Shazeer et al., arXiv:1701.06538), each a gated feed-forward layer.
Array moe(Array x, Array gates, const Experts& experts, const MoeAttr& attr);
/// Writes x at the positions of this run; the result is the whole cache.
Array cache_write(Array x, Array state);
Array columns(Array x, int64_t begin, int64_t count);
/// a and b side by side.
Array concat(Array a, Array b);
Array select_rows(Array x, Array output_rows);
Array argmax(Array x);
/// Mean over the rows whose target is not -1 of -log softmax(logits)[target].
Array cross_entropy(Array logits, Array targets);

}  // namespace veery
