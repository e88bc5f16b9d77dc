#include "sample/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace veery {
namespace {

constexpr double kMostTokens = std::numeric_limits<int32_t>::max();
using Options = SamplerOptions;

constexpr SamplingParameter kParameters[] = {
    {.name = "temperature",
     .real = &Options::temperature,
     .high = 1000,
     .help = "Sampling temperature; 0: greedy",
     .flag_name = "--temp",
     .file_key = "general.sampling.temp"},
    {.name = "top_p",
     .real = &Options::top_p,
     .high = 1,
     .help = "Top-p: smallest set of tokens with this total probability; 1: off",
     .file_key = "general.sampling.top_p"},
    {.name = "min_p",
     .real = &Options::min_p,
     .high = 1,
     .help = "Min-p: minimum probability relative to the best token; 0: off",
     .file_key = "general.sampling.min_p"},
    {.name = "top_k",
     .whole = &Options::top_k,
     .low = -1,
     .high = kMostTokens,
     .help = "Top-k: keep the N most probable tokens; 0, -1: off",
     .file_key = "general.sampling.top_k"},
    {.name = "repeat_penalty",
     .real = &Options::repeat_penalty,
     .low = 0.001,
     .high = 1000,
     .help = "Repetition penalty: above 1 makes recent tokens less likely; 1: off",
     .other_field = "repetition_penalty",
     .file_key = "general.sampling.penalty_repeat"},
    {.name = "presence_penalty",
     .real = &Options::presence_penalty,
     .low = -100,
     .high = 100,
     .help = "Presence penalty: subtracted from logits of recent tokens"},
    {.name = "frequency_penalty",
     .real = &Options::frequency_penalty,
     .low = -100,
     .high = 100,
     .help = "Frequency penalty: subtracted for each recent occurrence"},
    {.name = "repeat_last_n",
     .whole = &Options::repeat_last_n,
     .low = -1,
     .high = kMostTokens,
     .help = "Window of the penalties in tokens; -1: all, 0: none",
     .file_key = "general.sampling.penalty_last_n"},
    {.name = "typical_p",
     .real = &Options::typical_p,
     .high = 1,
     .help = "Locally typical sampling: total probability to keep; 1: off",
     .advanced = true},
    {.name = "top_n_sigma",
     .real = &Options::top_n_sigma,
     .low = -1,
     .high = 1e9,
     .help = "Keep logits within N standard deviations of the best; 0, -1: off",
     .advanced = true},
    {.name = "xtc_probability",
     .real = &Options::xtc_probability,
     .high = 1,
     .help = "XTC: probability of excluding the top choices; 0: off",
     .advanced = true},
    {.name = "xtc_threshold",
     .real = &Options::xtc_threshold,
     .high = 1,
     .help = "XTC: exclude tokens above this, but keep the least probable of them",
     .advanced = true},
    {.name = "dynatemp_range",
     .real = &Options::dynatemp_range,
     .high = 100,
     .help = "Dynamic temperature: maximum change, by entropy; 0: off",
     .advanced = true},
    {.name = "dynatemp_exponent",
     .real = &Options::dynatemp_exponent,
     .high = 1000,
     .help = "Dynamic temperature: exponent of the normalised entropy",
     .flag_name = "--dynatemp-exp",
     .advanced = true},
    {.name = "dry_multiplier",
     .real = &Options::dry_multiplier,
     .high = 1000,
     .help = "DRY: penalty factor for repeated sequences; 0: off",
     .advanced = true},
    {.name = "dry_base",
     .real = &Options::dry_base,
     .low = 1,
     .high = 1000,
     .help = "DRY: penalty = multiplier * base^(length - allowed length)",
     .advanced = true},
    {.name = "dry_allowed_length",
     .whole = &Options::dry_allowed_length,
     .high = kMostTokens,
     .help = "DRY: shortest repetition that is penalised, in tokens",
     .advanced = true},
    {.name = "dry_last_n",
     .whole = &Options::dry_last_n,
     .low = -1,
     .high = kMostTokens,
     .help = "DRY: number of recent tokens to search; -1: all",
     .flag_name = "--dry-penalty-last-n",
     .field_name = "dry_penalty_last_n",
     .advanced = true},
    {.name = "mirostat",
     .whole = &Options::mirostat,
     .high = 2,
     .help = "2: mirostat 2.0 replaces the filters; 0: off",
     .step = 2,
     .advanced = true},
    {.name = "mirostat_tau",
     .real = &Options::mirostat_tau,
     .high = 1000,
     .help = "Mirostat: target surprise in bits (tau)",
     .flag_name = "--mirostat-ent",
     .advanced = true},
    {.name = "mirostat_eta",
     .real = &Options::mirostat_eta,
     .high = 1,
     .help = "Mirostat: learning rate (eta)",
     .flag_name = "--mirostat-lr",
     .advanced = true},
};

}  // namespace

double SamplingParameter::get(const SamplerOptions& options) const {
  if (real != nullptr) return options.*real;
  return options.*whole;
}

void SamplingParameter::set(SamplerOptions& options, double value) const {
  if (real != nullptr)
    options.*real = static_cast<float>(value);
  else
    options.*whole = static_cast<int32_t>(value);
}

bool SamplingParameter::accepts(double value) const {
  if (real != nullptr) {
    // A bound that was rounded to float is still in the range.
    const double least = std::min<double>(low, static_cast<float>(low));
    const double most = std::max<double>(high, static_cast<float>(high));
    return value >= least && value <= most;
  }
  return value >= low && value <= high && std::fmod(value - low, step) == 0;
}

std::string SamplingParameter::expected() const {
  if (high - low == step && step > 1) return fmt::format("{} or {}", low, high);
  return fmt::format("a {}number from {} to {}", whole != nullptr ? "whole " : "", low, high);
}

std::string SamplingParameter::range() const {
  if (high - low == step && step > 1) return expected();
  return fmt::format("{} to {}{}", low, high, whole != nullptr ? ", whole" : "");
}

std::string SamplingParameter::text(double value) const {
  return real != nullptr ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

std::string SamplingParameter::flag() const {
  if (!flag_name.empty()) return std::string(flag_name);
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::vector<std::string_view> SamplingParameter::fields() const {
  if (other_field.empty()) return {field()};
  return {field(), other_field};
}

std::span<const SamplingParameter> sampling_parameters() { return kParameters; }

const SamplingParameter* find_sampling_parameter(std::string_view name) {
  const auto* const found = std::ranges::find(kParameters, name, &SamplingParameter::name);
  return found == std::end(kParameters) ? nullptr : found;
}

void check_sampling(const SamplerOptions& options) {
  for (const SamplingParameter& parameter : kParameters)
    if (const double value = parameter.get(options); !parameter.accepts(value))
      throw Error(ErrorKind::kInput, "{} is {}, expected {}", parameter.name, parameter.text(value),
                  parameter.expected());
}

}  // namespace veery
