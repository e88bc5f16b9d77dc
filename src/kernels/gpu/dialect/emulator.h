// emulator.h: a GPU in plain C++, so that kernels are tested on machines without one. The threads
// of a block are fibres that switch at barriers. Blocks run one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dtype/half.h"

namespace veery::gpu {

/// Thread blocks, threads and shared memory of a launch.
struct LaunchSize {
  int blocks_x = 1, blocks_y = 1, blocks_z = 1;
  int threads = 32;
  size_t shared = 0;  ///< bytes
  /// The next launch begins only after all launches before this one have ended.
  bool waits_before_trigger = false;
  int cluster = 1;  ///< blocks of a cluster, adjacent in y
};

namespace emulated {

/// The position of the running thread.
struct ThreadContext {
  int thread = 0, threads = 1;
  int x = 0, y = 0, z = 0, blocks_x = 1;
  uint8_t* shared = nullptr;
  uint8_t* exchanged = nullptr;  ///< exchange memory of the block, for shuffles
};
extern constinit thread_local ThreadContext* current;
inline ThreadContext& context() { return *current; }
void wait_for_block();
void wait_for_warp();
/// Called when memory that other threads may poll has changed.
void progress();
/// Returns the 32 bytes through which a thread passes values to others.
inline uint8_t* exchanged(int thread) { return current->exchanged + thread * 32; }
/// A copy is made as late as possible: when its thread waits for its group. Until then its
/// destination holds garbage. run() throws kBug if a thread ends before one of its copies is made.
void copy_async_16(uint8_t* to, const uint8_t* from);
void commit_copies();
void wait_for_copies(int left);
/// The copies of a phase are made when a thread first waits for it after all arrivals.
using Mbarrier = uint64_t;
void init_mbarrier(Mbarrier* mbarrier, int arrivals);
void copy_bulk(Mbarrier* mbarrier, uint8_t* to, const uint8_t* from, size_t bytes);
void arrive(Mbarrier* mbarrier);
void wait_for_phase(Mbarrier* mbarrier, int phase);

/// Runs all threads of all blocks. Throws kBug if threads wait for one another forever.
void run(void (*kernel)(const void* arguments), const void* arguments, const LaunchSize& size);

}  // namespace emulated

inline int thread() { return emulated::context().thread; }
inline int threads() { return emulated::context().threads; }
inline int block_x() { return emulated::context().x; }
inline int block_y() { return emulated::context().y; }
inline int block_z() { return emulated::context().z; }
inline int blocks_x() { return emulated::context().blocks_x; }
inline void sync_block() { emulated::wait_for_block(); }
inline void sync_warp() { emulated::wait_for_warp(); }
inline void set_graph_condition(uint64_t condition, uint32_t value) {
  *reinterpret_cast<uint32_t*>(condition) = value;
}
inline int32_t count_arrival(int32_t* counter) { return emulated::progress(), (*counter)++; }
inline uint32_t count_arrival_on_device(uint32_t* counter) { return (*counter)++; }
inline uint8_t* shared_memory() { return emulated::context().shared; }
inline void copy_async_16(uint8_t* shared, const uint8_t* from) {
  emulated::copy_async_16(shared, from);
}
inline void commit_copies() { emulated::commit_copies(); }
template <int kLeft>
void wait_for_copies() {
  emulated::wait_for_copies(kLeft);
}

using emulated::Mbarrier;
inline void init_mbarrier(Mbarrier* mbarrier, int arrivals = 32) {
  emulated::init_mbarrier(mbarrier, arrivals);
}
inline void copy_bulk(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from, int bytes) {
  emulated::copy_bulk(mbarrier, shared, from, static_cast<size_t>(bytes));
}
inline void init_tile_mbarrier(Mbarrier* mbarrier) { emulated::init_mbarrier(mbarrier, 1); }
inline void copy_bulk_by_warp(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from, int bytes) {
  if (thread() % 32 == 0) emulated::copy_bulk(mbarrier, shared, from, static_cast<size_t>(bytes));
}
inline void copy_bulk_from_lane(int of, Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from,
                                int bytes) {
  if (thread() % 32 == of) emulated::copy_bulk(mbarrier, shared, from, static_cast<size_t>(bytes));
}
template <typename PieceAt>
void copy_bulk_pieces(Mbarrier* mbarrier, int count, const PieceAt& piece_at) {
  const int lane = thread() % 32;
  if (lane >= count) return emulated::copy_bulk(mbarrier, nullptr, nullptr, 0);
  const auto piece = piece_at(lane);
  emulated::copy_bulk(mbarrier, piece.to, piece.from, static_cast<size_t>(piece.bytes));
}
inline void wait_for_phase(Mbarrier* mbarrier, int phase) {
  emulated::wait_for_phase(mbarrier, phase);
}
inline void arrive(Mbarrier* mbarrier) { emulated::arrive(mbarrier); }

template <typename T>
T shuffle(T value, int from) {
  T result;
  std::memcpy(emulated::exchanged(thread()), &value, sizeof value);
  sync_warp();
  std::memcpy(&result, emulated::exchanged(thread() / 32 * 32 + from), sizeof result);
  sync_warp();
  return result;
}
template <typename T>
T shuffle_xor(T value, int mask) {
  return shuffle(value, thread() % 32 ^ mask);
}
inline uint32_t ballot(bool predicate) {
  emulated::exchanged(thread())[0] = predicate ? 1 : 0;
  sync_warp();
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i)
    bits |= uint32_t{emulated::exchanged(thread() / 32 * 32 + i)[0]} << i;
  sync_warp();
  return bits;
}
inline float f16_to_float(uint16_t bits) { return f16_to_f32(bits); }
inline uint16_t float_to_f16(float x) { return f32_to_f16(x); }
inline void atomic_max(uint64_t* at, uint64_t key) {
  if (key > *at) *at = key;
}

namespace emulated {

// Multiplies int8 operands as the lanes hold them. `columns`: 32 or 16.
inline void mma_bytes(int32_t (&c)[4], const uint32_t (&words)[6], int columns) {
  std::memcpy(exchanged(thread()), words, sizeof words);
  sync_warp();
  const uint8_t* first = exchanged(thread() / 32 * 32);
  const auto byte_of = [&](int lane, int word, int byte) {
    return static_cast<int8_t>(first[lane * 32 + word * 4 + byte]);
  };
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < columns; ++k) {
      const int row = i / 2, high = k / 16;  // row g or g + 8, lower or upper 16 columns
      const int a = byte_of(4 * g + k % 16 / 4, 2 * high + row, k % 4);
      const int b = byte_of(4 * (2 * t + i % 2) + k % 16 / 4, 4 + high, k % 4);
      // Unsigned, so that overflow wraps as on a GPU: sums of absent rows start with arbitrary
      // values.
      c[i] = static_cast<int32_t>(static_cast<uint32_t>(c[i]) + static_cast<uint32_t>(a * b));
    }
  sync_warp();
}

// Multiplies operands of two f16 or bf16 per word. c and the products are added in column order, in
// double, and rounded once.
template <typename ToFloat>
void mma_halves(float (&c)[4], const uint32_t (&words)[6], const ToFloat& to_float) {
  std::memcpy(exchanged(thread()), words, sizeof words);
  sync_warp();
  const uint8_t* first = exchanged(thread() / 32 * 32);
  const auto half_of = [&](int lane, int word, int half) {
    uint16_t bits;
    std::memcpy(&bits, first + lane * 32 + word * 4 + half * 2, 2);
    return double{to_float(bits)};
  };
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int i = 0; i < 4; ++i) {
    double sum = c[i];
    for (int k = 0; k < 16; ++k)
      sum += half_of(4 * g + k % 8 / 2, 2 * (k / 8) + i / 2, k % 2) *
             half_of(4 * (2 * t + i % 2) + k % 8 / 2, 4 + k / 8, k % 2);
    c[i] = static_cast<float>(sum);
  }
  sync_warp();
}

}  // namespace emulated

inline void mma_m16n8k16_f16_zero(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  c[0] = c[1] = c[2] = c[3] = 0;
  emulated::mma_halves(c, {a[0], a[1], a[2], a[3], b0, b1}, f16_to_f32);
}
inline void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::mma_halves(c, {a[0], a[1], a[2], a[3], b0, b1}, bf16_to_f32);
}
inline uint32_t bytes_to_f16x2(uint32_t bytes) {
  return float_to_f16(static_cast<float>(bytes & 0xffU)) |
         uint32_t{float_to_f16(static_cast<float>(bytes >> 8 & 0xffU))} << 16;
}
inline uint32_t f16x2_times_64(uint32_t halves) {
  const auto times = [](uint32_t bits) {
    return float_to_f16(64 * f16_to_float(static_cast<uint16_t>(bits)));
  };
  return times(halves & 0xffffU) | uint32_t{times(halves >> 16)} << 16;
}
inline void atomic_or(uint32_t* word, uint32_t bits) { *word |= bits; }
inline void mma_m16n8k32_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::mma_bytes(c, {a[0], a[1], a[2], a[3], b0, b1}, 32);
}
inline void mma_m16n8k32_s8_from(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                 int32_t first, int32_t second) {
  c[0] = c[2] = first, c[1] = c[3] = second;
  mma_m16n8k32_s8(c, a, b0, b1);
}
inline void mma_m16n8k16_s8_zero(int32_t (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  c[0] = c[1] = c[2] = c[3] = 0;
  emulated::mma_bytes(c, {a0, a1, 0, 0, b0, 0}, 16);
}
inline int byte_of(uint32_t word, int i) { return static_cast<uint8_t>(word >> 8 * i); }
inline int signed_byte_of(uint32_t word, int i) { return static_cast<int8_t>(word >> 8 * i); }
inline uint32_t pack_low_bytes(const uint32_t (&words)[4]) {
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= (words[i] & 0xffU) << 8 * i;
  return bytes;
}
inline int32_t add_bytes_s8(uint32_t word, int32_t sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(word >> 8 * i);
  return sum;
}
inline void mma_m16n8k16_s8(int32_t (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  emulated::mma_bytes(c, {a0, a1, 0, 0, b0, 0}, 16);
}

}  // namespace veery::gpu
