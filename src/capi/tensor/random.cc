// Random numbers.
#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;
namespace random_numbers = veery::tensor::random;

veery_status veery_tensor_random_key(uint64_t seed, veery_tensor** out) {
  return give(out, [&] { return random_numbers::key(seed); });
}

veery_status veery_tensor_random_split(const veery_tensor* key, int64_t count, veery_tensor** out) {
  return give(out, [&] { return random_numbers::split(tensor_of(key, "key"), count); });
}

veery_status veery_tensor_random_bits(const veery_tensor* key, const int64_t* shape, size_t rank,
                                      veery_tensor** out) {
  return give(out,
              [&] { return random_numbers::bits(tensor_of(key, "key"), sizes_of(shape, rank)); });
}

// Distributions with two parameters.
#define VEERY_DISTRIBUTION(name, T)                                                            \
  veery_status veery_tensor_random_##name(const veery_tensor* key, const int64_t* shape,       \
                                          size_t rank, T first, T second, int32_t dtype,       \
                                          veery_tensor** out) {                                \
    return give(out, [&] {                                                                     \
      return random_numbers::name(tensor_of(key, "key"), sizes_of(shape, rank), first, second, \
                                  dtype_of(dtype));                                            \
    });                                                                                        \
  }                                                                                            \
  veery_status veery_tensor_random_##name(const veery_tensor* key, const int64_t* shape,       \
                                          size_t rank, T first, T second, int32_t dtype,       \
                                          veery_tensor** out)
VEERY_DISTRIBUTION(uniform, double);
VEERY_DISTRIBUTION(normal, double);
VEERY_DISTRIBUTION(truncated_normal, double);
VEERY_DISTRIBUTION(randint, int64_t);
#undef VEERY_DISTRIBUTION

veery_status veery_tensor_random_gumbel(const veery_tensor* key, const int64_t* shape, size_t rank,
                                        int32_t dtype, veery_tensor** out) {
  return give(out, [&] {
    return random_numbers::gumbel(tensor_of(key, "key"), sizes_of(shape, rank), dtype_of(dtype));
  });
}

veery_status veery_tensor_random_bernoulli(const veery_tensor* key, const veery_tensor* probability,
                                           veery_tensor** out) {
  return give(out, [&] {
    return random_numbers::bernoulli(tensor_of(key, "key"), tensor_of(probability, "probability"));
  });
}

veery_status veery_tensor_random_categorical(const veery_tensor* key, const veery_tensor* logits,
                                             int32_t axis, veery_tensor** out) {
  return give(out, [&] {
    return random_numbers::categorical(tensor_of(key, "key"), tensor_of(logits, "logits"), axis);
  });
}

veery_status veery_tensor_random_permutation(const veery_tensor* key, int64_t count,
                                             veery_tensor** out) {
  return give(out, [&] { return random_numbers::permutation(tensor_of(key, "key"), count); });
}
