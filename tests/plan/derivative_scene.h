// derivative_scene.h: checks of the derivatives of single ops.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autodiff/gradient.h"
#include "base/random.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/plan.h"
#include "plan/run_inputs.h"

namespace veery::test {

/// A graph of parameters with random numbers, run by the reference kernels.
class Scene {
 public:
  /// Makes a run with `first` rows of one sequence and `second` rows of another.
  explicit Scene(int first = 3, int second = 4)
      : block(usual_inputs(), first + second), pool(2), total(first + second) {
    const std::span<int32_t> tokens = block.input<int32_t>("tokens");
    for (int i = 0; i < total; ++i) tokens[static_cast<size_t>(i)] = i * 3 % 5;
    for (const int32_t row : {1, 2, 6}) block.add_output(row);
    block.add_span(0, first, 0);
    block.add_span(1, second, 0);
    block.shape.sequences = 2;
  }
  /// Adds a parameter with random values. The values of a run are parameters here too, with one row
  /// per token.
  Array param(const std::string& name, const Shape& shape) {
    const Operand& w = params.add(name, known(shape));
    for (int64_t r = 0; r < w.rows; ++r)
      for (int32_t c = 0; c < w.cols; ++c) w.row<float>(r)[c] = random.normal();
    return {graph, graph.leaf(op::kParam, name, shape)};
  }
  Array index(const std::string& name, Symbol rows) {
    return {graph, graph.leaf(op::kInput, name, {rows, 1}, InputAttr{DType::kI32})};
  }
  Array x(int cols = 6) { return param("x", {Symbol::kRows, cols}); }

  Operand run(Array array) {
    plans.push_back(std::make_unique<Plan>(
        graph, std::vector<Value>{array.value()},
        Binding{{{backend.get(), &params}}, nullptr, &block},
        PlanOptions{.rows = total, .outputs = 3, .sequences = 2, .fuse = false}));
    plans.back()->run();
    Operand root = plans.back()->root(0);
    root.rows = block.shape.count(root.rows);
    return root;
  }

  Graph graph;
  ParamStore params;
  RunBlock block;
  ThreadPool pool;
  std::unique_ptr<Backend> backend = make_cpu_backend(pool, Target::kReference);
  int total;  ///< rows
  Random random{3};
  std::vector<std::unique_ptr<Plan>> plans;

 private:
  Shape known(const Shape& shape) const {
    const auto rows = block.shape.count(shape.rows().code());
    return shape.rank == 3 ? shape : Shape{rows, shape.cols()};
  }
};

inline double dot(const Operand& a, const Operand& b) {
  double sum = 0;
  for (int64_t r = 0; r < a.rows; ++r)
    for (int32_t c = 0; c < a.cols; ++c) sum += double{a.row<float>(r)[c]} * b.row<float>(r)[c];
  return sum;
}

/// Makes y and lists in `wrt` the parameters to differentiate it by.
using Make = std::function<Array(Scene&, std::vector<Array>& wrt)>;

/// Compares the central difference dy . (y(w + h t) - y(w - h t)) / 2 h with vjp and jvp.
inline void expect_right(const char* what, const Make& make) {
  SCOPED_TRACE(what);
  Scene s;
  std::vector<Array> wrt;
  const Array y = make(s, wrt);
  const Array dy = s.param("dy", y.shape());
  std::vector<Array> tangents;
  for (size_t i = 0; i < wrt.size(); ++i)
    tangents.push_back(s.param("t" + std::to_string(i), wrt[i].shape()));
  const std::vector<Array> grads = vjp(y, dy, wrt);
  double reverse = 0;
  for (size_t i = 0; i < wrt.size(); ++i)
    reverse += dot(s.run(grads[i]), s.params.at(tangents[i].node().name));
  const Operand of_dy = s.params.at("dy");
  const auto moved = [&](float h) {
    for (size_t i = 0; i < wrt.size(); ++i) {
      const Operand& w = s.params.at(wrt[i].node().name);
      const Operand& t = s.params.at(tangents[i].node().name);
      for (int64_t r = 0; r < w.rows; ++r)
        for (int32_t c = 0; c < w.cols; ++c) w.row<float>(r)[c] += h * t.row<float>(r)[c];
    }
  };
  const double along = dot(s.run(jvp(y, wrt, tangents)), of_dy);
  constexpr float kStep = 2e-3F;
  moved(kStep);
  const double above = dot(s.run(y), of_dy);
  moved(-2 * kStep);
  const double expected = (above - dot(s.run(y), of_dy)) / (2.0 * kStep);
  EXPECT_NEAR(reverse, expected, 4e-3 * (1 + std::abs(expected)));
  EXPECT_NEAR(along, expected, 4e-3 * (1 + std::abs(expected)));
  EXPECT_NEAR(along, reverse, 1e-4 * (1 + std::abs(reverse)));
}

}  // namespace veery::test
