// recurrence_problem.h: linear recurrences with random inputs, state blocks of sequences, and ways
// to split a sequence into runs.
#pragma once
#include <functional>
#include <numeric>

#include "kernels/common/formulas.h"
#include "kernels/kernel_runner.h"

namespace veery::test {

/// State blocks of some sequences; each keeps the states after its last `kept` positions.
struct Blocks {
  Blocks(int sequences, const Shape& shape, int kept = 1)
      : pages(static_cast<size_t>(sequences * kept)) {
    std::iota(pages.rbegin(), pages.rend(), 0);
    for (int s = 0; s < sequences; ++s) tables.push_back({pages.data() + s * kept, kept});
    const auto floats = static_cast<size_t>(shape.rows().size * shape.cols());
    memory.assign(pages.size() * floats, std::numeric_limits<float>::quiet_NaN());
    operand = {.data = reinterpret_cast<std::byte*>(memory.data()),
               .stride = static_cast<int64_t>(floats * sizeof(float)),
               .rows = shape.rows().size,
               .cols = static_cast<int32_t>(shape.cols()),
               .layout = Layout::kBlocks};
  }
  std::vector<int32_t> pages;
  std::vector<PageTable> tables;
  std::vector<float> memory;
  Operand operand;
};

/// The rows of a run, and the spans that assign them to sequences.
struct RunRows {
  std::vector<Span> spans;
  std::vector<int32_t> span_of;
  void add(int32_t sequence, int32_t rows, int32_t position) {
    spans.push_back({sequence, static_cast<int32_t>(span_of.size()), rows, position});
    span_of.insert(span_of.end(), static_cast<size_t>(rows),
                   static_cast<int32_t>(spans.size()) - 1);
  }
  RunShape shape(const Blocks& blocks) const {
    RunShape s;
    s.rows = s.outputs = static_cast<int32_t>(span_of.size());
    s.span_count = static_cast<int32_t>(spans.size());
    s.sequences = static_cast<int32_t>(blocks.tables.size());
    s.spans = spans.data();
    s.span_of = span_of.data();
    s.tables = blocks.tables.data();
    return s;
  }
};

struct Sizes {
  int32_t heads = 6, key_heads = 2, key = 21, value = 37;
};

/// A recurrence with random inputs of realistic magnitudes.
struct ScanProblem {
  std::string name;
  ScanAttr attr;
  Sizes sizes;
  std::vector<Matrix> in;  ///< in the order of ScanIn; no columns: absent

  Matrix& at(int i) { return in[static_cast<size_t>(i)]; }
  const Matrix& at(int i) const { return in[static_cast<size_t>(i)]; }
};

inline ScanProblem problem(const char* name, ScanAttr attr, int64_t rows, Sizes s = {},
                           bool bonus = false) {
  Random random(7);
  attr.heads = s.heads;
  attr.key_heads = s.key_heads;
  ScanProblem p{name, attr, s, {}};
  const int32_t keys = s.key_heads * s.key, values = s.heads * s.value, channels = s.heads * s.key;
  const auto negative = [&](int32_t cols, float scale) {
    Matrix m = random_matrix(rows, cols, random, scale);
    for (int64_t r = 0; r < rows; ++r)
      for (int32_t c = 0; c < cols; ++c) m[r][c] = -std::fabs(m[r][c]);
    return m;
  };
  const Matrix none(0, 0, DType::kF32, 0);
  p.in.assign(ScanIn::kState, none);
  p.at(ScanIn::kQ) = random_matrix(rows, keys, random, 0.3F);
  p.at(ScanIn::kK) = random_matrix(rows, keys, random, 0.2F);
  p.at(ScanIn::kV) = random_matrix(rows, values, random);
  if (attr.decay == Decay::kHead) p.at(ScanIn::kDecay) = negative(s.heads, 0.3F);
  if (attr.decay == Decay::kChannel) p.at(ScanIn::kDecay) = negative(channels, 0.3F);
  if (attr.decay == Decay::kOuter) {
    p.at(ScanIn::kDecay) = negative(values, 0.3F);
    p.at(ScanIn::kRates) = random_matrix(s.key, values, random, 1);
    for (int32_t k = 0; k < s.key; ++k)
      for (int32_t c = 0; c < values; ++c)
        p.at(ScanIn::kRates)[k][c] = std::fabs(p.at(ScanIn::kRates)[k][c]);
  }
  p.at(ScanIn::kGate) = random_matrix(rows, s.heads, random, attr.exponential ? 3.0F : 1.0F);
  if (!attr.exponential)
    for (int64_t r = 0; r < rows; ++r)
      for (int32_t c = 0; c < s.heads; ++c)
        p.at(ScanIn::kGate)[r][c] = sigmoid(p.at(ScanIn::kGate)[r][c]);
  if (attr.low_rank == LowRank::kGeneral) {
    p.at(ScanIn::kA) = random_matrix(rows, channels, random, 0.2F);
    p.at(ScanIn::kB) = random_matrix(rows, channels, random, 0.2F);
  }
  if (bonus) p.at(ScanIn::kBonus) = random_matrix(1, channels, random);
  return p;
}

inline std::vector<ScanProblem> problems(int64_t rows) {
  std::vector<ScanProblem> all = {
      problem("mamba2", {}, rows),
      problem("retention", {.decay = Decay::kNone, .scale = 0.5F}, rows, {3, 3, 16, 16}),
      problem("mamba1", {.decay = Decay::kOuter}, rows, {1, 1, 5, 50}),
      problem("delta", {.low_rank = LowRank::kDelta, .scale = 0.25F}, rows),
      problem("delta_tiled", {.map = HeadMap::kTiled, .low_rank = LowRank::kDelta}, rows),
      problem("kda", {.decay = Decay::kChannel, .low_rank = LowRank::kDelta}, rows, {2, 2, 32, 16}),
      problem("rwkv7", {.decay = Decay::kChannel, .low_rank = LowRank::kGeneral}, rows,
              {3, 3, 19, 19}, true),
      problem("rwkv6", {.decay = Decay::kChannel, .read_before = true}, rows, {2, 2, 7, 20}, true),
      problem("mlstm", {.exponential = true, .normaliser = true, .scale = 0.2F, .eps = 1e-6F}, rows,
              {2, 2, 18, 40})};
  return all;
}

/// Returns `rows` rows of a matrix from `first` on, or all of a matrix that applies to all rows.
inline Operand part(const Matrix& m, int64_t first, int64_t rows) {
  Operand o = m.operand;
  if (o.rows == rows) o.data += first * o.stride;
  return o;
}

/// Executes one run of a scan; its rows are spans of consecutive sequences.
using RunScan = std::function<void(const std::vector<Operand>& in, const Operand& out,
                                   const Attr& attr, const RunShape& shape)>;
inline RunScan scan_with(RunWith with) {
  return [with](const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                const RunShape& shape) { run(op::kScan, in, out, attr, shape, with); };
}

struct ProblemRun {
  const ScanProblem& p;
  RunScan scan;
  bool state = true;
  int kept = 1;

  Matrix out() const {
    return Matrix(p.at(ScanIn::kV).operand.rows, p.at(ScanIn::kV).operand.cols);
  }
  void go(const RunRows& rows, int64_t first, Blocks& blocks, Matrix& result) const {
    const int64_t all = result.operand.rows;
    std::vector<Operand> in(ScanIn::kState + 1);
    for (size_t i = 0; i < p.in.size(); ++i)
      if (p.in[i].operand.cols > 0) in[i] = part(p.in[i], first, all);
    if (state) in[ScanIn::kState] = blocks.operand;
    Operand target = result.operand;
    target.data += first * target.stride;
    scan(in, target, p.attr, rows.shape(blocks));
  }
};

inline Blocks blocks_of(const ScanProblem& p, int sequences, int kept = 1) {
  return Blocks(sequences, scan_state(p.attr, p.sizes.key, p.sizes.value), kept);
}

/// Processes all rows as one sequence, in runs of these sizes.
inline Matrix in_scans(const ScanProblem& p, const std::vector<int32_t>& sizes, const RunScan& scan,
                       int kept = 1) {
  const ProblemRun run{p, scan, true, kept};
  Matrix result = run.out();
  Blocks blocks = blocks_of(p, 1, kept);
  int32_t position = 0;
  for (const int32_t size : sizes) {
    RunRows rows;
    rows.add(0, size, position);
    run.go(rows, position, blocks, result);
    position += size;
  }
  return result;
}

inline Matrix in_runs(const ScanProblem& p, const std::vector<int32_t>& sizes, RunWith with,
                      int kept = 1) {
  return in_scans(p, sizes, scan_with(with), kept);
}

}  // namespace veery::test
