// Trains a network with one hidden layer to recognise three species of irises by their sizes, and
// prints its accuracy on flowers that were not used for training: iris FILE (examples/iris.csv)
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <veery/tensor_fast.hpp>
#include <veery/tensor_transforms.hpp>

namespace vt = veery::tensor;

struct Data {
  vt::Tensor x;  // f32 [flowers, 4]: sizes in cm
  vt::Tensor y;  // i32 [flowers]: species
};

Data read(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot open ") + path);
  std::vector<float> sizes;
  std::vector<int32_t> species;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) sizes.push_back(std::stof(field));
    species.push_back(static_cast<int32_t>(sizes.back()));
    sizes.pop_back();
  }
  const vt::Tensor x = vt::Tensor::of<float>(sizes);
  return {vt::reshape(x, {-1, 4}), vt::Tensor::of<int32_t>(species)};
}

vt::Tensor network(const vt::Tensor& x, std::span<const vt::Tensor> weights) {
  const vt::Tensor hidden = vt::tanh(vt::matmul(x, weights[0]) + weights[1]);
  return vt::matmul(hidden, weights[2]) + weights[3];  // [flowers, 3]: logits of the species
}

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: iris FILE\n");
    return 2;
  }
  try {
    const Data data = read(arguments[1]);
    // Every fifth flower is kept for the test.
    const vt::Tensor is_test = vt::equal(vt::arange(0, data.y.size()) % 5, 0);
    const vt::Tensor is_train = vt::logical_not(is_test);
    const vt::Tensor train_y = vt::compress(data.y, is_train);
    const vt::Tensor test_y = vt::compress(data.y, is_test);
    // Each size gets a mean of 0 and a deviation of 1.
    const vt::Tensor sizes = vt::compress(data.x, is_train, 0);
    const vt::Tensor mean = vt::mean(sizes, {0}), deviation = vt::std_dev(sizes, {0});
    const vt::Tensor train_x = (sizes - mean) / deviation;
    const vt::Tensor test_x = (vt::compress(data.x, is_test, 0) - mean) / deviation;

    const auto loss = [&](std::span<const vt::Tensor> weights) {
      return vt::fast::cross_entropy(network(train_x, weights), train_y);
    };
    // One step of gradient descent: the weights before -> the loss and the weights after it.
    const vt::Function step = vt::compile([&](std::span<const vt::Tensor> weights) {
      const auto [value, gradients] = vt::value_and_grad(loss, {0, 1, 2, 3})(weights);
      std::vector<vt::Tensor> results = {value};
      for (size_t i = 0; i < weights.size(); ++i)
        results.push_back(weights[i] - 0.5 * gradients[i]);
      return results;
    });

    const auto random = [](uint64_t seed, const vt::Shape& shape, double spread) {
      return vt::random::normal(vt::random::key(seed), shape, 0, spread);
    };
    std::vector<vt::Tensor> weights = {random(1, {4, 16}, 0.5), vt::zeros({16}),
                                       random(2, {16, 3}, 0.25), vt::zeros({3})};
    for (int i = 0; i <= 300; ++i) {
      std::vector<vt::Tensor> results = step(weights);
      vt::eval(results);
      if (i % 100 == 0) std::printf("step %d: loss %.3f\n", i, results[0].item<double>());
      weights.assign(results.begin() + 1, results.end());
    }

    const vt::Tensor right = vt::equal(vt::argmax(network(test_x, weights), -1), test_y);
    std::printf("accuracy %.3f of %d flowers\n",
                vt::mean(vt::astype(right, vt::Dtype::kF32)).item<double>(),
                static_cast<int>(right.size()));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
