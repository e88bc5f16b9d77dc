#include "autodiff/gradient.h"

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

/// What a rule may ask for: the node y, its cotangent, and which inputs lead to a wanted value.
struct Rule {
  Graph& graph;
  NodeId y;
  NodeId dy;
  const std::vector<bool>& wanted;

  // By value: adding nodes moves the graph's storage.
  Node node() const { return graph[y]; }
  NodeId in(int i) const { return graph[y].in[static_cast<size_t>(i)]; }
  bool wants(int i) const { return in(i) != kNoNode && wanted[static_cast<size_t>(in(i))]; }
  NodeId make(Op op, std::initializer_list<NodeId> ids, Attr attr = {}) const {
    return graph.add(op, inputs(ids), attr);
  }
};

using VjpRule = Inputs (*)(const Rule&);

Inputs none() { return inputs({}); }

Inputs embed_vjp(const Rule& r) {
  return inputs({kNoNode, r.make(Op::kEmbedBack, {r.dy, r.in(0), r.in(1)}, r.node().attr)});
}

Inputs linear_vjp(const Rule& r) {
  const auto attr = r.node().as<LinearAttr>();
  if (attr.weights != 1 || attr.gate != Activation::kNone || attr.scale != 1 || r.in(1) != kNoNode)
    throw Error(ErrorKind::kUnsupported,
                "linear: a fused linear has no vjp; differentiate before fusion");
  Inputs grad = none();
  if (r.wants(0)) grad[0] = r.make(Op::kLinearBackX, {r.dy, r.in(3)});
  if (r.wants(2)) grad[2] = r.dy;
  if (r.wants(3)) grad[3] = r.make(Op::kLinearBackW, {r.dy, r.in(0)});
  if (r.wants(6)) grad[6] = r.make(Op::kBiasBack, {r.dy, r.in(6)});
  return grad;
}

Inputs rms_norm_vjp(const Rule& r) {
  const Attr attr = r.node().attr;
  Inputs grad = none();
  if (r.wants(0)) grad[0] = r.make(Op::kRmsNormBackX, {r.dy, r.in(0), r.in(1)}, attr);
  if (r.wants(1)) grad[1] = r.make(Op::kRmsNormBackW, {r.dy, r.in(0)}, attr);
  if (r.wants(2)) grad[2] = r.dy;
  return grad;
}

Inputs layer_norm_vjp(const Rule& r) {
  const Attr attr = r.node().attr;
  Inputs grad = none();
  if (r.wants(0)) grad[0] = r.make(Op::kLayerNormBackX, {r.dy, r.in(0), r.in(1)}, attr);
  if (r.wants(1)) grad[1] = r.make(Op::kLayerNormBackW, {r.dy, r.in(0), r.in(1)}, attr);
  if (r.wants(2)) grad[2] = r.make(Op::kBiasBack, {r.dy, r.in(2)});
  return grad;
}

Inputs add_vjp(const Rule& r) { return inputs({r.dy, r.dy}); }

Inputs mul_vjp(const Rule& r) {
  Inputs grad = none();
  if (r.wants(0)) grad[0] = r.make(Op::kMul, {r.dy, r.in(1)});
  if (r.wants(1)) grad[1] = r.make(Op::kMul, {r.dy, r.in(0)});
  return grad;
}

Inputs scale_vjp(const Rule& r) { return inputs({r.make(Op::kScale, {r.dy}, r.node().attr)}); }

template <Op kBack>
Inputs unary_vjp(const Rule& r) {
  return inputs({r.make(kBack, {r.dy, r.in(0)}, r.node().attr)});
}

// A rotation is orthogonal: its transpose rotates back.
Inputs rope_vjp(const Rule& r) {
  auto attr = r.node().as<RopeAttr>();
  attr.sign = -attr.sign;
  return inputs({r.make(Op::kRope, {r.dy, r.in(1)}, attr)});
}

Inputs attend_vjp(const Rule& r) {
  for (int i = 1; i < 3; ++i)
    if (r.graph[r.in(i)].op == Op::kState || r.graph[r.in(i)].op == Op::kCacheWrite)
      throw Error(ErrorKind::kUnsupported,
                  "attend: no vjp through a cache; trace the model for training");
  if (r.in(3) != kNoNode) throw Error(ErrorKind::kUnsupported, "attend: no vjp with sinks");
  if (r.node().as<AttendAttr>().shared > 0)
    throw Error(ErrorKind::kUnsupported, "attend: no vjp with values inside of keys");
  Inputs grad = none();
  for (int part = 0; part < 3; ++part) {
    if (!r.wants(part)) continue;
    auto attr = r.node().as<AttendAttr>();
    attr.part = part;
    grad[static_cast<size_t>(part)] =
        r.make(Op::kAttendBack, {r.dy, r.in(0), r.in(1), r.in(2)}, attr);
  }
  return grad;
}

Inputs select_rows_vjp(const Rule& r) {
  return inputs({r.make(Op::kSelectRowsBack, {r.dy, r.in(1)})});
}

Inputs cross_entropy_vjp(const Rule& r) {
  return inputs({r.make(Op::kCrossEntropyBack, {r.dy, r.in(0), r.in(1)})});
}

VjpRule rule_of(Op op) {
  switch (op) {
    case Op::kEmbed: return embed_vjp;
    case Op::kLinear: return linear_vjp;
    case Op::kRmsNorm: return rms_norm_vjp;
    case Op::kLayerNorm: return layer_norm_vjp;
    case Op::kAdd: return add_vjp;
    case Op::kMul: return mul_vjp;
    case Op::kScale: return scale_vjp;
    case Op::kActivate: return unary_vjp<Op::kActivateBack>;
    case Op::kSoftcap: return unary_vjp<Op::kSoftcapBack>;
    case Op::kRope: return rope_vjp;
    case Op::kAttend: return attend_vjp;
    case Op::kSelectRows: return select_rows_vjp;
    case Op::kCrossEntropy: return cross_entropy_vjp;
    default: return nullptr;
  }
}

// Nodes between `wrt` and the end: only these need a cotangent.
std::vector<bool> leads_to(const Graph& graph, const std::vector<Array>& wrt) {
  std::vector<bool> wanted(static_cast<size_t>(graph.size()), false);
  for (const Array& array : wrt) wanted[static_cast<size_t>(array.id())] = true;
  for (NodeId id = 0; id < graph.size(); ++id)
    for (NodeId in : graph[id].in)
      if (in != kNoNode && wanted[static_cast<size_t>(in)]) wanted[static_cast<size_t>(id)] = true;
  return wanted;
}

void accumulate(Graph& graph, NodeId& sum, NodeId term) {
  sum = sum == kNoNode ? term : graph.add(Op::kAdd, inputs({sum, term}));
}

}  // namespace

std::vector<Array> vjp(Array y, Array dy, const std::vector<Array>& wrt) {
  Graph& graph = y.graph();
  const std::vector<bool> wanted = leads_to(graph, wrt);
  std::vector<NodeId> cotangent(wanted.size(), kNoNode);
  cotangent[static_cast<size_t>(y.id())] = dy.id();
  for (NodeId id = y.id(); id >= 0; --id) {
    const NodeId at = cotangent[static_cast<size_t>(id)];
    if (at == kNoNode || info(graph[id].op).group == OpGroup::kLeaf) continue;
    const VjpRule rule = rule_of(graph[id].op);
    if (rule == nullptr)
      throw Error(ErrorKind::kUnsupported, "{}: has no vjp rule", info(graph[id].op).name);
    const Inputs grads = rule({graph, id, at, wanted});
    for (size_t i = 0; i < grads.size(); ++i) {
      const NodeId in = graph[id].in[i];
      if (grads[i] != kNoNode && wanted[static_cast<size_t>(in)])
        accumulate(graph, cotangent[static_cast<size_t>(in)], grads[i]);
    }
  }
  std::vector<Array> result;
  for (const Array& array : wrt) {
    const NodeId grad = cotangent[static_cast<size_t>(array.id())];
    if (grad == kNoNode)
      throw Error(ErrorKind::kInput, "gradient: the result does not depend on {}",
                  graph[array.id()].name);
    result.emplace_back(graph, grad);
  }
  return result;
}

std::vector<Array> gradient(Array loss, const std::vector<Array>& wrt) {
  if (loss.shape() != Shape{1, 1})
    throw Error(ErrorKind::kInput, "gradient: the loss is {}, expected [1, 1]",
                to_string(loss.shape()));
  Graph& graph = loss.graph();
  const Array one(graph, graph.leaf(Op::kConstant, "one", {1, 1}, ScaleAttr{1}));
  return vjp(loss, one, wrt);
}

}  // namespace veery
