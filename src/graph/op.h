// op.h: the definition of an op, OpDef. The definitions are in graph/ops/*.h, with the parameters
// and input names of each op.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "dtype/dtype.h"
#include "graph/attr.h"
#include "graph/shape.h"

namespace veery {

inline constexpr int kMaxInputs = 10;
inline constexpr int kMaxOutputs = 3;

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// One output of a node.
struct Value {
  NodeId node = kNoNode;
  uint8_t output = 0;

  constexpr Value() = default;
  constexpr Value(NodeId id, int index = 0)  // NOLINT(google-explicit-constructor)
      : node(id), output(static_cast<uint8_t>(index)) {}
  constexpr explicit operator bool() const { return node != kNoNode; }
  constexpr bool operator==(const Value&) const = default;
};
inline constexpr Value kNoValue;

/// Shape and element type of a value: f32, i32 for ids and indices, or f16, bf16 or u8, which only
/// cast() and few kernels read. The type in which a weight is stored belongs to its file; here it
/// counts as f32.
struct ValueType {
  Shape shape;
  DType dtype = DType::kF32;
  bool operator==(const ValueType&) const = default;
};

/// The outputs of an op. A single f32 output converts implicitly from its shape.
struct Outputs {
  std::array<ValueType, kMaxOutputs> types{};
  int count = 0;

  Outputs() = default;
  Outputs(const Shape& shape, DType dtype = DType::kF32)  // NOLINT(google-explicit-constructor)
      : types{ValueType{shape, dtype}}, count(1) {}
  Outputs(std::initializer_list<ValueType> list);
  bool operator==(const Outputs&) const = default;
};

struct OpDef;
struct Node;
class Graph;

/// Identifies an op by a reference to its definition.
class Op {
 public:
  constexpr Op(const OpDef& def) : def_(&def) {}  // NOLINT(google-explicit-constructor)
  constexpr const OpDef* operator->() const { return def_; }
  constexpr const OpDef& def() const { return *def_; }
  constexpr bool operator==(const Op&) const = default;

 private:
  const OpDef* def_;
};

/// The inputs and parameters of one node, as seen by the rules for shapes and costs. Errors name
/// the op and all inputs with their shapes.
class OpContext {
 public:
  OpContext(const Graph& graph, Op op, std::span<const Value> in, const Attr& attr)
      : graph_(graph), op_(op), in_(in), attr_(attr) {}

  bool has(int input) const { return static_cast<bool>(in_[static_cast<size_t>(input)]); }
  const ValueType& type(int input) const;  ///< throws kInput if it is absent
  const Shape& shape(int input) const { return type(input).shape; }
  /// Returns the shape of both inputs, which must be equal.
  const Shape& same_shape(int a, int b) const;
  /// Returns the parameters. Throws kInput if they have another type.
  template <typename A>
  const A& attr() const {
    const A* attr = attr_.get<A>();
    if (attr == nullptr) fail("its parameters are missing");
    return *attr;
  }
  void require(bool condition, const char* expected) const {
    if (!condition) fail(expected);
  }
  [[noreturn]] void fail(const std::string& expected) const;  ///< throws kInput

 private:
  const Graph& graph_;
  Op op_;
  std::span<const Value> in_;
  const Attr& attr_;
};

/// The size of a run, for cost estimates.
struct RunSize {
  int64_t rows = 1;       ///< tokens
  int64_t outputs = 1;    ///< rows whose output is requested
  int64_t context = 1;    ///< positions visible to the last row
  int64_t sequences = 1;  ///< number of sequences in the run
  double operator()(Dim dim) const;
  double elements(const Shape& shape) const {
    return (*this)(shape.rows()) * static_cast<double>(shape.cols());
  }
};

struct Cost {
  double flops = 0;         ///< floating-point operations; a multiply-add counts as two
  double weight_share = 1;  ///< fraction of the weights' bytes that a run reads
};

/// Models consist of forward ops. Backward ops are created only by vjp and jvp, fused ops only by
/// plan/fuse.
enum class OpGroup : uint8_t { kLeaf, kForward, kBackward, kFused };

/// The definition of an op.
struct OpDef {
  std::string_view name;
  OpGroup group = OpGroup::kForward;
  /// Names of the inputs in order; a trailing '?' marks optional ones.
  std::array<std::string_view, kMaxInputs> inputs{};
  /// Names of the outputs in order; a trailing '?' marks those that are computed only if they are
  /// used.
  std::array<std::string_view, kMaxOutputs> outputs{"y"};
  /// Infers shapes and types of the outputs. Throws kInput naming op and shapes. nullptr: a leaf.
  Outputs (*infer)(const OpContext&) = nullptr;
  Cost (*cost)(const OpContext&, const Outputs&,
               const RunSize&) = nullptr;  ///< nullptr: moves bytes only
  /// The input in whose memory the output lies, -1: it has memory of its own.
  int alias = -1;
  /// Bit i: input i, a state, is written.
  unsigned writes = 0;
  /// Returns the node of a more general op whose kernels compute a node of this op; nullptr: the op
  /// has kernels of its own.
  Node (*kernel_form)(const Node&) = nullptr;
  /// Appends an equivalent subgraph of simpler ops on the inputs of the node; nullptr: the op is
  /// primitive.
  Value (*decompose)(Graph&, const Node&) = nullptr;

  constexpr int input_count() const { return count(inputs); }
  constexpr bool is_optional(int input) const {
    return inputs[static_cast<size_t>(input)].ends_with('?');
  }
  constexpr bool is_optional_output(int output) const {
    return outputs[static_cast<size_t>(output)].ends_with('?');
  }
  /// Whether the op computes nothing: its output is a part of the input's memory.
  constexpr bool is_view() const { return alias >= 0 && writes == 0; }

 private:
  template <size_t kSize>
  static constexpr int count(const std::array<std::string_view, kSize>& names) {
    int n = 0;
    while (n < static_cast<int>(kSize) && !names[static_cast<size_t>(n)].empty()) ++n;
    return n;
  }
};

}  // namespace veery
