// scan_smem.h: work split and shared memory of scan().
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// How the state is updated (veery::LowRank, and Decay::kOuter).
enum class ScanKind : int32_t { kPlain, kDelta, kGeneral, kOuter };

/// A thread block has 32 columns of one head of one span. 4 warps hold the state in registers: 4
/// threads per column, each with every fourth key, as the four accumulators of the CPU. 3 warps
/// load the inputs of the next positions to shared memory, and one computes what all columns share.
struct ScanSmem {
  VEERY_STATIC int kColumns = 32;
  VEERY_STATIC int kUpdaters = 128, kLoaders = 96, kThreads = kUpdaters + kLoaders + 32;
  VEERY_STATIC int kBuffers = 3;
  enum { kAlpha, kGate, kDivisor, kBonus, kScalars };  ///< scalars of a position

  int chain;          ///< keys of a thread, at most; 0: the scan does not fit
  int pitch, vector;  ///< floats of the keys of one thread, and of all four
  int vectors;        ///< vectors of a position: q, k and others
  int position;       ///< floats: vectors, values, times, scalars
  int positions;      ///< positions of a buffer
  int normaliser;     ///< floats
  int bytes;
};
/// `channel`: each key channel has its own decay; `max_smem`: bytes that a thread block may have.
/// chain is 0 if there are too many keys.
VEERY_GPU_HOST constexpr ScanSmem scan_smem(int keys, ScanKind kind, bool channel, bool normaliser,
                                            int max_smem) {
  ScanSmem p{};
  p.chain = keys <= 16    ? 4
            : keys <= 64  ? 16
            : keys <= 128 ? 32
            : keys <= 256 ? 64
            : keys <= 512 ? 128
                          : 0;
  p.pitch = p.chain + 4;  // against bank conflicts
  p.vector = 4 * p.pitch;
  p.vectors = 2 + (channel ? 1 : 0) + (kind == ScanKind::kGeneral ? 2 : 0);
  p.position = p.vectors * p.vector + (kind == ScanKind::kOuter ? 2 : 1) * ScanSmem::kColumns +
               ScanSmem::kScalars;
  p.normaliser = normaliser ? (keys + 15) / 16 * 16 : 0;
  constexpr int kMaxPositions = 8, kMaxBytes = 96 << 10;
  const int left = max_smem - 4 * p.normaliser, room = left < kMaxBytes ? left : kMaxBytes;
  p.positions = room / (ScanSmem::kBuffers * p.position * 4);
  if (p.positions > kMaxPositions) p.positions = kMaxPositions;
  if (p.positions < 1) p.chain = 0;
  p.bytes = 4 * (ScanSmem::kBuffers * p.positions * p.position + p.normaliser);
  return p;
}

}  // namespace veery::gpu
