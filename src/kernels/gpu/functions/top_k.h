// top_k.h: the largest numbers of a row, sorted, and the sum that makes probabilities of them: what
// the choice of a token needs of its logits. Several blocks share a row.
#pragma once
#include "kernels/gpu/dialect/top_k_arguments.h"
#include "kernels/gpu/functions/chain.h"

namespace veery::gpu {

VEERY_CONSTANT int kLoaded = 16, kTogether = 4;  // numbers that are asked for together

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

/// Which pieces of its row a block has.
struct Pieces {
  int begin, end;
};
VEERY_GPU Pieces own_pieces(const TopKArguments& a, int blocks) {
  const int all = TopKPlaces::pieces(a.x.cols), each = (all + blocks - 1) / blocks;
  const int begin = block_x() * each;
  return {begin, begin + each < all ? begin + each : all};
}

/// The bits of the numbers of a row that count; nullptr: all do.
VEERY_GPU const uint32_t* mask_of(const TopKArguments& a, int64_t r) {
  if (a.masks == nullptr) return nullptr;
  const uint32_t* mask = a.masks + r * a.mask_words;
  return mask[0] != 0 ? mask + 1 : nullptr;
}

/// Blocks of a row times groups of a block are as many as a block has threads: a group is that of
/// as many threads as there are blocks. Biases, penalties and masks come first.
VEERY_GPU void top_k_groups(const TopKArguments& a) {
  wait_for_inputs();
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  using P = TopKPlaces;
  float* x = a.x.row(r);
  const int blocks = blocks_x();
  const Pieces own = own_pieces(a, blocks);
  if (a.lists != nullptr) {
    auto* ids = reinterpret_cast<int32_t*>(shared_memory() + P::kKeys);
    const int end = own.end * P::kPiece;
    change_logits(a.states[r], a.lists[r], x, own.begin * P::kPiece,
                  end < a.x.cols ? end : a.x.cols, ids);
  }
  const uint32_t* allowed = mask_of(a, r);
  uint64_t best = 0;
  for (int piece = own.begin; piece < own.end; piece += kTogether) {
    float values[kTogether];
    VEERY_UNROLL(4)
    for (int i = 0; i < kTogether; ++i) {
      const int k = (piece + i) * P::kPiece + thread();
      values[i] = piece + i < own.end && k < a.x.cols ? x[k] : float_of(0x7fc00000);
    }
    VEERY_UNROLL(4)
    for (int i = 0; i < kTogether; ++i) {
      const int k = (piece + i) * P::kPiece + thread();
      const bool inside = piece + i < own.end && k < a.x.cols;
      if (inside && allowed != nullptr && (allowed[k / 32] >> (k % 32) & 1U) == 0)
        x[k] = values[i] = float_of(0x7fc00000);
      const uint64_t key = key_of(values[i], k);
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

/// The sum over a piece of the row, by the 16 threads of half a warp. Whoever passes has its key
/// put among those that were found, of which there may be more than have room.
VEERY_GPU double sum_piece(const TopKArguments& a, int64_t r, int piece, float largest,
                           uint64_t least) {
  const float* x = a.x.row(r);
  double sum = 0;
  const int begin = piece * TopKPlaces::kPiece + lane() % 16;
  for (int j = 0; j < TopKPlaces::kPiece; j += kLoaded * 16) {
    float values[kLoaded];
    VEERY_UNROLL(16)
    for (int i = 0; i < kLoaded; ++i) {
      const int k = begin + j + i * 16;
      values[i] = k < a.x.cols ? x[k] : float_of(0x7fc00000);
    }
    VEERY_UNROLL(16)
    for (int i = 0; i < kLoaded; ++i) {
      const int k = begin + j + i * 16;
      if (k >= a.x.cols) continue;
      sum = sum + double{quick_exp(values[i] - largest)};
      const uint64_t key = key_of(values[i], k);
      if (key < least || key == 0) continue;
      const uint32_t at = arrive_on_device(a.arrived + 2 * r);
      if (at < TopKPlaces::kMost) a.found[r * TopKPlaces::kMost + at] = key;
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

/// Whether this block is the last of its row to come.
VEERY_GPU bool is_last_of_row(const TopKArguments& a, int64_t r, int32_t* last) {
  sync_block();
  if (thread() == 0)
    *last = arrive_on_device(a.arrived + 2 * r + 1) + 1 == static_cast<uint32_t>(blocks_x());
  sync_block();
  return *last != 0;
}

/// Of what was found in a row the `count` largest, in order; many equal numbers one after the
/// other.
VEERY_GPU void write_largest(const TopKArguments& a, int64_t r, uint64_t* keys,
                             uint64_t* largest_keys) {
  using P = TopKPlaces;
  const float* x = a.x.row(r);
  const auto found = static_cast<int>(a.arrived[2 * r]);
  const bool sorted = found <= P::kMost;
  if (sorted) {
    int room = 2;
    while (room < found) room *= 2;
    for (int i = thread(); i < room; i += threads())
      keys[i] = i < found ? a.found[r * P::kMost + i] : 0;
    sort_keys(keys, room);
  }
  uint64_t key = ~uint64_t{0};
  auto* indices = reinterpret_cast<int32_t*>(a.indices.row(r));
  for (int i = sorted ? thread() : 0; i < a.count; i += sorted ? threads() : 1) {
    key = !sorted ? largest_below(a, x, key, largest_keys) : i < found ? keys[i] : 0;
    if (!sorted && thread() != 0) continue;
    indices[i] = key == 0 ? -1 : index_of(key);
    a.values.row(r)[i] = key == 0 ? float_of(static_cast<int32_t>(0xff800000)) : x[index_of(key)];
  }
}

/// The `count` largest of the groups' largest numbers are as many numbers of the row, so none that
/// is smaller than all of those is wanted; few others are left to be sorted, by the last block.
VEERY_GPU void top_k(const TopKArguments& a) {
  wait_for_inputs();
  const int64_t r = block_y();
  if (r >= a.run.count(a.values.rows)) return;
  using P = TopKPlaces;
  auto* keys = reinterpret_cast<uint64_t*>(shared_memory() + P::kKeys);
  auto* last = reinterpret_cast<int32_t*>(shared_memory() + P::kLast);
  auto* largest_keys = reinterpret_cast<uint64_t*>(shared_memory() + P::kLargest);

  keys[thread()] = a.groups[r * P::kThreads + thread()];
  sort_keys(keys, P::kThreads);
  const uint64_t best = keys[0];
  const uint64_t least = keys[a.count - 1];  // takes_top_k(): no more than there are threads
  const float largest = best == 0 ? 0.0F : a.x.row(r)[index_of(best)];
  const int pieces = P::pieces(a.x.cols);
  double* sums = a.sums + r * pieces;
  const Pieces own = own_pieces(a, blocks_x());
  for (int pair = own.begin + 2 * warp(); pair < own.end; pair += 2 * warps()) {
    const int piece = pair + lane() / 16;
    const double sum = sum_piece(a, r, piece < own.end ? piece : pieces, largest, least);
    if (piece < own.end && lane() % 16 == 0) sums[piece] = sum;
  }
  if (!is_last_of_row(a, r, last)) return;
  write_largest(a, r, keys, largest_keys);
  sync_block();
  if (warp() != 0) return;
  if (lane() < 2) a.arrived[2 * r + lane()] = 0;
  double mass = 0;
  for (int i = lane() % 16; i < pieces; i += 16) mass = mass + sums[i];
  mass = sum_of_chains(mass);
  if (lane() == 0) a.mass.row(r)[0] = static_cast<float>(mass);
}

}  // namespace veery::gpu
