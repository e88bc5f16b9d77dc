// Creation, views and movement of elements.
#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;

namespace {

std::vector<tensor::Slice> slices_of(const veery_slice* slices, size_t count) {
  const auto bound = [](int64_t given) {
    return given == VEERY_SLICE_NONE ? std::nullopt : std::optional<int64_t>(given);
  };
  std::vector<tensor::Slice> result;
  for (const veery_slice& each : per_axis(slices, count, "slices"))
    result.push_back({bound(each.start), bound(each.stop), each.step});
  return result;
}

}  // namespace

veery_status veery_tensor_full(const int64_t* shape, size_t rank, double value, int32_t dtype,
                               veery_tensor** out) {
  return give(out, [&] { return tensor::full(sizes_of(shape, rank), value, dtype_of(dtype)); });
}

veery_status veery_tensor_zeros(const int64_t* shape, size_t rank, int32_t dtype,
                                veery_tensor** out) {
  return give(out, [&] { return tensor::zeros(sizes_of(shape, rank), dtype_of(dtype)); });
}

veery_status veery_tensor_ones(const int64_t* shape, size_t rank, int32_t dtype,
                               veery_tensor** out) {
  return give(out, [&] { return tensor::ones(sizes_of(shape, rank), dtype_of(dtype)); });
}

veery_status veery_tensor_arange(double start, double stop, double step, int32_t dtype,
                                 veery_tensor** out) {
  return give(out, [&] { return tensor::arange(start, stop, step, dtype_of(dtype)); });
}

veery_status veery_tensor_linspace(double start, double stop, int64_t count, int32_t dtype,
                                   veery_tensor** out) {
  return give(out, [&] { return tensor::linspace(start, stop, count, dtype_of(dtype)); });
}

veery_status veery_tensor_eye(int64_t rows, int64_t columns, int64_t k, int32_t dtype,
                              veery_tensor** out) {
  return give(out, [&] { return tensor::eye(rows, columns, k, dtype_of(dtype)); });
}

veery_status veery_tensor_tril(const veery_tensor* x, int64_t k, veery_tensor** out) {
  return give(out, [&] { return tensor::tril(tensor_of(x, "x"), k); });
}

veery_status veery_tensor_triu(const veery_tensor* x, int64_t k, veery_tensor** out) {
  return give(out, [&] { return tensor::triu(tensor_of(x, "x"), k); });
}

veery_status veery_tensor_astype(const veery_tensor* x, int32_t dtype, veery_tensor** out) {
  return give(out, [&] { return tensor::astype(tensor_of(x, "x"), dtype_of(dtype)); });
}

veery_status veery_tensor_reshape(const veery_tensor* x, const int64_t* shape, size_t rank,
                                  veery_tensor** out) {
  return give(out, [&] { return tensor::reshape(tensor_of(x, "x"), sizes_of(shape, rank)); });
}

veery_status veery_tensor_broadcast_to(const veery_tensor* x, const int64_t* shape, size_t rank,
                                       veery_tensor** out) {
  return give(out, [&] { return tensor::broadcast_to(tensor_of(x, "x"), sizes_of(shape, rank)); });
}

veery_status veery_tensor_transpose(const veery_tensor* x, const int32_t* axes, size_t axis_count,
                                    veery_tensor** out) {
  return give(out, [&] { return tensor::transpose(tensor_of(x, "x"), axes_of(axes, axis_count)); });
}

veery_status veery_tensor_swapaxes(const veery_tensor* x, int32_t a, int32_t b,
                                   veery_tensor** out) {
  return give(out, [&] { return tensor::swapaxes(tensor_of(x, "x"), a, b); });
}

veery_status veery_tensor_squeeze(const veery_tensor* x, const int32_t* axes, size_t axis_count,
                                  veery_tensor** out) {
  return give(out, [&] { return tensor::squeeze(tensor_of(x, "x"), axes_of(axes, axis_count)); });
}

veery_status veery_tensor_flip(const veery_tensor* x, const int32_t* axes, size_t axis_count,
                               veery_tensor** out) {
  return give(out, [&] { return tensor::flip(tensor_of(x, "x"), axes_of(axes, axis_count)); });
}

veery_status veery_tensor_slice(const veery_tensor* x, const veery_slice* slices,
                                size_t slice_count, veery_tensor** out) {
  return give(out,
              [&] { return tensor::slice(tensor_of(x, "x"), slices_of(slices, slice_count)); });
}

veery_status veery_tensor_concatenate(veery_tensor* const* parts, size_t part_count, int32_t axis,
                                      veery_tensor** out) {
  return give(out,
              [&] { return tensor::concatenate(tensors_of(parts, part_count, "parts"), axis); });
}

veery_status veery_tensor_stack(veery_tensor* const* parts, size_t part_count, int32_t axis,
                                veery_tensor** out) {
  return give(out, [&] { return tensor::stack(tensors_of(parts, part_count, "parts"), axis); });
}

veery_status veery_tensor_split(const veery_tensor* x, size_t part_count, int32_t axis,
                                veery_tensor** parts) {
  return guarded([&] {
    if (part_count > kMostTensors)
      throw Error(ErrorKind::kInput, "part_count is {}, expected at most {}", part_count,
                  kMostTensors);
    if (part_count > 0) required(parts, "parts");
    std::fill_n(parts, part_count, nullptr);
    give_all(tensor::split(tensor_of(x, "x"), static_cast<int64_t>(part_count), axis), parts);
    return VEERY_OK;
  });
}

veery_status veery_tensor_slice_update(const veery_tensor* x, const veery_slice* slices,
                                       size_t slice_count, const veery_tensor* update,
                                       veery_tensor** out) {
  return give(out, [&] {
    return tensor::slice_update(tensor_of(x, "x"), slices_of(slices, slice_count),
                                tensor_of(update, "update"));
  });
}

veery_status veery_tensor_pad(const veery_tensor* x, const veery_pad* widths, size_t width_count,
                              double value, veery_tensor** out) {
  return give(out, [&] {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const veery_pad& each : per_axis(widths, width_count, "widths"))
      pairs.emplace_back(each.before, each.after);
    return tensor::pad(tensor_of(x, "x"), pairs, value);
  });
}

veery_status veery_tensor_repeat(const veery_tensor* x, int64_t count, int32_t axis,
                                 veery_tensor** out) {
  return give(out, [&] { return tensor::repeat(tensor_of(x, "x"), count, axis); });
}

veery_status veery_tensor_tile(const veery_tensor* x, const int64_t* counts, size_t count_count,
                               veery_tensor** out) {
  return give(out, [&] {
    return tensor::tile(tensor_of(x, "x"), sizes_of(counts, count_count, "counts"));
  });
}

veery_status veery_tensor_roll(const veery_tensor* x, int64_t shift, int32_t axis,
                               veery_tensor** out) {
  return give(out, [&] { return tensor::roll(tensor_of(x, "x"), shift, axis); });
}
