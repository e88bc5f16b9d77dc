#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/fast/cross_entropy.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/fast/lanes-inl.h"
//
#include <limits>

#include "kernels/cpu/tensor/fast/cross_entropy.h"

#ifndef VEERY_KERNELS_CPU_TENSOR_FAST_LOSS_KERNELS
#define VEERY_KERNELS_CPU_TENSOR_FAST_LOSS_KERNELS
namespace veery {
namespace {

/// The functions of one instruction set and computed type, for rows [begin, end).
struct LossKernels {
  void (*losses)(const CrossEntropyProblem&, int64_t begin, int64_t end, std::byte* losses,
                 std::byte* log_sums);
  void (*gradient)(const CrossEntropyProblem&, int64_t begin, int64_t end,
                   const CrossEntropyGradient&);
};

}  // namespace
}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kChunk = 1024;

/// The logits of a row, chunk by chunk.
template <typename T>
class LogitRow {
 public:
  LogitRow(const CrossEntropyProblem& p, int64_t row)
      : type_(p.logits.type),
        stride_(p.rows.stride(p.logits)),
        classes_(p.classes()),
        first_(p.logits.data + p.rows.offset(p.logits, row) * info(type_).bytes) {}

  /// Calls fn(x, begin, n) for each chunk, where x has n logits and zeros up to a whole vector.
  template <typename Fn>
  void each_chunk(const Fn& fn) const {
    alignas(64) T x[kChunk];
    for (int64_t begin = 0; begin < classes_; begin += kChunk) {
      const int64_t n = std::min(kChunk, classes_ - begin);
      load_row(first_ + begin * stride_ * info(type_).bytes, type_, stride_, n, x,
               round_up(n, kLanes));
      fn(x, begin, n);
    }
  }
  T at(int64_t index) const { return element<T>(first_, type_, index * stride_); }

 private:
  ElementType type_;
  int64_t stride_, classes_;
  const std::byte* first_;
};

struct Sums {
  double log_sum, mean;
};
// ln(sum(e^x)) and mean(x). NaN in the row reaches the sum; infinity is not subtracted from itself.
template <typename T>
Sums sums_of(const LogitRow<T>& row, int64_t classes) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  T most = kNone;
  row.each_chunk([&](T* x, int64_t, int64_t n) {
    const int64_t padded = round_up(n, kLanes);
    std::fill(x + n, x + padded, kNone);
    Vector<T> best = set(kNone);
    for (int64_t i = 0; i < padded; i += kLanes) best = max(best, load(x + i));
    const T own = max_of(best);
    most = own > most ? own : most;
  });
  const T shift = std::isfinite(most) ? most : T{0};
  double powers = 0, total = 0;
  row.each_chunk([&](T* x, int64_t, int64_t n) {
    const int64_t padded = round_up(n, kLanes);
    total += static_cast<double>(
        sum_of<T>(padded, [&](int64_t i, auto part) { return add(part, load(x + i)); }));
    std::fill(x + n, x + padded, kNone);
    powers += static_cast<double>(sum_of<T>(padded, [&](int64_t i, auto part) {
      return add(part, exp(sub(load(x + i), set(shift))));
    }));
  });
  return {static_cast<double>(shift) + std::log(powers), total / static_cast<double>(classes)};
}

template <typename T>
void losses_of(const CrossEntropyProblem& p, int64_t begin, int64_t end, std::byte* losses,
               std::byte* log_sums) {
  for (int64_t r = begin; r < end; ++r) {
    T &loss = reinterpret_cast<T*>(losses)[r], &log_sum = reinterpret_cast<T*>(log_sums)[r];
    loss = log_sum = T{0};
    if (p.targets[r] < 0) continue;
    const LogitRow<T> row(p, r);
    const Sums sums = sums_of(row, p.classes());
    auto expected = static_cast<double>(row.at(p.targets[r]));
    if (p.smoothing != 0) expected = (1 - p.smoothing) * expected + p.smoothing * sums.mean;
    loss = static_cast<T>(sums.log_sum - expected);
    log_sum = static_cast<T>(sums.log_sum);
  }
}

template <typename T>
void gradient_of(const CrossEntropyProblem& p, int64_t begin, int64_t end,
                 const CrossEntropyGradient& gradient) {
  const int64_t bytes = info(p.logits.type).bytes;
  const auto share = static_cast<T>(p.smoothing / static_cast<double>(p.classes()));
  const auto hit = static_cast<T>(1 - p.smoothing);
  for (int64_t r = begin; r < end; ++r) {
    std::byte* to = gradient.logits + r * p.classes() * bytes;
    const int64_t target = p.targets[r];
    if (target < 0) {
      std::memset(to, 0, static_cast<size_t>(p.classes() * bytes));
      continue;
    }
    const T cotangent = reinterpret_cast<const T*>(gradient.cotangents)[r];
    const T log_sum = reinterpret_cast<const T*>(gradient.log_sums)[r];
    const Vector<T> t = set(cotangent), shift = set(log_sum), other = set(share);
    LogitRow<T>(p, r).each_chunk([&](T* x, int64_t first, int64_t n) {
      const bool has_target = target >= first && target < first + n;
      const T own = has_target ? x[target - first] : T{0};
      for (int64_t i = 0; i < n; i += kLanes)
        store(x + i, mul(t, sub(exp(sub(load(x + i), shift)), other)));
      if (has_target) x[target - first] = cotangent * (exp_of(own - log_sum) - share - hit);
      store_row(x, n, to + first * bytes, p.logits.type);
    });
  }
}

}  // namespace

constexpr LossKernels kLossKernels[] = {{losses_of<float>, gradient_of<float>},
                                        {losses_of<double>, gradient_of<double>}};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

const LossKernels& kernels_of(const CrossEntropyProblem& p, Target target) {
  return VEERY_FOR_F32_TARGET(target, kLossKernels)[p.logits.type == ElementType::kF64 ? 1 : 0];
}
// Rows that a worker takes at a time.
int64_t grain_of(const CrossEntropyProblem& p) {
  return std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(p.classes(), 1));
}

}  // namespace

void cross_entropy(const CrossEntropyProblem& problem, std::byte* losses, std::byte* log_sums,
                   Target target, ThreadPool& pool) {
  if (problem.rows.count() == 0) return;
  const LossKernels& kernels = kernels_of(problem, target);
  pool.parallel_for(problem.rows.count(), grain_of(problem), [&](int64_t begin, int64_t end) {
    kernels.losses(problem, begin, end, losses, log_sums);
  });
}
void cross_entropy_gradient(const CrossEntropyProblem& problem,
                            const CrossEntropyGradient& gradient, Target target, ThreadPool& pool) {
  if (problem.rows.count() == 0 || problem.classes() == 0) return;
  const LossKernels& kernels = kernels_of(problem, target);
  pool.parallel_for(problem.rows.count(), grain_of(problem), [&](int64_t begin, int64_t end) {
    kernels.gradient(problem, begin, end, gradient);
  });
}

}  // namespace veery
#endif
