// values.cc: checks the values of all weights in a single pass.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <set>

#include "base/printable.h"
#include "verify/parts.h"

namespace veery {
namespace {

// Magnitudes that no trained weight has. Root mean squares of matrices are typically 0.005 to 1.
constexpr double kLargest = 1e3, kSmallest = 1e-8;
constexpr double kLargestRow = 1e3;  // relative to the median row
constexpr int64_t kRowsForMedian = 16;
constexpr int64_t kPiece = int64_t{1} << 18;  // elements

struct Sums {
  int64_t bad = 0, negative = 0, count = 0;
  int64_t first_bad = INT64_MAX;  ///< row index
  double sum = 0, squares = 0;
  float least = INFINITY, most = -INFINITY;

  void add(const Sums& other) {
    bad += other.bad;
    negative += other.negative;
    count += other.count;
    first_bad = std::min(first_bad, other.first_bad);
    sum += other.sum;
    squares += other.squares;
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  double rms() const { return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count)); }
  bool empty() const { return least == 0 && most == 0; }
};

Sums sums_of(std::span<const float> row, int64_t index) {
  Sums sums;
  for (const float value : row) {
    if ((std::bit_cast<uint32_t>(value) & 0x7F800000U) == 0x7F800000U) {
      ++sums.bad;
      continue;
    }
    sums.negative += value < 0;
    sums.sum += value;
    sums.squares += double{value} * value;
    sums.least = std::min(sums.least, value);
    sums.most = std::max(sums.most, value);
  }
  sums.count = static_cast<int64_t>(row.size());
  if (sums.bad > 0) sums.first_bad = index;
  return sums;
}

struct TensorSums {
  Sums all;
  std::vector<float> row_rms;
};

TensorSums read_tensor(const ModelFile& file, const TensorView& tensor, ThreadPool& pool) {
  const int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  const int64_t rows = cols == 0 ? 0 : tensor.elements() / cols;
  TensorSums result;
  result.row_rms.resize(static_cast<size_t>(rows));
  std::mutex mutex;
  const size_t row_bytes = byte_size(tensor.dtype, cols);
  pool.parallel_for(
      rows, std::max<int64_t>(1, kPiece / std::max<int64_t>(1, cols)),
      [&](int64_t first, int64_t last) {
        std::vector<std::byte> made;
        std::span<const std::byte> bytes;
        const auto size = static_cast<size_t>(last - first) * row_bytes;
        if (tensor.source) {
          made.resize(size);
          tensor.source->read(first, last, made.data());
          bytes = made;
        } else {
          bytes = tensor.data.subspan(static_cast<size_t>(first) * row_bytes, size);
        }
        std::vector<float> values(static_cast<size_t>(cols));
        Sums piece;
        for (int64_t row = first; row < last; ++row) {
          decode(tensor.dtype,
                 bytes.subspan(static_cast<size_t>(row - first) * row_bytes, row_bytes), values);
          const Sums sums = sums_of(values, row);
          result.row_rms[static_cast<size_t>(row)] = static_cast<float>(sums.rms());
          piece.add(sums);
        }
        const std::lock_guard lock(mutex);
        result.all.add(piece);
      });
  file.release(tensor);
  return result;
}

bool is_norm(std::string_view name) { return name.ends_with("norm.weight"); }

// The results over all tensors, with one line of text for each unusual one.
struct Findings {
  std::vector<std::string> bad, empty, sizes;
  Sums norms;
  std::string lowest_norm;
  float lowest_mean = INFINITY;
};

void judge_rows(const TensorView& tensor, std::vector<float> rms, Findings& findings) {
  if (std::ssize(rms) < kRowsForMedian) return;
  const auto largest = std::ranges::max_element(rms) - rms.begin();
  const float most = rms[static_cast<size_t>(largest)];
  const auto middle = rms.begin() + std::ssize(rms) / 2;
  std::nth_element(rms.begin(), middle, rms.end());
  if (*middle > 0 && most > kLargestRow * *middle)
    findings.sizes.push_back(fmt::format("{}: row {} is {:.3g} times the median row", tensor.name,
                                         largest, double{most} / *middle));
}

void judge(const TensorView& tensor, TensorSums sums, Findings& findings) {
  const Sums& all = sums.all;
  if (all.bad > 0) {
    findings.bad.push_back(fmt::format("{}: {} of {} values, first in row {}", tensor.name, all.bad,
                                       all.count, all.first_bad));
    return;
  }
  const bool matrix = tensor.shape.size() > 1;
  if (is_norm(tensor.name)) {
    findings.norms.add(all);
    const auto mean = static_cast<float>(all.sum / static_cast<double>(all.count));
    if (mean < findings.lowest_mean) {
      findings.lowest_mean = mean;
      findings.lowest_norm = tensor.name;
    }
    if (all.empty()) findings.empty.push_back(tensor.name + " is 0");
  } else if (matrix && all.least == all.most && all.count > 1) {
    findings.empty.push_back(fmt::format("all values of {} are {}", tensor.name, all.least));
  } else if (matrix && (all.rms() > kLargest || (all.rms() < kSmallest && !all.empty()))) {
    findings.sizes.push_back(fmt::format("{}: root mean square {:.3g}", tensor.name, all.rms()));
  } else if (matrix) {
    judge_rows(tensor, std::move(sums.row_rms), findings);
  }
}

void report_values(const Findings& findings, size_t tensors, Report& report) {
  if (findings.bad.empty())
    report.ok("finite weights", fmt::format("in all {} tensors", tensors));
  else
    report.add({"finite weights", CheckState::kFail,
                fmt::format("NaN or infinite: {}", some_of(findings.bad)), "finite numbers",
                "the file is damaged, or a conversion to f16 overflowed"});
  if (findings.empty.empty())
    report.ok("constant weights", "no matrix or norm is constant");
  else
    report.add({"constant weights", CheckState::kFail, some_of(findings.empty),
                "values that differ", "parts of the file are missing: download it again"});
  if (findings.sizes.empty())
    report.ok("weight magnitude", "usual");
  else
    report.add({"weight magnitude", CheckState::kWarn, some_of(findings.sizes),
                fmt::format("root mean squares from {} to {}, similar rows", kSmallest, kLargest),
                "block scales or fp8 scales are damaged or missing"});
}

// Most weights of a norm are positive and around 1, except that Gemma's Hugging Face files hold w
// of (1 + w).
void report_norms(const Findings& findings, Report& report) {
  const Sums& norms = findings.norms;
  const auto count = static_cast<double>(norms.count);
  const double negative = static_cast<double>(norms.negative) / count;
  const std::string found = fmt::format("mean {:.3g}, {:.1f} % negative, from {:.3g} to {:.3g}",
                                        norms.sum / count, 100 * negative, norms.least, norms.most);
  constexpr double kNegative = 0.1;
  if (negative > kNegative)
    report.add({"norm weights", CheckState::kWarn, found, "nearly all positive",
                "norms stored as w of (1 + w) have not had the 1 added"});
  else if (norms.least > 1)
    report.add({"norm weights", CheckState::kWarn, found, "some below 1",
                "norms stored as w of (1 + w) have had the 1 added twice"});
  else
    report.ok("norm weights", found);
}

}  // namespace

void check_values(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                  ThreadPool& pool, Report& report, const VerifyProgress& progress) {
  std::set<std::string_view> names;
  double all = 0;
  for (const Node& node : graph.nodes()) {
    const TensorView* tensor = node.op == op::kParam ? file.find(node.name) : nullptr;
    if (tensor == nullptr || !info(tensor->dtype).decodable) continue;
    if (names.insert(tensor->name).second) all += static_cast<double>(tensor->elements());
  }
  Findings findings;
  double done = 0;
  for (const TensorView& tensor : file.tensors) {
    if (!names.contains(tensor.name)) continue;
    if (progress) progress("weights", done, all);
    judge(tensor, read_tensor(file, tensor, pool), findings);
    done += static_cast<double>(tensor.elements());
  }
  report_values(findings, names.size(), report);
  if (config.norms.kind == Norm::kRms && findings.norms.count > 0 && findings.norms.bad == 0)
    report_norms(findings, report);
}

}  // namespace veery
