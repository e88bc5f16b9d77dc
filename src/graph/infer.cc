#include "graph/infer.h"

#include <string>

#include "base/error.h"

namespace veery {
namespace {

/// The inputs of one op under check; every failure names the op and all shapes.
class Checked {
 public:
  Checked(const Graph& graph, Op op, const Inputs& in, const Attr& attr)
      : graph_(graph), op_(op), in_(in), attr_(attr) {}

  Shape at(int i) const {
    if (!has(i)) fail("input {} is missing", i);
    return graph_[in_[static_cast<size_t>(i)]].shape;
  }
  bool has(int i) const { return in_[static_cast<size_t>(i)] != kNoNode; }
  Shape same(int a, int b) const {
    if (at(a) != at(b)) fail("inputs {} and {} must have one shape", a, b);
    return at(a);
  }
  template <typename A>
  const A& as() const {
    const A* attr = std::get_if<A>(&attr_);
    if (attr == nullptr) fail("its parameters are missing");
    return *attr;
  }
  void require(bool condition, const char* what) const {
    if (!condition) fail("{}", what);
  }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    std::string shapes;
    for (NodeId id : in_)
      if (id != kNoNode) shapes += (shapes.empty() ? "" : ", ") + to_string(graph_[id].shape);
    throw Error(ErrorKind::kInput, "{}: saw {}; {}", info(op_).name, shapes,
                fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const Graph& graph_;
  Op op_;
  const Inputs& in_;
  const Attr& attr_;
};

Shape linear_shape(const Checked& c) {
  const auto& attr = c.as<LinearAttr>();
  const Shape x = c.at(0);
  c.require(attr.weights >= 1 && attr.weights <= 3, "expected 1 to 3 weights");
  int64_t cols = 0;
  for (int i = 0; i < attr.weights; ++i) {
    const Shape w = c.at(3 + i);
    c.require(w.cols == x.cols, "the columns of x and of each weight must agree");
    if (c.has(6 + i)) c.require(c.at(6 + i) == Shape{1, w.rows}, "a bias must be [1, out]");
    cols += w.rows;
  }
  if (attr.gate != Activation::kNone) {
    c.require(attr.weights < 3, "a gate takes one weight or two");
    if (attr.weights == 2) c.require(c.at(3) == c.at(4), "the weights of a gate have one shape");
    cols = c.at(3).rows;
  }
  const Shape out{x.rows, cols};
  if (c.has(1)) c.require(c.at(1) == Shape{1, x.cols}, "the norm weight must be [1, in]");
  if (c.has(2)) c.require(c.at(2) == out, "the residual must have the shape of the result");
  return out;
}

Shape rms_norm_shape(const Checked& c) {
  const auto& attr = c.as<NormAttr>();
  const Shape x = c.at(0);
  c.require(attr.groups >= 1 && x.cols % attr.groups == 0,
            "the columns must divide into the groups");
  c.require(c.at(1) == Shape{1, x.cols / attr.groups}, "the weight must be [1, columns / groups]");
  if (c.has(2)) c.require(c.at(2) == x, "the residual must have the shape of x");
  return x;
}

Shape layer_norm_shape(const Checked& c) {
  const auto& attr = c.as<NormAttr>();
  const Shape x = c.at(0);
  c.require(attr.groups >= 1 && x.cols % attr.groups == 0,
            "the columns must divide into the groups");
  c.require(c.at(1) == Shape{1, x.cols / attr.groups} || c.at(1) == Shape{1, x.cols},
            "the weight must be [1, columns / groups] or [1, columns]");
  if (c.has(2)) c.require(c.at(2) == c.at(1), "the bias must have the shape of the weight");
  return x;
}

Shape rope_shape(const Checked& c) {
  const auto& attr = c.as<RopeAttr>();
  const Shape x = c.at(0);
  c.require(attr.heads >= 1 && x.cols % attr.heads == 0, "the columns must divide into the heads");
  c.require(attr.dims > 0 && attr.dims % 2 == 0 && attr.begin >= 0 &&
                attr.begin + attr.dims <= x.cols / attr.heads,
            "the rotated dimensions must be even and at most those of a head");
  c.require(c.at(1) == Shape{x.rows, attr.dims}, "the angles must be [rows, rotated dimensions]");
  return x;
}

Shape head_linear_shape(const Checked& c) {
  const int64_t heads = c.as<HeadsAttr>().heads;
  const Shape x = c.at(0);
  const Shape w = c.at(1);
  c.require(heads >= 1 && x.cols % heads == 0, "the columns must divide into the heads");
  c.require(w.rows % heads == 0 && w.cols <= x.cols / heads,
            "w must be [heads x out, in], in at most the columns of a head");
  return {x.rows, w.rows + x.cols - heads * w.cols};
}

Shape route_shape(const Checked& c) {
  const auto& attr = c.as<RouteAttr>();
  const Shape scores = c.at(0);
  if (c.has(1)) c.require(c.at(1) == Shape{1, scores.cols}, "there must be one bias an expert");
  c.require(attr.used >= 1 && attr.used <= scores.cols, "more experts are used than there are");
  c.require(attr.groups >= 1 && scores.cols % attr.groups == 0 && attr.groups_used >= 1 &&
                attr.groups_used <= attr.groups &&
                attr.groups_used * (scores.cols / attr.groups) >= attr.used,
            "the groups of experts must be equal and hold those that are used");
  c.require(attr.group_best >= 1 && attr.group_best <= scores.cols / attr.groups,
            "a group is judged by more experts than it has");
  return scores;
}

Shape moe_shape(const Checked& c) {
  const auto& attr = c.as<MoeAttr>();
  const Shape x = c.at(0);
  const int64_t experts = attr.experts;
  c.require(experts >= 1 && attr.used >= 1 && attr.used <= experts,
            "more experts are used than there are");
  c.require(c.at(1) == Shape{x.rows, experts}, "there must be one gate a row and expert");
  const Shape up = c.same(3, 4);
  c.require(up.cols == x.cols && up.rows % experts == 0,
            "gate and up must be [experts x hidden, in]");
  const int64_t hidden = up.rows / experts;
  const Shape down = c.at(5);
  c.require(down.cols == hidden && down.rows % experts == 0,
            "down must be [experts x out, hidden]");
  for (int i : {6, 7})
    if (c.has(i)) c.require(c.at(i) == Shape{1, up.rows}, "a bias must be [1, experts x hidden]");
  const Shape out{x.rows, down.rows / experts};
  if (c.has(8)) c.require(c.at(8) == Shape{1, down.rows}, "a bias must be [1, experts x out]");
  if (c.has(2)) c.require(c.at(2) == out, "the residual must have the shape of the result");
  return out;
}

void check_attend(const Checked& c, const AttendAttr& attr, int q, int k, int v) {
  c.require(attr.heads >= 1 && attr.kv_heads >= 1 && attr.heads % attr.kv_heads == 0,
            "the heads must be a multiple of the key heads");
  c.require(c.at(q).cols % attr.heads == 0, "the columns of q must divide into the heads");
  c.require(c.at(k).cols == c.at(q).cols / attr.heads * attr.kv_heads,
            "k must have key heads x head size columns");
  c.require(c.at(v).cols % attr.kv_heads == 0, "the columns of v must divide into the key heads");
  c.require(attr.shared >= 0 && (attr.shared == 0 || c.at(v) == c.at(k)) &&
                attr.shared <= c.at(k).cols / attr.kv_heads,
            "keys that hold values are given as both, and are no smaller");
}

Shape qkv_rope_shape(const Checked& c) {
  const auto& attr = c.as<QkvRopeAttr>();
  const int64_t q = int64_t{attr.heads} * attr.head_dim;
  const int64_t kv = int64_t{attr.kv_heads} * attr.head_dim;
  c.require(c.at(0).cols == q + 2 * kv, "the columns must be those of q, k and v");
  c.require(c.at(1) == Shape{c.at(0).rows, attr.dims},
            "the angles must be [rows, rotated dimensions]");
  c.require(c.at(2).cols == kv && c.at(3).cols == kv,
            "the caches must have the columns of k and v");
  return {c.at(0).rows, q};
}

Shape infer_forward(const Checked& c, Op op) {
  switch (op) {
    case Op::kEmbed: c.as<ScaleAttr>(); return {c.at(0).rows, c.at(1).cols};
    case Op::kLinear: return linear_shape(c);
    case Op::kRmsNorm: return rms_norm_shape(c);
    case Op::kLayerNorm: return layer_norm_shape(c);
    case Op::kAdd:
    case Op::kMul: return c.same(0, 1);
    case Op::kScale:
    case Op::kSoftcap: c.as<ScaleAttr>(); return c.at(0);
    case Op::kActivate: c.as<ActivateAttr>(); return c.at(0);
    case Op::kRopeAngles: {
      const int64_t dims = c.as<AnglesAttr>().dims;
      for (int i : {1, 2})
        if (c.has(i)) c.require(c.at(i) == Shape{1, dims / 2}, "there must be one divisor a pair");
      c.require(c.has(1) || !c.has(2), "divisors of extended sequences come with others");
      return {c.at(0).rows, dims};
    }
    case Op::kRope: return rope_shape(c);
    case Op::kCacheWrite:
      c.require(c.at(0).cols == c.at(1).cols, "the value and the cache must have the same columns");
      return c.at(1);
    case Op::kAttend: {
      const auto& attr = c.as<AttendAttr>();
      check_attend(c, attr, 0, 1, 2);
      if (c.has(3)) c.require(c.at(3) == Shape{1, attr.heads}, "there must be one sink a head");
      const int64_t value = attr.shared > 0 ? attr.shared : c.at(2).cols / attr.kv_heads;
      return {c.at(0).rows, value * attr.heads};
    }
    case Op::kColumns: {
      const auto& attr = c.as<ColumnsAttr>();
      c.require(attr.begin >= 0 && attr.count > 0 && attr.begin + attr.count <= c.at(0).cols,
                "the columns lie outside of the input");
      return {c.at(0).rows, attr.count};
    }
    case Op::kConcat:
      c.require(c.at(0).rows == c.at(1).rows, "both must have the same rows");
      return {c.at(0).rows, c.at(0).cols + c.at(1).cols};
    case Op::kSelectRows: return {c.at(1).rows, c.at(0).cols};
    case Op::kArgmax: return {c.at(0).rows, 1};
    case Op::kHeadLinear: return head_linear_shape(c);
    case Op::kRoute: return route_shape(c);
    case Op::kMoe: return moe_shape(c);
    case Op::kCrossEntropy:
      c.require(c.at(0).rows == c.at(1).rows, "there must be one target a row");
      return {1, 1};
    case Op::kQkvRope: return qkv_rope_shape(c);
    case Op::kLinearArgmax: return {linear_shape(c).rows, 1};
    default: c.fail("no shape rule");
  }
}

}  // namespace

Shape infer_shape(const Graph& graph, Op op, const Inputs& in, const Attr& attr) {
  const Checked c(graph, op, in, attr);
  switch (op) {
    case Op::kEmbedBack:
      c.require(c.at(0).cols == c.at(2).cols, "dy must have the columns of the weight");
      return c.at(2);
    case Op::kLinearBackX: {
      c.require(c.at(0).cols == c.at(1).rows, "dy must have a column for each row of w");
      return {c.at(0).rows, c.at(1).cols};
    }
    case Op::kLinearBackW:
      c.require(c.at(0).rows == c.at(1).rows, "dy and x must have the same rows");
      return {c.at(0).cols, c.at(1).cols};
    case Op::kRmsNormBackX: return c.same(0, 1);
    case Op::kRmsNormBackW: return {1, c.same(0, 1).cols / c.as<NormAttr>().groups};
    case Op::kLayerNormBackX: return c.same(0, 1);
    case Op::kLayerNormBackW: c.same(0, 1); return c.at(2);
    case Op::kBiasBack:
      c.require(c.at(1).rows == 1 && c.at(0).cols % c.at(1).cols == 0,
                "the columns must divide into parts of the bias");
      return c.at(1);
    case Op::kActivateBack:
    case Op::kSoftcapBack: return c.same(0, 1);
    case Op::kAttendBack:
      check_attend(c, c.as<AttendAttr>(), 1, 2, 3);
      c.require(c.at(0) == c.at(1) && c.at(2) == c.at(3),
                "dy must have the shape of q, k that of v");
      return c.at(1 + c.as<AttendAttr>().part);
    case Op::kSelectRowsBack: return {kTokenRows, c.at(0).cols};
    case Op::kCrossEntropyBack: return c.at(1);
    default: return infer_forward(c, op);
  }
}

}  // namespace veery
