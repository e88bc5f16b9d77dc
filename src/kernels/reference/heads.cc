#include <algorithm>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

void head_linear(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const int64_t heads = d.as<HeadsAttr>().heads;
  const int64_t in = d.in[1].cols;
  const int64_t height = d.in[1].rows / heads;
  const int64_t from = d.in[0].cols / heads;
  const int64_t to = height + from - in;
  auto* w = reinterpret_cast<float*>(worker.scratch);
  const int64_t rows = slots.count(d.in[0].rows);
  const Share outputs = share(d.in[1].rows, 1, worker);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    decode_row(d.in[1], n, w);
    const int64_t head = n / height;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = d.in[0].row<float>(r) + head * from;
      float* out = d.out.row<float>(r) + head * to;
      out[n % height] = reference_dot(x, w, in);
      if (n % height == 0) std::copy(x + in, x + from, out + height);
    }
  }
}

void concat(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out.row<float>(r);
    for (int i : {0, 1}) out = std::copy_n(d.in[i].row<float>(r), d.in[i].cols, out);
  }
}

size_t weight_row(const Dispatch& d, int64_t, int) {
  return static_cast<size_t>(d.in[1].cols) * sizeof(float);
}

bool takes_heads(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_weight(d.in[1]) && is_matrix(d.out);
}
bool takes_concat(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.in[1]) && is_matrix(d.out);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {Op::kHeadLinear, kRef, takes_heads, {"head_linear", {head_linear}, nullptr, weight_row}},
    {Op::kConcat, kRef, takes_concat, {"concat", {concat}}},
};

}  // namespace

KernelRows reference_heads() { return kRows; }

}  // namespace veery
