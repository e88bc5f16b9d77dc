// veery_engine.h: text generation by veery.
#pragma once
#include <mutex>

#include "bridge/text_engine.h"
#include "engine/model.h"
#include "schedule/scheduler.h"

namespace veery {

class VeeryEngine : public TextEngine {
 public:
  /// The model must outlive it and have no other user.
  explicit VeeryEngine(Model& model);

  std::string_view name() const override { return "veery"; }
  EngineInfo info() override;
  EngineAnswer generate(std::string_view prompt, const EngineOptions& options,
                        const OnPiece& on_piece) override;
  EngineAnswer chat(const Json& messages, const EngineOptions& options,
                    const OnPiece& on_piece) override;

 private:
  EngineAnswer answer(std::vector<int32_t> prompt, const EngineOptions& options,
                      const OnPiece& on_piece);

  Model& model_;
  Scheduler scheduler_;
  std::mutex mutex_;
};

}  // namespace veery
