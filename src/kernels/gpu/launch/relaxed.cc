// Launches of --relaxed products, whose bits are not those of the CPU: x and weights are bf16, a
// library adds them up.
#include <algorithm>
#include <functional>

#include "kernels/common/table.h"
#include "kernels/gpu/launch/dequantized_weights.h"
#include "kernels/gpu/launch/tables.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

bool is_gated(const FusedLinearAttr& attr) {
  return attr.gate != Activation::kNone && attr.weights == 2;
}
// Whether a kernel of ours has to finish the outputs of the library.
bool has_epilogue(const Dispatch& d) {
  const auto& attr = d.as<FusedLinearAttr>();
  bool biased = false;
  for (int i = 0; i < attr.weights; ++i)
    biased |= static_cast<bool>(d.in[FusedLinearIn::kBias + i]);
  return attr.gate != Activation::kNone || biased;
}

std::vector<Weight> weights_of(const Dispatch& d) {
  std::vector<Weight> weights;
  for (int i = 0; i < d.as<FusedLinearAttr>().weights; ++i) {
    const Operand& w = d.in[FusedLinearIn::kWeight + i];
    weights.push_back({reinterpret_cast<const uint8_t*>(w.data), w.stride,
                       static_cast<int32_t>(w.rows), w.cols, *weight_format(w.dtype)});
  }
  return weights;
}
int64_t outputs_of(const Dispatch& d) {
  int64_t outputs = 0;
  for (int i = 0; i < d.as<FusedLinearAttr>().weights; ++i)
    outputs += d.in[FusedLinearIn::kWeight + i].rows;
  return outputs;
}

const std::byte* first_of(const Dispatch& d) { return d.in[FusedLinearIn::kWeight].data; }

// The workspace of a product: x as bf16, then the outputs that are gated.
size_t x_bytes(const Dispatch& d, int64_t rows) {
  return aligned(static_cast<size_t>(rows * d.in[FusedLinearIn::kX].cols) * sizeof(uint16_t));
}

void round_x(const Dispatch& d, int64_t rows, Recorder& to) {
  const Operand& x = d.in[FusedLinearIn::kX];
  to.add(KernelId::rows_to_bf16, {.blocks_x = static_cast<int>(rows), .threads = 256, .shared = 64},
         RowsToBf16Params{to.run,
                          to.matrix(x),
                          {d.in[FusedLinearIn::kNorm].row<float>(0), d.as<FusedLinearAttr>().eps},
                          reinterpret_cast<uint16_t*>(d.work),
                          x.cols});
}

LaunchSize elements(int64_t cols, int64_t rows) {
  return {.blocks_x = static_cast<int>((cols + 255) / 256),
          .blocks_y = static_cast<int>(rows),
          .threads = 256};
}
void gate(const Dispatch& d, int64_t rows, const std::byte* products, Recorder& to) {
  const auto& attr = d.as<FusedLinearAttr>();
  to.add(KernelId::gated_epilogue, elements(d.out().cols / 4, rows),
         GatedEpilogueParams{to.run,
                             reinterpret_cast<const uint16_t*>(products),
                             {d.in[FusedLinearIn::kBias].row<float>(0),
                              d.in[FusedLinearIn::kBias + 1].row<float>(0)},
                             activation_params(attr.gate),
                             attr.scale,
                             to.matrix(d.in[FusedLinearIn::kResidual]),
                             to.matrix(d.out()),
                             to.bf16_makers.contains(&d) ? 1 : 0});
}
void finish(const Dispatch& d, int64_t rows, Recorder& to) {
  const auto& attr = d.as<FusedLinearAttr>();
  EpilogueParams a{to.run};
  int32_t column = 0;
  for (int i = 0; i < attr.weights; ++i) {
    a.bias[i] = d.in[FusedLinearIn::kBias + i].row<float>(0);
    a.column[i] = column;
    column += static_cast<int32_t>(d.in[FusedLinearIn::kWeight + i].rows);
  }
  a.weights = attr.weights;
  a.gate = activation_params(attr.gate);
  a.scale = attr.scale;
  a.residual = to.matrix(d.in[FusedLinearIn::kResidual]);
  a.y = to.matrix(d.out());
  to.add(KernelId::epilogue_rows, elements(d.out().cols, rows), a);
}

// The memory of a value.
struct Range {
  const std::byte *begin, *end;

  bool overlaps(const Operand& o, const Recorder& to) const {
    if (!o || o.layout != Layout::kRowMajor || o.data == nullptr) return false;
    const std::less<> before;
    return before(o.data, end) && before(begin, o.data + to.max_rows(o.rows) * o.stride);
  }
};
// Whether a step after `at` reads the value before it is overwritten.
bool is_read_later(std::span<const Step> steps, size_t at, const Range& value, const Recorder& to) {
  const auto touches = [&](const Operand& o) { return value.overlaps(o, to); };
  for (size_t i = at + 1; i < steps.size(); ++i) {
    if (std::ranges::any_of(steps[i].dispatch.in, touches)) return true;
    if (std::ranges::any_of(steps[i].dispatch.outputs, touches)) return false;
  }
  return false;
}

bool accepts_relaxed(const Dispatch& d, const KernelChoice& choice) {
  const auto& attr = d.as<FusedLinearAttr>();
  if (!accepts_linear(d, choice) || choice.exact || choice.rows < kRelaxedRows ||
      d.in[FusedLinearIn::kX].rows != kTokenRows || attr.precision == Precision::kHigh)
    return false;
  // cublasLt needs rows of multiples of 16 bytes.
  const auto is_aligned = [](int64_t count) { return count % 8 == 0; };
  for (int i = 0; i < attr.weights; ++i) {
    const Operand& w = d.in[FusedLinearIn::kWeight + i];
    if (*weight_format(w.dtype) == kF32 || !is_aligned(w.rows) || !is_aligned(w.cols)) return false;
  }
  return attr.gate == Activation::kNone || attr.weights <= 2;
}

size_t relaxed_workspace(const Dispatch& d, const RunExtent& run) {
  const size_t products = is_gated(d.as<FusedLinearAttr>())
                              ? static_cast<size_t>(run.rows * outputs_of(d)) * sizeof(uint16_t)
                              : 0;
  return x_bytes(d, run.rows) + products;
}

void record_relaxed(const Dispatch& d, Recorder& to) {
  const int64_t rows = to.max_rows(d.in[FusedLinearIn::kX].rows);
  const bool gated = is_gated(d.as<FusedLinearAttr>()), finished = has_epilogue(d);
  const std::vector<Weight> weights = weights_of(d);
  const std::byte* dequantized = to.dequantized_scratch;
  if (const auto kept = to.dequantized.find(first_of(d)); kept != to.dequantized.end()) {
    dequantized = kept->second->data();
  } else {
    const std::vector<Launch> launches = dequantize(weights, to.dequantized_scratch);
    to.launches.insert(to.launches.end(), launches.begin(), launches.end());
  }
  const Operand& x = d.in[FusedLinearIn::kX];
  const bool rounded = to.bf16_readers.contains(&d);
  if (!rounded) round_x(d, rows, to);
  const Matrix residual = to.matrix(d.in[FusedLinearIn::kResidual]);
  const int64_t outputs = outputs_of(d);
  std::byte* products = gated ? d.work + x_bytes(d, rows) : d.out().data;
  to.add(KernelId::kMatrixProduct, {},
         MatrixProduct{.weights = reinterpret_cast<const uint16_t*>(dequantized),
                       .x = reinterpret_cast<const uint16_t*>(rounded ? x.data : d.work),
                       .x_stride = rounded ? x.stride / 2 : x.cols,
                       .out = products,
                       .out_stride = gated ? outputs : d.out().stride / 4,
                       .residual = finished ? nullptr : residual.data,
                       .residual_stride = residual.stride,
                       .rows = static_cast<int32_t>(rows),
                       .n = static_cast<int32_t>(outputs),
                       .k = x.cols,
                       .rounded = gated ? 1 : 0,
                       .scale = finished ? 1 : d.as<FusedLinearAttr>().scale});
  if (gated)
    gate(d, rows, products, to);
  else if (finished)
    finish(d, rows, to);
}

const LaunchRow kRows[] = {
    {op::kFusedLinear, accepts_relaxed, "linear_relaxed", relaxed_workspace, record_relaxed,
     KernelId::dequantize},
};
bool is_relaxed(const Step& step, const Recorder& to) {
  const LaunchRow* const row = to.row_of(step);
  return row != nullptr && row->record == record_relaxed;
}

}  // namespace

void dequantize_weights(std::span<const Step> steps, DequantizedWeights& dequantized,
                        Recorder& to) {
  size_t scratch = 0;
  for (const Step& step : steps) {
    if (!is_relaxed(step, to)) continue;
    const std::vector<Weight> weights = weights_of(step.dispatch);
    if (auto kept = dequantized.find(weights))
      to.dequantized[first_of(step.dispatch)] = std::move(kept);
    else
      scratch = std::max(scratch, dequantized_bytes(weights));
  }
  if (scratch > 0)
    to.dequantized_scratch = to.memory.emplace_back(to.machine.allocate(scratch)).data();
}

void find_bf16_handovers(std::span<const Step> steps, std::span<const Operand> results,
                         Recorder& to) {
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const Dispatch &maker = steps[i].dispatch, &reader = steps[i + 1].dispatch;
    if (!is_relaxed(steps[i], to) || !is_relaxed(steps[i + 1], to) ||
        !is_gated(maker.as<FusedLinearAttr>()))
      continue;
    const Operand &made = maker.out(), &x = reader.in[FusedLinearIn::kX];
    if (x.data != made.data || x.stride != made.stride || x.cols != made.cols ||
        reader.in[FusedLinearIn::kNorm])
      continue;
    const Range value{made.data, made.data + to.max_rows(made.rows) * made.stride};
    const auto touches = [&](const Operand& o) { return value.overlaps(o, to); };
    if (std::ranges::count_if(reader.in, touches) != 1 || std::ranges::any_of(results, touches) ||
        is_read_later(steps, i + 1, value, to))
      continue;
    to.bf16_makers.insert(&maker);
    to.bf16_readers.insert(&reader);
  }
}

LaunchRows relaxed_launches() { return kRows; }

}  // namespace veery::gpu
