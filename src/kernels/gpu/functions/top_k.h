// top_k.h: the largest numbers of a row, sorted, and the sum that makes probabilities of them: what
// the choice of a token needs of its logits.
#pragma once
#include "kernels/gpu/dialect/row_arguments.h"
#include "kernels/gpu/functions/chain.h"

namespace veery::gpu {

/// Sorts the first `count` keys, a power of two, the largest first (bitonic: Batcher 1968).
VEERY_GPU void sort_keys(uint64_t* keys, int count) {
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

/// Of 16 lanes: i and i + 8, then + 4, + 2, + 1.
VEERY_GPU double sum_of_chains(double sum) {
  for (int mask = 8; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
  return sum;
}

/// Elements k, k + step .. of a row, NaN behind its end: all are asked for before one is looked at.
template <int kCount>
VEERY_GPU void load_some(const float* x, int cols, int k, int step, float (&values)[kCount]) {
  VEERY_UNROLL(16)
  for (int i = 0; i < kCount; ++i)
    values[i] = k + i * step < cols ? x[k + i * step] : float_of(0x7fc00000);
}
VEERY_CONSTANT int kLoaded = 16;  // together

/// The largest element of those that a thread has, as a key.
VEERY_GPU uint64_t own_largest(const float* x, int cols) {
  float best = float_of(static_cast<int32_t>(0xff800000));
  int at = -1;
  for (int first = thread(); first < cols; first += kLoaded * threads()) {
    float values[kLoaded];
    load_some(x, cols, first, threads(), values);
    VEERY_UNROLL(16)
    for (int i = 0; i < kLoaded; ++i)
      if (values[i] > best || (at < 0 && values[i] == values[i]))
        best = values[i], at = first + i * threads();
  }
  return at < 0 ? 0 : key_of(best, at);
}

/// The sum over a piece of the row, by the 16 threads of half a warp. Whoever passes has its key
/// put among `keys`, of which there may be more than have room.
VEERY_GPU double sum_piece(const TopKArguments& a, const float* x, int piece, float largest,
                           uint64_t least, uint64_t* keys, int32_t* count) {
  double sum = 0;
  const int begin = piece * TopKPlaces::kPiece + lane() % 16;
  for (int j = 0; j < TopKPlaces::kPiece; j += kLoaded * 16) {
    float values[kLoaded];
    load_some(x, a.x.cols, begin + j, 16, values);
    VEERY_UNROLL(16)
    for (int i = 0; i < kLoaded; ++i) {
      const int k = begin + j + i * 16;
      if (k >= a.x.cols) continue;
      sum = sum + double{quick_exp(values[i] - largest)};
      const uint64_t key = key_of(values[i], k);
      if (key < least || key == 0) continue;
      const int32_t at = arrive_at(count);
      if (at < TopKPlaces::kMost) keys[at] = key;
    }
  }
  return sum_of_chains(sum);
}

/// The largest key below `bound`, in all threads.
VEERY_GPU uint64_t largest_below(const TopKArguments& a, const float* x, uint64_t bound,
                                 uint64_t* shared) {
  uint64_t best = 0;
  for (int k = thread(); k < a.x.cols; k += threads()) {
    const uint64_t key = key_of(x[k], k);
    if (key < bound && key > best) best = key;
  }
  best = block_largest(best, shared);
  sync_block();
  return best;
}

/// A block a row. The `count` largest of the threads' own largest numbers are as many numbers of
/// the row, so none that is smaller than all of those is wanted; few others are left to be sorted.
VEERY_GPU void top_k(const TopKArguments& a) {
  wait_for_inputs();
  const int64_t r = block_x();
  if (r >= a.run.count(a.values.rows)) return;
  using P = TopKPlaces;
  auto* keys = reinterpret_cast<uint64_t*>(shared_memory() + P::kKeys);
  auto* count = reinterpret_cast<int32_t*>(shared_memory() + P::kCount);
  auto* largest_keys = reinterpret_cast<uint64_t*>(shared_memory() + P::kLargest);
  auto* sums = reinterpret_cast<double*>(shared_memory() + P::kSums);
  float* x = a.x.row(r);

  if (a.lists != nullptr)
    change_logits(a.states[r], a.lists[r], x, a.x.cols, reinterpret_cast<int32_t*>(keys));
  if (thread() == 0) *count = 0;
  keys[thread()] = own_largest(x, a.x.cols);
  sort_keys(keys, P::kThreads);
  const uint64_t best = keys[0];
  const uint64_t least = keys[a.count - 1];  // takes_top_k(): no more than there are threads
  sync_block();

  const float largest = best == 0 ? 0.0F : x[index_of(best)];
  const int pieces = P::pieces(a.x.cols);
  for (int piece = 2 * warp() + lane() / 16; piece - lane() / 16 < pieces; piece += 2 * warps()) {
    const double sum = sum_piece(a, x, piece, largest, least, keys, count);
    if (piece < pieces && lane() % 16 == 0) sums[piece] = sum;
  }
  sync_block();
  const int found = *count;
  const bool sorted = found <= P::kMost;
  if (sorted) {
    int room = 2;
    while (room < found) room *= 2;
    for (int i = found + thread(); i < room; i += threads()) keys[i] = 0;
    sort_keys(keys, room);
  }
  uint64_t key = ~uint64_t{0};
  auto* indices = reinterpret_cast<int32_t*>(a.indices.row(r));
  for (int i = sorted ? thread() : 0; i < a.count; i += sorted ? threads() : 1) {
    // Many equal numbers: one after the other.
    key = !sorted ? largest_below(a, x, key, largest_keys) : i < found ? keys[i] : 0;
    if (!sorted && thread() != 0) continue;
    indices[i] = key == 0 ? -1 : index_of(key);
    a.values.row(r)[i] = key == 0 ? float_of(static_cast<int32_t>(0xff800000)) : x[index_of(key)];
  }
  if (warp() != 0) return;
  double mass = 0;
  for (int i = lane() % 16; i < pieces; i += 16) mass = mass + sums[i];
  mass = sum_of_chains(mass);
  if (lane() == 0) a.mass.row(r)[0] = static_cast<float>(mass);
}

}  // namespace veery::gpu
