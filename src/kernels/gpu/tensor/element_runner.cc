#include "kernels/gpu/tensor/element_runner.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"

namespace veery::gpu {
namespace {

// Shared memory of a block of kNarrowThreads that leaves room for five blocks on an SM.
constexpr int64_t kNarrowShared = int64_t{40} << 10;
constexpr int64_t kMostBlocks = int64_t{1} << 30;
// Rows of at most this number of elements are reduced by one thread each.
constexpr int64_t kShortRow = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Bytes of the slots of a thread.
int64_t slot_bytes(const LoweredSteps& lowered, int elements) {
  return int64_t{lowered.slots()} * elements * (lowered.is_wide ? 8 : 4);
}
// The most threads, at most `most`, whose shared memory fits.
int threads_for(const Machine& machine, int64_t bytes_each, int most) {
  int threads = most;
  while (threads > kWarp && threads * bytes_each > machine.max_shared()) threads /= 2;
  VEERY_CHECK(threads * bytes_each <= machine.max_shared());
  return threads;
}

void map_elements(Machine& machine, const LoweredSteps& lowered) {
  if (lowered.steps.size == 0) return;
  KernelId kernel = lowered.is_lean ? KernelId::element_map : KernelId::element_map_any;
  int elements = kMapElements, most = kMapThreads;
  if (lowered.is_wide) {
    kernel = KernelId::element_map_wide;
    elements = kWideElements;
  } else if (lowered.is_lean && lowered.is_narrow &&
             slot_bytes(lowered, kNarrowElements) * kNarrowThreads <= kNarrowShared) {
    kernel = KernelId::element_map_narrow;
    elements = kNarrowElements;
    most = kNarrowThreads;
  }
  const int64_t bytes = slot_bytes(lowered, elements);
  const int threads = threads_for(machine, bytes, most);
  const int64_t blocks = ceil_div(lowered.steps.size, int64_t{threads} * elements);
  enqueue(machine, kernel,
          {.blocks_x = static_cast<int>(std::min(blocks, kMostBlocks)),
           .threads = threads,
           .shared = static_cast<size_t>(threads * bytes)},
          lowered.steps);
}

template <typename T>
uint64_t neutral_bits(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  T value{};
  switch (op) {
    case ReduceOp::kSum: break;
    case ReduceOp::kProduct: value = T{1}; break;
    case ReduceOp::kMinimum:
      value = Limits::has_infinity ? Limits::infinity() : Limits::max();
      break;
    case ReduceOp::kMaximum:
      value = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::min();
      break;
  }
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else
    return static_cast<uint64_t>(value);
}
uint64_t neutral(ReduceOp op, ElementType type) {
  switch (type) {
    case ElementType::kI8: return neutral_bits<int8_t>(op);
    case ElementType::kI32: return neutral_bits<int32_t>(op);
    case ElementType::kU32: return neutral_bits<uint32_t>(op);
    case ElementType::kI64: return neutral_bits<int64_t>(op);
    case ElementType::kF32: return neutral_bits<float>(op);
    case ElementType::kF64: return neutral_bits<double>(op);
    default: return neutral_bits<uint8_t>(op);
  }
}

/// The reduction of a program, which is collapsed.
class Reducer {
 public:
  Reducer(Machine& machine, const ElementProgram& program, const LoweredSteps& lowered)
      : machine_(machine),
        program_(program),
        reduction_(*program.reduction),
        lowered_(lowered),
        kept_dimensions_(program.rank - reduction_.dimensions),
        kept_(product(0, kept_dimensions_)),
        reduced_(product(kept_dimensions_, program.rank)),
        chunks_(std::max<int64_t>(ceil_div(reduced_, kReduceChunk), 1)),
        bytes_(info(reduction_.type).bytes) {}

  void run() {
    if (kept_ == 0) return;
    const QueueMemory results(machine_, static_cast<size_t>(kept_ * chunks_ * bytes_));
    reduce_chunks(results.data());
    // Two blocks of memory take turns.
    const int64_t half = kept_ * ceil_div(chunks_, kTreeElements) * bytes_;
    const QueueMemory other(machine_, static_cast<size_t>(half));
    std::byte* from = results.data();
    std::byte* to = other.data();
    for (int64_t count = chunks_; count > 1; count = ceil_div(count, kTreeElements)) {
      combine(from, to, count);
      std::swap(from, to);
    }
    write(from);
  }

 private:
  int64_t product(int from, int to) const {
    int64_t count = 1;
    for (int d = from; d < to; ++d) count *= program_.shape[static_cast<size_t>(d)];
    return count;
  }
  // Whether memory is contiguous over kept elements rather than over reduced ones.
  bool inner_is_kept() const {
    if (kept_dimensions_ == 0 || reduction_.dimensions == 0) return false;
    int kept = 0, reduced = 0;
    for (const ElementTransfer& in : program_.inputs) {
      const auto& strides = in.elements.strides;
      kept += strides[static_cast<size_t>(kept_dimensions_ - 1)] == 1 ? 1 : 0;
      reduced += strides[static_cast<size_t>(program_.rank - 1)] == 1 ? 1 : 0;
    }
    return kept > reduced;
  }
  void reduce_chunks(std::byte* results) const {
    ElementReduceParams params{.steps = lowered_.steps,
                               .kept = kept_,
                               .reduced = reduced_,
                               .chunks = chunks_,
                               .results = reinterpret_cast<uint8_t*>(results),
                               .neutral = neutral(reduction_.op, reduction_.type),
                               .op = static_cast<int32_t>(reduction_.op),
                               .type = static_cast<int32_t>(reduction_.type),
                               .by_thread = inner_is_kept() || reduced_ <= kShortRow ? 1 : 0};
    const int elements = lowered_.is_wide ? kWideElements : kMapElements;
    int64_t bytes = slot_bytes(lowered_, elements);
    params.slots = lowered_.slots();
    if (params.by_thread != 0) bytes += kSumLanes * (lowered_.is_wide ? 8 : 4);
    const int threads = threads_for(machine_, bytes, kReduceThreads);
    const int64_t blocks = params.by_thread != 0 ? ceil_div(kept_, threads) * chunks_
                                                 : ceil_div(kept_ * chunks_ * kSumLanes, threads);
    check_blocks(blocks);
    enqueue(machine_, lowered_.is_wide ? KernelId::element_reduce_wide : KernelId::element_reduce,
            {.blocks_x = static_cast<int>(blocks),
             .threads = threads,
             .shared = static_cast<size_t>(threads * bytes)},
            params);
  }
  void combine(const std::byte* from, std::byte* to, int64_t count) const {
    const ReduceTreeParams params{
        reinterpret_cast<const uint8_t*>(from), reinterpret_cast<uint8_t*>(to),       kept_, count,
        static_cast<int32_t>(reduction_.op),    static_cast<int32_t>(reduction_.type)};
    const int64_t blocks = kept_ * ceil_div(count, kTreeElements);
    check_blocks(blocks);
    enqueue(machine_, KernelId::reduce_tree,
            {.blocks_x = static_cast<int>(blocks), .threads = 256, .shared = kTreeElements * 8},
            params);
  }
  static void check_blocks(int64_t blocks) {
    if (blocks > INT32_MAX)
      throw Error(ErrorKind::kLimit, "a reduction to {} chunks of elements, expected at most {}",
                  blocks, INT32_MAX);
  }
  // Writes the results to the output, rounded to its type.
  void write(std::byte* results) const {
    ElementProgram copy;
    copy.rank = kept_dimensions_;
    copy.shape = program_.shape;
    ElementTransfer from{0, {results, reduction_.type, {}}};
    int64_t stride = 1;
    for (int d = kept_dimensions_ - 1; d >= 0; --d) {
      from.elements.strides[static_cast<size_t>(d)] = stride;
      stride *= program_.shape[static_cast<size_t>(d)];
    }
    copy.inputs.push_back(from);
    const ElementType to = reduction_.out.type;
    if (to == ElementType::kF16 || to == ElementType::kBF16) {
      const ElementOp round =
          to == ElementType::kF16 ? ElementOp::kRoundF16 : ElementOp::kRoundBF16;
      copy.code.push_back({.op = round, .out = 1});
    }
    copy.outputs.push_back({static_cast<uint8_t>(copy.code.size()), reduction_.out});
    VEERY_CHECK(run_elements(machine_, copy));
  }

  Machine& machine_;
  const ElementProgram& program_;
  const ElementReduction& reduction_;
  const LoweredSteps& lowered_;
  int kept_dimensions_;
  int64_t kept_, reduced_, chunks_, bytes_;
};

}  // namespace

QueueMemory::QueueMemory(Machine& machine, size_t bytes) : machine_(machine) {
  machine.use_in_this_thread();
  data_ = machine.pool()->allocate(bytes);
}
QueueMemory::~QueueMemory() { machine_.release(data_); }

bool run_elements(Machine& machine, const ElementProgram& program) {
  ElementProgram own = program;
  collapse(own);
  const std::optional<LoweredSteps> lowered = lower(own);
  if (!lowered) return false;
  if (own.reduction)
    Reducer(machine, own, *lowered).run();
  else
    map_elements(machine, *lowered);
  return true;
}

}  // namespace veery::gpu
