// dispatch.h: the rows of a plan: flat records of a kernel and its operands.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dtype/dtype.h"
#include "graph/ops/ops.h"
#include "kernels/token_mask.h"

namespace veery {

inline constexpr int kPagePositions = 256;  ///< positions in a page of a cache
inline constexpr int kLanes = 16;           ///< rows of a weight panel, positions of a key tile

/// The memory layout of an operand.
enum class Layout : uint8_t {
  kNone,        ///< absent
  kRowMajor,    ///< row r at data + r * stride bytes; blocks of quantised types as in the file
  kPanels,      ///< weights: panels of 16 rows of `stride` bytes (kernels/cpu/panels/panels.h)
  kKeyPages,    ///< pages of `stride` bytes: [kv_head][position / 16][head_dim][position % 16]
  kValuePages,  ///< pages of `stride` bytes: [kv_head][position][head_dim]
  kBlocks,      ///< f32, blocks of `stride` bytes: recurrent states (StateKind::kBlock)
};

/// Codes in Operand::rows for numbers of rows that vary between runs (Dim::code).
inline constexpr int64_t kTokenRows = Dim(Symbol::kRows).code();
inline constexpr int64_t kOutputRows = Dim(Symbol::kOutputs).code();
inline constexpr int64_t kSequenceRows = Dim(Symbol::kSequences).code();

/// One input or output: a matrix, a weight or a cache. `rows` may be symbolic.
struct Operand {
  std::byte* data = nullptr;
  int64_t stride = 0;  ///< bytes
  int64_t rows = 0;    ///< a count or one of the codes above; pages: key heads
  int32_t cols = 0;    ///< pages: key heads x head_dim
  DType dtype = DType::kF32;
  Layout layout = Layout::kNone;
  int16_t group = 0;   ///< pages: index of the page group
  int32_t stack = 1;   ///< panels: number of stacked matrices, each in panels of its own
  uint8_t format = 0;  ///< panels: WeightFormat::panels (kernels.h)
  /// On a device: the index of an input of the run (TableUse::inputs) whose address lower() sets;
  /// `data` is then an offset in bytes. -1: any other operand.
  int16_t input = -1;

  explicit operator bool() const { return layout != Layout::kNone; }
  /// The matrix `index` of a stack in panels.
  Operand of_stack(int64_t index) const {
    Operand part = *this;
    part.rows = rows / stack;
    part.stack = 1;
    part.data += index * ((part.rows + kLanes - 1) / kLanes) * stride;
    return part;
  }
  template <typename T>
  T* row(int64_t r) const {
    return reinterpret_cast<T*>(data + r * stride);
  }
};

/// Returns a row-major operand without padding, and without an address.
inline Operand row_major(const ValueType& type) {
  return {.stride = static_cast<int64_t>(byte_size(type.dtype, type.shape.cols())),
          .rows = type.shape.rows().code(),
          .cols = static_cast<int32_t>(type.shape.cols()),
          .dtype = type.dtype,
          .layout = Layout::kRowMajor};
}

inline bool in_panels(const Operand& o) { return o.layout == Layout::kPanels; }

inline bool in_pages(const Operand& o) {
  return o.layout == Layout::kKeyPages || o.layout == Layout::kValuePages;
}
/// Whether an operand is a KV cache or a recurrent state.
inline bool is_state(const Operand& o) { return in_pages(o) || o.layout == Layout::kBlocks; }

/// The page table of one sequence in one page group. In a KV cache, position p is in
/// pages[(p / 256) % count]; `count` entries suffice for the context or form the ring of a sliding
/// window. In a recurrent layer, the state after p positions is pages[p % count]; a run keeps its
/// last `count` states.
struct PageTable {
  const int32_t* pages = nullptr;
  int32_t count = 0;
};

/// Consecutive token rows of a run that belong to one sequence, at consecutive positions.
struct Span {
  int32_t sequence = 0;  ///< < RunShape::sequences
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t position = 0;  ///< of the first row
  /// Number of positions, from 0 on, that all rows attend to: a prefix (Mask::kPrefix) or the
  /// output of an encoder (Mask::kSource).
  int32_t visible = 0;

  int32_t end_row() const { return first_row + rows; }
  int32_t end_position() const { return position + rows; }
};

/// The shape of one run: its rows, their sequences, and the page tables of these. (Values that vary
/// between runs are inputs of the graph, which kernels get as operands.) The addresses of the
/// arrays do not change; the engine writes them before a run.
struct RunShape {
  int32_t rows = 0;                      ///< tokens of this run
  int32_t outputs = 0;                   ///< number of requested outputs
  int32_t span_count = 0;                ///< spans; every row belongs to exactly one
  int32_t sequences = 0;                 ///< number of sequences with page tables
  const Span* spans = nullptr;           ///< [span_count] in the order of rows
  const int32_t* span_of = nullptr;      ///< [rows] index of its span
  const int32_t* output_rows = nullptr;  ///< [outputs] ascending
  const PageTable* tables = nullptr;     ///< [group][sequences]
  /// The tokens that top_k() may choose for each output. The host fills it while the device runs
  /// the steps before top_k(). nullptr: all tokens.
  TokenMask* mask = nullptr;

  /// The number of rows that a value of Operand::rows stands for in this run.
  int64_t count(int64_t code) const {
    return code >= 0               ? code
           : code == kTokenRows    ? rows
           : code == kSequenceRows ? span_count
                                   : outputs;
  }
  /// The token row of the run that row `r` of a value with rows `code` belongs to.
  int64_t token_row(int64_t code, int64_t r) const {
    return code == kOutputRows ? output_rows[r] : r;
  }
  const Span& span(int64_t row) const { return spans[span_of[row]]; }
  int32_t sequence(int64_t row) const { return span(row).sequence; }
  /// The position of a row in its sequence.
  int32_t position(int64_t row) const {
    const Span& own = span(row);
    return own.position + static_cast<int32_t>(row) - own.first_row;
  }
  const PageTable& table(int group, int seq) const { return tables[group * sequences + seq]; }
};

/// A worker thread, number `index` of `count`. Its scratch memory (64-byte aligned) keeps its
/// contents between the phases of a kernel.
struct Worker {
  int index = 0;
  int count = 1;
  std::byte* scratch = nullptr;
  /// [count] items of each worker's share that are taken (take_items()); zeros before a dispatch.
  /// nullptr: shares are fixed.
  std::atomic<int32_t>* taken = nullptr;
};

struct Dispatch;
/// Does this worker's share of the dispatch. All workers call it; a barrier follows. Never throws,
/// allocates, locks or logs. Which worker computes an element must not change its bits.
using KernelFn = void (*)(const Dispatch&, const RunShape&, const Worker&);

struct Dispatch {
  KernelFn run = nullptr;
  std::array<Operand, kMaxInputs> in;
  std::array<Operand, kMaxOutputs> outputs;
  std::byte* work = nullptr;  ///< shared between the phases of a kernel, 64-byte aligned
  Attr attr;

  const Operand& out() const { return outputs[0]; }
  Operand& out() { return outputs[0]; }
  template <typename A>
  const A& as() const {
    return attr.as<A>();
  }
};

/// The largest run of a plan.
struct RunExtent {
  int64_t rows = 1;
  int64_t spans = 1;
  int workers = 1;
};

/// Phases of a kernel, with a barrier after each.
using KernelPhases = std::array<KernelFn, 4>;

/// An implementation of an op in up to four phases, for example quantise the rows, then multiply.
struct Kernel {
  std::string_view name;  ///< "linear_q4_1_vnni_row"
  KernelPhases phases{};
  /// Bytes of Dispatch::work; nullptr: none.
  size_t (*work)(const Dispatch&, const RunExtent&) = nullptr;
  /// Bytes of Worker::scratch; nullptr: none.
  size_t (*scratch)(const Dispatch&, const RunExtent&) = nullptr;
  int main_phase = 0;      ///< the phase that does most of the work, for profiles
  float weight_share = 1;  ///< the least share of the weights' bytes that a run reads
};

/// A worker's share [begin, end) of `count` items, in units of `unit`.
struct Share {
  int64_t begin, end;
};
inline Share share(int64_t count, int64_t unit, const Worker& worker) {
  const int64_t units = (count + unit - 1) / unit;
  const int64_t begin = units * worker.index / worker.count * unit;
  const int64_t end = units * (worker.index + 1) / worker.count * unit;
  return {begin, end < count ? end : count};
}

/// Calls fn(owner, item) for the items [0, count(owner)) of this worker's share, then for items
/// that other workers have not started. So a worker whose core is busy with other programs does not
/// delay the rest.
template <typename Count, typename Fn>
void take_items(const Worker& worker, const Count& count, const Fn& fn) {
  for (int k = 0; k < (worker.taken != nullptr ? worker.count : 1); ++k) {
    const int owner = (worker.index + k) % worker.count;
    const int64_t items = count(owner);
    const auto next = [&](int64_t last) -> int64_t {
      return worker.taken != nullptr ? worker.taken[owner].fetch_add(1, std::memory_order_relaxed)
                                     : last + 1;
    };
    for (int64_t i = next(-1); i < items; i = next(i)) fn(owner, i);
  }
}

}  // namespace veery
