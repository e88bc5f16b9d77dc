#include <algorithm>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

void head_linear(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.as<HeadsAttr>().heads;
  const int64_t in = d.in[HeadLinearIn::kWeight].cols;
  const int64_t height = d.in[HeadLinearIn::kWeight].rows / heads;
  const int64_t from = d.in[HeadLinearIn::kX].cols / heads;
  const int64_t to = height + from - in;
  auto* w = reinterpret_cast<float*>(worker.scratch);
  const int64_t rows = shape.count(d.in[HeadLinearIn::kX].rows);
  const Share outputs = share(d.in[HeadLinearIn::kWeight].rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    decode_row(d.in[HeadLinearIn::kWeight], n, w);
    const int64_t head = n / height;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = d.in[HeadLinearIn::kX].row<float>(r) + head * from;
      float* out = d.out().row<float>(r) + head * to;
      out[n % height] = reference_dot(x, w, in);
      if (n % height == 0) std::copy(x + in, x + from, out + height);
    }
  }
}

void concat(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out().row<float>(r);
    for (int i : {0, 1}) out = std::copy_n(d.in[i].row<float>(r), d.in[i].cols, out);
  }
}

size_t weight_row(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[HeadLinearIn::kWeight].cols) * sizeof(float);
}

bool takes_heads(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[HeadLinearIn::kX]) && is_weight(d.in[HeadLinearIn::kWeight]) &&
         is_matrix(d.out());
}
bool takes_concat(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && is_matrix(d.in[BinaryIn::kB]) && is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kHeadLinear, kRef, takes_heads, {"head_linear", {head_linear}, nullptr, weight_row}},
    {op::kConcat, kRef, takes_concat, {"concat", {concat}}},
};

}  // namespace

KernelRows reference_heads() { return kRows; }

}  // namespace veery
