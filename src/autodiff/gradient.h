// gradient.h: automatic differentiation as functions from graph to graph, for unfused graphs.
#pragma once
#include <vector>

#include "array/array.h"

namespace veery {

/// Reverse mode: appends the gradients of `loss` [1, 1] with respect to `wrt` to its graph and
/// returns them in that order. Only nodes on a path from `wrt` to the loss are differentiated.
/// Integers, such as the choice of experts or of positions, are constants: if the loss depends on
/// an element of `wrt` only through them, its gradient is zero. Throws kUnsupported, naming the op
/// and the reason, if such an op has no vjp rule, and kInput if `loss` does not depend on an
/// element of `wrt`.
std::vector<Array> gradient(Array loss, const std::vector<Array>& wrt);

/// Vector-Jacobian product: cotangent `dy` of `y` times the Jacobian of y at `wrt`. Throws as
/// gradient().
std::vector<Array> vjp(Array y, Array dy, const std::vector<Array>& wrt);

/// Forward mode: Jacobian-vector product of `y` at `wrt` with `tangents`, which have the shapes of
/// `wrt`. Throws as gradient(), for jvp rules.
Array jvp(Array y, const std::vector<Array>& wrt, const std::vector<Array>& tangents);

}  // namespace veery
