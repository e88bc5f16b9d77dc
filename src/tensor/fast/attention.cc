// Scaled dot-product attention.
#include "kernels/cpu/tensor/fast/attention.h"

#include <cmath>
#include <veery/tensor_fast.hpp>

#include "tensor/fast/fused.h"
#include "tensor/lines.h"
#include "tensor/runtime.h"
#include "tensor/views.h"

namespace veery::tensor::fast {
namespace {

constexpr std::string_view kName = "scaled_dot_product_attention";

/// Inputs are q, k, v, and the mask and the sinks if there are. Floats of the mask and sinks are
/// wide, so that their gradients are rounded after the sums over axes that they are broadcast to.
struct AttentionKind {
  double scale = 1;
  bool causal = false, has_mask = false, has_sinks = false;
  int64_t window = 0;  ///< 0: none

  size_t sinks_at() const { return has_mask ? 4 : 3; }
  bool operator==(const AttentionKind&) const = default;
};

// Which scores [Lq, Lk] positions permit; no tensor if all.
Tensor visible(const AttentionKind& kind, int64_t queries, int64_t keys) {
  const auto range = [](int64_t first, int64_t count) {
    return arange(static_cast<double>(first), static_cast<double>(first + count), 1, Dtype::kI64);
  };
  const Tensor distance = expand_dims(range(keys - queries, queries), 1) - range(0, keys);
  Tensor result;
  const auto add = [&](const Tensor& condition) {
    result = result ? logical_and(result, condition) : condition;
  };
  if (kind.causal) add(distance >= 0);
  if (kind.window > 0) add(distance < kind.window);
  if (kind.window > 0 && !kind.causal) add(distance > -kind.window);
  return result;
}

// The weights of scores [B, Hq, Lq, Lk], at least one key; zeros for queries that see none.
Tensor softmax_of(const Tensor& scores, const Tensor& sinks) {
  Tensor most = stop_gradient(max(scores, {-1}, true));
  if (sinks) most = maximum(most, stop_gradient(sinks));
  const Tensor shift = where(isfinite(most), most, 0);
  const Tensor powers = exp(scores - shift);
  Tensor total = sum(powers, {-1}, true);
  if (sinks) total = total + exp(sinks - shift);
  return powers / where(equal(total, 0), 1, total);
}

Function attention_function(const AttentionKind& kind) {
  return [kind](std::span<const Tensor> in) {
    const Dtype type = in[0].dtype(), wide = wide_type(type);
    const Tensor q = astype(in[0], wide), k = astype(in[1], wide), v = astype(in[2], wide);
    const Shape shape{q.dim(0), q.dim(1), q.dim(2), v.dim(3)};
    if (k.dim(2) == 0 || q.dim(1) == 0) return std::vector<Tensor>{zeros(shape, type)};
    const int64_t group = q.dim(1) / k.dim(1);
    const Tensor grouped = reshape(q * kind.scale, {q.dim(0), k.dim(1), group, q.dim(2), q.dim(3)});
    Tensor scores = matmul(grouped, swapaxes(expand_dims(k, 2), -1, -2));
    scores = reshape(scores, {q.dim(0), q.dim(1), q.dim(2), k.dim(2)});
    const Tensor seen = visible(kind, q.dim(2), k.dim(2));
    if (seen) scores = where(seen, scores, -INFINITY);
    if (kind.has_mask)
      scores = in[3].dtype() == Dtype::kBool ? where(in[3], scores, -INFINITY) : scores + in[3];
    const Tensor sinks = kind.has_sinks ? reshape(in[kind.sinks_at()], {1, -1, 1, 1}) : Tensor();
    const Tensor weights =
        reshape(softmax_of(scores, sinks), {q.dim(0), k.dim(1), group, q.dim(2), k.dim(2)});
    const Tensor out = reshape(matmul(weights, expand_dims(v, 2)), shape);
    return std::vector<Tensor>{astype(out, type)};
  };
}

AttentionProblem problem_of(const AttentionKind& kind, std::span<const Operand> in) {
  const Shape &q = in[0].spec->shape, &k = in[1].spec->shape;
  AttentionProblem problem{.batch = q[0],
                           .heads = q[1],
                           .kv_heads = k[1],
                           .queries = q[2],
                           .keys = k[2],
                           .key_size = q[3],
                           .value_size = in[2].spec->shape[3],
                           .scale = kind.scale,
                           .causal = kind.causal,
                           .window = kind.window,
                           .type = element_type(in[0].spec->dtype),
                           .q = strided(in[0]),
                           .k = strided(in[1]),
                           .v = strided(in[2])};
  if (kind.has_mask) problem.mask = strided(in[3]);
  if (kind.has_sinks) problem.sinks = strided(in[kind.sinks_at()]);
  return problem;
}

// Samples as entries of a larger batch. They share the sinks.
std::vector<Tensor> with_larger_batch(const AttentionKind& kind,
                                      std::shared_ptr<const Operation> operation, const Batch& in,
                                      std::span<const Spec> out) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < in.count(); ++i)
    inputs.push_back(kind.has_sinks && i == kind.sinks_at() ? in[i]
                                                            : merge_batches(in.with_batch(i)));
  std::vector<Spec> specs(out.begin(), out.end());
  for (Spec& spec : specs) spec.shape.front() *= in.size();
  std::vector<Tensor> made = make_all(std::move(operation), std::move(inputs), std::move(specs));
  for (size_t i = 0; i < made.size(); ++i) made[i] = part_batches(made[i], in.size(), out[i].shape);
  return made;
}

/// Inputs: those of the attention, the cotangent of its output, its output and log-sum-exp.
class AttentionGradient : public FusedGradient {
 public:
  AttentionGradient(const AttentionKind& kind, std::vector<bool> wanted)
      : FusedGradient(attention_function(kind), std::move(wanted)), kind_(kind) {}
  std::string_view name() const override { return kName; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Operand& sums = in[arguments() + 2];
    const Data log_sums = contiguous(sums, sums.spec->dtype);
    AttentionGradients gradients{.out = strided(in[arguments() + 1]),
                                 .cotangent = strided(in[arguments()]),
                                 .log_sums = Operand{sums.spec, &log_sums}.first()};
    std::vector<Data> made;
    for (size_t i = 0; i < arguments(); ++i) {
      if (!wants(i)) continue;
      made.push_back(new_data(out[made.size()]));
      target_of(gradients, i) = made.back().buffer->data();
    }
    Runtime& runtime = Runtime::get();
    attention_gradients(problem_of(kind_, in), gradients, runtime.target(), runtime.pool());
    return made;
  }
  bool is_same(const Operation& other) const override {
    return has_same_kind(*this, other, &AttentionGradient::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    const auto self = std::make_shared<AttentionGradient>(*this);
    const size_t sinks = kind_.sinks_at();
    if (kind_.has_sinks && (wants(sinks) || in.is_mapped(sinks)))
      return make_for_each(self, in, out);
    return with_larger_batch(kind_, self, in, out);
  }

 private:
  std::byte*& target_of(AttentionGradients& gradients, size_t input) const {
    if (input == 0) return gradients.q;
    if (input == 1) return gradients.k;
    if (input == 2) return gradients.v;
    return kind_.has_sinks && input == kind_.sinks_at() ? gradients.sinks : gradients.mask;
  }
  AttentionKind kind_;
};

/// Outputs: the result, and the wide log-sum-exp of the scores of each query.
class Attention : public Fused {
 public:
  explicit Attention(const AttentionKind& kind) : Fused(attention_function(kind)), kind_(kind) {}
  std::string_view name() const override { return kName; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    std::vector<Data> made{new_data(out[0]), new_data(out[1])};
    Runtime& runtime = Runtime::get();
    attention(problem_of(kind_, in), made[0].buffer->data(), made[1].buffer->data(),
              runtime.target(), runtime.pool());
    return made;
  }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Attention::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    const auto self = std::make_shared<Attention>(*this);
    if (kind_.has_sinks && in.is_mapped(kind_.sinks_at())) return make_for_each(self, in, out);
    return with_larger_batch(kind_, self, in, out);
  }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    const std::vector<bool> floats = only_floats(wanted, in);
    return make_gradients(std::make_shared<AttentionGradient>(kind_, floats), in,
                          {cotangents.front(), out[0], out[1]}, floats);
  }

 private:
  AttentionKind kind_;
};

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  require_floats(kName, "q", q);
  require_floats(kName, "k", k);
  require_floats(kName, "v", v);
  const auto shapes = [&] {
    return fmt::format("q {}, k {} and v {}", text(q.shape()), text(k.shape()), text(v.shape()));
  };
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    fail(ErrorKind::kInput, "{}: {}, expected 4 dimensions", kName, shapes());
  if (q.dim(0) != k.dim(0) || q.dim(0) != v.dim(0))
    fail(ErrorKind::kInput, "{}: {}, expected one batch size", kName, shapes());
  if (q.dim(3) != k.dim(3))
    fail(ErrorKind::kInput, "{}: {}, expected one size of queries and keys", kName, shapes());
  if (k.dim(1) != v.dim(1) || k.dim(2) != v.dim(2))
    fail(ErrorKind::kInput, "{}: {}, expected as many values as keys", kName, shapes());
  if (k.dim(1) == 0 ? q.dim(1) != 0 : q.dim(1) % k.dim(1) != 0)
    fail(ErrorKind::kInput, "{}: {}, expected a number of query heads that {} divides", kName,
         shapes(), k.dim(1));
}

void check_options(const AttentionOptions& options, const Shape& scores) {
  if (options.scale && !std::isfinite(*options.scale))
    fail(ErrorKind::kInput, "{}: scale is {}, expected a finite number", kName, *options.scale);
  if (options.window && *options.window < 1)
    fail(ErrorKind::kInput, "{}: window is {}, expected 1 or more", kName, *options.window);
  if (options.mask) {
    require(kName, *options.mask);
    if (options.mask->dtype() != Dtype::kBool && !is_float(options.mask->dtype()))
      fail(ErrorKind::kInput, "{}: mask of {}, expected floats or bool", kName,
           name(options.mask->dtype()));
    const Shape& mask = options.mask->shape();
    bool fits = mask.size() <= scores.size();
    for (size_t i = 0; fits && i < mask.size(); ++i)
      fits = mask[mask.size() - 1 - i] == 1 ||
             mask[mask.size() - 1 - i] == scores[scores.size() - 1 - i];
    if (!fits)
      fail(ErrorKind::kInput, "{}: mask {} does not broadcast to {}", kName, text(mask),
           text(scores));
  }
  if (!options.sinks) return;
  require_floats(kName, "sinks", *options.sinks);
  if (options.sinks->shape() != Shape{scores[1]})
    fail(ErrorKind::kInput, "{}: sinks have the shape {}, expected [{}]", kName,
         text(options.sinks->shape()), scores[1]);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check_operands(q, k, v);
  const Shape scores{q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
  check_options(options, scores);
  const auto size = static_cast<double>(std::max<int64_t>(q.dim(3), 1));
  const AttentionKind kind{.scale = options.scale.value_or(1 / std::sqrt(size)),
                           .causal = options.causal,
                           .has_mask = options.mask.has_value(),
                           .has_sinks = options.sinks.has_value(),
                           // Sums of positions do not overflow.
                           .window = std::min(options.window.value_or(0), int64_t{1} << 61)};
  const Dtype type = promote(promote(q.dtype(), k.dtype()), v.dtype());
  std::vector<Tensor> inputs{astype(q, type), astype(k, type), astype(v, type)};
  const auto widened = [&](const Tensor& x) {
    return x.dtype() == Dtype::kBool ? x : astype(x, wide_type(type));
  };
  if (options.mask) inputs.push_back(broadcast_to(widened(*options.mask), scores));
  if (options.sinks) inputs.push_back(widened(*options.sinks));
  return make_all(std::make_shared<Attention>(kind), std::move(inputs),
                  {{{q.dim(0), q.dim(1), q.dim(2), v.dim(3)}, type},
                   {{q.dim(0), q.dim(1), q.dim(2)}, wide_type(type)}})
      .front();
}

}  // namespace veery::tensor::fast
