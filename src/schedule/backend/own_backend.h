// own_backend.h: veery behind the interface of all backends.
#pragma once
#include <mutex>

#include "engine/model.h"
#include "schedule/backend/text_backend.h"
#include "schedule/scheduler.h"

namespace veery {

class OwnBackend : public TextBackend {
 public:
  /// The model must outlive it and have no other user.
  explicit OwnBackend(Model& model);

  std::string_view name() const override { return "veery"; }
  BackendInfo info() override;
  BackendAnswer generate(std::string_view prompt, const BackendOptions& options,
                         const OnPiece& on_piece) override;
  BackendAnswer chat(const Json& messages, const BackendOptions& options,
                     const OnPiece& on_piece) override;

 private:
  BackendAnswer answer(std::vector<int32_t> prompt, const BackendOptions& options,
                       const OnPiece& on_piece);

  Model& model_;
  Scheduler scheduler_;
  std::mutex mutex_;
};

}  // namespace veery
