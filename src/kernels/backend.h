// backend.h: the interface of a device that runs plans: memory, weight layouts, choice of kernels
// and executable tables.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "kernels/chain_row.h"
#include "kernels/kernels.h"
#include "kernels/tensor/tensor_device.h"

namespace veery {

/// A row of a table and its op. Addresses are in the device's memory. Inputs of the run
/// (Operand::input) get their addresses in lower(), unless the backend runs on the host.
struct Step {
  Op op;
  Dispatch dispatch;
};

/// Memory of a table for a backend that runs on the host.
struct HostMemory {
  std::span<std::byte> values;   ///< of all steps, except results
  std::span<std::byte> results;  ///< of lower()
  std::byte* scratch = nullptr;  ///< of the first worker
  size_t scratch_stride = 0;     ///< bytes from one worker's scratch memory to the next
};

/// An input of a run, which the host writes before each run.
struct RunInput {
  Operand host;  ///< in the host's memory
  Advance advance = Advance::kNone;
};

/// The runs that a table is lowered for.
struct TableUse {
  const RunShape* shape = nullptr;   ///< its page tables have the sizes of all runs
  int groups = 0;                    ///< number of page groups
  int64_t rows = 1, outputs = 1;     ///< the most of a run
  int64_t sequences = 0;             ///< the most of a run; 0: RunShape::sequences
  bool exact = false;                ///< KernelChoice::exact
  size_t first_fetched = SIZE_MAX;   ///< results from this index on reach the host by fetch() only
  std::span<const RunInput> inputs;  ///< Operand::input is an index into these
  HostMemory memory = {};
};

/// Bytes in a device's memory.
struct MemoryPiece {
  const std::byte* data;
  size_t size;
};

/// Measured peak rates of a whole device.
struct PeakRates {
  double memory = 0;  ///< bytes per second of a plain loop that reads weights
  double f32 = 0;     ///< operations per second; a multiply-add is two
  double bf16 = 0;    ///< the same, of products of bf16
  double int8 = 0;    ///< the same, of products of int8
  double least = 0;   ///< the least seconds of a step: a kernel launch or a barrier
};

/// A table on its device.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs the table; returns when all results except those for fetch() are in the host's memory.
  /// Throws kIo if the device fails, and rethrows exceptions of the shape's mask.
  virtual void run(const RunShape& shape) = 0;
  /// As run(), but starts each row after the previous one has ended, and adds the seconds of each
  /// row on the device to `seconds` (one entry per row). Results are not copied to the host. Throws
  /// kUnsupported if the device cannot time rows.
  virtual void run_profiled(const RunShape& shape, std::vector<double>& seconds) = 0;
  /// Copies result `i` of the last run to the host. Throws kIo if the device fails.
  virtual void fetch(size_t i) = 0;
  /// The most tokens per row of run_chain(); 0: this table cannot be chained. The first call may
  /// allocate the memory of chains.
  virtual int32_t chain_steps() { return 0; }
  /// Whether rows of run_chain() need not be greedy.
  virtual bool chain_draws() const { return false; }
  /// Chained decode: runs the table repeatedly without the host. The shape has one token row per
  /// sequence and as many as there are `rows`. Each step samples a token for every row and feeds it
  /// to the next step at the next position. A row ends when it has ChainRow::most tokens or a stop
  /// token, or when sampling needs more than the most probable tokens. Throws kIo if the device
  /// fails.
  virtual void run_chain(const RunShape&, std::span<const ChainRow>) {}
  /// The tokens that the last chain produced for a row.
  virtual std::span<const int32_t> chosen(int64_t) const { return {}; }
  /// The address in the host's memory of result `i` of lower().
  virtual const std::byte* result(size_t i) const = 0;
};

/// The type and shape of a weight in the file, and how a graph reads it.
struct WeightUse {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  int64_t stack = 1;           ///< number of stacked matrices; `rows` counts the rows of all
  bool only_gathered = false;  ///< rows are looked up by ids, and nothing else reads it
  bool argmax = false;         ///< often only the largest of its products with a row is needed
  bool in_file = false;        ///< a mapped file holds the rows in this type
};

/// Runs plans on one device. Owns the choice of weight layouts and kernels, and makes executable
/// tables. The CPU is a backend too (kernels/cpu/backend/cpu_backend.h).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device& device() = 0;
  /// Whether kernels are functions of the host, which read and write the host's memory and read the
  /// inputs of a run in place.
  virtual bool runs_on_host() const { return false; }
  /// The threads that share the work of a kernel, each with scratch memory of its own.
  virtual int workers() const { return 0; }
  /// Whether GEMMs sum in an order that differs from the CPU's and depends on the number of rows
  /// (relaxed mode, docs/numerics.md).
  virtual bool relaxed() const { return false; }
  /// Whether there is any kernel for `op`.
  virtual bool has(Op op) const = 0;

  /// Returns the operand of a matrix, without its address. Throws kUnsupported, naming the type, if
  /// there is no layout for it.
  virtual Operand weight(const WeightUse& use) const = 0;
  /// Whether kernels read such a weight in the mapped file, so that it needs no memory.
  virtual bool reads_in_file(const WeightUse&) const { return false; }
  /// Bytes of such an operand.
  virtual size_t weight_bytes(const Operand& weight) const = 0;
  /// Packs the rows [first, last) of one matrix of a stack. `rows`: these rows in the file's
  /// layout; `packed`: the beginning of the packed matrix in the host's memory. `first` must be a
  /// multiple of 16, `last` a multiple of 16 or the number of rows. May be called from several
  /// threads for different rows.
  virtual void pack(const Operand& weight, const std::byte* rows, int64_t first, int64_t last,
                    std::byte* packed) const = 0;

  /// Returns the kernel for `op` on these operands. Throws kUnsupported, naming op, types and
  /// device, if there is none.
  virtual Kernel choose(Op op, const Dispatch& dispatch, const KernelChoice& choice) const = 0;
  /// Whether lower() may compute two successive steps in one kernel, in tables of `rows` rows. The
  /// memory of the first step's inputs must then not overlap the outputs of the second step.
  virtual bool may_fuse(Op /*first*/, Op /*second*/, int64_t /*rows*/) const { return false; }
  /// Makes an executable table. `results`: the operands that the host reads after a run.
  virtual std::unique_ptr<Executable> lower(std::span<const Step> steps,
                                            std::span<const Operand> results,
                                            const TableUse& use) = 0;

  /// Makes the interface to the kernels for tensors, which must not outlive the backend; nullptr:
  /// the device has none.
  virtual std::unique_ptr<TensorDevice> make_tensor_device() { return nullptr; }

  /// Seconds that all runs so far have waited for the device.
  virtual double waited() const { return 0; }
  /// Measures the peak rates, once, in a few milliseconds. Throws kUnsupported as
  /// Executable::run_profiled().
  virtual PeakRates peak_rates(std::span<const MemoryPiece> weights) = 0;
};

}  // namespace veery
