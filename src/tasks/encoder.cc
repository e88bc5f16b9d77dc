#include "tasks/encoder.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "engine/session.h"
#include "engine/session_sizes.h"

namespace veery {
namespace {

// Plans exist for powers of two.
int64_t bucket(int64_t size) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
}

// Types come from the tokenizer and the table from the weights, so they may not match.
void check_types(const Model& model, const TokenSequence& sequence) {
  if (sequence.types.empty()) return;
  if (sequence.types.size() != sequence.ids.size())
    throw Error(ErrorKind::kInput,
                "found {} tokens and {} token types, expected one type per token",
                sequence.ids.size(), sequence.types.size());
  const int32_t rows = model.config().input.token_types;
  for (const int32_t type : sequence.types)
    if (rows > 0 && (type < 0 || type >= rows))
      throw Error(ErrorKind::kInput, "found token type {}, expected 0 to {}", type, rows - 1);
}

}  // namespace

Encoder::Encoder(Model& model, std::string root)
    : model_(model),
      root_(std::move(root)),
      workspaces_(make_workspaces(model)),
      arenas_(arenas_of(workspaces_)) {}

ActivationBytes Encoder::activation_bytes() const {
  ActivationSizes sizes;
  for (const Workspace& workspace : workspaces_) sizes.places.push_back(workspace.bytes());
  return veery::activation_bytes(model_, sizes);
}

void Encoder::reserve(int64_t rows) {
  grow_block(rows);
  std::deque<Workspace> measured(workspaces_.size());  // of the host; measured, never written
  const Binding binding = binding_of(model_, measured, nullptr, block_.get());
  for (int64_t size = 1; size <= bucket(rows); size *= 2)
    for (const int64_t sequences : {int64_t{1}, size}) {
      PlanOptions options = plan_options(size, sequences);
      options.places_only = true;
      Plan(model_.entry().graph, std::vector<Value>{model_.entry().root(root_)}, binding, options);
    }
  for (size_t i = 0; i < measured.size(); ++i) workspaces_[i].reserve(measured[i].largest());
}

void Encoder::run(std::span<const TokenSequence> sequences) {
  int64_t rows = 0;
  for (const TokenSequence& sequence : sequences) {
    const size_t count = sequence.ids.size();
    if (count == 0)
      throw Error(ErrorKind::kInput, "found a text without tokens, expected one or more");
    if (count > static_cast<size_t>(model_.options().context))
      throw Error(ErrorKind::kLimit, "found a text of {} tokens, expected at most {}", count,
                  model_.options().context);
    check_ids(model_, sequence.ids);
    check_types(model_, sequence);
    rows += static_cast<int64_t>(count);
  }
  last_ = nullptr;
  if (rows == 0) return;
  fill_block(sequences, rows);
  const Turn turn(arenas_);
  Plan& plan = this->plan(rows, static_cast<int64_t>(sequences.size()));
  plan.run();
  last_ = &plan;
}

// Plans point into the block, so a larger block needs new plans.
void Encoder::grow_block(int64_t rows) {
  if (block_ && block_->rows() >= rows) return;
  plans_.clear();
  block_ = std::make_unique<RunBlock>(model_.entry().graph, static_cast<int32_t>(bucket(rows)));
  std::ranges::fill(block_->find<int32_t>("is_extended"), model_.config().long_context ? 1 : 0);
}

void Encoder::fill_block(std::span<const TokenSequence> sequences, int64_t rows) {
  grow_block(rows);
  block_->clear();
  RunShape& shape = block_->shape;
  const std::span<int32_t> tokens = block_->input<int32_t>("tokens");
  const std::span<int32_t> types = block_->find<int32_t>("types");
  for (const TokenSequence& sequence : sequences) {
    const auto first = static_cast<size_t>(shape.rows);
    const auto count = static_cast<int32_t>(sequence.ids.size());
    std::ranges::copy(sequence.ids, tokens.begin() + first);
    if (!types.empty()) {
      std::fill_n(types.begin() + first, count, 0);
      std::ranges::copy(sequence.types, types.begin() + first);
    }
    block_->add_span(shape.span_count, count, 0);
  }
  shape.sequences = shape.span_count;
}

std::span<const float> Encoder::row(int64_t i) const {
  const Operand& root = last_->root(0);
  return {root.row<float>(i), static_cast<size_t>(root.cols)};
}

PlanOptions Encoder::plan_options(int64_t rows, int64_t sequences) const {
  return {.rows = rows,
          .outputs = rows,
          .sequences = sequences,
          .exact = model_.options().exact,
          .fuse = model_.options().fuse};
}

Plan& Encoder::plan(int64_t rows, int64_t sequences) {
  rows = bucket(rows);
  sequences = std::min(rows, bucket(sequences));
  const Turn turn(arenas_);
  auto& slot = plans_[{rows, sequences}];
  if (!slot || !slot->is_current()) {
    slot = std::make_unique<Plan>(
        model_.entry().graph, std::vector<Value>{model_.entry().root(root_)},
        binding_of(model_, workspaces_, nullptr, block_.get()), plan_options(rows, sequences));
  }
  return *slot;
}

}  // namespace veery
