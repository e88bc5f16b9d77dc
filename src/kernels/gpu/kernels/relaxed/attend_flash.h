// attend_flash.h: attention of many rows of one sequence by tensor cores with an online softmax
// (Dao, FlashAttention-2, 2023), over bf16 caches. Its bits are not those of attend_prefill.h.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

VEERY_CONSTANT int kFlashQueries = 128;     ///< of a thread block: token rows times heads
VEERY_CONSTANT int kFlashTilesPerWarp = 2;  ///< of 16 queries per warp
VEERY_CONSTANT int kFlashThreads = kFlashQueries / (16 * kFlashTilesPerWarp) * kWarp;
VEERY_CONSTANT int kFlashPositions = 64;  ///< of a KV stage
VEERY_CONSTANT int kFlashStages = 2;      ///< KV stages in flight
struct AttendFlashSmem {
  int query, keys, value, values, stage, bytes;  ///< query, value: bytes of one row
};
VEERY_GPU_HOST constexpr AttendFlashSmem attend_flash_smem(int key_dim, int value_dim) {
  AttendFlashSmem p{};
  // Rows are padded by 16 bytes against bank conflicts.
  p.query = 2 * key_dim + 16, p.value = 2 * value_dim + 16;
  p.keys = kFlashQueries * p.query;
  p.values = 2 * key_dim * kFlashPositions;
  p.stage = p.values + kFlashPositions * p.value;
  p.bytes = p.keys + kFlashStages * p.stage;
  return p;
}

namespace key {

/// `dim`: that of keys and values, 64 or 128; 0: any.
constexpr KernelKey attend_flash(int dim) {
  return of(Family::kAttendFlash, 0, RowClass::kMany, dim);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/attention/attend_prefill.h"

namespace veery::gpu {

/// `kDim`: dimensions of keys and values; kExactDim: exactly that many, otherwise at most. A warp
/// has kFlashTilesPerWarp tiles of 16 queries.
template <int kDim, bool kExactDim>
class FlashAttention {
 public:
  VEERY_STATIC int kM = kFlashTilesPerWarp, kQueriesPerWarp = 16 * kM;

  VEERY_GPU FlashAttention(const AttendParams& params, int64_t first, int64_t last, int part)
      : a_(params),
        layout_(attend_flash_smem(key_dim(), value_dim())),
        row_(first),
        last_row_(last),
        slots_(shared_heads(a_.heads, a_.kv_heads)),
        inverse_((1 << 16) / slots_ + 1) {
    const TileHeads heads = tile_heads(a_, part);
    kv_ = heads.kv, head_ = heads.first, heads_ = heads.count;
    const int64_t token = a_.run.token_row(a_.q.rows, row_);
    begin_ = a_.run.position(token);
    end_ = begin_ + static_cast<int>(last_row_ - row_);
    sequence_ = a_.run.spans[a_.run.span_of[token]].sequence;
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) max_score_[m][0] = max_score_[m][1] = kLowest;
  }

  VEERY_GPU void run() {
    const int first = first_seen(begin_) / kFlashPositions, last = end_ / kFlashPositions;
    find_pages(first, true);
    copy_block(0, first);
    if (first < last) find_pages(first + 1, false);
    load_queries();
    for (int block = first; block <= last; ++block) {
      wait_for_copies<0>();
      sync_block();  // copies are complete, and the other stage has been read
      const int stage = (block - first) % kFlashStages;
      if (block < last) copy_block(1 - stage, block + 1);
      if (block + 2 <= last) find_pages(block + 2, false);
      attend(block, shared_memory() + layout_.keys + stage * layout_.stage);
    }
    finish();
  }

 private:
  VEERY_GPU int key_dim() const { return kExactDim ? kDim : a_.key_dim; }
  VEERY_GPU int value_dim() const { return kExactDim ? kDim : a_.value_dim; }
  VEERY_STATIC int kTiles = kFlashPositions / 8;
  VEERY_STATIC float kLog2E = 1.44269504F;
  /// The running maximum may be smaller than the true maximum by up to this much, in log2 units.
  /// The sums are rescaled only if the difference exceeds it.
  VEERY_STATIC float kSlack = 8;
  VEERY_STATIC float kHidden = -3e38F, kLowest = -1e30F;

  /// Returns the row of a slot. The division by the number of slots per row is a multiplication,
  /// which is exact because slots are few.
  VEERY_GPU int row_of_slot(int slot) const { return slot * inverse_ >> 16; }
  VEERY_GPU int head_of_slot(int slot) const { return slot - row_of_slot(slot) * slots_; }
  VEERY_GPU bool is_query(int slot) const {
    return head_of_slot(slot) < heads_ && row_of_slot(slot) <= end_ - begin_;
  }
  /// Absent queries have the position of the last ones.
  VEERY_GPU int position_of(int slot) const {
    const int position = begin_ + row_of_slot(slot);
    return position < end_ ? position : end_;
  }
  VEERY_GPU int first_seen(int position) const {
    if (a_.window <= 0) return 0;
    return a_.chunked != 0         ? position / a_.window * a_.window
           : position >= a_.window ? position - a_.window + 1
                                   : 0;
  }
  /// Finds the pages of a KV block, long before its copies are issued. Blocks are visited in order;
  /// `first`: this is the first one.
  VEERY_GPU void find_pages(int block, bool first) {
    const int64_t at = int64_t{block} * kFlashPositions;
    if (!first && at % 256 != 0) {
      key_block_ += 2 * kFlashPositions * key_dim();
      value_block_ += 2 * kFlashPositions * value_dim();
      return;
    }
    key_block_ = page_of(a_.keys, a_.run, sequence_, at) + 2 * key_offset(a_.keys, kv_, at, 0);
    value_block_ =
        page_of(a_.values, a_.run, sequence_, at) + 2 * value_offset(a_.values, kv_, at, 0);
  }
  /// Keys keep the order of the cache, [16 positions][dimension][16], except that the halves of
  /// every other four dimensions are swapped to avoid bank conflicts. Values past the last position
  /// are 0, as their memory may belong to others.
  VEERY_GPU void copy_block(int stage, int block) const {
    uint8_t* to = shared_memory() + layout_.keys + stage * layout_.stage;
    const int keys = key_dim() * kFlashPositions / 8;
    VEERY_UNROLL(8)
    for (int i = thread(); i < keys; i += kFlashThreads)
      copy_async_16(to + 16 * (i ^ (i >> 3 & 1)), key_block_ + 16 * i);
    to += layout_.values;
    const int each = value_dim() / 8;
    const int there = (end_ - block * kFlashPositions + 1) * each;
    VEERY_UNROLL(8)
    for (int i = thread(); i < each * kFlashPositions; i += kFlashThreads) {
      uint8_t* destination = to + i / each * layout_.value + i % each * 16;
      if (i < there)
        copy_async_16(destination, value_block_ + 16 * i);
      else
        *reinterpret_cast<Four<uint32_t>*>(destination) = {0, 0, 0, 0};
    }
    commit_copies();
  }
  /// A warp loads a query at a time, 4 dimensions per lane.
  VEERY_GPU void load_queries() const {
    const float scale = a_.softcap > 0 ? a_.scale / a_.softcap : a_.scale * kLog2E;
    const int k = 4 * lane();
    if (k >= key_dim()) return;
    VEERY_UNROLL(8)
    for (int slot = warp(); slot < kFlashQueries; slot += kFlashThreads / kWarp) {
      Four<float> q = {0, 0, 0, 0};
      if (is_query(slot))
        q = load<Four<float>>(a_.q.row(row_ + row_of_slot(slot)) +
                              (head_ + head_of_slot(slot)) * key_dim() + k);
      *reinterpret_cast<Two<uint32_t>*>(shared_memory() + slot * layout_.query + 2 * k) = {
          pack_bf16x2(q.x * scale, q.y * scale), pack_bf16x2(q.z * scale, q.w * scale)};
    }
  }

  VEERY_GPU void attend(int block, const uint8_t* stage) {
    const int low = block * kFlashPositions, high = low + kFlashPositions - 1;
    const int slot = warp() * kQueriesPerWarp;
    const int nearest = position_of(slot), farthest = position_of(slot + kQueriesPerWarp - 1);
    if (low > farthest || high < first_seen(nearest)) return;
    float scores[kM][kTiles][4] = {};
    score(stage, scores);
    if (a_.softcap > 0) apply_softcap(scores);
    if (high > nearest || low < first_seen(farthest)) apply_mask(low, scores);
    softmax_weights(scores);
    add_values(stage + layout_.values, scores);
  }

  VEERY_GPU void score(const uint8_t* keys, float (&scores)[kM][kTiles][4]) const {
    const int l = lane();
    // The addresses for ldmatrix: rows of a query tile and 8 columns; of keys, 16 positions and 8
    // dimensions.
    const uint8_t* query =
        shared_memory() + (warp() * kQueriesPerWarp + l % 16) * layout_.query + l / 16 * 16;
    VEERY_UNROLL(8)
    for (int k = 0; k < kDim / 16; ++k) {
      if (16 * k >= key_dim()) break;
      uint32_t q[kM][4];
      VEERY_UNROLL(2)
      for (int m = 0; m < kM; ++m) ldmatrix_x4(query + 16 * m * layout_.query + 32 * k, q[m]);
      const int dim = 16 * k + l % 16;
      const uint8_t* at = keys + dim * 32 + 16 * (l / 16 ^ (dim >> 2 & 1));
      VEERY_UNROLL(4)
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t b[4];
        ldmatrix_x4_trans(at + n / 2 * 32 * key_dim(), b);
        VEERY_UNROLL(2)
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16_bf16(scores[m][n], q[m], b[0], b[1]);
          mma_m16n8k16_bf16(scores[m][n + 1], q[m], b[2], b[3]);
        }
      }
    }
  }
  VEERY_GPU void apply_softcap(float (&scores)[kM][kTiles][4]) const {
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(8)
    for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(4)
    for (int e = 0; e < 4; ++e)
      scores[m][n][e] = a_.softcap * kLog2E * approx_tanh(scores[m][n][e]);
  }
  /// Returns the slot of row g (half 0) or g + 8 (half 1) of tile m.
  VEERY_GPU int slot_of(int m, int half) const {
    return warp() * kQueriesPerWarp + 16 * m + 8 * half + lane() / 4;
  }
  VEERY_GPU void apply_mask(int low, float (&scores)[kM][kTiles][4]) const {
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int own = position_of(slot_of(m, half));
      const int last = own - low, first = first_seen(own) - low;
      VEERY_UNROLL(8)
      for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(2)
      for (int e = 0; e < 2; ++e) {
        const int position = 8 * n + lane() % 4 * 2 + e;
        float& s = scores[m][n][2 * half + e];
        s = position > last || position < first ? kHidden : s;
      }
    }
  }
  /// Turns scores into weights. Each lane adds up its own weights.
  VEERY_GPU void softmax_weights(float (&scores)[kM][kTiles][4]) {
    float max_score[kM][2];
    bool grows = false;
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      float x = max_score_[m][half];
      VEERY_UNROLL(8)
      for (int n = 0; n < kTiles; ++n)
        x = max_ignoring_nan(x,
                             max_ignoring_nan(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      x = max_ignoring_nan(x, shuffle_xor(x, 1));
      x = max_ignoring_nan(x, shuffle_xor(x, 2));
      max_score[m][half] = x;
      grows = grows || x > max_score_[m][half] + kSlack;
    }
    if (ballot(grows) != 0) rescale(max_score);
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(8)
    for (int n = 0; n < kTiles; ++n) VEERY_UNROLL(4)
    for (int e = 0; e < 4; ++e) {
      const float w = approx_exp2(scores[m][n][e] - max_score_[m][e / 2]);
      scores[m][n][e] = w;
      sum_[m][e / 2] = sum_[m][e / 2] + w;
    }
  }
  VEERY_GPU void rescale(const float (&max_score)[kM][2]) {
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const float keep = approx_exp2(max_score_[m][half] - max_score[m][half]);
      max_score_[m][half] = max_score[m][half];
      sum_[m][half] = sum_[m][half] * keep;
      VEERY_UNROLL(16)
      for (int n = 0; n < kDim / 8; ++n) {
        values_[m][n][2 * half] = values_[m][n][2 * half] * keep;
        values_[m][n][2 * half + 1] = values_[m][n][2 * half + 1] * keep;
      }
    }
  }
  VEERY_GPU void add_values(const uint8_t* values, const float (&weights)[kM][kTiles][4]) {
    // The addresses for ldmatrix: 16 positions, and 8 of 16 dimensions.
    const uint8_t* at = values + lane() % 16 * layout_.value + lane() / 16 * 16;
    VEERY_UNROLL(4)
    for (int k = 0; k < kTiles / 2; ++k) {
      uint32_t w[kM][4];
      VEERY_UNROLL(2)
      for (int m = 0; m < kM; ++m) VEERY_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        const float(&c)[4] = weights[m][2 * k + h];
        w[m][2 * h] = pack_bf16x2(c[0], c[1]);
        w[m][2 * h + 1] = pack_bf16x2(c[2], c[3]);
      }
      VEERY_UNROLL(8)
      for (int n = 0; n < kDim / 8; n += 2) {
        if (8 * n >= value_dim()) break;
        uint32_t b[4];
        ldmatrix_x4_trans(at + 16 * k * layout_.value + 16 * n, b);
        VEERY_UNROLL(2)
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16_bf16(values_[m][n], w[m], b[0], b[1]);
          mma_m16n8k16_bf16(values_[m][n + 1], w[m], b[2], b[3]);
        }
      }
    }
  }

  /// Normalises and stores the outputs. An attention sink is merged last, as a position whose value
  /// vector is zero.
  VEERY_GPU void finish() {
    VEERY_UNROLL(2)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const int slot = slot_of(m, half);
      float sum = sum_[m][half], keep = 1;
      sum = sum + shuffle_xor(sum, 1);
      sum = sum + shuffle_xor(sum, 2);
      if (!is_query(slot)) continue;
      const int head = head_ + head_of_slot(slot);
      if (a_.sinks != nullptr) {
        const float sink = a_.sinks[head] * kLog2E;
        const float max_score = max_f32(max_score_[m][half], sink);
        keep = approx_exp2(max_score_[m][half] - max_score);
        sum = fma(sum, keep, approx_exp2(sink - max_score));
      }
      const float factor = keep / sum;
      float* out = a_.out.row(row_ + row_of_slot(slot)) + head * value_dim() + lane() % 4 * 2;
      VEERY_UNROLL(16)
      for (int n = 0; n < kDim / 8; ++n)
        if (8 * n < value_dim())
          *reinterpret_cast<Two<float>*>(out + 8 * n) = {values_[m][n][2 * half] * factor,
                                                         values_[m][n][2 * half + 1] * factor};
    }
  }

  const AttendParams& a_;
  const AttendFlashSmem layout_;
  int64_t row_, last_row_;
  int begin_, end_;  ///< positions of the first row and the last
  int slots_;        ///< slots per row, of which heads_ are used
  int inverse_;      ///< 2^16 / slots_
  int kv_, head_, heads_, sequence_;
  const uint8_t *key_block_, *value_block_;
  /// State of the lane's rows: maxima, the lane's share of the sums of weights, values.
  float max_score_[kM][2], sum_[kM][2] = {};
  float values_[kM][kDim / 8][4] = {};
};

/// Processes tiles whose rows are consecutive positions of one sequence; attend_ragged() processes
/// the others.
template <int kDim, bool kExactDim>
VEERY_GPU void attend_flash(const AttendParams& a) {
  wait_for_dependencies();
  const RowRange rows = contiguous_tile(a);
  if (rows.first <= rows.last)
    FlashAttention<kDim, kExactDim>(a, rows.first, rows.last, block_x()).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ATTEND_FLASH_KERNELS(X)                                                         \
  X(kRelaxed, attend_flash_64, AttendParams, veery::gpu::kFlashThreads, 0, key::attend_flash(64), \
    (attend_flash<64, true>))                                                                     \
  X(kRelaxed, attend_flash_128, AttendParams, veery::gpu::kFlashThreads, 0,                       \
    key::attend_flash(128), (attend_flash<128, true>))                                            \
  X(kRelaxed, attend_flash_any, AttendParams, veery::gpu::kFlashThreads, 0, key::attend_flash(0), \
    (attend_flash<128, false>))
