#include "cli/flags/sampling_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string_view>

#include "base/printable.h"
#include "engine/generate.h"
#include "engine/sequence_breakers.h"
#include "sample/parameters.h"

namespace veery::cli {
namespace {

constexpr const char* kGroup = "Sampling";
constexpr const char* kMoreGroup = "Sampling, advanced";

// "15043+1.5" or "15043-1".
SamplerOptions::Bias parse_bias(const std::string& text, int64_t vocab) {
  SamplerOptions::Bias bias;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.id);
  const bool plus = id.ec == std::errc() && id.ptr != end && *id.ptr == '+';
  const auto value = std::from_chars(id.ptr + (plus ? 1 : 0), end, bias.value);
  const bool read = id.ec == std::errc() && id.ptr != end && (plus || *id.ptr == '-') &&
                    value.ec == std::errc() && value.ptr == end;
  if (!read || !(std::abs(bias.value) <= kMostBias))
    throw Misuse("--logit-bias",
                 fmt::format("found '{}', expected a token id and a number to add, such as 15043-1",
                             printable(text)));
  if (bias.id < 0 || bias.id >= vocab)
    throw Misuse("--logit-bias",
                 fmt::format("there is no token {}, expected 0 to {}", bias.id, vocab - 1));
  return bias;
}

}  // namespace

void SamplingFlags::add(Arguments& app) {
  const std::span<const SamplingParameter> parameters = sampling_parameters();
  values_.resize(parameters.size());  // the options refer to its elements
  const char* group = kGroup;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const SamplingParameter& row = parameters[i];
    if (row.advanced && group == kGroup) {
      app.option("-s,--seed", seed_,
                 "Random seed; equal seeds give equal texts; -1: a new one for each run")
          .type_name("N")
          .group(group)
          .whole_number(-1, std::numeric_limits<int64_t>::max())
          .show_default();
      group = kMoreGroup;
    }
    const Option option =
        app.option(row.flag(), values_[i], fmt::format("{} [{}]", row.help, row.text(row.get())))
            .type_name(row.whole != nullptr ? "N"
                       : row.high == 1      ? "P"
                                            : "X")
            .group(group);
    if (row.whole != nullptr)
      option.whole_number(static_cast<int64_t>(row.low), static_cast<int64_t>(row.high));
    else
      option.real_number(row.low, row.high);
  }
  app.option("--dry-sequence-breaker", dry_breakers_,
             "DRY: repetitions end at tokens that contain this text; none: no such text;\n"
             "repeatable [newline, colon, quote, star]")
      .type_name("TEXT")
      .group(kMoreGroup);
  app.option("-l,--logit-bias", biases_,
             "Add X to the logit of token ID: 15043+1 or 15043-1; repeatable")
      .type_name("ID+X")
      .group(kMoreGroup);
}

void SamplingFlags::apply(SamplerOptions& options) const {
  const std::span<const SamplingParameter> parameters = sampling_parameters();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i]) continue;
    const SamplingParameter& row = parameters[i];
    if (!row.accepts(*values_[i]))
      throw Misuse(row.flag(), fmt::format("found {}, expected {}", *values_[i], row.expected()));
    row.set(options, *values_[i]);
  }
  options.seed = seed_ >= 0 ? static_cast<uint64_t>(seed_) : std::random_device{}();
}

SamplerOptions SamplingFlags::options(const Model& model) const {
  return options(model, recommended_sampling(model.file().metadata));
}

SamplerOptions SamplingFlags::options(const Model& model, SamplerOptions options) const {
  apply(options);
  for (const std::string& text : biases_)
    options.bias.push_back(parse_bias(text, model.config().vocab));
  if (options.dry_multiplier > 0) {
    std::vector<std::string> breakers = dry_breakers_;
    if (breakers.empty()) breakers = usual_sequence_breakers();
    std::erase(breakers, "none");
    options.dry_breakers = sequence_breakers(model.tokenizer(), model.config().vocab, breakers);
  }
  return options;
}

EngineOptions SamplingFlags::engine_options() const {
  SamplerOptions options;
  apply(options);
  return {.temperature = options.temperature,
          .top_k = std::max(0, options.top_k),
          .top_p = options.top_p,
          .seed = options.seed};
}

}  // namespace veery::cli
