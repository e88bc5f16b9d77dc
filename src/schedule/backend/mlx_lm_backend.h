// mlx_lm_backend.h: mlx-lm, run by a Python of the user's choice, behind the interface of all
// backends.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>

#include "schedule/backend/line_process.h"
#include "schedule/backend/text_backend.h"

namespace veery {

struct MlxLmOptions {
  std::string python = "python3";  ///< an interpreter that has mlx-lm
  /// A program to run in place of the one that veery brings (tests); empty: that one.
  std::string script;
  std::chrono::seconds load_timeout{600};   ///< for a model to be loaded
  std::chrono::seconds token_timeout{300};  ///< for the next piece of an answer
};

class MlxLmBackend : public TextBackend {
 public:
  /// Starts the interpreter and loads the model: a folder as mlx-lm reads it. Throws kIo naming the
  /// interpreter if it cannot be started, has no mlx-lm, ends, or says what is no reply; kInput
  /// with mlx-lm's own words if the model cannot be loaded.
  MlxLmBackend(const std::string& model, const MlxLmOptions& options = {});
  ~MlxLmBackend() override;

  std::string_view name() const override { return "mlx_lm"; }
  BackendInfo info() override { return info_; }
  BackendAnswer generate(std::string_view prompt, const BackendOptions& options,
                         const OnPiece& on_piece) override;
  BackendAnswer chat(const Json& messages, const BackendOptions& options,
                     const OnPiece& on_piece) override;

 private:
  Json receive(std::chrono::seconds timeout);
  BackendAnswer answer(Json request, const BackendOptions& options, const OnPiece& on_piece);

  MlxLmOptions options_;
  std::unique_ptr<LineProcess> process_;
  BackendInfo info_;
  std::mutex mutex_;
};

}  // namespace veery
