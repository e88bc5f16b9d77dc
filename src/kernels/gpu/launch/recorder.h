// recorder.h: the recorder of launches, the rows of launch tables, and helpers of the launch files.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "kernels/common/table.h"
#include "kernels/gpu/machine/machine.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

struct LaunchRow;
class DequantizedWeights;

/// Collects the launches of a table.
struct Recorder {
  Machine& machine;
  Run run;
  int64_t rows, outputs, spans;  ///< at most
  bool exact = false;
  std::vector<int32_t> group_pages{};  ///< pages of a sequence in each group, at most
  int64_t positions = 0;               ///< of a sequence, at most
  std::byte* scratch = nullptr;  ///< LaunchRow::scratch bytes, shared by all steps of the table
  std::vector<Memory> memory{};  ///< that launches refer to
  std::vector<Launch> launches{};
  /// Weights that dequantize_weights() made, by the first weight of a product.
  std::map<const std::byte*, std::shared_ptr<const Memory>> dequantized{};
  std::byte* dequantized_scratch = nullptr;  ///< for weights that each run dequantises anew
  /// Steps whose only result is bf16, and the steps that read it (find_bf16_handovers()).
  std::set<const Dispatch*> bf16_makers{}, bf16_readers{};
  /// RoPE steps that attend_decode() carries out, and the RoPE step of each attention step that is
  /// such a launch (fuse_decode_steps()).
  std::set<const Dispatch*> fused_ropes{};
  std::map<const Dispatch*, const Dispatch*> decode_ropes{};
  /// Whether attention to bf16 caches uses tensor cores. It does if some product of the model does,
  /// because the model's results then differ from the CPU's in any case.
  bool mma_attention = false;

  /// The most rows that a code of Operand::rows stands for.
  int64_t max_rows(int64_t code) const {
    return code >= 0 ? code : code == kTokenRows ? rows : code == kOutputRows ? outputs : spans;
  }
  Matrix matrix(const Operand& o) const {
    return {reinterpret_cast<float*>(o.data), o.stride / 4, o.rows, o.cols};
  }
  /// The table row that implements a step.
  const LaunchRow* row_of(const Step& step) const;
  /// Token ids, positions or row indices.
  static const int32_t* ids(const Operand& o) { return reinterpret_cast<const int32_t*>(o.data); }
  template <typename Params>
  void add(KernelId kernel, const LaunchSize& size, const Params& params) {
    launches.push_back(Launch::of(kernel, size, params));
  }
  template <typename Params>
  void add(const KernelKey& key, const LaunchSize& size, const Params& params) {
    add(kernel_for(key), size, params);
  }
};

/// An implementation of an op. Each launch file has a table of them (tables.h).
struct LaunchRow {
  Op op;
  bool (*accepts)(const Dispatch&, const KernelChoice&);
  std::string_view name;  ///< as `veery plan` shows it
  size_t (*workspace)(const Dispatch&, const RunExtent&);
  void (*record)(const Dispatch&, Recorder&);
  /// A machine that has this kernel has all others that `record` launches.
  KernelId needs;
  /// Whether a thread block has enough shared memory; nullptr: always.
  bool (*fits)(const Dispatch&, const Machine&) = nullptr;
  /// Bytes of Recorder::scratch; nullptr: none.
  size_t (*scratch)(const Dispatch&, const Recorder&) = nullptr;
};
/// The first row that the machine has for these operands; nullptr if there is none.
const LaunchRow* find_row(Op op, const Dispatch& dispatch, const KernelChoice& choice,
                          const Machine& machine);
/// Whether there is a row for any operands.
bool has_row(Op op, const Machine& machine);

// Constants and helpers of several launch files.

/// The most columns of a row that fit into shared memory with the other data of a kernel.
inline constexpr int kMaxStagedColumns = 32768;
/// Plans with at least this number of rows use the kernels of --relaxed, if the machine has them.
inline constexpr int64_t kRelaxedRows = 256;
/// Up to this number of rows, attention splits the positions of each over thread blocks.
inline constexpr int kSplitRows = 4;
/// The most thread blocks that share the positions of a row and its KV head.
inline constexpr int kMaxSplits = 64;
/// Pairs of a group in experts_gemm().
inline constexpr int kFewPairs = 8, kManyPairs = 32;

/// Whether kernels may load four elements of a row at a time.
inline bool is_vectorizable(const Matrix& m) {
  return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride % 4 == 0;
}

/// Whether an operand holds one i32 a row, without gaps.
inline bool is_ids(const Operand& o) {
  return is_matrix(o, DType::kI32) && o.stride == int64_t{sizeof(int32_t)};
}

inline LaunchSize launch_size(int64_t blocks, int threads, size_t shared = 0) {
  return {.blocks_x = static_cast<int>(blocks), .threads = threads, .shared = shared};
}
ActivationParams activation_params(const ActivateAttr& attr);

/// Whether tensor cores multiply bf16.
inline bool has_tensor_cores(const Machine& machine) {
  return machine.has(KernelId::gemm_mma_bf16);
}
/// Whether some layer has bf16 weights that tensor cores multiply. The output head does not count,
/// as not all tables of a model have it.
bool has_mma_gemm(std::span<const Step> steps, const Machine& machine);
/// Whether products with these weights are sequential fma chains.
inline bool uses_fma(WeightFormat format, bool tensor_cores) {
  return is_fma_format(format) || (format == kBF16 && !tensor_cores);
}
/// Whether a product is of weights in panels; relaxed.cc takes some of those.
bool accepts_linear(const Dispatch& d, const KernelChoice& choice);

/// Shared memory of experts_gemv(): half of an SM's, so that it holds two thread blocks, if that is
/// enough for the weight tiles in flight.
int experts_gemv_smem(const Machine& machine, WeightFormat format);
/// Whether experts_gemv() has shared memory for rows of `cols` columns.
bool fits_experts_gemv(const Machine& machine, WeightFormat format, int cols);
/// Quantises the rows that pairs multiply, one per thread block.
void record_quantize_pairs(const Matrix& x, const Activations& act, int64_t rows, int threads,
                           Recorder& to);
/// Products of groups of pairs. `panels`: of a weight; `groups`: at most; `many`: groups of
/// kManyPairs.
void record_experts_gemm(const ExpertGemmParams& a, int panels, int groups, bool many,
                         Recorder& to);
/// The same by fma chains.
void record_experts_exact(const ExpertGemmParams& a, int panels, int groups, bool exact,
                          Recorder& to);

Cache cache_of(const Operand& o);
/// KV blocks that a sequence may have in the pages of a group.
int32_t max_kv_blocks(const Recorder& to, int16_t group);
QkvRopeParams qkv_rope_params(const Dispatch& d, const Recorder& to);
/// Bytes of softmax states of split KV (AttendParams::partials).
size_t attend_scratch(const Dispatch& d, const Recorder& to);

// Passes over the steps before they are recorded.

/// Whether fuse_decode_steps() may fuse two successive steps in tables of `rows` rows.
bool may_fuse_decode(Op first, Op second, int64_t rows);
/// Finds the RoPE steps of one token row that share a launch with the attention step after them.
void fuse_decode_steps(std::span<const Step> steps, Recorder& to);

/// Dequantises the weights of the table's relaxed products, or allocates memory for those that each
/// run dequantises anew.
void dequantize_weights(std::span<const Step> steps, DequantizedWeights& dequantized, Recorder& to);
/// Finds products that hand their result to the next one as bf16. `results`: what the host reads.
void find_bf16_handovers(std::span<const Step> steps, std::span<const Operand> results,
                         Recorder& to);

}  // namespace veery::gpu
