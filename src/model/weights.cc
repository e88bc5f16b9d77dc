#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/error.h"

namespace veery {
namespace {

// Parts that models of any architecture may have: frequency divisors of RoPE, and the heads that
// turn hidden states into scores and embeddings.
constexpr std::string_view kCommon[] = {"rope_freqs",     "rope_factors_short", "cls",
                                        "cls.bias",       "cls.norm",           "cls.norm.bias",
                                        "cls.output.bias"};
constexpr std::string_view kCommonByLayer[] = {"dense.*.bias"};

bool lists(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != std::ranges::end(names);
}

bool is_number(const auto& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Replaces each number between dots by "*".
std::string pattern_of(std::string_view tensor) {
  std::string pattern;
  for (const auto& part : tensor | std::views::split('.')) {
    if (!pattern.empty()) pattern += '.';
    if (is_number(part))
      pattern += '*';
    else
      pattern.append(part.begin(), part.end());
  }
  return pattern;
}

// Returns the name as in rules.
std::string rule_name(const std::string& name) {
  constexpr std::string_view kSuffix = ".weight";
  std::string pattern = pattern_of(name);
  if (pattern.ends_with(kSuffix)) pattern.resize(pattern.size() - kSuffix.size());
  return pattern;
}

}  // namespace

Weights::Weights(const WeightRules& rules, const ModelFile& file) : rules_(&rules), file_(&file) {
  for (const TensorView& tensor : file.tensors) tensors_.insert(tensor.name);
}

bool Weights::has(const std::string& scope, const std::string& name) {
  if (rules_ == nullptr) return false;
  const std::string rule = rule_name(name), tensor = scope + name;
  if (lists(rules_->required, rule)) return true;
  if (lists(rules_->by_layer, rule) || lists(kCommonByLayer, rule)) return contains(tensor);
  if (lists(rules_->optional, rule) || lists(kCommon, rule))
    return has_uniform(tensor, pattern_of(tensor));
  if (lists(rules_->together, rule))
    return has_uniform(tensor, pattern_of(scope + std::string(rules_->together.front())));
  if (contains(tensor))
    report(fmt::format("found the tensor '{}', which is not supported in {} models", tensor,
                       rules_->architecture));
  return false;
}

// The first part that is asked for decides for all layers.
bool Weights::has_uniform(const std::string& tensor, const std::string& pattern) {
  const bool present = contains(tensor);
  const auto [entry, is_first] = seen_.try_emplace(pattern, Seen{tensor, present});
  const Seen& first = entry->second;
  if (!is_first && first.present != present)
    report(fmt::format("the model has no tensor '{}', but '{}'", present ? first.tensor : tensor,
                       present ? tensor : first.tensor));
  return present;
}

void Weights::require(const std::string& tensor) {
  if (file_ != nullptr && !contains(tensor))
    report(
        fmt::format("the model has no tensor '{}', which {} needs", tensor, rules_->architecture));
}

void Weights::report(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

void Weights::check() const {
  if (!problem_.empty()) throw Error(ErrorKind::kFormat, "{}: {}", file_->path, problem_);
}

}  // namespace veery
