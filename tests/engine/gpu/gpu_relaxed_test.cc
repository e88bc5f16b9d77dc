// --relaxed, which gives up the bits of the CPU for speed, on the emulator and with a fake cuBLASLt
// that records calls: results are close to those of the CPU.
#include <gtest/gtest.h>

#include "kernels/cuda/machine.h"
#include "kernels/find_backend.h"
#include "kernels/gpu/launch/dequantized_weights.h"
#include "kernels/gpu/launch/recorder.h"
#include "kernels/gpu/packing/pack.h"
#include "kernels/kernel_runner.h"
#include "kernels/linear_oracle.h"
#include "support/cuda/fake_cublas_lt.h"
#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"
#include "support/models.h"
#include "support/near_rows.h"
#include "support/one_sequence.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::Batch;
using test::Matrix;
using test::Rows;
using test::SmallModel;
using test::some_ids;

// Enough rows for a plan with relaxed kernels.
constexpr int32_t kRows = 85;

LoadOptions options_on(std::shared_ptr<Backend> backend) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = kRows;
  if (backend) options.backends = {std::move(backend)};
  return options;
}
std::shared_ptr<Backend> relaxed_emulator() {
  return gpu::make_backend(gpu::make_relaxed_emulator());
}

// Maximum relative distances for weights that the CPU multiplies with int8 activations, and for
// float weights. This model has outliers. A wrong row or column would give a distance of about 1.
constexpr double kNearQuantised = 0.05, kNearFloats = 0.02;
double near(DType type) { return info(type).block > 1 ? kNearQuantised : kNearFloats; }

// Returns the logits after a prompt (one run) and after each of a few further tokens.
Rows logits_behind(const std::string& path, const LoadOptions& options,
                   std::span<const int32_t> ids) {
  constexpr size_t kAfter = 5;
  Model model(path, options);
  test::OneSequence session(model);
  session.feed(ids.first(ids.size() - kAfter));
  Rows rows = {{session.logits().begin(), session.logits().end()}};
  session.feed_all(ids.last(kAfter), [&](int32_t, std::span<const float> of) {
    rows.emplace_back(of.begin(), of.end());
  });
  return rows;
}

// Expanded weights are the elements of decode.h, rounded to bf16.
TEST(GpuExpand, HasTheElementsOfEachType) {
  for (const DType type : test::typical_types()) {
    if (!gpu::weight_format(type)) continue;
    const gpu::WeightFormat format = *gpu::weight_format(type);
    const int64_t rows = 40, cols = info(type).block == 1 ? 72 : std::lcm(info(type).block, 32) * 3;
    const auto source = test::random_weight(type, rows, cols, 7);
    const int64_t panel = gpu::panel_bytes(format, cols);
    std::vector<std::byte> packed(static_cast<size_t>(panel * 3));
    gpu::pack_rows(type, source.data(), cols, {0, rows}, packed.data());
    std::vector<uint16_t> out(static_cast<size_t>(rows * cols) + 1, 0x7777);
    const gpu::Weight weight{reinterpret_cast<const uint8_t*>(packed.data()), panel,
                             static_cast<int32_t>(rows), static_cast<int32_t>(cols), format};
    for (const gpu::Launch& launch :
         gpu::dequantize({&weight, 1}, reinterpret_cast<std::byte*>(out.data())))
      gpu::emulate(launch.kernel, launch.size, launch.params.data());
    std::vector<float> want(static_cast<size_t>(cols));
    const size_t row_bytes = byte_size(type, cols);
    for (int64_t r = 0; r < rows; ++r) {
      decode(type, {source.data() + static_cast<size_t>(r) * row_bytes, row_bytes}, want);
      for (int64_t k = 0; k < cols; ++k)
        ASSERT_EQ(out[static_cast<size_t>(r * cols + k)], f32_to_bf16(want[static_cast<size_t>(k)]))
            << info(type).name << " " << r << " " << k;
    }
    EXPECT_EQ(out.back(), 0x7777) << info(type).name;
  }
}

struct Setting {
  const char* name;
  AttendAttr attr;
  int n;
  int v = 0;  ///< 0: n
  bool sinks = false;
};
const Setting kSettings[] = {
    {"shared heads", {.heads = 8, .kv_heads = 2, .scale = 0.09F}, 128},
    {"narrow", {.heads = 3, .kv_heads = 1, .scale = 0.125F}, 64},
    {"own heads", {.heads = 2, .kv_heads = 2, .scale = 0.2F}, 16},
    {"many heads", {.heads = 7, .kv_heads = 1, .scale = 0.1F}, 96, 48},
    {"window", {.heads = 4, .kv_heads = 2, .scale = 0.1F, .window = 70}, 80, 112},
    {"chunks", {.heads = 2, .kv_heads = 1, .scale = 0.1F, .window = 50, .chunked = true}, 32},
    {"soft cap", {.heads = 4, .kv_heads = 4, .scale = 0.3F, .softcap = 5}, 64},
    {"sinks", {.heads = 8, .kv_heads = 2, .scale = 0.1F, .window = 128}, 64, 0, true},
};

// Keys and values of some sequences, then rows of these, on the CPU and relaxed.
constexpr int kPad = 4;  // rows are multiples of 16 bytes apart, as in plans

double attention_error(const Setting& s, const std::vector<Span>& parts) {
  const int v = s.v > 0 ? s.v : s.n;
  Random random(11);
  Batch batch(2, 512);
  test::Cache keys(batch, true, DType::kBF16, s.attr.kv_heads, s.n);
  test::Cache values(batch, false, DType::kBF16, s.attr.kv_heads, v);
  for (int sequence = 0; sequence < 2; ++sequence) {
    Batch fill = batch.empty();
    fill.add(sequence, 0, 300);
    const Matrix k = test::random_matrix(300, s.attr.kv_heads * s.n, random);
    const Matrix of = test::random_matrix(300, s.attr.kv_heads * v, random);
    test::run(op::kCacheWrite, {k.operand, keys.operand}, keys.operand, {}, fill.shape());
    test::run(op::kCacheWrite, {of.operand, values.operand}, values.operand, {}, fill.shape());
  }
  const Matrix sinks = test::random_matrix(1, s.attr.heads, random, 3);
  Batch rows = batch.empty();
  for (const Span& part : parts) rows.add(part.sequence, part.position, part.rows);
  const int64_t count = rows.shape().rows;
  const Matrix q = test::random_matrix(count, s.attr.heads * s.n, random, 1.5F, kPad);
  Matrix own(count, s.attr.heads * v, DType::kF32, kPad), expected(count, s.attr.heads * v);
  Dispatch d;
  d.in[AttendIn::kQ] = q.operand, d.in[AttendIn::kK] = keys.operand;
  d.in[AttendIn::kV] = values.operand;
  if (s.sinks) d.in[AttendIn::kSinks] = sinks.operand;
  d.out() = own.operand;
  d.in[AttendIn::kQ].rows = d.out().rows = kTokenRows;
  d.attr = s.attr;
  Operand in = q.operand, to = expected.operand;
  in.rows = to.rows = kTokenRows;
  test::run(op::kAttend, {in, keys.operand, values.operand, s.sinks ? sinks.operand : Operand{}},
            to, s.attr, rows.shape(), {supported_targets().front(), 1, false});
  RunShape shape = rows.shape();
  const std::vector<int32_t> numbers(static_cast<size_t>(shape.rows));
  shape.output_rows = numbers.data();
  const auto backend = relaxed_emulator();
  backend->choose(op::kAttend, d, {.rows = gpu::kRelaxedRows});
  const Step step{op::kAttend, d};
  backend
      ->lower({&step, 1}, {},
              {.shape = &shape, .groups = 1, .rows = gpu::kRelaxedRows, .outputs = 1})
      ->run(shape);
  double most = 0, largest = 0;
  for (int64_t r = 0; r < count; ++r)
    for (int i = 0; i < s.attr.heads * v; ++i) {
      const double apart = std::abs(double{own[r][i]} - expected[r][i]);
      if (!(apart <= most)) most = apart;
      largest = std::max(largest, std::abs(double{expected[r][i]}));
    }
  return most / largest;
}

// CPU and GPU both use bf16 queries, weights and values; they round the weights at different
// points.
TEST(GpuAttendCores, IsNearTheCpu) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.n > 100) continue;
    EXPECT_LT(attention_error(s, {{0, 0, 100, 200}}), 0.01) << s.name;
    EXPECT_LT(attention_error(s, {{1, 0, 70, 0}}), 0.01) << s.name;
    // Tiles whose rows are not consecutive positions.
    EXPECT_LT(attention_error(s, {{0, 0, 3, 7}, {1, 0, 133, 61}, {0, 0, 1, 299}}), 0.01) << s.name;
  }
}

// Relaxed RoPE and cache writes have the bits of the other kernels.
TEST(GpuQkvRows, HasTheBitsOfFewRows) {
  for (const bool interleaved : {false, true}) {
    const QkvRopeAttr attr{5, 2, 128, 128, interleaved, 0};
    Random random(4);
    Batch batch(2, 512);
    batch.add(0, 250, 11);
    batch.add(1, 3, 2);
    RunShape shape = batch.shape();
    const Matrix qkv = test::random_matrix(shape.rows, 9 * 128, random, 1, kPad);
    const Matrix angles = test::random_matrix(shape.rows, 128, random, 1, kPad);
    const std::vector<int32_t> numbers(static_cast<size_t>(shape.rows));
    shape.output_rows = numbers.data();
    const auto bytes = [&](int64_t rows) {
      test::Cache keys(batch, true, DType::kBF16, 2, 128),
          values(batch, false, DType::kBF16, 2, 128);
      Matrix q(shape.rows, 5 * 128, DType::kF32, kPad);
      Dispatch d;
      d.in[QkvRopeIn::kQkv] = qkv.operand, d.in[QkvRopeIn::kAngles] = angles.operand;
      d.in[QkvRopeIn::kKeys] = keys.operand, d.in[QkvRopeIn::kValues] = values.operand;
      d.out() = q.operand;
      d.in[QkvRopeIn::kQkv].rows = d.out().rows = kTokenRows;
      d.attr = attr;
      const Step step{op::kQkvRope, d};
      relaxed_emulator()
          ->lower({&step, 1}, {}, {.shape = &shape, .groups = 1, .rows = rows, .outputs = 1})
          ->run(shape);
      std::vector<std::byte> all;
      const auto append = [&](const void* data, int64_t size) {
        const auto* first = static_cast<const std::byte*>(data);
        all.insert(all.end(), first, first + size);
      };
      append(keys.operand.data, keys.operand.stride * batch.page_count);
      append(values.operand.data, values.operand.stride * batch.page_count);
      append(q[0], shape.rows * q.operand.stride);
      return all;
    };
    EXPECT_TRUE(bytes(gpu::kRelaxedRows) == bytes(shape.rows)) << interleaved;
  }
}

// Whole plans, with each weight layout.
TEST(GpuRelaxed, LogitsAreNearThoseOfTheCpu) {
  for (const DType type : {DType::kQ8_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K, DType::kNVFP4,
                           DType::kF16, DType::kBF16}) {
    if (test::kSanitized && type != DType::kQ4_K) continue;
    const SmallModel model(type);
    const auto ids = some_ids(kRows);
    const Rows expected = logits_behind(model.path(), options_on(nullptr), ids);
    const Rows own = logits_behind(model.path(), options_on(relaxed_emulator()), ids);
    EXPECT_LT(test::distance(own, expected), near(type)) << info(type).name;
    EXPECT_TRUE(own != expected) << info(type).name;
    // Runs of few rows have the same bits as without --relaxed.
    LoadOptions few = options_on(relaxed_emulator());
    few.chunk = 20;
    LoadOptions usual = options_on(gpu::make_backend(gpu::make_emulator()));
    usual.chunk = 20;
    EXPECT_TRUE(logits_behind(model.path(), few, std::span(ids).first(25)) ==
                logits_behind(model.path(), usual, std::span(ids).first(25)))
        << info(type).name;
  }
}

Rows folder_logits(const std::string& name, const LoadOptions& options, size_t count) {
  Random random(3);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % 61);
  return logits_behind(test::fixture_path("tiny/" + name), options, ids);
}
// Biases, activations without a gate, soft caps, sinks, windows, experts, recurrent layers.
TEST(GpuRelaxed, FamiliesAreNearTheCpu) {
  for (const char* name : {"llama-llama3", "llama-bias", "qwen2", "gemma2", "gemma3", "gpt-oss",
                           "phi2", "olmo2", "nemotron", "mixtral", "qwen35", "starcoder2",
                           "deepseek-v3", "gpt-neox", "granite", "cohere2"}) {
    if (test::kSanitized && std::string_view(name) != "gpt-oss") continue;
    const size_t count = 75;
    EXPECT_LT(test::distance(folder_logits(name, options_on(relaxed_emulator()), count),
                             folder_logits(name, options_on(nullptr), count)),
              3e-2)
        << name;
  }
}

// With a fake driver and a fake library that record calls.
TEST(CudaRelaxed, ProductsOfPromptsAreTheLibrarys) {
  const SmallModel model(DType::kQ4_K);
  const auto ids = some_ids(kRows);
  const Rows expected = logits_behind(model.path(), options_on(nullptr), ids);
  const cuda::Driver& driver = cuda::fake_driver();
  const cuda::CublasLt& library = cuda::fake_cublas_lt();
  cuda::FakeLtState& state = cuda::fake_lt_state();
  {
    LoadOptions options =
        options_on(gpu::make_backend(cuda::make_machine(driver, {}, 0, &library)));
    EXPECT_LT(test::distance(logits_behind(model.path(), options, ids), expected), kNearQuantised);
    EXPECT_EQ(state.fault, "");
    EXPECT_EQ(state.recorded, 4) << "q, k and v, o, gate and up, down";
    EXPECT_EQ(state.begun, 4) << "each form once before it is recorded";
    EXPECT_EQ(state.searches, 4);
    // The same shapes again.
    EXPECT_LT(test::distance(logits_behind(model.path(), options, ids), expected), kNearQuantised);
    EXPECT_EQ(state.searches, 4);
    // Decode steps and runs of few rows do not use the library.
    options.chunk = 20;
    logits_behind(model.path(), options, std::span(ids).first(25));
    EXPECT_EQ(state.recorded, 8);
  }
  EXPECT_EQ(state.objects, 0);
  EXPECT_EQ(cuda::fake_state().used, 0U);
}

// If there is not enough memory for expanded weights, they are expanded in each run.
TEST(CudaRelaxed, WeightsAreExpandedInEachRunIfMemoryIsShort) {
  const SmallModel model(DType::kQ4_K);
  const auto ids = some_ids(kRows);
  const Rows expected = logits_behind(model.path(), options_on(nullptr), ids);
  std::array<size_t, 2> used{};
  std::array<int, 2> launches{};
  for (const bool is_short : {false, true}) {
    const cuda::Driver& driver = cuda::fake_driver();
    LoadOptions options =
        options_on(gpu::make_backend(cuda::make_machine(driver, {}, 0, &cuda::fake_cublas_lt())));
    MemoryPool& pool = *options.backends[0]->device().pool();
    if (is_short) pool.set_limit(size_t{1} << 30);
    EXPECT_LT(test::distance(logits_behind(model.path(), options, ids), expected), kNearQuantised);
    EXPECT_EQ(cuda::fake_lt_state().fault, "");
    const int before = cuda::fake_state().launches;
    logits_behind(model.path(), options, ids);
    launches[is_short ? 1 : 0] = cuda::fake_state().launches - before;
    used[is_short ? 1 : 0] = pool.memory().peak;
  }
  EXPECT_LT(used[1], used[0]);
  EXPECT_EQ(launches[1], launches[0]) << "each weight is dequantised once, and there is one run";
}

TEST(CudaRelaxed, FaultsOfTheLibraryAreErrors) {
  const SmallModel model(DType::kQ8_0);
  const cuda::Driver& driver = cuda::fake_driver();
  const cuda::CublasLt& library = cuda::fake_cublas_lt();
  cuda::fake_lt_state().fail_search = 1;
  try {
    LoadOptions options =
        options_on(gpu::make_backend(cuda::make_machine(driver, {}, 0, &library)));
    logits_behind(model.path(), options, some_ids(kRows));
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what())
                  .find("cublasLt: found no algorithm for 256 rows of 192 columns "
                        "times 256 outputs"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(cuda::fake_lt_state().objects, 0);
  EXPECT_EQ(cuda::fake_state().used, 0U);
}

TEST(Relaxed, IsRefusedOnOtherDevices) {
  for (const char* device : {"cpu", "metal"}) {
    std::string why;
    try {
      find_backends(device, why, true);
      ADD_FAILURE() << device;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(
          std::string(error.what()),
          fmt::format("relaxed products: the device is {}, expected an NVIDIA GPU (cuda)", device));
    }
  }
}

}  // namespace
}  // namespace veery
