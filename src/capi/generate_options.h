// generate_options.h: veery_generate_options as the options of a request.
#pragma once
#include <veery/veery.h>

#include <span>
#include <string_view>

#include "capi/loaded_model.h"

namespace veery::capi {

/// A sampling parameter (sample/parameters.h) that has a member of its own. Parameters without one
/// are set by name, in veery_generate_options::parameters.
struct ParameterMember {
  std::string_view name;
  float veery_generate_options::*real = nullptr;
  int32_t veery_generate_options::*whole = nullptr;  ///< in place of `real`
};
std::span<const ParameterMember> parameter_members();

/// Returns the sampling that the file of `model` recommends, which may be null, and no limit of
/// tokens.
veery_generate_options default_generate_options(const LoadedModel* model);

/// Returns `given`, completed with the defaults of `model`; the defaults if it is null. Throws as
/// options_or().
veery_generate_options generate_options_or(const LoadedModel& model,
                                           const veery_generate_options* given);

/// Returns the request that continues `ids`. Throws kInput naming an option that is out of range.
GenerateRequest make_request(LoadedModel& model, std::vector<int32_t> ids,
                             const veery_generate_options& given);

}  // namespace veery::capi
