#include "dtype/grid_format.h"

#include <algorithm>

#include "base/error.h"
#include "dtype/grids.h"

namespace veery {
namespace {

// `factor` is what the decoder multiplies grid values by. In formats without signs a grid value of
// 0 stands for -1.
template <size_t kElements, size_t kPoints>
GridFormat make(GridFormat format, const std::array<std::array<uint8_t, kElements>, kPoints>& grid,
                float factor) {
  std::vector<uint8_t> values;
  for (const auto& point : grid) values.insert(values.end(), point.begin(), point.end());
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  format.elements = kElements;
  format.digits = static_cast<int>(values.size());
  for (size_t k = 0; k < values.size(); ++k)
    for (size_t variant = 0; variant < 2; ++variant)
      format.values[variant][k] =
          format.signs ? factor * static_cast<float>(values[k])
                       : static_cast<float>(values[k]) - 1.0F + (variant == 0 ? factor : -factor);
  for (const auto& point : grid) {
    std::array<uint8_t, 8> digits = {};
    for (size_t i = 0; i < kElements; ++i)
      digits[i] = static_cast<uint8_t>(std::ranges::lower_bound(values, point[i]) - values.begin());
    const auto rank = [&](size_t begin) {
      int number = 0;
      for (size_t i = kElements / 2; i > 0; --i)
        number = number * format.digits + digits[begin + i - 1];
      return static_cast<uint8_t>(number);
    };
    format.first.push_back(rank(0));
    format.second.push_back(rank(kElements / 2));
    format.point_digits.push_back(digits);
  }
  return format;
}

}  // namespace

const GridFormat& grid_format(DType type) {
  static const GridFormat kIQ2_XXS =
      make({.even_signs = true, .reach = 1.85F}, kGridIQ2_XXS, 0.125F);
  static const GridFormat kIQ2_XS =
      make({.sub = 16, .even_signs = true, .reach = 1.85F}, kGridIQ2_XS, 0.125F);
  static const GridFormat kIQ2_S = make({.sub = 16, .reach = 1.85F}, kGridIQ2_S, 0.125F);
  static const GridFormat kIQ3_XXS = make({.even_signs = true, .reach = 2.5F}, kGridIQ3_XXS, 0.25F);
  static const GridFormat kIQ3_S = make({.reach = 2.5F}, kGridIQ3_S, 1);
  static const GridFormat kIQ1_S = make({.largest_scale = 7,
                                         .variants = 2,
                                         .variant_points = 4,
                                         .signs = false,
                                         .reach = 1.3F,
                                         .rounds = 1},
                                        kGridIQ1, 0.125F);
  static const GridFormat kIQ1_M = make(
      {.sub = 16, .largest_scale = 7, .variants = 2, .signs = false, .reach = 1.3F, .rounds = 1},
      kGridIQ1, 0.125F);
  switch (type) {
    case DType::kIQ2_XXS: return kIQ2_XXS;
    case DType::kIQ2_XS: return kIQ2_XS;
    case DType::kIQ2_S: return kIQ2_S;
    case DType::kIQ3_XXS: return kIQ3_XXS;
    case DType::kIQ3_S: return kIQ3_S;
    case DType::kIQ1_S: return kIQ1_S;
    default: VEERY_CHECK(type == DType::kIQ1_M); return kIQ1_M;
  }
}

}  // namespace veery
