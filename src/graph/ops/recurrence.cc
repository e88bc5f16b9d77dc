#include "graph/ops/recurrence.h"

#include "graph/ops/recurrence_back.h"

namespace veery {
namespace {

int64_t whole_lanes(int64_t n) { return (n + kScanColumns - 1) / kScanColumns * kScanColumns; }

}  // namespace

ScanLayout scan_layout(const ScanAttr& attr, int64_t key_size, int64_t value_size) {
  ScanLayout layout{.key_size = key_size, .value_size = value_size};
  layout.blocks = whole_lanes(value_size) / kScanColumns;
  layout.block = key_size * kScanColumns;
  if (attr.normaliser) {
    layout.normaliser = layout.block;
    layout.block += whole_lanes(key_size);
  }
  if (attr.exponential) {
    layout.stabiliser = layout.block;
    layout.block += kScanColumns;
  }
  return layout;
}

Shape scan_state(const ScanAttr& attr, int64_t key_size, int64_t value_size) {
  const ScanLayout layout = scan_layout(attr, key_size, value_size);
  return {attr.heads * layout.blocks, layout.block};
}

namespace op::detail {
namespace {

// Whether a value has `rows` rows or one row for all positions.
bool rows_or_one(const Shape& shape, Dim rows, int64_t cols) {
  return shape.cols() == cols && (shape.rows() == rows || shape.rows() == Dim(1));
}

// Checks the shape of an optional input.
void check_optional(const OpContext& c, int input, const Shape& shape, const char* expected) {
  if (c.has(input)) c.require(c.shape(input) == shape, expected);
}

void check_scan_sizes(const OpContext& c, const ScanAttr& attr) {
  c.require(attr.heads >= 1 && attr.key_heads >= 1 && attr.heads % attr.key_heads == 0,
            "the heads must be a multiple of the key heads");
  const Shape& k = c.same_shape(ScanIn::kQ, ScanIn::kK);
  c.require(k.cols() % attr.key_heads == 0, "the columns of k must divide into the key heads");
  c.require(c.shape(ScanIn::kV).cols() % attr.heads == 0 && c.shape(ScanIn::kV).rows() == k.rows(),
            "v must have the rows of k and columns that divide into the heads");
}

}  // namespace

Outputs scan(const OpContext& c) { return scan_of(c, c.attr<ScanAttr>()); }

Outputs scan_of(const OpContext& c, const ScanAttr& attr) {
  check_scan_sizes(c, attr);
  const Shape& v = c.shape(ScanIn::kV);
  const Dim rows = v.rows();
  const int64_t key = c.shape(ScanIn::kK).cols() / attr.key_heads;
  const int64_t channels = attr.heads * key;
  const int64_t decays = attr.decay == Decay::kHead      ? attr.heads
                         : attr.decay == Decay::kChannel ? channels
                                                         : v.cols();
  c.require(c.has(ScanIn::kDecay) == (attr.decay != Decay::kNone), "a decay as its parameters say");
  if (c.has(ScanIn::kDecay))
    c.require(rows_or_one(c.shape(ScanIn::kDecay), rows, decays),
              "the decay must have a column for each head, channel or value");
  c.require(c.has(ScanIn::kRates) == (attr.decay == Decay::kOuter), "rates only with such a decay");
  check_optional(c, ScanIn::kRates, {key, v.cols()}, "rates must be [key size, columns of v]");
  check_optional(c, ScanIn::kGate, {rows, attr.heads}, "the gate must have one column a head");
  c.require(!attr.exponential || (c.has(ScanIn::kGate) && attr.decay == Decay::kHead &&
                                  attr.low_rank == LowRank::kNone),
            "exponential gates are of heads and without a low-rank term");
  const bool general = attr.low_rank == LowRank::kGeneral;
  c.require(c.has(ScanIn::kA) == general && c.has(ScanIn::kB) == general,
            "a and b only with a general low-rank term");
  check_optional(c, ScanIn::kA, {rows, channels}, "a must have a column for each channel");
  check_optional(c, ScanIn::kB, {rows, channels}, "b must have a column for each channel");
  if (c.has(ScanIn::kBonus))
    c.require(c.shape(ScanIn::kBonus) == Shape{1, attr.heads} ||
                  c.shape(ScanIn::kBonus) == Shape{1, channels},
              "the bonus must be [1, heads] or [1, heads * key size]");
  check_optional(c, ScanIn::kState, scan_state(attr, key, v.cols() / attr.heads),
                 "the state must be as scan_state() says");
  return v;
}

// One product and one sum each for the decay, the new value and the output, and for the low-rank
// term twice.
Cost scan_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  const auto& attr = c.attr<ScanAttr>();
  const auto key = static_cast<double>(c.shape(ScanIn::kK).cols() / attr.key_heads);
  const double each = attr.low_rank == LowRank::kNone      ? 5
                      : attr.low_rank == LowRank::kGeneral ? 9
                                                           : 7;
  return {.flops = each * key * size.elements(out.types[0].shape)};
}

Outputs conv1d(const OpContext& c) {
  c.attr<Conv1dAttr>();
  const Shape& x = c.shape(Conv1dIn::kX);
  const Shape& weight = c.shape(Conv1dIn::kWeight);
  c.require(weight.rank == 2 && weight.cols() == x.cols() && weight.rows().size >= 1,
            "the weight must be [width, channels]");
  check_optional(c, Conv1dIn::kBias, {1, x.cols()}, "the bias must be [1, channels]");
  c.require(!c.has(Conv1dIn::kState) || weight.rows().size > 1, "a width of 1 needs no state");
  check_optional(c, Conv1dIn::kState, {weight.rows().size - 1, x.cols()},
                 "the state must be [width - 1, channels]");
  return x;
}

Cost conv1d_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  return {.flops = 2 * static_cast<double>(c.shape(Conv1dIn::kWeight).rows().size) *
                   size.elements(out.types[0].shape)};
}

Outputs slstm(const OpContext& c) {
  const Shape& x = c.shape(SlstmIn::kX);
  const Shape& r = c.shape(SlstmIn::kRecurrent);
  const int64_t channels = x.cols() / kSlstmGates, heads = c.attr<SlstmAttr>().heads;
  c.require(x.cols() % kSlstmGates == 0 && heads >= 1 && channels % heads == 0,
            "x must have four columns a channel, and the channels divide into the heads");
  c.require(r.rank == 2 && r == Shape{channels / heads, x.cols()},
            "the recurrent weight must be [head size, columns of x]");
  c.require(c.shape(SlstmIn::kBias) == Shape{1, x.cols()}, "the bias must be [1, columns of x]");
  check_optional(c, SlstmIn::kState, {kSlstmStates, channels}, "the state must be [4, channels]");
  return Shape{x.rows(), channels};
}

Cost slstm_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  const auto head = static_cast<double>(c.shape(SlstmIn::kRecurrent).rows().size);
  return {.flops = 2 * static_cast<double>(kSlstmGates) * head * size.elements(out.types[0].shape)};
}

Outputs linear_heads(const OpContext& c) {
  const Shape& x = c.shape(LinearHeadsIn::kX);
  const Shape& weight = c.shape(LinearHeadsIn::kWeight);
  c.require(weight.rank == 2 && weight.rows() == Dim(x.cols()) && weight.cols() >= 1 &&
                x.cols() % weight.cols() == 0,
            "the weight must be [columns of x, a divisor of these]");
  return x;
}

Cost linear_heads_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  return {.flops = 2 * static_cast<double>(c.shape(LinearHeadsIn::kWeight).cols()) *
                   size.elements(out.types[0].shape)};
}

}  // namespace op::detail
}  // namespace veery
