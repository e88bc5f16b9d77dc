// op.h: what is known of an op: one row, OpDef, which lies beside its parameters and the names of
// its inputs in graph/ops/*.h.
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

/// What an op gives. A single f32 output is said by its shape alone.
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

/// Which op a node is: a reference to its row.
class Op {
 public:
  constexpr Op(const OpDef& def) : def_(&def) {}  // NOLINT(google-explicit-constructor)
  constexpr const OpDef* operator->() const { return def_; }
  constexpr const OpDef& def() const { return *def_; }
  constexpr bool operator==(const Op&) const = default;

 private:
  const OpDef* def_;
};

/// The inputs and parameters of one node: what rules for shapes and costs look at. Failures name
/// the op and all of its inputs with their shapes.
class OpContext {
 public:
  OpContext(const Graph& graph, Op op, std::span<const Value> in, const Attr& attr)
      : graph_(graph), op_(op), in_(in), attr_(attr) {}

  bool has(int input) const { return static_cast<bool>(in_[static_cast<size_t>(input)]); }
  const ValueType& type(int input) const;  ///< throws kInput if it is absent
  const Shape& shape(int input) const { return type(input).shape; }
  /// That of both, which must be one.
  const Shape& same_shape(int a, int b) const;
  /// The parameters; throws kInput if they are not of the kind that the op has.
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

/// The size of a run, for costs.
struct RunSize {
  int64_t rows = 1;       ///< tokens
  int64_t outputs = 1;    ///< rows whose output is wanted
  int64_t context = 1;    ///< positions that the last row sees
  int64_t sequences = 1;  ///< of the run
  double operator()(Dim dim) const;
  double elements(const Shape& shape) const {
    return (*this)(shape.rows()) * static_cast<double>(shape.cols());
  }
};

struct Cost {
  double flops = 0;         ///< floating-point operations, a multiply-add counted as two
  double weight_share = 1;  ///< of its weights' bytes, what one run reads
};

/// Forward ops are what models are made of; backward ones are made by vjp and jvp only, fused ones
/// by plan/fuse only.
enum class OpGroup : uint8_t { kLeaf, kForward, kBackward, kFused };

/// All that is known of an op.
struct OpDef {
  std::string_view name;
  OpGroup group = OpGroup::kForward;
  /// Names of the inputs, in order; those that end in '?' may be absent.
  std::array<std::string_view, kMaxInputs> inputs{};
  std::array<std::string_view, kMaxOutputs> outputs{"y"};
  /// Shapes and types of the outputs. Throws kInput naming op and shapes. nullptr: a leaf.
  Outputs (*infer)(const OpContext&) = nullptr;
  Cost (*cost)(const OpContext&, const Outputs&,
               const RunSize&) = nullptr;  ///< nullptr: moves bytes only
  /// The input in whose memory the output lies, -1: it has memory of its own.
  int alias = -1;
  /// Bit i: input i, a state, is written.
  unsigned writes = 0;
  /// The same out of simpler ops, on the inputs of a node, appended to a graph; nullptr: the op is
  /// simple.
  Value (*decompose)(Graph&, const Node&) = nullptr;

  constexpr int input_count() const { return count(inputs); }
  constexpr bool is_optional(int input) const {
    return inputs[static_cast<size_t>(input)].ends_with('?');
  }
  /// Nothing is computed: the output is a part of its input's memory.
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
