// Cross entropy with integer targets.
#include "kernels/cpu/tensor/fast/cross_entropy.h"

#include <veery/tensor_fast.hpp>

#include "tensor/fast/fused.h"
#include "tensor/lines.h"

namespace veery::tensor::fast {
namespace {

constexpr std::string_view kName = "cross_entropy";

struct LossKind {
  std::optional<int64_t> ignored;
  double smoothing = 0;
  bool operator==(const LossKind&) const = default;
};

Tensor is_ignored(const Tensor& targets, const LossKind& kind) {
  return equal(astype(targets, Dtype::kI64), *kind.ignored);
}

// The wide loss of each token. Inputs: logits, targets.
Function loss_function(const LossKind& kind) {
  return [kind](std::span<const Tensor> in) {
    const Tensor x = astype(in[0], wide_type(in[0].dtype()));
    const Tensor targets =
        kind.ignored ? where(is_ignored(in[1], kind), 0, astype(in[1], Dtype::kI64)) : in[1];
    Tensor expected = squeeze(take_along_axis(x, expand_dims(targets, -1), -1), {-1});
    if (kind.smoothing != 0)
      expected = (1 - kind.smoothing) * expected + kind.smoothing * mean(x, {-1});
    Tensor loss = logsumexp(x, {-1}) - expected;
    if (kind.ignored) loss = where(is_ignored(in[1], kind), 0, loss);
    return std::vector<Tensor>{loss};
  };
}

/// The problem with the memory of its targets.
struct Problem {
  CrossEntropyProblem problem;
  std::vector<int64_t> targets;

  Problem(const LossKind& kind, std::span<const Operand> in)
      : problem{.rows = rows_of(in[0].spec->shape),
                .logits = strided(in[0]),
                .smoothing = kind.smoothing} {
    const Data data = contiguous(in[1], Dtype::kI64);
    const auto* first = elements<int64_t>(data);
    targets.assign(first, first + element_count(in[1].spec->shape));
    for (int64_t& target : targets) {
      if (kind.ignored && target == *kind.ignored)
        target = -1;
      else if (target < 0 || target >= problem.classes())
        fail(ErrorKind::kInput, "{}: target {} of {} classes", kName, target, problem.classes());
    }
    problem.targets = targets.data();
  }
};

/// Inputs: logits, targets, the cotangent of the losses, and their log-sum-exp.
class LossGradient : public FusedGradient {
 public:
  LossGradient(const LossKind& kind, std::vector<bool> wanted)
      : FusedGradient(loss_function(kind), std::move(wanted)), kind_(kind) {}
  std::string_view name() const override { return kName; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Problem own(kind_, in);
    Data data = new_data(out.front());
    const Data cotangents = contiguous(in[2], in[2].spec->dtype);
    const Data log_sums = contiguous(in[3], in[3].spec->dtype);
    const Operand t{in[2].spec, &cotangents}, sums{in[3].spec, &log_sums};
    Runtime& runtime = Runtime::get();
    cross_entropy_gradient(
        own.problem,
        {.log_sums = sums.first(), .cotangents = t.first(), .logits = data.buffer->data()},
        runtime.target(), runtime.pool());
    return {std::move(data)};
  }
  bool is_same(const Operation& other) const override {
    return has_same_kind(*this, other, &LossGradient::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return make_batched(std::make_shared<LossGradient>(*this), in, out);
  }

 private:
  LossKind kind_;
};

/// Inputs: logits, targets. Outputs: losses and log-sum-exp, wide.
class Loss : public Fused {
 public:
  explicit Loss(const LossKind& kind) : Fused(loss_function(kind)), kind_(kind) {}
  std::string_view name() const override { return kName; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Problem own(kind_, in);
    std::vector<Data> made{new_data(out[0]), new_data(out[1])};
    Runtime& runtime = Runtime::get();
    cross_entropy(own.problem, made[0].buffer->data(), made[1].buffer->data(), runtime.target(),
                  runtime.pool());
    return made;
  }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Loss::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return make_batched(std::make_shared<Loss>(*this), in, out);
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    const std::vector<bool> floats = only_floats(wanted, in);
    return make_gradients(std::make_shared<LossGradient>(kind_, floats), in,
                          {cotangents.front(), out[1]}, floats);
  }

 private:
  LossKind kind_;
};

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require_floats(kName, "logits", logits);
  require(kName, targets);
  if (!is_integer(targets.dtype()))
    fail(ErrorKind::kInput, "{}: targets of {}, expected integers", kName, name(targets.dtype()));
  if (logits.rank() == 0 ||
      targets.shape() != Shape(logits.shape().begin(), logits.shape().end() - 1))
    fail(ErrorKind::kInput, "{}: logits {} and targets {}, expected [.., classes] and [..]", kName,
         text(logits.shape()), text(targets.shape()));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    fail(ErrorKind::kInput, "{}: label_smoothing is {}, expected 0 to 1", kName,
         options.label_smoothing);
  if (!options.weights) return;
  require_floats(kName, "weights", *options.weights);
  if (broadcast(kName, options.weights->shape(), targets.shape()) != targets.shape())
    fail(ErrorKind::kInput, "{}: weights {} do not broadcast to targets {}", kName,
         text(options.weights->shape()), text(targets.shape()));
}

// The sum of losses over that of weights.
Tensor weighted_mean(const Tensor& losses, const Tensor& weights) {
  const Tensor total = sum(weights);
  const Tensor is_empty = equal(total, 0);
  return where(is_empty, 0, sum(losses) / where(is_empty, 1, total));
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check(logits, targets, options);
  const LossKind kind{options.ignore_index, options.label_smoothing};
  const Dtype type = logits.dtype(), wide = wide_type(type);
  Tensor losses = make_all(std::make_shared<Loss>(kind), {logits, targets},
                           {{targets.shape(), wide}, {targets.shape(), wide}})
                      .front();
  Tensor weights = options.weights ? broadcast_to(astype(*options.weights, wide), targets.shape())
                                   : ones(targets.shape(), wide);
  if (kind.ignored) weights = where(is_ignored(targets, kind), 0, weights);
  if (options.weights) losses = losses * weights;
  switch (options.reduction) {
    case Reduction::kNone: break;
    case Reduction::kSum: losses = sum(losses); break;
    case Reduction::kMean: losses = weighted_mean(losses, weights); break;
  }
  return astype(losses, type);
}

}  // namespace veery::tensor::fast
