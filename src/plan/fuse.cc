#include "plan/fuse.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "graph/ops/ops.h"

namespace veery {
namespace {

/// One pass over a graph that writes a new one. Leaves are copied first, so that a merged node can
/// be written at the position of the first of its parts.
class Rewriter {
 public:
  Rewriter(const Graph& from, const std::vector<Value>& roots)
      : old_(from),
        needed_(needed_for(from, roots)),
        uses_(use_counts(from, needed_)),
        map_(static_cast<size_t>(from.size())) {
    for (Value root : roots) ++uses_[static_cast<size_t>(root.node)];  // a root must stay
    for (NodeId id = 0; id < from.size(); ++id)
      if (needed(id) && from[id].op->group == OpGroup::kLeaf) set(id, fresh_.copy_leaf(from[id]));
    keep_in_order();
  }

  const Graph& old() const { return old_; }
  const Node& node(Value value) const { return old_[value]; }
  bool needed(NodeId id) const { return needed_[static_cast<size_t>(id)]; }
  bool done(NodeId id) const { return static_cast<bool>(map_[static_cast<size_t>(id)]); }
  /// Whether the value is a result of `op` with exactly one use.
  bool single(Value value, Op op) const {
    return value && node(value).op == op && uses_[static_cast<size_t>(value.node)] == 1;
  }
  Value in(Value of, int i) const { return node(of).in[static_cast<size_t>(i)]; }

  /// Returns the value of the new graph that replaces a value of the old graph.
  Value mapped(Value value) const {
    if (!value) return {};
    const Value to = map_[static_cast<size_t>(value.node)];
    return value.output == 0 ? to : Value(to.node, value.output);
  }
  void set(Value value, Value to) { map_[static_cast<size_t>(value.node)] = to; }
  /// Adds a node on inputs of the old graph in place of `of`.
  Value replace(Value of, Op op, Inputs old_inputs, const Attr& attr) {
    for (Value& i : old_inputs) i = mapped(i);
    const Value to = fresh_.add(op, old_inputs, attr, node(of).name);
    set(of, to);
    return to;
  }
  Value add(Op op, const Inputs& new_inputs, const Attr& attr, std::string name) {
    return fresh_.add(op, new_inputs, attr, std::move(name));
  }
  void copy(NodeId id) { replace(id, old_[id].op, old_[id].in, old_[id].attr); }
  Graph take() { return std::move(fresh_); }

 private:
  // A node that reads a variable which another node writes stays before that node: it counts as
  // used twice, so that no rule merges it with a later one.
  void keep_in_order() {
    std::set<std::string_view> written;
    const auto is_variable = [&](Value v) { return v && old_[v].op == op::kVariable; };
    for (const Node& node : old_.nodes())
      for (size_t i = 0; i < node.in.size(); ++i)
        if ((node.op->writes >> i & 1U) != 0 && is_variable(node.in[i]))
          written.insert(old_[node.in[i]].name);
    for (NodeId id = 0; !written.empty() && id < old_.size(); ++id)
      for (Value in : old_[id].in)
        if (is_variable(in) && written.contains(old_[in].name)) ++uses_[static_cast<size_t>(id)];
  }

  const Graph& old_;
  Graph fresh_;
  std::vector<bool> needed_;
  std::vector<int> uses_;
  std::vector<Value> map_;  ///< of a node's first output
};

/// A rule looks at one node and either writes its replacement (true) or leaves it alone.
using RewriteRule = bool (*)(Rewriter&, NodeId);

bool is_linear(const Rewriter& r, Value value) {
  return value && (r.node(value).op == op::kLinear || r.node(value).op == op::kFusedLinear);
}
// Whether the value is a result of linear or fused_linear with exactly one use.
bool single_linear(const Rewriter& r, Value value) {
  return is_linear(r, value) && r.single(value, r.node(value).op);
}

// A row of x is quantised once for both linears.
bool same_input(const Node& a, const Node& b) {
  return a.in[LinearIn::kX] == b.in[LinearIn::kX] &&
         a.as<LinearAttr>().precision == b.as<LinearAttr>().precision;
}

// act(x g^T) * (x u^T) -> one fused_linear with a gate.
bool gate_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kMul) return false;
  const Value act = r.in(id, BinaryIn::kA);
  const Value up = r.in(id, BinaryIn::kB);
  if (!r.single(act, op::kActivate)) return false;
  const Value gate = r.in(act, UnaryIn::kX);
  if (!r.single(gate, op::kLinear) || !r.single(up, op::kLinear)) return false;
  const Node& g = r.node(gate);
  const Node& u = r.node(up);
  if (!same_input(g, u)) return false;
  const bool alike =
      r.old().shape(g.in[LinearIn::kWeight]) == r.old().shape(u.in[LinearIn::kWeight]);
  if (!alike || bool(g.in[LinearIn::kBias]) != bool(u.in[LinearIn::kBias])) return false;
  Inputs in = kernel_form(g).in;
  in[FusedLinearIn::kWeight + 1] = u.in[LinearIn::kWeight];
  in[FusedLinearIn::kBias + 1] = u.in[LinearIn::kBias];
  r.replace(id, op::kFusedLinear, in,
            FusedLinearAttr{.weights = 2,
                            .gate = r.node(act).as<ActivateAttr>(),
                            .precision = g.as<LinearAttr>().precision});
  return true;
}

// act(x w^T) -> fused_linear with an activation. Runs after the rule for gates.
bool activation_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kActivate || !r.single(r.in(id, 0), op::kLinear)) return false;
  const Node inner = kernel_form(r.node(r.in(id, 0)));
  auto attr = inner.as<FusedLinearAttr>();
  attr.gate = r.node(id).as<ActivateAttr>();
  r.replace(id, inner.op, inner.in, attr);
  return true;
}

// Linears on the same input -> one fused_linear, and views of its columns.
bool join_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kLinear) return false;
  const Value x = r.in(id, LinearIn::kX);
  std::vector<NodeId> parts;
  for (NodeId other = id; other < r.old().size() && parts.size() < FusedLinearIn::kWeights; ++other)
    if (r.needed(other) && !r.done(other) && r.node(other).op == op::kLinear &&
        same_input(r.node(other), r.node(id)))
      parts.push_back(other);
  if (parts.size() < 2) return false;
  Inputs in = inputs({r.mapped(x)});
  for (size_t i = 0; i < parts.size(); ++i) {
    in[FusedLinearIn::kWeight + i] = r.mapped(r.in(parts[i], LinearIn::kWeight));
    in[FusedLinearIn::kBias + i] = r.mapped(r.in(parts[i], LinearIn::kBias));
  }
  const FusedLinearAttr attr{.weights = static_cast<int32_t>(parts.size()),
                             .precision = r.node(id).as<LinearAttr>().precision};
  const Value joint = r.add(op::kFusedLinear, in, attr, "");
  int64_t begin = 0;
  for (NodeId part : parts) {
    const int64_t count = r.node(part).shape().cols();
    r.set(part, r.add(op::kColumns, inputs({joint}), ColumnsAttr{begin, count}, r.node(part).name));
    begin += count;
  }
  return true;
}

// linear(rms_norm(x)) -> fused_linear with a norm.
bool norm_rule(Rewriter& r, NodeId id) {
  if (!is_linear(r, id)) return false;
  const Node node = kernel_form(r.node(id));
  if (node.in[FusedLinearIn::kNorm] || !r.single(node.in[FusedLinearIn::kX], op::kRmsNorm))
    return false;
  const Node& norm = r.node(node.in[FusedLinearIn::kX]);
  if (norm.as<NormAttr>().groups != 1) return false;
  auto attr = node.as<FusedLinearAttr>();
  attr.eps = norm.as<NormAttr>().eps;
  Inputs in = node.in;
  in[FusedLinearIn::kX] = norm.in[RmsNormIn::kX];
  in[FusedLinearIn::kNorm] = norm.in[RmsNormIn::kWeight];
  r.replace(id, node.op, in, attr);
  return true;
}

// linear(x) * factor -> fused_linear whose epilogue multiplies.
bool scale_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kScale || !single_linear(r, r.in(id, 0))) return false;
  const Node inner = kernel_form(r.node(r.in(id, 0)));
  auto attr = inner.as<FusedLinearAttr>();
  if (attr.scale != 1 || inner.in[FusedLinearIn::kResidual]) return false;
  attr.scale = r.node(id).as<ScaleAttr>().factor;
  r.replace(id, inner.op, inner.in, attr);
  return true;
}

// y + linear(x) -> fused_linear that also adds y, y + rms_norm(x) -> rms_norm_add.
bool residual_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kAdd) return false;
  for (int i = 1; i >= 0; --i) {
    const Value inner = r.in(id, i);
    const Value other = r.in(id, 1 - i);
    if (other == inner || r.old().shape(other) != r.node(id).shape()) continue;  // y is a row
    if (r.single(inner, op::kRmsNorm)) {
      const Node& norm = r.node(inner);
      r.replace(id, op::kRmsNormAdd,
                inputs({norm.in[RmsNormIn::kX], norm.in[RmsNormIn::kWeight], other}), norm.attr);
      return true;
    }
    if (!single_linear(r, inner)) continue;
    Node linear = kernel_form(r.node(inner));
    if (linear.in[FusedLinearIn::kResidual]) continue;
    linear.in[FusedLinearIn::kResidual] = other;
    r.replace(id, linear.op, linear.in, linear.attr);
    return true;
  }
  return false;
}

/// One of q, k and v for qkv_rope: columns of a joint projection, perhaps with a head norm.
struct Projected {
  Value joint, norm;
  int64_t begin = 0, count = 0;
  float eps = 0;
};

std::optional<Projected> projected(const Rewriter& r, Value value, int32_t heads) {
  Projected p;
  if (r.single(value, op::kRmsNorm) && r.node(value).as<NormAttr>().groups == heads) {
    p.norm = r.in(value, RmsNormIn::kWeight);
    p.eps = r.node(value).as<NormAttr>().eps;
    value = r.in(value, RmsNormIn::kX);
  }
  if (!r.single(value, op::kColumns)) return std::nullopt;
  p.joint = r.in(value, UnaryIn::kX);
  p.begin = r.node(value).as<ColumnsAttr>().begin;
  p.count = r.node(value).as<ColumnsAttr>().count;
  return p;
}

struct QkvMatch {
  Inputs in;
  QkvRopeAttr attr;
};

std::optional<QkvMatch> match_qkv(const Rewriter& r, NodeId attend) {
  const Value q = r.in(attend, AttendIn::kQ);
  const Value k = r.in(attend, AttendIn::kK);
  const Value v = r.in(attend, AttendIn::kV);
  if (!r.single(q, op::kRope) || !r.single(k, op::kCacheWrite) || !r.single(v, op::kCacheWrite))
    return std::nullopt;
  const Value rotated = r.in(k, CacheWriteIn::kX);
  const Value angles = r.in(q, RopeIn::kAngles);
  if (!r.single(rotated, op::kRope) || angles != r.in(rotated, RopeIn::kAngles))
    return std::nullopt;
  const auto& rope_q = r.node(q).as<RopeAttr>();
  const auto& rope_k = r.node(rotated).as<RopeAttr>();
  const auto pq = projected(r, r.in(q, RopeIn::kX), rope_q.heads);
  const auto pk = projected(r, r.in(rotated, RopeIn::kX), rope_k.heads);
  const auto pv = projected(r, r.in(v, CacheWriteIn::kX), rope_k.heads);
  if (!pq || !pk || !pv || pv->norm) return std::nullopt;
  if (pq->joint != pk->joint || pk->joint != pv->joint || bool(pq->norm) != bool(pk->norm))
    return std::nullopt;
  if (pq->begin != 0 || pv->count != pk->count || pk->begin != pq->count ||
      pv->begin != pk->begin + pk->count || pq->eps != pk->eps)
    return std::nullopt;
  if (rope_q.interleaved != rope_k.interleaved || rope_q.dims != rope_k.dims) return std::nullopt;
  if (rope_q.begin != 0 || rope_k.begin != 0) return std::nullopt;
  const auto head_dim = static_cast<int32_t>(pq->count / rope_q.heads);
  return QkvMatch{inputs({pq->joint, angles, r.in(k, CacheWriteIn::kState),
                          r.in(v, CacheWriteIn::kState), pq->norm, pk->norm}),
                  {rope_q.heads, rope_k.heads, head_dim, rope_q.dims, rope_q.interleaved, pq->eps}};
}

// Head norms, RoPE and cache writes of one layer -> one op between projection and attention.
bool qkv_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kAttend) return false;
  const auto match = match_qkv(r, id);
  if (!match) return false;
  const Value q = r.replace(r.in(id, AttendIn::kQ), op::kQkvRope, match->in, match->attr);
  const Inputs in =
      inputs({q, r.mapped(match->in[QkvRopeIn::kKeys]), r.mapped(match->in[QkvRopeIn::kValues]),
              r.mapped(r.in(id, AttendIn::kSinks)), r.mapped(r.in(id, AttendIn::kChosen))});
  r.set(id, r.add(op::kAttend, in, r.node(id).attr, r.node(id).name));
  return true;
}

// argmax(linear(x)) -> one op that writes no logits. A soft cap is dropped because it preserves
// order: logits that it rounds to the same largest value are ties.
bool argmax_rule(Rewriter& r, NodeId id) {
  if (r.node(id).op != op::kArgmax) return false;
  Value x = r.in(id, UnaryIn::kX);
  if (r.single(x, op::kSoftcap)) x = r.in(x, UnaryIn::kX);
  if (!single_linear(r, x)) return false;
  const Node inner = kernel_form(r.node(x));
  const auto& attr = inner.as<FusedLinearAttr>();
  if (attr.weights != 1 || attr.gate != Activation::kNone || inner.in[FusedLinearIn::kResidual])
    return false;
  r.replace(id, op::kLinearArgmax, inner.in, attr);
  return true;
}

// In the order of application: gates first, before another rule joins their two linears.
constexpr RewriteRule kRules[] = {gate_rule,  activation_rule, join_rule, norm_rule,
                                  scale_rule, residual_rule,   qkv_rule,  argmax_rule};

}  // namespace

Graph fuse(const Graph& graph, std::vector<Value>& roots) {
  Graph current = graph;
  for (RewriteRule rule : kRules) {
    Rewriter rewriter(current, roots);
    for (NodeId id = 0; id < current.size(); ++id)
      if (rewriter.needed(id) && !rewriter.done(id) && !rule(rewriter, id)) rewriter.copy(id);
    for (Value& root : roots) root = rewriter.mapped(root);
    current = rewriter.take();
  }
  verify(current);
  return current;
}

}  // namespace veery
