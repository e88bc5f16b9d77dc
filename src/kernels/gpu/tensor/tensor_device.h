// tensor_device.h: makes the TensorDevice of a machine.
#pragma once
#include <memory>

#include "kernels/gpu/machine/machine.h"
#include "kernels/tensor/tensor_device.h"

namespace veery::gpu {

/// nullptr if the machine has no kernels for tensors.
std::unique_ptr<TensorDevice> make_tensor_device(Machine& machine);

}  // namespace veery::gpu
