// scan.h: linear recurrences, with the bits of kernels/cpu/recurrence/scan.cc. One launch goes
// through all positions of a run, with the state in registers.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/recurrence_params.h"

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

struct ScanParams {
  Run run;
  Matrix q, k, v, decay, gate, a, b, bonus, rates, out;
  RecurrentState state;
  int32_t heads, key_heads, tiled;
  int32_t keys, values;            ///< dimensions of a head
  int32_t blocks, block;           ///< blocks of 16 columns per head; floats of one block
  int32_t normaliser, stabiliser;  ///< offsets in a block; 0: absent
  int32_t channel;                 ///< 1: one decay per channel
  int32_t read_before;
  float scale, eps;
  ScanSmem plan;
};

namespace key {

/// `chain`: ScanSmem::chain.
constexpr KernelKey scan(ScanKind kind, int chain) {
  return of(Family::kScan, static_cast<int>(kind), RowClass::kAny, chain);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/formulas.h"

namespace veery::gpu {

/// The inputs of one position in shared memory (ScanSmem).
struct ScanPosition {
  VEERY_SHARED float* at;
  const VEERY_THREAD ScanSmem& plan;

  VEERY_GPU VEERY_SHARED float* vector(int i) const { return at + i * plan.vector; }
  VEERY_GPU VEERY_SHARED float* values() const { return at + plan.vectors * plan.vector; }
  VEERY_GPU VEERY_SHARED float* times() const { return values() + ScanSmem::kColumns; }
  VEERY_GPU VEERY_SHARED float* scalars() const { return at + plan.position - ScanSmem::kScalars; }
};

/// 32 columns of a head of one span.
template <int kChain, ScanKind kKind>
class Scan {
 public:
  VEERY_GPU Scan(const VEERY_THREAD ScanParams& params, int64_t span, int part VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT a_(params), of_(span_at(a_.run.spans + span)) {
    const int parts = (a_.values + ScanSmem::kColumns - 1) / ScanSmem::kColumns;
    head_ = part / parts;
    first_ = part % parts * ScanSmem::kColumns;
    key_head_ = a_.tiled != 0 ? head_ % a_.key_heads : head_ / (a_.heads / a_.key_heads);
    shared_ = reinterpret_cast<VEERY_SHARED float*>(shared_memory());
    kept_ = a_.state ? a_.state.kept(a_.run, of_.sequence) : 0;
  }

  /// Processes all positions, in a pipeline of three stages over chunks of positions: load, compute
  /// what columns share, update.
  VEERY_GPU void run() {
    const int each = a_.plan.positions, chunks = (of_.rows + each - 1) / each;
    const bool updates = thread() < ScanSmem::kUpdaters;
    const bool loads = !updates && thread() < ScanSmem::kUpdaters + ScanSmem::kLoaders;
    float s[kChain];
    float rates[kRatesKept];
    if (updates) begin(s, rates);
    if (!updates && !loads) begin_shared();
    for (int step = 0; step < chunks + 2; ++step) {
      if (loads && step < chunks) load(step);
      if (!updates && !loads && step >= 1 && step <= chunks) compute_shared(step - 1);
      if (updates && step >= 2) update(step - 2, s, rates);
      sync_block();
    }
  }

 private:
  VEERY_STATIC bool kOuter = kKind == ScanKind::kOuter;
  // The decay rates of a few keys stay in registers.
  VEERY_STATIC bool kKeepsRates = kOuter && kChain <= 16;
  VEERY_STATIC int kRatesKept = kKeepsRates ? kChain : 1;
  enum { kQ, kK, kAlphas };

  VEERY_GPU int a_vector() const { return a_.channel != 0 ? 3 : 2; }
  VEERY_GPU int count_of(int chunk) const {
    const int left = of_.rows - chunk * a_.plan.positions;
    return left < a_.plan.positions ? left : a_.plan.positions;
  }
  VEERY_GPU ScanPosition position(int chunk, int t) const {
    const int at = chunk % ScanSmem::kBuffers * a_.plan.positions + t;
    return {shared_ + at * a_.plan.position, a_.plan};
  }
  VEERY_GPU VEERY_SHARED float* normaliser() const {
    return shared_ + ScanSmem::kBuffers * a_.plan.positions * a_.plan.position;
  }
  static VEERY_GPU const VEERY_DEVICE float* row_or_only(const VEERY_THREAD Matrix& m,
                                                         int64_t row) {
    return m.row(m.rows == 1 ? 0 : row);
  }
  VEERY_GPU int64_t load_row_with_norm(int chunk, int t) const {
    return of_.first_row + chunk * a_.plan.positions + t;
  }
  VEERY_GPU bool is_snapshot(int chunk, int t) const {
    return of_.rows - (chunk * a_.plan.positions + t) <= kept_;
  }
  /// Returns the address of a stored state: 16 columns of this head, number `block`, after the
  /// position, or before the run.
  VEERY_GPU VEERY_DEVICE float* memory(int64_t position, int block) const {
    return a_.state.at(a_.run, of_.sequence, position) +
           (int64_t{head_} * a_.blocks + block) * a_.block;
  }
  VEERY_GPU VEERY_DEVICE float* state_after(int chunk, int t, int block) const {
    return memory(of_.position + chunk * a_.plan.positions + t + 1, block);
  }
  VEERY_GPU bool continues() const { return a_.state && of_.position > 0; }

  // Loader warps

  VEERY_GPU void load(int chunk) {
    constexpr int kKeys = 4 * kChain;
    const int count = count_of(chunk), own = thread() - ScanSmem::kUpdaters;
    VEERY_UNROLL(4)
    for (int e = own; e < count * kKeys; e += ScanSmem::kLoaders) {
      const int t = e / kKeys, i = e % kKeys;
      const bool in_range = i < a_.keys;
      const int64_t row = load_row_with_norm(chunk, t);
      const int key = key_head_ * a_.keys + i, channel = head_ * a_.keys + i;
      VEERY_SHARED float* to = position(chunk, t).at + i % 4 * a_.plan.pitch + i / 4;
      to[kQ * a_.plan.vector] = in_range ? a_.q.row(row)[key] : 0.0F;
      to[kK * a_.plan.vector] = in_range ? a_.k.row(row)[key] : 0.0F;
      if (a_.channel != 0)
        to[kAlphas * a_.plan.vector] =
            in_range ? exp_f32(row_or_only(a_.decay, row)[channel]) : 0.0F;
      if constexpr (kKind == ScanKind::kGeneral) {
        to[a_vector() * a_.plan.vector] = in_range ? a_.a.row(row)[channel] : 0.0F;
        to[(a_vector() + 1) * a_.plan.vector] = in_range ? a_.b.row(row)[channel] : 0.0F;
      }
    }
    for (int e = own; e < count * ScanSmem::kColumns; e += ScanSmem::kLoaders) {
      const int t = e / ScanSmem::kColumns, c = e % ScanSmem::kColumns;
      const bool in_range = first_ + c < a_.values;
      const int64_t row = load_row_with_norm(chunk, t),
                    column = int64_t{head_} * a_.values + first_ + c;
      position(chunk, t).values()[c] = in_range ? a_.v.row(row)[column] : 0.0F;
      if constexpr (kOuter)
        position(chunk, t).times()[c] = in_range ? row_or_only(a_.decay, row)[column] : 0.0F;
    }
  }

  // The warp that computes what all columns share

  VEERY_GPU void begin_shared() {
    largest_ = 0;
    if (a_.stabiliser != 0 && continues())
      largest_ = memory(of_.position, first_ / 16)[a_.stabiliser];
    if (a_.normaliser == 0) return;
    for (int i = lane(); i < a_.plan.normaliser; i += kWarp)
      normaliser()[i] = continues() ? memory(of_.position, first_ / 16)[a_.normaliser + i] : 0.0F;
    sync_warp();
  }

  VEERY_GPU void compute_shared(int chunk) {
    const int count = count_of(chunk);
    const bool head_decay = a_.decay && a_.channel == 0 && !kOuter;
    float decay = 0, gate = 1;
    if (lane() < count) {
      const int64_t row = load_row_with_norm(chunk, lane());
      if (head_decay) decay = row_or_only(a_.decay, row)[head_];
      if (a_.gate) gate = a_.gate.row(row)[head_];
    }
    if (a_.stabiliser == 0) {
      if (lane() < count) {
        VEERY_SHARED float* scalars = position(chunk, lane()).scalars();
        scalars[ScanSmem::kAlpha] = head_decay ? exp_f32(decay) : 1.0F;
        scalars[ScanSmem::kGate] = gate;
      }
    }
    sync_warp();
    for (int t = 0; t < count; ++t) {
      if (a_.stabiliser != 0) stabilise(chunk, t, shuffle(decay, t), shuffle(gate, t));
      if (a_.normaliser != 0) divide(chunk, t);
      if (is_snapshot(chunk, t)) keep_shared(chunk, t);
    }
    if (a_.bonus) compute_bonus(chunk, count);
  }
  // Updates the running maximum m and subtracts it from decay and gate.
  VEERY_GPU void stabilise(int chunk, int t, float decay, float log_gate) {
    const float before = largest_ + decay;
    largest_ = before < log_gate ? log_gate : before;
    if (lane() == 0) {
      VEERY_SHARED float* scalars = position(chunk, t).scalars();
      scalars[ScanSmem::kAlpha] = exp_f32(before - largest_);
      scalars[ScanSmem::kGate] = exp_f32(log_gate - largest_);
    }
    sync_warp();
  }
  // Returns element i of a vector that is stored as four interleaved parts.
  VEERY_GPU float element(const VEERY_SHARED float* vector, int i) const {
    return vector[i % 4 * a_.plan.pitch + i / 4];
  }
  // Updates the normaliser and computes the divisor of y. Lane l of 16 has keys l, l + 16, ...
  VEERY_GPU void divide(int chunk, int t) {
    const ScanPosition at = position(chunk, t);
    const float alpha = at.scalars()[ScanSmem::kAlpha], gate = at.scalars()[ScanSmem::kGate];
    VEERY_SHARED float* n = normaliser();
    float acc = 0;
    constexpr int kAtOnce = 8;
    for (int first = lane(); lane() < 16 && first < a_.keys; first += 16 * kAtOnce) {
      float x[kAtOnce], q[kAtOnce];
      VEERY_UNROLL(8)
      for (int e = 0; e < kAtOnce; ++e) {
        const int i = first + 16 * e;
        if (i >= a_.keys) continue;
        q[e] = element(at.vector(kQ), i);
        x[e] = fma(gate, element(at.vector(kK), i), n[i] * alpha);
      }
      VEERY_UNROLL(8)
      for (int e = 0; e < kAtOnce; ++e) {
        if (first + 16 * e >= a_.keys) continue;
        acc = fma(q[e], x[e], acc);
        n[first + 16 * e] = x[e];
      }
    }
    const float read = a_.scale * sum_16_lanes(acc);
    const float least = a_.stabiliser != 0 ? exp_f32(-largest_) : 1.0F;
    if (lane() == 0) at.scalars()[ScanSmem::kDivisor] = max_f32(magnitude(read), least) + a_.eps;
    sync_warp();
  }
  static VEERY_GPU float max_f32(float x, float y) { return x < y ? y : x; }
  VEERY_GPU void keep_shared(int chunk, int t) {
    for (int block = first_ / 16; block < first_ / 16 + 2 && block < a_.blocks; ++block) {
      VEERY_DEVICE float* to = state_after(chunk, t, block);
      if (a_.stabiliser != 0 && lane() < 16)
        to[a_.stabiliser + lane()] = lane() == 0 ? largest_ : 0.0F;
      for (int i = lane(); a_.normaliser != 0 && i < a_.plan.normaliser; i += kWarp)
        to[a_.normaliser + i] = i < a_.keys ? normaliser()[i] : 0.0F;
    }
  }
  // Two positions at a time, 16 lanes each.
  VEERY_GPU void compute_bonus(int chunk, int count) {
    const VEERY_DEVICE float* bonus = a_.bonus.row(0);
    if (a_.bonus.cols == a_.heads) {
      if (lane() < count) position(chunk, lane()).scalars()[ScanSmem::kBonus] = bonus[head_];
      return;
    }
    bonus += head_ * a_.keys;
    for (int pair = 0; pair < count; pair += 2) {
      const int t = pair + lane() / 16 < count ? pair + lane() / 16 : count - 1;
      const ScanPosition at = position(chunk, t);
      float acc = 0;
      for (int i = lane() % 16; i < a_.keys; i += 16)
        acc = fma(element(at.vector(kQ), i), element(at.vector(kK), i) * bonus[i], acc);
      const float all = at.scalars()[ScanSmem::kGate] * sum_16_lanes(acc);
      if (lane() % 16 == 0) at.scalars()[ScanSmem::kBonus] = all;
    }
  }

  // State warps

  VEERY_GPU int column() const { return first_ + thread() / 4; }
  VEERY_GPU int chain() const { return thread() % 4; }
  VEERY_GPU bool is_kept() const { return column() < 16 * a_.blocks; }

  VEERY_GPU void begin(VEERY_THREAD float (&s)[kChain], VEERY_THREAD float (&rates)[kRatesKept]) {
    const bool stored = continues() && is_kept();
    const VEERY_DEVICE float* from =
        stored ? memory(of_.position, column() / 16) + column() % 16 : nullptr;
    VEERY_UNROLL(128)
    for (int j = 0; j < kChain; ++j) {
      const int i = 4 * j + chain();
      s[j] = stored && i < a_.keys ? from[i * 16] : 0.0F;
      if constexpr (kKeepsRates) rates[j] = rate(i);
    }
  }
  VEERY_GPU float rate(int i) const {
    return i < a_.keys && column() < a_.values
               ? a_.rates.row(i)[int64_t{head_} * a_.values + column()]
               : 0.0F;
  }
  VEERY_GPU void keep(int chunk, int t, const VEERY_THREAD float (&s)[kChain]) {
    if (!is_kept()) return;
    VEERY_DEVICE float* to = state_after(chunk, t, column() / 16) + column() % 16;
    VEERY_UNROLL(128)
    for (int j = 0; j < kChain; ++j)
      if (4 * j + chain() < a_.keys) to[(4 * j + chain()) * 16] = s[j];
  }

  /// Combines the sums of the four accumulators: (0 + 1) + (2 + 3).
  static VEERY_GPU float joined(float sum) {
    sum = sum + shuffle_xor(sum, 1);
    return sum + shuffle_xor(sum, 2);
  }
  // Returns the part of a vector that belongs to this lane's accumulator.
  VEERY_GPU const VEERY_SHARED float* own(const VEERY_SHARED float* vector) const {
    return vector + chain() * a_.plan.pitch;
  }
  // Returns four elements of a decay vector, or a scalar decay four times.
  VEERY_GPU Four<float> alphas(const VEERY_SHARED float* own, int j, float alpha) const {
    if (a_.channel != 0) return load_shared<Four<float>>(own + j);
    return {alpha, alpha, alpha, alpha};
  }

  VEERY_GPU float read_state(const VEERY_THREAD float (&s)[kChain],
                             const VEERY_SHARED float* x) const {
    float sum = 0;
    VEERY_UNROLL(32)
    for (int j = 0; j < kChain; j += 4) {
      const auto f = load_shared<Four<float>>(x + j);
      sum = fma(f.x, s[j], sum);
      sum = fma(f.y, s[j + 1], sum);
      sum = fma(f.z, s[j + 2], sum);
      sum = fma(f.w, s[j + 3], sum);
    }
    return joined(sum);
  }
  // Multiplies the state by the decay; x is then alpha k.
  VEERY_GPU float read_delta(const VEERY_THREAD float (&s)[kChain],
                             const VEERY_THREAD ScanPosition& at, float alpha) const {
    const VEERY_SHARED float* k = own(at.vector(kK));
    const VEERY_SHARED float* channel = own(at.vector(kAlphas));
    float sum = 0;
    VEERY_UNROLL(32)
    for (int j = 0; j < kChain; j += 4) {
      const auto f = load_shared<Four<float>>(k + j), decay = alphas(channel, j, alpha);
      sum = fma(decay.x * f.x, s[j], sum);
      sum = fma(decay.y * f.y, s[j + 1], sum);
      sum = fma(decay.z * f.z, s[j + 2], sum);
      sum = fma(decay.w * f.w, s[j + 3], sum);
    }
    return joined(sum);
  }

  /// Updates the state and reads it.
  VEERY_GPU float update_state(VEERY_THREAD float (&s)[kChain],
                               const VEERY_THREAD float (&rates)[kRatesKept],
                               const VEERY_THREAD ScanPosition& at, float alpha, float time,
                               float written, float low_rank) const {
    const VEERY_SHARED float* q = own(at.vector(kQ));
    const VEERY_SHARED float* k = own(at.vector(kK));
    const VEERY_SHARED float* channel = own(at.vector(kAlphas));
    const VEERY_SHARED float* b = own(at.vector(a_vector() + 1));
    float sum = 0;
    VEERY_UNROLL(32)
    for (int j = 0; j < kChain; j += 4) {
      const auto qs = load_shared<Four<float>>(q + j), ks = load_shared<Four<float>>(k + j);
      const Four<float> decay = kOuter ? Four<float>{} : alphas(channel, j, alpha);
      Four<float> bs = {};
      if constexpr (kKind == ScanKind::kGeneral) bs = load_shared<Four<float>>(b + j);
      const float q4[4] = {qs.x, qs.y, qs.z, qs.w}, k4[4] = {ks.x, ks.y, ks.z, ks.w};
      const float d4[4] = {decay.x, decay.y, decay.z, decay.w}, b4[4] = {bs.x, bs.y, bs.z, bs.w};
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e) {
        float factor = d4[e];
        if constexpr (kOuter)
          factor = exp_f32(
              time * (kKeepsRates ? rates[(j + e) % kRatesKept] : rate(4 * (j + e) + chain())));
        float x = s[j + e] * factor;
        x = fma(k4[e], written, x);
        if constexpr (kKind == ScanKind::kGeneral) x = fma(b4[e], low_rank, x);
        s[j + e] = x;
        sum = fma(q4[e], x, sum);
      }
    }
    return joined(sum);
  }

  VEERY_GPU void update(int chunk, VEERY_THREAD float (&s)[kChain],
                        const VEERY_THREAD float (&rates)[kRatesKept]) {
    const int count = count_of(chunk), c = thread() / 4;
    for (int t = 0; t < count; ++t) {
      const ScanPosition at = position(chunk, t);
      const VEERY_SHARED float* scalars = at.scalars();
      const float v = at.values()[c], gate = scalars[ScanSmem::kGate];
      const float alpha = scalars[ScanSmem::kAlpha];
      const float time = kOuter ? at.times()[c] : 0.0F;
      const float before = a_.read_before != 0 ? read_state(s, own(at.vector(kQ))) : 0.0F;
      float written = gate * v, low_rank = 0;
      if constexpr (kKind == ScanKind::kDelta) written = gate * (v - read_delta(s, at, alpha));
      if constexpr (kKind == ScanKind::kGeneral)
        low_rank = read_state(s, own(at.vector(a_vector())));
      const float after = update_state(s, rates, at, alpha, time, written, low_rank);
      float y = (a_.read_before != 0 ? before : after) * a_.scale;
      if (a_.normaliser != 0) y = y / scalars[ScanSmem::kDivisor];
      if (a_.bonus) y = fma(scalars[ScanSmem::kBonus], v, y);
      if (chain() == 0 && column() < a_.values)
        a_.out.row(load_row_with_norm(chunk, t))[int64_t{head_} * a_.values + column()] = y;
      if (is_snapshot(chunk, t)) keep(chunk, t, s);
    }
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD ScanParams& a_;
  const RunSpan of_;
  int head_, key_head_, first_, kept_;
  VEERY_SHARED float* shared_;
  float largest_ = 0;  ///< m
};

template <int kChain, ScanKind kKind>
VEERY_GPU void scan(const VEERY_THREAD ScanParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  if (block_y() >= a.run.count(kSpanRows)) return;
  Scan<kChain, kKind>(a, block_y(), block_x() VEERY_CONTEXT_ARG).run();
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_SCAN_OF(X, name, kind, chain)                                    \
  X(kShared, scan_##name##_##chain, ScanParams, veery::gpu::ScanSmem::kThreads, 0, \
    key::scan(ScanKind::kind, chain), (scan<chain, ScanKind::kind>))
#define VEERY_GPU_SCAN(X, name, kind)  \
  VEERY_GPU_SCAN_OF(X, name, kind, 4)  \
  VEERY_GPU_SCAN_OF(X, name, kind, 16) \
  VEERY_GPU_SCAN_OF(X, name, kind, 32) \
  VEERY_GPU_SCAN_OF(X, name, kind, 64) \
  VEERY_GPU_SCAN_OF(X, name, kind, 128)
#define VEERY_GPU_SCAN_KERNELS(X)      \
  VEERY_GPU_SCAN(X, plain, kPlain)     \
  VEERY_GPU_SCAN(X, delta, kDelta)     \
  VEERY_GPU_SCAN(X, general, kGeneral) \
  VEERY_GPU_SCAN(X, outer, kOuter)
