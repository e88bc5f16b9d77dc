// linear_problem.h: a linear dispatch on random data that runs on any target, and its expected
// outputs.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/cpu/pruned_head/pruned_argmax.h"
#include "kernels/linear_oracle.h"

namespace veery::test {

struct Options {
  ActivateAttr gate;
  bool norm = false, residual = false, bias = false, exact = false;
  float scale = 1;
  bool split = false;  ///< q8_0: packed in the format for kLinearArgmax
  bool quantises_residual = false;
};

// One dispatch on random data, with weights of the given types and rows.
class Problem {
 public:
  Problem(std::vector<DType> types, std::vector<int64_t> heights, int64_t cols, int64_t rows,
          Options options = {})
      : types_(std::move(types)),
        heights_(std::move(heights)),
        cols_(cols),
        rows_(rows),
        options_(options) {
    std::mt19937 rng(static_cast<uint32_t>(cols * 31 + rows));
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& v, int64_t n) {
      v.resize(static_cast<size_t>(n));
      for (float& x : v) x = normal(rng);
    };
    fill(x_, rows * (cols + 5));
    // Stretches of large and of small values, as in real activations.
    for (size_t i = 0; i < x_.size(); ++i)
      x_[i] *= i / 29 % 3 == 1 ? 0.3F : i / 29 % 5 == 2 ? 0.02F : i % 211 == 7 ? 40.0F : 1;
    fill(norm_, cols);
    const bool gated = options.gate != Activation::kNone;
    width_ = 0;
    for (size_t i = 0; i < (gated ? 1 : heights_.size()); ++i) width_ += heights_[i];
    fill(residual_, rows * width_);
    for (size_t i = 0; i < types_.size(); ++i) {
      source_.push_back(
          test::random_weight(types_[i], heights_[i], cols, static_cast<uint32_t>(i + 1)));
      packed_.emplace_back(packed_bytes(format(i), heights_[i], cols));
      pack(i);
      fill(bias_[i], heights_[i]);
    }
  }

  /// Replaces the random bytes of weight i. set_activations() replaces x.
  void set_weights(size_t i, Bytes source) {
    source_[i] = std::move(source);
    pack(i);
  }
  void set_activations(float value) { std::fill(x_.begin(), x_.end(), value); }
  void set_activations(float (*value)(size_t)) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = value(i);
  }
  const Bytes& weights(size_t i) const { return source_[i]; }

  bool keeps_history = false;      ///< keep PruningHistory between runs
  bool last_worker_first = false;  ///< the last worker runs first and steals the work of the others
  PruningHistory& history() {
    const SplitPanels at(heights_[0], cols_);
    return *reinterpret_cast<PruningHistory*>(packed_[0].data() + at.history());
  }

  Dispatch dispatch() {
    Dispatch d;
    d.in[0] = matrix(x_, rows_, cols_, cols_ + 5);
    d.in[0].rows = kTokenRows;
    if (options_.norm) d.in[1] = matrix(norm_, 1, cols_, cols_);
    if (options_.residual) d.in[2] = matrix(residual_, rows_, width_, width_);
    for (size_t i = 0; i < types_.size(); ++i) {
      d.in[3 + i] = {.data = packed_[i].data(),
                     .stride = static_cast<int64_t>(panel_bytes(types_[i], cols_)),
                     .rows = heights_[i],
                     .cols = static_cast<int32_t>(cols_),
                     .dtype = types_[i],
                     .layout = Layout::kPanels,
                     .format = format(i).panels};
      if (options_.bias) d.in[6 + i] = matrix(bias_[i], 1, heights_[i], heights_[i]);
    }
    d.attr =
        FusedLinearAttr{static_cast<int32_t>(types_.size()), options_.gate, 1e-5F, options_.scale,
                        options_.quantises_residual ? Precision::kHigh : Precision::kUsual};
    return d;
  }

  // Runs the kernel, its workers one after the other. Output rows are wider than needed; the extra
  // columns must stay untouched.
  std::vector<float> run(Target target, int workers, int64_t plan_rows = 0) {
    const int64_t wide = width_ + 3;
    std::vector<float> out(static_cast<size_t>(rows_ * wide), 12345.0F);
    Dispatch d = dispatch();
    d.out() = matrix(out, rows_, width_, wide);
    execute(op::kFusedLinear, d, target, workers, plan_rows);
    std::vector<float> result;
    for (int64_t r = 0; r < rows_; ++r) {
      const auto row = out.begin() + r * wide;
      result.insert(result.end(), row, row + width_);
      EXPECT_TRUE(std::all_of(row + width_, row + wide, [](float v) { return v == 12345.0F; }));
    }
    return result;
  }
  /// `weights`: replaces the address of the packed weights.
  std::vector<int32_t> run_argmax(Target target, int workers, int64_t plan_rows = 0,
                                  std::byte* weights = nullptr) {
    std::vector<int32_t> out(static_cast<size_t>(rows_), -7);
    Dispatch d = dispatch();
    if (weights != nullptr) d.in[3].data = weights;
    d.out() = {.data = reinterpret_cast<std::byte*>(out.data()),
               .stride = 4,
               .rows = rows_,
               .cols = 1,
               .dtype = DType::kI32,
               .layout = Layout::kRowMajor};
    execute(op::kLinearArgmax, d, target, workers, plan_rows);
    return out;
  }

  std::vector<float> expected() const {
    std::vector<float> y;
    for (int64_t r = 0; r < rows_; ++r) {
      std::vector<float> x(x_.begin() + r * (cols_ + 5), x_.begin() + r * (cols_ + 5) + cols_);
      if (options_.norm) x = test::normed(x, norm_.data(), 1e-5F);
      const bool active = options_.gate != Activation::kNone;
      const bool gated = active && types_.size() == 2;
      int64_t column = 0;
      for (size_t i = 0; i < (gated ? 1 : types_.size()); ++i)
        for (int64_t n = 0; n < heights_[i]; ++n, ++column) {
          float v = output(i, n, x);
          if (active) v = gate(v);
          if (gated) v *= output(1, n, x);
          v *= options_.scale;
          if (options_.residual) v += residual_[static_cast<size_t>(r * width_ + column)];
          y.push_back(v);
        }
    }
    return y;
  }

 private:
  void pack(size_t i) {
    const int64_t panels = (heights_[i] + 15) / 16;
    std::byte kept[sizeof(PruningHistory)] = {};
    if (keeps_history) std::memcpy(kept, &history(), sizeof kept);
    pack_panels(format(i), source_[i].data(), heights_[i], cols_, packed_[i].data(), 0, panels);
    if (keeps_history) std::memcpy(static_cast<void*>(&history()), kept, sizeof kept);
  }
  WeightFormat format(size_t i) const {
    return options_.split ? format_for_argmax(types_[i]) : WeightFormat(types_[i]);
  }
  static Operand matrix(std::vector<float>& v, int64_t rows, int64_t cols, int64_t stride) {
    return {.data = reinterpret_cast<std::byte*>(v.data()),
            .stride = stride * 4,
            .rows = rows,
            .cols = static_cast<int32_t>(cols),
            .layout = Layout::kRowMajor};
  }
  float output(size_t i, int64_t n, const std::vector<float>& x) const {
    const auto at = static_cast<size_t>(n) * byte_size(types_[i], cols_);
    const float y = test::contract(types_[i], source_[i].data() + at, x, options_.exact,
                                   options_.quantises_residual);
    return options_.bias ? y + bias_[i][static_cast<size_t>(n)] : y;
  }
  float gate(float v) const {
    const double x = v;
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    switch (options_.gate.kind) {
      case Activation::kNone: return v;
      case Activation::kSilu: return static_cast<float>(x / (1 + std::exp(-x)));
      case Activation::kGelu: return static_cast<float>(x / 2 * (1 + std::tanh(u)));
      case Activation::kGeluErf: return static_cast<float>(x / 2 * std::erfc(-x / std::sqrt(2.0)));
      case Activation::kRelu: return std::max(v, 0.0F);
      case Activation::kReluSquared: return std::max(v, 0.0F) * std::max(v, 0.0F);
      case Activation::kTanh: return static_cast<float>(std::tanh(x));
      case Activation::kSigmoid: return static_cast<float>(1 / (1 + std::exp(-x)));
      case Activation::kSoftplus: return static_cast<float>(std::log1p(std::exp(x)));
      case Activation::kLogSigmoid: return static_cast<float>(-std::log1p(std::exp(-x)));
      case Activation::kClip:
        return std::min(std::max(v, options_.gate.negative), options_.gate.positive);
      case Activation::kXielu: break;
    }
    const ActivateAttr& a = options_.gate;
    const double curve = x > 0 ? a.positive * x * x : a.negative * (std::expm1(x) - x);
    return static_cast<float>(curve + a.beta * x);
  }
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  static std::byte* lines(std::vector<Line>& v, size_t bytes) {
    v.resize(bytes / 64 + 1);
    return v.front().bytes;
  }
  void execute(Op op, Dispatch& d, Target target, int workers, int64_t plan_rows) {
    const int64_t most = std::max(rows_, plan_rows);
    const Kernel kernel = choose_kernel(op, d, {target, most, options_.exact});
    ASSERT_NE(kernel.phases[0], nullptr);
    std::vector<Line> work;
    if (kernel.work != nullptr) d.work = lines(work, kernel.work(d, {most, 1, workers}));
    std::vector<Line> scratch;
    const size_t bytes = kernel.scratch != nullptr ? kernel.scratch(d, {most, 1, workers}) : 0;
    if (options_.split && !keeps_history)
      std::memset(static_cast<void*>(&history()), 0, sizeof(PruningHistory));
    RunShape shape;
    shape.rows = static_cast<int32_t>(rows_);
    for (const KernelFn phase : kernel.phases) {
      std::vector<std::atomic<int32_t>> taken(static_cast<size_t>(workers));
      for (int i = 0; phase != nullptr && i < workers; ++i)
        if (last_worker_first)
          phase(d, shape, {workers - 1 - i, workers, lines(scratch, bytes), taken.data()});
        else
          phase(d, shape, {i, workers, lines(scratch, bytes)});
    }
  }

  std::vector<DType> types_;
  std::vector<int64_t> heights_;
  int64_t cols_, rows_, width_;
  Options options_;
  std::vector<float> x_, norm_, residual_, bias_[3];
  std::vector<Bytes> source_, packed_;
};

inline std::string describe(Target target, const std::vector<DType>& types, int64_t rows) {
  std::string text(name(target));
  for (const DType t : types) text += fmt::format(" {}", info(t).name);
  return fmt::format("{} rows {}", text, rows);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

}  // namespace veery::test
