// tables.h: the tables of the launch files. If several rows accept the operands of an op, the first
// one is used.
#pragma once
#include <span>

#include "kernels/gpu/launch/recorder.h"

namespace veery::gpu {

using LaunchRows = std::span<const LaunchRow>;

LaunchRows row_launches();
LaunchRows rope_launches();
LaunchRows attend_launches();
LaunchRows attend_general_launches();
LaunchRows expert_launches();
LaunchRows head_launches();
LaunchRows recurrence_launches();
LaunchRows top_k_launches();
LaunchRows relaxed_launches();
LaunchRows linear_launches();

}  // namespace veery::gpu
