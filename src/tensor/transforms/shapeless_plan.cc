// Plans for arguments of any size. A function is traced with sizes that are primes; a dimension of
// a value is then a product, whose prime factors say which sizes of arguments it depends on.
#include <algorithm>
#include <exception>

#include "tensor/transforms/plan.h"

namespace veery::tensor {
namespace {

constexpr std::array<int64_t, 12> kPrimes{101, 103, 107, 109, 113, 127,
                                          131, 137, 139, 149, 151, 157};

/// Primes and the sizes for them.
using Sizes = std::vector<std::pair<int64_t, int64_t>>;

// Too large a product is no valid dimension.
int64_t substituted(int64_t dimension, const Sizes& sizes) {
  if (dimension == 0) return 0;
  int64_t rest = dimension, result = 1;
  bool overflows = false;
  for (const auto& [prime, size] : sizes)
    for (; rest % prime == 0; rest /= prime)
      overflows = __builtin_mul_overflow(result, size, &result) || overflows;
  overflows = __builtin_mul_overflow(result, rest, &result) || overflows;
  return overflows ? INT64_MAX : result;
}
void substitute(std::vector<Spec>& specs, const Sizes& sizes) {
  for (Spec& spec : specs) {
    for (int64_t& dimension : spec.shape) dimension = substituted(dimension, sizes);
    check_shape("compile", spec.shape);
  }
}
Plan substituted(const Plan& plan, const Sizes& sizes) {
  Plan result = plan;
  substitute(result.arguments, sizes);
  substitute(result.slots, sizes);
  for (Plan::Step& step : result.steps) {
    substitute(step.specs, sizes);
    substitute(step.program.specs, sizes);
    for (int i = 0; i < step.program.program.rank; ++i) {
      int64_t& dimension = step.program.program.shape[static_cast<size_t>(i)];
      dimension = substituted(dimension, sizes);
    }
  }
  return result;
}

bool is_same(const ElementProgram& a, const ElementProgram& b) {
  const auto transfers = [](const ElementTransfer& x, const ElementTransfer& y) {
    return x.reg == y.reg && x.elements.type == y.elements.type;
  };
  const auto constants = [](const ElementConstant& x, const ElementConstant& y) {
    return x.reg == y.reg && x.type == y.type && x.real == y.real && x.integer == y.integer;
  };
  if (a.rank != b.rank || a.shape != b.shape || a.code != b.code ||
      a.reduction.has_value() != b.reduction.has_value())
    return false;
  if (a.reduction &&
      (a.reduction->op != b.reduction->op || a.reduction->type != b.reduction->type ||
       a.reduction->reg != b.reduction->reg || a.reduction->dimensions != b.reduction->dimensions))
    return false;
  return std::ranges::equal(a.inputs, b.inputs, transfers) &&
         std::ranges::equal(a.outputs, b.outputs, transfers) &&
         std::ranges::equal(a.constants, b.constants, constants);
}

bool is_same(const Plan::Step& a, const Plan::Step& b) {
  if (a.inputs != b.inputs || a.outputs != b.outputs || a.specs != b.specs) return false;
  if (a.operation && b.operation) return a.operation->is_same(*b.operation);
  return !a.operation && !b.operation && a.program.order == b.program.order &&
         a.program.specs == b.program.specs && is_same(a.program.program, b.program.program);
}

// Whether two plans compute the same. Captured tensors must be the same ones, not only equal.
bool is_same(const Plan& a, const Plan& b) {
  const auto captured = [](const auto& x, const auto& y) {
    return x.first.node() == y.first.node() && x.first.output() == y.first.output() &&
           x.second == y.second;
  };
  return a.slots == b.slots && a.outputs == b.outputs &&
         std::ranges::equal(a.captured, b.captured, captured) &&
         std::ranges::equal(a.steps, b.steps,
                            [](const Plan::Step& x, const Plan::Step& y) { return is_same(x, y); });
}

// The plan with primes for sizes, if that only changes dimensions of values.
std::shared_ptr<const Plan> probe(const Function& fn, const Plan& plan, const Sizes& sizes) {
  std::vector<Spec> arguments = plan.arguments;
  for (Spec& each : arguments)
    for (int64_t& dimension : each.shape)
      for (const auto& [prime, size] : sizes)
        if (dimension == size) {
          dimension = prime;
          break;
        }
  try {
    std::shared_ptr<const Plan> made = make_plan(fn, arguments, false);
    return is_same(substituted(*made, sizes), plan) ? made : nullptr;
  } catch (const std::exception&) {
    return nullptr;  // the function needs these sizes
  }
}

bool divides_a_dimension(int64_t prime, const Plan& plan) {
  return std::ranges::any_of(plan.slots, [&](const Spec& spec) {
    return std::ranges::any_of(spec.shape, [&](int64_t size) { return size % prime == 0; });
  });
}

}  // namespace

std::optional<ShapelessPlan> ShapelessPlan::make(const Function& fn,
                                                 std::shared_ptr<const Plan> plan) {
  Sizes sizes;
  auto prime = kPrimes.begin();
  std::vector<int64_t> seen{0, 1};  // sizes with a meaning of their own
  for (const Spec& each : plan->arguments)
    for (const int64_t size : each.shape) {
      if (std::ranges::find(seen, size) != seen.end()) continue;
      seen.push_back(size);
      while (prime != kPrimes.end() && divides_a_dimension(*prime, *plan)) ++prime;
      if (prime == kPrimes.end() || !probe(fn, *plan, {{*prime, size}})) continue;
      sizes.emplace_back(*prime++, size);
    }
  if (sizes.empty()) return std::nullopt;
  std::shared_ptr<const Plan> made = probe(fn, *plan, sizes);
  if (!made) return std::nullopt;
  std::vector<int64_t> primes;
  for (const auto& [each, size] : sizes) primes.push_back(each);
  return ShapelessPlan(std::move(made), std::move(primes));
}

std::shared_ptr<const Plan> ShapelessPlan::plan_for(std::span<const Tensor> arguments) const {
  if (arguments.size() != plan_->arguments.size()) return nullptr;
  std::vector<int64_t> found(primes_.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Spec &expected = plan_->arguments[i], &given = spec(arguments[i]);
    if (given.dtype != expected.dtype || given.shape.size() != expected.shape.size())
      return nullptr;
    for (size_t d = 0; d < given.shape.size(); ++d) {
      const auto at = std::ranges::find(primes_, expected.shape[d]);
      if (at == primes_.end()) {
        if (given.shape[d] != expected.shape[d]) return nullptr;
        continue;
      }
      int64_t& size = found[static_cast<size_t>(at - primes_.begin())];
      if (given.shape[d] < 2 || (size != 0 && size != given.shape[d])) return nullptr;
      size = given.shape[d];
    }
  }
  Sizes sizes;
  for (size_t i = 0; i < primes_.size(); ++i) sizes.emplace_back(primes_[i], found[i]);
  return std::make_shared<const Plan>(substituted(*plan_, sizes));
}

}  // namespace veery::tensor
