#include <algorithm>

#include "kernels/reference/reference.h"

namespace veery {
namespace {

void embed(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  const Share rows = share(slots.count(d.out.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    float* out = d.out.row<float>(r);
    decode_row(d.in[1], *d.in[0].row<int32_t>(r), out);
    for (int32_t c = 0; c < d.out.cols; ++c) out[c] *= factor;
  }
}

void embed_back(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  const Share tokens = share(slots.count(d.out.rows), 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    std::fill_n(d.out.row<float>(t), d.out.cols, 0.0F);
  for (int64_t r = 0, rows = slots.count(d.in[0].rows); r < rows; ++r) {
    const int32_t token = *d.in[1].row<int32_t>(r);
    if (token >= tokens.begin && token < tokens.end)
      reference_axpy(factor, d.in[0].row<float>(r), d.out.cols, d.out.row<float>(token));
  }
}

void select_rows(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::copy_n(d.in[0].row<float>(*d.in[1].row<int32_t>(r)), d.out.cols, d.out.row<float>(r));
}

void select_rows_back(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    std::fill_n(d.out.row<float>(r), d.out.cols, 0.0F);
  for (int64_t i = 0, selected = slots.count(d.in[0].rows); i < selected; ++i) {
    const int32_t r = *d.in[1].row<int32_t>(i);
    if (r >= rows.begin && r < rows.end)
      reference_axpy(1, d.in[0].row<float>(i), d.out.cols, d.out.row<float>(r));
  }
}

void argmax(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out.rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = d.in[0].row<float>(r);
    *d.out.row<int32_t>(r) = static_cast<int32_t>(std::max_element(x, x + d.in[0].cols) - x);
  }
}

bool takes_embed(const Dispatch& d, const KernelChoice&) {
  return is_weight(d.in[1]) && is_matrix(d.out);
}
bool takes_matrix(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.out);
}
bool takes_argmax(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && is_matrix(d.out, DType::kI32);
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {Op::kEmbed, kRef, takes_embed, {"embed", {embed}}},
    {Op::kEmbedBack, kRef, takes_matrix, {"embed_back", {embed_back}}},
    {Op::kSelectRows, kRef, takes_matrix, {"select_rows", {select_rows}}},
    {Op::kSelectRowsBack, kRef, takes_matrix, {"select_rows_back", {select_rows_back}}},
    {Op::kArgmax, kRef, takes_argmax, {"argmax", {argmax}}},
};

}  // namespace

KernelRows reference_rows() { return kRows; }

}  // namespace veery
