#include "kernels/gpu/chain.h"

#include <algorithm>

#include "base/error.h"

namespace veery::gpu {
namespace {

static_assert(kMaxRecent == ChainRow::kMostRecent && kMaxBiases == ChainRow::kMostBiases &&
              kMaxStops == ChainRow::kMostStops);

// Steps of one pass of a loop: each pass costs 3.5 us on an H100.
constexpr int kLoopSteps = 2;
constexpr int kUnrolledSteps = 8;

Matrix matrix(const Operand& o) {
  return {reinterpret_cast<float*>(o.data), o.stride / 4, o.rows, o.cols};
}

bool is_output_row(const Operand& o) { return o.rows == kOutputRows; }

ChainState state_of(const ChainRow& row) {
  ChainState state{};
  state.seed = row.seed, state.position = row.position;
  state.settings = row.settings;
  state.penalties = row.penalties;
  state.left = row.most;
  state.recent = static_cast<int32_t>(row.recent.size());
  state.window = row.window;
  state.biases = static_cast<int32_t>(row.biases.size());
  state.stops = static_cast<int32_t>(row.stops.size());
  std::ranges::copy(row.stops, state.stop);
  return state;
}

}  // namespace

std::optional<ChainEnd> chain_end(const Machine& machine, std::span<const Step> table,
                                  std::span<const Operand> results, const TableUse& use) {
  const bool draws = machine.has(KernelId::chain_advance);
  if (!draws && !machine.has(KernelId::chain_advance_greedy)) return {};
  if (use.rows != use.outputs || !std::ranges::all_of(results, is_output_row)) return {};
  if (results.size() == 1 && results[0].dtype == DType::kI32 && results[0].cols == 1)
    return ChainEnd{matrix(results[0])};
  const auto is_top = [](const Step& step) { return step.op == op::kTopK; };
  const auto top = std::ranges::find_if(table, is_top);
  // The logits are the only other result, and stay on the device.
  if (!draws || top == table.end() || results.size() != 4 || use.first_fetched != 3) return {};
  for (size_t i = 0; i < 3; ++i)
    if (top->dispatch.outputs[i].data != results[i].data) return {};
  return ChainEnd{matrix(results[TopKOut::kIndices]), matrix(results[TopKOut::kValues]),
                  matrix(results[TopKOut::kMass])};
}

size_t chain_bytes(const ChainEnd& end, int64_t rows) {
  return static_cast<size_t>(rows) * (sizeof(ChainState) + (end.draws() ? sizeof(ChainLists) : 0));
}

Chain::Chain(Machine& machine, const RunInputsLayout& layout, std::byte* inputs,
             std::vector<Launch> step, const ChainEnd& end, int64_t rows)
    : layout_(layout),
      kernel_(machine.has(KernelId::chain_advance) ? KernelId::chain_advance
                                                   : KernelId::chain_advance_greedy),
      draws_(end.draws()),
      rows_(static_cast<size_t>(rows)),
      bytes_(layout.bytes() + chain_bytes(end, rows)),
      made_(machine.allocate(rows_ * sizeof(ChainTokens))),
      again_(machine.allocate(sizeof(uint32_t))) {
  ChainAdvanceParams advance = layout.chain_advance(inputs);
  advance.states = reinterpret_cast<ChainState*>(inputs + layout.bytes());
  if (draws_) advance.lists = reinterpret_cast<ChainLists*>(advance.states + rows_);
  advance.values = end.values, advance.mass = end.mass, advance.best = end.best;
  advance.chosen = reinterpret_cast<ChainTokens*>(made_.data());
  if (draws_)
    for (Launch& launch : step) {
      if (launch.kernel != KernelId::top_k_groups && launch.kernel != KernelId::top_k) continue;
      auto top = launch.as<TopKParams>();
      top.states = advance.states, top.lists = advance.lists;
      launch = Launch::of(launch.kernel, launch.size, top);
    }
  const Transfers transfers{inputs, bytes_, {{made_.data(), made_.size()}}};
  auto* again = reinterpret_cast<uint32_t*>(again_.data());
  recording_ = machine.record_loop(repeated(step, advance, kLoopSteps), transfers, again);
  if (recording_) return;
  max_tokens_ = static_cast<int32_t>(
      std::min<size_t>(kUnrolledSteps, machine.max_launches() / (step.size() + 1)));
  if (max_tokens_ < 2) {
    max_tokens_ = 0;
    return;
  }
  recording_ = machine.record(repeated(std::move(step), advance, max_tokens_), transfers);
}

// Only the last step requests another pass, if rows go on.
std::vector<Launch> Chain::repeated(std::vector<Launch> step, ChainAdvanceParams advance,
                                    int times) const {
  LaunchSize size{.blocks_x = static_cast<int>(rows_), .threads = ChainAdvanceSmem::kThreads};
  if (draws_) size.shared = static_cast<size_t>(ChainAdvanceSmem::bytes(advance.values.cols));
  step.push_back(Launch::of(kernel_, size, advance));
  std::vector<Launch> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), step.begin(), step.end());
  advance.again = reinterpret_cast<uint32_t*>(again_.data());
  all.back() = Launch::of(kernel_, size, advance);
  return all;
}

void Chain::run(const RunShape& shape, std::span<const ChainRow> rows) {
  VEERY_CHECK(std::ssize(rows) == shape.rows && shape.span_count == shape.rows);
  layout_.fill(shape, recording_->input());
  auto* states = reinterpret_cast<ChainState*>(recording_->input() + layout_.bytes());
  auto* lists = reinterpret_cast<ChainLists*>(states + rows_);
  for (size_t i = 0; i < rows.size(); ++i) {
    const ChainRow& row = rows[i];
    VEERY_CHECK(row.most > 0 && row.most <= max_tokens_ && row.stops.size() <= kMaxStops &&
                row.recent.size() <= static_cast<size_t>(std::min(row.window, kMaxRecent)) &&
                row.biases.size() <= kMaxBiases && (draws_ || row.greedy()));
    states[i] = state_of(row);
    if (!draws_) continue;
    std::ranges::copy(row.recent, lists[i].recent);
    std::ranges::copy(row.biases, lists[i].biases);
  }
  const size_t bytes = made_.size();
  recording_->run({&bytes, 1});
}

std::span<const int32_t> Chain::chosen(int64_t row) const {
  const auto* made = reinterpret_cast<const ChainTokens*>(recording_->output(0));
  return std::span(made[row].tokens).first(static_cast<size_t>(made[row].count));
}

}  // namespace veery::gpu
