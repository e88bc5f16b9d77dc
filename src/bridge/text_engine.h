// text_engine.h: one interface for text generation by veery or by another program.
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

/// The sampling options that all backends have.
struct EngineOptions {
  int32_t max_tokens = 128;
  double temperature = 0;  ///< 0: greedy
  int32_t top_k = 0;       ///< 0: all
  double top_p = 1;
  uint64_t seed = 0;
};

struct EngineAnswer {
  std::string text;
  int64_t prompt_tokens = 0, tokens = 0;
  std::string finish_reason;  ///< "stop", "length" or "cancelled"
};

/// Called with each piece of text. Returns false to cancel the answer.
using OnPiece = std::function<bool(std::string_view)>;

/// One model of one backend that generates one answer at a time: calls from several threads wait
/// for each other. All calls throw Error: kInput for a wrong request, kIo if another program
/// failed.
class TextEngine {
 public:
  virtual ~TextEngine() = default;
  /// "veery", "mlx_lm".
  virtual std::string_view name() const = 0;
  virtual EngineInfo info() = 0;
  /// Continues a text.
  virtual EngineAnswer generate(std::string_view prompt, const EngineOptions& options,
                                const OnPiece& on_piece = {}) = 0;
  /// Answers messages (an array of objects with role and content) by the model's chat template.
  virtual EngineAnswer chat(const Json& messages, const EngineOptions& options,
                            const OnPiece& on_piece = {}) = 0;
};

}  // namespace veery
