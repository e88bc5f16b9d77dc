// Tensors on a GPU, which an emulator runs: results have the bits of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cuda/machine.h"
#include "support/cuda/fake_cublas_lt.h"
#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"
#include "tensor/devices.h"
#include "tensor/reference.h"
#include "veery/tensor_transforms.hpp"

namespace veery::tensor {
namespace {

using test::numbers;

Device emulator() {
  static DeviceState& state = add_device("emulator", gpu::make_backend(gpu::make_emulator()));
  return handle_of(state);
}
// Multiplies bf16 by a library.
Device relaxed_emulator() {
  static DeviceState& state =
      add_device("relaxed emulator", gpu::make_backend(gpu::make_relaxed_emulator()));
  return handle_of(state);
}

std::vector<uint8_t> bits(const Tensor& x) {
  std::vector<uint8_t> result(static_cast<size_t>(x.size()) * byte_size(x.dtype()));
  x.copy_to(result.data());
  return result;
}

using Args = std::vector<Tensor>;
using Fn = std::function<Tensor(const Args&)>;

// Checks that a function has the same bits on the GPU as on the CPU.
void expect_same(const Fn& fn, const Args& arguments, const std::string& what) {
  Args there;
  for (const Tensor& x : arguments) there.push_back(to_device(x, emulator()));
  const Tensor cpu = fn(arguments), gpu = fn(there);
  EXPECT_EQ(gpu.device(), emulator()) << what;
  EXPECT_EQ(gpu.shape(), cpu.shape()) << what;
  EXPECT_EQ(gpu.dtype(), cpu.dtype()) << what;
  const std::vector<uint8_t> x = bits(cpu), y = bits(gpu);
  ASSERT_EQ(x.size(), y.size()) << what;
  size_t differing = 0;
  for (size_t i = 0; i < x.size(); ++i) differing += x[i] != y[i] ? 1 : 0;
  EXPECT_EQ(differing, 0U) << what << ": of " << x.size() << " bytes";
}

const std::vector<Dtype> kFloats = {Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64};
const std::vector<Dtype> kIntegers = {Dtype::kU8, Dtype::kI8, Dtype::kI32, Dtype::kU32,
                                      Dtype::kI64};
std::vector<Dtype> all_types() {
  std::vector<Dtype> types = kFloats;
  types.insert(types.end(), kIntegers.begin(), kIntegers.end());
  return types;
}

// Numbers with the special ones of floats among them, but NaN, whose bits differ between machines.
Tensor with_infinities(const Shape& shape, Dtype type, uint64_t seed) {
  const Tensor x = numbers(shape, type, seed, -100, 100);
  if (type == Dtype::kBool || promote(type, Dtype::kF16) != type) return x;
  const Tensor zero = zeros(shape, type);
  const Tensor with_zeros = where(less(abs(x), 10), zero, x);
  return where(greater(x, 90), std::numeric_limits<double>::infinity(), with_zeros);
}

TEST(TensorDevice, MovesBatches) {
  const Tensor x = numbers({3, 4}, Dtype::kF32, 90);
  const Function there = [](std::span<const Tensor> in) {
    return std::vector{to_device(in[0] * 2, emulator()) + 1};
  };
  const Tensor y = vmap(there, {1})(std::array{x})[0];
  EXPECT_EQ(y.device(), emulator());
  EXPECT_EQ(bits(y), bits(transpose(x) * 2 + 1));
  const ScalarFunction total = [&](std::span<const Tensor> in) {
    return sum(square(to_device(vmap(there)(in)[0], Device())));
  };
  const Tensor gradient = grad(total)(std::array{x})[0];
  EXPECT_EQ(gradient.device(), Device());
  EXPECT_EQ(bits(gradient), bits((x * 2 + 1) * 2 * 2));
}

TEST(TensorDevice, NamesItself) {
  EXPECT_EQ(Device().name(), "cpu");
  EXPECT_EQ(Device("cpu"), Device());
  EXPECT_EQ(emulator().name(), "emulator");
  EXPECT_NE(emulator(), Device());
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:123", "CPU", ""}) try {
      Device{name};
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << name;
    }
}

TEST(TensorDevice, CopiesTensorsWithAnyLayout) {
  for (const Dtype type : all_types()) {
    const Tensor x = transpose(slice(numbers({5, 7, 9}, type, 1), {{}, {6, 0, -2}}), {2, 0, 1});
    const Tensor y = to_device(x, emulator());
    EXPECT_EQ(y.device(), emulator());
    EXPECT_EQ(bits(y), bits(x)) << name(type);
    EXPECT_EQ(bits(to_device(transpose(y), {})), bits(transpose(x))) << name(type);
    EXPECT_EQ(to_device(y, emulator()).node(), y.node());
  }
  EXPECT_EQ(to_device(zeros({0, 3}), emulator()).values<float>().size(), 0U);
  EXPECT_EQ(to_device(ones({2}), emulator()).values<float>(), (std::vector<float>{1, 1}));
}

TEST(TensorDevice, RefusesOperandsOnTwoDevices) {
  const Tensor here = numbers({3}, Dtype::kF32, 1);
  const Tensor there = to_device(here, emulator());
  try {
    static_cast<void>(here + there);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("add: operands are on cpu and emulator"),
              std::string::npos)
        << error.what();
  }
  // Numbers and constants go along.
  EXPECT_EQ((there * 2 + ones({3})).device(), emulator());
  EXPECT_EQ(bits(where(less(there, 0), zeros({3}), there)),
            bits(where(less(here, 0), zeros({3}), here)));
  EXPECT_EQ(concatenate({zeros_like(there), there}).device(), emulator());
}

TEST(TensorDevice, RefusesFunctionsWithoutKernelByName) {
  const Tensor x = to_device(arange(0, 5), emulator());
  try {
    searchsorted(x, x).eval();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("searchsorted"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("emulator"), std::string::npos);
  }
  EXPECT_EQ((x + 1).values<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5}));
}

TEST(TensorDevice, MakesTensorsOnTheDefaultDevice) {
  set_default_device(emulator());
  const Tensor made = Tensor::of<float>({1, 2}), counted = arange(0, 4), key = random::key(7);
  const Tensor drawn = random::uniform(key, {100}), diagonal = tril(ones({4, 4}));
  set_default_device({});
  for (const Tensor& x : {made, counted, key, drawn, diagonal}) EXPECT_EQ(x.device(), emulator());
  EXPECT_EQ(counted.values<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(bits(drawn), bits(random::uniform(random::key(7), {100})));
  EXPECT_EQ(bits(diagonal), bits(tril(ones({4, 4}))));
  EXPECT_EQ(one_hot(to_device(arange(0, 3), emulator()), 3).device(), emulator());
  EXPECT_EQ(get_default_device(), Device());
}

TEST(TensorDevice, CountsAndLimitsItsMemory) {
  const Device device = emulator();
  const size_t before = memory_use(device).active, on_cpu = memory_use().active;
  {
    const Tensor x = to_device(zeros({1 << 18}) + 1, device);
    x.eval();
    EXPECT_EQ(memory_use(device).active, before + (1 << 20) + (1 << 20));  // in units of 2 MiB
    EXPECT_EQ(memory_use().active, on_cpu);
    const Tensor y = x + 1;
    set_memory_limit(memory_use(device).active, device);
    try {
      y.eval();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    }
    set_memory_limit(SIZE_MAX, device);
    EXPECT_EQ(sum(y).item<float>(), 2.0F * (1 << 18));
  }
  EXPECT_EQ(memory_use(device).active, before);
  clear_cache(device);
  EXPECT_EQ(memory_use(device).cached, 0U);
}

TEST(TensorDevice, TakesDerivatives) {
  const Tensor x = numbers({4, 33}, Dtype::kF32, 1), w = numbers({33, 5}, Dtype::kF32, 2);
  const ScalarFunction loss = [](std::span<const Tensor> in) {
    return mean(square(tanh(matmul(in[0], in[1])) + slice(in[0], {{}, {0, 5, 1}})));
  };
  const std::array here = {x, w}, there = {to_device(x, emulator()), to_device(w, emulator())};
  const ValueAndGrad cpu = value_and_grad(loss, {0, 1})(here);
  const ValueAndGrad gpu = value_and_grad(loss, {0, 1})(there);
  EXPECT_EQ(bits(cpu.value), bits(gpu.value));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(bits(cpu.gradients[i]), bits(gpu.gradients[i]));
}

TEST(TensorElements, ArithmeticHasTheBitsOfTheCpu) {
  const Shape shape = {3, 5, 67};
  for (const Dtype type : all_types()) {
    const Tensor x = with_infinities(shape, type, 1), y = with_infinities(shape, type, 2);
    const auto check = [&](const char* what, const Fn& fn) {
      expect_same(fn, {x, y}, std::string(what) + " " + std::string(name(type)));
    };
    check("add", [](const Args& a) { return a[0] + a[1] * 0.5; });
    check("multiply", [](const Args& a) { return a[0] * a[1]; });
    check("subtract", [](const Args& a) { return 3 - (a[1] - a[0] * a[0]); });
    check("minimum", [](const Args& a) { return minimum(a[0], a[1]) + maximum(a[0], a[1]); });
    check("floor_divide",
          [](const Args& a) { return floor_divide(a[0], where(equal(a[1], 0), 3, a[1])); });
    check("remainder",
          [](const Args& a) { return where(isfinite(a[0]), remainder(a[0], a[1]), a[0]); });
    check("unary", [](const Args& a) { return -abs(a[0]) + sign(a[1]); });
    check("tests", [](const Args& a) {
      return where(logical_or(less(a[0], a[1]), equal(a[0], 0)), less_equal(a[1], a[0]),
                   not_equal(a[0], a[1]));
    });
  }
}

TEST(TensorElements, FloatFunctionsHaveTheBitsOfTheCpu) {
  for (const Dtype type : kFloats) {
    const Tensor x = with_infinities({997}, type, 3), y = numbers({997}, type, 4);
    const auto check = [&](const char* what, const Fn& fn) {
      expect_same(fn, {x, y}, std::string(what) + " " + std::string(name(type)));
    };
    check("exp", [](const Args& a) { return exp(a[0]); });
    check("log", [](const Args& a) { return log(abs(a[0])); });
    check("tanh", [](const Args& a) { return tanh(a[0]) + tanh(a[1]); });
    check("sigmoid", [](const Args& a) { return sigmoid(a[0]) * sigmoid(a[1]); });
    check("sqrt", [](const Args& a) { return sqrt(abs(a[0])) + rsqrt(abs(a[1])); });
    check("divide", [](const Args& a) { return a[1] / (a[0] + 1) + reciprocal(a[1]); });
    check("rounding",
          [](const Args& a) { return floor(a[1]) + ceil(a[1]) * trunc(a[1]) + round(a[1]); });
    check("copysign", [](const Args& a) { return copysign(a[0], a[1]); });
    check("library", [](const Args& a) { return sin(a[1]) + erf(a[1]) + log1p(abs(a[1])); });
    check("pow", [](const Args& a) { return pow(abs(a[1]) + 1, a[1]); });
  }
}

TEST(TensorElements, IntegerFunctionsHaveTheBitsOfTheCpu) {
  for (const Dtype type : kIntegers) {
    const Tensor x = numbers({3, 331}, type, 5, -100, 100), y = numbers({3, 331}, type, 6, 0, 9);
    const auto check = [&](const char* what, const Fn& fn) {
      expect_same(fn, {x, y}, std::string(what) + " " + std::string(name(type)));
    };
    check("bits", [](const Args& a) { return (a[0] & a[1]) | (a[0] ^ ~a[1]); });
    check("shifts", [](const Args& a) {
      return bitwise_left_shift(a[0], a[1]) + bitwise_right_shift(a[0], a[1]);
    });
    check("pow", [](const Args& a) { return pow(a[0], a[1]); });
    check("wraps", [](const Args& a) { return a[0] * a[0] * a[0] + a[0]; });
    for (const Dtype to : all_types())
      check("cast", [&](const Args& a) { return astype(a[0], to); });
    check("logic", [](const Args& a) { return logical_xor(logical_not(a[0]), a[1]); });
  }
}

TEST(TensorElements, CastsSaturate) {
  for (const Dtype from : kFloats) {
    const Tensor x = with_infinities({211}, from, 7) * 1e3;
    for (const Dtype to : all_types())
      expect_same([&](const Args& a) { return astype(a[0], to); }, {x},
                  std::string(name(from)) + " to " + std::string(name(to)));
  }
}

// Programs with all kinds of operands: views, broadcasts, several results, values that are needed
// again.
TEST(TensorElements, ChainsWithViewsHaveTheBitsOfTheCpu) {
  for (const Dtype type : kFloats)
    for (const int64_t columns : {64, 65}) {
      const Tensor x = numbers({6, 5, columns}, type, 1), row = numbers({columns}, type, 2);
      const Tensor column = numbers({5, 1}, type, 3), other = numbers({columns, 5, 6}, type, 4);
      const Fn fn = [](const Args& a) {
        const Tensor t = transpose(a[3], {2, 1, 0});
        Tensor y = a[0] * a[1] + a[2];
        const Tensor kept = y;
        for (int i = 0; i < 6; ++i) {
          y = i % 3 == 0   ? tanh(y * t)
              : i % 3 == 1 ? y + flip(kept, {2})
                           : where(less(y, kept), y, t);
          y = maximum(y, kept - y) * (kept + 0.5);
        }
        return y - kept * a[0];
      };
      expect_same(fn, {x, row, column, other}, std::string(name(type)) + std::to_string(columns));
      expect_same(
          [](const Args& a) {
            return slice(a[0], {{}, {}, {1, {}, 1}}) + 1;
          },
          {x}, "offset");
    }
}

TEST(TensorElements, SeveralResultsComeFromOneProgram) {
  const Tensor x = to_device(numbers({3001}, Dtype::kF32, 1), emulator());
  const Tensor a = exp(x), b = a * 2 + x, c = sqrt(b * b), d = c - a;
  eval(std::array{a, b, c, d});
  const Tensor h = to_device(x, {});
  const Tensor p = exp(h), q = p * 2 + h, r = sqrt(q * q), s = r - p;
  EXPECT_EQ(bits(a), bits(p));
  EXPECT_EQ(bits(b), bits(q));
  EXPECT_EQ(bits(c), bits(r));
  EXPECT_EQ(bits(d), bits(s));
}

// More results, and longer programs, than a launch has room for.
TEST(TensorElements, LongProgramsAreDivided) {
  const auto results = [](const Tensor& x) {
    std::vector<Tensor> all;
    Tensor y = x;
    for (int i = 0; i < 30; ++i) all.push_back(y = y * 0.75 + x);
    eval(all);
    return concatenate(all);
  };
  const Tensor x = numbers({130}, Dtype::kF32, 1);
  EXPECT_EQ(bits(results(to_device(x, emulator()))), bits(results(x)));
}

// A random value of earlier ones, bounded so that no NaN arises.
Tensor random_value(Random& random, const std::vector<Tensor>& values) {
  const auto any = [&]() -> const Tensor& { return values[random.next() % values.size()]; };
  const Tensor &a = any(), &b = any();
  switch (random.next() % 14) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return b - a * 0.5;
    case 3: return clip(a * b, -50, 50);
    case 4: return 3 - a;
    case 5: return minimum(a, b) + maximum(a, 1);
    case 6: return where(less(a, b), a, any());
    case 7: return where(less_equal(any(), 0), 1.5, b);
    case 8: return -abs(a);
    case 9: return tanh(a) * 7;
    case 10: return floor_divide(a, 3);
    case 11: return astype(astype(a, Dtype::kI32) * 2, a.dtype());
    case 12: return clip(a / (abs(b) + 1), -9, 9);
    default: return flip(a, {0}) + a;
  }
}

// Whatever the order in which values are needed again, and whichever of them are results.
TEST(TensorElements, RandomProgramsHaveTheBitsOfTheCpu) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Dtype type = kFloats[seed % 4];
    const int64_t columns = seed % 3 == 0 ? 12 : 13;
    const Tensor x = numbers({6, columns}, type, seed), y = numbers({columns}, type, seed + 1);
    const auto run = [&](const Device& device) {
      Random random(seed);
      std::vector<Tensor> values = {to_device(x, device), to_device(x, device) * 0.25,
                                    broadcast_to(to_device(y, device), {6, columns})};
      const uint64_t count = 1 + random.next() % 24;
      for (uint64_t i = 0; i < count; ++i)
        values.push_back(clip(random_value(random, values), -99, 99));
      std::vector<Tensor> results = {values.back(), sum(values.back(), {1})};
      for (size_t i = 0; i < values.size(); ++i)
        if (random.next() % 4 == 0) results.push_back(values[i]);
      values.clear();
      eval(results);
      std::vector<std::vector<uint8_t>> all;
      for (const Tensor& result : results) all.push_back(bits(result));
      return all;
    };
    EXPECT_EQ(run(emulator()), run({})) << "seed " << seed;
  }
}

TEST(TensorReduce, HasTheBitsOfTheCpu) {
  struct Case {
    Shape shape;
    Axes axes;
  };
  const std::vector<Case> cases = {{{10007}, {}},     {{3, 5000}, {1}},     {{7, 300}, {0}},
                                   {{5, 6, 70}, {1}}, {{5, 6, 70}, {0, 2}}, {{4100, 3}, {0}},
                                   {{9, 8}, {1}},     {{2, 0, 3}, {1}},     {{1, 1}, {}}};
  for (const Dtype type : all_types())
    for (const Case& c : cases) {
      const Tensor x = numbers(c.shape, type, 1), y = numbers(c.shape, type, 2);
      const std::string what = std::string(name(type)) + " " + std::to_string(x.size());
      expect_same([&](const Args& a) { return sum(a[0], c.axes); }, {x, y}, "sum " + what);
      expect_same([&](const Args& a) { return sum(a[0] * a[1] + a[0], c.axes); }, {x, y},
                  "fused sum " + what);
      expect_same([&](const Args& a) { return prod(a[0] * a[1], c.axes); }, {x, y}, "prod " + what);
      if (x.size() == 0) continue;
      expect_same([&](const Args& a) { return max(a[0], c.axes) + min(a[1], c.axes); }, {x, y},
                  "max " + what);
      expect_same([&](const Args& a) { return sum(transpose(a[0])); }, {x, y}, "view " + what);
    }
}

// The chunks of a long reduction need two levels of trees.
TEST(TensorReduce, LongSumsHaveTheBitsOfTheCpu) {
  const Tensor x = numbers({4096 * 513 + 17}, Dtype::kF32, 1);
  expect_same([](const Args& a) { return sum(a[0] * 1.5); }, {x}, "sum");
}

TEST(TensorReduce, CompositionsHaveTheBitsOfTheCpu) {
  for (const Dtype type : kFloats) {
    const Tensor x = numbers({7, 130}, type, 1);
    expect_same([](const Args& a) { return softmax(a[0]); }, {x}, "softmax");
    expect_same([](const Args& a) { return logsumexp(a[0], {0}); }, {x}, "logsumexp");
    expect_same([](const Args& a) { return var(a[0], {1}); }, {x}, "var");
  }
}

TEST(TensorProducts, HaveTheBitsOfTheCpu) {
  for (const Dtype type : kFloats) {
    const Tensor a = numbers({37, 70}, type, 1), b = numbers({70, 130}, type, 2);
    const std::string what(name(type));
    expect_same([](const Args& in) { return matmul(in[0], in[1]); }, {a, b}, what);
    expect_same([](const Args& in) { return matmul(transpose(in[1]), transpose(in[0])); }, {a, b},
                "transposed " + what);
    const Tensor batch = numbers({2, 3, 4, 33}, type, 3), one = numbers({3, 33, 5}, type, 4);
    expect_same([](const Args& in) { return matmul(in[0], in[1]); }, {batch, one}, "batch " + what);
    expect_same(
        [](const Args& in) {
          return matmul(slice(in[0], {{}, {}, {}, {0, 0, 1}}), slice(in[1], {{}, {0, 0, 1}}));
        },
        {batch, one}, "empty " + what);
  }
}

TEST(TensorProducts, OfBf16MayUseALibrary) {
  const Tensor a = numbers({24, 40}, Dtype::kBF16, 1), b = numbers({40, 56}, Dtype::kBF16, 2);
  const Device device = relaxed_emulator();
  const Tensor x = to_device(a, device), y = to_device(b, device);
  EXPECT_LT(test::distance(matmul(x, y), matmul(a, b)), 1e-2);
  const Tensor turned = to_device(transpose(b), device);
  EXPECT_EQ(bits(matmul(x, transpose(turned))), bits(matmul(x, y)));
}

// The driver and the library are fakes that check their arguments.
TEST(TensorCuda, LaunchesThroughTheDriver) {
  const cuda::CublasLt& library = cuda::fake_cublas_lt();
  DeviceState& state = add_device(
      "fake", gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0, &library)));
  const Device device = handle_of(state);
  const Tensor x = numbers({33, 300}, Dtype::kF32, 1);
  const auto fn = [](const Tensor& in) { return sum(exp(in) * 2 + transpose(transpose(in)), {1}); };
  EXPECT_EQ(bits(fn(to_device(x, device))), bits(fn(x)));
  const Tensor a = numbers({24, 40}, Dtype::kBF16, 1), b = numbers({40, 56}, Dtype::kBF16, 2);
  const Tensor expected =
      matmul(to_device(a, relaxed_emulator()), to_device(b, relaxed_emulator()));
  const Tensor p = to_device(a, device), q = to_device(b, device);
  const Tensor turned = to_device(transpose(b), device);
  EXPECT_EQ(bits(matmul(p, q)), bits(expected));
  EXPECT_EQ(bits(matmul(p, transpose(turned))), bits(expected));
  EXPECT_EQ(cuda::fake_lt_state().fault, "");
  EXPECT_EQ(cuda::fake_lt_state().begun, 2);
}

TEST(TensorMovement, HasTheBitsOfTheCpu) {
  for (const Dtype type : all_types()) {
    const Tensor x = numbers({5, 6, 7}, type, 1), y = numbers({5, 2, 7}, type, 2);
    const std::string what(name(type));
    expect_same([](const Args& a) { return concatenate({a[0], a[1]}, 1); }, {x, y}, what);
    expect_same(
        [](const Args& a) {
          return slice_update(a[0], {{}, {1, 6, 3}}, a[1]);
        },
        {x, y}, what);
    expect_same([](const Args& a) { return pad(a[0], {{1, 2}, {0, 0}, {3, 1}}, 5); }, {x, y}, what);
    expect_same(
        [](const Args& a) {
          return roll(tile(repeat(a[1], 2, 1), {2, 1}), 3, 2);
        },
        {x, y}, what);
    expect_same([](const Args& a) { return reshape(transpose(a[0]), {35, 6}); }, {x, y}, what);
  }
}

TEST(TensorIndexing, HasTheBitsOfTheCpu) {
  const Tensor indices = Tensor::of<int32_t>({3, -1, 0, 3, 3, -6}, {2, 3});
  for (const Dtype type : all_types()) {
    const Tensor x = numbers({4, 6, 5}, type, 1), updates = numbers({4, 2, 3, 5}, type, 2);
    const Tensor along = Tensor::of<int64_t>({0, 5, -1, -6, 5, 5, 2, 2}, {4, 2, 1});
    const std::string what(name(type));
    expect_same([](const Args& a) { return take(a[0], a[1], 1); }, {x, indices}, what);
    expect_same([](const Args& a) { return scatter_add(a[0], a[1], a[2], 1); },
                {x, indices, updates}, what);
    expect_same([](const Args& a) { return take_along_axis(a[0], a[1], 1); }, {x, along}, what);
    expect_same(
        [](const Args& a) {
          return scatter_add_along_axis(a[0], a[1], slice(a[0], {{}, {0, 2, 1}}), 1);
        },
        {x, along}, what);
    expect_same([](const Args& a) { return one_hot(a[1], 7); }, {x, indices}, what);
  }
}

TEST(TensorIndexing, IndicesOutsideOfAnAxisAreFoundWhenTheHostWaits) {
  const Tensor x = to_device(numbers({4, 3}, Dtype::kF32, 1), emulator());
  const Tensor bad = to_device(Tensor::of<int32_t>({0, 4}), emulator());
  const Tensor y = take(x, bad);
  y.eval();
  try {
    static_cast<void>(y.values<float>());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("take: an index is outside of an axis with 4"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ((x + 1).values<float>().size(), 12U);
}

TEST(TensorOrder, HasTheBitsOfTheCpu) {
  for (const Dtype type : all_types()) {
    Tensor x = astype(numbers({3, 45, 2}, type, 1) * 2, type);
    if (promote(type, Dtype::kF16) == type)
      x = where(greater(x, 5), std::numeric_limits<double>::quiet_NaN(), x);
    const std::string what(name(type));
    for (const bool descending : {false, true})
      expect_same([&](const Args& a) { return argsort(a[0], 1, descending); }, {x}, what);
    expect_same([&](const Args& a) { return argmax(a[0], 1); }, {x}, "argmax " + what);
    expect_same([&](const Args& a) { return argmin(a[0]); }, {x}, "argmin " + what);
    const Tensor y = numbers({3, 45, 2}, type, 1);
    expect_same([&](const Args& a) { return sort(a[0], 1); }, {y}, what);
    expect_same([&](const Args& a) { return cumsum(a[0], 1) + cumsum(a[0], 2); }, {y}, what);
    expect_same([&](const Args& a) { return cumprod(a[0], 1); }, {y}, what);
  }
}

TEST(TensorRandom, HasTheBitsOfTheCpu) {
  const Tensor key = random::key(11);
  expect_same([](const Args& a) { return random::bits(a[0], {7, 11}); }, {key}, "bits");
  expect_same([](const Args& a) { return random::split(a[0], 3); }, {key}, "split");
  expect_same([](const Args& a) { return random::normal(a[0], {1001}); }, {key}, "normal");
  expect_same([](const Args& a) { return random::randint(a[0], {1001}, -5, 70); }, {key},
              "randint");
  expect_same([](const Args& a) { return random::permutation(a[0], 99); }, {key}, "permutation");
  expect_same([](const Args& a) { return random::truncated_normal(a[0], {501}, -1, 2); }, {key},
              "truncated");
}

}  // namespace
}  // namespace veery::tensor
