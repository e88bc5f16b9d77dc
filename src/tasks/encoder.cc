#include "tasks/encoder.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "engine/runner.h"

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
  const int32_t rows = model.config().token_types;
  for (const int32_t type : sequence.types)
    if (rows > 0 && (type < 0 || type >= rows))
      throw Error(ErrorKind::kInput, "found token type {}, expected 0 to {}", type, rows - 1);
}

}  // namespace

Encoder::Encoder(Model& model, std::string root)
    : model_(model),
      root_(std::move(root)),
      workspace_(model.memory_backend() != nullptr ? &model.backend()->device() : nullptr),
      front_{&model.front_params(), &front_workspace_, model.front_layers()} {}

void Encoder::reserve(int64_t rows) {
  grow_slots(rows);
  Workspace own, front;  // only measured, never written
  const FrontBinding front_part{&model_.front_params(), &front, model_.front_layers()};
  const Binding binding{&model_.params(),
                        nullptr,
                        slots_.get(),
                        &model_.pool(),
                        model_.backend(),
                        &own,
                        model_.front_layers() > 0 ? &front_part : nullptr};
  for (int64_t size = 1; size <= bucket(rows); size *= 2)
    for (const int64_t sequences : {int64_t{1}, size}) {
      PlanOptions options = plan_options(size, sequences);
      options.places_only = true;
      Plan(model_.entry().graph, std::vector<Value>{model_.entry().root(root_)}, binding, options);
    }
  workspace_.block(own.largest());
  if (front.largest() > 0) front_workspace_.block(front.largest());
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
  fill_slots(sequences, rows);
  Plan& plan = this->plan(rows, static_cast<int64_t>(sequences.size()));
  plan.run();
  last_ = &plan;
}

// Plans point into the slots, so larger slots need new plans.
void Encoder::grow_slots(int64_t rows) {
  if (slots_ && slots_->rows() >= rows) return;
  plans_.clear();
  slots_ = std::make_unique<SlotBlock>(static_cast<int32_t>(bucket(rows)));
}

void Encoder::fill_slots(std::span<const TokenSequence> sequences, int64_t rows) {
  grow_slots(rows);
  slots_->clear();
  Slots& slots = slots_->slots;
  const std::span<int32_t> types = slots_->slot("types");
  extended_.assign(sequences.size(), model_.config().long_context);
  for (const TokenSequence& sequence : sequences) {
    const auto first = static_cast<size_t>(slots.rows);
    const auto count = static_cast<int32_t>(sequence.ids.size());
    std::ranges::copy(sequence.ids, slots_->tokens.begin() + first);
    std::fill_n(types.begin() + first, count, 0);
    std::ranges::copy(sequence.types, types.begin() + first);
    slots_->add_span(slots.span_count, count, 0);
  }
  slots.sequences = slots.span_count;
  slots.extended = extended_.data();
}

std::span<const float> Encoder::row(int64_t i) const {
  const Operand& root = last_->root(0);
  return {root.row<float>(i), static_cast<size_t>(root.cols)};
}

PlanOptions Encoder::plan_options(int64_t rows, int64_t sequences) const {
  return {.rows = rows,
          .outputs = rows,
          .sequences = sequences,
          .target = model_.target(),
          .exact = model_.options().exact,
          .fuse = model_.options().fuse};
}

Plan& Encoder::plan(int64_t rows, int64_t sequences) {
  rows = bucket(rows);
  sequences = std::min(rows, bucket(sequences));
  auto& slot = plans_[{rows, sequences}];
  if (!slot) {
    slot = std::make_unique<Plan>(
        model_.entry().graph, std::vector<Value>{model_.entry().root(root_)},
        Binding{&model_.params(), nullptr, slots_.get(), &model_.pool(), model_.backend(),
                &workspace_, model_.front_layers() > 0 ? &front_ : nullptr},
        plan_options(rows, sequences));
  }
  return *slot;
}

}  // namespace veery
