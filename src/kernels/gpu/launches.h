// launches.h: from a row of a table to launches of kernels.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "kernels/gpu/gpu.h"

namespace veery::gpu {

struct LaunchRow;
class ExpandedWeights;

/// What launches are made with, and where they go.
struct Recorder {
  Machine& machine;
  Run run;
  const Slots& slots;            ///< the host's, whose addresses operands have
  int64_t rows, outputs, spans;  ///< at most
  bool exact = false;
  const int32_t* types = nullptr;  ///< TableUse::types
  int64_t positions = 0;           ///< of a sequence, at most
  std::byte* parts = nullptr;      ///< part_bytes(): of all rows of the table, one after the other
  std::vector<Memory> memory{};    ///< that launches refer to
  std::vector<Launch> launches{};
  /// Weights that expand_weights() made, by the first weight of a product.
  std::map<const std::byte*, std::shared_ptr<const Memory>> expanded{};
  std::byte* scratch = nullptr;  ///< for those that have no memory of their own
  /// Rows of the table whose only result is bf16, and those that read it.
  std::set<const Dispatch*> makers{}, readers{};
  /// Whether attention to caches of bf16 is by tensor cores, too, as products of some layer are, so
  /// that there are no bits of the CPU to keep.
  bool cores = false;

  int64_t most(int64_t code) const {
    return code >= 0 ? code : code == kTokenRows ? rows : code == kOutputRows ? outputs : spans;
  }
  Matrix matrix(const Operand& o) const {
    return {reinterpret_cast<float*>(o.data), o.stride / 4, o.rows, o.cols};
  }
  /// How a row of the table is carried out.
  const LaunchRow* row_of(const Step& step) const;
  /// Ids or positions: of a slot, where they are in the device's memory.
  const int32_t* ids(const Operand& o) const;
  template <typename A>
  void add(KernelId kernel, const LaunchSize& size, const A& arguments) {
    launches.push_back(Launch::of(kernel, size, arguments));
  }
};

/// Of experts_row(): two blocks of threads are to have room on a processor, where that is enough
/// for what is on its way.
inline int experts_room(const Machine& machine, Format format) {
  constexpr int kHalf = 113 << 10;
  return format == kBF16 || machine.most_shared() < kHalf ? machine.most_shared() : kHalf;
}

/// Whether there are tensor cores for floats.
inline bool has_cores(const Machine& machine) { return machine.has(KernelId::linear_tiles_bf16); }
/// Whether some layer has weights of bf16 that tensor cores multiply. The head is not asked, which
/// not all tables of a model have.
bool has_core_products(std::span<const Step> steps, const Machine& machine);
/// Whether products are chains of fma there.
inline bool by_chain(Format format, bool cores) {
  return is_chained(format) || (format == kBF16 && !cores);
}

/// Whether the machine has that, and room for rows of so many columns.
inline bool fits_experts_row(const Machine& machine, Format format, int cols) {
  return machine.has(KernelId::experts_row_q8) &&
         row_plan(format, 1, cols, false, experts_room(machine, format), RowPlan::kExpertWarps)
                 .stages >= RowPlan::kLeastStages;
}

/// Columns of a row that shared memory has room for, beside all else.
inline constexpr int kMostStaged = 32768;

/// A way to carry out an op.
struct LaunchRow {
  Op op;
  bool (*accepts)(const Dispatch&, const KernelChoice&);
  std::string_view name;
  size_t (*work)(const Dispatch&, const RunExtent&);
  void (*record)(const Dispatch&, Recorder&);
  KernelId needs;  ///< a machine has this one and all others that are launched, or none of them
  /// Whether its blocks have memory enough; nullptr: they have.
  bool (*fits)(const Dispatch&, const Machine&) = nullptr;
};
/// nullptr if the machine has none for these operands.
const LaunchRow* find_row(Op op, const Dispatch& dispatch, const KernelChoice& choice,
                          const Machine& machine);

/// Whether there is one for any operands.
bool has_row(Op op, const Machine& machine);

/// Bytes of Recorder::parts that attention or a choice of positions wants for so many rows; 0 for
/// other ops. `positions`: of
/// the longest sequence.
size_t part_bytes(const Step& step, int64_t rows, int64_t positions, const Machine& machine);

/// Rows of a plan from which on those machines that are relaxed (Machine::relaxed()) are.
inline constexpr int64_t kRelaxedRows = 256;

inline constexpr int kSplitRows = 4;  ///< up to so many rows, positions are spread over blocks

Cache cache_of(const Operand& o);
/// Blocks of 128 positions that a sequence may have in the pages of a group.
int32_t most_blocks(const Recorder& to, int16_t group);
Activate activate_of(const ActivateAttr& attr);

// The rows of launch_angles.cc.
bool takes_angles(const Dispatch& d, const KernelChoice& choice);
void record_angles(const Dispatch& d, Recorder& to);

// The rows of launch_experts.cc.
bool takes_route(const Dispatch& d, const KernelChoice& choice);
void record_route(const Dispatch& d, Recorder& to);
bool takes_moe(const Dispatch& d, const KernelChoice& choice);
/// Products of pairs as chains of fma. `panels`: of a weight; `groups`: at most.
void record_fma(const ExpertArguments& a, int panels, int groups, bool exact, Recorder& to);
bool takes_moe_exact(const Dispatch& d, const KernelChoice& choice);
template <bool kExact>  // of --exact
size_t moe_work(const Dispatch& d, const RunExtent& run);
template <bool kExact>
void record_moe(const Dispatch& d, Recorder& to);

// The rows of launch_recurrence.cc.
bool takes_scan(const Dispatch& d, const KernelChoice& choice);
bool fits_scan(const Dispatch& d, const Machine& machine);
void record_scan(const Dispatch& d, Recorder& to);
bool takes_conv1d(const Dispatch& d, const KernelChoice& choice);
void record_conv1d(const Dispatch& d, Recorder& to);
bool takes_slstm(const Dispatch& d, const KernelChoice& choice);
bool fits_slstm(const Dispatch& d, const Machine& machine);
void record_slstm(const Dispatch& d, Recorder& to);
bool takes_linear_heads(const Dispatch& d, const KernelChoice& choice);
void record_linear_heads(const Dispatch& d, Recorder& to);

// The rows of launch_wide.cc.
bool takes_wide(const Dispatch& d, const KernelChoice& choice);
void record_wide(const Dispatch& d, Recorder& to);
bool takes_uneven(const Dispatch& d, const KernelChoice& choice);  ///< heads of any width
void record_uneven(const Dispatch& d, Recorder& to);
bool takes_choice(const Dispatch& d, const KernelChoice& choice);
bool fits_choice(const Dispatch& d, const Machine& machine);
void record_choice(const Dispatch& d, Recorder& to);
/// Rows whose scores are kept at a time, at most.
int64_t choice_rows(int64_t rows, int64_t positions);

// The rows of launch_heads.cc.
bool takes_head_linear(const Dispatch& d, const KernelChoice& choice);
bool takes_head_linear_exact(const Dispatch& d, const KernelChoice& choice);
template <bool kExact>  // of --exact
size_t head_linear_work(const Dispatch& d, const RunExtent& run);
template <bool kExact>
void record_head_linear(const Dispatch& d, Recorder& to);
bool takes_rows(const Dispatch& d, const KernelChoice& choice);
bool takes_linear_one(const Dispatch& d, const KernelChoice& choice);
void record_linear_one(const Dispatch& d, Recorder& to);
bool takes_embed_rows(const Dispatch& d, const KernelChoice& choice);
void record_embed_rows(const Dispatch& d, Recorder& to);
void record_l2_norm(const Dispatch& d, Recorder& to);
void record_concat(const Dispatch& d, Recorder& to);
bool takes_sum_to(const Dispatch& d, const KernelChoice& choice);
void record_sum_to(const Dispatch& d, Recorder& to);
void record_shift(const Dispatch& d, Recorder& to);
void record_pool(const Dispatch& d, Recorder& to);
bool takes_top_k(const Dispatch& d, const KernelChoice& choice);
void record_top_k(const Dispatch& d, Recorder& to);

// The rows of launch_relaxed.cc.
bool takes_relaxed(const Dispatch& d, const KernelChoice& choice);
size_t relaxed_work(const Dispatch& d, const RunExtent& run);
void record_relaxed(const Dispatch& d, Recorder& to);
/// Brings the weights of a table's relaxed products to the form that these take, or finds memory
/// for those to which that is done in each run.
void expand_weights(std::span<const Step> steps, ExpandedWeights& expanded, Recorder& to);
/// Finds what may be handed over as bf16. `results`: what the host reads.
void find_rounded(std::span<const Step> steps, std::span<const Operand> results, Recorder& to);

// The rows of launch_linear.cc.
bool takes_linear(const Dispatch& d, const KernelChoice& choice);
size_t linear_work(const Dispatch& d, const RunExtent& run);
void record_linear(const Dispatch& d, Recorder& to);
void record_linear_argmax(const Dispatch& d, Recorder& to);
// Without tiles, rings of copies and wide atomics.
size_t few_work(const Dispatch& d, const RunExtent& run);
void record_few(const Dispatch& d, Recorder& to);
bool takes_few_argmax(const Dispatch& d, const KernelChoice& choice);
size_t few_argmax_work(const Dispatch& d, const RunExtent& run);
void record_few_argmax(const Dispatch& d, Recorder& to);
// Of --exact.
bool takes_exact(const Dispatch& d, const KernelChoice& choice);
size_t exact_work(const Dispatch& d, const RunExtent& run);
void record_exact(const Dispatch& d, Recorder& to);
bool takes_exact_argmax(const Dispatch& d, const KernelChoice& choice);
size_t exact_argmax_work(const Dispatch& d, const RunExtent& run);
void record_exact_argmax(const Dispatch& d, Recorder& to);

}  // namespace veery::gpu
