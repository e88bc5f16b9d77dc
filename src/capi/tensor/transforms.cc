// Derivatives of functions that callers write in C.
#include <algorithm>
#include <memory>

#include "capi/tensor/handle.h"

using namespace veery;
using namespace veery::capi;

namespace {

using tensor::Tensor;
using Tensors = std::vector<Tensor>;

/// Handles that are freed with it, each once.
class Handles {
 public:
  explicit Handles(std::span<const Tensor> tensors) : handles_(tensors.size()) {
    give_all(tensors, handles_.data());
  }
  explicit Handles(size_t count) : handles_(count) {}
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    std::sort(handles_.begin(), handles_.end());
    handles_.erase(std::unique(handles_.begin(), handles_.end()), handles_.end());
    for (veery_tensor* handle : handles_) release_handle(handle);
  }
  std::vector<veery_tensor*>& list() { return handles_; }
  /// Leaves handles of `others` to their owner.
  void disown(const Handles& others) {
    for (veery_tensor*& handle : handles_)
      if (std::find(others.handles_.begin(), others.handles_.end(), handle) !=
          others.handles_.end())
        handle = nullptr;
  }

 private:
  std::vector<veery_tensor*> handles_;
};

/// A function of the caller, and what it is called with.
struct Callback {
  veery_tensor_function function;
  void* user;
  size_t output_count;

  Tensors operator()(std::span<const Tensor> in) const;
};

Tensors Callback::operator()(std::span<const Tensor> in) const {
  Handles inputs(in), outputs(output_count);
  // The callback gets copies of the lists, so that it cannot change which handles are freed.
  const std::vector<veery_tensor*> given = inputs.list();
  const uint64_t failures = failure_count();
  const veery_status status =
      function(user, given.data(), given.size(), outputs.list().data(), output_count);
  Tensors result;
  try {
    if (status != VEERY_OK)
      throw CallbackFailure(status,
                            failures == failure_count()
                                ? fmt::format("the function returned {} ({}) and no "
                                              "message",
                                              static_cast<int>(status), veery_status_name(status))
                                : veery_last_message());
    for (size_t i = 0; i < given.size(); ++i)
      if (!is_handle(given[i]))
        throw Error(ErrorKind::kInput, "the function freed inputs[{}], which it does not own", i);
    result = tensors_of(outputs.list().data(), output_count, "the function's outputs");
  } catch (...) {
    outputs.disown(inputs);
    throw;
  }
  outputs.disown(inputs);
  return result;
}

Callback callback_of(veery_tensor_function function, void* user, size_t output_count) {
  if (function == nullptr) throw Error(ErrorKind::kInput, "function is null");
  if (output_count > kMostTensors)
    throw Error(ErrorKind::kInput, "output_count is {}, expected at most {}", output_count,
                kMostTensors);
  return {function, user, output_count};
}

/// A list of results in memory of the caller, null until give() is called.
class Results {
 public:
  Results(veery_tensor** out, size_t count, const char* name, bool is_optional = false)
      : out_(out) {
    if (count > kMostTensors)
      throw Error(ErrorKind::kInput, "{}: {} tensors, expected at most {}", name, count,
                  kMostTensors);
    if (count > 0 && !is_optional) required(out, name);
    if (out != nullptr) std::fill_n(out, count, nullptr);
  }
  void give(std::span<const Tensor> tensors) {
    if (out_ != nullptr) give_all(tensors, out_);
    given_ = tensors.size();
  }
  /// Takes the results back.
  void take() {
    for (size_t i = 0; out_ != nullptr && i < given_; ++i)
      release_handle(std::exchange(out_[i], nullptr));
  }

 private:
  veery_tensor** out_;
  size_t given_ = 0;
};

void give_both(Results& first, std::span<const Tensor> a, Results& second,
               std::span<const Tensor> b) {
  first.give(a);
  try {
    second.give(b);
  } catch (...) {
    first.take();
    throw;
  }
}

tensor::ValueAndGrad value_and_grad(const Callback& callback, std::span<const Tensor> inputs,
                                    const int32_t* argnums, size_t count) {
  if (count > kMostTensors)
    throw Error(ErrorKind::kInput, "argnum_count is {}, expected at most {}", count, kMostTensors);
  if (count > 0) required(argnums, "argnums");
  const std::vector<int> chosen =
      count > 0 ? std::vector<int>(argnums, argnums + count) : std::vector<int>{0};
  const auto one = [&callback](std::span<const Tensor> in) { return callback(in).front(); };
  return tensor::value_and_grad(one, chosen)(inputs);
}

}  // namespace

veery_status veery_tensor_fail(veery_status status, const char* message) {
  return fail_with(status, message != nullptr ? message : "");
}

veery_status veery_tensor_vjp(veery_tensor_function function, void* user,
                              veery_tensor* const* inputs, size_t input_count,
                              veery_tensor* const* cotangents, size_t output_count,
                              veery_tensor** outputs, veery_tensor** gradients) {
  return guarded([&] {
    const Callback callback = callback_of(function, user, output_count);
    Results values(outputs, output_count, "outputs", true);
    Results products(gradients, input_count, "gradients");
    const auto made = tensor::vjp(callback, tensors_of(inputs, input_count, "inputs"),
                                  tensors_of(cotangents, output_count, "cotangents"));
    give_both(values, made.first, products, made.second);
    return VEERY_OK;
  });
}

veery_status veery_tensor_jvp(veery_tensor_function function, void* user,
                              veery_tensor* const* inputs, size_t input_count,
                              veery_tensor* const* tangents, size_t output_count,
                              veery_tensor** outputs, veery_tensor** output_tangents) {
  return guarded([&] {
    const Callback callback = callback_of(function, user, output_count);
    Results values(outputs, output_count, "outputs", true);
    Results products(output_tangents, output_count, "output_tangents");
    const auto made = tensor::jvp(callback, tensors_of(inputs, input_count, "inputs"),
                                  tensors_of(tangents, input_count, "tangents"));
    give_both(values, made.first, products, made.second);
    return VEERY_OK;
  });
}

veery_status veery_tensor_value_and_grad(veery_tensor_function function, void* user,
                                         veery_tensor* const* inputs, size_t input_count,
                                         const int32_t* argnums, size_t argnum_count,
                                         veery_tensor** value, veery_tensor** gradients) {
  return guarded([&] {
    Results values(value, 1, "value");
    Results products(gradients, std::max<size_t>(argnum_count, 1), "gradients");
    const auto made =
        value_and_grad(callback_of(function, user, 1), tensors_of(inputs, input_count, "inputs"),
                       argnums, argnum_count);
    give_both(values, {&made.value, 1}, products, made.gradients);
    return VEERY_OK;
  });
}

veery_status veery_tensor_grad(veery_tensor_function function, void* user,
                               veery_tensor* const* inputs, size_t input_count,
                               const int32_t* argnums, size_t argnum_count,
                               veery_tensor** gradients) {
  return guarded([&] {
    Results products(gradients, std::max<size_t>(argnum_count, 1), "gradients");
    products.give(value_and_grad(callback_of(function, user, 1),
                                 tensors_of(inputs, input_count, "inputs"), argnums, argnum_count)
                      .gradients);
    return VEERY_OK;
  });
}

veery_status veery_tensor_checkpoint(veery_tensor_function function, void* user,
                                     veery_tensor* const* inputs, size_t input_count,
                                     veery_tensor_release release, size_t output_count,
                                     veery_tensor** outputs) {
  // The last copy of the callback calls `release`.
  return guarded([&] {
    const std::shared_ptr<void> owner(user, [release](void* of) {
      if (release != nullptr) release(of);
    });
    Results values(outputs, output_count, "outputs");
    const Callback callback = callback_of(function, user, output_count);
    const auto owning = [callback, owner](std::span<const Tensor> in) { return callback(in); };
    values.give(tensor::checkpoint(owning)(tensors_of(inputs, input_count, "inputs")));
    return VEERY_OK;
  });
}
