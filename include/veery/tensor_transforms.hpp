// tensor_transforms.hpp: functions of functions of tensors, besides those of tensor.hpp.
// docs/tensor.md is a guide.
#ifndef VEERY_TENSOR_TRANSFORMS_HPP
#define VEERY_TENSOR_TRANSFORMS_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "veery/tensor.hpp"

namespace veery::tensor {

// ---- derivatives of one's own ----

/// Returns the products of `cotangents` with the Jacobian, one for each of `primals`. An empty
/// tensor is zero; those of integers are ignored.
using VjpFunction = std::function<std::vector<Tensor>(std::span<const Tensor> primals,
                                                      std::span<const Tensor> outputs,
                                                      std::span<const Tensor> cotangents)>;
/// Returns the products of the Jacobian with `tangents`, one for each of `outputs`.
using JvpFunction = std::function<std::vector<Tensor>(std::span<const Tensor> primals,
                                                      std::span<const Tensor> outputs,
                                                      std::span<const Tensor> tangents)>;

/// Returns `fn` with derivatives by `rule`, which must be linear in its cotangents. Forward mode
/// uses the transpose of the rule. The rule is differentiated for second derivatives, so that it
/// must compute from `primals` and `outputs`. Tensors that `fn` captures have their ordinary
/// derivatives. Throws kInput if the rule returns other shapes or types than those of the primals.
Function custom_vjp(Function fn, VjpFunction rule);
/// As custom_vjp(), by a rule for forward mode, which must be linear in its tangents. Reverse mode
/// uses its transpose.
Function custom_jvp(Function fn, JvpFunction rule);

// ---- a check of derivatives ----

struct GradientCheckOptions {
  double step = 1e-6;       ///< of the central differences
  int directions = 4;       ///< random directions for each argument
  uint64_t seed = 0;        ///< of directions and cotangents
  double tolerance = 1e-5;  ///< of relative errors
};
struct GradientCheck {
  double error = 0;            ///< the largest relative error
  int argument = -1;           ///< the argument that has it; -1: there is no error
  bool is_jvp = false;         ///< between jvp and vjp, rather than between vjp and differences
  std::vector<double> errors;  ///< the largest error of each argument; 0 for integers
  bool passed = false;         ///< error <= tolerance; NaN does not pass
  std::string text;            ///< the result in one line
};
/// Compares the derivatives of `fn` at `primals` with central differences along random directions
/// in f64, and jvp() with vjp(). Floats are converted to f64 before `fn` gets them. Errors are
/// relative to the larger value, absolute below 1. `fn` should have no corner within `step` of the
/// primals. Throws kInput if there is no float argument or an option is out of range.
GradientCheck check_gradients(const Function& fn, std::span<const Tensor> primals,
                              const GradientCheckOptions& options = {});

// ---- batches ----

/// For each argument the axis that vmap() maps; absent: every sample gets the whole argument.
using MapAxes = std::vector<std::optional<int>>;

/// Returns a function that applies `fn` to each sample of a batch, as one graph with the batch as a
/// further dimension. `in_axes` empty: axis 0 of all arguments; `out_axes`, the axis of the batch
/// in each output, empty: axis 0. Composes with itself and with derivatives: vmap(grad(f)) gives
/// the gradient of each sample. `fn` cannot read values that depend on its arguments. The function
/// throws kInput if sizes of mapped axes differ or nothing is mapped, and kUnsupported, naming the
/// operation, if one has no rule for batches.
Function vmap(Function fn, MapAxes in_axes = {}, std::vector<int> out_axes = {});

// ---- compiled functions ----

/// Returns `fn` with its graph kept. The first call with arguments of certain shapes and types
/// calls `fn` and keeps its plan; later ones run the plan with new arguments, as one node, and give
/// the same bits as `fn`. The plan of each of the last 32 combinations is kept.
///
/// `fn` must be a function of its arguments alone: it is not called again. Tensors that it captures
/// and values that do not depend on the arguments are computed once; the plan holds them. `fn`
/// cannot read values that depend on its arguments. Within a transform (vjp, jvp, grad, checkpoint,
/// vmap, compile) the result calls `fn`; compile the outermost function, as in compile(grad(f)). It
/// calls `fn`, too, if an argument is on a GPU. Threads may share the function.
///
/// `shapeless`: the plan is used for other sizes, too, if they change nothing but the shapes of
/// values. The first call finds out which sizes of the arguments may change, by calling `fn` with
/// other ones; `fn` must not choose by sizes what it computes. A size stays fixed if the graph has
/// a number or a sequence made of it (such as the count of mean()), if a slice takes a part of an
/// axis of that size, if a captured tensor has it or if it is 0 or 1; other fixed sizes have plans
/// of their own.
Function compile(Function fn, bool shapeless = false);

// ---- plans ----

/// Returns a table of what eval() would compute for `tensors`: one line for each operation, view or
/// pass over memory, with the element-wise functions and the reduction that a pass fuses.
std::string describe(std::span<const Tensor> tensors);

}  // namespace veery::tensor

#endif  // VEERY_TENSOR_TRANSFORMS_HPP
