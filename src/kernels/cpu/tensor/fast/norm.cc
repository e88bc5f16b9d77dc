#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/fast/norm.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/tensor/fast/lanes-inl.h"
//
#include <vector>

#include "kernels/cpu/tensor/fast/norm.h"

#ifndef VEERY_KERNELS_CPU_TENSOR_FAST_NORM_ROWS
#define VEERY_KERNELS_CPU_TENSOR_FAST_NORM_ROWS
namespace veery {
namespace {

/// Rows [begin, end) of a worker with its scratch memory.
struct RowRange {
  int64_t begin, end;
  void* scratch;  ///< [kRowsOfScratch][columns rounded up to vectors]
};
constexpr int64_t kRowsOfScratch = 5;

/// Sums of a chunk of rows [columns rounded up to vectors], of f32 or f64; null: not needed.
struct ChunkSums {
  void* weight;
  void* bias;
};

/// The functions of one instruction set and computed type.
struct NormKernels {
  void (*norm)(const NormProblem&, const RowRange&, std::byte* y);
  void (*gradients)(const NormProblem&, const RowRange&, const NormGradients&, const ChunkSums&);
  void (*store)(const void* from, int64_t n, std::byte* to, ElementType type);
};

}  // namespace
}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// The rows of a worker, as T and padded with zeros to whole vectors.
template <typename T>
class NormRows {
 public:
  NormRows(const NormProblem& problem, void* scratch)
      : p_(problem),
        n_(problem.rows.columns()),
        padded_(round_up(n_, kLanes)),
        values_(static_cast<T*>(scratch)),
        weight_(values_ + padded_),
        bias_(weight_ + padded_),
        cotangent_(bias_ + padded_),
        out_(cotangent_ + padded_) {
    if (p_.weight.data != nullptr) load(p_.weight, 0, p_.weight.strides[0], weight_);
    if (p_.bias.data != nullptr) load(p_.bias, 0, p_.bias.strides[0], bias_);
  }

  /// Writes the norm of row r.
  void write_norm(int64_t r, std::byte* y) {
    read(r);
    const Vector<T> inverse = set(inverse_);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      Vector<T> v = mul(at(values_, i), inverse);
      if (p_.weight.data != nullptr) v = mul(v, at(weight_, i));
      if (p_.bias.data != nullptr) v = add(v, at(bias_, i));
      store(out_ + i, v);
    }
    write(r, y);
  }

  /// Adds the terms of row r to the gradients of weight and bias, and writes that of x; those that
  /// are null are left out.
  void add_gradients(int64_t r, const NormGradients& gradients, T* weight, T* bias) {
    read(r);
    load(gradients.cotangent, p_.rows.offset(gradients.cotangent, r),
         p_.rows.stride(gradients.cotangent), cotangent_);
    const Vector<T> inverse = set(inverse_);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      const Vector<T> normal = mul(at(values_, i), inverse), t = at(cotangent_, i);
      store(values_ + i, normal);
      if (weight != nullptr) store(weight + i, fma(t, normal, at(weight, i)));
      if (bias != nullptr) store(bias + i, add(at(bias, i), t));
      if (p_.weight.data != nullptr) store(cotangent_ + i, mul(t, at(weight_, i)));
    }
    if (gradients.x != nullptr) write_gradient(r, gradients.x);
  }

 private:
  static HWY_INLINE Vector<T> at(const T* row, int64_t i) { return HWY_NAMESPACE::load(row + i); }
  void load(const StridedElements& from, int64_t offset, int64_t stride, T* to) const {
    load_row(from.data + offset * info(from.type).bytes, from.type, stride, n_, to, padded_);
  }
  void write(int64_t r, std::byte* to) const {
    store_row(out_, n_, to + r * n_ * info(p_.x.type).bytes, p_.x.type);
  }

  // Reads row r, subtracts its mean if the norm is centred, and computes the inverse deviation.
  void read(int64_t r) {
    load(p_.x, p_.rows.offset(p_.x, r), p_.rows.stride(p_.x), values_);
    const auto count = static_cast<T>(n_);
    if (p_.centred) {
      const T total =
          sum_of<T>(padded_, [&](int64_t i, auto part) { return add(part, at(values_, i)); });
      const Vector<T> mean = set(total / count);
      for (int64_t i = 0; i < padded_; i += kLanes) store(values_ + i, sub(at(values_, i), mean));
      std::fill(values_ + n_, values_ + padded_, T{0});
    }
    const T squares = sum_of<T>(padded_, [&](int64_t i, auto part) {
      const Vector<T> v = at(values_, i);
      return fma(v, v, part);
    });
    inverse_ = T{1} / std::sqrt(squares / count + static_cast<T>(p_.eps));
  }

  // The gradient of x from normalised values n and cotangents g of them:
  // (g - n mean(g n) - mean(g)) / deviation, the last mean if the norm is centred.
  void write_gradient(int64_t r, std::byte* to) {
    const auto count = static_cast<T>(n_);
    const T products = sum_of<T>(padded_, [&](int64_t i, auto part) {
      return fma(at(cotangent_, i), at(values_, i), part);
    });
    T total{0};
    if (p_.centred)
      total =
          sum_of<T>(padded_, [&](int64_t i, auto part) { return add(part, at(cotangent_, i)); });
    const Vector<T> slope = set(-products / count), mean = set(total / count);
    const Vector<T> inverse = set(inverse_);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      const Vector<T> g = sub(at(cotangent_, i), mean);
      store(out_ + i, mul(inverse, fma(at(values_, i), slope, g)));
    }
    write(r, to);
  }

  const NormProblem& p_;
  int64_t n_, padded_;
  T *values_, *weight_, *bias_, *cotangent_, *out_;
  T inverse_{};
};

template <typename T>
void norm_rows(const NormProblem& p, const RowRange& range, std::byte* y) {
  NormRows<T> rows(p, range.scratch);
  for (int64_t r = range.begin; r < range.end; ++r) rows.write_norm(r, y);
}
template <typename T>
void gradient_rows(const NormProblem& p, const RowRange& range, const NormGradients& gradients,
                   const ChunkSums& sums) {
  NormRows<T> rows(p, range.scratch);
  for (int64_t r = range.begin; r < range.end; ++r)
    rows.add_gradients(r, gradients, static_cast<T*>(sums.weight), static_cast<T*>(sums.bias));
}
template <typename T>
void store_sums(const void* from, int64_t n, std::byte* to, ElementType type) {
  store_row(static_cast<const T*>(from), n, to, type);
}

}  // namespace

constexpr NormKernels kNormKernels[] = {
    {norm_rows<float>, gradient_rows<float>, store_sums<float>},
    {norm_rows<double>, gradient_rows<double>, store_sums<double>}};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

bool is_wide(const NormProblem& p) { return p.x.type == ElementType::kF64; }
int64_t padded_columns(const NormProblem& p) {
  return (p.rows.columns() + kReduceLanes - 1) / kReduceLanes * kReduceLanes;
}
// Rows that a worker takes at a time.
int64_t grain_of(const NormProblem& p) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(p.rows.columns(), 1));
}

// Calls body(range) for parts of the rows, at most `grain` each.
template <typename T, typename Body>
void each_range(const NormProblem& p, int64_t grain, ThreadPool& pool, const Body& body) {
  pool.parallel_for(p.rows.count(), grain, [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(kRowsOfScratch * padded_columns(p)));
    body(RowRange{begin, end, scratch.data()});
  });
}

template <typename T>
void norm_as(const NormProblem& p, std::byte* y, const NormKernels& kernels, ThreadPool& pool) {
  each_range<T>(p, grain_of(p), pool, [&](const RowRange& range) { kernels.norm(p, range, y); });
}

/// The sums of all chunks of rows.
template <typename T>
class Chunks {
 public:
  Chunks(bool is_needed, int64_t count, int64_t padded) : count_(count), padded_(padded) {
    if (is_needed) sums_.resize(static_cast<size_t>(count * padded));
  }
  T* chunk(int64_t index) { return sums_.empty() ? nullptr : sums_.data() + index * padded_; }
  // Adds the chunks, and writes the n sums.
  void write(int64_t n, std::byte* to, ElementType type, const NormKernels& kernels) {
    if (to == nullptr) return;
    std::vector<double> sums(static_cast<size_t>(n));
    for (int64_t chunk = 0; chunk < count_; ++chunk)
      for (int64_t i = 0; i < n; ++i)
        sums[static_cast<size_t>(i)] +=
            static_cast<double>(sums_[static_cast<size_t>(chunk * padded_ + i)]);
    const std::vector<T> rounded(sums.begin(), sums.end());
    kernels.store(rounded.data(), n, to, type);
  }

 private:
  int64_t count_, padded_;
  std::vector<T> sums_;  ///< [count][padded]
};

template <typename T>
void norm_gradients_as(const NormProblem& p, const NormGradients& gradients,
                       const NormKernels& kernels, ThreadPool& pool) {
  constexpr int64_t kRowsOfChunk = 32, kMostChunks = 256;
  const int64_t rows = p.rows.count();
  const bool has_sums = gradients.weight != nullptr || gradients.bias != nullptr;
  const int64_t size =
      has_sums ? std::max(kRowsOfChunk, (rows + kMostChunks - 1) / kMostChunks) : grain_of(p);
  const int64_t count = (rows + size - 1) / size;
  Chunks<T> weight(gradients.weight != nullptr, count, padded_columns(p));
  Chunks<T> bias(gradients.bias != nullptr, count, padded_columns(p));
  each_range<T>(p, size, pool, [&](const RowRange& range) {
    const int64_t chunk = range.begin / size;
    kernels.gradients(p, range, gradients, {weight.chunk(chunk), bias.chunk(chunk)});
  });
  weight.write(p.rows.columns(), gradients.weight, p.x.type, kernels);
  bias.write(p.rows.columns(), gradients.bias, p.x.type, kernels);
}

}  // namespace

void norm(const NormProblem& problem, std::byte* y, Target target, ThreadPool& pool) {
  if (problem.rows.count() == 0 || problem.rows.columns() == 0) return;
  const NormKernels* kernels = VEERY_FOR_F32_TARGET(target, kNormKernels);
  if (is_wide(problem)) return norm_as<double>(problem, y, kernels[1], pool);
  norm_as<float>(problem, y, kernels[0], pool);
}
void norm_gradients(const NormProblem& problem, const NormGradients& gradients, Target target,
                    ThreadPool& pool) {
  if (problem.rows.columns() == 0) return;
  const NormKernels* kernels = VEERY_FOR_F32_TARGET(target, kNormKernels);
  if (is_wide(problem)) return norm_gradients_as<double>(problem, gradients, kernels[1], pool);
  norm_gradients_as<float>(problem, gradients, kernels[0], pool);
}

}  // namespace veery
#endif
