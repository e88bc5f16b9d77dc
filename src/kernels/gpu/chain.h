// chain.h: chained decode, up to kMaxChained steps in one submission.
#pragma once
#include <optional>

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/run_inputs.h"

namespace veery::gpu {

/// The results of a step from which a chain takes the next tokens: the argmax of each row, or the
/// outputs of top_k().
struct ChainEnd {
  Matrix best;  ///< i32
  Matrix values{}, mass{};
  bool draws() const { return static_cast<bool>(values); }  ///< whether the table has top_k()
};
/// Returns the ChainEnd of a table; absent if its results are something else, or if the machine has
/// no kernel that continues with them.
std::optional<ChainEnd> chain_end(const Machine& machine, std::span<const Step> table,
                                  std::span<const Operand> results, const TableUse& use);
/// Bytes that a chain needs after the run inputs.
size_t chain_bytes(const ChainEnd& end, int64_t rows);

/// A loop of launches if the machine has loops; otherwise a few steps, unrolled.
class Chain {
 public:
  /// `step`: the launches of a run of the table. They refer to `inputs`, which has the run inputs
  /// in the given layout and chain_bytes() bytes after them.
  Chain(Machine& machine, const RunInputsLayout& layout, std::byte* inputs,
        std::vector<Launch> step, const ChainEnd& end, int64_t rows);

  int32_t max_tokens() const { return max_tokens_; }  ///< per row; 0: no room for two steps
  void run(const RunShape& shape, std::span<const ChainRow> rows);
  std::span<const int32_t> chosen(int64_t row) const;

 private:
  std::vector<Launch> repeated(std::vector<Launch> step, ChainAdvanceParams advance,
                               int times) const;

  const RunInputsLayout& layout_;
  KernelId kernel_;
  bool draws_;
  size_t rows_, bytes_;
  int32_t max_tokens_ = kMaxChained;
  Memory made_, again_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace veery::gpu
