#include "convert/energies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "file/folder/row_sources.h"
#include "import/read_config.h"
#include "model/config.h"

namespace veery {
namespace {

// The residual stream has channels of very different magnitude, which persist over many layers and
// are weighted again by norms. Both effects can be read from the weights. Energies of summands are
// added as if they were uncorrelated. That is a good estimate of what a norm outputs, but not of
// other inputs: hidden units are sparse because of their signs, which energies ignore.

using Energies = std::vector<double>;  // mean square of each channel

constexpr int64_t kEmbeddingRows = 2048;      // rows of the vocabulary to sample
constexpr int64_t kPieceElements = 16 << 10;  // elements that a worker processes at a time
// Sample kRun of every kRunEvery columns of gate and up, which hold most of a model's weights.
constexpr size_t kRun = 64, kRunEvery = 256;
constexpr size_t kLanes = 16;  // independent accumulators, so that the compiler can vectorise
// Attention averages several values, which cancels part of their energy.
constexpr double kKeptByAttention = 0.25;
// SiLU and GELU halve small arguments.
constexpr double kKeptByGate = 0.25;

double mean(const Energies& energies) {
  double sum = 0;
  for (const double energy : energies) sum += energy;
  return sum / static_cast<double>(energies.size());
}

/// The rows of a matrix as floats.
class FloatRows {
 public:
  explicit FloatRows(const TensorView& tensor) : tensor_(tensor), columns_(tensor.columns()) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
    in_place_ = tensor.dtype == DType::kF32 && !tensor.source && address % alignof(float) == 0;
    if (!in_place_) decoded_ = decoded(tensor);
  }
  /// Returns a row, in place if the tensor holds aligned floats, otherwise decoded to `buffer`.
  std::span<const float> at(int64_t row, std::vector<float>& buffer) const {
    const auto columns = static_cast<size_t>(columns_);
    if (in_place_)
      return {
          reinterpret_cast<const float*>(tensor_.data.data()) + static_cast<size_t>(row) * columns,
          columns};
    buffer.resize(columns);
    read_rows(decoded_, row, row + 1, reinterpret_cast<std::byte*>(buffer.data()));
    return buffer;
  }

 private:
  const TensorView& tensor_;
  int64_t columns_;
  bool in_place_;
  TensorView decoded_;
};

// Sums over the first `run` of each `every` elements.
double energy_of(std::span<const float> row, std::span<const float> input, size_t run,
                 size_t every) {
  std::array<float, kLanes> sums = {};
  for (size_t begin = 0; begin < row.size(); begin += every) {
    const size_t end = std::min(begin + run, row.size());
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      __builtin_prefetch(row.data() + i +
                         4 * row.size());  // runs are too short for the hardware prefetcher
      for (size_t lane = 0; lane < kLanes; ++lane)
        sums[lane] += row[i + lane] * row[i + lane] * input[i + lane];
    }
    for (; i < end; ++i) sums[0] += row[i] * row[i] * input[i];
  }
  double sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

enum class Columns { kAll, kSome };

// Returns the energies of W x, where x has the energies `input`.
Energies product(const TensorView& matrix, const Energies& input, Columns columns,
                 ThreadPool& pool) {
  const FloatRows rows(matrix);
  const std::vector<float> weights(input.begin(), input.end());
  const size_t every = columns == Columns::kAll ? weights.size() : kRunEvery;
  const size_t run = columns == Columns::kAll ? weights.size() : kRun;
  double all = 0, seen = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    all += input[i];
    if (i % every < run) seen += input[i];
  }
  Energies result(static_cast<size_t>(matrix.shape[0]));
  const int64_t piece = std::max<int64_t>(1, kPieceElements / matrix.columns());
  pool.parallel_for(std::ssize(result), piece, [&](int64_t first, int64_t last) {
    std::vector<float> buffer;
    for (int64_t row = first; row < last; ++row)
      result[static_cast<size_t>(row)] =
          energy_of(rows.at(row, buffer), weights, run, every) * (all / seen);
  });
  return result;
}

// Returns the energies of the embedding's columns.
Energies columns_of(const TensorView& embedding) {
  const FloatRows rows(embedding);
  std::vector<float> buffer;
  const int64_t step = std::max<int64_t>(1, embedding.shape[0] / kEmbeddingRows);
  Energies result(static_cast<size_t>(embedding.columns()));
  for (int64_t row = 0; row < embedding.shape[0]; row += step) {
    const std::span<const float> values = rows.at(row, buffer);
    for (size_t i = 0; i < result.size(); ++i) result[i] += double{values[i]} * values[i];
  }
  const auto count = static_cast<double>((embedding.shape[0] + step - 1) / step);
  for (double& energy : result) energy /= count;
  return result;
}

/// The tensors of a layer; norms after a part are optional.
struct Layer {
  const TensorView *attention_norm, *value, *output, *after_attention;
  const TensorView *feed_forward_norm, *gate, *up, *down, *after_feed_forward;
};

class Estimate {
 public:
  Estimate(const ModelFile& file, const TransformerConfig& config, ThreadPool& pool)
      : file_(file), config_(config), pool_(pool) {}

  ImportanceMatrix run() {
    const TensorView* embedding = find("token_embd");
    const TensorView* last_norm = find("output_norm");
    if (!has_shape(embedding, config_.vocab, config_.dim) || !is_norm(last_norm)) return {};
    const std::optional<std::vector<Layer>> layers = find_layers();
    if (!layers) return {};
    stream_ = columns_of(*embedding);
    for (double& energy : stream_) energy *= squared(config_.input.scale);
    for (size_t i = 0; i < layers->size(); ++i) pass((*layers)[i], fmt::format("blk.{}.", i));
    const TensorView* head = find("output");
    feed("", {head != nullptr ? "output" : "token_embd"}, normed(stream_, *last_norm));
    return usable_ ? std::move(result_) : ImportanceMatrix{};
  }

 private:
  static double squared(double value) { return value * value; }

  const TensorView* find(const std::string& name) const { return file_.find(name + ".weight"); }
  bool is_norm(const TensorView* tensor) const {
    return tensor != nullptr && tensor->elements() == config_.dim && info(tensor->dtype).decodable;
  }
  bool is_norm_or_absent(const TensorView* tensor) const {
    return tensor == nullptr || is_norm(tensor);
  }
  static bool has_shape(const TensorView* tensor, int64_t rows, int64_t columns) {
    return tensor != nullptr && tensor->shape == std::vector<int64_t>{rows, columns} &&
           info(tensor->dtype).decodable;
  }

  static bool is_matrix(const TensorView* tensor) {
    return tensor != nullptr && tensor->shape.size() == 2 && tensor->elements() > 0;
  }

  bool is_whole(const Layer& layer) const {
    const int64_t dim = config_.dim;
    if (!is_matrix(layer.value) || !is_matrix(layer.output) || !is_matrix(layer.up)) return false;
    const int64_t values = layer.value->shape[0], hidden = layer.up->shape[0];
    const int64_t outputs = layer.output->columns();
    return is_norm(layer.attention_norm) && is_norm(layer.feed_forward_norm) &&
           is_norm_or_absent(layer.after_attention) &&
           is_norm_or_absent(layer.after_feed_forward) && has_shape(layer.value, values, dim) &&
           has_shape(layer.output, dim, outputs) && values % config_.attention.kv_heads == 0 &&
           outputs % values == 0 && has_shape(layer.gate, hidden, dim) &&
           has_shape(layer.up, hidden, dim) && has_shape(layer.down, dim, hidden);
  }

  std::optional<std::vector<Layer>> find_layers() const {
    std::vector<Layer> layers;
    for (int32_t i = 0; i < config_.layers; ++i) {
      const auto part = [&](const char* name) { return find(fmt::format("blk.{}.{}", i, name)); };
      layers.push_back({part("attn_norm"), part("attn_v"), part("attn_output"),
                        part("post_attention_norm"), part("ffn_norm"), part("ffn_gate"),
                        part("ffn_up"), part("ffn_down"), part("post_ffw_norm")});
      if (!is_whole(layers.back())) return std::nullopt;
    }
    return layers;
  }

  void pass(const Layer& layer, const std::string& prefix) {
    Energies input = normed(stream_, *layer.attention_norm);
    feed(prefix, {"attn_q", "attn_k", "attn_v"}, input);
    const Energies values = product(*layer.value, input, Columns::kAll, pool_);
    const Energies heads = attended(values, layer.output->columns());
    add(product(*layer.output, heads, Columns::kAll, pool_), layer.after_attention);
    input = normed(stream_, *layer.feed_forward_norm);
    feed(prefix, {"ffn_gate", "ffn_up"}, input);
    Energies hidden = product(*layer.gate, input, Columns::kSome, pool_);
    const Energies up = product(*layer.up, input, Columns::kSome, pool_);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= kKeptByGate * up[i];
    add(product(*layer.down, hidden, Columns::kAll, pool_), layer.after_feed_forward);
  }

  // Returns the energies after an RMS norm.
  static Energies normed(const Energies& input, const TensorView& norm) {
    std::vector<float> weight(input.size());
    std::vector<std::byte> buffer;
    decode(norm.dtype, norm.read(buffer), weight);
    const double per_mean = 1 / mean(input);
    Energies result;
    for (size_t i = 0; i < weight.size(); ++i)
      result.push_back(squared(weight[i]) * input[i] * per_mean);
    return result;
  }

  // Repeats each key head's values for the query heads that it serves.
  Energies attended(const Energies& values, int64_t columns) const {
    const auto size = values.size() / static_cast<size_t>(config_.attention.kv_heads);
    const auto served = static_cast<size_t>(columns) / values.size();
    Energies result;
    for (size_t i = 0; i < static_cast<size_t>(columns); ++i)
      result.push_back(kKeptByAttention * values[i / (size * served) * size + i % size]);
    return result;
  }

  // Adds the output of a part to the residual stream, through a norm if there is one.
  void add(Energies part, const TensorView* norm) {
    if (norm != nullptr) part = normed(part, *norm);
    for (size_t i = 0; i < stream_.size(); ++i)
      stream_[i] += squared(config_.residual.scale) * part[i];
  }

  void feed(const std::string& prefix, std::initializer_list<const char*> matrices,
            const Energies& input) {
    const double scale = 1 / mean(input);
    std::vector<float> importance;
    for (const double energy : input) importance.push_back(static_cast<float>(energy * scale));
    usable_ = usable_ && std::ranges::all_of(importance, [](float v) { return std::isfinite(v); });
    for (const char* matrix : matrices) result_.values[prefix + matrix + ".weight"] = importance;
  }

  const ModelFile& file_;
  const TransformerConfig& config_;
  ThreadPool& pool_;
  Energies stream_;
  ImportanceMatrix result_;
  bool usable_ = true;  // all numbers are finite
};

// Returns nullopt for a model that cannot be run; its files can be quantised nevertheless.
std::optional<TransformerConfig> config_of(const ModelFile& file) {
  try {
    return read_config(file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kFormat) throw;
    return std::nullopt;
  }
}

}  // namespace

ImportanceMatrix estimate_importance(const ModelFile& file, ThreadPool& pool) {
  const std::optional<TransformerConfig> config = config_of(file);
  if (!config || config->norms.kind != Norm::kRms || config->residual.parallel ||
      !config->feed_forward.gated || config->experts.count > 0)
    return {};
  return Estimate(file, *config, pool).run();
}

}  // namespace veery
