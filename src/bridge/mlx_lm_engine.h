// mlx_lm_engine.h: text generation by mlx-lm in a Python process.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>

#include "bridge/line_process.h"
#include "bridge/text_engine.h"

namespace veery {

struct MlxLmOptions {
  std::string python = "python3";  ///< an interpreter with mlx-lm
  std::string script;              ///< a program to run instead of bridge.py (tests); empty: none
  std::chrono::seconds load_timeout{600};   ///< for loading a model
  std::chrono::seconds token_timeout{300};  ///< for the next piece of an answer
};

class MlxLmEngine : public TextEngine {
 public:
  /// Starts the interpreter and loads the model, a folder that mlx-lm can read. Throws kIo naming
  /// the interpreter if it cannot be started, ends or sends an invalid reply; kInput with the error
  /// of Python if mlx-lm cannot be imported or cannot load the model.
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
