// grids.h: the grids of points that the codes of IQ1, IQ2 and IQ3 blocks index.
#pragma once
#include <array>
#include <cstdint>

namespace veery {

// The grids are part of the formats (ggml quantisation types). IQ2 and IQ3 grids hold magnitudes;
// in the IQ1 grid 0, 1 and 2 stand for -1, 0 and 1.

extern const std::array<std::array<uint8_t, 8>, 256> kGridIQ2_XXS;
extern const std::array<std::array<uint8_t, 8>, 512> kGridIQ2_XS;
extern const std::array<std::array<uint8_t, 8>, 1024> kGridIQ2_S;
extern const std::array<std::array<uint8_t, 4>, 256> kGridIQ3_XXS;
extern const std::array<std::array<uint8_t, 4>, 512> kGridIQ3_S;
extern const std::array<std::array<uint8_t, 8>, 2048> kGridIQ1;  ///< IQ1_S, IQ1_M

}  // namespace veery
