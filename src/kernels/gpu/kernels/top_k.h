// top_k.h: the largest logits of a row, sorted, and the sum that normalises probabilities. Several
// thread blocks share a row.
#pragma once
#include "kernels/gpu/dialect/f64.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

struct ChainState;
struct ChainLists;

/// Several thread blocks share a row. `groups` to `arrived` are scratch memory of each row.
struct TopKParams {
  Run run;
  Matrix x, values, indices, mass;  ///< indices: i32
  int32_t count;
  VEERY_DEVICE uint64_t* groups;   ///< [TopKSmem::kThreads] largest key of each group of logits
  VEERY_DEVICE uint64_t* found;    ///< [TopKSmem::kMaxSorted] candidates for the top k
  VEERY_DEVICE Float64* sums;      ///< [pieces] softmax mass
  VEERY_DEVICE uint32_t* arrived;  ///< [2] entries of `found`, thread blocks; 0 between runs
  const VEERY_DEVICE ChainState* states;  ///< of a chain that samples, else nullptr
  const VEERY_DEVICE ChainLists* lists;   ///< biases and penalties, applied to the logits first
  /// Token masks of constrained decoding (TokenMaskRows), mask_words each: rejected tokens become
  /// NaN. nullptr: no masks.
  const VEERY_DEVICE uint32_t* masks;
  int32_t mask_words;
};

struct TopKSmem {
  VEERY_STATIC int kThreads = 1024;
  VEERY_STATIC int kMaxSorted = 2 * kThreads;  ///< candidates of a row that are sorted
  VEERY_STATIC int kPiece = 1024;              ///< columns of a piece of softmax_mass()
  VEERY_STATIC int kMaxBlocks = 32;            ///< thread blocks per row; a power of two
  // Offsets in bytes.
  VEERY_STATIC int kKeys = 0, kLast = kMaxSorted * 8, kLargest = kLast + 16;
  VEERY_STATIC int kBytes = kLargest + 8 * kThreads / 32;
  static VEERY_GPU_HOST constexpr int pieces(int cols) { return (cols + kPiece - 1) / kPiece; }
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/rows.h"

namespace veery::gpu {

VEERY_CONSTANT int kSumLoads = 16, kMaxLoads = 4;  // loads in flight

/// Sorts the first `count` keys in descending order; `count` is a power of two (bitonic sort,
/// Batcher 1968).
VEERY_GPU void sort_keys(VEERY_SHARED uint64_t* keys, int count VEERY_CONTEXT) {
  for (int size = 2; size <= count; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      sync_block();
      for (int i = thread(); i < count / 2; i += threads()) {
        const int low = i / step * 2 * step + i % step, high = low + step;
        const uint64_t a = keys[low], b = keys[high];
        const bool falling = (low & size) == 0;
        if ((a < b) == falling) keys[low] = b, keys[high] = a;
      }
    }
  sync_block();
}

/// Returns the sum over 16 lanes: i and i + 8, then + 4, + 2, + 1.
VEERY_GPU Float64 sum_of_chains(Float64 sum) {
  for (int mask = 8; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
  return sum;
}

/// A thread block's pieces of its row.
struct Pieces {
  int begin, end;
};
VEERY_GPU Pieces pieces_of_block(const VEERY_THREAD TopKParams& a, int blocks VEERY_CONTEXT) {
  const int all = TopKSmem::pieces(a.x.cols), each = (all + blocks - 1) / blocks;
  const int begin = block_x() * each;
  return {begin, begin + each < all ? begin + each : all};
}

/// Returns the token mask of a row, a bit per logit; nullptr: all are allowed.
VEERY_GPU const VEERY_DEVICE uint32_t* mask_of(const VEERY_THREAD TopKParams& a, int64_t r) {
  if (a.masks == nullptr) return nullptr;
  const VEERY_DEVICE uint32_t* mask = a.masks + r * a.mask_words;
  return mask[0] != 0 ? mask + 1 : nullptr;
}

/// Finds the largest logit of each group. A group is searched by neighbouring threads of a block,
/// as many as the row has blocks, so a row has as many groups as a block has threads. change(r,
/// begin, end) and masks are applied first.
template <typename Change>
VEERY_GPU void find_groups(const VEERY_THREAD TopKParams& a,
                           const VEERY_THREAD Change& change VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  using P = TopKSmem;
  VEERY_DEVICE float* x = a.x.row(r);
  const int blocks = blocks_x();
  const Pieces own = pieces_of_block(a, blocks VEERY_CONTEXT_ARG);
  const int end = own.end * P::kPiece;
  change(r, own.begin * P::kPiece, end < a.x.cols ? end : a.x.cols);
  const VEERY_DEVICE uint32_t* allowed = mask_of(a, r);
  uint64_t best = 0;
  for (int piece = own.begin; piece < own.end; piece += kMaxLoads) {
    float values[kMaxLoads];
    VEERY_UNROLL(4)
    for (int i = 0; i < kMaxLoads; ++i) {
      const int k = (piece + i) * P::kPiece + thread();
      values[i] = piece + i < own.end && k < a.x.cols ? x[k] : bits_to_float(0x7fc00000);
    }
    VEERY_UNROLL(4)
    for (int i = 0; i < kMaxLoads; ++i) {
      const int k = (piece + i) * P::kPiece + thread();
      const bool inside = piece + i < own.end && k < a.x.cols;
      if (inside && allowed != nullptr && (allowed[k / 32] >> (k % 32) & 1U) == 0)
        x[k] = values[i] = bits_to_float(0x7fc00000);
      const uint64_t key = order_key(values[i], k);
      best = key > best ? key : best;
    }
  }
  for (int mask = 1; mask < blocks; mask *= 2) {
    const uint64_t other = shuffle_xor(best, mask);
    best = other > best ? other : best;
  }
  const int groups = P::kThreads / blocks;
  if (thread() % blocks == 0)
    a.groups[r * P::kThreads + block_x() * groups + thread() / blocks] = best;
}

/// Returns the sum over a piece of the row, by the 16 threads of half a warp. Keys of at least
/// `least` are appended to the found keys. All are counted, but at most kMaxSorted are stored.
VEERY_GPU Float64 sum_piece(const VEERY_THREAD TopKParams& a, int64_t r, int piece, float largest,
                            uint64_t least) {
  const VEERY_DEVICE float* x = a.x.row(r);
  Float64 sum = to_f64(0);
  const int begin = piece * TopKSmem::kPiece + lane() % 16;
  for (int j = 0; j < TopKSmem::kPiece; j += kSumLoads * 16) {
    float values[kSumLoads];
    VEERY_UNROLL(16)
    for (int i = 0; i < kSumLoads; ++i) {
      const int k = begin + j + i * 16;
      values[i] = k < a.x.cols ? x[k] : bits_to_float(0x7fc00000);
    }
    VEERY_UNROLL(16)
    for (int i = 0; i < kSumLoads; ++i) {
      const int k = begin + j + i * 16;
      if (k >= a.x.cols) continue;
      sum = sum + to_f64(exp_softmax_mass(values[i] - largest));
      const uint64_t key = order_key(values[i], k);
      if (key < least || key == 0) continue;
      const uint32_t at = count_arrival_on_device(a.arrived + 2 * r);
      if (at < static_cast<uint32_t>(TopKSmem::kMaxSorted))
        a.found[r * TopKSmem::kMaxSorted + at] = key;
    }
  }
  return sum_of_chains(sum);
}

/// The smallest of the `count` largest group maxima is a lower bound for the result, because
/// `count` logits of the row reach it. Few other logits do, so there are few to sort. `keys`:
/// shared memory.
VEERY_GPU void sum_and_find(const VEERY_THREAD TopKParams& a, int64_t r,
                            VEERY_SHARED uint64_t* keys VEERY_CONTEXT) {
  using P = TopKSmem;
  keys[thread()] = a.groups[r * P::kThreads + thread()];
  sort_keys(keys, P::kThreads VEERY_CONTEXT_ARG);
  const uint64_t best = keys[0];
  const uint64_t least = keys[a.count - 1];  // count is at most the number of threads
  const float largest = best == 0 ? 0.0F : a.x.row(r)[order_key_index(best)];
  const int pieces = P::pieces(a.x.cols);
  VEERY_DEVICE Float64* sums = a.sums + r * pieces;
  const Pieces own = pieces_of_block(a, blocks_x() VEERY_CONTEXT_ARG);
  for (int pair = own.begin + 2 * warp(); pair < own.end; pair += 2 * warps()) {
    const int piece = pair + lane() / 16;
    const Float64 sum = sum_piece(a, r, piece < own.end ? piece : pieces, largest, least);
    if (piece < own.end && lane() % 16 == 0) store_f64(sums + piece, sum);
  }
}

/// Returns the largest key below `bound`, in all threads.
VEERY_GPU uint64_t largest_below(const VEERY_THREAD TopKParams& a, const VEERY_DEVICE float* x,
                                 uint64_t bound, VEERY_SHARED uint64_t* shared VEERY_CONTEXT) {
  uint64_t best = 0;
  for (int k = thread(); k < a.x.cols; k += threads()) {
    const uint64_t key = order_key(x[k], k);
    if (key < bound && key > best) best = key;
  }
  best = block_largest(best, shared VEERY_CONTEXT_ARG);
  sync_block();
  return best;
}

/// Writes the `count` largest of the found keys in order. If more than kMaxSorted keys were found
/// (many equal logits), searches the row for one key after the other.
VEERY_GPU void write_top(const VEERY_THREAD TopKParams& a, int64_t r, VEERY_SHARED uint64_t* keys,
                         VEERY_SHARED uint64_t* top_keys VEERY_CONTEXT) {
  using P = TopKSmem;
  const VEERY_DEVICE float* x = a.x.row(r);
  const auto found = static_cast<int>(a.arrived[2 * r]);
  const bool sorted = found <= P::kMaxSorted;
  if (sorted) {
    int room = 2;
    while (room < found) room *= 2;
    for (int i = thread(); i < room; i += threads())
      keys[i] = i < found ? a.found[r * P::kMaxSorted + i] : 0;
    sort_keys(keys, room VEERY_CONTEXT_ARG);
  }
  uint64_t key = ~uint64_t{0};
  auto* indices = reinterpret_cast<VEERY_DEVICE int32_t*>(a.indices.row(r));
  for (int i = sorted ? thread() : 0; i < a.count; i += sorted ? threads() : 1) {
    key = !sorted ? largest_below(a, x, key, top_keys VEERY_CONTEXT_ARG) : i < found ? keys[i] : 0;
    if (!sorted && thread() != 0) continue;
    indices[i] = key == 0 ? -1 : order_key_index(key);
    a.values.row(r)[i] =
        key == 0 ? bits_to_float(static_cast<int32_t>(0xff800000)) : x[order_key_index(key)];
  }
}

/// Finishes a row from what all its blocks have found.
VEERY_GPU void finish_row(const VEERY_THREAD TopKParams& a, int64_t r,
                          VEERY_SHARED uint64_t* keys VEERY_CONTEXT) {
  using P = TopKSmem;
  write_top(a, r, keys,
            reinterpret_cast<VEERY_SHARED uint64_t*>(shared_memory() + P::kLargest)
                VEERY_CONTEXT_ARG);
  sync_block();
  if (warp() != 0) return;
  if (lane() < 2) a.arrived[2 * r + lane()] = 0;
  const int pieces = P::pieces(a.x.cols);
  Float64 mass = to_f64(0);
  for (int i = lane() % 16; i < pieces; i += 16) mass = mass + load_f64(a.sums + r * pieces + i);
  mass = sum_of_chains(mass);
  if (lane() == 0) a.mass.row(r)[0] = to_f32(mass);
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

// The function is that of top_k_fused.h or of top_k_split.h.
#define VEERY_GPU_TOP_K_KERNELS(X) VEERY_GPU_SINGLE(X, kShared, top_k_groups, TopKParams, 1024)
