// masked_run.h: a table in two parts, between which the host says what top_k() may take.
#pragma once
#include <optional>

#include "kernels/gpu/gpu.h"
#include "kernels/token_mask.h"

namespace veery::gpu {

/// While the first part runs, up to top_k(), the host fills the masks of the outputs, which go to
/// the device in front of the second.
class MaskedRun {
 public:
  /// Whether the launches have a top_k().
  static bool possible(std::span<const Launch> launches);
  /// `launches`: of a run of the table; `slots`: what goes to the device first; `back`: what comes
  /// back behind them, of `outputs` outputs at most.
  MaskedRun(Machine& machine, std::vector<Launch> launches, const Transfers& slots,
            std::vector<Transfers::Back> back, int64_t outputs);

  std::byte* input() { return first_->input(); }
  const std::byte* output(size_t i) { return second_->output(i); }
  /// `bytes`: of each block that comes back. Throws what `mask` throws, when the device has ended.
  void run(TokenMask& mask, int32_t outputs, std::span<const size_t> bytes);

 private:
  int64_t tokens_ = 0;
  Memory masks_;
  std::unique_ptr<Recording> first_, second_;
};

}  // namespace veery::gpu
