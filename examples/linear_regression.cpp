// Fits y = x w to noisy numbers by gradient descent, and prints w: linear_regression [STEPS]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <veery/tensor.hpp>

namespace vt = veery::tensor;

int main(int count, char** arguments) {
  try {
    const int steps = count > 1 ? std::atoi(arguments[1]) : 200;

    // 256 rows of data, made with the weights that are to be found.
    const vt::Tensor truth = vt::Tensor::of<float>({1.5, -2, 0.25}, {3, 1});
    const vt::Tensor x = vt::random::normal(vt::random::key(1), {256, 3});
    const vt::Tensor noise = vt::random::normal(vt::random::key(2), {256, 1}, 0, 0.01);
    const vt::Tensor y = vt::matmul(x, truth) + noise;

    // The mean squared error as a function of the weights, and its gradient.
    const auto loss = [&](std::span<const vt::Tensor> in) {
      return vt::mean(vt::square(vt::matmul(x, in[0]) - y));
    };
    const auto gradient = vt::grad(loss);

    vt::Tensor w = vt::zeros({3, 1});
    for (int step = 0; step < steps; ++step) {
      w = w - 0.1 * gradient(std::array{w})[0];
      w.eval();  // computes the step; without it the graph would grow
    }

    const std::vector<float> found = w.values<float>();
    std::printf("weights %.2f %.2f %.2f, loss %.4f\n", found[0], found[1], found[2],
                loss(std::array{w}).item<double>());
  } catch (const vt::Error& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
