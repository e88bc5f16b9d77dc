#include "kernels/gpu/tensor/tensor_device.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/tensor/element_runner.h"

namespace veery::gpu {
namespace {

constexpr int kThreads = 256;

LaunchSize size_for(int64_t items, size_t shared = 0) {
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  if (blocks > INT32_MAX)
    throw Error(ErrorKind::kLimit, "a launch of {} thread blocks, expected at most {}", blocks,
                INT32_MAX);
  return {.blocks_x = static_cast<int>(blocks), .threads = kThreads, .shared = shared};
}
const uint8_t* bytes(const std::byte* data) { return reinterpret_cast<const uint8_t*>(data); }
uint8_t* bytes(std::byte* data) { return reinterpret_cast<uint8_t*>(data); }

TensorLines lines_of(const IndexedLines& lines) {
  return {lines.outer,      lines.from,          lines.to,
          lines.inner,      bytes(lines.x),      lines.indices,
          bytes(lines.out), lines.along ? 1 : 0, static_cast<int32_t>(lines.type)};
}

class GpuTensors : public TensorDevice {
 public:
  explicit GpuTensors(Machine& machine) : machine_(machine), errors_(machine.allocate(256)) {}

  std::string description() const override { return machine_.description(); }
  MemoryPool& memory() override {
    machine_.use_in_this_thread();
    return *machine_.pool();
  }
  void upload(std::byte* to, const void* host, size_t size) override {
    machine_.enqueue_upload(to, host, size);
  }
  void download(void* host, const std::byte* from, size_t size) override {
    wait();
    machine_.download(host, from, size);
  }
  void wait() override {
    machine_.wait_for_queue();
    if (checks_.empty()) return;
    int32_t error = 0;
    machine_.download(&error, errors_.data(), sizeof error);
    const std::vector<Check> checks = std::exchange(checks_, {});
    if (error == 0) return;
    constexpr int32_t kNoError = 0;
    machine_.enqueue_upload(errors_.data(), &kNoError, sizeof kNoError);
    machine_.wait_for_queue();
    const Check& failed = checks.at(static_cast<size_t>(error) - 1);
    throw Error(ErrorKind::kInput, "{}: an index is outside of an axis with {} elements",
                failed.function, failed.size);
  }

  bool run(const ElementProgram& program) override { return run_elements(machine_, program); }
  void matmul(const BatchedMatmul& problem) override;
  void take(std::string_view function, const IndexedLines& lines) override {
    TensorIndexParams params = checked(function, lines);
    params.lines.type = info(lines.type).bytes;
    start(KernelId::tensor_take, lines.outer * lines.to * lines.inner, params);
  }
  void scatter_add(std::string_view function, const IndexedLines& lines) override {
    start(KernelId::tensor_scatter_add, lines.outer * lines.inner, checked(function, lines));
  }
  void cumulate(const IndexedLines& lines, bool product) override {
    start(KernelId::tensor_cumulate, lines.outer * lines.inner,
          CumulateParams{lines_of(lines), product ? 1 : 0});
  }
  void argsort(const IndexedLines& lines, bool descending) override;
  void argreduce(const IndexedLines& lines, bool largest) override {
    const int64_t count = lines.outer * lines.inner;
    if (count == 0) return;
    if (count > INT32_MAX)
      throw Error(ErrorKind::kLimit, "{} lines of elements, expected at most {}", count, INT32_MAX);
    enqueue(
        machine_, KernelId::tensor_argreduce,
        {.blocks_x = static_cast<int>(count),
         .threads = kThreads,
         .shared = kThreads * sizeof(int64_t)},
        ArgReduceParams{lines_of(lines), reinterpret_cast<int64_t*>(lines.out), largest ? 1 : 0});
  }
  void random_bits(const uint32_t* key, uint32_t stream, uint32_t* out, int64_t count) override {
    start(KernelId::tensor_random_bits, (count + 3) / 4, RandomBitsParams{key, out, count, stream});
  }
  void sequence(int64_t first, int64_t step, int64_t* out, int64_t count) override {
    start(KernelId::tensor_sequence, count, SequenceParams{out, count, first, step, 0});
  }
  void sequence(double first, double step, double* out, int64_t count) override {
    start(KernelId::tensor_sequence, count,
          SequenceParams{reinterpret_cast<int64_t*>(out), count, std::bit_cast<int64_t>(first),
                         std::bit_cast<int64_t>(step), 1});
  }

 private:
  struct Check {
    std::string_view function;
    int64_t size;
  };
  // One thread per item.
  template <typename Params>
  void start(KernelId kernel, int64_t items, const Params& params) {
    if (items > 0) enqueue(machine_, kernel, size_for(items), params);
  }
  TensorIndexParams checked(std::string_view function, const IndexedLines& lines) {
    checks_.push_back({function, lines.from});
    return {lines_of(lines), reinterpret_cast<int32_t*>(errors_.data()),
            static_cast<int32_t>(checks_.size())};
  }
  bool multiply_by_library(const BatchedMatmul& problem);
  void multiply_in_order(const BatchedMatmul& problem);

  Machine& machine_;
  Memory errors_;  ///< the number of a check that failed; 0: none
  std::vector<Check> checks_;
};

// Products of bf16 by the library of the machine, if it has one. Operands whose rows or columns are
// not contiguous go the other way.
bool GpuTensors::multiply_by_library(const BatchedMatmul& p) {
  constexpr int64_t kMost = INT32_MAX;
  const size_t rank = p.batch.size();
  const int64_t a_row = p.a_strides[rank], a_column = p.a_strides[rank + 1];
  const int64_t b_row = p.b_strides[rank], b_column = p.b_strides[rank + 1];
  // Rows are 16-byte aligned.
  const auto fits = [](int64_t stride, int64_t least) {
    return stride >= least && stride < kMost && stride % 8 == 0;
  };
  const auto address = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at); };
  const bool transposed = b_column == 1 && fits(b_row, p.columns);
  if (!machine_.relaxed() || p.type != ElementType::kBF16 || rank > 0 || a_column != 1 ||
      !fits(a_row, p.inner) || p.columns % 8 != 0 || (address(p.a) | address(p.b)) % 16 != 0 ||
      !(transposed || (b_row == 1 && fits(b_column, p.inner))) ||
      std::max({p.rows, p.columns, p.inner}) >= kMost || p.inner == 0)
    return false;
  machine_.enqueue_product({.weights = reinterpret_cast<const uint16_t*>(p.b),
                            .x = reinterpret_cast<const uint16_t*>(p.a),
                            .x_stride = a_row,
                            .out = p.out,
                            .out_stride = p.columns,
                            .residual = nullptr,
                            .residual_stride = 0,
                            .rows = static_cast<int32_t>(p.rows),
                            .n = static_cast<int32_t>(p.columns),
                            .k = static_cast<int32_t>(p.inner),
                            .rounded = 1,
                            .scale = 1,
                            .transposed = transposed ? 1 : 0,
                            .weights_stride = transposed ? b_row : b_column});
  return true;
}

void GpuTensors::multiply_in_order(const BatchedMatmul& p) {
  const size_t rank = p.batch.size();
  VEERY_CHECK(rank <= size_t{TensorMatmulParams::kBatchRank});
  TensorMatmulParams params{};
  params.a = bytes(p.a), params.b = bytes(p.b), params.out = bytes(p.out);
  params.rows = p.rows, params.columns = p.columns, params.inner = p.inner;
  params.a_row = p.a_strides[rank], params.a_column = p.a_strides[rank + 1];
  params.b_row = p.b_strides[rank], params.b_column = p.b_strides[rank + 1];
  params.batch_rank = static_cast<int32_t>(rank);
  params.type = static_cast<int32_t>(p.type);
  int64_t matrices = 1;
  for (size_t d = 0; d < rank; ++d) {
    params.batch[d] = p.batch[d];
    params.a_batch[d] = p.a_strides[d];
    params.b_batch[d] = p.b_strides[d];
    matrices *= p.batch[d];
  }
  const bool is_f64 = p.type == ElementType::kF64;
  const int64_t tile = is_f64 ? TensorMatmulShape<8>::kTile : TensorMatmulShape<4>::kTile;
  const int64_t depth = is_f64 ? TensorMatmulShape<8>::kDepth : TensorMatmulShape<4>::kDepth;
  const int64_t blocks = (p.rows + tile - 1) / tile * ((p.columns + tile - 1) / tile) * matrices;
  if (blocks > INT32_MAX)
    throw Error(ErrorKind::kLimit, "matmul: {} tiles of the result, expected at most {}", blocks,
                INT32_MAX);
  enqueue(machine_, is_f64 ? KernelId::tensor_matmul_f64 : KernelId::tensor_matmul_f32,
          {.blocks_x = static_cast<int>(blocks),
           .threads = kMatmulThreads,
           .shared = static_cast<size_t>(2 * depth * (tile + 4)) * (is_f64 ? 8 : 4)},
          params);
}

void GpuTensors::matmul(const BatchedMatmul& problem) {
  int64_t size = problem.rows * problem.columns;
  for (const int64_t count : problem.batch) size *= count;
  if (size == 0) return;
  if (!multiply_by_library(problem)) multiply_in_order(problem);
}

void GpuTensors::argsort(const IndexedLines& lines, bool descending) {
  const int64_t count = lines.outer * lines.inner;
  if (count == 0 || lines.from == 0) return;
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lines.from)));
  if (padded > INT32_MAX)
    throw Error(ErrorKind::kLimit, "argsort: {} elements of an axis, expected at most {}",
                lines.from, INT32_MAX);
  const QueueMemory order(machine_, static_cast<size_t>(count * padded) * sizeof(int32_t));
  SortOrderParams ends{lines_of(lines), reinterpret_cast<int32_t*>(order.data()), nullptr, padded};
  start(KernelId::tensor_sort_order, count * padded, ends);
  SortPassParams pass{lines_of(lines), ends.order, padded, 0, 0, descending ? 1 : 0};
  for (pass.run = 2; pass.run <= padded; pass.run *= 2)
    for (pass.distance = pass.run / 2; pass.distance > 0; pass.distance /= 2)
      start(KernelId::tensor_sort_pass, count * padded / 2, pass);
  ends.out = reinterpret_cast<int64_t*>(lines.out);
  start(KernelId::tensor_sort_order, count * padded, ends);
}

}  // namespace

std::unique_ptr<TensorDevice> make_tensor_device(Machine& machine) {
  const bool has_kernels = machine.has(KernelId::element_map) && machine.pool() != nullptr;
  return has_kernels ? std::make_unique<GpuTensors>(machine) : nullptr;
}

}  // namespace veery::gpu
