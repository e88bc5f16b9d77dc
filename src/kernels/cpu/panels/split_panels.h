// split_panels.h: panels of Q8_0 in three parts, for searches of the largest product with a row
// (kernels/cpu/pruned_head/search.h), which mostly need the first part only.
//
// Of all panels first the upper four bits of q + 128 as Q4_0 has its codes, with d, so that they
// are a matrix of their own with a sixteenth of the values; then of all panels the fifth bit, bit j
// being that of vector j; then of all the lower three, as groups of 3 bits have their codes; then,
// zeros at first, a line for what searches note. Products read such a weight as any other.
#pragma once
#include <array>

#include "kernels/cpu/panels/panels.h"

namespace veery {

/// WeightFormat::panels of this layout.
inline constexpr uint8_t kSplitFormat = 1;

/// Where the parts of the panels lie: bytes from the beginning of the weight.
class SplitPanels {
 public:
  static constexpr int kUpperBits = 4, kMiddleBits = 1, kLowerBits = 3;
  static constexpr int kScale = 64 * kUpperBits;  ///< where d lies in a unit of the upper part
  static constexpr int kUpper = kScale + 32;      ///< bytes of a unit
  static constexpr int kMiddle = 64 * kMiddleBits;
  static constexpr int kLower = 64 * kLowerBits;
  static constexpr int kWhole = kUpper + kMiddle + kLower;
  static constexpr int kNotes = 64;

  SplitPanels(int64_t rows, int64_t cols) : panels_((rows + 15) / 16), blocks_(cols / 32) {}
  int64_t panels() const { return panels_; }
  int64_t upper_bytes() const { return blocks_ * kUpper; }  ///< of a panel
  int64_t middle_bytes() const { return blocks_ * kMiddle; }
  int64_t lower_bytes() const { return blocks_ * kLower; }
  int64_t upper(int64_t panel) const { return panel * upper_bytes(); }
  int64_t middle(int64_t panel) const { return panels_ * upper_bytes() + panel * middle_bytes(); }
  int64_t lower(int64_t panel) const {
    return panels_ * (upper_bytes() + middle_bytes()) + panel * lower_bytes();
  }
  int64_t notes() const { return (panels_ * blocks_ * kWhole + kNotes - 1) / kNotes * kNotes; }
  int64_t bytes() const { return notes() + kNotes; }

  /// As products read them.
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
