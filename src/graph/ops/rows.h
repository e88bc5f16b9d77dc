// rows.h: ops that select, join and reduce rows and columns.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// Parameters of columns: the range [begin, begin + count). columns_back: `width` is the width of
/// the result.
struct ColumnsAttr {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t width = 0;
};

/// Pooling of the rows of a sequence: first, last, mean, maximum per column, sum divided by the
/// square root of the length, mean weighted by 1, 2, 3 ...
enum class Pooling : uint8_t { kFirst, kLast, kMean, kMax, kSumOverRoot, kWeightedMean };
struct PoolAttr {
  Pooling kind = Pooling::kMean;
};

/// Parameters of top_k: number of values per row.
struct TopKAttr {
  int32_t count = 0;
};

/// Parameters of shift: number of rows; positive: towards later rows.
struct ShiftAttr {
  int32_t by = 0;
};

struct EmbedIn {
  enum { kIds, kWeight };
};
struct EmbedBackIn {
  enum { kDy, kIds, kWeight };
};
struct SelectRowsIn {
  enum { kX, kRows };
};
struct SelectRowsBackIn {
  enum { kDy, kRows };
};
struct PoolBackIn {
  enum { kDy, kX };
};
struct PoolTangentIn {
  enum { kX, kTx };
};
struct TopKBackIn {
  enum { kX, kIndices, kDvalues, kDmass };
};
struct TopKTangentIn {
  enum { kX, kIndices, kTx };
};
struct TopKTangentOut {
  enum { kValues, kMass };
};
struct AssignIn {
  enum { kX, kVariable };
};
struct TopKOut {
  enum { kValues, kIndices, kMass };
};

namespace op {
namespace detail {

inline Outputs assign(const OpContext& c) {
  const ValueType& variable = c.type(AssignIn::kVariable);
  c.require(c.type(AssignIn::kX) == variable, "x must have the shape and type of the variable");
  c.require(variable.shape.rows().is_known(), "the rows of a variable do not vary");
  return {variable.shape, variable.dtype};
}

inline Outputs embed(const OpContext& c) {
  c.attr<ScaleAttr>();
  return Shape{c.shape(EmbedIn::kIds).rows(), c.shape(EmbedIn::kWeight).cols()};
}
inline Cost embed_cost(const OpContext& c, const Outputs& out, const RunSize& size) {
  return {.weight_share = size(out.types[0].shape.rows()) / size(c.shape(EmbedIn::kWeight).rows())};
}
inline Outputs embed_back(const OpContext& c) {
  const Shape& weight = c.shape(EmbedBackIn::kWeight);
  c.require(c.shape(EmbedBackIn::kDy).cols() == weight.cols(),
            "dy must have the columns of the weight");
  return weight;
}
inline Outputs columns(const OpContext& c) {
  const auto& attr = c.attr<ColumnsAttr>();
  const Shape& x = c.shape(UnaryIn::kX);
  c.require(attr.begin >= 0 && attr.count > 0 && attr.begin + attr.count <= x.cols(),
            "the columns lie outside of the input");
  return {Shape{x.rows(), attr.count}, c.type(UnaryIn::kX).dtype};
}
inline Outputs columns_back(const OpContext& c) {
  const auto& attr = c.attr<ColumnsAttr>();
  const Shape& dy = c.shape(0);
  c.require(attr.begin >= 0 && attr.count == dy.cols() && attr.begin + attr.count <= attr.width,
            "the columns lie outside of the result");
  return Shape{dy.rows(), attr.width};
}
inline Outputs concat(const OpContext& c) {
  const Shape& a = c.shape(BinaryIn::kA);
  const Shape& b = c.shape(BinaryIn::kB);
  c.require(a.rows() == b.rows(), "both must have the same rows");
  return Shape{a.rows(), a.cols() + b.cols()};
}
inline Outputs select_rows(const OpContext& c) {
  return Shape{c.shape(SelectRowsIn::kRows).rows(), c.shape(SelectRowsIn::kX).cols()};
}
inline Outputs select_rows_back(const OpContext& c) {
  return Shape{Symbol::kRows, c.shape(SelectRowsBackIn::kDy).cols()};
}
inline Outputs shift(const OpContext& c) {
  c.attr<ShiftAttr>();
  const Shape& x = c.shape(UnaryIn::kX);
  c.require(x.rows() == Dim(Symbol::kRows), "x must have one row a token");
  return x;
}
inline Outputs argmax(const OpContext& c) {
  return {{c.shape(UnaryIn::kX).rows(), 1}, DType::kI32};
}
inline Outputs top_k(const OpContext& c) {
  const auto& attr = c.attr<TopKAttr>();
  const Shape& x = c.shape(UnaryIn::kX);
  c.require(attr.count > 0, "at least one of a row must be asked for");
  const Shape each{x.rows(), attr.count};
  return {{each, DType::kF32}, {each, DType::kI32}, {Shape{x.rows(), 1}, DType::kF32}};
}
inline Outputs pool(const OpContext& c) {
  c.attr<PoolAttr>();
  const Shape& x = c.shape(UnaryIn::kX);
  c.require(x.rows() == Dim(Symbol::kRows), "x must have one row a token");
  return Shape{Symbol::kSequences, x.cols()};
}
inline Outputs pool_back(const OpContext& c) {
  c.attr<PoolAttr>();
  const Shape& dy = c.shape(PoolBackIn::kDy);
  const Shape& x = c.shape(PoolBackIn::kX);
  c.require(dy.rows() == Dim(Symbol::kSequences) && dy.cols() == x.cols(),
            "dy must have one row a sequence and the columns of x");
  return x;
}
inline Outputs pool_tangent(const OpContext& c) {
  c.same_shape(PoolTangentIn::kX, PoolTangentIn::kTx);
  c.require(c.attr<PoolAttr>().kind == Pooling::kMax, "pooling is linear unless it is a maximum");
  return pool(c);
}
inline Outputs top_k_back(const OpContext& c) { return c.shape(TopKBackIn::kX); }
inline Outputs top_k_tangent(const OpContext& c) {
  const Shape& x = c.same_shape(TopKTangentIn::kX, TopKTangentIn::kTx);
  return {ValueType{c.shape(TopKTangentIn::kIndices)}, ValueType{Shape{x.rows(), 1}}};
}

}  // namespace detail

/// Rows of weight [count, columns] by ids, times the factor (ScaleAttr).
inline constexpr OpDef kEmbed{.name = "embed",
                              .inputs = {"ids", "weight"},
                              .infer = detail::embed,
                              .cost = detail::embed_cost};
/// Only the shape of the weight is used.
inline constexpr OpDef kEmbedBack{.name = "embed_back",
                                  .group = OpGroup::kBackward,
                                  .inputs = {"dy", "ids", "weight"},
                                  .outputs = {"dweight"},
                                  .infer = detail::embed_back};
/// A view; nothing is copied.
inline constexpr OpDef kColumns{
    .name = "columns", .inputs = {"x"}, .infer = detail::columns, .alias = UnaryIn::kX};
/// Pads dy with zero columns.
inline constexpr OpDef kColumnsBack{.name = "columns_back",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy"},
                                    .outputs = {"dx"},
                                    .infer = detail::columns_back};
/// a [rows, m], b [rows, n] -> [rows, m + n].
inline constexpr OpDef kConcat{.name = "concat", .inputs = {"a", "b"}, .infer = detail::concat};
/// x [rows, columns], indices of rows [outputs, 1] -> [outputs, columns].
inline constexpr OpDef kSelectRows{
    .name = "select_rows", .inputs = {"x", "rows"}, .infer = detail::select_rows};
/// Scatters dy into rows of zeros.
inline constexpr OpDef kSelectRowsBack{.name = "select_rows_back",
                                       .group = OpGroup::kBackward,
                                       .inputs = {"dy", "rows"},
                                       .outputs = {"dx"},
                                       .infer = detail::select_rows_back};
/// Writes x to a variable of its shape and type; the result is the variable.
inline constexpr OpDef kAssign{.name = "assign",
                               .inputs = {"x", "variable"},
                               .outputs = {"variable"},
                               .infer = detail::assign,
                               .alias = AssignIn::kVariable,
                               .writes = 1U << AssignIn::kVariable};
/// Row r is row r - by of x if it belongs to the same sequence and run, otherwise zeros.
inline constexpr OpDef kShift{.name = "shift", .inputs = {"x"}, .infer = detail::shift};
/// [rows, n] -> [rows, 1] i32; ties prefer the lowest index.
inline constexpr OpDef kArgmax{
    .name = "argmax", .inputs = {"x"}, .outputs = {"index"}, .infer = detail::argmax};
/// [rows, n] -> the `count` largest values of a row in descending order [rows, count] (ties: lowest
/// index first), their indices [rows, count] i32, and the mass [rows, 1], the sum over the row of
/// exp(x - largest) as computed by softmax_mass(). NaN is ignored; missing values are padded with
/// minus infinity and -1.
inline constexpr OpDef kTopK{.name = "top_k",
                             .inputs = {"x"},
                             .outputs = {"values", "indices", "mass"},
                             .infer = detail::top_k};
/// One row per sequence of the run: [rows, columns] -> [sequences, columns].
inline constexpr OpDef kPool{
    .name = "pool", .inputs = {"x"}, .infer = detail::pool, .cost = detail::elements<1>};
inline constexpr OpDef kPoolBack{.name = "pool_back",
                                 .group = OpGroup::kBackward,
                                 .inputs = {"dy", "x"},
                                 .outputs = {"dx"},
                                 .infer = detail::pool_back,
                                 .cost = detail::elements<1>};

/// The tangent of a maximum per column: the tangent of its row.
inline constexpr OpDef kPoolTangent{.name = "pool_tangent",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"x", "tx"},
                                    .infer = detail::pool_tangent,
                                    .cost = detail::elements<1>};
/// Gradient of top_k; `indices` are its result. Elements that were not selected have a gradient
/// through the mass only.
inline constexpr OpDef kTopKBack{.name = "top_k_back",
                                 .group = OpGroup::kBackward,
                                 .inputs = {"x", "indices", "dvalues?", "dmass?"},
                                 .outputs = {"dx"},
                                 .infer = detail::top_k_back,
                                 .cost = detail::elements<10>};
/// The tangents of the values and of the mass.
inline constexpr OpDef kTopKTangent{.name = "top_k_tangent",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"x", "indices", "tx"},
                                    .outputs = {"tvalues", "tmass"},
                                    .infer = detail::top_k_tangent,
                                    .cost = detail::elements<10>};

inline constexpr Op kRowOps[] = {kEmbed,       kEmbedBack,  kColumns,        kColumnsBack,
                                 kConcat,      kSelectRows, kSelectRowsBack, kAssign,
                                 kShift,       kArgmax,     kTopK,           kTopKBack,
                                 kTopKTangent, kPool,       kPoolBack,       kPoolTangent};

}  // namespace op
}  // namespace veery
