// Devices by way of the C interface: what is asked of them, and their memory (on a driver in the
// host's memory).
#include <gtest/gtest.h>
#include <veery/veery.h>

#include <veery/veery.hpp>

#include "capi/handles.h"
#include "kernels/cuda/machine.h"
#include "kernels/gpu/gpu.h"
#include "support/cuda/fake_cuda.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

void expect_input(veery_load_options options, const std::string& part) {
  const test::TinyModel file;
  veery_model* model = nullptr;
  EXPECT_EQ(veery_model_load(file.path().c_str(), &options, &model), VEERY_ERROR_INPUT);
  EXPECT_EQ(model, nullptr);
  EXPECT_NE(std::string(veery_last_message()).find(part), std::string::npos)
      << veery_last_message();
}

TEST(CApiDevice, WhatTheCpuLacksIsRefusedByName) {
  veery_load_options options = c::load_options();
  EXPECT_EQ(options.gpu_layers, -1);
  options.gpu_layers = -2;
  expect_input(options, "gpu_layers is -2");
  options.gpu_layers = 3;
  expect_input(options, "gpu_layers is set and device is 'cpu'");
  options = c::load_options();
  options.relaxed = 1;
  expect_input(options, "relaxed is set and device is 'cpu'");
  options.device = "cuda";
  options.exact = 1;
  expect_input(options, "found exact and relaxed");
  options = c::load_options();
  options.device_bytes = 1;
  expect_input(options, "device_bytes is set and device is 'cpu'");
}

TEST(CApiDevice, TheCpuHasNoMemoryOfItsOwn) {
  const test::TinyModel file;
  veery_load_options options = c::load_options();
  options.threads = 1;
  options.gpu_layers = 0;  // what they are of does not matter
  const c::Model model(file.path(), &options);
  veery_device_memory memory{sizeof memory, 1, 1, 1, 1};
  ASSERT_EQ(veery_model_get_device_memory(model.get(), &memory), VEERY_OK);
  EXPECT_EQ(memory.active + memory.peak + memory.cached + memory.available, 0U);
  EXPECT_EQ(veery_model_limit_device_memory(model.get(), 1, 1), VEERY_ERROR_UNSUPPORTED);
  EXPECT_EQ(veery_model_clear_device_cache(model.get()), VEERY_OK);
}

class OnFakeGpu : public ::testing::Test {
 protected:
  OnFakeGpu() {
    LoadOptions options{.threads = 1};
    options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0))};
    model_.loaded = std::make_shared<capi::LoadedModel>(file_.path(), std::nullopt, options,
                                                        SchedulerOptions{.slots = 1});
  }
  veery_device_memory memory() const {
    veery_device_memory result{sizeof result, 0, 0, 0, 0};
    EXPECT_EQ(veery_model_get_device_memory(&model_, &result), VEERY_OK);
    return result;
  }
  veery_status answer() {
    const int32_t ids[] = {3, 4, 5};
    veery_answer* answer = nullptr;
    veery_generate_options options;
    EXPECT_EQ(veery_generate_options_init(&options, sizeof options, &model_), VEERY_OK);
    options.max_tokens = 2;
    veery_status status = veery_start(&model_, ids, 3, &options, &answer);
    if (status == VEERY_OK) status = veery_answer_wait(answer, nullptr, nullptr);
    veery_answer_free(answer);
    return status;
  }

  test::TinyModel file_;
  veery_model model_;
};

TEST_F(OnFakeGpu, MemoryIsCountedLimitedAndGivenBack) {
  const veery_device_memory loaded = memory();
  EXPECT_GT(loaded.active, 1000U);
  EXPECT_EQ(loaded.active, cuda::fake_state().used);
  EXPECT_EQ(loaded.cached, 0U);

  ASSERT_EQ(veery_model_limit_device_memory(&model_, loaded.active, 0), VEERY_OK);
  EXPECT_EQ(memory().available, 0U);
  EXPECT_EQ(answer(), VEERY_ERROR_LIMIT) << veery_last_message();

  ASSERT_EQ(veery_model_limit_device_memory(&model_, UINT64_MAX, UINT64_MAX), VEERY_OK);
  EXPECT_EQ(answer(), VEERY_OK) << veery_last_message();
  EXPECT_GT(memory().active, loaded.active) << "caches and plans";
  EXPECT_GE(memory().peak, memory().active);

  ASSERT_EQ(veery_model_clear_device_cache(&model_), VEERY_OK);
  EXPECT_EQ(memory().cached, 0U);
  EXPECT_EQ(memory().peak, memory().active);
  EXPECT_EQ(memory().active, cuda::fake_state().used);
}

}  // namespace
}  // namespace veery
