// Attention of a decode step that computes its queries, key and value itself (attend_decode()), on
// the GPU emulator: the bits of the CPU, in outputs and caches.
#include <gtest/gtest.h>

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/smem/gemv_smem.h"
#include "kernels/kernel_runner.h"
#include "support/gpu_machine.h"
#include "support/one_sequence.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::Batch;
using test::Matrix;

struct Setting {
  const char* name;
  QkvRopeAttr rope;
  DType type = DType::kBF16;
  int window = 0;
  float softcap = 0;
  bool sinks = false, norms = false;
};
const Setting kSettings[] = {
    {"usual", {.heads = 8, .kv_heads = 2, .head_dim = 64, .dims = 64}},
    {"small", {.heads = 4, .kv_heads = 2, .head_dim = 48, .dims = 48, .interleaved = true}},
    {"interleaved, part",
     {.heads = 2, .kv_heads = 2, .head_dim = 128, .dims = 48, .interleaved = true}},
    {"six queries a key, part, f16",
     {.heads = 12, .kv_heads = 2, .head_dim = 32, .dims = 16},
     DType::kF16},
    {"norms, window, f32",
     {.heads = 3, .kv_heads = 1, .head_dim = 80, .dims = 80, .eps = 1e-6F},
     DType::kF32,
     140,
     0,
     false,
     true},
    {"wide, cap, sinks",
     {.heads = 4, .kv_heads = 1, .head_dim = 256, .dims = 256},
     DType::kBF16,
     0,
     5,
     true},
};

// A sequence with some positions, and the ones that a step adds.
class Scene {
 public:
  explicit Scene(const Setting& s, int past)
      : s_(s), past_(past), batch_(2, past + 1), angles_(1, s.rope.dims) {
    Batch one = batch_.empty();
    one.add(1, past, 1);
    step_ = one;
    const int kv = s.rope.kv_heads * s.rope.head_dim;
    queries_ = s.rope.heads * s.rope.head_dim;
    keys_ = test::random_matrix(std::max(past, 1), kv, random_);
    values_ = test::random_matrix(std::max(past, 1), kv, random_);
    qkv_ = test::random_matrix(1, queries_ + 2 * kv, random_);
    norm_ = test::random_matrix(2, s.rope.head_dim, random_);
    sinks_ = test::random_matrix(1, s.rope.heads, random_, 3);
    test::run(op::kRopeAngles, {test::indices({past}).operand}, angles_.operand,
              AnglesAttr{.dims = s.rope.dims}, step_.shape());
  }
  struct Result {
    test::Cache keys, values;
    Matrix out;
  };
  Result made(const std::function<void(const std::vector<Step>&, RunShape)>& run) const {
    const auto cache = [&](bool keys) {
      return test::Cache(batch_, keys, s_.type, s_.rope.kv_heads, s_.rope.head_dim);
    };
    Result y{cache(true), cache(false), Matrix(1, queries_)};
    const Matrix q(1, queries_);
    fill(y);
    const auto rows = [](Operand o) {
      o.rows = kTokenRows;
      return o;
    };
    Dispatch rope;
    Operand query_norm = norm_.operand, key_norm = norm_.operand;
    key_norm.data += key_norm.stride;
    query_norm.rows = key_norm.rows = 1;
    rope.in = {rows(qkv_.operand), rows(angles_.operand), y.keys.operand, y.values.operand};
    if (s_.norms) rope.in[4] = query_norm, rope.in[5] = key_norm;
    rope.out() = rows(q.operand);
    rope.attr = s_.rope;
    Dispatch attend;
    attend.in = {rows(q.operand), y.keys.operand, y.values.operand,
                 s_.sinks ? sinks_.operand : Operand{}};
    attend.out() = rows(y.out.operand);
    attend.attr = AttendAttr{.heads = s_.rope.heads,
                             .kv_heads = s_.rope.kv_heads,
                             .scale = 0.2F,
                             .window = s_.window,
                             .softcap = s_.softcap};
    run({{op::kQkvRope, rope}, {op::kAttend, attend}}, step_.shape());
    return y;
  }
  const Setting& setting() const { return s_; }

 private:
  void fill(const Result& y) const {
    if (past_ == 0) return;
    Batch past = batch_.empty();
    past.add(1, 0, past_);
    test::run(op::kCacheWrite, {keys_.operand, y.keys.operand}, y.keys.operand, {}, past.shape());
    test::run(op::kCacheWrite, {values_.operand, y.values.operand}, y.values.operand, {},
              past.shape());
  }

  const Setting& s_;
  int past_, queries_;
  Random random_{23};
  Batch batch_, step_{1, 1};
  Matrix angles_, keys_{1, 1}, values_{1, 1}, qkv_{1, 1}, norm_{1, 1}, sinks_{1, 1};
};

void run_on_cpu(const std::vector<Step>& steps, const RunShape& shape) {
  for (const Step& step : steps) {
    const auto& in = step.dispatch.in;
    test::run(step.op, {in.begin(), in.end()}, step.dispatch.out(), step.dispatch.attr, shape,
              {supported_targets().front()});
  }
}
// A machine that counts launches.
class Counted : public gpu::Machine {
 public:
  explicit Counted(int sm_count) : own_(gpu::make_emulator(227 << 10, sm_count)) {}

  std::string description() const override { return own_->description(); }
  std::string_view name() const override { return own_->name(); }
  int sm_count() const override { return own_->sm_count(); }
  int max_shared() const override { return own_->max_shared(); }
  Memory allocate(size_t size) override { return own_->allocate(size); }
  void release(std::byte* data) noexcept override { own_->release(data); }
  void upload(std::byte* to, const void* host, size_t size) override {
    own_->upload(to, host, size);
  }
  void download(void* host, const std::byte* from, size_t size) override {
    own_->download(host, from, size);
  }
  void copy(std::byte* to, const std::byte* from, size_t size) override {
    own_->copy(to, from, size);
  }
  std::unique_ptr<gpu::Recording> record(std::vector<gpu::Launch> launches,
                                         const gpu::Transfers& transfers) override {
    launches_ = launches.size();
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto family = [&](size_t at) { return kernel_info(launches[at].kernel).key.family; };
      if (family(i) != gpu::Family::kAttendDecode) continue;
      const bool prefetches = launches[i].as<gpu::AttendDecodeParams>().prefetch_cache != 0;
      prefetching_ += prefetches ? 1 : 0;
      EXPECT_EQ(prefetches, i > 0 && family(i - 1) == gpu::Family::kGemv);
    }
    return own_->record(std::move(launches), transfers);
  }
  size_t launches() const { return launches_; }
  /// Attention launches that read the KV cache before the previous launch has ended.
  int prefetching() const { return prefetching_; }

 private:
  std::unique_ptr<gpu::Machine> own_;
  size_t launches_ = 0;
  int prefetching_ = 0;
};
std::function<void(const std::vector<Step>&, RunShape)> run_on(int sm_count, size_t launches) {
  return [=](const std::vector<Step>& steps, RunShape shape) {
    auto machine = std::make_unique<Counted>(sm_count);
    const Counted& counted = *machine;
    const auto backend = gpu::make_backend(std::move(machine));
    const std::vector<int32_t> numbers(1);
    shape.output_rows = numbers.data();
    for (const Step& step : steps) backend->choose(step.op, step.dispatch, {});
    backend->lower(steps, {}, {.shape = &shape, .groups = 1, .rows = 1, .outputs = 1})->run(shape);
    EXPECT_EQ(counted.launches(), launches);
  };
}

void expect_same(const Scene::Result& a, const Scene::Result& b, const std::string& what) {
  test::expect_same_bits(a.out, b.out, what.c_str());
  for (const auto& [own, other] : {std::pair{&a.keys, &b.keys}, std::pair{&a.values, &b.values}}) {
    const size_t size = static_cast<size_t>(own->operand.stride) * 2;
    EXPECT_EQ(std::memcmp(own->bytes->data(), other->bytes->data(), size), 0) << what;
  }
}

TEST(GpuStep, OneLaunchHasRopeAndAttention) {
  for (const Setting& s : kSettings) {
    if (test::kSanitized && s.rope.head_dim > 100) continue;
    // Up to four KV blocks are merged without a MergeChain.
    for (const int past : {0, 1, 127, 128, 131, 300, 420, 700}) {
      const Scene scene(s, past);
      const Scene::Result expected = scene.made(run_on_cpu);
      // Enough SMs for a thread block each, and few.
      for (const int sm_count : {1, 16})
        expect_same(scene.made(run_on(sm_count, 1)), expected,
                    fmt::format("{} behind {}", s.name, past));
    }
  }
}

// After other kernels the cache must not be prefetched: they let the next launch begin before all
// earlier launches have ended.
TEST(GpuStep, PrefetchesTheCacheAfterAGemvOnly) {
  for (const DType type : {DType::kQ8_0, DType::kF32}) {
    const test::SmallModel model(type, /*tied=*/true);
    auto machine = std::make_unique<Counted>(4);
    const Counted& counted = *machine;
    LoadOptions options;
    options.threads = 1;
    options.backends = {gpu::make_backend(std::move(machine))};
    Model of(model.path(), options);
    test::OneSequence session(of);
    session.feed(test::some_ids(3));
    std::vector<int32_t> made(2);
    session.decode_greedy(7, made);
    EXPECT_EQ(counted.prefetching() > 0, type == DType::kQ8_0) << info(type).name;
  }
}

// A row that does not fit goes through quantize_x and gemm_direct, at a third of the speed.
TEST(GpuStep, RowsOfUsualWidthsHaveRoomOnACapability9Device) {
  constexpr int kRoom = 227 << 10;
  for (int f = gpu::kQ8; f <= gpu::kBF16; ++f) {
    const auto format = static_cast<gpu::WeightFormat>(f);
    const auto stages = [&](int cols, bool normed) {
      return gpu::gemv_smem(format, 1, cols, normed, kRoom, gpu::GemvSmem::warps_for(format))
          .stages;
    };
    for (const int cols : {1536, 2048, 3072, 4096, 5120, 8192})
      EXPECT_GE(stages(cols, true), gpu::GemvSmem::kMinStages) << f << ", " << cols << " columns";
    for (const int cols : {8192, 11008, 12288, 14336})
      EXPECT_GE(stages(cols, false), gpu::GemvSmem::kMinStages) << f << ", " << cols << " columns";
    EXPECT_GE(stages(4096, true), 3) << f;
  }
}

TEST(GpuStep, CachesOfQ8HaveSeparateLaunches) {
  const Setting setting{
      "q8", {.heads = 2, .kv_heads = 1, .head_dim = 64, .dims = 64}, DType::kQ8_0};
  const Scene scene(setting, 140);
  expect_same(scene.made(run_on(4, 3)), scene.made(run_on_cpu), "q8");
}

}  // namespace
}  // namespace veery
