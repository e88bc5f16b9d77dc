#include "kernels/gpu/launch/tables.h"

#include <algorithm>

#include "kernels/gpu/launch/recorder.h"

namespace veery::gpu {
namespace {

// In the order of preference.
constexpr LaunchRows (*kTables[])() = {
    row_launches,  rope_launches,       attend_launches, attend_general_launches, expert_launches,
    head_launches, recurrence_launches, top_k_launches,  relaxed_launches,        linear_launches,
};

}  // namespace

ActivationParams activation_params(const ActivateAttr& attr) {
  return {static_cast<int32_t>(attr.kind), attr.positive, attr.negative, attr.beta, attr.eps};
}

const LaunchRow* Recorder::row_of(const Step& step) const {
  return find_row(step.op, step.dispatch,
                  {.rows = max_rows(step.dispatch.in[0].rows), .exact = exact}, machine);
}

const LaunchRow* find_row(Op op, const Dispatch& dispatch, const KernelChoice& choice,
                          const Machine& machine) {
  for (const auto table : kTables)
    for (const LaunchRow& row : table())
      if (row.op == op && machine.has(row.needs) && row.accepts(dispatch, choice) &&
          (row.fits == nullptr || row.fits(dispatch, machine)))
        return &row;
  return nullptr;
}

bool has_row(Op op, const Machine& machine) {
  return std::ranges::any_of(kTables, [&](const auto table) {
    return std::ranges::any_of(
        table(), [&](const LaunchRow& row) { return row.op == op && machine.has(row.needs); });
  });
}

}  // namespace veery::gpu
