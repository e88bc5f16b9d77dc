#include "autodiff/rule.h"

namespace veery {
namespace {

void require_differentiable(const VjpContext& c) {
  for (int i : {AttendIn::kK, AttendIn::kV}) {
    const Op from = c.graph[c.in(i)].op;
    if (from == op::kState || from == op::kCacheWrite)
      throw Error(ErrorKind::kUnsupported,
                  "attend: no vjp through a cache; trace the model for training");
  }
  if (c.in(AttendIn::kSinks)) throw Error(ErrorKind::kUnsupported, "attend: no vjp with sinks");
  if (c.node().as<AttendAttr>().shared > 0)
    throw Error(ErrorKind::kUnsupported,
                "attend: no vjp with values inside of keys, nor with chosen positions");
}

Inputs attend_vjp(const VjpContext& c) {
  require_differentiable(c);
  // If the loss depends on log_sum only, the gradient of y is zero.
  const Value dy = c.dy() ? c.dy() : c.make(op::kScale, {Value(c.y)}, ScaleAttr{0});
  const Value log_sum(c.y, AttendOut::kLogSum);
  const NodeId back =
      c.graph.add(op::kAttendBack,
                  inputs({dy, c.in(AttendIn::kQ), c.in(AttendIn::kK), c.in(AttendIn::kV),
                          Value(c.y), log_sum, c.cotangents[AttendOut::kLogSum]}),
                  c.node().attr);
  return inputs({{back, 0}, {back, 1}, {back, 2}});
}

constexpr DiffDef kRules[] = {
    {.op = op::kAttend,
     .vjp = attend_vjp,
     .no_jvp = "there is no kernel for tangents of attention"},
    {.op = op::kChoosePositions,
     .no_vjp = "positions are no numbers that change a little",
     .no_jvp = "positions are no numbers that change a little"},
    {.op = op::kCacheWrite,
     .no_vjp = "caches are for serving; trace the model for training",
     .no_jvp = "caches are for serving; trace the model for training"},
};

}  // namespace

DiffTable attention_rules() { return kRules; }

}  // namespace veery
