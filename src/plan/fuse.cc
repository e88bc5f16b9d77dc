#include "plan/fuse.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace veery {
namespace {

/// One pass over a graph that writes a new one. Leaves come first, so that a merged node may stand
/// where the first of its parts stood.
class Rewriter {
 public:
  Rewriter(const Graph& from, const std::vector<NodeId>& roots)
      : old_(from),
        needed_(needed_for(from, roots)),
        uses_(use_counts(from, needed_)),
        map_(static_cast<size_t>(from.size()), kNoNode) {
    for (NodeId root : roots)
      ++uses_[static_cast<size_t>(root)];  // wanted outside: not an inner result
    for (NodeId id = 0; id < from.size(); ++id)
      if (needed(id) && info(from[id].op).group == OpGroup::kLeaf)
        set(id, fresh_.leaf(from[id].op, from[id].name, from[id].shape, from[id].attr));
  }

  const Graph& old() const { return old_; }
  const Node& node(NodeId id) const { return old_[id]; }
  bool needed(NodeId id) const { return needed_[static_cast<size_t>(id)]; }
  bool done(NodeId id) const { return map_[static_cast<size_t>(id)] != kNoNode; }
  /// An inner result of `op` that only one node uses.
  bool single(NodeId id, Op op) const {
    return id != kNoNode && node(id).op == op && uses_[static_cast<size_t>(id)] == 1;
  }
  NodeId in(NodeId id, int i) const { return node(id).in[static_cast<size_t>(i)]; }

  NodeId mapped(NodeId id) const { return id == kNoNode ? kNoNode : map_[static_cast<size_t>(id)]; }
  void set(NodeId id, NodeId to) { map_[static_cast<size_t>(id)] = to; }
  /// Adds a node on inputs of the old graph in place of `id`.
  NodeId replace(NodeId id, Op op, Inputs old_inputs, const Attr& attr) {
    for (NodeId& i : old_inputs) i = mapped(i);
    const NodeId to = fresh_.add(op, old_inputs, attr, node(id).name);
    set(id, to);
    return to;
  }
  NodeId add(Op op, const Inputs& new_inputs, const Attr& attr, std::string name) {
    return fresh_.add(op, new_inputs, attr, std::move(name));
  }
  void copy(NodeId id) { replace(id, node(id).op, node(id).in, node(id).attr); }
  Graph take() { return std::move(fresh_); }

 private:
  const Graph& old_;
  Graph fresh_;
  std::vector<bool> needed_;
  std::vector<int> uses_;
  std::vector<NodeId> map_;
};

/// A rule looks at one node and either writes its replacement (true) or leaves it alone.
using RewriteRule = bool (*)(Rewriter&, NodeId);

bool plain_linear(const Node& node) {
  if (node.op != Op::kLinear) return false;
  const auto& attr = node.as<LinearAttr>();
  return attr.weights == 1 && attr.gate == Activation::kNone && attr.scale == 1 &&
         node.in[1] == kNoNode && node.in[2] == kNoNode;
}

// act(x g^T) * (x u^T) -> one linear with a gate.
bool gate_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kMul) return false;
  const NodeId act = r.in(id, 0);
  const NodeId up = r.in(id, 1);
  if (!r.single(act, Op::kActivate)) return false;
  const NodeId gate = r.in(act, 0);
  if (!r.single(gate, Op::kLinear) || !r.single(up, Op::kLinear)) return false;
  const Node& g = r.node(gate);
  const Node& u = r.node(up);
  const bool same_weights = r.node(g.in[3]).shape == r.node(u.in[3]).shape;
  if (!plain_linear(g) || !plain_linear(u) || g.in[0] != u.in[0] || !same_weights) return false;
  if ((g.in[6] == kNoNode) != (u.in[6] == kNoNode)) return false;
  Inputs in = inputs({g.in[0], kNoNode, kNoNode, g.in[3], u.in[3], kNoNode, g.in[6], u.in[6]});
  r.replace(id, Op::kLinear, in, LinearAttr{.weights = 2, .gate = r.node(act).as<ActivateAttr>()});
  return true;
}

// act(x w^T) -> one linear; where it is no gate, which was taken before.
bool activation_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kActivate || !r.single(r.in(id, 0), Op::kLinear)) return false;
  const Node& inner = r.node(r.in(id, 0));
  if (!plain_linear(inner)) return false;
  r.replace(id, Op::kLinear, inner.in, LinearAttr{.gate = r.node(id).as<ActivateAttr>()});
  return true;
}

// Linears on one input -> one linear, and views of its columns.
bool join_rule(Rewriter& r, NodeId id) {
  if (!plain_linear(r.node(id))) return false;
  std::vector<NodeId> parts;
  for (NodeId other = id; other < r.old().size() && parts.size() < 3; ++other)
    if (r.needed(other) && !r.done(other) && plain_linear(r.node(other)) &&
        r.in(other, 0) == r.in(id, 0))
      parts.push_back(other);
  if (parts.size() < 2) return false;
  Inputs in = inputs({r.mapped(r.in(id, 0))});
  for (size_t i = 0; i < parts.size(); ++i) {
    in[3 + i] = r.mapped(r.in(parts[i], 3));
    in[6 + i] = r.mapped(r.in(parts[i], 6));
  }
  const NodeId joint =
      r.add(Op::kLinear, in, LinearAttr{.weights = static_cast<int32_t>(parts.size())}, "");
  int64_t begin = 0;
  for (NodeId part : parts) {
    const int64_t count = r.node(part).shape.cols;
    r.set(part, r.add(Op::kColumns, inputs({joint}), ColumnsAttr{begin, count}, r.node(part).name));
    begin += count;
  }
  return true;
}

// linear(rms_norm(x)) -> linear with a norm.
bool norm_rule(Rewriter& r, NodeId id) {
  const Node& node = r.node(id);
  if (node.op != Op::kLinear || node.in[1] != kNoNode || !r.single(node.in[0], Op::kRmsNorm))
    return false;
  const Node& norm = r.node(node.in[0]);
  if (norm.as<NormAttr>().groups != 1 || norm.in[2] != kNoNode) return false;
  auto attr = node.as<LinearAttr>();
  attr.eps = norm.as<NormAttr>().eps;
  Inputs in = node.in;
  in[0] = norm.in[0];
  in[1] = norm.in[1];
  r.replace(id, Op::kLinear, in, attr);
  return true;
}

// linear(x) * factor -> the product is made where the result is written.
bool scale_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kScale || !r.single(r.in(id, 0), Op::kLinear)) return false;
  const Node& inner = r.node(r.in(id, 0));
  auto attr = inner.as<LinearAttr>();
  if (attr.scale != 1 || inner.in[2] != kNoNode) return false;
  attr.scale = r.node(id).as<ScaleAttr>().factor;
  r.replace(id, Op::kLinear, inner.in, attr);
  return true;
}

// y + linear(x) and y + rms_norm(x): the sum is made where the result is written.
bool residual_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kAdd) return false;
  for (int i = 1; i >= 0; --i) {
    const NodeId inner = r.in(id, i);
    const NodeId other = r.in(id, 1 - i);
    if (!r.single(inner, Op::kLinear) && !r.single(inner, Op::kRmsNorm)) continue;
    if (r.in(inner, 2) != kNoNode || other == inner) continue;
    Inputs in = r.node(inner).in;
    in[2] = other;
    r.replace(id, r.node(inner).op, in, r.node(inner).attr);
    return true;
  }
  return false;
}

/// One of q, k, v as qkv_rope wants it: columns of a joint projection, perhaps with a head norm.
struct Projected {
  NodeId joint, norm;
  int64_t begin, count;
  float eps;
};

std::optional<Projected> projected(const Rewriter& r, NodeId id, int32_t heads) {
  Projected p{kNoNode, kNoNode, 0, 0, 0};
  if (r.single(id, Op::kRmsNorm) && r.in(id, 2) == kNoNode &&
      r.node(id).as<NormAttr>().groups == heads) {
    p.norm = r.in(id, 1);
    p.eps = r.node(id).as<NormAttr>().eps;
    id = r.in(id, 0);
  }
  if (!r.single(id, Op::kColumns)) return std::nullopt;
  p.joint = r.in(id, 0);
  p.begin = r.node(id).as<ColumnsAttr>().begin;
  p.count = r.node(id).as<ColumnsAttr>().count;
  return p;
}

struct QkvMatch {
  Inputs in;
  QkvRopeAttr attr;
};

std::optional<QkvMatch> match_qkv(const Rewriter& r, NodeId attend) {
  const NodeId q = r.in(attend, 0);
  const NodeId k = r.in(attend, 1);
  const NodeId v = r.in(attend, 2);
  if (!r.single(q, Op::kRope) || !r.single(k, Op::kCacheWrite) || !r.single(v, Op::kCacheWrite))
    return std::nullopt;
  const NodeId rotated = r.in(k, 0);
  if (!r.single(rotated, Op::kRope) || r.in(q, 1) != r.in(rotated, 1)) return std::nullopt;
  const auto& rope_q = r.node(q).as<RopeAttr>();
  const auto& rope_k = r.node(rotated).as<RopeAttr>();
  const auto pq = projected(r, r.in(q, 0), rope_q.heads);
  const auto pk = projected(r, r.in(rotated, 0), rope_k.heads);
  const auto pv = projected(r, r.in(v, 0), rope_k.heads);
  if (!pq || !pk || !pv || pv->norm != kNoNode) return std::nullopt;
  if (pq->joint != pk->joint || pk->joint != pv->joint ||
      (pq->norm == kNoNode) != (pk->norm == kNoNode))
    return std::nullopt;
  if (pq->begin != 0 || pv->count != pk->count || pk->begin != pq->count ||
      pv->begin != pk->begin + pk->count || pq->eps != pk->eps)
    return std::nullopt;
  if (rope_q.interleaved != rope_k.interleaved || rope_q.dims != rope_k.dims) return std::nullopt;
  if (rope_q.begin != 0 || rope_k.begin != 0) return std::nullopt;
  const auto head_dim = static_cast<int32_t>(pq->count / rope_q.heads);
  return QkvMatch{inputs({pq->joint, r.in(q, 1), r.in(k, 1), r.in(v, 1), pq->norm, pk->norm}),
                  {rope_q.heads, rope_k.heads, head_dim, rope_q.dims, rope_q.interleaved, pq->eps}};
}

// Head norms, RoPE and cache writes of one layer -> one op between projection and attention.
bool qkv_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kAttend) return false;
  const auto match = match_qkv(r, id);
  if (!match) return false;
  const NodeId q = r.replace(r.in(id, 0), Op::kQkvRope, match->in, match->attr);
  const Inputs in = inputs(
      {q, r.mapped(r.in(r.in(id, 1), 1)), r.mapped(r.in(r.in(id, 2), 1)), r.mapped(r.in(id, 3))});
  r.set(id, r.add(Op::kAttend, in, r.node(id).attr, r.node(id).name));
  return true;
}

// argmax(linear(x)) -> the logits are never written.
bool argmax_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != Op::kArgmax || !r.single(r.in(id, 0), Op::kLinear)) return false;
  const Node& inner = r.node(r.in(id, 0));
  const auto& attr = inner.as<LinearAttr>();
  if (attr.weights != 1 || attr.gate != Activation::kNone || inner.in[2] != kNoNode) return false;
  r.replace(id, Op::kLinearArgmax, inner.in, attr);
  return true;
}

// In the order in which they are applied: a gate is taken before its two linears could be joined.
constexpr RewriteRule kRules[] = {gate_rule,  activation_rule, join_rule, norm_rule,
                                  scale_rule, residual_rule,   qkv_rule,  argmax_rule};

}  // namespace

Graph fuse(const Graph& graph, std::vector<NodeId>& roots) {
  Graph current = graph;
  for (RewriteRule rule : kRules) {
    Rewriter rewriter(current, roots);
    for (NodeId id = 0; id < current.size(); ++id)
      if (rewriter.needed(id) && !rewriter.done(id) && !rule(rewriter, id)) rewriter.copy(id);
    for (NodeId& root : roots) root = rewriter.mapped(root);
    current = rewriter.take();
  }
  verify(current);
  return current;
}

}  // namespace veery
