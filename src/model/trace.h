// trace.h: the interface of model definitions: weights by name, inputs of a run, and state.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "array/array.h"
#include "model/weights.h"

namespace veery {

/// Purpose of a graph. kServe: keys and values go to caches, and logits are computed for the
/// requested outputs. kTrain: no state, logits of all rows. kEncode: no state, hidden states
/// instead of logits. Definitions do not depend on the mode.
enum class TraceMode { kServe, kTrain, kEncode };

/// Records one definition into a graph. Gives no values: whatever varies between runs is an input.
class Trace {
 public:
  /// `weights` determine which parts the model has.
  Trace(Graph& graph, TraceMode mode, Weights weights = {})
      : graph_(graph), mode_(mode), weights_(std::move(weights)) {}

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

  /// Returns parameter "NAME.weight" of the current scope. Equal names give the same node.
  Array weight(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape);
  }
  /// A single row, such as the weight of a norm, and a bias.
  Array vector(const std::string& name, int64_t size) { return weight(name, {1, size}); }
  Array bias(const std::string& name, int64_t size) { return parameter(name + ".bias", {1, size}); }
  /// Returns "NAME.scale", one row: factors stored beside a weight of the same name.
  Array factors(const std::string& name, int64_t size) {
    return parameter(name + ".scale", {1, size});
  }
  /// Several matrices: [count, rows, columns].
  Array stack(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape);
  }
  /// A matrix that is accessed by element (convolutions, decays) and therefore not packed.
  Array table(const std::string& name, const Shape& shape) {
    return parameter(name + ".weight", shape, ParamAttr{.plain = true});
  }
  /// `count` concatenated vectors: [1, count * size].
  Array stacked_bias(const std::string& name, int32_t count, int64_t size) {
    return parameter(name + ".bias", {1, count * size}, ParamAttr{.vectors = count});
  }
  /// A constant array of one value.
  Array constant(const Shape& shape, float value) { return veery::constant(graph_, shape, value); }
  /// Return whether the model has a weight or bias that only some models have (WeightRules).
  bool has_weight(const std::string& name) { return weights_.has(scope_, name + ".weight"); }
  bool has_bias(const std::string& name) { return weights_.has(scope_, name + ".bias"); }
  /// Throws kFormat, naming the tensor, if the file lacks a weight that was traced, or has one that
  /// models of the architecture do not have.
  void check_weights() const { weights_.check(); }

  /// Appends x to a cache and returns the cache, which covers all positions so far. Returns x
  /// itself unless the mode is kServe.
  Array cached(const std::string& name, Array x, const StateAttr& attr);
  /// Cross-attention cache: encoder_writes() stores a row per encoder position, decoder_reads()
  /// returns all of them. Throws kUnsupported unless the mode is kServe.
  Array encoder_writes(const std::string& name, Array x, const StateAttr& attr);
  Array decoder_reads(const std::string& name, int64_t columns, const StateAttr& attr);
  /// Traces layers that process whole sequences in each run and therefore keep no state.
  template <typename Body>
  void without_state(const Body& body) {
    const TraceMode mode = std::exchange(mode_, TraceMode::kEncode);
    body();
    mode_ = mode;
  }
  /// Returns the recurrent state of a layer: an f32 matrix [rows, columns] that an op reads and
  /// writes. Empty without state (kTrain, kEncode): sequences start anew.
  Array recurrent_state(const std::string& name, const Shape& shape);
  /// Selects the requested outputs; returns x itself if it has no other rows. After the last layer
  /// that writes a cache, other rows need not be computed.
  Array select_outputs(Array x);
  /// Returns head(hidden), or the hidden states themselves in mode kEncode. `hidden` are hidden
  /// states after the final norm.
  template <typename Head>
  Array output(Array hidden, const Head& head) {
    name("hidden", hidden);
    return mode_ == TraceMode::kEncode ? hidden : head(hidden);
  }
  /// Names a value in the current scope, for inspection.
  Array name(const std::string& name, Array x) {
    named_[scope_ + name] = x.value();
    return x.named(scope_ + name);
  }
  /// Returns all named values.
  const std::map<std::string, Value>& named() const { return named_; }

  /// Calls body(layer) for each layer, with the scope PREFIX"blk.LAYER.".
  template <typename Body>
  void blocks(int32_t layers, const Body& body, const std::string& prefix = {}) {
    for (int32_t layer = 0; layer < layers; ++layer) {
      scope_ = prefix + "blk." + std::to_string(layer) + ".";
      layer_ = layer;
      body(layer);
    }
    scope_.clear();
  }
  /// Calls body() with the scope of one layer.
  template <typename Body>
  void block_at(int32_t layer, const Body& body) {
    scope_ = "blk." + std::to_string(layer) + ".";
    layer_ = layer;
    body();
    scope_.clear();
  }
  /// Returns the current layer.
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
  Weights weights_;
  std::string scope_;
  int32_t layer_ = 0;
  std::map<std::string, NodeId> leaves_;
  std::map<std::string, Value> named_;
};

}  // namespace veery
