// trace.h: what a model definition is given: its weights by name, the inputs of a run, its memory.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "array/array.h"

namespace veery {

/// Serving writes keys and values into caches and gives logits for chosen rows; training keeps
/// everything in the run and gives logits for all rows; encoding does so too and gives hidden
/// states instead of logits. Definitions cannot ask which one it is.
enum class TraceMode { kServe, kTrain, kEncode };

/// Records one definition into a graph. Gives no values: whatever varies between runs is an input.
class Trace {
 public:
  /// `has` tells whether the file holds a weight, for parts that only some models have.
  Trace(Graph& graph, TraceMode mode, std::function<bool(const std::string&)> has)
      : graph_(graph), mode_(mode), has_(std::move(has)) {}

  // The inputs of a run. RunBlock (plan/run_block.h) lays out those that a graph declares.

  /// [rows, 1] i32: token ids.
  Array tokens() { return indices("tokens", Symbol::kRows, Advance::kToken); }
  /// [rows, 1] i32: the position of each token in its sequence.
  Array positions() { return indices("positions", Symbol::kRows, Advance::kPosition); }
  /// [rows, 1] i32: 1 for tokens of the second text of a pair, else 0 (BERT's token types).
  Array token_types() { return indices("types", Symbol::kRows, Advance::kSame); }
  /// [rows, 1] i32: 1 for tokens of sequences that may become longer than the context before it was
  /// extended (longrope), else 0.
  Array is_extended() { return indices("is_extended", Symbol::kRows, Advance::kSame); }
  /// [rows, columns] f32: what an encoder or another model computed for each row.
  Array features(int64_t columns) {
    return input("features", {Symbol::kRows, columns}, {DType::kF32, Advance::kNone});
  }
  /// [rows or outputs, 1] i32: the expected next token of each row, -1 for none.
  Array targets() {
    return indices("targets", mode_ == TraceMode::kServe ? Symbol::kOutputs : Symbol::kRows,
                   Advance::kNone);
  }

  /// The parameter "NAME.weight" of the current scope. The same name gives the same node.
  Array weight(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape);
  }
  /// A norm's weight, or a bias: one row.
  Array vector(const std::string& name, int64_t size) { return weight(name, {1, size}); }
  Array bias(const std::string& name, int64_t size) { return parameter(name + ".bias", {1, size}); }
  /// Factors that files keep beside a weight of the same name: "NAME.scale", one row.
  Array factors(const std::string& name, int64_t size) {
    return parameter(name + ".scale", {1, size});
  }
  /// Several matrices: [count, rows, columns].
  Array stack(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape);
  }
  /// A matrix that is read element by element: of convolutions and decays.
  Array table(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape, ParamAttr{.plain = true});
  }
  /// `count` vectors, one after the other: [1, count * size].
  Array stacked_bias(const std::string& name, int32_t count, int64_t size) {
    return parameter(name + ".bias", {1, count * size}, ParamAttr{.vectors = count});
  }
  /// The same number everywhere.
  Array constant(const Shape& shape, float value) {
    return {graph_, graph_.leaf(op::kConstant, "constant", shape, ScaleAttr{value})};
  }
  bool has_weight(const std::string& name) const { return has_(scope_ + name + ".weight"); }
  bool has_bias(const std::string& name) const { return has_(scope_ + name + ".bias"); }

  /// Keeps x for later runs: the result stands for all positions so far.
  Array remember(const std::string& name, Array x, const StateAttr& attr);
  /// What an encoder gives each position of the source to attend to: written by encoder_writes(),
  /// read by decoder_reads(), which stands for all positions. Throws kUnsupported where nothing is
  /// kept between runs.
  Array encoder_writes(const std::string& name, Array x, const StateAttr& attr);
  Array decoder_reads(const std::string& name, int64_t columns, const StateAttr& attr);
  /// Runs body() for layers whose sequences are whole in each run, so that nothing is kept of them.
  template <typename Body>
  void in_one_run(const Body& body) {
    const TraceMode mode = std::exchange(mode_, TraceMode::kEncode);
    body();
    mode_ = mode;
  }
  /// What a recurrent layer keeps of all positions so far: a matrix of f32 [rows, columns], which
  /// an op reads and writes. Absent where nothing is kept between runs: sequences begin anew.
  Array block(const std::string& name, const Shape& shape);
  /// The rows whose logits are wanted; x itself where it has no others. Behind the last layer that
  /// writes a cache no other rows need to be computed.
  Array select_outputs(Array x);
  /// Of hidden states, behind the last norm: head(hidden), or the hidden states themselves where
  /// logits are not wanted.
  template <typename Head>
  Array output(Array hidden, const Head& head) {
    name("hidden", hidden);
    return mode_ == TraceMode::kEncode ? hidden : head(hidden);
  }
  /// Gives a value its name in the current scope, for inspection.
  Array name(const std::string& name, Array x) {
    named_[scope_ + name] = x.value();
    return x.named(scope_ + name);
  }
  /// All values that were given names.
  const std::map<std::string, Value>& named() const { return named_; }

  /// Runs body(layer) for each layer with the scope "blk.LAYER.", behind `prefix`.
  template <typename Body>
  void blocks(int32_t layers, const Body& body, const std::string& prefix = {}) {
    for (int32_t layer = 0; layer < layers; ++layer) {
      scope_ = prefix + "blk." + std::to_string(layer) + ".";
      layer_ = layer;
      body(layer);
    }
    scope_.clear();
  }
  /// Runs body() as blocks() does for one layer.
  template <typename Body>
  void block_at(int32_t layer, const Body& body) {
    scope_ = "blk." + std::to_string(layer) + ".";
    layer_ = layer;
    body();
    scope_.clear();
  }
  /// The layer that blocks() is at.
  int32_t layer() const { return layer_; }

 private:
  Array parameter(const std::string& name, const Shape& shape, const Attr& attr = {});
  Array input(const std::string& name, const Shape& shape, const InputAttr& attr);
  Array indices(const std::string& name, Symbol rows, Advance advance) {
    return input(name, {rows, 1}, {DType::kI32, advance});
  }
  Array source_state(const std::string& name, int64_t columns, const StateAttr& attr);

  Graph& graph_;
  TraceMode mode_;
  std::function<bool(const std::string&)> has_;
  std::string scope_;
  int32_t layer_ = 0;
  std::map<std::string, NodeId> leaves_;
  std::map<std::string, Value> named_;
};

}  // namespace veery
