#include "kernels/reference/reference.h"

namespace veery {

std::span<const KernelRows> reference_tables() {
  static const KernelRows tables[] = {reference_elementwise(),
                                      reference_rows(),
                                      reference_linear(),
                                      reference_rms_norm(),
                                      reference_route(),
                                      reference_moe(),
                                      reference_heads(),
                                      reference_layer_norm(),
                                      reference_rope(),
                                      reference_attend(),
                                      reference_recurrence(),
                                      reference_slstm(),
                                      reference_scan_chunks(),
                                      reference_cross_entropy(),
                                      reference_choose_positions(),
                                      reference_cast(),
                                      reference_attend_back(),
                                      reference_attend_tangent(),
                                      reference_heads_back(),
                                      reference_moe_back(),
                                      reference_norm_tangent(),
                                      reference_recurrence_back(),
                                      reference_rope_back(),
                                      reference_slstm_back(),
                                      reference_top_k_back()};
  return tables;
}

}  // namespace veery
