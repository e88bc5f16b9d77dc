// inspect.h: activations of a model while it reads a text: queries, keys, attention weights, hidden
// states, and the logit lens of each layer.
#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"

namespace veery {

/// The values to compute for each layer.
struct InspectWhat {
  bool attention = false, queries = false, keys = false, hidden = false, lens = false;
};
struct InspectPart {
  const char* name;
  bool InspectWhat::*member;
};
inline constexpr InspectPart kInspectParts[] = {{"attention", &InspectWhat::attention},
                                                {"queries", &InspectWhat::queries},
                                                {"keys", &InspectWhat::keys},
                                                {"hidden", &InspectWhat::hidden},
                                                {"lens", &InspectWhat::lens}};
/// Parses a list of names. Throws kInput naming an unknown one.
InspectWhat parse_inspect_what(std::span<const std::string> names);

struct InspectOptions {
  InspectWhat what;
  std::vector<int32_t> layers;  ///< strictly ascending; empty: all
  std::vector<int32_t> heads;   ///< query heads, strictly ascending; empty: all
  int32_t top = 5;              ///< tokens of the lens per position
  /// Limit of the memory of values and results together, in bytes.
  double most_bytes = 4e9;
};

struct LensToken {
  int32_t id = 0;
  float probability = 0;
};

/// The values of one layer at all positions of the text. Values that were not requested, or that
/// the layer does not have, are empty.
struct LayerInspection {
  int32_t layer = 0;
  /// "attention", "latent attention", "Mamba-2", "attention and Mamba-2", "feed-forward". A layer
  /// without attention has no keys, queries and maps.
  std::string mixer;
  bool attends = false;
  int32_t window = 0;    ///< length of its sliding window; 0: none
  bool chunked = false;  ///< it sees only positions since the last multiple of `window`
  bool sinks = false;    ///< it has sinks, so that rows of its maps sum to less than 1
  float scale = 1;       ///< factor of the product of query and key
  /// The query heads with values, and the key heads that they use.
  std::vector<int32_t> heads, key_heads;
  int64_t head_size = 0;  ///< of queries and keys
  /// [heads][query positions][key positions], probabilities; 0 for hidden positions.
  std::vector<float> attention;
  std::vector<float> queries;   ///< [heads][positions][head_size], after RoPE
  std::vector<float> keys;      ///< [key_heads][positions][head_size], after RoPE
  std::vector<float> hidden;    ///< [positions][dim], the residual stream after the layer
  std::vector<LensToken> lens;  ///< [positions][top], the most probable first
};

struct Inspection {
  std::vector<float> embedding;  ///< [positions][dim], input of the first layer; with `hidden`
  std::vector<float> final;      ///< [positions][dim], output of the final norm; with `hidden`
  std::vector<LayerInspection> layers;
};

/// Called with each layer as soon as it is complete.
using InspectSink = std::function<void(LayerInspection&&)>;
/// Called with the steps done and the number of steps.
using InspectProgress = std::function<void(size_t, size_t)>;

/// Runs whole texts without KV cache, so keys and values are f32 whatever the cache types of the
/// model. Not thread-safe; nothing else may run the model at the same time. The model must outlive
/// it.
class Inspector {
 public:
  /// Throws kUnsupported for a model on a GPU and for a model that attends to an encoder.
  explicit Inspector(Model& model);

  /// Whether the model has an output head, which the lens needs.
  bool has_lens() const { return entry_.roots.count("logits") != 0; }
  const Model& model() const { return model_; }

  /// Returns the number of values in the results for `tokens` tokens. Throws kInput for a layer or
  /// head out of range.
  double numbers(size_t tokens, const InspectOptions& options) const;

  /// Runs the text and passes each layer to `sink`, in order; the returned value has no layers.
  /// Throws kInput for an empty text, an id outside of the vocabulary, a layer, a head or `top` out
  /// of range, or if nothing is requested; kUnsupported for the lens of a model without output
  /// head; kLimit naming both numbers for a text longer than the context or for values beyond
  /// InspectOptions::most_bytes.
  Inspection run(std::span<const int32_t> ids, const InspectOptions& options,
                 const InspectSink& sink, const InspectProgress& progress = {});
  /// The same, returning all layers.
  Inspection run(std::span<const int32_t> ids, const InspectOptions& options,
                 const InspectProgress& progress = {});

 private:
  struct Wanted;
  struct LayerNodes {
    Value query, key, sinks, out;
    AttendAttr attend;
    bool attends = false;
    /// With more positions the layer attends to some of them only (sparse attention).
    int64_t most_seen = std::numeric_limits<int64_t>::max();
  };

  void find_layers();
  std::string mixer_of(int32_t layer) const;
  Wanted check(std::span<const int32_t> ids, const InspectOptions& options, bool keep) const;
  double layer_numbers(int32_t layer, double rows, const InspectOptions& options) const;
  LayerInspection describe(int32_t layer, const InspectOptions& options) const;

  Model& model_;
  Entry entry_;
  std::vector<LayerNodes> layers_;
};

}  // namespace veery
