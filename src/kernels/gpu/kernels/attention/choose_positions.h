// choose_positions.h: chooses the positions of sparse attention. The choice is that of
// kernels/cpu/attend/choose_positions.cc: scores are accumulated in the same order, and the lowest
// position wins ties.
#pragma once
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

/// Sparse attention: score_positions() of some rows, then choose_positions() of each.
struct ChoosePositionsParams {
  Run run;
  Matrix q, weights, out;  ///< out: i32
  Cache keys;
  Stored type;
  VEERY_DEVICE float* scores;  ///< [rows of the launch][stride]
  int64_t stride;
  int32_t first_row;  ///< of the launch
  int32_t heads, dim, used;
  float scale;
  int32_t plain;  ///< 1: products and sums are rounded separately, as the CPU does without vectors
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/attention/attend_general.h"

namespace veery::gpu {

/// Scores of positions for a row that sees more positions than may be chosen. Shared memory: the
/// queries of all heads and the weights of the heads (kGenericPointers).
class PositionScores {
 public:
  VEERY_STATIC int kHeads = 8;  // heads that share each read of a key

  VEERY_GPU PositionScores(const VEERY_THREAD ChoosePositionsParams& params, int64_t row,
                           int sequence VEERY_CONTEXT)
      : a_(params), sequence_(sequence) {
    queries_ = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
    weights_ = a_.weights.row(row);
    factors_ = queries_ + a_.heads * padded();
    for (int i = thread(); i < a_.heads * padded(); i += threads()) {
      const int h = i / padded(), k = i % padded();
      queries_[i] = k < a_.dim ? a_.q.row(row)[h * a_.dim + k] : 0.0F;
    }
    if constexpr (kGenericPointers)
      for (int h = thread(); h < a_.heads; h += threads()) factors_[h] = weights_[h] * a_.scale;
    sync_block();
  }

  VEERY_GPU float score(int64_t position) const {
    VEERY_DEVICE uint8_t* page = page_of(a_.keys, a_.run, sequence_, position);
    float sum = 0;
    dispatch_stored(a_.type, [&](auto as) {
      for (int first = 0; first < a_.heads; first += kHeads) {
        float s[kHeads] = {};
        multiply<decltype(as)::type>(page, position, first, s);
        VEERY_UNROLL(8)
        for (int h = 0; h < kHeads; ++h) {
          if (first + h >= a_.heads) continue;
          const float own = max_f32(s[h], 0), factor = head_weight(first + h);
          sum = a_.plain != 0 ? sum + factor * own : fma(own, factor, sum);
        }
      }
    });
    return sum;
  }

 private:
  template <Stored kType>
  VEERY_GPU void multiply(VEERY_DEVICE uint8_t* page, int64_t position, int first,
                          VEERY_THREAD float (&s)[kHeads]) const {
    if constexpr (kType == Stored::kQ8) {
      for (int b = 0; b < a_.dim; b += 32) {
        const Q8Element at = q8_element(a_.keys, page, 0, position, b, true);
        const float scale = f16_to_float(*at.scale);
        float sum[kHeads] = {};
        for (int i = 0; i < 32; i += 4)
          add(
              first, b + i, [&](int e) { return static_cast<float>(at.code[(i + e) * 16]); }, sum);
        VEERY_UNROLL(8)
        for (int h = 0; h < kHeads; ++h) s[h] = b == 0 ? sum[h] * scale : fma(sum[h], scale, s[h]);
      }
    } else {
      VEERY_UNROLL(2)
      for (int i = 0; i < a_.dim; i += 4)
        add(
            first, i,
            [&](int e) {
              return i + e < a_.dim ? cache_value(a_.keys, page, kType, 0, position, i + e, true)
                                    : 0.0F;
            },
            s);
    }
  }
  // Adds dimensions i to i + 3 of the heads from `first` on.
  template <typename Key>
  VEERY_GPU void add(int first, int i, const VEERY_THREAD Key& key_at,
                     VEERY_THREAD float (&s)[kHeads]) const {
    const float key[4] = {key_at(0), key_at(1), key_at(2), key_at(3)};
    VEERY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      if (first + h >= a_.heads) continue;
      const auto four = load_shared<Four<float>>(queries_ + (first + h) * padded() + i);
      const float q[4] = {four.x, four.y, four.z, four.w};
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e)
        s[h] = a_.plain != 0 ? s[h] + q[e] * key[e] : fma(q[e], key[e], s[h]);
    }
  }
  // Returns the weight of head h. It is recomputed on devices that do not keep the weights in
  // shared memory.
  VEERY_GPU float head_weight(int h) const {
    return kGenericPointers ? factors_[h] : weights_[h] * a_.scale;
  }
  VEERY_GPU int padded() const { return (a_.dim + 3) / 4 * 4; }

  const VEERY_THREAD ChoosePositionsParams& a_;
  int sequence_;
  const VEERY_DEVICE float* weights_;
  VEERY_SHARED float *queries_, *factors_;
};

/// A thread block scores some blocks of positions of a row.
VEERY_GPU void score_positions(const VEERY_THREAD ChoosePositionsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t row = int64_t{a.first_row} + block_y();
  if (row >= a.run.count(a.out.rows)) return;
  const int64_t token = a.run.token_row(a.out.rows, row), last = a.run.position(token);
  if (last < a.used || int64_t{block_x()} * threads() > last) return;
  const PositionScores scores(a, row, a.run.spans[a.run.span_of[token]].sequence VEERY_CONTEXT_ARG);
  VEERY_DEVICE float* to = a.scores + block_y() * a.stride;
  for (int64_t p = int64_t{block_x()} * threads() + thread(); p <= last;
       p += int64_t{blocks_x()} * threads())
    to[p] = scores.score(p);
}

/// Returns an integer with the order of the scores.
VEERY_GPU uint32_t score_order(float score) {
  return static_cast<uint32_t>(order_key(score, 0) >> 32);
}

/// The choice of a row, by one thread block. Shared memory: 6 numbers per warp.
class PositionChoice {
 public:
  VEERY_GPU PositionChoice(const VEERY_DEVICE float* scores, int seen, int used VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT scores_(scores), seen_(seen), used_(used) {
    shared_ = reinterpret_cast<VEERY_SHARED int32_t*>(shared_memory());
  }

  VEERY_GPU void write(VEERY_DEVICE int32_t* out) {
    const uint32_t least = find_threshold();
    // Each warp processes a range of the positions, so that it can count the positions that the
    // warps before it choose.
    const int each = (seen_ + warps() * kWarp - 1) / (warps() * kWarp) * kWarp;
    const int begin = warp() * each, end = begin + each < seen_ ? begin + each : seen_;
    int above = 0, equal = 0;
    for (int i = begin + lane(); i < end; i += kWarp) {
      const uint32_t own = score_order(scores_[i]);
      above += own > least ? 1 : 0, equal += own == least ? 1 : 0;
    }
    above = warp_sum(above), equal = warp_sum(equal);
    sync_block();  // the sums of the search have been read
    if (lane() == 0) shared_[warp()] = above, shared_[warps() + warp()] = equal;
    sync_block();
    int left = used_;  // positions to choose among those with the threshold score
    for (int w = 0; w < warps(); ++w) left -= shared_[w];
    int at = 0;
    for (int w = 0; w < warp(); ++w) {
      const int taken = shared_[warps() + w] < left ? shared_[warps() + w] : left;
      at += shared_[w] + taken;
      left -= taken;
    }
    write_part(begin, end, {least, left, at}, out);
  }

 private:
  struct Part {
    uint32_t least;
    int left, at;
  };
  VEERY_GPU void write_part(int begin, int end, Part part, VEERY_DEVICE int32_t* out) const {
    const uint32_t before = (1U << lane()) - 1;
    for (int base = begin; base < end; base += kWarp) {
      const int i = base + lane();
      const uint32_t own = i < end ? score_order(scores_[i]) : 0;
      const bool is_equal = i < end && own == part.least;
      const uint32_t equal = ballot(is_equal);
      const bool taken =
          (i < end && own > part.least) || (is_equal && bit_count(equal & before) < part.left);
      const uint32_t all = ballot(taken);
      if (taken) out[part.at + bit_count(all & before)] = i;
      part.at += bit_count(all);
      const int more = bit_count(equal);
      part.left -= more < part.left ? more : part.left;
    }
  }

  /// Finds the lowest chosen score: its bits from the highest on, two at a time.
  VEERY_GPU uint32_t find_threshold() {
    uint32_t least = 0;
    for (int shift = 30, phase = 0; shift >= 0; shift -= 2, phase ^= 1) {
      int32_t count[3] = {0, 0, 0};
      VEERY_UNROLL(4)
      for (int i = thread(); i < seen_; i += threads()) {
        const uint32_t own = score_order(scores_[i]);
        VEERY_UNROLL(3)
        for (uint32_t c = 1; c < 4; ++c) count[c - 1] += own >= (least | c << shift) ? 1 : 0;
      }
      VEERY_SHARED int32_t* sums = shared_ + phase * 3 * warps();
      VEERY_UNROLL(3)
      for (int c = 0; c < 3; ++c) {
        count[c] = warp_sum(count[c]);
        if (lane() == 0) sums[c * warps() + warp()] = count[c];
      }
      sync_block();
      uint32_t max_score = 0;
      VEERY_UNROLL(3)
      for (int c = 0; c < 3; ++c) {
        const int32_t all = warp_sum(lane() < warps() ? sums[c * warps() + lane()] : 0);
        if (all >= used_) max_score = static_cast<uint32_t>(c) + 1;
      }
      least |= max_score << shift;
    }
    return least;
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_DEVICE float* scores_;
  int seen_, used_;
  VEERY_SHARED int32_t* shared_;
};

/// One thread block per row.
VEERY_GPU void choose_positions(const VEERY_THREAD ChoosePositionsParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t row = int64_t{a.first_row} + block_x();
  if (row >= a.run.count(a.out.rows)) return;
  const int seen = a.run.position(a.run.token_row(a.out.rows, row)) + 1;
  auto* out = reinterpret_cast<VEERY_DEVICE int32_t*>(a.out.row(row));
  if (seen <= a.used) {
    for (int i = thread(); i < a.used; i += threads()) out[i] = i < seen ? i : -1;
    return;
  }
  PositionChoice(a.scores + block_x() * a.stride, seen, a.used VEERY_CONTEXT_ARG).write(out);
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_CHOOSE_POSITIONS_KERNELS(X)                               \
  VEERY_GPU_SINGLE(X, kShared, score_positions, ChoosePositionsParams, 128) \
  VEERY_GPU_SINGLE(X, kShared, choose_positions, ChoosePositionsParams, 1024)
