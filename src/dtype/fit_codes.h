// fit_codes.h: least-squares search for the scales and codes of blocks with a code book.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "dtype/fit.h"

namespace veery {

/// The values of a code book, ascending.
using Book = std::array<float, 16>;

/// The code of the nearest value of x / scale for each element; those of 0 if the scale is 0.
void quantize_to_book(std::span<const float> x, float scale, const Book& book, int8_t* codes);

/// The scale of scale * book[code] that minimises the squared error over up to 32 elements (finite,
/// not all zero).
float fit_book_scale(std::span<const float> x, const Book& book);

/// Fits d, 8 scales of -32 to 31 and codes to a block of 256. If d does not fit f16, it is infinite
/// and the codes are zero.
void fit_book_super_block(std::span<const float> x, const Book& book, SuperBlock& out);

}  // namespace veery
