#include "autodiff/rule.h"

namespace veery {
namespace {

Inputs attend_vjp(const VjpContext& c) {
  require_no_state(c.graph, c.y);
  // If the loss depends on log_sum only, the gradient of y is zero.
  const Value dy = c.dy() ? c.dy() : c.make(op::kScale, {Value(c.y)}, ScaleAttr{0});
  const Value log_sum(c.y, AttendOut::kLogSum), dlog_sum = c.cotangents[AttendOut::kLogSum];
  Inputs grad{};
  if (c.wants(AttendIn::kQ) || c.wants(AttendIn::kK) || c.wants(AttendIn::kV)) {
    const NodeId back =
        c.graph.add(op::kAttendBack,
                    inputs({dy, c.in(AttendIn::kQ), c.in(AttendIn::kK), c.in(AttendIn::kV),
                            Value(c.y), log_sum, dlog_sum, c.in(AttendIn::kChosen)}),
                    c.node().attr);
    grad = inputs({{back, 0}, {back, 1}, {back, 2}});
  }
  if (c.wants(AttendIn::kSinks))
    grad[AttendIn::kSinks] =
        c.make(op::kAttendBackSinks, {dy, Value(c.y), log_sum, c.in(AttendIn::kSinks), dlog_sum},
               c.node().attr);
  return grad;
}

Tangents attend_jvp(const JvpContext& c) {
  require_no_state(c.graph, c.y);
  const NodeId tangent =
      c.graph.add(op::kAttendTangent,
                  inputs({c.in(AttendIn::kQ), c.in(AttendIn::kK), c.in(AttendIn::kV),
                          c.in(AttendIn::kSinks), c.in(AttendIn::kChosen), c.t(AttendIn::kQ),
                          c.t(AttendIn::kK), c.t(AttendIn::kV), c.t(AttendIn::kSinks)}),
                  c.node().attr);
  return {Value(tangent, AttendOut::kY), Value(tangent, AttendOut::kLogSum)};
}

constexpr std::string_view kPositions = "positions are whole numbers";
constexpr std::string_view kCaches = "caches are states for serving; trace the model for training";

constexpr DiffDef kRules[] = {
    {op::kAttend, attend_vjp, attend_jvp},
    {.op = op::kChoosePositions, .no_vjp = kPositions, .no_jvp = kPositions},
    {.op = op::kCacheWrite, .no_vjp = kCaches, .no_jvp = kCaches},
};

}  // namespace

DiffTable attention_rules() { return kRules; }

}  // namespace veery
