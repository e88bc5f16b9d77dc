// masked_run.h: a table in two parts, between which the host computes the token masks of
// constrained decoding.
#pragma once
#include <optional>

#include "kernels/gpu/gpu.h"
#include "kernels/token_mask.h"

namespace veery::gpu {

/// While the device runs the first part, up to top_k(), the host fills the masks of the outputs.
/// They are copied to the device before the second part.
class MaskedRun {
 public:
  /// Whether the launches have a top_k().
  static bool possible(std::span<const Launch> launches);
  /// `launches`: of a run of the table; `inputs`: copied to the device first; `back`: copied back
  /// after them, for up to `outputs` outputs.
  MaskedRun(Machine& machine, std::vector<Launch> launches, const Transfers& inputs,
            std::vector<Transfers::Back> back, int64_t outputs);

  std::byte* input() { return first_->input(); }
  const std::byte* output(size_t i) { return second_->output(i); }
  /// `bytes`: of each block that is copied back. Throws what `mask` throws, after the device has
  /// finished.
  void run(TokenMask& mask, int32_t outputs, std::span<const size_t> bytes);

 private:
  int64_t tokens_ = 0;
  Memory masks_;
  std::unique_ptr<Recording> first_, second_;
};

}  // namespace veery::gpu
