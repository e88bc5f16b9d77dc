#include "schedule/selection/choices.h"

#include <algorithm>

#include "sample/sampler.h"

namespace veery {
namespace {

bool begins_with(std::span<const int32_t> ids, std::span<const int32_t> with) {
  return ids.size() >= with.size() && std::equal(with.begin(), with.end(), ids.begin());
}

}  // namespace

Choices::Choices(std::span<const std::vector<int32_t>> choices)
    : choices_(choices), logprobs_(choices.size()), scored_(choices.size()) {
  std::vector<std::vector<int32_t>> all;
  for (const std::vector<int32_t>& choice : choices)
    if (choice.size() > 1) all.emplace_back(choice.begin(), choice.end() - 1);
  std::ranges::sort(all);
  for (size_t i = 0; i < all.size(); ++i)
    if (i + 1 == all.size() || !begins_with(all[i + 1], all[i]))
      beginnings_.push_back(std::move(all[i]));
}

std::span<const int32_t> Choices::next(int32_t most) const {
  const std::span<const int32_t> rest = std::span(beginnings_[beginning_]).subspan(done_);
  return rest.first(std::min(rest.size(), static_cast<size_t>(most)));
}

bool Choices::ends_with(size_t tokens) const {
  return done_ + tokens == beginnings_[beginning_].size();
}

void Choices::score_after(std::span<const int32_t> before, std::span<const float> logits) {
  const double mass = log_sum_exp(logits);
  for (size_t c = 0; c < choices_.size(); ++c) {
    const std::vector<int32_t>& choice = choices_[c];
    if (scored_[c] != before.size() || scored_[c] == choice.size()) continue;
    if (!begins_with(choice, before)) continue;
    logprobs_[c] += double{logits[static_cast<size_t>(choice[scored_[c]])]} - mass;
    ++scored_[c];
  }
}

void Choices::score_prompt(std::span<const float> logits) {
  score_after({}, logits);
  scored_prompt_ = true;
}

void Choices::score(size_t i, std::span<const float> logits) {
  score_after(std::span(beginnings_[beginning_]).first(done_ + i + 1), logits);
}

void Choices::advance(size_t tokens) {
  const bool ends = ends_with(tokens);
  done_ = ends ? 0 : done_ + tokens;
  if (ends) ++beginning_;
}

}  // namespace veery
