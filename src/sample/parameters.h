// parameters.h: the table of sampling parameters, from which every interface takes names, ranges,
// defaults and help texts.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sample/sampler.h"

namespace veery {

/// One numeric member of SamplerOptions. Command-line flags, request fields of the server, the
/// OpenAPI document, the tables in docs/cli.md and docs/fields.md, `/set` and chat files, the C API
/// and the recommendations of model files come from these rows. The default is that of the member.
struct SamplingParameter {
  std::string_view name;  ///< as in SamplerOptions, in chat files and in the C API
  float SamplerOptions::*real = nullptr;
  int32_t SamplerOptions::*whole = nullptr;  ///< in place of `real`
  double low = 0, high = 0;                  ///< inclusive
  std::string_view help;                     ///< without default and range
  int32_t step = 1;                   ///< of a whole number: low, low + step, ... are accepted
  std::string_view flag_name = {};    ///< of flag(), if not `name` with dashes
  std::string_view field_name = {};   ///< of field(), if not `name`
  std::string_view other_field = {};  ///< a second name of the request field
  std::string_view file_key = {};     ///< metadata key of the recommendation of a model file
  bool advanced = false;              ///< listed after the usual ones in the help

  /// Returns the value in `options`; in default options, the default.
  double get(const SamplerOptions& options = {}) const;
  /// Sets the value, which must be a number of the member's type; the range is not checked.
  void set(SamplerOptions& options, double value) const;
  bool accepts(double value) const;
  /// Returns "a number from 0 to 1", "a whole number from -1 to 2147483647" or "0 or 2".
  std::string expected() const;
  /// Returns "0 to 1", "-1 to 2147483647, whole" or "0 or 2", for tables.
  std::string range() const;
  /// Returns the shortest decimal that reads back as the float or integer `value`.
  std::string text(double value) const;

  std::string flag() const;  ///< "--top-p"
  std::string_view field() const { return field_name.empty() ? name : field_name; }
  /// Returns the names of the request field: one or two.
  std::vector<std::string_view> fields() const;
};

/// Returns all parameters: first the usual ones, then the advanced ones.
std::span<const SamplingParameter> sampling_parameters();
/// Returns the row of that name, or null.
const SamplingParameter* find_sampling_parameter(std::string_view name);

/// Throws kInput naming the first parameter that is out of range.
void check_sampling(const SamplerOptions& options);

}  // namespace veery
