// form_tiles.h: many rows of activations in the form that linear_tiles.h takes (TilePlaces), with
// the numbers of form.h.
#pragma once
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

/// Group `group` of the rows of a form.
struct FormGroup {
  uint8_t* at;
  TilePlaces places;

  /// Of what a slab has, for block b of 32 columns.
  VEERY_GPU uint8_t* slab(int b) const {
    return at + int64_t{b >> places.bits} * places.slab * places.together;
  }
  /// kPer32: of one of the arrays [block][row].
  template <typename T>
  VEERY_GPU T& in_slab(int place, int b, int row) const {
    return reinterpret_cast<T*>(slab(b) + place)[b % 4 * 8 + row];
  }
  template <typename T>
  VEERY_GPU T& behind(int64_t place, int b, int row) const {
    return reinterpret_cast<T*>(at + place)[b * 8 + row];
  }
  VEERY_GPU int32_t* outliers(int row) const {
    return reinterpret_cast<int32_t*>(at + places.outliers) + row * places.list;
  }
};
VEERY_GPU FormGroup form_group(const Form& form, int64_t group) {
  const TilePlaces places = tile_places(form.kind, form.cols);
  const int64_t in = group % places.together;
  return {form.data + (group - in) * form.stride + in * places.slab, places};
}

/// The b of multiply_bf16() from 16 columns of 8 rows.
VEERY_GPU Two<uint32_t> load_halves_of_16(const uint8_t* at) {
  return {load<uint32_t>(at + lane() * 4), load<uint32_t>(at + 128 + lane() * 4)};
}

}  // namespace veery::gpu
