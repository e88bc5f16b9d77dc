// Tensors through the C interface: handles, numbers from memory, values, derivatives, threads. The
// functions themselves are compared with NumPy by tests/tensor_suite.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <veery/veery.h>

#include <array>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitized.h"

namespace veery {
namespace {

/// Frees a handle.
class Handle {
 public:
  Handle() = default;
  explicit Handle(veery_tensor* handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() { veery_tensor_free(handle_); }
  operator veery_tensor*() const { return handle_; }  // NOLINT
  veery_tensor** out() { return &handle_; }

 private:
  veery_tensor* handle_ = nullptr;
};

Handle numbers(const std::vector<double>& values, const std::vector<int64_t>& shape) {
  Handle x;
  EXPECT_EQ(veery_tensor_copy(values.data(), shape.data(), shape.size(), VEERY_DTYPE_F64, x.out()),
            VEERY_OK)
      << veery_last_message();
  return x;
}
Handle numbers(const std::vector<double>& values) {
  return numbers(values, {static_cast<int64_t>(values.size())});
}

std::vector<double> values(const veery_tensor* x) {
  Handle wide;
  EXPECT_EQ(veery_tensor_astype(x, VEERY_DTYPE_F64, wide.out()), VEERY_OK) << veery_last_message();
  std::vector<double> result(static_cast<size_t>(veery_tensor_size(x)));
  EXPECT_EQ(veery_tensor_copy_to(wide, result.data(), result.size() * sizeof(double)), VEERY_OK)
      << veery_last_message();
  return result;
}

/// Calls a function with a single result.
template <typename F, typename... Arguments>
Handle made(F* call, const Arguments&... arguments) {
  Handle y;
  EXPECT_EQ(call(arguments..., y.out()), VEERY_OK) << veery_last_message();
  return y;
}

void expect_failure(veery_status got, veery_status expected, const std::string& part) {
  EXPECT_EQ(got, expected) << veery_last_message();
  EXPECT_NE(std::string(veery_last_message()).find(part), std::string::npos)
      << veery_last_message() << "\nexpected: " << part;
}

TEST(CApiTensor, HasPropertiesAndValues) {
  const Handle x = numbers({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::array<int32_t, 2> order = {1, 0};
  const Handle y = made(veery_tensor_transpose, x, order.data(), order.size());
  EXPECT_EQ(veery_tensor_rank(y), 2U);
  EXPECT_EQ(veery_tensor_shape(y)[0], 3);
  EXPECT_EQ(veery_tensor_shape(y)[1], 2);
  EXPECT_EQ(veery_tensor_size(y), 6);
  EXPECT_EQ(veery_tensor_dtype(y), VEERY_DTYPE_F64);
  int64_t size = 0;
  EXPECT_EQ(veery_tensor_dim(y, -2, &size), VEERY_OK);
  EXPECT_EQ(size, 3);
  EXPECT_EQ(veery_tensor_is_evaluated(y), 0);
  const void* data = nullptr;
  expect_failure(veery_tensor_data(y, &data), VEERY_ERROR_INPUT, "not evaluated");
  EXPECT_EQ(veery_tensor_eval(y), VEERY_OK);
  EXPECT_EQ(veery_tensor_is_evaluated(y), 1);
  ASSERT_EQ(veery_tensor_data(y, &data), VEERY_OK);
  EXPECT_EQ(*static_cast<const double*>(data), 1);
  std::array<int64_t, 2> strides{};
  EXPECT_EQ(veery_tensor_byte_strides(y, strides.data()), VEERY_OK);
  EXPECT_EQ(strides, (std::array<int64_t, 2>{8, 24}));
  EXPECT_EQ(values(y), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  char* text = nullptr;
  size_t length = 0;
  EXPECT_EQ(veery_tensor_text(y, &text, &length), VEERY_OK);
  EXPECT_EQ(std::string(text, length), "f64 [3, 2] [[1, 4], [2, 5], [3, 6]]");
  veery_free(text);
  EXPECT_STREQ(veery_dtype_name(VEERY_DTYPE_BF16), "bf16");
  EXPECT_STREQ(veery_dtype_name(10), "unknown");
  EXPECT_EQ(veery_dtype_size(VEERY_DTYPE_BF16), 2U);
  EXPECT_EQ(veery_dtype_size(-1), 0U);
}

TEST(CApiTensor, WithoutDimensionsHasAShape) {
  const Handle x = made(veery_tensor_full, nullptr, size_t{0}, 2.5, VEERY_DTYPE_F32);
  EXPECT_EQ(veery_tensor_rank(x), 0U);
  EXPECT_NE(veery_tensor_shape(x), nullptr);
  double value = 0;
  EXPECT_EQ(veery_tensor_item(x, &value), VEERY_OK);
  EXPECT_EQ(value, 2.5);
}

TEST(CApiTensor, ComputesSeveralTogether) {
  const Handle x = numbers({1, 2, 3});
  const Handle y = made(veery_tensor_exp, x), z = made(veery_tensor_square, y);
  const std::array<veery_tensor*, 2> both = {y, z};
  EXPECT_EQ(veery_tensor_eval_all(both.data(), both.size()), VEERY_OK);
  EXPECT_EQ(veery_tensor_is_evaluated(y) + veery_tensor_is_evaluated(z), 2);
  EXPECT_EQ(veery_tensor_eval_all(nullptr, 0), VEERY_OK);
}

TEST(CApiTensor, NumbersTakeTheTypeOfTheTensorThatTheyMeet) {
  const int64_t shape = 2;
  const Handle integers = made(veery_tensor_ones, &shape, size_t{1}, VEERY_DTYPE_U8);
  const Handle halves = made(veery_tensor_ones, &shape, size_t{1}, VEERY_DTYPE_F16);
  const Handle bools = made(veery_tensor_ones, &shape, size_t{1}, VEERY_DTYPE_BOOL);
  const Handle half = made(veery_tensor_scalar, 0.5), two = made(veery_tensor_scalar_int, 2);
  const Handle yes = made(veery_tensor_scalar_bool, 1);
  const auto type = [](const Handle& a, const Handle& b) {
    return veery_tensor_dtype(made(veery_tensor_add, a, b));
  };
  EXPECT_EQ(type(integers, two), VEERY_DTYPE_U8);
  EXPECT_EQ(type(two, halves), VEERY_DTYPE_F16);
  EXPECT_EQ(type(half, halves), VEERY_DTYPE_F16);
  EXPECT_EQ(type(integers, half), VEERY_DTYPE_F32);
  EXPECT_EQ(type(bools, two), VEERY_DTYPE_I32);
  EXPECT_EQ(type(yes, integers), VEERY_DTYPE_U8);
  EXPECT_EQ(type(half, two), VEERY_DTYPE_F32);  // both are numbers
  EXPECT_EQ(veery_tensor_dtype(made(veery_tensor_scalar_int, INT64_MAX)), VEERY_DTYPE_I64);
  const Handle again = made(veery_tensor_retain, two);
  EXPECT_EQ(type(integers, again), VEERY_DTYPE_U8);
  EXPECT_EQ(veery_tensor_dtype(made(veery_tensor_where, bools, halves, half)), VEERY_DTYPE_F16);
  const Handle clipped = made(veery_tensor_clip, integers, two, nullptr);
  EXPECT_EQ(veery_tensor_dtype(clipped), VEERY_DTYPE_U8);
  EXPECT_EQ(values(clipped), (std::vector<double>{2, 2}));
  Handle none;
  expect_failure(veery_tensor_clip(integers, integers, nullptr, none.out()), VEERY_ERROR_INPUT,
                 "low is a tensor");
  const Handle large = made(veery_tensor_scalar_int, 300);
  expect_failure(veery_tensor_add(integers, large, none.out()), VEERY_ERROR_INPUT,
                 "300 is no number of type u8");
}

TEST(CApiTensor, BorrowedMemoryIsReleasedOnce) {
  std::vector<float> memory = {1, 2, 3, 4};
  int released = 0;
  const auto release = [](void* user) { ++*static_cast<int*>(user); };
  const int64_t shape = 4;
  {
    Handle x;
    ASSERT_EQ(
        veery_tensor_borrow(memory.data(), &shape, 1, VEERY_DTYPE_F32, release, &released, x.out()),
        VEERY_OK);
    const void* data = nullptr;
    ASSERT_EQ(veery_tensor_data(x, &data), VEERY_OK);
    EXPECT_EQ(data, memory.data());
    const Handle y = made(veery_tensor_square, x);
    veery_tensor_free(*x.out());
    *x.out() = nullptr;
    EXPECT_EQ(released, 0);  // y needs it
    EXPECT_EQ(values(y), (std::vector<double>{1, 4, 9, 16}));
    EXPECT_EQ(released, 1);
  }
  EXPECT_EQ(released, 1);
  Handle none;
  expect_failure(veery_tensor_borrow(memory.data(), &shape, 1, 99, release, &released, none.out()),
                 VEERY_ERROR_INPUT, "dtype is 99");
  expect_failure(veery_tensor_borrow(reinterpret_cast<char*>(memory.data()) + 1, &shape, 1,
                                     VEERY_DTYPE_F32, release, &released, none.out()),
                 VEERY_ERROR_INPUT, "multiple of 4 bytes");
  EXPECT_EQ(released, 1);
}

TEST(CApiTensor, FreedHandlesAreRefused) {
  const size_t before = veery_tensor_handle_count();
  const Handle x = numbers({1, 2});
  veery_tensor* second = nullptr;
  ASSERT_EQ(veery_tensor_retain(x, &second), VEERY_OK);
  EXPECT_EQ(veery_tensor_handle_count(), before + 2);
  veery_tensor_free(second);
  veery_tensor_free(second);
  EXPECT_EQ(veery_tensor_handle_count(), before + 1);
  veery_tensor* out = nullptr;
  expect_failure(veery_tensor_add(x, second, &out), VEERY_ERROR_INPUT,
                 "b is no tensor: it was fre");
  EXPECT_EQ(out, nullptr);
  int other = 0;
  expect_failure(veery_tensor_exp(reinterpret_cast<veery_tensor*>(&other), &out), VEERY_ERROR_INPUT,
                 "x is no tensor");
  EXPECT_EQ(veery_tensor_rank(second), 0U);
  EXPECT_EQ(veery_tensor_shape(second), nullptr);
  EXPECT_EQ(veery_tensor_dtype(second), -1);
  EXPECT_EQ(veery_tensor_size(nullptr), 0);
  EXPECT_EQ(veery_tensor_is_evaluated(second), 0);
  veery_tensor_free(nullptr);
  EXPECT_EQ(values(x), (std::vector<double>{1, 2}));
}

TEST(CApiTensor, CreationReturnsAllMemory) {
  veery_tensor_memory before{}, after{};
  before.size = after.size = sizeof before;
  ASSERT_EQ(veery_tensor_get_memory(&before), VEERY_OK);
  const size_t handles = veery_tensor_handle_count();
  for (int i = 0; i < 1000; ++i) {
    const Handle x = numbers({1, 2, 3, 4}, {2, 2});
    const Handle y = made(veery_tensor_matmul, x, x);
    EXPECT_EQ(veery_tensor_eval(y), VEERY_OK);
  }
  ASSERT_EQ(veery_tensor_get_memory(&after), VEERY_OK);
  EXPECT_EQ(after.active, before.active);
  EXPECT_GT(after.peak, before.active);
  EXPECT_EQ(veery_tensor_handle_count(), handles);
  EXPECT_EQ(veery_tensor_clear_cache(), VEERY_OK);
  ASSERT_EQ(veery_tensor_get_memory(&after), VEERY_OK);
  EXPECT_EQ(after.cached, 0U);
}

TEST(CApiTensor, ALimitOfMemoryIsAnErrorAfterWhichCallsGoOn) {
  const int64_t shape = 1 << 20;
  const Handle zero = made(veery_tensor_zeros, &shape, size_t{1}, VEERY_DTYPE_F32);
  const Handle x = made(veery_tensor_exp, zero);
  ASSERT_EQ(veery_tensor_set_memory_limit(1 << 16), VEERY_OK);
  EXPECT_EQ(veery_tensor_eval(x), VEERY_ERROR_LIMIT) << veery_last_message();
  ASSERT_EQ(veery_tensor_set_memory_limit(UINT64_MAX), VEERY_OK);
  EXPECT_EQ(veery_tensor_eval(x), VEERY_OK) << veery_last_message();
  EXPECT_EQ(veery_tensor_reset_peak_memory(), VEERY_OK);
  expect_failure(veery_tensor_set_threads(1), VEERY_ERROR_INPUT, "evaluated already");
}

TEST(CApiTensor, ArgumentsThatDoNotFitAreRefused) {
  const Handle x = numbers({1, 2, 3, 4}, {2, 2});
  const std::array<int64_t, 9> nine = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::array<int64_t, 2> negative = {-1, 2}, huge = {INT64_MAX, INT64_MAX};
  const std::array<int32_t, 9> axes{};
  veery_tensor* out = x;  // an error sets it to null
  const auto refused = [&out](veery_status status, const char* part) {
    expect_failure(status, VEERY_ERROR_INPUT, part);
    EXPECT_EQ(std::exchange(out, reinterpret_cast<veery_tensor*>(8)), nullptr);
  };
  refused(veery_tensor_zeros(nine.data(), 9, VEERY_DTYPE_F32, &out), "shape: found 9, expected at");
  refused(veery_tensor_zeros(nine.data(), SIZE_MAX, VEERY_DTYPE_F32, &out), "expected at most 8");
  refused(veery_tensor_zeros(nullptr, 2, VEERY_DTYPE_F32, &out), "shape is null");
  refused(veery_tensor_zeros(negative.data(), 2, VEERY_DTYPE_F32, &out), "invalid shape [-1, 2]");
  refused(veery_tensor_zeros(huge.data(), 2, VEERY_DTYPE_F32, &out), "invalid shape");
  refused(veery_tensor_zeros(nine.data(), 1, 10, &out), "dtype is 10, expected a veery_dtype");
  refused(veery_tensor_zeros(nine.data(), 1, -1, &out), "dtype is -1");
  refused(veery_tensor_copy(nullptr, nine.data(), 1, VEERY_DTYPE_F32, &out), "data is null");
  refused(veery_tensor_sum(x, axes.data(), 9, 0, &out), "axes: found 9");
  refused(veery_tensor_sum(x, axes.data(), 2, 0, &out), "an axis occurs twice");
  refused(veery_tensor_sum(nullptr, nullptr, 0, 0, &out), "x is null");
  refused(veery_tensor_concatenate(nullptr, 3, 0, &out), "parts is null");
  refused(veery_tensor_concatenate(nullptr, 0, 0, &out), "there are no tensors");
  refused(veery_tensor_stack(&out, SIZE_MAX, 0, &out), "parts: 18446744073709551615 tensors");
  refused(veery_tensor_matmul(x, nullptr, &out), "b is null");
  refused(veery_tensor_slice(x, nullptr, 1, &out), "slices is null");
  refused(veery_tensor_reshape(x, huge.data(), 2, &out), "invalid shape");
  expect_failure(veery_tensor_exp(x, nullptr), VEERY_ERROR_INPUT, "out is null");
  expect_failure(veery_tensor_copy_to(x, &out, 31), VEERY_ERROR_INPUT, "bytes is 31, expected 32");
  expect_failure(veery_tensor_copy_to(x, nullptr, 32), VEERY_ERROR_INPUT, "to is null");
  expect_failure(veery_tensor_item(x, nullptr), VEERY_ERROR_INPUT, "value is null");
  double value = 3;
  expect_failure(veery_tensor_item(x, &value), VEERY_ERROR_INPUT, "expected one element");
  EXPECT_EQ(value, 0);
  veery_tensor_memory memory{};
  expect_failure(veery_tensor_get_memory(&memory), VEERY_ERROR_INPUT, "its size is 0");
}

TEST(CApiTensor, SplitFillsAnArray) {
  const Handle x = numbers({1, 2, 3, 4, 5, 6});
  std::array<veery_tensor*, 3> parts{};
  ASSERT_EQ(veery_tensor_split(x, 3, 0, parts.data()), VEERY_OK);
  const Handle a(parts[0]), b(parts[1]), c(parts[2]);
  EXPECT_EQ(values(c), (std::vector<double>{5, 6}));
  std::array<veery_tensor*, 4> four = {x, x, x, x};
  expect_failure(veery_tensor_split(x, 4, 0, four.data()), VEERY_ERROR_INPUT, "split: 6 elements");
  EXPECT_EQ(four, (std::array<veery_tensor*, 4>{}));
  expect_failure(veery_tensor_split(x, SIZE_MAX, 0, four.data()), VEERY_ERROR_INPUT, "part_count");
  expect_failure(veery_tensor_split(x, 0, 0, nullptr), VEERY_ERROR_INPUT, "in 0 parts");
}

TEST(CApiTensor, IndicesOutsideOfAnAxisAreFoundByEvaluation) {
  const Handle x = numbers({1, 2, 3});
  const int64_t index = 3;
  Handle indices;
  ASSERT_EQ(veery_tensor_copy(&index, nullptr, 0, VEERY_DTYPE_I64, indices.out()), VEERY_OK);
  const Handle y = made(veery_tensor_take, x, indices, 0);
  expect_failure(veery_tensor_eval(y), VEERY_ERROR_INPUT, "take: index 3 of an axis with 3");
}

// ---- derivatives ----

/// exp(a) b
veery_status product(void* user, veery_tensor* const* inputs, size_t, veery_tensor** outputs,
                     size_t) {
  if (user != nullptr) ++*static_cast<int*>(user);
  const Handle power = made(veery_tensor_exp, inputs[0]);
  return veery_tensor_multiply(power, inputs[1], &outputs[0]);
}

class CApiTensorDerivatives : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(veery_tensor_handle_count(), handles_ + 2);  // a_ and b_
  }
  size_t handles_ = veery_tensor_handle_count();
  Handle a_ = numbers({0, 1, 2}), b_ = numbers({3, 4, 5});
  std::array<veery_tensor*, 2> inputs_ = {a_, b_};
};

TEST_F(CApiTensorDerivatives, OfProducts) {
  const Handle t = numbers({1, 10, 100});
  veery_tensor *cotangent = t, *output = nullptr;
  std::array<veery_tensor*, 2> gradients{};
  ASSERT_EQ(veery_tensor_vjp(product, nullptr, inputs_.data(), 2, &cotangent, 1, &output,
                             gradients.data()),
            VEERY_OK)
      << veery_last_message();
  const Handle y(output), da(gradients[0]), db(gradients[1]);
  EXPECT_EQ(values(y), (std::vector<double>{3, 4 * std::exp(1), 5 * std::exp(2)}));
  EXPECT_EQ(values(db), (std::vector<double>{1, 10 * std::exp(1), 100 * std::exp(2)}));
  EXPECT_NEAR(values(da)[2], 500 * std::exp(2), 1e-9);
  const std::array<veery_tensor*, 2> tangents = {t, b_};
  veery_tensor* moved = nullptr;
  ASSERT_EQ(
      veery_tensor_jvp(product, nullptr, inputs_.data(), 2, tangents.data(), 1, nullptr, &moved),
      VEERY_OK)
      << veery_last_message();
  const Handle dy(moved);
  EXPECT_NEAR(values(dy)[1], std::exp(1) * (4 * 10 + 4), 1e-9);
}

veery_status loss(void* user, veery_tensor* const* inputs, size_t count, veery_tensor** outputs,
                  size_t) {
  Handle y;
  const veery_status status = product(user, inputs, count, y.out(), 1);
  return status == VEERY_OK ? veery_tensor_sum(y, nullptr, 0, 0, &outputs[0]) : status;
}

TEST_F(CApiTensorDerivatives, OfFunctionsWithOneElement) {
  veery_tensor *value = nullptr, *gradient = nullptr;
  ASSERT_EQ(
      veery_tensor_value_and_grad(loss, nullptr, inputs_.data(), 2, nullptr, 0, &value, &gradient),
      VEERY_OK)
      << veery_last_message();
  const Handle y(value), da(gradient);
  EXPECT_NEAR(values(y)[0], 3 + 4 * std::exp(1) + 5 * std::exp(2), 1e-9);
  EXPECT_NEAR(values(da)[1], 4 * std::exp(1), 1e-12);
  const std::array<int32_t, 2> argnums = {1, 0};
  std::array<veery_tensor*, 2> gradients{};
  ASSERT_EQ(
      veery_tensor_grad(loss, nullptr, inputs_.data(), 2, argnums.data(), 2, gradients.data()),
      VEERY_OK);
  const Handle first(gradients[0]), second(gradients[1]);
  EXPECT_NEAR(values(first)[1], std::exp(1), 1e-12);
  EXPECT_EQ(values(second), values(da));
  const int32_t third = 2;
  expect_failure(veery_tensor_grad(loss, nullptr, inputs_.data(), 2, &third, 1, gradients.data()),
                 VEERY_ERROR_INPUT, "argument 2 of 2");
  EXPECT_EQ(gradients[0], nullptr);
  expect_failure(veery_tensor_grad(product, nullptr, inputs_.data(), 2, nullptr, 0, &gradient),
                 VEERY_ERROR_INPUT, "expected one element");
}

/// The gradient of loss() with respect to its first input.
veery_status slope(void*, veery_tensor* const* inputs, size_t count, veery_tensor** outputs,
                   size_t) {
  return veery_tensor_grad(loss, nullptr, inputs, count, nullptr, 0, outputs);
}

TEST_F(CApiTensorDerivatives, OfDerivatives) {
  const Handle t = numbers({1, 1, 1});
  veery_tensor* cotangent = t;
  std::array<veery_tensor*, 2> gradients{};
  ASSERT_EQ(
      veery_tensor_vjp(slope, nullptr, inputs_.data(), 2, &cotangent, 1, nullptr, gradients.data()),
      VEERY_OK)
      << veery_last_message();
  const Handle da(gradients[0]), db(gradients[1]);
  EXPECT_NEAR(values(da)[2], 5 * std::exp(2), 1e-12);
  EXPECT_NEAR(values(db)[2], std::exp(2), 1e-12);
}

struct Checkpointed {
  int calls = 0, releases = 0;
};
veery_status checkpointed_loss(void* user, veery_tensor* const* inputs, size_t count,
                               veery_tensor** outputs, size_t) {
  Handle y;
  const veery_status status = veery_tensor_checkpoint(
      product, &static_cast<Checkpointed*>(user)->calls, inputs, count,
      [](void* of) {
        // `calls` is the first member.
        ++static_cast<Checkpointed*>(of)->releases;
      },
      1, y.out());
  return status == VEERY_OK ? veery_tensor_sum(y, nullptr, 0, 0, &outputs[0]) : status;
}

TEST_F(CApiTensorDerivatives, OfACheckpointCallItAgain) {
  Checkpointed state;
  {
    veery_tensor *value = nullptr, *gradient = nullptr;
    ASSERT_EQ(veery_tensor_value_and_grad(checkpointed_loss, &state, inputs_.data(), 2, nullptr, 0,
                                          &value, &gradient),
              VEERY_OK)
        << veery_last_message();
    const Handle y(value), da(gradient);
    EXPECT_EQ(state.calls, 2);
    EXPECT_NEAR(values(da)[1], 4 * std::exp(1), 1e-12);
  }
  EXPECT_EQ(state.releases, 1);
  veery_tensor* none = nullptr;
  expect_failure(veery_tensor_checkpoint(
                     product, &state, nullptr, 2,
                     [](void* of) { ++static_cast<Checkpointed*>(of)->releases; }, 1, &none),
                 VEERY_ERROR_INPUT, "inputs is null");
  EXPECT_EQ(state.releases, 2);
}

veery_status stopped(void*, veery_tensor* const* inputs, size_t, veery_tensor** outputs, size_t) {
  const Handle constant = made(veery_tensor_stop_gradient, inputs[0]);
  const Handle y = made(veery_tensor_multiply, constant, inputs[0]);
  return veery_tensor_sum(y, nullptr, 0, 0, &outputs[0]);
}

TEST_F(CApiTensorDerivatives, DoNotPassConstants) {
  veery_tensor* gradient = nullptr;
  ASSERT_EQ(veery_tensor_grad(stopped, nullptr, inputs_.data(), 1, nullptr, 0, &gradient),
            VEERY_OK);
  const Handle da(gradient);
  EXPECT_EQ(values(da), (std::vector<double>{0, 1, 2}));
}

veery_status call_grad(veery_tensor_function function, veery_tensor* const* inputs) {
  veery_tensor* gradient = nullptr;
  const veery_status status =
      veery_tensor_grad(function, nullptr, inputs, 1, nullptr, 0, &gradient);
  EXPECT_EQ(gradient, nullptr);
  return status;
}

using Inputs = veery_tensor* const*;

TEST_F(CApiTensorDerivatives, AFunctionThatFailsFailsTheCall) {
  const veery_tensor_function with_message = [](void*, Inputs, size_t, veery_tensor** outputs,
                                                size_t) {
    outputs[0] = made(veery_tensor_scalar, 1.0).out()[0];  // freed already
    return veery_tensor_fail(VEERY_ERROR_IO, "the data has ended");
  };
  expect_failure(call_grad(with_message, inputs_.data()), VEERY_ERROR_IO, "the data has ended");
  const veery_tensor_function of_a_call = [](void*, Inputs inputs, size_t, veery_tensor** outputs,
                                             size_t) {
    return veery_tensor_softmax(inputs[0], 5, &outputs[0]);
  };
  expect_failure(call_grad(of_a_call, inputs_.data()), VEERY_ERROR_INPUT, "softmax: axis 5");
  const veery_tensor_function without = [](void*, Inputs, size_t, veery_tensor**, size_t) {
    return VEERY_ERROR_FORMAT;
  };
  expect_failure(call_grad(without, inputs_.data()), VEERY_ERROR_FORMAT,
                 "the function returned 2 (format) and no message");
  const veery_tensor_function no_status = [](void*, Inputs, size_t, veery_tensor**, size_t) {
    return VEERY_END;
  };
  expect_failure(call_grad(no_status, inputs_.data()), VEERY_ERROR_INPUT, "returned 10 (end)");
  const veery_tensor_function nothing = [](void*, Inputs, size_t, veery_tensor**, size_t) {
    return VEERY_OK;
  };
  expect_failure(call_grad(nothing, inputs_.data()), VEERY_ERROR_INPUT, "outputs[0] is null");
  expect_failure(call_grad(nullptr, inputs_.data()), VEERY_ERROR_INPUT, "function is null");
  EXPECT_EQ(veery_tensor_fail(VEERY_OK, nullptr), VEERY_ERROR_INPUT);
  EXPECT_STREQ(veery_last_message(), "");
}

TEST_F(CApiTensorDerivatives, HandlesOfAFunctionAreFreedOnce) {
  // An input as an output.
  const veery_tensor_function identity = [](void*, Inputs inputs, size_t, veery_tensor** outputs,
                                            size_t) {
    outputs[0] = inputs[0];
    return VEERY_OK;
  };
  const Handle one = numbers({7}, {});
  const std::array<veery_tensor*, 1> input = {one};
  veery_tensor* gradient = nullptr;
  ASSERT_EQ(veery_tensor_grad(identity, nullptr, input.data(), 1, nullptr, 0, &gradient), VEERY_OK);
  const Handle slope_of_one(gradient);
  EXPECT_EQ(values(slope_of_one), (std::vector<double>{1}));
  // An output twice.
  const veery_tensor_function twice = [](void*, Inputs inputs, size_t, veery_tensor** outputs,
                                         size_t) {
    outputs[1] = nullptr;
    const veery_status status = veery_tensor_exp(inputs[0], &outputs[0]);
    outputs[1] = outputs[0];
    return status;
  };
  const std::array<veery_tensor*, 2> cotangents = {b_, b_};
  ASSERT_EQ(
      veery_tensor_vjp(twice, nullptr, inputs_.data(), 1, cotangents.data(), 2, nullptr, &gradient),
      VEERY_OK)
      << veery_last_message();
  const Handle both(gradient);
  EXPECT_NEAR(values(both)[1], 8 * std::exp(1), 1e-12);
  // An input that is freed.
  const veery_tensor_function frees = [](void*, Inputs inputs, size_t, veery_tensor** outputs,
                                         size_t) {
    const veery_status status = veery_tensor_sum(inputs[0], nullptr, 0, 0, &outputs[0]);
    veery_tensor_free(inputs[0]);
    return status;
  };
  expect_failure(call_grad(frees, inputs_.data()), VEERY_ERROR_INPUT, "freed inputs[0]");
  EXPECT_EQ(values(a_), (std::vector<double>{0, 1, 2}));
}

TEST(CApiTensor, EvaluatedTensorsAreSharedByThreads) {
  const Handle x = numbers(std::vector<double>(1000, 1.5));
  ASSERT_EQ(veery_tensor_eval(x), VEERY_OK);
  std::array<double, 4> sums{};
  std::vector<std::thread> threads;
  for (double& sum : sums)
    threads.emplace_back([&x, &sum] {
      for (int i = 0; i < 50; ++i) {
        const Handle y = made(veery_tensor_square, x);
        const Handle total = made(veery_tensor_sum, y, nullptr, size_t{0}, 0);
        EXPECT_EQ(veery_tensor_item(total, &sum), VEERY_OK) << veery_last_message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, 2250);
}

TEST(CApiTensor, AProcessThatWasForkedCannotEvaluate) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers do not follow forks";
  const Handle x = numbers({1, 2});
  const Handle first = made(veery_tensor_exp, x);
  ASSERT_EQ(veery_tensor_eval(first), VEERY_OK);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const Handle y = made(veery_tensor_sin, x);
    const bool is_refused =
        veery_tensor_eval(y) == VEERY_ERROR_UNSUPPORTED &&
        std::string(veery_last_message()).find("was forked") != std::string::npos;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(values(first)[0], std::exp(1));
}

}  // namespace
}  // namespace veery
