// Calls with tensors with arguments at random: each ends with a status.
#include <gtest/gtest.h>
#include <veery/veery.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace veery {
namespace {

using Tensor = veery_tensor*;
using In = const veery_tensor*;
using Unary = veery_status (*)(In, Tensor*);
using Binary = veery_status (*)(In, In, Tensor*);
using Reduction = veery_status (*)(In, const int32_t*, size_t, int32_t, Tensor*);
using Along = veery_status (*)(In, int32_t, Tensor*);
using Axes = veery_status (*)(In, const int32_t*, size_t, Tensor*);
using Shaped = veery_status (*)(In, const int64_t*, size_t, Tensor*);

constexpr Unary kUnary[] = {veery_tensor_zeros_like,  veery_tensor_ones_like,
                            veery_tensor_logical_not, veery_tensor_bitwise_invert,
                            veery_tensor_isnan,       veery_tensor_isinf,
                            veery_tensor_isfinite,    veery_tensor_negative,
                            veery_tensor_abs,         veery_tensor_sign,
                            veery_tensor_square,      veery_tensor_exp,
                            veery_tensor_exp2,        veery_tensor_expm1,
                            veery_tensor_log,         veery_tensor_log2,
                            veery_tensor_log10,       veery_tensor_log1p,
                            veery_tensor_sqrt,        veery_tensor_rsqrt,
                            veery_tensor_reciprocal,  veery_tensor_sin,
                            veery_tensor_cos,         veery_tensor_tan,
                            veery_tensor_asin,        veery_tensor_acos,
                            veery_tensor_atan,        veery_tensor_sinh,
                            veery_tensor_cosh,        veery_tensor_tanh,
                            veery_tensor_asinh,       veery_tensor_acosh,
                            veery_tensor_atanh,       veery_tensor_erf,
                            veery_tensor_erfinv,      veery_tensor_sigmoid,
                            veery_tensor_relu,        veery_tensor_silu,
                            veery_tensor_gelu,        veery_tensor_gelu_tanh,
                            veery_tensor_gelu_fast,   veery_tensor_softplus,
                            veery_tensor_floor,       veery_tensor_ceil,
                            veery_tensor_trunc,       veery_tensor_round,
                            veery_tensor_flatten,     veery_tensor_stop_gradient,
                            veery_tensor_retain};
constexpr Binary kBinary[] = {veery_tensor_add,
                              veery_tensor_subtract,
                              veery_tensor_multiply,
                              veery_tensor_divide,
                              veery_tensor_floor_divide,
                              veery_tensor_remainder,
                              veery_tensor_pow,
                              veery_tensor_minimum,
                              veery_tensor_maximum,
                              veery_tensor_atan2,
                              veery_tensor_hypot,
                              veery_tensor_copysign,
                              veery_tensor_logaddexp,
                              veery_tensor_equal,
                              veery_tensor_not_equal,
                              veery_tensor_less,
                              veery_tensor_less_equal,
                              veery_tensor_greater,
                              veery_tensor_greater_equal,
                              veery_tensor_logical_and,
                              veery_tensor_logical_or,
                              veery_tensor_logical_xor,
                              veery_tensor_bitwise_and,
                              veery_tensor_bitwise_or,
                              veery_tensor_bitwise_xor,
                              veery_tensor_bitwise_left_shift,
                              veery_tensor_bitwise_right_shift,
                              veery_tensor_matmul};
constexpr Reduction kReductions[] = {veery_tensor_sum, veery_tensor_prod,     veery_tensor_mean,
                                     veery_tensor_min, veery_tensor_max,      veery_tensor_any,
                                     veery_tensor_all, veery_tensor_logsumexp};
constexpr Along kAlong[] = {veery_tensor_softmax, veery_tensor_log_softmax,
                            veery_tensor_expand_dims, veery_tensor_cumsum, veery_tensor_cumprod};
constexpr Axes kAxes[] = {veery_tensor_transpose, veery_tensor_squeeze, veery_tensor_flip};
constexpr Shaped kShaped[] = {veery_tensor_reshape, veery_tensor_broadcast_to, veery_tensor_tile,
                              veery_tensor_random_bits};

/// Small tensors of all types, and arguments: null pointers, handles that were freed, counts and
/// numbers outside of every range. Counts beyond an array are not among them.
class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed) {
    for (int32_t type = VEERY_DTYPE_BOOL; type <= VEERY_DTYPE_F64; ++type)
      for (const std::vector<int64_t>& shape :
           {std::vector<int64_t>{}, {3}, {2, 3}, {2, 1, 3}, {0, 2}}) {
        veery_tensor* x = nullptr;
        EXPECT_EQ(veery_tensor_full(shape.data(), shape.size(),
                                    static_cast<double>(random_.next() % 4), type, &x),
                  VEERY_OK);
        pool_.push_back(x);
      }
    veery_tensor* key = nullptr;
    EXPECT_EQ(veery_tensor_random_key(1, &key), VEERY_OK);
    for (int i = 0; i < 6; ++i) pool_.push_back(key);  // freed once
    veery_tensor* weak = nullptr;
    EXPECT_EQ(veery_tensor_scalar(0.5, &weak), VEERY_OK);
    pool_.push_back(weak);
    EXPECT_EQ(veery_tensor_scalar_int(2, &freed_), VEERY_OK);
    veery_tensor_free(freed_);
  }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;
  ~Hostile() {
    for (veery_tensor* x : pool_) veery_tensor_free(x);
  }

  bool chance(uint32_t one_in) { return random_.next() % one_in == 0; }
  Tensor x() {
    if (chance(30)) return chance(2) ? nullptr : freed_;
    return pool_[random_.next() % pool_.size()];
  }
  int64_t number() {
    constexpr int64_t kNumbers[] = {
        INT64_MIN,        INT64_MIN + 1,    -(int64_t{1} << 40), -3,       -2, -1, 0, 1, 2, 3, 7, 9,
        int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62,    INT64_MAX};
    return chance(3) ? kNumbers[random_.next() % std::size(kNumbers)]
                     : static_cast<int64_t>(random_.next() % 4) - 1;
  }
  int32_t small() {
    return static_cast<int32_t>(std::clamp<int64_t>(number(), INT32_MIN, INT32_MAX));
  }
  double real() {
    constexpr double kNumbers[] = {0,    -1,     1,   0.5,      1e300,    -1e300,
                                   1e19, 5e-324, NAN, INFINITY, -INFINITY};
    return chance(2) ? static_cast<double>(random_.next() % 5)
                     : kNumbers[random_.next() % std::size(kNumbers)];
  }
  int32_t dtype() { return chance(10) ? small() : static_cast<int32_t>(random_.next() % 10); }
  size_t count() { return chance(20) ? (chance(2) ? 9 : SIZE_MAX) : random_.next() % 4; }
  template <typename T>
  T* maybe(T* pointer) {
    return chance(30) ? nullptr : pointer;
  }
  const int64_t* shape() {
    for (int64_t& size : shape_) size = number();
    return maybe(shape_.data());
  }
  const int32_t* axes() {
    for (int32_t& axis : axes_) axis = small();
    return maybe(axes_.data());
  }
  const veery_slice* slices() {
    for (veery_slice& each : slices_)
      each = {chance(2) ? VEERY_SLICE_NONE : number(), chance(2) ? VEERY_SLICE_NONE : number(),
              number()};
    return maybe(slices_.data());
  }
  const veery_pad* pads() {
    for (veery_pad& each : pads_) each = {number(), number()};
    return maybe(pads_.data());
  }
  Tensor* parts() {
    for (Tensor& part : parts_) part = x();
    return maybe(parts_.data());
  }
  template <typename T, size_t kCount>
  T pick(const T (&calls)[kCount]) {
    return calls[random_.next() % kCount];
  }
  Random& random() { return random_; }

 private:
  Random random_;
  std::vector<veery_tensor*> pool_;
  veery_tensor* freed_ = nullptr;
  std::array<int64_t, 9> shape_{};
  std::array<int32_t, 9> axes_{};
  std::array<veery_slice, 9> slices_{};
  std::array<veery_pad, 9> pads_{};
  std::array<Tensor, 3> parts_{};
};

/// Requires that a result exists exactly if the status says so, and evaluates it.
class Outcome {
 public:
  int failed = 0, worked = 0;

  void count(veery_status status) {
    ASSERT_GE(status, VEERY_OK);
    ASSERT_LE(status, VEERY_ERROR_BUSY);
    ASSERT_NE(status, VEERY_ERROR_BUG) << veery_last_message();
    (status == VEERY_OK ? worked : failed) += 1;
    if (status != VEERY_OK) {
      ASSERT_STRNE(veery_last_message(), "");
    }
  }
  template <typename F>
  void operator()(const F& call) {
    Tensor result = nullptr;
    const veery_status status = call(&result);
    check(status, result);
  }
  void check(veery_status status, Tensor result) {
    count(status);
    ASSERT_EQ(result != nullptr, status == VEERY_OK);
    if (result == nullptr) return;
    ASSERT_LE(veery_tensor_rank(result), 8U);
    if (veery_tensor_size(result) <= 4096) {
      count(veery_tensor_eval(result));
      char* text = nullptr;
      if (veery_tensor_is_evaluated(result) != 0) count(veery_tensor_text(result, &text, nullptr));
      veery_free(text);
    }
    veery_tensor_free(result);
  }
};

void call_families(Hostile& h, Outcome& outcome) {
  outcome([&](Tensor* y) { return h.pick(kUnary)(h.x(), y); });
  outcome([&](Tensor* y) { return h.pick(kBinary)(h.x(), h.x(), y); });
  outcome([&](Tensor* y) { return h.pick(kReductions)(h.x(), h.axes(), h.count(), h.small(), y); });
  outcome([&](Tensor* y) { return h.pick(kAlong)(h.x(), h.small(), y); });
  outcome([&](Tensor* y) { return h.pick(kAxes)(h.x(), h.axes(), h.count(), y); });
  outcome([&](Tensor* y) { return h.pick(kShaped)(h.x(), h.shape(), h.count(), y); });
}

void call_creation(Hostile& h, Outcome& outcome) {
  const std::array<double, 2> memory = {1, 2};
  const int64_t two = 2;
  outcome([&](Tensor* y) {
    return veery_tensor_copy(h.maybe(memory.data()), h.maybe(&two), 1, h.dtype(), y);
  });
  outcome(
      [&](Tensor* y) { return veery_tensor_full(h.shape(), h.count(), h.real(), h.dtype(), y); });
  outcome(
      [&](Tensor* y) { return veery_tensor_arange(h.real(), h.real(), h.real(), h.dtype(), y); });
  outcome([&](Tensor* y) {
    return veery_tensor_linspace(h.real(), h.real(), h.number(), h.dtype(), y);
  });
  outcome([&](Tensor* y) {
    return veery_tensor_eye(h.number(), h.number(), h.number(), h.dtype(), y);
  });
  outcome([&](Tensor* y) { return veery_tensor_tril(h.x(), h.number(), y); });
  outcome([&](Tensor* y) { return veery_tensor_astype(h.x(), h.dtype(), y); });
  outcome([&](Tensor* y) { return veery_tensor_where(h.x(), h.x(), h.x(), y); });
  outcome([&](Tensor* y) { return veery_tensor_clip(h.x(), h.x(), h.x(), y); });
  outcome([&](Tensor* y) {
    return veery_tensor_var(h.x(), h.axes(), h.count(), h.small(), h.real(), y);
  });
}

void call_movement(Hostile& h, Outcome& outcome) {
  outcome([&](Tensor* y) { return veery_tensor_swapaxes(h.x(), h.small(), h.small(), y); });
  outcome([&](Tensor* y) { return veery_tensor_slice(h.x(), h.slices(), h.count(), y); });
  outcome(
      [&](Tensor* y) { return veery_tensor_slice_update(h.x(), h.slices(), h.count(), h.x(), y); });
  outcome([&](Tensor* y) { return veery_tensor_pad(h.x(), h.pads(), h.count(), h.real(), y); });
  outcome([&](Tensor* y) { return veery_tensor_repeat(h.x(), h.number(), h.small(), y); });
  outcome([&](Tensor* y) { return veery_tensor_roll(h.x(), h.number(), h.small(), y); });
  outcome([&](Tensor* y) {
    return veery_tensor_concatenate(h.parts(), h.random().next() % 4, h.small(), y);
  });
  outcome([&](Tensor* y) {
    return veery_tensor_stack(h.parts(), h.random().next() % 4, h.small(), y);
  });
  std::array<Tensor, 9> parts{};
  const size_t count = h.count();
  const veery_status status = veery_tensor_split(h.x(), count, h.small(), parts.data());
  outcome.count(status);
  for (Tensor part : parts) veery_tensor_free(part);
}

void call_indexing(Hostile& h, Outcome& outcome) {
  const int32_t axis = h.small();
  outcome([&](Tensor* y) { return veery_tensor_take(h.x(), h.x(), axis, y); });
  outcome([&](Tensor* y) { return veery_tensor_take_along_axis(h.x(), h.x(), axis, y); });
  outcome([&](Tensor* y) { return veery_tensor_scatter_add(h.x(), h.x(), h.x(), axis, y); });
  outcome(
      [&](Tensor* y) { return veery_tensor_scatter_add_along_axis(h.x(), h.x(), h.x(), axis, y); });
  outcome([&](Tensor* y) { return veery_tensor_one_hot(h.x(), h.number(), h.dtype(), y); });
  outcome([&](Tensor* y) { return veery_tensor_argmax(h.x(), h.maybe(&axis), h.small(), y); });
  outcome([&](Tensor* y) { return veery_tensor_sort(h.x(), axis, h.small(), y); });
  outcome([&](Tensor* y) { return veery_tensor_searchsorted(h.x(), h.x(), h.small(), y); });
  Tensor y = nullptr, z = nullptr;
  const veery_status status = veery_tensor_top_k(h.x(), h.number(), axis, &y, &z);
  outcome.check(status, y);
  outcome.check(status, z);
}

void call_random(Hostile& h, Outcome& outcome) {
  outcome([&](Tensor* y) { return veery_tensor_random_split(h.x(), h.number(), y); });
  outcome([&](Tensor* y) {
    return veery_tensor_random_uniform(h.x(), h.shape(), h.count(), h.real(), h.real(), h.dtype(),
                                       y);
  });
  outcome([&](Tensor* y) {
    return veery_tensor_random_normal(h.x(), h.shape(), h.count(), h.real(), h.real(), h.dtype(),
                                      y);
  });
  outcome([&](Tensor* y) {
    return veery_tensor_random_truncated_normal(h.x(), h.shape(), h.count(), h.real(), h.real(),
                                                h.dtype(), y);
  });
  outcome([&](Tensor* y) {
    return veery_tensor_random_randint(h.x(), h.shape(), h.count(), h.number(), h.number(),
                                       h.dtype(), y);
  });
  outcome([&](Tensor* y) { return veery_tensor_random_bernoulli(h.x(), h.x(), y); });
  outcome([&](Tensor* y) {
    return veery_tensor_random_gumbel(h.x(), h.shape(), h.count(), h.dtype(), y);
  });
  outcome([&](Tensor* y) { return veery_tensor_random_categorical(h.x(), h.x(), h.small(), y); });
  outcome([&](Tensor* y) { return veery_tensor_random_permutation(h.x(), h.number(), y); });
}

/// A function of one call at random, which may fail, leave outputs null, or return its inputs.
veery_status at_random(void* user, veery_tensor* const* inputs, size_t count, Tensor* outputs,
                       size_t output_count) {
  Hostile& h = *static_cast<Hostile*>(user);
  if (h.chance(12)) return static_cast<veery_status>(h.random().next() % VEERY_ERROR_BUG);
  for (size_t i = 0; i < output_count && count > 0; ++i) {
    const Tensor x = inputs[h.random().next() % count];
    if (h.chance(12))
      outputs[i] = h.chance(2) ? x : nullptr;
    else if (h.chance(2))
      h.pick(kUnary)(x, &outputs[i]);
    else if (h.chance(2))
      h.pick(kBinary)(x, inputs[0], &outputs[i]);
    else
      h.pick(kReductions)(x, nullptr, 0, 0, &outputs[i]);
  }
  return VEERY_OK;
}

void call_transforms(Hostile& h, Outcome& outcome) {
  std::array<Tensor, 3> in = {h.x(), h.x(), h.x()}, others = {h.x(), h.x(), h.x()}, values{},
                        products{};
  const size_t count = h.random().next() % 4, output_count = 1 + h.random().next() % 3;
  const int32_t argument = h.small();
  const veery_tensor_function function = h.chance(30) ? nullptr : at_random;
  veery_status status = VEERY_OK;
  switch (h.random().next() % 4) {
    case 0:
      status = veery_tensor_vjp(function, &h, in.data(), count, others.data(), output_count,
                                h.maybe(values.data()), h.maybe(products.data()));
      break;
    case 1:
      status = veery_tensor_jvp(function, &h, in.data(), count, others.data(), output_count,
                                h.maybe(values.data()), h.maybe(products.data()));
      break;
    case 2:
      status = veery_tensor_value_and_grad(function, &h, in.data(), count, &argument,
                                           h.chance(2) ? 0 : 1, h.maybe(values.data()),
                                           h.maybe(products.data()));
      break;
    default:
      status = veery_tensor_checkpoint(function, &h, in.data(), count, nullptr, output_count,
                                       h.maybe(products.data()));
  }
  outcome.count(status);
  for (const auto& list : {values, products})
    for (const Tensor x : list) {
      ASSERT_TRUE(x == nullptr || status == VEERY_OK);
      if (x != nullptr) outcome.check(VEERY_OK, x);
    }
}

TEST(HostileTensorCalls, EndWithAStatus) {
  ASSERT_EQ(veery_tensor_set_memory_limit(uint64_t{256} << 20), VEERY_OK);
  const size_t handles = veery_tensor_handle_count();
  Outcome outcome;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Hostile h(seed);
    for (int round = 0; round < 60 && !::testing::Test::HasFatalFailure(); ++round) {
      call_families(h, outcome);
      call_creation(h, outcome);
      call_movement(h, outcome);
      call_indexing(h, outcome);
      call_random(h, outcome);
      for (int i = 0; i < 4; ++i) call_transforms(h, outcome);
    }
  }
  EXPECT_GT(outcome.failed, 5000);
  EXPECT_GT(outcome.worked, 5000);
  EXPECT_EQ(veery_tensor_handle_count(), handles);
  ASSERT_EQ(veery_tensor_set_memory_limit(UINT64_MAX), VEERY_OK);
}

}  // namespace
}  // namespace veery
