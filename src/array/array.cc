#include "array/array.h"

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

NodeId id_or_none(const Array& array) { return array ? array.id() : kNoNode; }

Array apply(Op op, Array x, std::initializer_list<NodeId> rest, Attr attr = {}) {
  Inputs in = inputs({x.id()});
  std::copy(rest.begin(), rest.end(), in.begin() + 1);
  return {x.graph(), x.graph().add(op, in, attr)};
}

}  // namespace

Array Array::named(std::string name) const {
  (*graph_)[id_].name = std::move(name);
  return *this;
}

Array embed(Array tokens, Array weight, float factor) {
  return apply(Op::kEmbed, tokens, {weight.id()}, ScaleAttr{factor});
}
Array linear(Array x, Array weight, Array bias, bool two_terms) {
  return apply(
      Op::kLinear, x,
      {kNoNode, kNoNode, weight.id(), kNoNode, kNoNode, id_or_none(bias), kNoNode, kNoNode},
      LinearAttr{.two_terms = two_terms});
}
Array rms_norm(Array x, Array weight, float eps, int groups) {
  return apply(Op::kRmsNorm, x, {weight.id()}, NormAttr{eps, groups});
}
Array layer_norm(Array x, Array weight, Array bias, float eps, int groups) {
  return apply(Op::kLayerNorm, x, {weight.id(), id_or_none(bias)}, NormAttr{eps, groups});
}
Array operator+(Array a, Array b) { return apply(Op::kAdd, a, {b.id()}); }
Array operator*(Array a, Array b) { return apply(Op::kMul, a, {b.id()}); }
Array scale(Array x, float factor) { return apply(Op::kScale, x, {}, ScaleAttr{factor}); }
Array softcap(Array x, float cap) { return apply(Op::kSoftcap, x, {}, ScaleAttr{cap}); }
Array activate(Array x, const ActivateAttr& attr) {
  return attr == Activation::kNone ? x : apply(Op::kActivate, x, {}, attr);
}
Array rope_angles(Array positions, const AnglesAttr& attr, Array divisors, Array extended) {
  return apply(Op::kRopeAngles, positions, {id_or_none(divisors), id_or_none(extended)}, attr);
}
Array rope(Array x, Array angles, const RopeAttr& attr) {
  return apply(Op::kRope, x, {angles.id()}, attr);
}
Array attend(Array q, Array k, Array v, const AttendAttr& attr, Array sinks) {
  return apply(Op::kAttend, q, {k.id(), v.id(), id_or_none(sinks)}, attr);
}
Array head_linear(Array x, Array weight, int heads) {
  return apply(Op::kHeadLinear, x, {weight.id()}, HeadsAttr{heads});
}
Array route(Array scores, const RouteAttr& attr, Array bias) {
  return apply(Op::kRoute, scores, {id_or_none(bias)}, attr);
}
Array moe(Array x, Array gates, const Experts& e, const MoeAttr& attr) {
  return apply(Op::kMoe, x,
               {gates.id(), kNoNode, e.gate.id(), e.up.id(), e.down.id(), id_or_none(e.gate_bias),
                id_or_none(e.up_bias), id_or_none(e.down_bias)},
               attr);
}
Array cache_write(Array x, Array state) {
  return apply(Op::kCacheWrite, x, {state.id()}, x.graph()[state.id()].attr);
}
Array columns(Array x, int64_t begin, int64_t count) {
  return apply(Op::kColumns, x, {}, ColumnsAttr{begin, count});
}
Array concat(Array a, Array b) { return apply(Op::kConcat, a, {b.id()}); }
Array select_rows(Array x, Array output_rows) {
  return apply(Op::kSelectRows, x, {output_rows.id()});
}
Array argmax(Array x) { return apply(Op::kArgmax, x, {}); }
Array cross_entropy(Array logits, Array targets) {
  return apply(Op::kCrossEntropy, logits, {targets.id()});
}

}  // namespace veery
