// gradient.h: differentiation as functions from graph to graph. They work on unfused graphs.
#pragma once
#include <vector>

#include "array/array.h"

namespace veery {

/// Reverse mode: appends to the graph of `loss`, a [1, 1] value, the gradients of it with respect
/// to `wrt`, and returns them in that order; nodes that do not lead to any of `wrt` get none.
/// Throws kUnsupported, naming the op and why, where a needed op has no vjp rule, and kInput if
/// `loss` does not depend on one of `wrt`.
std::vector<Array> gradient(Array loss, const std::vector<Array>& wrt);

/// The product of the cotangent `dy` of `y` with the Jacobian of y at `wrt`. Throws likewise.
std::vector<Array> vjp(Array y, Array dy, const std::vector<Array>& wrt);

/// Forward mode: the product of the Jacobian of `y` at `wrt` with `tangents`, one for each of `wrt`
/// and of its shape. Throws likewise, for jvp rules.
Array jvp(Array y, const std::vector<Array>& wrt, const std::vector<Array>& tangents);

}  // namespace veery
