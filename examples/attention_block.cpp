// Computes the gradients of a transformer block, checks them against differences, and writes them
// beside the weights for other programs: attention_block FILE.safetensors
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <veery/tensor_fast.hpp>
#include <veery/tensor_io.hpp>
#include <veery/tensor_rope.hpp>
#include <veery/tensor_transforms.hpp>

namespace vt = veery::tensor;
namespace fast = veery::tensor::fast;

constexpr int64_t kTokens = 12, kHeads = 4, kKeyHeads = 2, kHeadDim = 8, kHidden = 48;
constexpr int64_t kWidth = kHeads * kHeadDim;

// Names and shapes of the input and the weights; weights are [out, in].
const std::vector<std::pair<std::string, vt::Shape>> kArguments = {
    {"x", {1, kTokens, kWidth}},
    {"norm1", {kWidth}},
    {"q", {kHeads * kHeadDim, kWidth}},
    {"k", {kKeyHeads * kHeadDim, kWidth}},
    {"v", {kKeyHeads * kHeadDim, kWidth}},
    {"out", {kWidth, kHeads* kHeadDim}},
    {"norm2", {kWidth}},
    {"gate", {kHidden, kWidth}},
    {"up", {kHidden, kWidth}},
    {"down", {kWidth, kHidden}},
};

vt::Tensor linear(const vt::Tensor& x, const vt::Tensor& weight) {
  return vt::matmul(x, vt::transpose(weight));
}

// [1, tokens, heads * head_dim] -> [1, heads, tokens, head_dim]
vt::Tensor heads(const vt::Tensor& x, int64_t count) {
  return vt::swapaxes(vt::reshape(x, {1, kTokens, count, kHeadDim}), 1, 2);
}

vt::Tensor block(std::span<const vt::Tensor> in) {
  const vt::Tensor &x = in[0], &norm1 = in[1], &q = in[2], &k = in[3], &v = in[4], &out = in[5];
  const vt::Tensor &norm2 = in[6], &gate = in[7], &up = in[8], &down = in[9];

  const vt::Tensor h = fast::rms_norm(x, norm1);
  const vt::Tensor attended = fast::scaled_dot_product_attention(
      fast::rope(heads(linear(h, q), kHeads)), fast::rope(heads(linear(h, k), kKeyHeads)),
      heads(linear(h, v), kKeyHeads), {.causal = true});
  const vt::Tensor joined = vt::reshape(vt::swapaxes(attended, 1, 2), x.shape());
  const vt::Tensor y = x + linear(joined, out);

  const vt::Tensor n = fast::rms_norm(y, norm2);
  return y + linear(vt::silu(linear(n, gate)) * linear(n, up), down);
}

vt::Tensor loss(std::span<const vt::Tensor> in) { return vt::mean(vt::square(block(in))); }

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: attention_block FILE.safetensors\n");
    return 2;
  }
  try {
    std::vector<vt::Tensor> in;
    std::vector<int> argnums;
    for (const auto& [name, shape] : kArguments) {
      const double mean = name.starts_with("norm") ? 1 : 0;
      argnums.push_back(static_cast<int>(in.size()));
      in.push_back(vt::random::normal(vt::random::key(in.size()), shape, mean, 0.2));
    }
    const vt::ValueAndGrad result = vt::value_and_grad(loss, argnums)(in);

    vt::TensorMap file = {{"loss", result.value}};
    std::printf("loss %.6f\n", result.value.item<double>());
    for (size_t i = 0; i < in.size(); ++i) {
      const std::string& name = kArguments[i].first;
      const vt::Tensor& gradient = result.gradients[i];
      std::printf("%-6s gradient %.6f\n", name.c_str(),
                  std::sqrt(vt::sum(vt::square(gradient)).item<double>()));
      file[name] = in[i];
      file[name + ".gradient"] = gradient;
    }
    vt::save_safetensors(arguments[1], file);

    const vt::Function scalar = [](std::span<const vt::Tensor> args) {
      return std::vector{loss(args)};
    };
    const vt::GradientCheck check = vt::check_gradients(scalar, in);
    std::printf("%s\n", check.text.c_str());
    return check.passed ? 0 : 1;
  } catch (const vt::Error& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
