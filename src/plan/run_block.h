// run_block.h: everything that varies between runs, in one block of host memory: the inputs of a
// graph and the shape of a run.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/memory.h"
#include "graph/graph.h"
#include "kernels/dispatch.h"

namespace veery {

/// An input as a graph declares it (op::kInput).
struct InputSpec {
  std::string name;
  ValueType type;
};
/// The inputs of a graph, each once. Throws kBug naming one that is declared with two types.
std::vector<InputSpec> inputs_of(const Graph& graph);

/// An element type of the host's code: its size, and whether it is an integer.
struct HostType {
  size_t bytes;
  bool integral;
};
/// Throws kBug, naming `what` ("input") and its name, unless elements of `dtype` are read and
/// written as `type`: f32 as float; i32, u8 and the bits of f16 and bf16 as integers.
void check_element_type(std::string_view what, std::string_view name, DType dtype,
                        const HostType& type);

/// The memory of inputs. Its address does not change, so that plans may point into it. Inputs are
/// written through the spans of input(); add_span() and add_output() set the rows of the run.
class RunBlock {
 public:
  /// Lays out `inputs` for runs of up to `rows` tokens. All values are zero at first.
  RunBlock(std::span<const InputSpec> inputs, int32_t rows);
  /// The same with all inputs of a graph.
  RunBlock(const Graph& graph, int32_t rows) : RunBlock(inputs_of(graph), rows) {}
  RunBlock(const RunBlock&) = delete;
  RunBlock& operator=(const RunBlock&) = delete;

  /// The most tokens of a run.
  int32_t rows() const { return rows_; }
  /// The elements of an input, row by row: T is int32_t, float, uint8_t, or uint16_t for the bits
  /// of f16 and bf16. Throws kBug if no graph declares it, or if it has elements of another type.
  template <typename T>
  std::span<T> input(std::string_view name) {
    const Operand& value = operand(name);
    check_element_type("input", name, value.dtype, {sizeof(T), std::is_integral_v<T>});
    taken_.emplace(name);
    return {reinterpret_cast<T*>(value.data), elements(value)};
  }
  /// The same; empty if no graph declares it.
  template <typename T>
  std::span<T> find(std::string_view name) {
    return operands_.contains(name) ? input<T>(name) : std::span<T>();
  }
  /// Whether somebody writes an input: its span was taken, or add_span() and add_output() write it.
  /// Other inputs stay zero.
  bool is_taken(std::string_view name) const { return taken_.contains(name); }
  /// Returns an input as an operand. Throws kBug if no graph declares it.
  const Operand& operand(std::string_view name) const;

  /// Begins a run without rows, outputs and masks. Inputs keep their values.
  void clear() {
    shape.rows = shape.outputs = shape.span_count = 0;
    shape.mask = nullptr;
  }
  /// Appends `rows` rows of `sequence`, the first at `position`; writes the input "positions", if
  /// there is one. `visible`: Span::visible.
  void add_span(int32_t sequence, int32_t rows, int32_t position, int32_t visible = 0);
  /// Appends an output: the result of this row of the run is requested. Rows must ascend.
  void add_output(int32_t row) { output_rows_[static_cast<size_t>(shape.outputs++)] = row; }

  RunShape shape;

 private:
  size_t elements(const Operand& value) const {
    return static_cast<size_t>(capacity(value.rows) * value.cols);
  }
  int64_t capacity(int64_t rows) const { return rows >= 0 ? rows : rows_; }

  int32_t rows_;
  Memory memory_;
  std::map<std::string, Operand, std::less<>> operands_;
  std::set<std::string, std::less<>> taken_ = {"output_rows"};
  std::span<Span> spans_;
  std::span<int32_t> span_of_, output_rows_, positions_;
};

}  // namespace veery
