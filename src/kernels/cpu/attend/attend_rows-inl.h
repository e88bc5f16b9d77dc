// attend_rows-inl.h: packs keys and values that are rows of the run into the layout of an f32 KV
// cache, in Dispatch::work: keys [kv_head][position / 16][dimension][position % 16], values
// [kv_head][position][dimension]. Dimensions are padded with zeros to a multiple of 16.
#if defined(VEERY_KERNELS_CPU_ATTEND_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ATTEND_ROWS_INL_H
#undef VEERY_KERNELS_CPU_ATTEND_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_ATTEND_ROWS_INL_H
#endif

#include "kernels/cpu/attend/attend.h"
#include "kernels/cpu/attend/attend_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// Loads up to 16 floats, padded with zeros.
HWY_INLINE F32 load_some(const float* x, int n) { return n >= 16 ? load(x) : load_first(x, n); }
HWY_INLINE void store_some(float* out, F32 v, int n) {
  if (n >= 16) return store(out, v);
  store_first(out, v, n);
}

// Transposes: out[c][r] = x[r][c] for r < rows and c < cols. Pads the 16 x 16 output with zeros.
HWY_INLINE void transpose_some(const float* x, int64_t stride, int rows, int cols, float* out) {
  if (rows >= 16 && cols >= 16) return transpose(x, stride, out, 16);
  alignas(64) float part[256] = {};
  for (int r = 0; r < std::min(rows, 16); ++r)
    store(part + r * 16, load_some(x + r * stride, cols));
  transpose(part, 16, out, 16);
}

// Packs 16 positions of a span, from `first` on, for all heads.
HWY_INLINE void pack_tile(const Problem& p, int64_t span, int64_t first) {
  const Operand& keys = p.d.in[AttendIn::kK];
  const Operand& values = p.d.in[AttendIn::kV];
  const int64_t row = p.shape.spans[span].first_row + first;
  const int rows = static_cast<int>(std::min<int64_t>(p.shape.spans[span].rows - first, 16));
  for (int h = 0; h < p.attr.kv_heads; ++h) {
    const float* key = keys.row<float>(row) + h * p.key_dims;
    float* out = p.packed_keys(span, h, first);
    for (int i = 0; i < p.n; i += 16)
      transpose_some(key + i, keys.stride / 4, rows, p.key_dims - i, out + i * 16);
  }
  for (int h = 0; h < p.attr.kv_heads; ++h) {
    float* out = p.packed_values(span, h, first);
    for (int r = 0; r < rows; ++r) {
      const float* value = values.row<float>(row + r) + h * p.value_dims;
      for (int i = 0; i < p.v; i += 16)
        store(out + r * p.v + i, load_some(value + i, p.value_dims - i));
    }
  }
}

// Packs the tiles whose first row is in this worker's share of the rows.
void pack_rows(const Problem& p, const Worker& worker) {
  const Share mine = share(p.shape.rows, 1, worker);
  for (int64_t r = mine.begin; r < mine.end;) {
    const int64_t span = p.shape.span_of[r];
    const Span& at = p.shape.spans[span];
    for (int64_t first = round_up_16(r - at.first_row);
         first < at.rows && at.first_row + first < mine.end; first += 16)
      pack_tile(p, span, first);
    r = at.end_row();
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ATTEND_ROWS_INL_H
