// recurrence_arguments.h: what the kernels of recurrent layers are given, and how a scan is shared
// out.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

VEERY_CONSTANT int64_t kSpanRows = -3;  ///< veery::kSequenceRows

/// What sequences keep of a layer (veery::Layout::kBlocks).
struct KeptBlocks {
  VEERY_DEVICE uint8_t* data;
  int64_t block;  ///< bytes
  int32_t group;

  explicit VEERY_GPU_HOST operator bool() const { return data != nullptr; }
  /// Of how many of the last positions of a run blocks are kept.
  VEERY_GPU int kept(const VEERY_THREAD Run& run, int sequence) const {
    return run.tables[2 * (group * run.counts[3] + sequence) + 1];
  }
  /// The block that stands for the first `position` positions.
  VEERY_GPU VEERY_DEVICE float* at(const VEERY_THREAD Run& run, int sequence,
                                   int64_t position) const {
    const VEERY_DEVICE int32_t* table = run.tables + 2 * (group * run.counts[3] + sequence);
    return reinterpret_cast<VEERY_DEVICE float*>(data +
                                                 run.pages[table[0] + position % table[1]] * block);
  }
};

/// What is done to the state (veery::LowRank, and Decay::kOuter).
enum class ScanKind : int32_t { kPlain, kDelta, kGeneral, kOuter };

/// A block of threads has 32 columns of a head of a span. 4 warps of it have the state in
/// registers, 4 threads a column, each of them every fourth key: the four chains of the CPU. 3
/// warps bring what the next positions need to shared memory, and one finds what all columns share.
struct ScanPlan {
  VEERY_STATIC int kColumns = 32;
  VEERY_STATIC int kWalkers = 128, kLoaders = 96, kThreads = kWalkers + kLoaders + 32;
  VEERY_STATIC int kBuffers = 3;
  enum { kAlpha, kGate, kDivisor, kBonus, kScalars };  ///< of a position

  int chain;          ///< keys of a thread, at most
  int pitch, vector;  ///< floats of the keys of one chain, and of all four
  int vectors;        ///< of a position: q, k, and what else there is
  int position;       ///< floats: vectors, values, times, scalars
  int positions;      ///< of a buffer
  int normaliser;     ///< floats of the normaliser
  int bytes;
};
/// `channel`: each channel of a key has its own decay; `normaliser`: there is one; `most`: bytes of
/// shared memory that a block may have. No plan (chain 0) where keys are too many.
VEERY_GPU_HOST constexpr ScanPlan scan_plan(int keys, ScanKind kind, bool channel, bool normaliser,
                                            int most) {
  ScanPlan p{};
  p.chain = keys <= 16    ? 4
            : keys <= 64  ? 16
            : keys <= 128 ? 32
            : keys <= 256 ? 64
            : keys <= 512 ? 128
                          : 0;
  p.pitch = p.chain + 4;  // so that the chains lie in different banks
  p.vector = 4 * p.pitch;
  p.vectors = 2 + (channel ? 1 : 0) + (kind == ScanKind::kGeneral ? 2 : 0);
  p.position = p.vectors * p.vector + (kind == ScanKind::kOuter ? 2 : 1) * ScanPlan::kColumns +
               ScanPlan::kScalars;
  p.normaliser = normaliser ? (keys + 15) / 16 * 16 : 0;
  constexpr int kMost = 8, kRoom = 96 << 10;
  const int left = most - 4 * p.normaliser, room = left < kRoom ? left : kRoom;
  p.positions = room / (ScanPlan::kBuffers * p.position * 4);
  if (p.positions > kMost) p.positions = kMost;
  if (p.positions < 1) p.chain = 0;
  p.bytes = 4 * (ScanPlan::kBuffers * p.positions * p.position + p.normaliser);
  return p;
}

struct ScanArguments {
  Run run;
  Matrix q, k, v, decay, gate, a, b, bonus, rates, out;
  KeptBlocks state;
  int32_t heads, key_heads, tiled;
  int32_t keys, values;            ///< of a head
  int32_t blocks, block;           ///< of 16 columns of a head; floats of one
  int32_t normaliser, stabiliser;  ///< where they are in a block; 0: there is none
  int32_t channel;                 ///< decay of each channel
  int32_t read_before;
  float scale, eps;
  ScanPlan plan;
};

struct Conv1dArguments {
  Run run;
  Matrix x, weight, bias, out;
  KeptBlocks state;
  Activate activation;
  VEERY_STATIC int kRows = 32;  ///< of a block of threads
  VEERY_STATIC int kMostWidth = 8;
};

struct SlstmArguments {
  Run run;
  Matrix x, recurrent, bias, out;
  KeptBlocks state;
  int32_t heads;
};

struct LinearHeadsArguments {
  Run run;
  Matrix x, weight, out;
};

}  // namespace veery::gpu
