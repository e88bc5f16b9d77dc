#include "cli/flags/sampling_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "base/printable.h"
#include "engine/generate.h"
#include "engine/sequence_breakers.h"

namespace veery::cli {
namespace {

constexpr const char* kGroup = "Choice of tokens";
constexpr const char* kMoreGroup = "Choice of tokens, further ways";

template <typename T>
Option add_to(Arguments& app, const char* group, const std::string& names, T& value,
              const char* type, const std::string& help) {
  return app.option(names, value, help).type_name(type).group(group);
}

// Takes values in the range of a member of SamplerOptions.
void within(const Option& option, std::string_view member) {
  const SamplerRange& range = sampler_range(member);
  if (range.real != nullptr)
    option.real_number(range.low, range.high);
  else
    option.whole_number(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high));
}

// "15043+1.5" or "15043-1".
SamplerOptions::Bias parse_bias(const std::string& text, int64_t vocab) {
  SamplerOptions::Bias bias;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.id);
  const bool plus = id.ec == std::errc() && id.ptr != end && *id.ptr == '+';
  const auto value = std::from_chars(id.ptr + (plus ? 1 : 0), end, bias.value);
  const bool read = id.ec == std::errc() && id.ptr != end && (plus || *id.ptr == '-') &&
                    value.ec == std::errc() && value.ptr == end;
  if (!read || !(std::abs(bias.value) <= 1e6F))
    throw Misuse("--logit-bias",
                 fmt::format("'{}' is no token id with what is added to its logit, such as 15043-1",
                             printable(text)));
  if (bias.id < 0 || bias.id >= vocab)
    throw Misuse("--logit-bias",
                 fmt::format("there is no token {}, expected 0 to {}", bias.id, vocab - 1));
  return bias;
}

}  // namespace

void SamplingFlags::add(Arguments& app) {
  const auto add = [&](const std::string& names, auto& value, const std::string& help,
                       const char* type) { return add_to(app, kGroup, names, value, type, help); };
  within(add("--temp", temperature_, "Temperature; 0: always the most probable token [0.8]", "T"),
         "temperature");
  within(
      add("--top-p", top_p_, "Keep the most probable tokens up to this mass; 1: off [0.95]", "P"),
      "top_p");
  within(
      add("--min-p", min_p_, "Keep tokens this probable relative to the best; 0: off [0.05]", "P"),
      "min_p");
  add("--top-k", top_k_, "Keep the K most probable tokens; 0: off [40]", "K")
      .whole_number(0, std::numeric_limits<int32_t>::max());
  add_penalties(app);
  add("-s,--seed", seed_, "Same seed, same text; -1: another one each time", "N")
      .whole_number(-1, std::numeric_limits<int64_t>::max())
      .show_default();
  add_more(app);
}

void SamplingFlags::add_penalties(Arguments& app) {
  const auto add = [&](const std::string& names, auto& value, const std::string& help,
                       const char* type) { return add_to(app, kGroup, names, value, type, help); };
  within(
      add("--repeat-penalty", repeat_penalty_, "Make recent tokens less likely; 1: off [1]", "R"),
      "repeat_penalty");
  within(add("--presence-penalty", presence_penalty_, "Take this off logits of recent tokens [0]",
             "X"),
         "presence_penalty");
  within(add("--frequency-penalty", frequency_penalty_,
             "Take this off for each time that a token is a recent one [0]", "X"),
         "frequency_penalty");
  within(add("--repeat-last-n", repeat_last_n_, "Tokens that count as recent; -1: all [64]", "N"),
         "repeat_last_n");
}

void SamplingFlags::add_more(Arguments& app) {
  const auto add = [&](const std::string& names, auto& value, const std::string& help,
                       const char* type) {
    return add_to(app, kMoreGroup, names, value, type, help);
  };
  within(
      add("--typical-p", typical_p_, "Keep tokens about as surprising as usual; 1: off [1]", "P"),
      "typical_p");
  within(add("--top-n-sigma", top_n_sigma_,
             "Keep logits within N standard deviations of the best; 0: off [0]", "N"),
         "top_n_sigma");
  within(add("--xtc-probability", xtc_probability_,
             "How often the most probable tokens are excluded (XTC); 0: off [0]", "P"),
         "xtc_probability");
  within(
      add("--xtc-threshold", xtc_threshold_, "All above it are, but the least probable [0.1]", "P"),
      "xtc_threshold");
  within(add("--dynatemp-range", dynatemp_range_,
             "The temperature follows the entropy so far; 0: off [0]", "T"),
         "dynatemp_range");
  within(add("--dynatemp-exp", dynatemp_exponent_, "To this power [1]", "X"), "dynatemp_exponent");
  within(add("--mirostat", mirostat_,
             "2: hold the surprise at a level, by mirostat 2.0; 0: off [0]", "N"),
         "mirostat");
  within(add("--mirostat-ent", mirostat_tau_, "The level in bits, tau [5]", "X"), "mirostat_tau");
  within(add("--mirostat-lr", mirostat_eta_, "How fast it is come to, eta [0.1]", "X"),
         "mirostat_eta");
  within(add("--dry-multiplier", dry_multiplier_,
             "Make tokens that go on repeating earlier text less likely (DRY); 0: off [0]", "X"),
         "dry_multiplier");
  within(add("--dry-base", dry_base_,
             "The more the longer the repetition is, by powers of it [1.75]", "X"),
         "dry_base");
  within(add("--dry-allowed-length", dry_allowed_length_,
             "Repetitions this long cost the least [2]", "N"),
         "dry_allowed_length");
  within(add("--dry-penalty-last-n", dry_last_n_, "Tokens that are looked at; -1: all [-1]", "N"),
         "dry_last_n");
  add("--dry-sequence-breaker", dry_breakers_,
      "Repetitions do not cross tokens with this text, none: they cross all;\n"
      "may be given several times [newline, colon, quote, star]",
      "TEXT");
  add("-l,--logit-bias", biases_, "Add to the logit of a token: 15043+1 or 15043-1", "ID+X");
}

SamplerOptions SamplingFlags::options(const Model& model) const {
  SamplerOptions options = recommended_sampling(model.file().metadata);
  const auto take = [](const auto& given, auto& value) { value = given.value_or(value); };
  take(temperature_, options.temperature);
  take(top_p_, options.top_p);
  take(min_p_, options.min_p);
  take(top_k_, options.top_k);
  take(repeat_penalty_, options.repeat_penalty);
  take(presence_penalty_, options.presence_penalty);
  take(frequency_penalty_, options.frequency_penalty);
  take(repeat_last_n_, options.repeat_last_n);
  take(typical_p_, options.typical_p);
  take(top_n_sigma_, options.top_n_sigma);
  take(xtc_probability_, options.xtc_probability);
  take(xtc_threshold_, options.xtc_threshold);
  take(dynatemp_range_, options.dynatemp_range);
  take(dynatemp_exponent_, options.dynatemp_exponent);
  take(mirostat_, options.mirostat);
  take(mirostat_tau_, options.mirostat_tau);
  take(mirostat_eta_, options.mirostat_eta);
  take(dry_multiplier_, options.dry_multiplier);
  take(dry_base_, options.dry_base);
  take(dry_allowed_length_, options.dry_allowed_length);
  take(dry_last_n_, options.dry_last_n);
  if (options.mirostat == 1) throw Misuse("--mirostat", "1 is not there, expected 0 or 2");
  for (const std::string& text : biases_)
    options.bias.push_back(parse_bias(text, model.config().vocab));
  if (options.dry_multiplier > 0) {
    std::vector<std::string> breakers = dry_breakers_;
    if (breakers.empty()) breakers = usual_sequence_breakers();
    std::erase(breakers, "none");
    options.dry_breakers = sequence_breakers(model.tokenizer(), model.config().vocab, breakers);
  }
  options.seed = seed_ >= 0 ? static_cast<uint64_t>(seed_) : std::random_device{}();
  return options;
}

BackendOptions SamplingFlags::backend_options() const {
  const SamplerOptions usual;
  return {.temperature = temperature_.value_or(usual.temperature),
          .top_k = top_k_.value_or(usual.top_k),
          .top_p = top_p_.value_or(usual.top_p),
          .seed = seed_ >= 0 ? static_cast<uint64_t>(seed_) : std::random_device{}()};
}

}  // namespace veery::cli
