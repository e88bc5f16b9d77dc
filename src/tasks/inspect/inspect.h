// inspect.h: what goes on in a model while it reads a text: queries, keys, who attends to whom,
// hidden states, and what each layer would say next.
#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"

namespace veery {

/// What is wanted of each layer.
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
/// Of a list of names. Throws kInput naming one that is none.
InspectWhat parse_inspect_what(std::span<const std::string> names);

struct InspectOptions {
  InspectWhat what;
  std::vector<int32_t> layers;  ///< ascending, each once; empty: all
  std::vector<int32_t> heads;   ///< of queries, ascending, each once; empty: all
  int32_t top = 5;              ///< tokens of the lens at each position
  /// Bytes that values and results may take together.
  double most_bytes = 4e9;
};

struct LensToken {
  int32_t id = 0;
  float probability = 0;
};

/// Of one layer. Values are of all positions of the text, row by row; what was not asked for, and
/// what a layer does not have, is empty.
struct LayerInspection {
  int32_t layer = 0;
  /// "attention", "latent attention", "Mamba-2", "attention and Mamba-2", "feed-forward". A layer
  /// without attention has neither keys nor queries nor maps.
  std::string mixer;
  bool attends = false;
  int32_t window = 0;    ///< positions that it sees; 0: all
  bool chunked = false;  ///< what is since the last multiple of the window
  bool sinks = false;    ///< what rows of its maps lack of 1 went to sinks
  float scale = 1;       ///< of the product of query and key
  /// The heads that values are of, and the key heads that these use.
  std::vector<int32_t> heads, key_heads;
  int64_t head_size = 0;  ///< of queries and keys, as they are multiplied
  /// [heads][positions of queries][positions of keys], probabilities; 0 where a query sees nothing.
  std::vector<float> attention;
  std::vector<float> queries;   ///< [heads][positions][head_size], behind RoPE
  std::vector<float> keys;      ///< [key_heads][positions][head_size], behind RoPE
  std::vector<float> hidden;    ///< [positions][dim], the residual stream behind the layer
  std::vector<LensToken> lens;  ///< [positions][top], the most probable first
};

struct Inspection {
  std::vector<float> embedding;  ///< [positions][dim], what the first layer is given; with `hidden`
  std::vector<float> final;      ///< the same behind the last norm
  std::vector<LayerInspection> layers;
};

/// Gets each layer as soon as it is there.
using InspectSink = std::function<void(LayerInspection&&)>;
/// Called with steps done and steps in all.
using InspectProgress = std::function<void(size_t, size_t)>;

/// A text is run as a whole, without caches: so keys and values are f32 here, whatever the type of
/// those of a session is. Not for several threads at once; nothing else may run the model
/// meanwhile. The model must outlive it.
class Inspector {
 public:
  /// Throws kUnsupported for a model on a GPU, and for one that attends to an encoder.
  explicit Inspector(Model& model);

  /// Whether the model has a head, through which the lens looks.
  bool has_lens() const { return entry_.roots.count("logits") != 0; }
  const Model& model() const { return model_; }

  /// How many numbers the results of so many tokens are. Throws kInput for a layer or head that
  /// there is none of.
  double numbers(size_t tokens, const InspectOptions& options) const;

  /// Runs the text and hands out its layers, one after the other; `sink` may keep none of them.
  /// What it returns has no layers. Throws kInput for an empty text, an id outside of the
  /// vocabulary, a layer or head that there is none of, `top` out of range, nothing asked for;
  /// kUnsupported for the lens of a model without a head; kLimit, naming both numbers, for a text
  /// longer than the context or values that take more than InspectOptions::most_bytes.
  Inspection run(std::span<const int32_t> ids, const InspectOptions& options,
                 const InspectSink& sink, const InspectProgress& progress = {});
  /// The same with all layers kept.
  Inspection run(std::span<const int32_t> ids, const InspectOptions& options,
                 const InspectProgress& progress = {});

 private:
  struct Wanted;
  struct LayerNodes {
    Value query, key, sinks, out;
    AttendAttr attend;
    bool attends = false;
    /// Of more positions attention looks at some only.
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
