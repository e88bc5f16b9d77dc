// form_tiles.h: many rows of activations in the form that linear_tiles.h takes (TilePlaces), with
// the numbers of form.h.
#pragma once
#include "kernels/gpu/functions/linear/form.h"

namespace veery::gpu {

/// Group `group` of the rows of a form.
struct FormGroup {
  uint8_t* at;
  TilePlaces places;

  /// Of what a slab has, for block b of 32 columns.
  VEERY_GPU uint8_t* slab(int b) const {
    return at + int64_t{b >> places.bits} * places.slab * places.together;
  }
  VEERY_GPU uint8_t* codes(int b, int row) const {
    return slab(b) + (b & ((1 << places.bits) - 1)) * 256 + row * 32;
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

// A row of x, and its place in a group; `row.x` is nullptr beyond the last.
struct TileRow {
  Row row;
  int place;
};

// Block b of 32 of a row, by 8 lanes; v becomes what the codes leave over. The largest magnitude.
VEERY_GPU float tile_block_32(const FormGroup& to, int row, int b, bool is, float (&v)[4]) {
  const float most = largest_over_8(largest_of_four(v));
  const Scale scale = scale_for(most);
  int q[4], sum = 0;
  VEERY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    q[i] = round_to_int(v[i] * scale.inverse);
    sum += q[i];
    v[i] = fma(-scale.scale, static_cast<float>(q[i]), v[i]);
  }
  sum = over_8_lanes(sum, [](int x, int y) { return x + y; });
  if (!is) return most;
  put_codes(to.codes(b, row), lane() % 8, q);
  if (lane() % 8 != 0) return most;
  to.in_slab<float>(to.places.scale, b, row) = scale.scale;
  to.in_slab<int32_t>(to.places.sum, b, row) = sum;
  to.in_slab<float>(to.places.moment, b, row) = scale.scale * static_cast<float>(sum);
  to.behind<float>(to.places.residual_scale, b, row) = 0;
  return most;
}

// Part `part` of `parts` of a row in blocks of 32, 4 of them at a time. `most`: [blocks].
VEERY_GPU void tile_row_32(const FormGroup& to, const TileRow& of, int cols, int part, int parts,
                           bool two_terms, float* most) {
  const int blocks = cols / 32;
  VEERY_UNROLL(2)
  for (int s = part; 4 * s < blocks; s += parts) {
    const int b = 4 * s + lane() / 8;
    const bool is = b < blocks;
    float v[4] = {0, 0, 0, 0};
    if (is && of.row.x != nullptr) four_of(of.row, 32 * b + lane() % 8 * 4, v);
    const float own = tile_block_32(to, of.place, b, is, v);
    if (is && lane() % 8 == 0) most[b] = own;
    if (two_terms) tile_block_32(to, of.place + 1, b, is, v);
  }
}

// What the codes of block b leave over.
VEERY_GPU void tile_residual(const FormGroup& to, const TileRow& of, int b) {
  const float scale = to.in_slab<float>(to.places.scale, b, of.place);
  const int at = code_place(lane());
  const int q = static_cast<int8_t>(to.codes(b, of.place)[at]);
  const float v = of.row.at(32 * b + lane());
  const int r = round_to_int(fma(-scale, static_cast<float>(q), v) * (254.0F / scale));
  to.at[to.places.residual + b * 256 + of.place * 32 + at] = static_cast<uint8_t>(r);
  const int sum = warp_sum(r);
  if (lane() != 0) return;
  const float residual_scale = scale / 254.0F;
  to.behind<float>(to.places.residual_scale, b, of.place) = residual_scale;
  to.behind<int32_t>(to.places.residual_sum, b, of.place) = sum;
  float& moment = to.in_slab<float>(to.places.moment, b, of.place);
  moment = moment + residual_scale * static_cast<float>(sum);
}

// A sum of a part as two f16: what 64 goes into, and what is left over.
VEERY_GPU void put_sum(uint8_t* sums, int row, int part, int sum) {
  const int high = (sum + 32) >> 6;
  auto* to = reinterpret_cast<uint16_t*>(sums) + (row * 4 + part / 2) * 4 + part % 2;
  to[0] = float_to_half(static_cast<float>(high));
  to[2] = float_to_half(static_cast<float>(sum - 64 * high));
}
struct GroupBlock {
  const TilePlaces& places;
  uint8_t* slab;
  int row;

  VEERY_GPU void put_scale(float scale) const {
    reinterpret_cast<float*>(slab + places.scale)[row] = scale;
  }
  VEERY_GPU void put_codes(int s, int l, const int (&q)[4], int) const {
    gpu::put_codes(slab + s * 256 + row * 32, l, q);
  }
  VEERY_GPU void put_sum16(int i, int sum) const {
    put_sum(slab + places.sums16 + i / 8 * 256, row, i % 8, sum);
  }
  VEERY_GPU void put_part(int s, int shift, int sum) const {
    put_sum(slab + places.sums, row, s, sum);
    slab[places.shift + s / 4 * 32 + row * 4 + s % 4] = static_cast<uint8_t>(shift);
  }
};
struct PlanesBlock {
  const TilePlaces& places;
  uint8_t* slab;
  int row;

  VEERY_GPU void put_scale(float scale) const {
    reinterpret_cast<float*>(slab + places.scale)[row] = scale;
  }
  VEERY_GPU void put_codes(int s, int l, const int (&q)[4], int shift) const {
    uint32_t high = 0, low = 0;
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int x = q[i] * (1 << shift);
      high |= (static_cast<uint32_t>(x >> 4) & 0xffU) << 8 * i;
      low |= (static_cast<uint32_t>(x) & 0xfU) << 8 * i;
    }
    uint8_t* to = slab + s * 512 + l / 4 * 128 + row * 16 + l % 4 * 4;
    *reinterpret_cast<uint32_t*>(to) = high;
    *reinterpret_cast<uint32_t*>(to + 256) = low;
  }
  VEERY_GPU void put_sum16(int, int) const {}
  VEERY_GPU void put_part(int s, int, int sum) const { put_sum(slab + places.sums, row, s, sum); }
};
template <typename Block>
VEERY_GPU void tile_row_256(const FormGroup& to, const TileRow& of, int cols, int part, int parts,
                            bool two_terms) {
  for (int u = part; u < cols / 256; u += parts) {
    float v[2][4] = {};
    if (of.row.x != nullptr) {
      four_of(of.row, 256 * u + 4 * lane(), v[0]);
      four_of(of.row, 256 * u + 128 + 4 * lane(), v[1]);
    }
    uint8_t* slab = to.slab(8 * u);
    write_block_256(Block{to.places, slab, of.place}, v);
    if (two_terms) write_block_256(Block{to.places, slab, of.place + 1}, v);
  }
}

/// The b of multiply_bf16() from 16 columns of 8 rows.
VEERY_GPU Two<uint32_t> load_halves_of_16(const uint8_t* at) {
  return {load<uint32_t>(at + lane() * 4), load<uint32_t>(at + 128 + lane() * 4)};
}
// What four columns become: a word of each half of 16.
VEERY_GPU void put_halves(uint8_t* at, const float (&v)[4]) {
  const auto word = [](float low, float high) {
    return float_to_bf16(low) | uint32_t{float_to_bf16(high)} << 16;
  };
  *reinterpret_cast<uint32_t*>(at) = word(v[0], v[1]);
  *reinterpret_cast<uint32_t*>(at + 128) = word(v[2], v[3]);
}
// Columns of a row, which are a multiple of 16, 128 at a time.
VEERY_GPU void tile_row_bf16(const FormGroup& to, const TileRow& of, int cols, int part,
                             int parts) {
  VEERY_UNROLL(4)
  for (int k = 128 * part + 4 * lane(); k < cols; k += 128 * parts) {
    float v[4] = {0, 0, 0, 0};
    if (of.row.x != nullptr) four_of(of.row, k, v);
    put_halves(to.slab(k / 32) + k % 128 / 16 * 256 + of.place * 16 + k % 16, v);
  }
}
// The same of the 8 rows of a group, taken as they are: a warp has 16 columns of all of them, so
// that what it writes are whole lines.
VEERY_GPU void tile_group_bf16(const PrepareArguments& a, int64_t group, int part, int parts) {
  const FormGroup to = form_group(a.form, group);
  const int64_t r = 8 * group + lane() / 4;
  const bool is = r < a.run.count(a.x.rows);
  const Row row = {is ? a.x.row(r) : nullptr, nullptr, 1};
  VEERY_UNROLL(4)
  for (int u = part; u < a.form.cols / 16; u += parts) {
    float v[4] = {0, 0, 0, 0};
    if (is) four_of(row, 16 * u + lane() % 4 * 4, v);
    put_halves(to.slab(u / 2) + u % 8 * 256 + lane() * 4, v);
  }
}

/// A row of x, or one that fills up a group, by the threads of a block, or of parts of them. Shared
/// memory: the largest magnitudes of blocks, then what row_of() takes.
VEERY_GPU void prepare_tiles(const PrepareArguments& a) {
  const int cols = a.form.cols, blocks = cols / 32;
  auto* most = reinterpret_cast<float*>(shared_memory());
  float* own = most + (blocks + 3) / 4 * 4;
  float* weights = a.weights != 0 ? own + 4 + cols : nullptr;
  if (weights != nullptr) ask_weights(a.norm, cols, weights);
  a.alone != 0 ? wait_for_inputs_alone() : wait_for_inputs();
  const bool two_terms = a.form.two_terms != 0;
  const int each = two_terms ? 4 : 8;  // rows of a group
  const int64_t r = block_x() / a.parts, rows = a.run.count(a.x.rows);
  const int part = static_cast<int>(block_x() % a.parts) * warps() + warp();
  const int parts = a.parts * warps();
  if (r / each * each >= rows) return wait_for_groups<0>();
  const bool is = r < rows;
  if (a.best != nullptr && is && thread() == 0 && part == 0) a.best[r] = 0;
  if (a.form.kind == FormKind::kBF16 && a.norm.weight == nullptr)
    return tile_group_bf16(a, r / 8, static_cast<int>(r % 8) * parts + part, 8 * parts);
  TileRow of = {{}, static_cast<int>(r % each) * (two_terms ? 2 : 1)};
  if (is)
    of.row = row_of(a.x.row(r), a.norm, cols, a.staged != 0, own, weights);
  else
    wait_for_groups<0>();
  const FormGroup to = form_group(a.form, r / each);
  if (a.form.kind == FormKind::kBF16) return tile_row_bf16(to, of, cols, part, parts);
  if (a.form.kind == FormKind::kPer256)
    return tile_row_256<GroupBlock>(to, of, cols, part, parts, two_terms);
  if (a.form.kind == FormKind::kPlanes)
    return tile_row_256<PlanesBlock>(to, of, cols, part, parts, two_terms);
  tile_row_32(to, of, cols, part, parts, two_terms, most);
  int32_t* list = to.outliers(of.place);
  if (two_terms) {
    if (thread() < 2) to.outliers(of.place + thread())[0] = 0;
    return;
  }
  sync_block();
  if (warp() == 0) find_outliers(most, blocks, list);
  sync_block();
  for (int e = warp(); e < list[0]; e += warps()) tile_residual(to, of, list[1 + e]);
}

}  // namespace veery::gpu
