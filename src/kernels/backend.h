// backend.h: the interface of everything that runs plans: its memory, the layout of weights, the
// choice of kernels, and tables made ready to run.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "kernels/chain_row.h"
#include "kernels/kernels.h"

namespace veery {

/// A row of a table and the op that it carries out. Addresses are in the device's memory; inputs of
/// the run (Operand::input) have none yet, unless the backend runs on the host.
struct Step {
  Op op;
  Dispatch dispatch;
};

/// Memory of a table that only a backend of the host uses.
struct HostMemory {
  std::span<std::byte> values;   ///< of all steps
  std::byte* scratch = nullptr;  ///< of the first worker
  size_t scratch_stride = 0;     ///< from one worker to the next
};

/// An input of a run, which the host writes before each run.
struct RunInput {
  Operand host;  ///< in the host's memory
  Advance advance = Advance::kNone;
};

/// What a table is made ready for.
struct TableUse {
  const RunShape* shape = nullptr;   ///< its page tables have the sizes that all runs have
  int groups = 0;                    ///< of page tables
  int64_t rows = 1, outputs = 1;     ///< at most, of a run
  int64_t sequences = 0;             ///< at most; 0: as many as there are page tables for
  bool exact = false;                ///< KernelChoice::exact
  size_t first_fetched = SIZE_MAX;   ///< results from this one on come to the host by fetch() only
  std::span<const RunInput> inputs;  ///< Operand::input is an index of these
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
  double least = 0;   ///< seconds that each step takes at least: a launch, or a barrier
};

/// A table on its device.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs it on the values of these shape; returns when all results are there, but for those that
  /// fetch() brings. Throws kIo if the device fails, and what a mask of the shape throws.
  virtual void run(const RunShape& shape) = 0;
  /// As run(), but row after row, each begun when what is before it has ended; adds the seconds
  /// that each row took on the device to `seconds` (one entry a row). Results stay where they are.
  /// Throws kUnsupported where the device cannot time them.
  virtual void run_profiled(const RunShape& shape, std::vector<double>& seconds) = 0;
  /// Brings result `i` of the last run to the host. Throws kIo if the device fails.
  virtual void fetch(size_t i) = 0;
  /// Tokens of a row that a chain makes at most; 0: this table cannot be chained. May make what
  /// chains need.
  virtual int32_t chain_steps() { return 0; }
  /// Whether rows of a chain may be other than greedy.
  virtual bool chain_draws() const { return false; }
  /// Runs it again and again without coming back to the host, for shape of one row a sequence, as
  /// many as there are of `rows`: the token of a row is what was chosen or drawn of its results the
  /// time before, its position the next one, until it has all its tokens, or one that it stops at,
  /// or the settings want more than the most probable tokens. Throws kIo if the device fails.
  virtual void run_chain(const RunShape&, std::span<const ChainRow>) {}
  /// The tokens that the last chain made of a row.
  virtual std::span<const int32_t> chosen(int64_t) const { return {}; }
  /// Where the host finds result `i` of those that lower() was asked for.
  virtual const std::byte* result(size_t i) const = 0;
};

/// What a file holds of a weight, and how a graph reads it.
struct WeightUse {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  int64_t stack = 1;           ///< matrices below each other, rows of all of them
  bool only_gathered = false;  ///< rows are looked up by ids, and nothing else reads it
  bool argmax = false;         ///< of its products with a row often only the largest is needed
  bool in_file = false;        ///< its rows lie in a mapped file as they are
};

/// What runs plans: the memory of a device, the layout of weights, the choice of kernels, and
/// tables made ready to run. The CPU is a backend too (kernels/cpu/cpu_backend.h).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device& device() = 0;
  /// Whether kernels are functions of the host: they read and write the host's memory, and inputs
  /// of a run where the host has them.
  virtual bool runs_on_host() const { return false; }
  /// The threads that share the work of a kernel, each with scratch memory of its own.
  virtual int workers() const { return 0; }
  /// The instruction set of its kernels; empty if they have one only.
  virtual std::string_view target_name() const { return {}; }
  /// Whether many rows are computed in another order than the CPU's, which depends on how many they
  /// are: docs/numerics.md.
  virtual bool relaxed() const { return false; }
  /// Whether there is any kernel for `op`.
  virtual bool has(Op op) const = 0;

  /// The operand of a matrix, all but its address; throws kUnsupported naming the type if there is
  /// no layout for it.
  virtual Operand weight(const WeightUse& use) const = 0;
  /// Whether kernels read such a weight in its file, so that it needs no memory.
  virtual bool reads_in_file(const WeightUse&) const { return false; }
  /// Bytes of such an operand.
  virtual size_t weight_bytes(const Operand& weight) const = 0;
  /// Lays out the rows [first, last) of one matrix of a stack: `rows` are those rows as the file
  /// has them, `packed` is where the matrix begins in the host's memory. `first` is a multiple of
  /// 16, `last` too or the end. Callable from several threads for different rows.
  virtual void pack(const Operand& weight, const std::byte* rows, int64_t first, int64_t last,
                    std::byte* packed) const = 0;

  /// The kernel for `op` on these operands. Throws kUnsupported, naming op, types and device, if
  /// there is none.
  virtual Kernel choose(Op op, const Dispatch& dispatch, const KernelChoice& choice) const = 0;
  /// Whether lower() may compute two successive steps in one kernel, in tables of `rows` rows. The
  /// memory of the first step's inputs must then not overlap the outputs of the second step.
  virtual bool may_fuse(Op /*first*/, Op /*second*/, int64_t /*rows*/) const { return false; }
  /// `results`: what the host wants to read after a run.
  virtual std::unique_ptr<Executable> lower(std::span<const Step> steps,
                                            std::span<const Operand> results,
                                            const TableUse& use) = 0;

  /// Seconds that runs so far have waited for the device.
  virtual double waited() const { return 0; }
  /// One measurement, of a few milliseconds. Throws kUnsupported as Executable::run_profiled().
  virtual PeakRates peak_rates(std::span<const MemoryPiece> weights) = 0;
};

}  // namespace veery
