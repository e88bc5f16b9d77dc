// mlx_lm_engine.h: mlx-lm, run by a Python of the user's choice, behind the interface of all
// backends.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>

#include "bridge/line_process.h"
#include "bridge/text_engine.h"

namespace veery {

struct MlxLmOptions {
  std::string python = "python3";  ///< an interpreter that has mlx-lm
  /// A program to run in place of the one that veery brings (tests); empty: that one.
  std::string script;
  std::chrono::seconds load_timeout{600};   ///< for a model to be loaded
  std::chrono::seconds token_timeout{300};  ///< for the next piece of an answer
};

class MlxLmEngine : public TextEngine {
 public:
  /// Starts the interpreter and loads the model: a folder as mlx-lm reads it. Throws kIo naming the
  /// interpreter if it cannot be started, has no mlx-lm, ends, or says what is no reply; kInput
  /// with mlx-lm's own words if the model cannot be loaded.
  MlxLmEngine(const std::string& model, const MlxLmOptions& options = {});
  ~MlxLmEngine() override;

  std::string_view name() const override { return "mlx_lm"; }
  EngineInfo info() override { return info_; }
  EngineAnswer generate(std::string_view prompt, const EngineOptions& options,
                         const OnPiece& on_piece) override;
  EngineAnswer chat(const Json& messages, const EngineOptions& options,
                     const OnPiece& on_piece) override;

 private:
  Json receive(std::chrono::seconds timeout);
  EngineAnswer answer(Json request, const EngineOptions& options, const OnPiece& on_piece);

  MlxLmOptions options_;
  std::unique_ptr<LineProcess> process_;
  EngineInfo info_;
  std::mutex mutex_;
};

}  // namespace veery
