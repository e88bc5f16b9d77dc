#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sample/sampler.h"

namespace veery {
namespace {

/// Sums over scored tokens.
struct Sums {
  double nll = 0, squares = 0;
  int64_t count = 0;

  void add(double value) {
    nll += value;
    squares += value * value;
    ++count;
  }
};

Sums score(Session& session, std::span<const int32_t> ids) {
  const auto first = ids.size() / 2;
  session.rewind(0);
  if (first > 0) session.feed(ids.first(first));
  Sums sums;
  session.feed_all(ids.subspan(first, ids.size() - 1 - first),
                   [&](int32_t position, std::span<const float> logits) {
                     const auto next = static_cast<size_t>(ids[static_cast<size_t>(position) + 1]);
                     sums.add(log_sum_exp(logits) - logits[next]);
                   });
  return sums;
}

void summarize(const Sums& sums, Perplexity& result) {
  const auto count = static_cast<double>(sums.count);
  const double mean = sums.nll / count;
  const double variance = std::max(0.0, sums.squares / count - mean * mean);
  result.tokens = sums.count;
  result.perplexity = std::exp(mean);
  result.standard_error =
      sums.count > 1 ? std::sqrt(variance / (count - 1)) * result.perplexity : 0;
}

}  // namespace

Perplexity perplexity(const Model& model, Session& session, std::span<const int32_t> ids,
                      int32_t window,
                      const std::function<void(const Perplexity&, size_t)>& progress) {
  if (window < 2)
    throw Error(ErrorKind::kInput, "a window of {} tokens, expected 2 or more", window);
  const auto size = static_cast<size_t>(window);
  const size_t windows = ids.size() / size;
  if (windows == 0)
    throw Error(ErrorKind::kInput, "the text has {} tokens, one window takes {}", ids.size(),
                window);
  const Tokenizer::Special& special = model.tokenizer().special();
  Perplexity result;
  Sums total;
  for (size_t w = 0; w < windows; ++w) {
    std::vector<int32_t> part(ids.begin() + static_cast<ptrdiff_t>(w * size),
                              ids.begin() + static_cast<ptrdiff_t>((w + 1) * size));
    if (special.add_bos && special.bos >= 0) part[0] = special.bos;
    const Sums sums = score(session, part);
    total.nll += sums.nll;
    total.squares += sums.squares;
    total.count += sums.count;
    result.window_means.push_back(sums.nll / static_cast<double>(sums.count));
    summarize(total, result);
    if (progress) progress(result, windows);
  }
  return result;
}

}  // namespace veery
