// sampling_flags.h: the flags of the sampler.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bridge/text_engine.h"
#include "cli/args/arguments.h"
#include "engine/model.h"
#include "sample/sampler.h"

namespace veery::cli {

/// Flags that are not given have the values that the model file recommends.
class SamplingFlags {
 public:
  void add(Arguments& app);
  /// Throws Misuse naming a flag whose value does not fit the model.
  SamplerOptions options(const Model& model) const;
  /// The same with other values in place of those that the model file recommends.
  SamplerOptions options(const Model& model, SamplerOptions otherwise) const;
  /// The subset that other backends than veery's own know, with defaults for flags not given.
  EngineOptions engine_options() const;

 private:
  void apply(SamplerOptions& options) const;

  std::vector<std::optional<double>> values_;  ///< of sampling_parameters()
  std::vector<std::string> biases_, dry_breakers_;
  int64_t seed_ = -1;
};

}  // namespace veery::cli
