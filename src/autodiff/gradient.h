// gradient.h: reverse-mode differentiation as a function from graph to graph.
#pragma once
#include <vector>

#include "array/array.h"

namespace veery {

/// Appends to the graph of `loss`, a (1, 1) value, the gradients of it with respect to `wrt`, and
/// returns them in that order; nodes that do not lead to any of `wrt` get none. Works on unfused
/// graphs. Throws kUnsupported, naming the op, where a needed op has no vjp rule, and kInput if
/// `loss` does not depend on one of `wrt`.
std::vector<Array> gradient(Array loss, const std::vector<Array>& wrt);

/// The product of the cotangent `dy` of `y` with the Jacobian of y at `wrt`.
std::vector<Array> vjp(Array y, Array dy, const std::vector<Array>& wrt);

}  // namespace veery
