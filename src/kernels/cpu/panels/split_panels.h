// split_panels.h: Q8_0 panels split into three parts by bit significance, for the pruned argmax
// (kernels/cpu/pruned_head/pruned_argmax.h), which reads only the first part of most panels.
//
// Memory layout of a weight, u = q + 128 being the 8-bit code:
//   upper part of all panels   bits 7 to 4 of u in the layout of Q4_0, with the scale d: a valid
//                              Q4_0 matrix with a sixteenth of the values
//   middle part of all panels  bit 3 of u, bit j of a byte belonging to vector j
//   lower part of all panels   bits 2 to 0 of u, in the layout of 3-bit groups
//   PruningHistory             kHistoryBytes, initially zero
// linear_kernel() also takes weights of this layout.
#pragma once
#include <array>

#include "kernels/cpu/panels/panels.h"

namespace veery {

/// WeightFormat::panels of this layout.
inline constexpr uint8_t kSplitFormat = 1;

/// Offsets of the parts, in bytes from the beginning of the weight. A unit is one block of 32
/// columns of a panel of 16 rows.
class SplitPanels {
 public:
  static constexpr int kUpperBits = 4, kMiddleBits = 1, kLowerBits = 3;
  static constexpr int kScale = 64 * kUpperBits;  ///< offset of d in a unit of the upper part
  static constexpr int kUpper = kScale + 32;      ///< bytes of a unit of the upper part
  static constexpr int kMiddle = 64 * kMiddleBits;
  static constexpr int kLower = 64 * kLowerBits;
  static constexpr int kWhole = kUpper + kMiddle + kLower;
  static constexpr int kHistoryBytes = 64;

  SplitPanels(int64_t rows, int64_t cols) : panels_((rows + 15) / 16), blocks_(cols / 32) {}
  int64_t panels() const { return panels_; }
  int64_t upper_bytes() const { return blocks_ * kUpper; }  ///< of one panel
  int64_t middle_bytes() const { return blocks_ * kMiddle; }
  int64_t lower_bytes() const { return blocks_ * kLower; }
  int64_t upper(int64_t panel) const { return panel * upper_bytes(); }
  int64_t middle(int64_t panel) const { return panels_ * upper_bytes() + panel * middle_bytes(); }
  int64_t lower(int64_t panel) const {
    return panels_ * (upper_bytes() + middle_bytes()) + panel * lower_bytes();
  }
  int64_t history() const {
    return (panels_ * blocks_ * kWhole + kHistoryBytes - 1) / kHistoryBytes * kHistoryBytes;
  }
  int64_t bytes() const { return history() + kHistoryBytes; }

  /// Returns the three parts as PanelKernels::parts expects them.
  std::array<PanelPart, kMostParts> parts(const std::byte* weight) const {
    return {{{weight, upper_bytes()},
             {weight + middle(0), middle_bytes()},
             {weight + lower(0), lower_bytes()}}};
  }

 private:
  int64_t panels_, blocks_;
};
static_assert(SplitPanels::kWhole == panel_format(DType::kQ8_0).unit);
static_assert(SplitPanels::kUpper == panel_format(DType::kQ4_0).unit);

}  // namespace veery
