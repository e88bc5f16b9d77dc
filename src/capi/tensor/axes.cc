// Calls along axes: reductions, products, order, indexing.
#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;

#define VEERY_REDUCTION(name)                                                                     \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axes, size_t axis_count, \
                                   int32_t keep, veery_tensor** out) {                            \
    return give(out, [&] {                                                                        \
      return tensor::name(tensor_of(x, "x"), axes_of(axes, axis_count), keep != 0);               \
    });                                                                                           \
  }                                                                                               \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axes, size_t axis_count, \
                                   int32_t keep, veery_tensor** out)
VEERY_REDUCTION(sum);
VEERY_REDUCTION(prod);
VEERY_REDUCTION(mean);
VEERY_REDUCTION(min);
VEERY_REDUCTION(max);
VEERY_REDUCTION(any);
VEERY_REDUCTION(all);
VEERY_REDUCTION(logsumexp);
#undef VEERY_REDUCTION

#define VEERY_DEVIATION(name)                                                                     \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axes, size_t axis_count, \
                                   int32_t keep, double correction, veery_tensor** out) {         \
    return give(out, [&] {                                                                        \
      return tensor::name(tensor_of(x, "x"), axes_of(axes, axis_count), keep != 0, correction);   \
    });                                                                                           \
  }                                                                                               \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axes, size_t axis_count, \
                                   int32_t keep, double correction, veery_tensor** out)
VEERY_DEVIATION(var);
VEERY_DEVIATION(std_dev);
#undef VEERY_DEVIATION

#define VEERY_ALONG(name)                                                                     \
  veery_status veery_tensor_##name(const veery_tensor* x, int32_t axis, veery_tensor** out) { \
    return give(out, [&] { return tensor::name(tensor_of(x, "x"), axis); });                  \
  }                                                                                           \
  veery_status veery_tensor_##name(const veery_tensor* x, int32_t axis, veery_tensor** out)
VEERY_ALONG(softmax);
VEERY_ALONG(log_softmax);
VEERY_ALONG(expand_dims);
VEERY_ALONG(cumsum);
VEERY_ALONG(cumprod);
#undef VEERY_ALONG

#define VEERY_ARG_REDUCTION(name)                                                            \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axis, int32_t keep, \
                                   veery_tensor** out) {                                     \
    return give(out, [&] {                                                                   \
      const auto chosen = axis != nullptr ? std::optional<int>(*axis) : std::nullopt;        \
      return tensor::name(tensor_of(x, "x"), chosen, keep != 0);                             \
    });                                                                                      \
  }                                                                                          \
  veery_status veery_tensor_##name(const veery_tensor* x, const int32_t* axis, int32_t keep, \
                                   veery_tensor** out)
VEERY_ARG_REDUCTION(argmax);
VEERY_ARG_REDUCTION(argmin);
#undef VEERY_ARG_REDUCTION

veery_status veery_tensor_argsort(const veery_tensor* x, int32_t axis, int32_t descending,
                                  veery_tensor** out) {
  return give(out, [&] { return tensor::argsort(tensor_of(x, "x"), axis, descending != 0); });
}

veery_status veery_tensor_sort(const veery_tensor* x, int32_t axis, int32_t descending,
                               veery_tensor** out) {
  return give(out, [&] { return tensor::sort(tensor_of(x, "x"), axis, descending != 0); });
}

veery_status veery_tensor_top_k(const veery_tensor* x, int64_t k, int32_t axis,
                                veery_tensor** values, veery_tensor** indices) {
  return guarded([&] {
    required(values, "values") = nullptr;
    required(indices, "indices") = nullptr;
    const auto found = tensor::top_k(tensor_of(x, "x"), k, axis);
    const tensor::Tensor both[] = {found.first, found.second};
    veery_tensor* handles[2] = {};
    give_all(both, handles);
    *values = handles[0];
    *indices = handles[1];
    return VEERY_OK;
  });
}

veery_status veery_tensor_searchsorted(const veery_tensor* sorted, const veery_tensor* values,
                                       int32_t right, veery_tensor** out) {
  return give(out, [&] {
    return tensor::searchsorted(tensor_of(sorted, "sorted"), tensor_of(values, "values"),
                                right != 0);
  });
}

veery_status veery_tensor_matmul(const veery_tensor* a, const veery_tensor* b, veery_tensor** out) {
  return give(out, [&] { return tensor::matmul(tensor_of(a, "a"), tensor_of(b, "b")); });
}

veery_status veery_tensor_take(const veery_tensor* x, const veery_tensor* indices, int32_t axis,
                               veery_tensor** out) {
  return give(out,
              [&] { return tensor::take(tensor_of(x, "x"), tensor_of(indices, "indices"), axis); });
}

veery_status veery_tensor_take_along_axis(const veery_tensor* x, const veery_tensor* indices,
                                          int32_t axis, veery_tensor** out) {
  return give(out, [&] {
    return tensor::take_along_axis(tensor_of(x, "x"), tensor_of(indices, "indices"), axis);
  });
}

veery_status veery_tensor_scatter_add(const veery_tensor* x, const veery_tensor* indices,
                                      const veery_tensor* updates, int32_t axis,
                                      veery_tensor** out) {
  return give(out, [&] {
    return tensor::scatter_add(tensor_of(x, "x"), tensor_of(indices, "indices"),
                               tensor_of(updates, "updates"), axis);
  });
}

veery_status veery_tensor_scatter_add_along_axis(const veery_tensor* x, const veery_tensor* indices,
                                                 const veery_tensor* updates, int32_t axis,
                                                 veery_tensor** out) {
  return give(out, [&] {
    return tensor::scatter_add_along_axis(tensor_of(x, "x"), tensor_of(indices, "indices"),
                                          tensor_of(updates, "updates"), axis);
  });
}

veery_status veery_tensor_one_hot(const veery_tensor* indices, int64_t classes, int32_t dtype,
                                  veery_tensor** out) {
  return give(out, [&] {
    return tensor::one_hot(tensor_of(indices, "indices"), classes, dtype_of(dtype));
  });
}
