// text_engine.h: what answers, whatever computes it: veery, or another program.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

struct EngineInfo {
  std::string model_type;  ///< "llama"
  int64_t vocabulary = 0, layers = 0, hidden = 0;
};

/// What all backends know of the choice of tokens.
struct EngineOptions {
  int32_t max_tokens = 128;
  double temperature = 0;  ///< 0: the most probable token
  int32_t top_k = 0;       ///< 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

struct EngineAnswer {
  std::string text;
  int64_t prompt_tokens = 0, tokens = 0;
  std::string finish_reason;  ///< "stop", "length" or "cancelled"
};

/// Called with pieces of text as they come. False: end here.
using OnPiece = std::function<bool(std::string_view)>;

/// One model of one backend, with one answer at a time: calls from several threads wait for each
/// other. All throw Error: kInput for what is asked wrongly, kIo where another program failed.
class TextEngine {
 public:
  virtual ~TextEngine() = default;
  /// "veery", "mlx_lm".
  virtual std::string_view name() const = 0;
  virtual EngineInfo info() = 0;
  /// Goes on from a text.
  virtual EngineAnswer generate(std::string_view prompt, const EngineOptions& options,
                                 const OnPiece& on_piece = {}) = 0;
  /// Answers messages (an array of objects with role and content) by the model's chat template.
  virtual EngineAnswer chat(const Json& messages, const EngineOptions& options,
                             const OnPiece& on_piece = {}) = 0;
};

}  // namespace veery
